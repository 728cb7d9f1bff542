"""reactions.*: emoji on messages."""

from __future__ import annotations

import re
from typing import Final

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.errors import ApiError
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.world import Channel, Message
from adapters.emulators.wire_json import JsonObject

MOST: Final = 23
"""Documented: different emoji on one message, for one person."""
_NAME = re.compile(r"[a-z0-9_+'-]+(::skin-tone-[2-6])?")


def add(call: Call) -> JsonObject:
    """React as the app."""
    channel, message = _target(call)
    name = _name(call)
    own = call.platform.app.bot_user
    if own in message.reactions.get(name, []):
        raise ApiError("already_reacted")
    if sum(own in users for users in message.reactions.values()) >= MOST:
        raise ApiError("too_many_reactions")
    change_reaction(call.platform, channel, message, own, name, added=True)
    return {}


def remove(call: Call) -> JsonObject:
    """Take the app's reaction away."""
    channel, message = _target(call)
    name = _name(call)
    if call.platform.app.bot_user not in message.reactions.get(name, []):
        raise ApiError("no_reaction")
    change_reaction(call.platform, channel, message, call.platform.app.bot_user, name, added=False)
    return {}


def get(call: Call) -> JsonObject:
    """The message with its reactions."""
    channel, message = _target(call)
    return {"type": "message", "channel": channel.id, "message": call.object_of(message, channel)}


def _target(call: Call) -> tuple[Channel, Message]:
    if call.has("file") or call.has("file_comment"):
        call.violate("not_emulated", where="file")
    if not call.has("timestamp"):
        raise ApiError("no_item_specified")
    channel = call.joined()
    if channel.archived:
        raise ApiError("is_archived")
    return channel, call.message(channel, "timestamp")


def _name(call: Call) -> str:
    name = call.text("name").strip(":")
    if not _NAME.fullmatch(name):
        raise ApiError("invalid_name")
    return name


def change_reaction(
    platform: Platform, channel: Channel, message: Message, user: str, name: str, *, added: bool
) -> None:
    """Put a reaction on a message or take it away, on the screens and for the app."""
    users = message.reactions.setdefault(name, [])
    if added:
        users.append(user)
    else:
        users.remove(user)
    if not users:
        del message.reactions[name]
    platform.show("reaction", {"channel": channel.id, "ts": message.ts, "user": user, "reaction": name, "added": added})
    event: JsonObject = {
        "type": "reaction_added" if added else "reaction_removed",
        "user": user,
        "reaction": name,
        "item": {"type": "message", "channel": channel.id, "ts": message.ts},
        "item_user": message.user,
        "event_ts": platform.new_ts(),
    }
    platform.publish(event["type"], event, channel)


HANDLERS: dict[str, Handler] = {"reactions.add": add, "reactions.remove": remove, "reactions.get": get}
