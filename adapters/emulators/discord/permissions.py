"""Permissions: their bits, and who has which where. Source: docs.discord.com, "Permissions"."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from adapters.emulators.discord.world import Channel, Guild
from adapters.emulators.errors import NotKnown


class Permission(IntFlag):
    """The bits that the emulator looks at, or that its roles have."""

    ADMINISTRATOR = 1 << 3
    MANAGE_CHANNELS = 1 << 4
    ADD_REACTIONS = 1 << 6
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    USE_EXTERNAL_EMOJIS = 1 << 18
    CONNECT = 1 << 20
    CHANGE_NICKNAME = 1 << 26
    USE_APPLICATION_COMMANDS = 1 << 31
    MANAGE_THREADS = 1 << 34
    CREATE_PUBLIC_THREADS = 1 << 35
    CREATE_PRIVATE_THREADS = 1 << 36
    SEND_MESSAGES_IN_THREADS = 1 << 38


ALL: Final = (1 << 53) - 1
EVERYONE: Final = int(
    Permission.VIEW_CHANNEL
    | Permission.SEND_MESSAGES
    | Permission.READ_MESSAGE_HISTORY
    | Permission.ADD_REACTIONS
    | Permission.EMBED_LINKS
    | Permission.ATTACH_FILES
    | Permission.USE_EXTERNAL_EMOJIS
    | Permission.CHANGE_NICKNAME
    | Permission.CONNECT
    | Permission.USE_APPLICATION_COMMANDS
    | Permission.CREATE_PUBLIC_THREADS
    | Permission.CREATE_PRIVATE_THREADS
    | Permission.SEND_MESSAGES_IN_THREADS
)
"""What a new guild gives to everybody."""
INVITED: Final = int(
    Permission.VIEW_CHANNEL
    | Permission.SEND_MESSAGES
    | Permission.SEND_MESSAGES_IN_THREADS
    | Permission.CREATE_PUBLIC_THREADS
    | Permission.MANAGE_THREADS
    | Permission.ADD_REACTIONS
    | Permission.ATTACH_FILES
    | Permission.READ_MESSAGE_HISTORY
    | Permission.EMBED_LINKS
)
"""What a bot's own role has unless told otherwise."""
DIRECT: Final = int(
    Permission.VIEW_CHANNEL
    | Permission.SEND_MESSAGES
    | Permission.READ_MESSAGE_HISTORY
    | Permission.ADD_REACTIONS
    | Permission.EMBED_LINKS
    | Permission.ATTACH_FILES
    | Permission.USE_EXTERNAL_EMOJIS
    | Permission.USE_APPLICATION_COMMANDS
)
"""In a direct message."""


def named(names: list[str]) -> int:
    """Permissions by their names, upper or lower case. Raises NotKnown for one that does not exist."""
    bits = 0
    for name in names:
        if name.upper() not in Permission.__members__:
            known = ", ".join(one.lower() for one in Permission.__members__)
            raise NotKnown(f"no permission {name!r}; there are {known}")
        bits |= Permission[name.upper()]
    return bits


def in_guild(guild: Guild, user: str) -> int:
    """What a member may do in the guild as a whole; nothing if not a member."""
    member = guild.members.get(user)
    if member is None:
        return 0
    if guild.owner == user:
        return ALL
    bits = guild.roles[guild.id].permissions
    for role in member.roles:
        bits |= guild.roles[role].permissions
    return ALL if bits & Permission.ADMINISTRATOR else bits


def in_channel(guild: Guild, place: Channel, user: str) -> int:
    """What a member may do in a channel; `place` is the parent for a thread, which has no overwrites of its own."""
    bits = in_guild(guild, user)
    if bits == ALL or not bits:
        return bits
    member = guild.members[user]
    everyone = place.overwrites.get(guild.id)
    if everyone is not None:
        bits = bits & ~everyone.deny | everyone.allow
    of_roles = [place.overwrites[role] for role in member.roles if role in place.overwrites]
    for overwrite in of_roles:
        bits &= ~overwrite.deny
    for overwrite in of_roles:
        bits |= overwrite.allow
    if (own := place.overwrites.get(user)) is not None:
        bits = bits & ~own.deny | own.allow
    return bits if bits & Permission.VIEW_CHANNEL else 0
