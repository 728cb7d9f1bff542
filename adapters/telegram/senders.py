"""Who speaks, from what the server says and the sender cannot forge."""

from __future__ import annotations

from adapters.contract import Sender, SenderKind
from adapters.telegram.payload import Payload, a_number, a_text, an_id, an_object

# Accounts that stand for many people (https://core.telegram.org/bots/api#message, field `from`).
GROUP_ANONYMOUS_BOT = 1087968824  # an administrator who hides behind his group
CHANNEL_BOT = 136817688  # somebody who writes as his channel
TELEGRAM_SERVICE = 777000  # a post that came into the linked group by itself, and notices of Telegram


def sender_of(message: Payload) -> Sender:
    """The sender of a message: a person only if nothing else can be meant."""
    author, chat = an_object(message.get("from")), an_object(message.get("chat"))
    behind, through = an_object(message.get("sender_chat")), an_object(message.get("via_bot"))
    if behind or not author:
        hidden = bool(behind) and behind.get("id") == chat.get("id") and chat.get("type") != "channel"
        return _chat(behind or chat, SenderKind.ANONYMOUS if hidden else SenderKind.CHANNEL)
    return _user(through, SenderKind.BOT) if through else sender_from(author)


def sender_from(user: Payload) -> Sender:
    """The sender behind a user object, as presses and changes of membership have it."""
    match a_number(user.get("id")):
        case 0:
            return Sender(kind=SenderKind.SYSTEM, id="", name="")
        case n if n == GROUP_ANONYMOUS_BOT:
            kind = SenderKind.ANONYMOUS
        case n if n == CHANNEL_BOT:
            kind = SenderKind.CHANNEL
        case n if n == TELEGRAM_SERVICE:
            kind = SenderKind.SYSTEM
        case _:
            kind = SenderKind.PERSON if user.get("is_bot") is False else SenderKind.BOT
    return _user(user, kind)


def reactor_of(reaction: Payload) -> Sender:
    """Who reacted: a person, or a chat in whose name somebody did."""
    behind = an_object(reaction.get("actor_chat"))
    return _chat(behind, SenderKind.ANONYMOUS) if behind else sender_from(an_object(reaction.get("user")))


def origin_name(origin: Payload) -> str:
    """Whose text a forwarded message is, for display."""
    for field in ("sender_user", "sender_chat", "chat"):
        if named := name_of(an_object(origin.get(field))):
            return named
    return a_text(origin.get("sender_user_name"))


def name_of(someone: Payload) -> str:
    """Display name of a user or chat. Anybody can take any name: it is never compared."""
    parts = (a_text(someone.get("first_name")), a_text(someone.get("last_name")))
    return " ".join(filter(None, parts)) or a_text(someone.get("title")) or a_text(someone.get("username"))


def _user(user: Payload, kind: SenderKind) -> Sender:
    language = a_text(user.get("language_code")) or None
    return Sender(kind=kind, id=an_id(user.get("id")), name=name_of(user), language=language)


def _chat(chat: Payload, kind: SenderKind) -> Sender:
    return Sender(kind=kind, id=an_id(chat.get("id")), name=name_of(chat))
