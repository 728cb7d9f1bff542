"""What `doctor` can learn about an app without changing anything."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.contract import Diagnosis
from adapters.errors import AdapterError, BadCredentials, Refused
from adapters.payload import a_text, an_object, objects
from adapters.slack.connection import Connection
from adapters.slack.manifest import SCOPES, missing_scopes, missing_settings
from adapters.slack.outbound import Request
from adapters.slack.settings import Settings
from adapters.slack.whoami import Known, who_we_are

APP_PAGE = "the app's page at api.slack.com"


async def diagnose(connection: Connection, settings: Settings) -> Sequence[Diagnosis]:
    """Look at the tokens, at the scopes, at the way in, at the app's own settings, and at the channels."""
    known = await who_we_are(connection, settings)
    return (
        *_bot(known),
        *_scopes(known),
        *await _socket(connection, settings),
        *await _app_settings(connection, settings, known),
        *await _channels(connection, known),
    )


def _bot(known: Known) -> Sequence[Diagnosis]:
    me = known.me
    named = f"This is @{me.name}, the app {me.app} in {known.team_name or me.team} ({me.home})."
    return (Diagnosis(id="slack.bot", level="note", message=named),)


def _scopes(known: Known) -> Sequence[Diagnosis]:
    """Slack lists the scopes of a token beside every answer."""
    if not known.scopes:
        return ()
    return tuple(
        Diagnosis(
            id="slack.scope",
            level="error",
            message=f"The app lacks the scope {scope}: {SCOPES[scope]}.",
            remedy=f"{APP_PAGE}: OAuth & Permissions, add {scope}, then Reinstall to Workspace",
        )
        for scope in missing_scopes(known.scopes)
    )


async def _socket(connection: Connection, settings: Settings) -> Sequence[Diagnosis]:
    """Ask for a socket, and do not open it: it would take events away from the gateway that runs."""
    if settings.mode != "socket":
        return ()
    fields = {"app_token": settings.app_token}
    try:
        await connection.call(Request(method="apps.connections.open", fields=fields))
    except Refused as error:
        message = f"Slack gives this app no socket: {error}."
        remedy = f"{APP_PAGE}: Socket Mode on; Basic Information, App-Level Tokens, one with connections:write"
        return (Diagnosis(id="slack.socket", level="error", message=message, remedy=remedy),)
    return ()


async def _app_settings(connection: Connection, settings: Settings, known: Known) -> Sequence[Diagnosis]:
    """Compare the app's own manifest with ours, which Slack shows only to a configuration token."""
    if not settings.config_token:
        message = "Which events, commands and settings the app has, Slack tells only with slack.config_token."
        remedy = "compare with `pilothouse init slack`, or set a configuration token for this check"
        return (Diagnosis(id="slack.settings_unknown", level="note", message=message, remedy=remedy),)
    fields = {"app_id": known.me.app, "token": settings.config_token}
    try:
        told = await connection.call(Request(method="apps.manifest.export", fields=fields))
    except Refused as error:
        message = f"Slack does not show the app's manifest: {error}."
        remedy = "api.slack.com/apps, Your App Configuration Tokens: generate a new one (they last twelve hours)"
        return (Diagnosis(id="slack.config_token", level="warning", message=message, remedy=remedy),)
    return tuple(
        Diagnosis(
            id="slack.manifest",
            level="error",
            message=f"The app lacks {what}.",
            remedy=f"{APP_PAGE}: {where}, or paste the manifest of `pilothouse init slack` into App Manifest",
        )
        for what, where in missing_settings(an_object(told.get("manifest")), settings.mode)
    )


async def _channels(connection: Connection, known: Known) -> Sequence[Diagnosis]:
    fields = {"types": "public_channel,private_channel", "limit": 200, "exclude_archived": True}
    try:
        told = await connection.call(Request(method="users.conversations", fields=fields))
    except AdapterError:
        return ()  # a scope is missing, which was told
    names = [f"#{a_text(one.get('name'))}" for one in objects(told.get("channels"))]
    if names:
        return (Diagnosis(id="slack.channels", level="note", message=f"The bot is in {', '.join(names[:20])}."),)
    message = "The bot is in no channel: it is heard in direct messages only."
    remedy = f"write `/invite @{known.me.name}` in a channel that it shall work in"
    return (Diagnosis(id="slack.channels", level="warning", message=message, remedy=remedy),)


def of_failure(error: AdapterError | ValueError) -> Diagnosis:
    """Why not even the first question was answered."""
    match error:
        case BadCredentials():
            told, _, asked = str(error).partition(": ask ")
            remedy = f"ask {asked}" if asked else "correct slack.bot_token, slack.app_token or slack.api_base"
            return Diagnosis(id="slack.credentials", level="error", message=told, remedy=remedy)
        case ValueError():
            return Diagnosis(id="slack.settings", level="error", message=str(error))
        case _:
            remedy = "check the network and slack.api_base"
            return Diagnosis(id="slack.unreachable", level="error", message=str(error), remedy=remedy)
