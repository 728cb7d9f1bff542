"""The card of a bounded loop, and what is said at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adapters.contract import (
    Answer,
    Control,
    Markup,
    MessageRef,
    Notice,
    Phase,
    Row,
    RowState,
    Style,
    TurnCard,
    View,
)
from gateway.ledger.surfaces import Letter, payload
from gateway.strings import say
from gateway.views.card import WORDS, notes
from gateway.views.loop import LoopProgress
from gateway.views.messages import answer
from gateway.views.show import plain
from gateway.views.turn import SessionState
from gateway.views.words import counters, duration
from runtime.protocol import events
from runtime.protocol.loops import LoopStatus

MAX_ROWS = 5
LOOP_CHOICES = f"{Letter.LOOP_AFTER}{Letter.LOOP_NOW}"
LOST_CHOICES = f"{Letter.LOOP_ON}{Letter.LOOP_LEAVE}"

_PHASES = {
    LoopStatus.COMPLETED: Phase.DONE,
    LoopStatus.FAILED: Phase.FAILED,
    LoopStatus.RECOVERY_UNSUPPORTED: Phase.INTERRUPTED,
}


def loop_card(
    state: SessionState,
    now_ms: int,
    *,
    token: str | None = None,
    labels: tuple[str, ...] = (),
    who: str | None = None,
    with_cost: bool = False,
) -> TurnCard:
    """The card of the session's loop: one line for each finished iteration, and what the running one does.

    `token` gives it its stops; `who` is the name of whoever ended it.
    """
    loop = state.loop
    assert loop is not None, "only a loop has this card"
    if loop.end is not None:
        return _last_card(loop, loop.end, who, with_cost, labels)
    turn = state.iteration
    phase = turn.phase if turn is not None else Phase.WORKING if loop.index else Phase.STARTING
    rows, earlier = _rows(state, loop, now_ms)
    tools = loop.tool_calls + (turn.tool_calls if turn else 0)
    usage = loop.usage + turn.usage if turn else loop.usage
    stops = token is not None and phase is not Phase.STOPPING
    return TurnCard(
        phase=phase,
        headline=_headline(loop, phase, now_ms),
        rows=rows,
        earlier_rows=earlier,
        queue=len(state.waiting),
        labels=labels,
        footer=" · ".join(counters(tools, usage, with_cost=False)),
        controls=loop_controls(token, after=not loop.stopping) if stops and token is not None else (),
    )


def _headline(loop: LoopProgress, phase: Phase, now_ms: int) -> str:
    """As that of a turn: while it waits for a person nothing is edited, so no time is shown."""
    parts = [say(WORDS[phase]), iteration_words(loop)]
    return " · ".join(parts if phase is Phase.WAITING else [*parts, duration(now_ms - loop.started_at_ms)])


def iteration_words(loop: LoopProgress) -> str:
    """`iteration 3 of 10`."""
    return say("loop.iteration", n=max(loop.index, min(loop.completed + 1, loop.max_iterations)), m=loop.max_iterations)


def _rows(state: SessionState, loop: LoopProgress, now_ms: int) -> tuple[tuple[Row, ...], int]:
    """What the running iteration does stands last; finished ones have the room that is left."""
    turn = state.iteration
    now = [] if turn is None else [*(line.row for line in turn.lines[-1:]), *notes(turn, now_ms)]
    if loop.recovered and not any(row.text == say("card.recovered") for row in now):
        now.append(Row(state=RowState.NOTE, text=say("card.recovered")))
    if loop.stopping:
        now.append(Row(state=RowState.NOTE, text=say("loop.stops_after")))
    room = max(1, MAX_ROWS - len(now))
    finished = [Row(state=RowState.DONE, text=line) for line in loop.lines[-room:]]
    return (*finished, *now), loop.earlier + len(loop.lines) - len(finished)


def loop_controls(token: str, *, after: bool = True) -> tuple[Control, ...]:
    """[Stop after this iteration], unless that was asked for already, and [Stop now]."""
    now = Control(label=say("control.loop_now"), token=payload(token, Letter.LOOP_NOW), style=Style.DANGER)
    if not after:
        return (now,)
    return (Control(label=say("control.loop_after"), token=payload(token, Letter.LOOP_AFTER)), now)


def _last_card(
    loop: LoopProgress, end: events.LoopEnded, who: str | None, with_cost: bool, labels: tuple[str, ...]
) -> TurnCard:
    assert loop.ended_at_ms is not None
    phase = _PHASES.get(LoopStatus(end.status), Phase.STOPPED)
    word = say("card.stopped_by", who=who) if phase is Phase.STOPPED and who else say(WORDS[phase])
    parts = [word, *_why(end), _how_far(loop), duration(loop.ended_at_ms - loop.started_at_ms)]
    parts += counters(loop.tool_calls, loop.usage, with_cost=with_cost)
    rows = tuple(Row(state=RowState.DONE, text=line) for line in loop.lines)
    return TurnCard(
        phase=phase, headline=" · ".join(parts), rows=rows, earlier_rows=loop.earlier, labels=labels
    )  # fmt: skip


def _why(end: events.LoopEnded) -> list[str]:
    return [say(f"loop.why.{end.reason}")] if end.reason in ("no_progress", "rounds", "tokens", "time") else []


def _how_far(loop: LoopProgress) -> str:
    """`2 of 5 iterations`, or where it ended within one."""
    if loop.index > loop.completed:
        return say("loop.in_iteration", n=loop.index, m=loop.max_iterations)
    return say("loop.iterations", n=loop.completed, m=loop.max_iterations)


# ------------------------------------------------------------------------------------------------------ its end


def loop_end(
    loop: LoopProgress, markup: Markup | None, token: str, who: str | None, reply_to: MessageRef | None
) -> tuple[tuple[View, ...], str]:
    """What is said when the loop is over, and the letters that its controls offer. It always notifies.

    An end in order brings the answer of the last iteration, which nobody has seen yet, with the end as its footer.
    """
    end = loop.end
    assert end is not None, "only a loop that is over has an end"
    match LoopStatus(end.status):
        case LoopStatus.RECOVERY_UNSUPPORTED:
            notice = Notice(text=say("loop.end.lost", where=_how_far(loop)), level="warning", reply_to=reply_to)
            return (replace(notice, controls=lost_controls(token, loop.completed + 1), notify=True),), LOST_CHOICES
        case LoopStatus.FAILED:
            text = say("loop.end.failed", where=_how_far(loop), error=plain(end.error or say("fail.generic"), 500))
            return (Notice(text=text, level="error", reply_to=reply_to, notify=True),), ""
        case LoopStatus.CANCELLED:
            key = "loop.end.cancelled_by" if who else "loop.end.cancelled"
            return (Notice(text=say(key, where=_how_far(loop), who=who), reply_to=reply_to, notify=True),), ""
        case _:
            return _in_order(loop, _end_words(loop, end), markup, reply_to), ""


def _end_words(loop: LoopProgress, end: events.LoopEnded) -> str:
    if end.status == LoopStatus.COMPLETED:
        return say("loop.end.completed", m=loop.max_iterations)
    return say(f"loop.end.{end.reason or 'stop'}", where=_how_far(loop), rounds=end.rounds_started)


def _in_order(loop: LoopProgress, words: str, markup: Markup | None, reply_to: MessageRef | None) -> tuple[View, ...]:
    if not (loop.answer or "").strip():
        return (Notice(text=words, reply_to=reply_to, notify=True),)
    if markup is None:  # its platform is not configured now: kept whole until it is
        return (Answer(markdown=loop.answer or "", reply_to=reply_to, footer=words),)
    return _with_footer(answer(loop.answer, markup, reply_to), words)


def _with_footer(views: Sequence[View], words: str) -> tuple[View, ...]:
    last = max((n for n, view in enumerate(views) if isinstance(view, Answer)), default=None)
    if last is None:
        return (*views, Notice(text=words, notify=True))
    view = views[last]
    assert isinstance(view, Answer)
    return (*views[:last], replace(view, footer=words), *views[last + 1 :])


def lost_controls(token: str, iteration: int) -> tuple[Control, ...]:
    """[Continue from iteration n] [Leave it]."""
    return (
        Control(label=say("control.loop_on", n=iteration), token=payload(token, Letter.LOOP_ON), style=Style.PRIMARY),
        Control(label=say("control.loop_leave"), token=payload(token, Letter.LOOP_LEAVE)),
    )
