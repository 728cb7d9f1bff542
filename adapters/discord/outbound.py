"""Views as requests of the REST API; pure.

Nobody is mentioned but people named by id in a card of ours, on every path, and no link is previewed, since the fetch
of a preview can carry a secret away. Every message that is made has a nonce, under which Discord makes it once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from adapters.contract import (
    Answer,
    ApprovalCard,
    Document,
    File,
    MessageRef,
    Notice,
    Reaction,
    TurnCard,
    Verbatim,
    View,
)
from adapters.discord import components, texts
from adapters.discord.limits import MAX_FILE_BYTES, MAX_TEXT, MAX_THREAD_NAME, one_line, short
from adapters.discord.markup import escaped
from adapters.discord.payload import an_id
from adapters.errors import Refused

Spoken: TypeAlias = TurnCard | Verbatim | ApprovalCard | Answer | Notice

# https://discord.com/developers/docs/resources/message#message-object-message-flags
SUPPRESS_EMBEDS, SILENT, COMPONENTS_V2 = 1 << 2, 1 << 12, 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: verb, path as a template with `ids` for it, JSON, and at most one file beside it."""

    verb: str
    path: str
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    file: Upload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that is sent with a message."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message before it is known into which channel it goes. `reply_to`: what it answers, if that is there."""

    fields: Mapping[str, Any]
    reply_to: MessageRef | None = None
    file: Upload | None = None


# ----------------------------------------------------------------------------------------------------------- views


def message(view: Spoken | Document) -> Message:
    """The message that shows a view. Refused, naming the view, if it does not fit or says nothing."""
    if isinstance(view, Document):
        return upload(view, view.text.encode("utf-8", "replace"))
    fields = _fields(view)
    silent = SILENT if _is_silent(view) else 0
    return Message(fields={**fields, "flags": fields["flags"] | silent}, reply_to=_reply_to(view))


def upload(view: Document | File, content: bytes) -> Message:
    """The message that brings a file. Refused if it is empty or larger than Discord takes."""
    if not content:
        raise Refused(f"the file {view.name!r} is empty, which Discord does not take")
    if len(content) > MAX_FILE_BYTES:
        raise Refused(f"{view.name!r} has {len(content)} bytes, and Discord takes {MAX_FILE_BYTES}")
    name = one_line(view.name)[-200:] or "file"
    fields = {
        "content": short(escaped(view.caption), MAX_TEXT),
        "attachments": [{"id": 0, "filename": name}],
        "flags": SUPPRESS_EMBEDS,
        "allowed_mentions": _mentions(()),
    }
    return Message(fields=fields, reply_to=view.reply_to, file=Upload(name=name, content=content))


def changed(view: View) -> Message:
    """What an edit sets; buttons that the view does not have go. Refused for what no message can be edited into."""
    if not isinstance(view, TurnCard | Verbatim | ApprovalCard | Answer | Notice):
        raise Refused(f"a message cannot be edited into a {type(view).__name__}")
    return Message(fields=_fields(view))


def changed_card(view: Answer | Notice) -> Message:
    """The same for a message that is a card already, and can never be a plain one again."""
    parts = texts.as_card(texts.content(view), components.rows(view.controls))
    return Message(
        fields={"components": parts, "flags": COMPONENTS_V2 | SUPPRESS_EMBEDS, "allowed_mentions": _mentions(())}
    )


def _fields(view: Spoken) -> dict[str, Any]:
    match view:
        case Notice() if not texts.is_short(view):
            parts = texts.as_card(texts.words(view), components.rows(view.controls))
            return {"components": parts, "flags": COMPONENTS_V2 | SUPPRESS_EMBEDS, "allowed_mentions": _mentions(())}
        case Answer() | Notice():
            rows = components.rows(view.controls)
            return {
                "content": texts.content(view),
                "components": rows,
                "flags": SUPPRESS_EMBEDS,
                "allowed_mentions": _mentions(()),
            }
        case _:
            people = view.mention if isinstance(view, ApprovalCard) and view.outcome is None else ()
            return {
                "components": texts.card(view),
                "flags": COMPONENTS_V2 | SUPPRESS_EMBEDS,
                "allowed_mentions": _mentions(people),
            }


def _mentions(people: Sequence[str]) -> dict[str, Any]:
    return {"parse": [], "users": [texts.person(one) for one in people], "replied_user": False}


def _reply_to(view: Spoken) -> MessageRef | None:
    return view.reply_to if isinstance(view, Answer | Notice) else None


def _is_silent(view: Spoken) -> bool:
    match view:
        case TurnCard() | Verbatim():
            return True
        case Answer(notify=notify) | Notice(notify=notify):
            return not notify
        case ApprovalCard():
            return view.outcome is not None


# -------------------------------------------------------------------------------------------------------- requests


def nonce_of(key: str) -> str:
    """The name of a delivery, within the 25 characters of a nonce."""
    return base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest())[:24].decode()


def create(channel: str, made: Message, key: str, *, reply_to: str | None = None) -> Request:
    """Make the message; under the same key not twice within some minutes."""
    fields = {**made.fields, "nonce": nonce_of(key), "enforce_nonce": True}
    if reply_to is not None:
        fields["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return Request(
        verb="POST", path="/channels/{channel_id}/messages", ids={"channel_id": channel}, body=fields, file=made.file
    )


def edit(channel: str, number: str, made: Message) -> Request:
    """Change the message."""
    ids = {"channel_id": channel, "message_id": number}
    return Request(verb="PATCH", path="/channels/{channel_id}/messages/{message_id}", ids=ids, body=dict(made.fields))


def typing(channel: str) -> Request:
    """A sign of life of ten seconds."""
    return Request(verb="POST", path="/channels/{channel_id}/typing", ids={"channel_id": channel})


def history(channel: str, *, after: str | None = None, limit: int = 100) -> Request:
    """Messages of a channel: those after one, or the last ones; Discord gives 100 at most, and the newest first."""
    query = {"limit": limit, **({"after": after} if after else {})}
    return Request(verb="GET", path="/channels/{channel_id}/messages", ids={"channel_id": channel}, query=query)


def fetch(channel: str, number: str) -> Request:
    """One message."""
    ids = {"channel_id": channel, "message_id": number}
    return Request(verb="GET", path="/channels/{channel_id}/messages/{message_id}", ids=ids)


def thread_on(channel: str, number: str, name: str) -> Request:
    """Open a thread on a message; it gets the message's id."""
    ids = {"channel_id": channel, "message_id": number}
    path = "/channels/{channel_id}/messages/{message_id}/threads"
    return Request(verb="POST", path=path, ids=ids, body={"name": thread_name(name)})


def rename(channel: str, name: str) -> Request:
    """Give a thread another name."""
    ids = {"channel_id": channel}
    return Request(verb="PATCH", path="/channels/{channel_id}", ids=ids, body={"name": thread_name(name)})


def thread_name(words: str) -> str:
    """The first words as a name."""
    return short(words, 60)[:MAX_THREAD_NAME] or "Conversation"


# Any emoji can be set, so each mark has its own; a person sees the newest state of his message.
MARKS: Mapping[str, str] = {"accepted": "👀", "steered": "⏩", "queued": "⏳", "none": ""}


def mark(channel: str, number: str, emoji: str, *, there: bool) -> Request:
    """Set a mark of ours, or take it away; doing it again does no harm."""
    ids = {"channel_id": channel, "message_id": number, "emoji": emoji}
    path = "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me"
    return Request(verb="PUT" if there else "DELETE", path=path, ids=ids)


def callback(number: str, token: str, body: Mapping[str, Any]) -> Request:
    """The one answer to an interaction."""
    ids = {"webhook_id": number, "webhook_token": token}
    return Request(verb="POST", path="/interactions/{webhook_id}/{webhook_token}/callback", ids=ids, body=dict(body))


def snowflake(text: str, what: str) -> str:
    """An id as Discord has it; Refused if it is none."""
    if not an_id(text):
        raise Refused(f"{text!r} is not the id of a {what} in Discord: ids are whole numbers")
    return text


def marks_to_remove(view: Reaction, former: str | None) -> tuple[str, ...]:
    """Marks of ours that a new one takes the place of; `former` is None where it is not remembered."""
    wanted = MARKS[view.mark]
    if former is not None:
        return (former,) if former and former != wanted else ()
    if view.mark == "accepted":
        return ()  # it is the first that a message gets
    return tuple(emoji for emoji in MARKS.values() if emoji not in ("", wanted))
