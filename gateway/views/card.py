"""The card of a turn."""

from __future__ import annotations

from adapters.contract import Control, Phase, Row, RowState, Style, TurnCard
from gateway.ledger.surfaces import Letter, payload
from gateway.strings import say
from gateway.views.show import plain
from gateway.views.turn import SessionState, TurnState
from gateway.views.words import counters, duration

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
) -> TurnCard:
    """The card of the session's turn. `token` gives it its Stop; `who` is the name of whoever ended it."""
    turn = state.turn
    assert turn is not None, "only a turn has a card"
    if turn.over:
        return _last_card(turn, who, with_cost, labels)
    controls = () if token is None or turn.stopping else (stop_control(token),)
    return TurnCard(
        phase=turn.phase,
        headline=_headline(turn, now_ms),
        rows=(*(line.row for line in turn.lines), *notes(turn, now_ms)),
        earlier_rows=turn.earlier,
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


def _last_card(turn: TurnState, who: str | None, with_cost: bool, labels: tuple[str, ...]) -> TurnCard:
    assert turn.ended_at_ms is not None
    word = say("card.stopped_by", who=who) if turn.phase is Phase.STOPPED and who else say(WORDS[turn.phase])
    parts = [word, duration(turn.ended_at_ms - turn.started_at_ms)]
    parts += counters(turn.tool_calls, turn.usage, with_cost=with_cost)
    return TurnCard(phase=turn.phase, headline=" · ".join(parts), labels=labels)


def lost_card() -> TurnCard:
    """The card of a turn of which nothing is known any more."""
    return TurnCard(phase=Phase.INTERRUPTED, headline=say("card.interrupted"))
