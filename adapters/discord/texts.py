"""What a view says: the words of plain messages, and the components of cards; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from adapters.contract import Answer, ApprovalCard, Notice, Phase, Row, RowState, TurnCard, Verbatim
from adapters.discord.components import Component, checked, container, rows, separator, text
from adapters.discord.limits import MAX_TEXT, one_line, short
from adapters.discord.markup import block, escaped, is_visible, render
from adapters.discord.payload import an_id
from adapters.errors import Refused
from adapters.markdown import units_utf16

REPEATED = "(sent again: it may be here twice)"
END_OF_TEXT = "(end of the quoted text)"
"""The last line of what asks for a decision is ours, whatever stands above it."""
MAX_ROWS = 6
FOOTER = 200

BLURPLE, ORANGE, GREY, GREEN, RED = 0x5865F2, 0xE67E22, 0x95A5A6, 0x57F287, 0xED4245

_LEVEL_SIGN = {"info": "", "warning": "⚠ ", "error": "✖ "}
_ROW_SIGN = {
    RowState.RUNNING: "▸",
    RowState.DONE: "☑",
    RowState.FAILED: "✖",
    RowState.SKIPPED: "–",
    RowState.PLANNED: "▢",
    RowState.NOTE: "↪",
}
_PHASE_SIGN = {Phase.WAITING: "🔐", Phase.DONE: "☑", Phase.FAILED: "✖", Phase.STOPPED: "⏹", Phase.INTERRUPTED: "⏹"}
_OVER = frozenset({Phase.DONE, Phase.FAILED, Phase.STOPPED, Phase.INTERRUPTED})


def content(view: Answer | Notice) -> str:
    """The content of a plain message; Refused if it is too long or says nothing."""
    shown = words(view)
    if (units := units_utf16(shown)) > MAX_TEXT:
        raise Refused(
            f"this {type(view).__name__} has {units} of at most {MAX_TEXT} characters: cut it by the adapter's markup"
        )
    return shown


def words(view: Answer | Notice) -> str:
    """What a plain message says, however long it is; Refused if that is nothing."""
    match view:
        case Answer():
            said, footer = render(view.markdown), small(view.footer)
        case Notice():
            said, footer = _LEVEL_SIGN[view.level] + escaped(view.text), ""
        case _:
            assert_never(view)
    if not is_visible(said):
        raise Refused(f"this {type(view).__name__} has nothing in it that could be seen")
    return "\n".join(filter(None, (REPEATED * view.repeat, said, footer)))


def is_short(view: Notice) -> bool:
    """Whether it is within a plain message; what is not may be within a card."""
    return units_utf16(words(view)) <= MAX_TEXT


def card(view: TurnCard | Verbatim | ApprovalCard) -> list[Component]:
    """The components of a card, within Discord's limits; Refused if it does not fit."""
    match view:
        case TurnCard():
            parts = _turn(view)
        case Verbatim():
            title = f"**{escaped(short(view.title))}**"
            parts = [text("\n".join([title, block(view.text), escaped(END_OF_TEXT)]))]
        case ApprovalCard():
            parts = _approval(view)
        case _:
            assert_never(view)
    return checked(parts, type(view).__name__)


def small(line: str) -> str:
    """A line of ours in small letters; empty for an empty one."""
    return f"-# {escaped(short(line, FOOTER))}" if line.strip() else ""


def _turn(view: TurnCard) -> list[Component]:
    phase = view.phase.value[:1].upper() + view.phase.value[1:]
    told = one_line(view.headline).casefold().startswith(phase.casefold())
    state = view.headline if told else " · ".join(filter(None, (phase, view.headline)))
    head = f"{_PHASE_SIGN.get(view.phase, '▸')} {state}"
    if view.phase in _OVER:
        line = " · ".join(short(part) for part in (head, *view.labels, view.footer) if part)
        return [text(escaped(line)), *rows(view.controls)]
    shown = view.rows[-MAX_ROWS:]
    earlier = view.earlier_rows + len(view.rows) - len(shown)
    counts = " · ".join(filter(None, (f"Queue: {view.queue}" * bool(view.queue), view.footer)))
    lines = [f"+{earlier} earlier" * bool(earlier), *map(_row, shown)]
    parts = [f"**{escaped(short(head))}**", small(" · ".join(view.labels))]
    parts += [escaped(short(line)) for line in lines if line]
    parts.append(small(counts))
    controls = rows(view.controls)
    inside = [text("\n".join(filter(None, parts))), *([separator(), *controls] if controls else [])]
    return [container(inside, ORANGE if view.phase is Phase.WAITING else BLURPLE)]


def _row(row: Row) -> str:
    return f"{_ROW_SIGN[row.state]} {row.text}"


def _approval(view: ApprovalCard) -> list[Component]:
    """First and last line are ours, whatever the body says."""
    if view.outcome is not None:
        line = " · ".join(filter(None, (one_line(view.outcome), one_line(view.title))))
        return [text(escaped(line))]
    head = [REPEATED] * view.repeat + [f"**🔐 {escaped(view.title)}**", *map(escaped, view.lines)]
    end = [escaped(f"⚠ {line}") for line in view.warning.splitlines()]
    if view.mention:
        end.append("🔔 " + " ".join(f"<@{person(one)}>" for one in view.mention))
    elif view.body:
        end.append(escaped(END_OF_TEXT))
    parts = ["\n".join(head), *([block(view.body)] if view.body else []), "\n".join(end)]
    controls = rows(view.controls)
    inside = [*map(text, filter(None, parts)), *([separator(), *controls] if controls else [])]
    return [container(inside, ORANGE)]


def person(text: str) -> str:
    """The id of a person; Refused if it is none."""
    if not an_id(text):
        raise Refused(f"{text!r} is not the id of a person in Discord: ids are whole numbers")
    return text


def as_card(said: str, buttons: Sequence[Component]) -> list[Component]:
    """The words of a plain message as a card: a message that was one stays one, and it may say twice as much."""
    return checked([text(said), *buttons], "message")
