"""Finding what an operation is about, with Discord's errors for what is not there and what the bot may not do."""

from __future__ import annotations

from typing import Final

from adapters.emulators.discord.bots import Bot
from adapters.emulators.discord.errors import ApiError, bad_request, missing_access, missing_permissions, unknown
from adapters.emulators.discord.permissions import Permission
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.world import THREADS, WRITABLE, Channel, Guild, Message

NOTHING: Final = Permission(0)


def place_of(platform: Platform, bot: Bot, channel: str, needs: Permission = NOTHING) -> Channel:
    """A channel that the bot sees and where it has the permissions. Raises ApiError 10003, 50001 or 50013."""
    place = platform.world.channels.get(channel)
    if place is None or (place.guild is None and place.bot != bot.id):
        raise unknown(10003)
    if not platform.sees(bot, place):
        raise missing_access()
    if needs & ~platform.render.permissions(place, bot.id):
        raise missing_permissions()
    return place


def writable(platform: Platform, bot: Bot, channel: str) -> Channel:
    """A channel where the bot may write. Raises ApiError."""
    place = place_of(platform, bot, channel)
    if place.type not in WRITABLE:
        raise bad_request(50008, "Cannot send messages in a non-text channel")
    needed = Permission.SEND_MESSAGES_IN_THREADS if place.type in THREADS else Permission.SEND_MESSAGES
    return place_of(platform, bot, channel, needed)


def message_of(platform: Platform, bot: Bot, channel: str, message: str, needs: Permission = NOTHING) -> Message:
    """A message in the channel's history. Raises ApiError 10003, 10008, 50001 or 50013."""
    place = place_of(platform, bot, channel, needs)
    found = place.messages.get(message)
    if found is None or found.ephemeral:
        raise unknown(10008)
    return found


def require_awake(place: Channel) -> None:
    """Raise ApiError 50083 for an archived thread."""
    if place.thread is not None and place.thread.archived:
        raise ApiError(400, 50083, "Thread is archived")


def guild_of(platform: Platform, bot: Bot, guild: str) -> Guild:
    """A guild that the bot is in. Raises ApiError 10004."""
    found = platform.world.guilds.get(guild)
    if found is None or bot.id not in found.members:
        raise unknown(10004)
    return found


def has(platform: Platform, bot: Bot, place: Channel, needs: Permission) -> bool:
    """Whether the bot has all these permissions there."""
    return not needs & ~platform.render.permissions(place, bot.id)
