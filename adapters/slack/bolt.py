"""The Bolt app that every payload goes through, by whichever way it came.

Intake stands before everything else of Bolt: Bolt's listeners run after it has acknowledged, so nothing is left to
them. Which workspace a payload is for we check ourselves, so Bolt asks nobody for an authorisation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from adapters.slack.connection import web_client
from adapters.slack.identity import Me
from adapters.slack.settings import Settings

Take = Callable[[Mapping[str, Any]], Awaitable[HTTPStatus]]


def bolt_app(settings: Settings, me: Me, take: Take) -> AsyncApp:
    """An app whose first global middleware is `take`; what it answers is what Slack is told."""

    async def intake(request: AsyncBoltRequest, next: Callable[[], Awaitable[None]]) -> BoltResponse | None:
        if request.body.get("type") == "url_verification":
            await next()
            return None
        return BoltResponse(status=await take(request.body), body="")

    async def authorize() -> AuthorizeResult:
        return AuthorizeResult(enterprise_id=me.enterprise or None, team_id=me.team, bot_user_id=me.user, bot_id=me.bot)

    return AsyncApp(
        client=web_client(settings, None),
        signing_secret=settings.signing_secret,
        authorize=authorize,
        before_authorize=intake,
        # Checked before Bolt gets anything: Bolt fails on a time that is no number, and logs what it refuses.
        request_verification_enabled=False,
        ignoring_self_events_enabled=False,
        ssl_check_enabled=False,
        attaching_function_token_enabled=False,
        attaching_conversation_kwargs_enabled=False,
    )
