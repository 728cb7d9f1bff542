"""Operations about messages, their reactions, and typing."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from adapters.emulators.discord.access import has, message_of, place_of, require_awake, writable
from adapters.emulators.discord.bots import Bot
from adapters.emulators.discord.call import Call
from adapters.emulators.discord.errors import (
    ApiError,
    bad_request,
    forbidden,
    invalid_field,
    missing_permissions,
    too_many_requests,
    unknown,
)
from adapters.emulators.discord.intents import Intent, blanked
from adapters.emulators.discord.permissions import Permission
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.posting import changed, compose, fill, post, remove
from adapters.emulators.discord.reactions import add_reaction, drop_reaction
from adapters.emulators.discord.rendering import date, user_object
from adapters.emulators.discord.rules import check_message
from adapters.emulators.discord.snowflakes import instant_of
from adapters.emulators.discord.world import Channel, Message, MessageFlag, MessageType
from adapters.emulators.wire_json import JsonObject

MAX_REACTIONS: Final = 20
DEFAULT_HISTORY: Final = 50
EDITABLE_BY_OTHERS: Final = frozenset({"flags"})
MODERATES: Final = Permission.MANAGE_THREADS
BULK_AGE: Final = 14 * 86_400.0


def shown(platform: Platform, bot: Bot, message: Message, *, fresh: bool = False) -> JsonObject:
    """A message as the API answers with it: blank for a bot whose application may not read contents."""
    body = platform.render.message(message, platform.cdn(bot), bot.id, fresh=fresh)
    if bot.granted & Intent.MESSAGE_CONTENT:
        return body
    place = platform.world.channels[message.channel]
    body = blanked(body | {"channel_type": int(place.type)}, bot.id)
    body.pop("channel_type")
    return body


# -- writing


def create_message(platform: Platform, call: Call) -> JsonObject:
    place = writable(platform, call.bot, call.path["channel_id"])
    if (call.bot.id, place.recipient) in platform.world.blocked:
        raise forbidden(50007, "Cannot send messages to this user")
    if place.thread is not None and place.thread.locked and not has(platform, call.bot, place, MODERATES):
        require_awake(place)
    if call.uploads and not has(platform, call.bot, place, Permission.ATTACH_FILES):
        raise missing_permissions()
    check_message(call.given, call.uploads, platform.knobs)
    earlier = _earlier(platform, call, place)
    if earlier is not None:
        return shown(platform, call.bot, earlier, fresh=True)
    reference = _answered(platform, call, place)
    message = compose(
        platform,
        place,
        call.bot.id,
        call.given,
        call.uploads,
        type=MessageType.DEFAULT if reference is None else MessageType.REPLY,
        reference=reference,
    )
    post(platform, message)
    _remember(platform, call, place, message)
    return shown(platform, call.bot, message, fresh=True)


def _earlier(platform: Platform, call: Call, place: Channel) -> Message | None:
    """The message that was sent with this nonce, if the bot wants that checked.

    One that was deleted meanwhile is not made again: ApiError 10008 (discord/discord-api-docs#6647).
    """
    nonce = call.given.get("nonce")
    if nonce is None or not call.given.get("enforce_nonce"):
        return None
    at, message = call.bot.nonces.get((place.id, str(nonce)), (0.0, ""))
    if platform.clock.now() - at >= platform.knobs.nonce_window:
        return None
    if message not in place.messages:
        raise unknown(10008)
    return place.messages[message]


def _remember(platform: Platform, call: Call, place: Channel, message: Message) -> None:
    if message.nonce is not None:
        call.bot.nonces[place.id, str(message.nonce)] = (platform.clock.now(), message.id)


def _answered(platform: Platform, call: Call, place: Channel) -> JsonObject | None:
    wanted: JsonObject | None = call.given.get("message_reference")
    if wanted is None:
        return None
    if wanted.get("type"):
        platform.violate(call.bot, "not_emulated", {"what": "forwarding a message"}, call.number)
        raise bad_request(50035, "Invalid Form Body")
    if not has(platform, call.bot, place, Permission.READ_MESSAGE_HISTORY):
        raise bad_request(160002, "Cannot reply without permission to read message history")
    answered = place.messages.get(str(wanted["message_id"]))
    if answered is not None and not answered.ephemeral:
        body: JsonObject = {"type": 0, "channel_id": place.id, "message_id": answered.id}
        return body | ({"guild_id": place.guild} if place.guild is not None else {})
    if wanted.get("fail_if_not_exists") is False:
        return None
    raise invalid_field(["message_reference"], "REPLIES_UNKNOWN_MESSAGE", "Unknown message")


def update_message(platform: Platform, call: Call) -> JsonObject:
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"])
    place = platform.world.channels[message.channel]
    require_awake(place)
    if message.author != call.bot.id:
        if call.given.keys() - EDITABLE_BY_OTHERS or place.guild is None:
            raise forbidden(50005, "Cannot edit a message authored by another user")
        place_of(platform, call.bot, place.id, Permission.MANAGE_MESSAGES)
    check_message(call.given, call.uploads, platform.knobs, edited=message)
    _count_old_edit(platform, place, message)
    fill(platform, place, message, call.given, call.uploads)
    message.flags &= ~MessageFlag.LOADING
    changed(platform, message)
    return shown(platform, call.bot, message)


def _count_old_edit(platform: Platform, place: Channel, message: Message) -> None:
    now = platform.clock.now()
    if now - message.at < platform.knobs.old_message_age:
        return
    limit, seconds = platform.knobs.old_message_edits
    place.old_edits = [at for at in place.old_edits if at > now - seconds]
    if len(place.old_edits) >= limit:
        words = "Maximum number of edits to messages older than 1 hour reached. Please try again later."
        left = place.old_edits[0] + seconds - now
        raise too_many_requests(left, scope="shared", code=30046, message=words)
    place.old_edits.append(now)


def delete_message(platform: Platform, call: Call) -> None:
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"])
    require_awake(platform.world.channels[message.channel])
    _require_deletable(platform, call, message)
    remove(platform, message)


def _require_deletable(platform: Platform, call: Call, message: Message) -> None:
    place = platform.world.channels[message.channel]
    if message.author == call.bot.id:
        return
    if place.guild is None:
        raise forbidden(50003, "Cannot execute action on a DM channel")
    place_of(platform, call.bot, place.id, Permission.MANAGE_MESSAGES)


def bulk_delete_messages(platform: Platform, call: Call) -> None:
    place = place_of(platform, call.bot, call.path["channel_id"], Permission.MANAGE_MESSAGES)
    wanted = [str(one) for one in call.given["messages"]]
    if any(platform.clock.now() - instant_of(one) > BULK_AGE for one in wanted):
        raise bad_request(50034, "You can only bulk delete messages that are under 14 days old.")
    gone = [place.messages[one] for one in wanted if one in place.messages]
    for message in gone:
        remove(platform, message, told=False)
    body: JsonObject = {"ids": [one.id for one in gone], "channel_id": place.id, "guild_id": place.guild}
    platform.tell("MESSAGE_DELETE_BULK", place, body)


# -- reading


def get_message(platform: Platform, call: Call) -> JsonObject:
    needs = Permission.READ_MESSAGE_HISTORY
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"], needs)
    return shown(platform, call.bot, message)


def list_messages(platform: Platform, call: Call) -> list[JsonObject]:
    place = place_of(platform, call.bot, call.path["channel_id"])
    if not has(platform, call.bot, place, Permission.READ_MESSAGE_HISTORY):
        return []
    known = [message for message in place.messages.values() if not message.ephemeral]
    newest_first = sorted(known, key=lambda one: int(one.id), reverse=True)
    return [shown(platform, call.bot, one) for one in _window(newest_first, call.query)]


def _window(newest_first: list[Message], query: JsonObject) -> list[Message]:
    """The part that is asked for; `around`, `before` and `after` exclude each other, the first of them counts."""
    limit = int(query.get("limit", DEFAULT_HISTORY))
    if "around" in query:
        middle = int(query["around"])
        newer = [one for one in newest_first if int(one.id) > middle][-(limit // 2) :] if limit > 1 else []
        older = [one for one in newest_first if int(one.id) <= middle]
        return newer + older[: limit - len(newer)]
    if "before" in query:
        return [one for one in newest_first if int(one.id) < int(query["before"])][:limit]
    if "after" in query:
        # The oldest ones after it, newest first all the same.
        return [one for one in newest_first if int(one.id) > int(query["after"])][-limit:]
    return newest_first[:limit]


def trigger_typing_indicator(platform: Platform, call: Call) -> JsonObject | None:
    place = writable(platform, call.bot, call.path["channel_id"])
    now = platform.clock.now()
    call.bot.typing[place.id] = now + platform.knobs.typing_life
    platform.show("typing", place.id, {"user_id": call.bot.id})
    body: JsonObject = {"channel_id": place.id, "user_id": call.bot.id, "timestamp": int(now)}
    platform.tell("TYPING_START", place, body | ({"guild_id": place.guild} if place.guild is not None else {}))
    return None


# -- pins


def create_pin(platform: Platform, call: Call) -> None:
    _pin(platform, call, True)


def delete_pin(platform: Platform, call: Call) -> None:
    _pin(platform, call, False)


def _pin(platform: Platform, call: Call, pinned: bool) -> None:
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"])
    place = platform.world.channels[message.channel]
    if place.guild is not None:
        place_of(platform, call.bot, place.id, Permission.MANAGE_MESSAGES)
    message.pinned = pinned
    changed(platform, message, edited=False)


def list_pins(platform: Platform, call: Call) -> JsonObject:
    place = place_of(platform, call.bot, call.path["channel_id"])
    pinned = [message for message in place.messages.values() if message.pinned]
    items = [{"pinned_at": date(one.at), "message": shown(platform, call.bot, one)} for one in pinned]
    return {"items": items, "has_more": False}


# -- reactions


def add_my_message_reaction(platform: Platform, call: Call) -> None:
    emoji = _emoji(call)
    message = message_of(
        platform, call.bot, call.path["channel_id"], call.path["message_id"], Permission.READ_MESSAGE_HISTORY
    )
    place = platform.world.channels[message.channel]
    require_awake(place)
    if emoji not in message.reactions:
        place_of(platform, call.bot, place.id, Permission.ADD_REACTIONS)
        if len(message.reactions) >= MAX_REACTIONS:
            raise forbidden(30010, f"Maximum number of reactions reached ({MAX_REACTIONS})")
    add_reaction(platform, message, emoji, call.bot.id)


def delete_my_message_reaction(platform: Platform, call: Call) -> None:
    emoji = _emoji(call)
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"])
    require_awake(platform.world.channels[message.channel])
    drop_reaction(platform, message, emoji, call.bot.id)


def delete_user_message_reaction(platform: Platform, call: Call) -> None:
    emoji = _emoji(call)
    message = message_of(
        platform, call.bot, call.path["channel_id"], call.path["message_id"], Permission.MANAGE_MESSAGES
    )
    drop_reaction(platform, message, emoji, call.path["user_id"])


def delete_all_message_reactions(platform: Platform, call: Call) -> None:
    message = message_of(
        platform, call.bot, call.path["channel_id"], call.path["message_id"], Permission.MANAGE_MESSAGES
    )
    message.reactions.clear()
    place = platform.world.channels[message.channel]
    body: JsonObject = {"channel_id": place.id, "message_id": message.id}
    platform.show("reaction", place.id, {"message_id": message.id, "emoji": None})
    platform.tell(
        "MESSAGE_REACTION_REMOVE_ALL", place, body | ({"guild_id": place.guild} if place.guild is not None else {})
    )


def list_message_reactions_by_emoji(platform: Platform, call: Call) -> list[JsonObject]:
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"])
    users = message.reactions.get(_emoji(call), [])
    after, limit = int(call.query.get("after", 0)), int(call.query.get("limit", 25))
    found = sorted(int(user) for user in users if int(user) > after)
    return [user_object(platform.world.users[str(user)]) for user in found[:limit]]


def _emoji(call: Call) -> str:
    """An emoji of an address in one spelling. Raises ApiError 10014 for what is none."""
    text = unquote(call.path["emoji_name"])
    name, separator, number = text.partition(":")
    if separator and not (name and number.isdecimal()):
        raise unknown(10014)
    if not separator and (text.isascii() or len(text) > 16):
        raise ApiError(400, 10014, "Unknown Emoji")
    return quote(text, safe=":")


HANDLERS = {
    "create_message": create_message,
    "update_message": update_message,
    "delete_message": delete_message,
    "bulk_delete_messages": bulk_delete_messages,
    "get_message": get_message,
    "list_messages": list_messages,
    "trigger_typing_indicator": trigger_typing_indicator,
    "create_pin": create_pin,
    "deprecated_create_pin": create_pin,
    "delete_pin": delete_pin,
    "deprecated_delete_pin": delete_pin,
    "list_pins": list_pins,
    "add_my_message_reaction": add_my_message_reaction,
    "delete_my_message_reaction": delete_my_message_reaction,
    "delete_user_message_reaction": delete_user_message_reaction,
    "delete_all_message_reactions": delete_all_message_reactions,
    "list_message_reactions_by_emoji": list_message_reactions_by_emoji,
}
