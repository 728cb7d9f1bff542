"""conversations.*: what channels there are, who is in them, what was said."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.errors import ApiError
from adapters.emulators.slack.rendering import channel_object
from adapters.emulators.slack.world import Channel, ChannelKind, Message
from adapters.emulators.wire_json import JsonObject, is_array

PAGE: Final = 100
MOST: Final = 1000
TYPES: Final = {
    "public_channel": ChannelKind.PUBLIC,
    "private_channel": ChannelKind.PRIVATE,
    "im": ChannelKind.DIRECT,
    "mpim": ChannelKind.GROUP_DIRECT,
}


def info(call: Call) -> JsonObject:
    """One channel."""
    channel = call.channel()
    counted = call.flag("include_num_members")
    return {"channel": channel_object(channel, call.platform.app, count_members=counted)}


def list_channels(call: Call) -> JsonObject:
    """Channels that the app can see."""
    return _list(call, [one for one in call.platform.world.channels.values() if _is_visible(call, one)])


def list_own(call: Call) -> JsonObject:
    """Channels that the app, or a person, is in."""
    user = call.text("user") or call.platform.app.bot_user
    channels = [one for one in call.platform.world.channels.values() if user in one.members]
    return _list(call, [one for one in channels if _is_visible(call, one)])


def _is_visible(call: Call, channel: Channel) -> bool:
    return channel.kind is ChannelKind.PUBLIC or call.platform.in_channel(channel)


def _list(call: Call, channels: list[Channel]) -> JsonObject:
    asked = str(call.params.get("types") or "public_channel").split(",")
    if any(one.strip() not in TYPES for one in asked):
        raise ApiError("invalid_types")
    kinds = {TYPES[one.strip()] for one in asked}
    open_only = call.flag("exclude_archived")
    chosen = [one for one in channels if one.kind in kinds and not (open_only and one.archived)]
    page, cursor = _page(call, chosen)
    objects = [channel_object(one, call.platform.app, count_members=True) for one in page]
    return {"channels": objects, "response_metadata": {"next_cursor": cursor}}


def open_direct(call: Call) -> JsonObject:
    """Open a direct message."""
    given = call.params.get("users")
    users = given.split(",") if isinstance(given, str) else given if is_array(given) else []
    if call.has("channel"):
        channel = call.channel()
    elif not users:
        raise ApiError("users_list_not_supplied")
    elif len(users) > 1:
        # Group direct messages exist once somebody made them with `add_chat`.
        raise ApiError("method_not_supported_for_channel_type")
    else:
        channel = _direct_with(call, users[0])
    body = channel_object(channel, call.platform.app) if call.flag("return_im") else {"id": channel.id}
    return {"channel": body}


def _direct_with(call: Call, user: Any) -> Channel:
    found = call.platform.world.users.get(user) if isinstance(user, str) else None
    if found is None:
        raise ApiError("user_not_found")
    if found.deleted:
        raise ApiError("user_disabled")
    if found.is_bot:
        raise ApiError("cannot_dm_bot")
    return call.platform.direct(found.id)


def join(call: Call) -> JsonObject:
    """Join a public channel."""
    channel = call.channel()
    if channel.kind is not ChannelKind.PUBLIC:
        raise ApiError("method_not_supported_for_channel_type")
    if channel.archived:
        raise ApiError("is_archived")
    already = call.platform.in_channel(channel)
    channel.members[call.platform.app.bot_user] = None
    body: JsonObject = {"channel": channel_object(channel, call.platform.app)}
    return body | ({"warning": "already_in_channel"} if already else {})


def leave(call: Call) -> JsonObject:
    """Leave a channel."""
    channel = call.channel()
    if channel.kind is ChannelKind.DIRECT:
        raise ApiError("method_not_supported_for_channel_type")
    if not call.platform.in_channel(channel):
        return {"not_in_channel": True}
    del channel.members[call.platform.app.bot_user]
    return {}


def members(call: Call) -> JsonObject:
    """Who is in a channel."""
    page, cursor = _page(call, list(call.channel().members))
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def history(call: Call) -> JsonObject:
    """Messages outside of threads, and those that were broadcast from one; newest first."""
    channel = call.joined()
    top = [one for one in channel.messages.values() if not one.is_reply or one.subtype == "thread_broadcast"]
    page, cursor = _page(call, list(reversed(_in_time(call, top))))
    return _messages(call, channel, page, cursor)


def replies(call: Call) -> JsonObject:
    """A thread with its root, oldest first."""
    channel = call.joined()
    found = channel.messages.get(call.text("ts"))
    if found is None:
        raise ApiError("thread_not_found")
    root = found.thread_ts or found.ts
    thread = [one for one in channel.messages.values() if root in (one.ts, one.thread_ts)]
    first = [one for one in thread if one.ts == root]
    rest = _in_time(call, [one for one in thread if one.ts != root])
    page, cursor = _page(call, [*first, *rest])
    return _messages(call, channel, page, cursor)


def _messages(call: Call, channel: Channel, page: Sequence[Message], cursor: str) -> JsonObject:
    body: JsonObject = {
        "messages": [call.object_of(one, channel) for one in page],
        "has_more": bool(cursor),
        "response_metadata": {"next_cursor": cursor},
    }
    return body


def _in_time(call: Call, messages: list[Message]) -> list[Message]:
    inclusive = call.flag("inclusive")
    oldest, latest = _instant(call, "oldest"), _instant(call, "latest")

    def fits(message: Message) -> bool:
        at = _number(message.ts)
        if inclusive and at in (oldest, latest):
            return True
        return (oldest is None or at > oldest) and (latest is None or at < latest)

    return [one for one in messages if fits(one)]


def _instant(call: Call, name: str) -> int | None:
    given = call.text(name)
    if not given or given == "0":
        return None
    try:
        return _number(given)
    except ValueError as error:
        raise ApiError(f"invalid_ts_{name}") from error


def _number(ts: str) -> int:
    """Microseconds: two timestamps that differ in the last digit are the same float."""
    seconds, _, rest = ts.partition(".")
    return int(seconds) * 1_000_000 + int(rest.ljust(6, "0")[:6])


def _page(call: Call, items: Sequence[Any]) -> tuple[list[Any], str]:
    limit = call.number_of("limit", PAGE, 1, MOST)
    start = _position(call.text("cursor"))
    end = start + limit
    cursor = base64.b64encode(f"next:{end}".encode()).decode() if end < len(items) else ""
    return list(items[start:end]), cursor


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        word, _, number = base64.b64decode(cursor, validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise ApiError("invalid_cursor") from error
    if word != "next" or not number.isdecimal():
        raise ApiError("invalid_cursor")
    return int(number)


HANDLERS: dict[str, Handler] = {
    "conversations.info": info,
    "conversations.list": list_channels,
    "users.conversations": list_own,
    "conversations.open": open_direct,
    "conversations.join": join,
    "conversations.leave": leave,
    "conversations.members": members,
    "conversations.history": history,
    "conversations.replies": replies,
}
