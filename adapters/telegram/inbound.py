"""Updates of the Bot API as `Inbound`; pure, and never an error: what is not understood is of kind OTHER.

Keys. The server numbers updates, but after a week without any it begins at a random number, so a number alone may come
again for something new. A message is named by its chat and id, a press by its own id, and everything else by the
number together with a digest of the whole update, which the server repeats byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from adapters.contract import (
    Inbound,
    InboundKind,
    MessageRef,
    Place,
    Quote,
    Sender,
    SenderKind,
)
from adapters.telegram.attachments import FILE_FIELDS, files_of
from adapters.telegram.forms import chosen, filled_in
from adapters.telegram.payload import Payload, a_number, a_text, an_id, an_object, objects
from adapters.telegram.senders import name_of, origin_name, reactor_of, sender_from, sender_of
from adapters.telegram.words import Me, Words, read_words

PLATFORM = "telegram"

# Without a list the server leaves out reactions; channel posts and other people's memberships are of no use to us.
ALLOWED_UPDATES = (
    "message",
    "edited_message",
    "callback_query",
    "message_reaction",
    "my_chat_member",
    "stopped_message_generation",
)

# What a person can send beside text; anything else in a message is a notice of the server.
_THINGS = ("location", "venue", "contact", "dice", "poll", "game", "story", "checklist", "paid_media", "rich_message")


def read(update: Mapping[str, Any], me: Me) -> Inbound:
    """The one thing that an update tells."""
    for kind, value in update.items():
        if kind != "update_id" and (body := an_object(value)):
            return _READERS.get(kind, _other)(_Update(update, kind, body, me))
    return _other(_Update(update, "", {}, me))


class _Update:
    """An update with what every reader needs of it."""

    def __init__(self, update: Mapping[str, Any], kind: str, body: Payload, me: Me) -> None:
        self.kind = kind
        self.body = body
        self.me = me
        self._whole = update

    @property
    def key(self) -> str:
        whole = json.dumps(self._whole, sort_keys=True, default=str).encode()
        return f"update:{an_id(self._whole.get('update_id'))}:{hashlib.sha256(whole).hexdigest()[:24]}"

    def place(self, message: Payload) -> Place:
        chat = an_id(an_object(message.get("chat")).get("id"))
        return Place(platform=PLATFORM, account=self.me.account, chat=chat, thread=thread_of(message))

    def ref(self, message: Payload) -> MessageRef | None:
        place, number = self.place(message), an_id(message.get("message_id"))
        if not place.chat or number in ("", "0"):
            return None
        return MessageRef(platform=PLATFORM, account=self.me.account, chat=place.chat, id=number, thread=place.thread)

    def inbound(self, kind: InboundKind, message: Payload, sender: Sender, **more: Any) -> Inbound:
        """An inbound in the chat of a message or of anything else that has a `chat`."""
        chat = an_object(message.get("chat"))
        told: dict[str, Any] = {
            "keys": (self.key,),
            "place": self.place(message),
            "chat_kind": _chat_kind(chat),
            "chat_title": a_text(chat.get("title")) or None,
            "sent_at_ms": 1000 * a_number(message.get("date")),
            "ref": self.ref(message),
        }
        return Inbound(kind=kind, sender=sender, **{**told, **more})


def thread_of(message: Payload) -> str | None:
    """The topic. In groups without topics a `message_thread_id` is a chain of replies, and General has none."""
    return an_id(message.get("message_thread_id")) or None if message.get("is_topic_message") is True else None


def _chat_kind(chat: Payload) -> Literal["private", "group", "channel"]:
    match chat.get("type"):
        case "private":
            return "private"
        case "channel":
            return "channel"
        case _:
            return "group"


# ------------------------------------------------------------------------------------------------------- messages


def _message(update: _Update) -> Inbound:
    message = update.body
    old, new = an_id(message.get("migrate_from_chat_id")), an_id(message.get("migrate_to_chat_id"))
    if old or new:
        return _migrated(update, old, new)
    content = _content(message)
    if content is None:
        return replace(_other(update), what=", ".join(sorted(set(message) - _ENVELOPE)) or update.kind)
    forwarded = "forward_origin" in message or "forward_date" in message
    words = Words() if forwarded else _words(message, update.me)
    if words.for_another:  # for nobody here, even where everything else is said to us
        return replace(_other(update), what="a command for another bot")
    replied = _replied(message)
    found = update.inbound(
        InboundKind.COMMAND if words.command else InboundKind.MESSAGE,
        message,
        sender_of(message),
        text=words.text,
        command=words.command,
        arguments=words.arguments,
        forwarded=forwarded,
        files=files_of(message),
        quotes=tuple(_quotes(message, replied, forwarded=forwarded)),
        reply_to=update.ref({"chat": message.get("chat"), **replied}) if replied else None,
        album=a_text(message.get("media_group_id")) or None,
        addressed=_is_addressed(message, words, replied, update.me),
        what=content,
    )
    fills_in = found.kind is InboundKind.MESSAGE and not forwarded and _is_ours(replied, update.me)
    return _named(filled_in(found, replied, update.me) if fills_in else found)


def _named(inbound: Inbound) -> Inbound:
    """With the key that a message has for ever, if it has an id."""
    ref = inbound.ref
    return replace(inbound, keys=(f"message:{ref.chat}:{ref.id}",)) if ref else inbound


def _edited(update: _Update) -> Inbound:
    """An edit; never a command, whatever it says now."""
    seen = _message(update)
    if seen.kind not in (InboundKind.MESSAGE, InboundKind.COMMAND, InboundKind.FORM):
        return _other(update)
    edited_at = 1000 * a_number(update.body.get("edit_date")) or seen.sent_at_ms
    changed = {"kind": InboundKind.EDIT, "keys": (update.key,), "sent_at_ms": edited_at}
    return replace(seen, **changed, command=None, arguments="", token=None, fields={})


def _migrated(update: _Update, old: str, new: str) -> Inbound:
    """The group is a supergroup now. It is told in both chats, and is the same thing in either."""
    here = update.place(update.body)
    old, new = old or here.chat, new or here.chat
    seen = update.inbound(InboundKind.CHAT_MIGRATED, update.body, sender_of(update.body))
    place = Place(platform=PLATFORM, account=here.account, chat=old)
    return replace(seen, keys=(f"migrated:{old}:{new}",), place=place, moved_to=new, ref=None)


def _content(message: Payload) -> str | None:
    """What a person sent: "text", or the kind of thing; None if it is a notice of the server."""
    for field in ("text", *FILE_FIELDS, "photo", *_THINGS, "caption"):
        if field in message:
            return field
    return None


def _words(message: Payload, me: Me) -> Words:
    if "text" in message:
        return read_words(a_text(message["text"]), objects(message.get("entities")), me)
    if "caption" in message:
        return read_words(a_text(message["caption"]), objects(message.get("caption_entities")), me)
    return Words(text=a_text(an_object(message.get("sticker")).get("emoji")))


def _replied(message: Payload) -> Payload:
    """The message that this one answers; every message in a topic answers its first one without meaning to."""
    replied = an_object(message.get("reply_to_message"))
    opens_topic = "forum_topic_created" in replied or (
        thread_of(message) is not None and replied.get("message_id") == message.get("message_thread_id")
    )
    return {} if opens_topic else replied


def _is_addressed(message: Payload, words: Words, replied: Payload, me: Me) -> bool:
    if _chat_kind(an_object(message.get("chat"))) == "private":
        return True
    return words.mentions_us or words.command is not None or _is_ours(replied, me)


def _is_ours(message: Payload, me: Me) -> bool:
    return an_object(message.get("from")).get("id") == me.id and "sender_chat" not in message


def _quotes(message: Payload, replied: Payload, *, forwarded: bool) -> list[Quote]:
    found: list[Quote] = []
    if forwarded and (text := _plain(message)):
        author = origin_name(an_object(message.get("forward_origin"))) or None
        found.append(Quote(source="forward", author=author, text=text))
    elsewhere = an_object(message.get("external_reply"))
    author = origin_name(an_object(elsewhere.get("origin"))) if elsewhere else sender_of(replied).name
    chosen = a_text(an_object(message.get("quote")).get("text"))
    if chosen:
        found.append(Quote(source="quote", author=author or None, text=chosen))
    elif text := _plain(replied):
        found.append(Quote(source="reply", author=author or None, text=text))
    return found


def _plain(message: Payload) -> str:
    return a_text(message.get("text")) or a_text(message.get("caption"))


# -------------------------------------------------------------------------------------------------- everything else


def _press(update: _Update) -> Inbound:
    """A press. One whose message cannot be seen any more, or has no chat, has no place: nothing can be bound to it."""
    query = update.body
    number = a_text(query.get("id"))
    message = an_object(query.get("message"))
    seen = message if a_number(message.get("date")) else {}
    pressed = update.inbound(
        InboundKind.PRESS,
        seen,
        sender_from(an_object(query.get("from"))),
        keys=(f"press:{number}",) if number else (update.key,),
        sent_at_ms=0,
        token=a_text(query.get("data")) or None,
        handle=number or None,
    )
    if not pressed.place.chat:
        return pressed
    buttons = (button for row in _rows(seen) for button in row if button.get("callback_data") == pressed.token)
    label = next((a_text(button.get("text")) for button in buttons), "")
    return chosen(pressed, seen, label, update.me) if label else pressed


def _rows(message: Payload) -> list[list[Payload]]:
    keyboard = an_object(message.get("reply_markup")).get("inline_keyboard")
    return [objects(row) for row in cast("list[object]", keyboard)] if isinstance(keyboard, list) else []


def _reaction(update: _Update) -> Inbound:
    old, new = objects(update.body.get("old_reaction")), objects(update.body.get("new_reaction"))
    added = [a_text(one.get("emoji")) for one in new if one not in old]
    sender = reactor_of(update.body)
    return update.inbound(InboundKind.REACTION, update.body, sender, reaction=next(filter(None, added), None))


def _membership(update: _Update) -> Inbound:
    """Somebody came or went: we ourselves (`what` is "us"), or the person whose id `what` is."""
    member = an_object(update.body.get("new_chat_member"))
    status = a_text(member.get("status"))
    joined = status in ("creator", "administrator", "member") or member.get("is_member") is True
    who = "us" if update.kind == "my_chat_member" else an_id(an_object(member.get("user")).get("id"))
    sender = sender_from(an_object(update.body.get("from")))
    return update.inbound(InboundKind.MEMBERSHIP, update.body, sender, joined=joined, what=who)


def _stopped(update: _Update) -> Inbound:
    """Stop was tapped under a draft. It is told without the person, but drafts exist in private chats only."""
    draft = update.body.get("draft_id")
    person = an_object(update.body.get("chat"))
    sender = Sender(kind=SenderKind.PERSON, id=an_id(person.get("id")), name=name_of(person))
    if person.get("type") != "private":
        sender = replace(sender, kind=SenderKind.SYSTEM)
    thread = an_id(update.body.get("message_thread_id")) or None
    found = update.inbound(InboundKind.STOP, update.body, sender, stopped=(str(draft),) if draft else ())
    return replace(found, place=replace(found.place, thread=thread))


def _other(update: _Update) -> Inbound:
    """What we have no use for, with whatever place and sender it seems to have."""
    body = update.body
    holder = body if "chat" in body else an_object(body.get("message"))
    sender = sender_of(body) if "chat" in body else sender_from(an_object(body.get("from") or body.get("user")))
    return update.inbound(InboundKind.OTHER, holder, sender, addressed=False, what=update.kind)


_ENVELOPE = frozenset({"message_id", "message_thread_id", "is_topic_message", "from", "sender_chat", "date", "chat"})
_READERS: Mapping[str, Callable[[_Update], Inbound]] = {
    "message": _message,
    "edited_message": _edited,
    "channel_post": _message,
    "edited_channel_post": _edited,
    "callback_query": _press,
    "message_reaction": _reaction,
    "my_chat_member": _membership,
    "chat_member": _membership,
    "stopped_message_generation": _stopped,
}
