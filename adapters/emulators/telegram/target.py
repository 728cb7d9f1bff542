"""Where a call points: the chat and the right to touch it, the message, the thread, the reply."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from adapters.emulators.telegram.bots import Bot
from adapters.emulators.telegram.call import Call, to_integer
from adapters.emulators.telegram.errors import bad_request, forbidden, too_many_requests
from adapters.emulators.telegram.keyboard import ReplyMarkup, read_markup
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.text import read_text
from adapters.emulators.telegram.world import ADMINS, PRESENT, Chat, ChatType, MemberStatus, Message
from adapters.emulators.wire_json import JsonObject, is_integer, is_object

MAX_QUOTE: Final = 1024


class Access(IntEnum):
    """What a method wants of a chat."""

    READ = 0
    EDIT = 1
    WRITE = 2


def find_chat(platform: Platform, bot: Bot, reference: str, access: Access) -> Chat:
    """The chat that a `chat_id` names, if the bot may use it so. Raises ApiError 400 or 403."""
    if not reference:
        raise bad_request("chat_id is empty")
    if reference.startswith("@"):
        chat = platform.world.find_public(reference)
    else:
        chat = platform.world.find_chat(to_integer(reference), bot.id)
    if chat is None:
        raise _unknown(platform, bot, reference)
    _check_access(platform, bot, chat, access)
    return chat


def _unknown(platform: Platform, bot: Bot, reference: str) -> Exception:
    """A person the bot can see in a group but who never started it is known, and yet cannot be written to."""
    user = to_integer(reference)
    met = any(user in chat.members and chat.status_of(bot.id) in PRESENT for chat in platform.world.groups.values())
    if user > 0 and met:
        return forbidden("bot can't initiate conversation with a user")
    return bad_request("chat not found")


def _check_access(platform: Platform, bot: Bot, chat: Chat, access: Access) -> None:
    match chat.type:
        case ChatType.PRIVATE:
            _check_private(platform, chat, access)
        case ChatType.GROUP:
            _check_group(bot, chat, access)
        case ChatType.SUPERGROUP | ChatType.CHANNEL:
            _check_supergroup(bot, chat, access)


def _check_private(platform: Platform, chat: Chat, access: Access) -> None:
    if access is Access.READ:
        return
    user = platform.world.user(chat.id)
    if user.deactivated:
        raise forbidden("user is deactivated")
    if chat.blocked:
        raise forbidden("bot was blocked by the user")
    if user.is_bot:
        raise forbidden("bot can't send messages to the bot")
    if not chat.opened:
        raise forbidden("bot can't initiate conversation with a user")


def _check_group(bot: Bot, chat: Chat, access: Access) -> None:
    if chat.migrated_to is not None and access is Access.WRITE:
        raise bad_request("group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": chat.migrated_to})
    status = chat.status_of(bot.id)
    if chat.migrated_to is None and access is not Access.READ and status not in PRESENT:
        kicked = status is MemberStatus.KICKED
        raise forbidden("bot was kicked from the group chat" if kicked else "bot is not a member of the group chat")


def _check_supergroup(bot: Bot, chat: Chat, access: Access) -> None:
    kind, status = chat.type.value, chat.status_of(bot.id)
    if status is MemberStatus.KICKED:
        raise forbidden(f"bot was kicked from the {kind} chat")
    if status not in PRESENT and (chat.username is None or access is not Access.READ):
        raise forbidden(f"bot is not a member of the {kind} chat")
    if access is not Access.WRITE:
        return
    if chat.type is ChatType.CHANNEL and not chat.has_right(bot.id, "can_post_messages"):
        raise bad_request("need administrator rights in the channel chat")
    restricted = chat.members[bot.id]
    if status is MemberStatus.RESTRICTED and "can_send_messages" not in restricted.rights:
        raise bad_request("not enough rights to send text messages to the chat")


def find_message(platform: Platform, call: Call, access: Access, what: str) -> tuple[Chat, Message]:
    """Chat and message of a call. Raises ApiError 400 `<what> not found`."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), access)
    message = chat.messages.get(call.integer("message_id"))
    if message is None:
        raise bad_request(f"{what} not found")
    return chat, message


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTo:
    """What a message answers."""

    message: int
    chat: str
    without_too: bool
    """The message is sent also if its target is gone."""
    quote: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Everything about a message but its content; read before the chat is looked up."""

    thread: int
    reply: ReplyTo | None
    markup: ReplyMarkup | None
    protected: bool


def read_envelope(call: Call) -> Envelope:
    """The common parameters of sending methods. Raises ApiError 400."""
    reply = _read_reply(call)
    return Envelope(
        thread=max(0, call.integer("message_thread_id")),
        reply=reply,
        markup=read_markup(call),
        protected=call.flag("protect_content"),
    )


def _read_reply(call: Call) -> ReplyTo | None:
    value = call.json("reply_parameters", "reply parameters JSON object")
    if value is None:
        legacy = call.integer("reply_to_message_id")
        without = call.flag("allow_sending_without_reply")
        return None if legacy <= 0 else ReplyTo(message=legacy, chat="", without_too=without, quote="", position=0)
    if not is_object(value):
        raise bad_request("Object expected as reply parameters")
    if not value:
        return None
    message = _reply_message(value.get("message_id"))
    quoted = read_text(str(value.get("quote", "")), str(value.get("quote_parse_mode", "")), value.get("quote_entities"))
    return ReplyTo(
        message=message,
        chat=str(value.get("chat_id", "")),
        without_too=value.get("allow_sending_without_reply") is True,
        quote=quoted.text,
        position=to_integer(str(value.get("quote_position", 0))),
    )


def _reply_message(value: Any) -> int:
    if value is None:
        raise bad_request('Can\'t find field "message_id"')
    number = to_integer(value) if isinstance(value, str) else value
    if not is_integer(number):
        raise bad_request('Field "message_id" must be of type Number')
    return max(0, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where in a chat a new message goes."""

    chat: Chat
    thread: int | None
    in_topic: bool
    reply_to: int | None
    quote: JsonObject | None


def place(platform: Platform, call: Call, envelope: Envelope) -> Placement:
    """Look up chat, reply and thread, in this order. Raises ApiError 400, 403 or 429."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.WRITE)
    replied = _find_replied(platform, call, chat, envelope.reply)
    thread, in_topic = find_thread(call.bot, chat, envelope.thread, replied)
    brake(platform, call.bot, chat)
    return Placement(
        chat=chat,
        thread=thread,
        in_topic=in_topic,
        reply_to=None if replied is None else replied.id,
        quote=_quote(envelope.reply, replied),
    )


def brake(platform: Platform, bot: Bot, chat: Chat) -> None:
    """Raise ApiError 429 if the bot sends faster than the knobs allow."""
    gate = platform.gates.get(bot.id)
    wait = 0 if gate is None else gate.send(chat.id, group=chat.id < 0, now=platform.clock.now())
    if wait:
        raise too_many_requests(wait)


def _find_replied(platform: Platform, call: Call, chat: Chat, reply: ReplyTo | None) -> Message | None:
    if reply is None or not reply.message:
        return None
    if reply.chat and to_integer(reply.chat) != chat.id:
        other = find_chat(platform, call.bot, reply.chat, Access.READ)
        if reply.message not in other.messages:
            raise bad_request("message to be replied not found")
        return None
    replied = chat.messages.get(reply.message)
    if replied is None and not reply.without_too:
        raise bad_request("message to be replied not found")
    return replied


def find_thread(bot: Bot, chat: Chat, wanted: int, replied: Message | None) -> tuple[int | None, bool]:
    """Thread of a new message, and whether it is a topic. Raises ApiError 400 `message thread not found`."""
    has_topics = chat.is_forum or (chat.type is ChatType.PRIVATE and bot.topics)
    if not wanted:
        return _inherited(chat, replied, has_topics=has_topics)
    if has_topics:
        topic = chat.topics.get(wanted)
        # The General topic has id 1 but is reached by giving no thread at all.
        if topic is None:
            raise bad_request("message thread not found")
        if topic.closed and not chat.has_right(bot.id, "can_manage_topics"):
            raise bad_request("TOPIC_CLOSED")
        return wanted, True
    if chat.type is not ChatType.SUPERGROUP or wanted not in chat.messages:
        raise bad_request("message thread not found")
    return wanted, False


def _inherited(chat: Chat, replied: Message | None, *, has_topics: bool) -> tuple[int | None, bool]:
    """A reply goes where the message is that it answers; in other supergroups a chain of replies is a thread."""
    if replied is None:
        return None, False
    if has_topics:
        return (replied.thread, True) if replied.in_topic and replied.thread in chat.topics else (None, False)
    if chat.type is ChatType.SUPERGROUP:
        return replied.thread or replied.id, False
    return None, False


def _quote(reply: ReplyTo | None, replied: Message | None) -> JsonObject | None:
    if reply is None or replied is None or not reply.quote:
        return None
    original = str(replied.content.get("text") or replied.content.get("caption") or "")
    if len(reply.quote) > MAX_QUOTE or reply.quote not in original:
        raise bad_request("QUOTE_TEXT_INVALID")
    return {"text": reply.quote, "position": original.index(reply.quote), "is_manual": True}


def is_admin(chat: Chat, user: int) -> bool:
    """Whether `user` administers the chat."""
    return chat.status_of(user) in ADMINS
