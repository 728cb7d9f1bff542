"""Views as requests of the Web API; pure.

No link is previewed, since the fetch of a preview can carry a secret away, and every message carries the key of its
delivery, by which it is found again. Text beside blocks is what notifications and old clients show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adapters.contract import (
    MessageRef,
    Place,
    Reaction,
    ThreadStatus,
    View,
)
from adapters.errors import Refused
from adapters.markdown import cut_text
from adapters.payload import Payload
from adapters.slack.markup import TEXT_LIMIT
from adapters.slack.rich import text_of
from adapters.slack.texts import Spoken, blocks_of, plain_blocks, short
from adapters.slack.words import escaped

EVENT_TYPE = "pilothouse_delivery"
MAX_SESSION_TITLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call: the method's name and its parameters."""

    method: str
    fields: dict[str, Any]


def post(place: Place, view: Spoken, key: str, *, plans: bool = True, plain: bool = False) -> Request:
    """The request that shows a view in a place; `plain`: in sections of plain text."""
    blocks = plain_blocks(view) if plain else blocks_of(view, plans=plans)
    return message(place, blocks, key)


def message(place: Place, blocks: Sequence[Payload], key: str) -> Request:
    """A new message of ours."""
    quiet = {"unfurl_links": False, "unfurl_media": False}  # an edit has no such parameters, and previews nothing
    fields = {**where(place), **_body(blocks), **quiet, "metadata": metadata(key)}
    return Request(method="chat.postMessage", fields=fields)


def edit(ref: MessageRef, view: View, *, plans: bool = True, plain: bool = False) -> Request:
    """The request that makes a message show a view; buttons that the view does not have go."""
    spoken = spoken_of(view)
    blocks = plain_blocks(spoken) if plain else blocks_of(spoken, plans=plans)
    return Request(method="chat.update", fields={"channel": ref.chat, "ts": ref.id, **_body(blocks)})


def replace_text(ref: MessageRef, blocks: Sequence[Payload]) -> Request:
    """The request that makes a message show these blocks."""
    return Request(method="chat.update", fields={"channel": ref.chat, "ts": ref.id, **_body(blocks)})


def spoken_of(view: View) -> Spoken:
    """The view, if it is words in a message; Refused otherwise."""
    if isinstance(view, Spoken):
        return view
    raise Refused(f"a message cannot be edited into a {type(view).__name__}")


def private(place: Place, person: str, text: str) -> Request:
    """Words that only one person sees. Nobody can edit them, and they are gone when the client is loaded again."""
    fields = {**where(place), "user": person, "text": _cut(escaped(text))}
    return Request(method="chat.postEphemeral", fields=fields)


def where(place: Place) -> Payload:
    """Channel and thread as sends take them."""
    return {"channel": place.chat} if place.thread is None else {"channel": place.chat, "thread_ts": place.thread}


def metadata(key: str) -> Payload:
    """What a message carries for us alone (https://docs.slack.dev/messaging/message-metadata)."""
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key}}


def _body(blocks: Sequence[Payload]) -> Payload:
    """Text and blocks as sends and edits both take them. An edit without blocks would take them away."""
    text = _cut(escaped(text_of(blocks))) or "…"
    return {"text": text, "blocks": list(blocks)}


def _cut(text: str) -> str:
    """Within what an edit takes; no entity is cut in two."""
    if len(text) <= TEXT_LIMIT:
        return text
    part = next(cut_text(text, lambda one: len(one) < TEXT_LIMIT))
    head, mark, tail = part.rpartition("&")
    return (head if mark and ";" not in tail else part) + "…"


# ------------------------------------------------------------------------------------------------------------ marks

MARKS = {"accepted": "eyes", "steered": "fast_forward", "queued": "hourglass_flowing_sand"}


def reactions(view: Reaction, before: str | None) -> tuple[Request, ...]:
    """The requests that leave this mark of ours on a message, and no other. `before`: the one that may be there."""
    name = MARKS.get(view.mark)
    gone = [one for one in ([before] if before else list(MARKS.values()) if name is None else []) if one != name]
    on = {"channel": view.ref.chat, "timestamp": view.ref.id}
    removed = [Request(method="reactions.remove", fields={**on, "name": one}) for one in gone]
    added = [Request(method="reactions.add", fields={**on, "name": name})] if name else []
    return (*added, *removed)


def status(place: Place, view: ThreadStatus) -> Request:
    """The state of a session. The title counts only where the session begins."""
    fields: dict[str, Any] = {"channel_id": place.chat, "thread_ts": place.thread, "status": view.state}
    if view.title:
        fields["title"] = short(view.title, MAX_SESSION_TITLE)
    return Request(method="agents.sessions.setStatus", fields=fields)


def rename(place: Place, title: str) -> Request:
    """Another title for a session that goes on."""
    fields = {"channel_id": place.chat, "thread_ts": place.thread, "title": short(title, MAX_SESSION_TITLE)}
    return Request(method="agents.sessions.rename", fields=fields)
