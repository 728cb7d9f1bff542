"""Events of the gateway as `Inbound`; pure, and never an error: what is not understood is of kind OTHER.

Keys. Messages and interactions have ids of their own for ever. An edit is named by its message and instant, a deletion
by its message; what has no name at all by its number in the gateway's session, which a resumed session repeats.

Places. A thread that is opened on a message has the message's id. What is said in a channel therefore belongs to the
thread with that id already, before there is one: nothing has to be remembered until it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from adapters.contract import Inbound, InboundKind, MessageRef, Place, Quote, Sender, SenderKind
from adapters.discord import interactions
from adapters.discord.attachments import files_of
from adapters.discord.channels import Channel
from adapters.discord.payload import Payload, a_number, a_text, an_id, an_object, instant_ms, objects
from adapters.discord.senders import name_of, sender_from, sender_of
from adapters.discord.words import Me, Words, read_words

PLATFORM = "discord"

EVENTS = (
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "INTERACTION_CREATE",
    "MESSAGE_REACTION_ADD",
    "MESSAGE_REACTION_REMOVE",
    "GUILD_CREATE",
    "GUILD_DELETE",
)
"""What is read here; `MESSAGE_DELETE_BULK` is several deletions."""

# https://discord.com/developers/docs/resources/message#message-object-message-types
_SAID = (0, 19)
_FORWARD = 1
_HAS_THREAD = 1 << 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `mark` is unique within the bot: session and number. `author`: of a deleted message, if remembered."""

    name: str
    data: Payload
    mark: str
    author: Sender | None = None


def read(event: Event, channel: Channel, me: Me) -> Inbound:
    """The one thing that an event tells, which happened in this channel."""
    return _READERS.get(event.name, _other)(_Seen(event, channel, me))


@dataclass(frozen=True, slots=True)
class _Seen:
    """An event with what every reader needs of it."""

    event: Event
    channel: Channel
    me: Me

    @property
    def data(self) -> Payload:
        return self.event.data

    @property
    def place(self) -> Place:
        """The channel itself, or the thread."""
        return Place(platform=PLATFORM, account=self.me.id, chat=self.channel.chat, thread=self.channel.thread)

    def place_of(self, message_id: str) -> Place:
        """Where a message is answered: a message in a channel has its thread to come."""
        is_root = self.channel.kind == "text" and message_id
        return replace(self.place, thread=message_id) if is_root else self.place

    def ref(self, message_id: str, place: Place | None = None) -> MessageRef | None:
        if not message_id:
            return None
        there = place or self.place
        return MessageRef(platform=PLATFORM, account=self.me.id, chat=there.chat, id=message_id, thread=there.thread)

    def inbound(self, kind: InboundKind, sender: Sender, **more: Any) -> Inbound:
        told: dict[str, Any] = {
            "keys": (f"event:{self.event.mark}",),
            "place": self.place,
            "chat_kind": _chat_kind(self.channel),
            "chat_title": self.channel.name or None,
        }
        return Inbound(kind=kind, sender=sender, **{**told, **more})


def _chat_kind(channel: Channel) -> Literal["private", "group", "channel"]:
    return "private" if channel.kind == "dm" else "group"


# ------------------------------------------------------------------------------------------------------- messages


def _message(seen: _Seen) -> Inbound:
    message = seen.data
    number = an_id(message.get("id"))
    if not number or message.get("type", 0) not in _SAID:
        return replace(_other(seen), what=f"message of type {message.get('type')!r}")
    forwarded = a_number(an_object(message.get("message_reference")).get("type")) == _FORWARD
    words = Words() if forwarded else _words(message, seen.me)
    replied = {} if forwarded else an_object(message.get("referenced_message"))
    addressed = _is_addressed(seen, words, replied)
    files = files_of(message)
    if not (words.text or files or addressed or forwarded):
        return replace(_other(seen), what="a message whose content is kept from us")
    place = seen.place_of(number)
    return seen.inbound(
        InboundKind.COMMAND if words.command else InboundKind.MESSAGE,
        sender_of(message),
        keys=(f"message:{number}",),
        place=place,
        sent_at_ms=instant_ms(number),
        ref=seen.ref(number, place),
        text=words.text,
        command=words.command,
        arguments=words.arguments,
        addressed=addressed,
        forwarded=forwarded,
        files=files,
        quotes=tuple(_quotes(message, replied)),
        reply_to=seen.ref(an_id(replied.get("id"))),
    )


def _words(message: Payload, me: Me) -> Words:
    text = a_text(message.get("content"))
    stickers = [a_text(sticker.get("name")) for sticker in objects(message.get("sticker_items"))]
    return read_words(text or " ".join(f":{name}:" for name in stickers if name), me)


def _is_addressed(seen: _Seen, words: Words, replied: Payload) -> bool:
    if seen.channel.kind == "dm" or words.mentions_us:
        return True
    named = any(an_id(user.get("id")) == seen.me.id for user in objects(seen.data.get("mentions")))
    return named or an_id(an_object(replied.get("author")).get("id")) == seen.me.id


def _quotes(message: Payload, replied: Payload) -> list[Quote]:
    found = [
        Quote(source="forward", author=None, text=text)
        for one in objects(message.get("message_snapshots"))
        if (text := a_text(an_object(one.get("message")).get("content")))
    ]
    if text := a_text(replied.get("content")):
        found.append(Quote(source="reply", author=name_of(an_object(replied.get("author"))) or None, text=text))
    return found


def _edited(seen: _Seen) -> Inbound:
    """An edit of a person's; never a command, whatever it says now. Discord also tells here what it adds itself."""
    told = _message(seen)
    edited_at = a_text(seen.data.get("edited_timestamp"))
    if told.kind not in (InboundKind.MESSAGE, InboundKind.COMMAND) or not edited_at:
        return replace(_other(seen), what="a change that nobody made")
    number = an_id(seen.data.get("id"))
    changed = {"kind": InboundKind.EDIT, "keys": (f"edit:{number}:{edited_at}",), "sent_at_ms": _instant(edited_at)}
    return replace(told, **changed, command=None, arguments="")


def _instant(timestamp: str) -> int:
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def _deleted(seen: _Seen) -> Inbound:
    """A message is gone. Discord does not say who did it: it counts as its author's wish, if he is remembered."""
    number = an_id(seen.data.get("id"))
    if seen.event.author is None or not number:
        return replace(_other(seen), what="a deletion")
    place = seen.place_of(number)
    keys, ref = (f"delete:{number}",), seen.ref(number, place)
    return seen.inbound(InboundKind.DELETE, seen.event.author, keys=keys, place=place, ref=ref, addressed=False)


# --------------------------------------------------------------------------------------------------- interactions


def _interaction(seen: _Seen) -> Inbound:
    """A press, a form, or a command from the menu."""
    data = seen.data
    number, token = an_id(data.get("id")), a_text(data.get("token"))
    member = an_object(data.get("member"))
    user = an_object(member.get("user")) or an_object(data.get("user"))
    sender = sender_from(user, member, a_text(data.get("locale")))
    kind = a_number(data.get("type"))
    if not (number and token) or kind not in interactions.KINDS:
        return replace(_other(seen), sender=sender, what=f"interaction of type {data.get('type')!r}")
    common: dict[str, Any] = {
        "keys": (f"interaction:{number}",),
        "sent_at_ms": instant_ms(number),
        "handle": interactions.handle(kind, number, token),
    }
    asked = an_object(data.get("data"))
    if kind == interactions.COMMAND:
        return _menu(seen, asked, sender, common)
    message = an_object(data.get("message"))
    common["ref"] = seen.ref(an_id(message.get("id")))
    if kind == interactions.PRESS:
        return seen.inbound(InboundKind.PRESS, sender, token=a_text(asked.get("custom_id")) or None, **common)
    token, reason = interactions.filled_in(asked)
    return seen.inbound(
        InboundKind.FORM, sender, token=token or None, text=reason, fields={interactions.FIELD: reason}, **common
    )


def _menu(seen: _Seen, asked: Payload, sender: Sender, common: Mapping[str, Any]) -> Inbound:
    name, words = interactions.chosen(asked)
    place = seen.place
    target = an_id(asked.get("target_id"))
    if target and _has_thread(an_object(an_object(an_object(asked.get("resolved")).get("messages")).get(target))):
        place = seen.place_of(target)
    text = " ".join(filter(None, (f"/{name}", words)))
    return seen.inbound(InboundKind.COMMAND, sender, place=place, text=text, command=name, arguments=words, **common)


def _has_thread(message: Payload) -> bool:
    return "thread" in message or bool(a_number(message.get("flags")) & _HAS_THREAD)


# -------------------------------------------------------------------------------------------------- everything else


def _reaction(seen: _Seen) -> Inbound:
    data, member = seen.data, an_object(seen.data.get("member"))
    user = an_object(member.get("user")) or {"id": data.get("user_id")}
    number = an_id(data.get("message_id"))
    place = seen.place_of(number)
    added = seen.event.name == "MESSAGE_REACTION_ADD"
    emoji = a_text(an_object(data.get("emoji")).get("name"))
    return seen.inbound(
        InboundKind.REACTION,
        sender_from(user, member),
        place=place,
        ref=seen.ref(number, place),
        reaction=emoji or None if added else None,
        addressed=False,
    )


def _membership(seen: _Seen) -> Inbound:
    """We came into a server, or were removed; Discord does not say by whom."""
    system = Sender(kind=SenderKind.SYSTEM, id="", name="")
    joined = seen.event.name == "GUILD_CREATE"
    return seen.inbound(InboundKind.MEMBERSHIP, system, joined=joined, what="us", addressed=False)


def _other(seen: _Seen) -> Inbound:
    """What we have no use for, with whatever place and sender it seems to have."""
    sender = sender_of(seen.data)
    return seen.inbound(InboundKind.OTHER, sender, addressed=False, what=seen.event.name)


_READERS: Mapping[str, Callable[[_Seen], Inbound]] = {
    "MESSAGE_CREATE": _message,
    "MESSAGE_UPDATE": _edited,
    "MESSAGE_DELETE": _deleted,
    "INTERACTION_CREATE": _interaction,
    "MESSAGE_REACTION_ADD": _reaction,
    "MESSAGE_REACTION_REMOVE": _reaction,
    "GUILD_CREATE": _membership,
    "GUILD_DELETE": _membership,
}
