"""Putting a reaction on a message and taking it away, whoever does it."""

from __future__ import annotations

from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.rendering import emoji_object, member_object
from adapters.emulators.discord.world import Message
from adapters.emulators.wire_json import JsonObject


def add_reaction(platform: Platform, message: Message, emoji: str, user: str) -> None:
    """Add a reaction; nothing happens if it is there. `emoji` is spelled as in an address."""
    users = message.reactions.setdefault(emoji, [])
    if user in users:
        return
    users.append(user)
    _tell(platform, "MESSAGE_REACTION_ADD", message, emoji, user)


def drop_reaction(platform: Platform, message: Message, emoji: str, user: str) -> None:
    """Take a reaction away; nothing happens if it is not there."""
    users = message.reactions.get(emoji, [])
    if user not in users:
        return
    users.remove(user)
    if not users:
        del message.reactions[emoji]
    _tell(platform, "MESSAGE_REACTION_REMOVE", message, emoji, user)


def _tell(platform: Platform, event: str, message: Message, emoji: str, user: str) -> None:
    place = platform.world.channels[message.channel]
    body: JsonObject = {
        "user_id": user,
        "channel_id": place.id,
        "message_id": message.id,
        "emoji": emoji_object(emoji),
        "burst": False,
        "type": 0,
    }
    shown = {name: count for name, users in message.reactions.items() if (count := len(users))}
    platform.show("reaction", place.id, {"message_id": message.id, "user_id": user, "reactions": shown})
    if event.endswith("ADD"):
        body["message_author_id"] = message.author
    if place.guild is not None:
        body["guild_id"] = place.guild
        member = platform.world.guilds[place.guild].members.get(user)
        if member is not None and event.endswith("ADD"):
            body["member"] = member_object(member, platform.world.users[user])
    platform.tell(event, place, body)
