"""What `doctor` can learn about a bot without changing anything."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.contract import Diagnosis
from adapters.discord.connection import Connection
from adapters.discord.outbound import Request
from adapters.discord.payload import Payload, a_text, objects
from adapters.discord.words import Me
from adapters.errors import AdapterError, BadCredentials, Refused, TargetGone

PORTAL = "the developer portal (discord.com/developers/applications)"

# https://discord.com/developers/docs/topics/permissions#permissions-bitwise-permission-flags
ADMINISTRATOR = 1 << 3
NEEDED = {
    "View Channels": 1 << 10,
    "Send Messages": 1 << 11,
    "Send Messages in Threads": 1 << 38,
    "Create Public Threads": 1 << 35,
    "Read Message History": 1 << 16,
    "Add Reactions": 1 << 6,
    "Attach Files": 1 << 15,
}
INVITED_WITH = sum(NEEDED.values()) | 1 << 34  # and Manage Threads, to bring back archived ones


async def diagnose(connection: Connection, me: Me) -> Sequence[Diagnosis]:
    """Look at the bot's intents, at where its interactions go, and at its rights in each server."""
    guilds = objects(await connection.call(Request(verb="GET", path="/users/@me/guilds")))
    note = Diagnosis(id="discord.bot", level="note", message=f"This is {me.name} ({me.id}).")
    return (note, *_content(connection), *_endpoint(connection), *_servers(guilds, me))


def invitation(me: Me) -> str:
    """The address under which somebody takes the bot into a server, with the rights that it needs."""
    what = f"client_id={me.application}&scope=bot+applications.commands&permissions={INVITED_WITH}"
    return f"https://discord.com/oauth2/authorize?{what}"


def _content(connection: Connection) -> Sequence[Diagnosis]:
    if connection.sees_content:
        return ()
    message = (
        "The Message Content Intent is off: in servers the bot reads only what mentions it, also in its own threads."
    )
    remedy = f"{PORTAL}: Bot, Privileged Gateway Intents, Message Content Intent; then start the gateway again"
    return (Diagnosis(id="discord.message_content", level="warning", message=message, remedy=remedy),)


def _endpoint(connection: Connection) -> Sequence[Diagnosis]:
    if not connection.endpoint:
        return ()
    message = "Discord sends presses and commands to an address of its own setting, so none of them comes to us."
    remedy = f"{PORTAL}: General Information, empty Interactions Endpoint URL"
    return (Diagnosis(id="discord.interactions_endpoint", level="error", message=message, remedy=remedy),)


def _servers(guilds: Sequence[Payload], me: Me) -> Sequence[Diagnosis]:
    if not guilds:
        message = "The bot is in no server, so nobody can write to it."
        return (Diagnosis(id="discord.servers", level="note", message=message, remedy=f"open {invitation(me)}"),)
    return [one for guild in guilds if (one := _rights(guild, me)) is not None]


def _rights(guild: Payload, me: Me) -> Diagnosis | None:
    """What the bot's roles lack in a server; a channel may take away more."""
    rights = int(a_text(guild.get("permissions")) or "0")
    missing = [name for name, bit in NEEDED.items() if not rights & (bit | ADMINISTRATOR)]
    if not missing:
        return None
    level = "error" if {"View Channels", "Send Messages"} & set(missing) else "warning"
    message = f"In {a_text(guild.get('name'))} the bot lacks {', '.join(missing)}."
    if "Create Public Threads" in missing:
        message += " Without threads it answers in the channel itself."
    remedy = f"give its role these rights (Server Settings, Roles), or open {invitation(me)}"
    return Diagnosis(id="discord.permissions", level=level, message=message, remedy=remedy)


def of_failure(error: AdapterError | ValueError) -> Diagnosis:
    """Why not even the first question was answered."""
    match error:
        case BadCredentials():
            told, _, asked = str(error).partition(": ask ")
            remedy = f"ask {asked}" if asked else "correct discord.token or discord.api_base"
            return Diagnosis(id="discord.credentials", level="error", message=told, remedy=remedy)
        case ValueError():
            return Diagnosis(id="discord.settings", level="error", message=str(error))
        case TargetGone() | Refused():
            remedy = "check discord.api_base"
            return Diagnosis(id="discord.refused", level="error", message=str(error), remedy=remedy)
        case _:
            remedy = "check the network and discord.api_base"
            return Diagnosis(id="discord.unreachable", level="error", message=str(error), remedy=remedy)
