"""What `doctor` can learn about a bot without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from adapters.contract import Diagnosis
from adapters.errors import AdapterError, BadCredentials
from adapters.telegram.connection import Connection
from adapters.telegram.outbound import Request
from adapters.telegram.payload import Payload, a_number, a_text, an_object
from adapters.telegram.refusals import Conflict
from adapters.telegram.settings import Settings

# A poller that was cut off asks again after 1 to 5 seconds, and then cuts us off.
WATCH_SECONDS = 6


async def diagnose(connection: Connection, me: Payload, settings: Settings) -> Sequence[Diagnosis]:
    """Look at the bot's own settings, at a webhook, and whether somebody else polls."""
    if settings.mode == "webhook":
        return (*_bot(me), *await _own_webhook(connection, settings))
    webhook = await _webhook(connection)
    other = () if webhook else await _other_poller(connection, min(WATCH_SECONDS, settings.poll_seconds))
    return (*_bot(me), *webhook, *other)


def _bot(me: Payload) -> Sequence[Diagnosis]:
    named = f"This is @{a_text(me.get('username'))} ({a_text(me.get('first_name'))})."
    found = [Diagnosis(id="telegram.bot", level="note", message=named)]
    if me.get("can_read_all_group_messages") is False:
        found.append(
            Diagnosis(
                id="telegram.privacy_mode",
                level="warning",
                message="Privacy mode is on: in groups the bot gets only commands, mentions of it and answers to it.",
                remedy="nothing, if that is enough; else /setprivacy at @BotFather, then add the bot to the group "
                "again, or make it an administrator",
            )
        )
    if me.get("can_join_groups") is False:
        message, remedy = "The bot cannot be added to groups.", "/setjoingroups at @BotFather"
        found.append(Diagnosis(id="telegram.groups", level="note", message=message, remedy=remedy))
    return found


async def _webhook(connection: Connection) -> Sequence[Diagnosis]:
    hook = an_object(await connection.call(Request(method="getWebhookInfo", fields={})))
    if not a_text(hook.get("url")):
        return ()
    message = "A webhook is set for this bot, so polling gets nothing."
    remedy = "stop the program that set it, and call deleteWebhook"
    return (Diagnosis(id="telegram.webhook", level="error", message=message, remedy=remedy),)


async def _own_webhook(connection: Connection, settings: Settings) -> Sequence[Diagnosis]:
    hook = an_object(await connection.call(Request(method="getWebhookInfo", fields={})))
    url, trouble = a_text(hook.get("url")), a_text(hook.get("last_error_message"))
    if url not in ("", settings.webhook_url):
        message = f"A webhook is set for this bot that is not ours: {urlsplit(url).hostname} gets its messages."
        remedy = "stop the program that set it, or correct telegram.webhook_url"
        return (Diagnosis(id="telegram.webhook", level="error", message=message, remedy=remedy),)
    if trouble and a_number(hook.get("pending_update_count")):
        message = f"Telegram could not get through to telegram.webhook_url: {trouble}"
        remedy = "check that your reverse proxy passes its path on to telegram.webhook_listen, and that we run"
        return (Diagnosis(id="telegram.webhook_calls", level="warning", message=message, remedy=remedy),)
    return ()


async def _other_poller(connection: Connection, seconds: int) -> Sequence[Diagnosis]:
    """Poll for a while. No offset is given, so nothing is confirmed, and no kinds, so the setting stays."""
    try:
        await connection.updates(None, seconds, None, limit=1)
    except Conflict:
        message = "Another program polls with this token; only one of the two gets each message."
        remedy = "stop it, unless it is this gateway, which may be running now"
        return (Diagnosis(id="telegram.second_poller", level="warning", message=message, remedy=remedy),)
    except AdapterError as error:
        return (Diagnosis(id="telegram.polling", level="error", message=f"Polling does not work: {error}"),)
    return ()


def of_failure(error: AdapterError | ValueError) -> Diagnosis:
    """Why not even the first question was answered."""
    match error:
        case BadCredentials():
            told, _, asked = str(error).partition(": ask ")
            remedy = f"ask {asked}" if asked else "correct telegram.token or telegram.api_base"
            return Diagnosis(id="telegram.credentials", level="error", message=told, remedy=remedy)
        case ValueError():
            return Diagnosis(id="telegram.settings", level="error", message=str(error))
        case _:
            remedy = "check the network and telegram.api_base"
            return Diagnosis(id="telegram.unreachable", level="error", message=str(error), remedy=remedy)
