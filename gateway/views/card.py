"""The card of a turn."""

from __future__ import annotations

from adapters.contract import Control, Phase, Row, RowState, Style, TurnCard
from gateway.ledger.surfaces import Letter, payload
from gateway.strings import say
from gateway.views.show import plain
from gateway.views.turn import SessionState, TurnState
from gateway.views.words import counters, duration, tools

WORDS = {
    Phase.STARTING: "card.starting",
    Phase.THINKING: "card.thinking",
    Phase.WORKING: "card.working",
    Phase.WAITING: "card.waiting",
    Phase.STOPPING: "card.stopping",
    Phase.DONE: "card.done",
    Phase.FAILED: "card.failed",
    Phase.STOPPED: "card.stopped",
    Phase.INTERRUPTED: "card.interrupted",
}


def label_lines(workspace: str | None, origin: str | None) -> tuple[str, ...]:
    """Both labels of a session, as its first card and its approvals show them."""
    named = (("card.workspace", workspace), ("card.origin", origin))
    return tuple(say(key, label=plain(label, 80)) for key, label in named if label)


def turn_card(
    state: SessionState,
    now_ms: int,
    *,
    token: str | None = None,
    labels: tuple[str, ...] = (),
    who: str | None = None,
    with_cost: bool = False,
    go_on: str | None = None,
) -> TurnCard:
    """The card of the session's turn. `token` gives it its Stop; `who` is the name of whoever ended it.

    One that was stopped says what had been finished; the token `go_on` lets it offer to go on.
    """
    turn = state.turn
    assert turn is not None, "only a turn has a card"
    if turn.over:
        return _last_card(turn, who, with_cost, labels, go_on)
    controls = () if token is None or turn.stopping else (stop_control(token),)
    lines, earlier = turn.visible
    return TurnCard(
        phase=turn.phase,
        headline=_headline(turn, now_ms),
        rows=(*(line.row for line in lines), *notes(turn, now_ms)),
        earlier_rows=earlier,
        queue=len(state.waiting),
        labels=labels,
        footer=" · ".join(counters(turn.tool_calls, turn.usage, with_cost=False)),
        controls=controls,
    )


def _headline(turn: TurnState, now_ms: int) -> str:
    """What it does and for how long; while it waits for a person nothing is edited, so no time is shown."""
    word = say(WORDS[turn.phase])
    return word if turn.phase is Phase.WAITING else f"{word} · {duration(now_ms - turn.started_at_ms)}"


def stop_control(token: str) -> Control:
    """[Stop] of the turn whose surface has `token`."""
    return Control(label=say("control.stop"), token=payload(token, Letter.STOP), style=Style.DANGER)


def notes(turn: TurnState, now_ms: int) -> list[Row]:
    """What has to be said beside the rows."""
    said: list[Row] = []
    if turn.recovered:
        said.append(Row(state=RowState.NOTE, text=say("card.recovered")))
    if turn.stalled:
        minutes = (now_ms - turn.since_ms) // 60_000
        what = turn.running
        text = say("card.stalled", minutes=minutes, what=what) if what else say("card.stalled_model", minutes=minutes)
        said.append(Row(state=RowState.NOTE, text=text))
    return said


def _last_card(
    turn: TurnState, who: str | None, with_cost: bool, labels: tuple[str, ...], go_on: str | None
) -> TurnCard:
    assert turn.ended_at_ms is not None
    stopped = turn.phase is Phase.STOPPED
    word = say("card.stopped_by", who=who) if stopped and who else say(WORDS[turn.phase])
    parts = [word, duration(turn.ended_at_ms - turn.started_at_ms)]
    parts += counters(turn.tool_calls, turn.usage, with_cost=with_cost)
    finished = finished_words(turn) if stopped else None
    return TurnCard(
        phase=turn.phase,
        headline=" · ".join(parts),
        rows=() if finished is None else (Row(state=RowState.NOTE, text=finished),),
        labels=labels,
        controls=(continue_control(go_on),) if stopped and go_on is not None else (),
    )


def finished_words(turn: TurnState) -> str | None:
    """What stays done of a turn that was stopped; None if nothing had been finished."""
    if not turn.finished:
        return None
    names = ", ".join(dict.fromkeys(turn.finished))
    return say("stop.steps", tools=f"{tools(turn.tool_calls)} ({names})")


def continue_control(token: str) -> Control:
    """[Continue] of a turn that was stopped."""
    return Control(label=say("control.continue"), token=payload(token, Letter.CONTINUE))


def lost_card() -> TurnCard:
    """The card of a turn of which nothing is known any more."""
    return TurnCard(phase=Phase.INTERRUPTED, headline=say("card.interrupted"))
