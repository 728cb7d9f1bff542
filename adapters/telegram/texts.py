"""What a view says in one message: the words, their signs and their entities; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from adapters.contract import Answer, ApprovalCard, Notice, Phase, Row, RowState, TurnCard, Verbatim
from adapters.errors import Refused
from adapters.markdown import cut_text, units_utf16
from adapters.telegram.formatted import Formatted, Run, Style, formatted, is_visible
from adapters.telegram.markup import MESSAGE_UNITS, render_runs

REPEATED = "(sent again: it may be here twice)"
END_OF_TEXT = "(end of the quoted text)"
"""The last line of what asks for a decision is ours, whatever stands above it."""
BELL = "🔔"
MAX_ROWS = 5
OUR_LINE = 300
"""UTF-16 units of a line that only tells how things go."""

Spoken: TypeAlias = TurnCard | Verbatim | ApprovalCard | Answer | Notice


def shown(view: Spoken) -> Formatted:
    """What a view says, within one message; Refused if it is too long or says nothing."""
    match view:
        case TurnCard():
            runs = _turn(view)
        case Verbatim():
            runs = [*_line(view.title), *_block(view.text), Run("\n" + END_OF_TEXT)]
        case ApprovalCard():
            runs = _approval(view)
        case Answer():
            footer = [Run("\n\n"), *_italic(short(view.footer))] if view.footer else []
            runs = [*_line(REPEATED * view.repeat), *render_runs(view.markdown), *footer]
        case Notice():
            runs = [*_line(REPEATED * view.repeat), Run(_LEVEL_SIGN[view.level] + view.text)]
        case _:
            assert_never(view)
    made = formatted(runs)
    if made.units > MESSAGE_UNITS:
        raise Refused(
            f"this {type(view).__name__} has {made.units} of at most {MESSAGE_UNITS} units: cut it with the adapter's "
            "markup first"
        )
    if not is_visible(made.text):
        raise Refused(f"this {type(view).__name__} has nothing in it that could be seen")
    return made


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


def _turn(card: TurnCard) -> list[Run]:
    phase = card.phase.value[:1].upper() + card.phase.value[1:]
    told = one_line(card.headline).casefold().startswith(phase.casefold())
    words = card.headline if told else " · ".join(filter(None, (phase, card.headline)))
    head = f"{_PHASE_SIGN.get(card.phase, '▸')} {words}"
    if card.phase in _OVER:
        head = " · ".join(short(part) for part in (head, *card.labels, card.footer) if part)
        return [Run("\n".join([head, *_rows(card)]))]
    counts = " · ".join(filter(None, (f"Queue: {card.queue}" * bool(card.queue), card.footer)))
    lines = [head, " · ".join(card.labels), *_rows(card), counts]
    return [Run("\n".join(short(line) for line in lines if line))]


def _rows(card: TurnCard) -> list[str]:
    """The last rows, and how many there were before. Once a turn is over it has some only where they still tell."""
    rows = card.rows[-MAX_ROWS:]
    earlier = card.earlier_rows + len(card.rows) - len(rows)
    return [*([f"+{earlier} earlier"] if earlier else []), *(short(_row(row)) for row in rows)]


def _row(row: Row) -> str:
    return f"{_ROW_SIGN[row.state]} {row.text}"


def _approval(card: ApprovalCard) -> list[Run]:
    """First and last line are ours, whatever the body says."""
    if card.outcome is not None:
        return [Run(" · ".join(filter(None, (one_line(card.outcome), one_line(card.title)))))]
    runs = [*_line(REPEATED * card.repeat), Run(f"🔐 {card.title}", (Style(type="bold"),))]
    runs += [Run("\n" + line) for line in card.lines]
    if card.body:
        runs += [Run("\n"), *_block(card.body)]
    runs += [Run(f"\n⚠ {line}") for line in card.warning.splitlines()]
    if card.mention:
        runs += [Run("\n"), *_mentions(card.mention)]
    elif card.body:
        runs.append(Run("\n" + END_OF_TEXT))
    return runs


def _mentions(people: Sequence[str]) -> list[Run]:
    """A bell for each person, by id: names are not known here, and it is the id that is notified."""
    return [
        Run(BELL, (Style(type="text_mention", number=at, user=number(person, "person")),))
        for at, person in enumerate(people)
    ]


def _line(text: str) -> list[Run]:
    return [Run(short(text) + "\n")] if text else []


def _block(text: str) -> list[Run]:
    return [Run(text, (Style(type="pre"),))]


def _italic(text: str) -> list[Run]:
    return [Run(text, (Style(type="italic"),))]


def short(line: str, units: int = OUR_LINE) -> str:
    """A line of ours in one line, cut where it would crowd out what matters."""
    line = one_line(line)
    if units_utf16(line) <= units:
        return line
    return next(cut_text(line, lambda part: units_utf16(part) < units)) + "…"


def one_line(text: str) -> str:
    """The text with every stretch of white space as one space."""
    return " ".join(text.split())


def number(text: str, what: str) -> int:
    """An id as Telegram has it; Refused if it is none."""
    try:
        return int(text)
    except ValueError:
        raise Refused(f"{text!r} is not the id of a {what} in Telegram: ids are whole numbers") from None
