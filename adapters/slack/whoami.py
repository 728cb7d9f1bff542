"""Asking Slack who we are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from adapters.errors import BadCredentials, NotConnected, OutcomeUnknown, Refused
from adapters.payload import Payload, a_text, an_object
from adapters.slack.connection import Connection
from adapters.slack.identity import Me
from adapters.slack.outbound import Request
from adapters.slack.settings import Settings

# The third part of an app-level token is its app (xapp-1-A0123456789-…).
_APP = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Who we are, where, and which scopes the bot's token has."""

    me: Me
    team_name: str
    scopes: frozenset[str]


async def who_we_are(connection: Connection, settings: Settings) -> Known:
    """Ask. BadCredentials: the bot's token is wrong, or is none of a bot. NotConnected: nobody answered."""
    try:
        answer = await connection.ask(Request(method="auth.test", fields={}))
    except OutcomeUnknown as error:
        raise NotConnected(str(error)) from None
    except BadCredentials as error:
        raise BadCredentials(
            f"Slack does not take slack.bot_token ({error}): ask the app's page at api.slack.com for it (OAuth & "
            "Permissions)"
        ) from None
    except Refused as error:
        raise BadCredentials(f"no app answers under this token and api_base: {error}") from None
    told = answer.body
    bot = a_text(told.get("bot_id"))
    if not bot:
        raise BadCredentials("slack.bot_token is the token of a person: ask the app's page for the one of its bot")
    app = await _app(connection, settings, bot)
    return Known(me=_me(told, app, bot), team_name=a_text(told.get("team")), scopes=answer.scopes)


def _me(told: Payload, app: str, bot: str) -> Me:
    return Me(
        app=app,
        team=a_text(told.get("team_id")),
        user=a_text(told.get("user_id")),
        bot=bot,
        enterprise=a_text(told.get("enterprise_id")),
        org_wide=told.get("is_enterprise_install") is True,
        name=a_text(told.get("user")),
    )


async def _app(connection: Connection, settings: Settings, bot: str) -> str:
    """The app's id, by which we know what is meant for us."""
    if found := _APP.match(settings.app_token):
        return found[1]
    try:
        told = await connection.call(Request(method="bots.info", fields={"bot": bot}))
    except OutcomeUnknown as error:
        raise NotConnected(str(error)) from None
    except Refused as error:
        raise BadCredentials(f"the app's id cannot be learned ({error}): give the app the scope users:read") from None
    app = a_text(an_object(told.get("bot")).get("app_id"))
    if not app:
        raise BadCredentials("Slack does not say which app slack.bot_token belongs to: ask for a new one")
    return app
