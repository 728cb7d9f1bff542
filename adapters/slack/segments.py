"""Native streams in pieces; pure.

A stream of Slack is closed about five minutes after its start, and refused as a whole when it has become too heavy, so
one text is shown in several streams: each with its own limits, and with what was open in the one before opened again.
Sources: slackapi/python-slack-sdk#1859 (five minutes); docs.slack.dev, chat.appendStream (chunks). That the weight is
about 10.6 KB, with rows counted twice, is what others measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.contract import Row, Stream
from adapters.markdown import heal, parse
from adapters.payload import Payload
from adapters.slack.texts import short, task_state, task_title

LIFE_MS = 240_000
BUDGET_BYTES = 9_000
LITTLE_ROOM = 1_000
MAX_ROWS = 48
MAX_SHOWN_ROWS = 15
"""Rows in a message that was a stream: beside them there has to be room for a part of the text."""
ROW_BYTES = 40
"""What a row weighs besides its words."""

_HALF = re.compile(r"<[^\s<>]{0,500}\Z")
_LIVE = re.compile(r"<(?=[!@#]|[a-zA-Z][a-zA-Z+.-]*:[^\s<>]*\|)")
_BREAK = "\u2060"


def settled(markdown: str, *, closed: bool) -> str:
    """What of a text can be shown now, with nothing in it that mentions or disguises.

    Text that is sent cannot be taken back, so what may yet become a mention waits for what follows it. What was settled
    of a beginning is a beginning of what is settled of the whole.
    """
    whole = markdown if closed else _HALF.sub("", markdown)
    return _LIVE.sub(f"<{_BREAK}", whole)


@dataclass(slots=True)
class Segment:
    """One stream: what was sent in it.

    `text` has what was opened again in it, `taken` is how much of it is the view's own. `left`: rows that were over in
    a stream before this one.
    """

    ts: str
    opened_at_ms: int
    text: str = ""
    taken: int = 0
    title: str = ""
    rows: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    left: frozenset[int] = frozenset()
    is_open: bool = True

    @property
    def weight(self) -> int:
        """Bytes as Slack weighs them."""
        rows = sum(ROW_BYTES + 2 * len(title.encode()) for _, title in self.rows.values())
        return len(self.text.encode()) + len(self.title.encode()) + rows

    @property
    def over(self) -> frozenset[int]:
        """Rows that need not be shown in a stream after this one."""
        return self.left | {at for at, (state, _) in self.rows.items() if state in ("complete", "error")}

    def is_old(self, now_ms: int) -> bool:
        """Slack will soon close it."""
        return now_ms - self.opened_at_ms >= LIFE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What goes into a segment next: chunks, and what it will hold then."""

    chunks: tuple[Payload, ...]
    text: str
    taken: int
    title: str
    rows: dict[int, tuple[str, str]]

    def applied_to(self, segment: Segment) -> None:
        """The chunks are there."""
        segment.text += self.text
        segment.taken += self.taken
        segment.title = self.title
        segment.rows = self.rows


def step(segment: Segment, view: Stream, rest: str, *, reopened: str = "") -> Step:
    """What of a view goes into a segment that lacks `rest` of its text: as much as the budget allows.

    `reopened` goes before the text of a new segment. A step that takes less than `rest` means that a new one begins.
    """
    rows = {at: _shown(row) for at, row in _visible(view, segment)}
    changed = [(at, row) for at, row in rows.items() if segment.rows.get(at) != row]
    title = short(view.title) if view.title else segment.title
    chunks: list[Payload] = [{"type": "plan_update", "title": title}] if title != segment.title else []
    chunks += [_task(at, state, words) for at, (state, words) in changed]
    heavier = sum(ROW_BYTES + 2 * len(words.encode()) for _, (_, words) in changed) + len(title.encode())
    room = BUDGET_BYTES - segment.weight - heavier - len(reopened.encode())
    text = _within(rest, max(0, room))
    if text:
        chunks.append({"type": "markdown_text", "text": reopened + text})
    shown = reopened + text if text else ""
    return Step(chunks=tuple(chunks), text=shown, taken=len(text), title=title, rows={**segment.rows, **rows})


def _visible(view: Stream, segment: Segment) -> list[tuple[int, Row]]:
    """Rows that a segment shows: those that it has, and the newest others, within its number and half of its weight."""
    rows = [(at, row) for at, row in enumerate(view.rows) if at not in segment.left]
    known = [(at, row) for at, row in rows if at in segment.rows]
    room = BUDGET_BYTES // 2 - sum(ROW_BYTES + 2 * len(task_title(row).encode()) for _, row in known)
    new: list[tuple[int, Row]] = []
    for at, row in reversed(rows):
        if at in segment.rows:
            continue
        room -= ROW_BYTES + 2 * len(task_title(row).encode())
        if room < 0 or len(known) + len(new) >= MAX_ROWS:
            break
        new.append((at, row))
    return sorted([*known, *new], key=lambda one: one[0])


def rows_of(view: Stream) -> dict[int, tuple[str, str]]:
    """State and words of the rows of a view, by their number."""
    return {at: _shown(row) for at, row in enumerate(view.rows)}


def plan_of(title: str, rows: Mapping[int, tuple[str, str]]) -> list[Payload]:
    """The head of a stream as a block of a message that is none any more; its newest rows."""
    if not title and not rows:
        return []
    tasks = [
        {"type": "task_card", "task_id": f"row-{at}", "title": words, "status": state}
        for at, (state, words) in sorted(rows.items())[-MAX_SHOWN_ROWS:]
    ]
    return [{"type": "plan", "title": short(title) or "…", "tasks": tasks}]


def _shown(row: Row) -> tuple[str, str]:
    return task_state(row), task_title(row)


def _task(number: int, state: str, words: str) -> Payload:
    return {"type": "task_update", "id": f"row-{number}", "title": words, "status": state}


def _within(text: str, room: int) -> str:
    """The beginning of a text that is within so many bytes, up to the end of a block or line or word if it is cut.

    In what little is left at the end of a stream no word is cut in two: a new stream has room for it.
    """
    if len(text.encode()) <= room:
        return text
    part = text.encode()[:room].decode("utf-8", "ignore")
    for end in ("\n\n", "\n", " "):
        at = part.rfind(end)
        if at > len(part) // 2:
            return part[: at + len(end)]
    return part if room >= LITTLE_ROOM else ""


def closing(text: str) -> str:
    """What ends what is open at the end of a text, so that it is whole for itself."""
    healed = heal(text)
    return healed[len(text) :] if healed.startswith(text) else ""


def reopening(text: str) -> str:
    """The line that opens a code block again in which a text ends; empty if it ends in none."""
    last = next((token for token in reversed(parse(text)) if token.nesting == 0 and token.map), None)
    if last is None or last.type != "fence" or not closing(text).strip():
        return ""
    return f"{last.markup}{last.info}\n"
