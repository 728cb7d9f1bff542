"""What a view says, as blocks; pure.

Words are rich text or plain text throughout, so that nothing in them is read as markup. First and last line of what
asks for a decision are ours, whatever stands between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from adapters.contract import Answer, ApprovalCard, Control, Notice, Phase, Row, RowState, Style, TurnCard, Verbatim
from adapters.errors import Refused
from adapters.markdown import cut_text, units_utf16
from adapters.payload import Payload
from adapters.slack.markup import SECTION_LIMIT, parts
from adapters.slack.rich import Run, preformatted, rich_text, section, text_of

REPEATED = "(sent again: it may be here twice)"
END_OF_TEXT = "(end of the quoted text)"
MAX_ROWS = 10
OUR_LINE = 250
"""UTF-16 units of a line that only tells how things go; a task's title has 256 characters."""
# https://docs.slack.dev/reference/block-kit/block-elements/button-element
MAX_LABEL, MAX_TOKEN = 75, 2000
MAX_BUTTONS = 25
MESSAGE_UNITS = 8000
"""What is shown of one view at most; everything that is long is cut by the markup before."""

Spoken: TypeAlias = TurnCard | Verbatim | ApprovalCard | Answer | Notice


def blocks_of(view: Spoken, *, plans: bool = True) -> list[Payload]:
    """The blocks of a view. `plans`: Slack shows plans, which some workspaces' apps are not allowed.

    Refused if it is too long, or says nothing.
    """
    match view:
        case TurnCard():
            blocks = _turn(view, plans=plans)
        case Verbatim():
            blocks = [rich_text([_line(view.title, "bold"), preformatted(view.text), _line(END_OF_TEXT, "italic")])]
        case ApprovalCard():
            blocks = [rich_text(_approval(view))]
        case Answer():
            marked = [_line(REPEATED, "italic")] if view.repeat else []
            footer = [_line(short(view.footer), "italic")] if view.footer else []
            blocks = [rich_text([*marked, *parts(view.markdown), *footer])]
        case Notice():
            marked = [_line(REPEATED, "italic")] if view.repeat else []
            blocks = [rich_text([*marked, section([Run(_LEVEL_SIGN[view.level] + view.text)])])]
        case _:
            assert_never(view)
    said = text_of(blocks)
    if not said.strip():
        raise Refused(f"this {type(view).__name__} has nothing in it that could be seen")
    if units_utf16(said) > MESSAGE_UNITS:
        raise Refused(f"this {type(view).__name__} is too long for one message: cut it with the adapter's markup first")
    return [*blocks, *buttons(controls_of(view))]


def plain_blocks(view: Spoken) -> list[Payload]:
    """The same in sections of plain text, which every surface shows."""
    said = text_of(blocks_of(view, plans=False))
    words = [
        {"type": "section", "text": {"type": "plain_text", "text": part, "emoji": False}}
        for part in cut_text(said, lambda part: units_utf16(part) <= SECTION_LIMIT)
        if part.strip()
    ]
    return [*words, *buttons(controls_of(view))]


def controls_of(view: Spoken) -> tuple[Control, ...]:
    """The buttons of a view; what is decided has none."""
    if isinstance(view, Verbatim) or (isinstance(view, ApprovalCard) and view.outcome is not None):
        return ()
    return view.controls


_LEVEL_SIGN = {"info": "", "warning": "⚠ ", "error": "✖ "}
_TASK_STATE = {
    RowState.RUNNING: "in_progress",
    RowState.DONE: "complete",
    RowState.FAILED: "error",
    RowState.SKIPPED: "pending",
    RowState.PLANNED: "pending",
    RowState.NOTE: "complete",
}
_ROW_SIGN = {
    RowState.RUNNING: "▸ ",
    RowState.DONE: "☑ ",
    RowState.FAILED: "✖ ",
    RowState.SKIPPED: "– ",
    RowState.PLANNED: "▢ ",
    RowState.NOTE: "↪ ",
}
_PHASE_SIGN = {Phase.WAITING: "🔐", Phase.DONE: "☑", Phase.FAILED: "✖", Phase.STOPPED: "⏹", Phase.INTERRUPTED: "⏹"}
_OVER = frozenset({Phase.DONE, Phase.FAILED, Phase.STOPPED, Phase.INTERRUPTED})


def task_state(row: Row) -> str:
    """The state of a row in Slack's words."""
    return _TASK_STATE[row.state]


def task_title(row: Row) -> str:
    """The words of a row: the states that Slack has no sign for keep ours."""
    sign = _ROW_SIGN[row.state] if row.state in (RowState.SKIPPED, RowState.NOTE) else ""
    return short(sign + row.text)


def _turn(card: TurnCard, *, plans: bool) -> list[Payload]:
    head = short(_headline(card))
    if card.phase in _OVER:
        line = " · ".join(short(part) for part in (head, *card.labels, card.footer) if part)
        return [rich_text([section([Run(line)])])]
    rows = card.rows[-MAX_ROWS:]
    earlier = card.earlier_rows + len(card.rows) - len(rows)
    told = (*card.labels, f"+{earlier} earlier" * bool(earlier), f"Queue: {card.queue}" * bool(card.queue), card.footer)
    line = " · ".join(short(part) for part in told if part)
    if plans and rows:
        tasks = [_task(at, row) for at, row in enumerate(rows, start=earlier)]
        return [{"type": "plan", "title": head, "tasks": tasks}, *([_context(line)] if line else [])]
    lines = [head, *(short(_ROW_SIGN[row.state] + row.text) for row in rows), line]
    return [rich_text([section([Run("\n".join(filter(None, lines)))])])]


def _headline(card: TurnCard) -> str:
    phase = card.phase.value[:1].upper() + card.phase.value[1:]
    told = one_line(card.headline).casefold().startswith(phase.casefold())
    words = card.headline if told else " · ".join(filter(None, (phase, card.headline)))
    return f"{_PHASE_SIGN.get(card.phase, '▸')} {words}"


def _task(number: int, row: Row) -> Payload:
    return {"type": "task_card", "task_id": f"row-{number}", "title": task_title(row), "status": task_state(row)}


def _context(line: str) -> Payload:
    return {"type": "context", "elements": [{"type": "plain_text", "text": line, "emoji": False}]}


def _approval(card: ApprovalCard) -> list[Payload]:
    """First and last line are ours, whatever the body says."""
    if card.outcome is not None:
        line = " · ".join(filter(None, (one_line(card.outcome), one_line(card.title))))
        return [section([Run(line)])]
    marked = [_line(REPEATED, "italic")] if card.repeat else []
    head = [Run(f"🔐 {card.title}", frozenset({"bold"})), *(Run("\n" + line) for line in card.lines)]
    body = [preformatted(card.body)] if card.body else []
    last = [Run("\n".join(f"⚠ {line}" for line in card.warning.splitlines()))] if card.warning else []
    if card.mention:
        last += [Run("\n" * bool(last) + "🔔 "), *_mentions(card.mention)]
    elif card.body:
        last.append(Run("\n" * bool(last) + END_OF_TEXT))
    return [*marked, section(head), *body, section(last)]


def _mentions(people: Sequence[str]) -> list[Run]:
    return [run for at, who in enumerate(people) for run in ([Run(" ")] * bool(at) + [Run("", user=who)])]


def _line(text: str, look: str) -> Payload:
    return section([Run(one_line(text), frozenset({"bold"}) if look == "bold" else frozenset({"italic"}))])


def buttons(controls: Sequence[Control]) -> list[Payload]:
    """A row of buttons, or none. Refused if a token is longer than what a button carries."""
    made = [_button(at, control) for at, control in enumerate(controls[:MAX_BUTTONS])]
    return [{"type": "actions", "elements": made}] if made else []


def _button(number: int, control: Control) -> Payload:
    if not 1 <= len(control.token) <= MAX_TOKEN:
        raise Refused(f"the control {control.label!r} has a token that is not of 1 to {MAX_TOKEN} characters")
    label = short(control.label, MAX_LABEL)
    made: Payload = {"type": "button", "action_id": f"control:{number}", "value": control.token, "text": _plain(label)}
    match control.style:
        case Style.PRIMARY:
            made["style"] = "primary"
        case Style.DANGER:
            made["style"] = "danger"
        case Style.NEUTRAL:
            pass
        case _:
            assert_never(control.style)
    return {**made, "confirm": _confirm(label, control.confirm)} if control.confirm else made


def _confirm(label: str, question: str) -> Payload:
    """Limits: https://docs.slack.dev/reference/block-kit/composition-objects/confirmation-dialog-object."""
    return {
        "title": _plain("Are you sure?"),
        "text": _plain(short(question, 300)),
        "confirm": _plain(short(label, 30)),
        "deny": _plain("Cancel"),
    }


def _plain(text: str) -> Payload:
    return {"type": "plain_text", "text": text or "–", "emoji": False}


def short(line: str, units: int = OUR_LINE) -> str:
    """A line of ours in one line, cut where it would crowd out what matters."""
    line = one_line(line)
    if units_utf16(line) <= units:
        return line
    return next(cut_text(line, lambda part: units_utf16(part) < units)) + "…"


def one_line(text: str) -> str:
    """The text with every stretch of white space as one space."""
    return " ".join(text.split())
