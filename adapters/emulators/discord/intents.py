"""Intents: which events a connection asked for, and what it may read. Source: docs.discord.com, "Gateway Intents"."""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Final

from adapters.emulators.discord.world import Channel
from adapters.emulators.wire_json import JsonObject, is_object


class Intent(IntFlag):
    """The intents that gate an emulated event."""

    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15


KNOWN_BITS: Final = 0x3331FFFF
"""Every intent that Discord has, also those without an emulated event."""
PRIVILEGED: Final = Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES | Intent.MESSAGE_CONTENT
APPLICATION_FLAGS: Final = {
    Intent.GUILD_PRESENCES: 1 << 13,
    Intent.GUILD_MEMBERS: 1 << 15,
    Intent.MESSAGE_CONTENT: 1 << 19,
}
"""How an application's `flags` show that the switch of a privileged intent is on (below 100 servers)."""

_BY_PREFIX: Final = (
    ("MESSAGE_REACTION_", Intent.GUILD_MESSAGE_REACTIONS, Intent.DIRECT_MESSAGE_REACTIONS),
    ("MESSAGE_", Intent.GUILD_MESSAGES, Intent.DIRECT_MESSAGES),
    ("TYPING_", Intent.GUILD_MESSAGE_TYPING, Intent.DIRECT_MESSAGE_TYPING),
    ("GUILD_MEMBER_", Intent.GUILD_MEMBERS, Intent(0)),
    ("GUILD_MEMBERS_", Intent(0), Intent(0)),
    ("GUILD_", Intent.GUILDS, Intent(0)),
    ("CHANNEL_", Intent.GUILDS, Intent(0)),
    ("THREAD_", Intent.GUILDS, Intent(0)),
)


def needed(event: str, place: Channel | None) -> Intent:
    """The intent that an event needs; 0 for those that everybody gets."""
    for prefix, guild, direct in _BY_PREFIX:
        if event.startswith(prefix):
            return direct if place is not None and place.guild is None else guild
    return Intent(0)


def readable(body: JsonObject, bot: str) -> bool:
    """Whether a bot without MESSAGE_CONTENT may read it: it is its own, direct, or mentions it."""
    is_direct = "guild_id" not in body and body.get("channel_type") == 1
    mentioned = any(user["id"] == bot for user in body["mentions"])
    return is_direct or mentioned or body["author"]["id"] == bot


def blanked(body: JsonObject, bot: str) -> JsonObject:
    """A message as a bot without MESSAGE_CONTENT sees it."""
    seen = dict(body)
    answered: Any = body.get("referenced_message")
    if is_object(answered):
        seen["referenced_message"] = blanked(answered | {"channel_type": body.get("channel_type")}, bot)
        seen["referenced_message"].pop("channel_type")
    if readable(body, bot):
        return seen
    return seen | {"content": "", "embeds": [], "attachments": [], "components": []}
