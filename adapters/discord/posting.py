"""Recognising a message of ours that an earlier attempt made; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adapters.discord.outbound import Request
from adapters.discord.payload import Payload, a_text, an_id, an_object, objects

CANDIDATES = 5
"""Messages of ours that nobody remembers and that may be the one in question. One is in flight in a chat at a time, so
an older one with the same words is another: were it taken for the repeat, an answer would be lost."""

# https://discord.com/developers/docs/resources/message#message-object-message-types
_SAID = (0, 19)

Words = tuple[tuple[str, str], ...]


def already_there(
    history: Sequence[Payload], request: Request, me: str, key: str, sent: Mapping[str, str]
) -> str | None:
    """The message that an earlier attempt at the request made, if history has it; `sent` are keys that we remember."""
    left = CANDIDATES
    for message in sorted(history, key=lambda one: int(an_id(one.get("id")) or 0), reverse=True):
        number = an_id(message.get("id"))
        if sent.get(number) == key:
            return number
        if (
            number in sent
            or an_id(an_object(message.get("author")).get("id")) != me
            or message.get("type") not in _SAID
        ):
            continue
        if is_the_same(message, request, me):
            return number
        left -= 1
        if not left:
            return None
    return None


def is_the_same(message: Payload, request: Request, me: str) -> bool:
    """Whether a message of the history is what the request would make.

    A nonce decides where Discord still tells it. Else the words, buttons and files must be the same, and what is
    answered: a button's token is in no other message.
    """
    body = an_object(request.body)
    if an_id(an_object(message.get("author")).get("id")) != me:
        return False
    if nonce := message.get("nonce"):
        return str(nonce) == body.get("nonce")
    return _essence(message) == _essence(body)


def _essence(message: Payload) -> tuple[str, Words, tuple[str, ...], str]:
    answered = an_id(an_object(message.get("message_reference")).get("message_id"))
    files = tuple(a_text(file.get("filename")) for file in objects(message.get("attachments")))
    content = a_text(message.get("content")).strip()
    return content, tuple(_parts(objects(message.get("components")))), files, answered


def _parts(components: Iterable[Payload]) -> Iterable[tuple[str, str]]:
    """Words and tokens, in order; what Discord adds to components does not count."""
    for component in components:
        told: tuple[Any, Any] = (component.get("content"), component.get("custom_id"))
        if any(told):
            yield a_text(told[0]).strip(), a_text(told[1])
        yield from _parts(objects(component.get("components")))
