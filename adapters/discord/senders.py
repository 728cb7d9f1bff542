"""Who speaks, from what the server says and the sender cannot forge."""

from __future__ import annotations

from adapters.contract import Sender, SenderKind
from adapters.discord.payload import Payload, a_text, an_id, an_object


def sender_of(message: Payload) -> Sender:
    """The sender of a message: a person only if nothing else can be meant."""
    author, member = an_object(message.get("author")), an_object(message.get("member"))
    if message.get("webhook_id") is not None:
        return Sender(kind=SenderKind.BOT, id=an_id(message.get("webhook_id")), name=name_of(author))
    return sender_from(author, member)


def sender_from(user: Payload, member: Payload | None = None, language: str = "") -> Sender:
    """The sender behind a user object; `member` is the same person in a server."""
    number = an_id(user.get("id"))
    if not number or user.get("system") is True:
        kind = SenderKind.SYSTEM
    else:
        kind = SenderKind.BOT if user.get("bot") is True else SenderKind.PERSON
    return Sender(kind=kind, id=number, name=name_of(user, member), language=language or None)


def name_of(user: Payload, member: Payload | None = None) -> str:
    """Display name. Anybody can take any name: it is never compared."""
    names = (an_object(member).get("nick"), user.get("global_name"), user.get("username"))
    return next((text for name in names if (text := a_text(name))), "")
