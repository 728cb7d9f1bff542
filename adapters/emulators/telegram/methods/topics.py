"""Forum topics, in supergroups and in private chats."""

from __future__ import annotations

from typing import Final

from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.rendering import topic_object
from adapters.emulators.telegram.target import Access, find_chat
from adapters.emulators.telegram.world import ICON_COLORS, Chat, ChatType, Message, Topic, without_none
from adapters.emulators.wire_json import JsonObject

MAX_NAME: Final = 128


async def create_forum_topic(platform: Platform, call: Call) -> JsonObject:
    """Open a topic; returns it. Its id is the id of the service message that tells of it."""
    chat = _forum(platform, call, "create a topic")
    name = _name(platform, call, call.text("name"))
    color = call.integer("icon_color", ICON_COLORS[0])
    if color not in ICON_COLORS:
        raise bad_request("invalid icon color specified")
    topic = open_topic(platform, chat, call.bot.id, name, color=color, emoji=call.text("icon_custom_emoji_id") or None)
    return topic_object(topic)


def open_topic(
    platform: Platform, chat: Chat, sender: int, name: str, *, color: int, emoji: str | None, implicit: bool = False
) -> Topic:
    """Make a topic and its first message."""
    created = without_none(
        name=name, icon_color=color, icon_custom_emoji_id=emoji, is_name_implicit=True if implicit else None
    )
    number = chat.counter.take()
    topic = Topic(id=number, name=name, icon_color=color, icon_emoji=emoji, implicit=implicit)
    chat.topics[number] = topic
    note(platform, chat, topic, sender, {"forum_topic_created": created}, number=number)
    return topic


def note(
    platform: Platform, chat: Chat, topic: Topic, sender: int, content: JsonObject, *, number: int | None = None
) -> Message:
    """Post a service message into a topic."""
    message = Message(
        id=number if number is not None else chat.counter.take(),
        date=platform.date(),
        content=content,
        sender=sender,
        thread=topic.id,
        in_topic=True,
    )
    return platform.post(chat, message)


async def edit_forum_topic(platform: Platform, call: Call) -> bool:
    """Rename a topic or change its icon."""
    chat, topic = _topic(platform, call)
    name = _name(platform, call, call.text("name")) if call.has("name") else topic.name
    emoji = (call.text("icon_custom_emoji_id") or None) if call.has("icon_custom_emoji_id") else topic.icon_emoji
    if (name, emoji) == (topic.name, topic.icon_emoji):
        raise bad_request("TOPIC_NOT_MODIFIED")
    change_topic(platform, chat, topic, call.bot.id, name=name, emoji=emoji)
    return True


def change_topic(platform: Platform, chat: Chat, topic: Topic, sender: int, *, name: str, emoji: str | None) -> Message:
    """Give a topic a new name or icon and tell of it."""
    edited = without_none(
        name=name if name != topic.name else None,
        icon_custom_emoji_id=(emoji or "") if emoji != topic.icon_emoji else None,
    )
    topic.name, topic.icon_emoji, topic.implicit = name, emoji, False
    return note(platform, chat, topic, sender, {"forum_topic_edited": edited})


async def close_forum_topic(platform: Platform, call: Call) -> bool:
    """Close a topic of a supergroup."""
    return _set_closed(platform, call, closed=True)


async def reopen_forum_topic(platform: Platform, call: Call) -> bool:
    """Open a closed topic again."""
    return _set_closed(platform, call, closed=False)


def _set_closed(platform: Platform, call: Call, *, closed: bool) -> bool:
    chat, topic = _topic(platform, call)
    if chat.type is ChatType.PRIVATE:
        raise bad_request("the chat is not a forum")
    if topic.closed is closed:
        raise bad_request("TOPIC_NOT_MODIFIED")
    topic.closed = closed
    note(platform, chat, topic, call.bot.id, {"forum_topic_closed" if closed else "forum_topic_reopened": {}})
    return True


async def delete_forum_topic(platform: Platform, call: Call) -> bool:
    """Remove a topic together with its messages."""
    chat, topic = _topic(platform, call, right="can_delete_messages")
    remove_topic(platform, chat, topic)
    return True


def remove_topic(platform: Platform, chat: Chat, topic: Topic) -> None:
    """Remove a topic together with its messages; bots are not told."""
    del chat.topics[topic.id]
    for message in [message for message in chat.messages.values() if message.thread == topic.id]:
        del chat.messages[message.id]
    platform.show("topic_deleted", chat, {"thread": topic.id})


def _forum(platform: Platform, call: Call, deed: str, right: str = "can_manage_topics") -> Chat:
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.WRITE)
    is_forum = call.bot.topics if chat.type is ChatType.PRIVATE else chat.is_forum
    if not is_forum:
        raise bad_request("the chat is not a forum")
    if chat.type is not ChatType.PRIVATE and not chat.has_right(call.bot.id, right):
        raise bad_request(f"not enough rights to {deed}")
    return chat


def _topic(platform: Platform, call: Call, right: str = "can_manage_topics") -> tuple[Chat, Topic]:
    chat = _forum(platform, call, "manage topics", right)
    topic = chat.topics.get(call.integer("message_thread_id"))
    if topic is None:
        raise bad_request("TOPIC_ID_INVALID")
    return chat, topic


def _name(platform: Platform, call: Call, name: str) -> str:
    """The name as the server keeps it. It cuts a long one silently, so that is recorded as a violation."""
    cleaned = " ".join(name.split())
    if not cleaned:
        raise bad_request("Title must be non-empty")
    if len(cleaned) > MAX_NAME:
        platform.violate(call.bot, "limit", {"method": call.method, "name": cleaned, "limit": MAX_NAME}, call.number)
    return cleaned[:MAX_NAME]
