"""What is known of a session's running turn, folded from its events. Pure: the same events give the same state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from adapters.contract import Phase, Row, RowState
from gateway.strings import say
from gateway.views.loop import LoopProgress, fold_loop, iteration_over
from gateway.views.show import first_line, plain
from runtime.loop_moves import loop_of_turn
from runtime.protocol import events
from runtime.protocol.context import Usage
from runtime.protocol.events import Event, EventMsg
from runtime.session.recovery import RESTARTED

VISIBLE_ROWS = 5
KEPT_LINES = 200
WORDS = "words"
"""The key of a line that is made of the model's own words."""
LINE_LIMIT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the card; `key` is the call that it belongs to."""

    key: str
    state: RowState
    text: str

    @property
    def row(self) -> Row:
        """As the adapters take it."""
        return Row(state=self.state, text=self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """Where a turn stands. `since_ms`: when something last happened. `words`: those of a step that may be the last.

    `loop_id`: the loop whose iteration it is. `steered`: somebody spoke while it ran, and its answer is theirs too.
    """

    turn_id: str
    message_id: str | None = None
    started_at_ms: int = 0
    since_ms: int = 0
    phase: Phase = Phase.STARTING
    lines: tuple[Line, ...] = ()
    earlier: int = 0
    words: str = ""
    tool_calls: int = 0
    finished: tuple[str, ...] = ()
    usage: Usage = Usage()
    request_id: str | None = None
    gated: tuple[str, ...] = ()
    stopping: bool = False
    recovered: bool = False
    stalled: bool = False
    error: events.Error | None = None
    by: str | None = None
    overtaken: bool = False
    """What the last step said was an answer that is a message already."""
    spoken_to: bool = False
    """Somebody's words entered, and nothing was said since; the words before them have no answer yet."""
    said: str = ""
    """What was then said beside calls, at the event that begins these: a message of its own, since it may be all that
    answers the words before."""
    ended_at_ms: int | None = None
    loop_id: str | None = None
    steered: bool = False
    spoken: str = ""
    """What it has said beside calls so far; together with the answer it is all that the turn says."""
    over_step: str = ""
    """The last model step of which the words are known, or come to nothing."""
    partial: str = ""
    """The words at which it was stopped."""

    @property
    def visible(self) -> tuple[tuple[Line, ...], int]:
        """The last lines, and how many there were before; one that runs stays, however old it is."""
        excess = len(self.lines) - VISIBLE_ROWS
        kept: list[Line] = []
        for line in self.lines:
            if excess > 0 and line.state is not RowState.RUNNING:
                excess -= 1
            else:
                kept.append(line)
        return tuple(kept), self.earlier + len(self.lines) - len(kept)

    @property
    def over(self) -> bool:
        """The turn has ended."""
        return self.ended_at_ms is not None

    @property
    def running(self) -> str | None:
        """The call that runs, in one line."""
        return next((line.text for line in reversed(self.lines) if line.state is RowState.RUNNING), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session as its place sees it: the messages that wait for a turn of their own, the turn that runs, the loop."""

    waiting: tuple[str, ...] = ()
    removed: int = 0
    turn: TurnState | None = None
    loop: LoopProgress | None = None

    @property
    def iteration(self) -> TurnState | None:
        """The turn that is an iteration of the loop, while it runs."""
        turn, loop = self.turn, self.loop
        return turn if turn and loop and turn.loop_id == loop.loop_id and not turn.over else None


def fold_all(state: SessionState, happened: Iterable[Event]) -> SessionState:
    """The state after all of `happened`."""
    for event in happened:
        state = fold(state, event)
    return state


def fold(state: SessionState, event: Event) -> SessionState:
    """The state after `event`."""
    iteration = state.iteration
    after = _fold_session(state, event)
    loop = fold_loop(after.loop, event)
    if iteration is not None and loop is not None and isinstance(event.msg, events.TurnComplete | events.TurnAborted):
        usage = after.turn.usage if after.turn is not None else Usage()
        loop = iteration_over(loop, event.msg, usage, told=iteration.steered)
    return after if loop is after.loop else replace(after, loop=loop)


def _fold_session(state: SessionState, event: Event) -> SessionState:
    match event.msg:
        case events.MessageQueued(disposition="queue", message_id=message_id):
            return _waits(state, message_id)
        case events.Message(message_id=message_id):
            return _in_turn(_waits_no_more(state, message_id), event)
        case events.MessageRemoved(message_id=message_id):
            return replace(_waits_no_more(state, message_id), removed=state.removed + 1)
        case events.TurnStarted(turn_id=turn_id, message_id=message_id):
            at = event.recorded_at_ms
            turn = TurnState(
                turn_id=turn_id, message_id=message_id, started_at_ms=at, since_ms=at, loop_id=loop_of_turn(event)
            )
            return replace(state, turn=turn, removed=0)
        case _:
            return _in_turn(state, event)


def _waits(state: SessionState, message_id: str) -> SessionState:
    if message_id in state.waiting:
        return state
    return replace(state, waiting=(*state.waiting, message_id))


def _waits_no_more(state: SessionState, message_id: str) -> SessionState:
    if message_id not in state.waiting:
        return state
    return replace(state, waiting=tuple(waiting for waiting in state.waiting if waiting != message_id))


def _in_turn(state: SessionState, event: Event) -> SessionState:
    turn = state.turn
    if turn is None or turn.over or getattr(event.msg, "turn_id", turn.turn_id) not in (turn.turn_id, None):
        return state
    changed = _fold_turn(turn, event.msg, event.recorded_at_ms)
    if changed is turn:
        return state
    return replace(state, turn=replace(changed, since_ms=event.recorded_at_ms, stalled=False))


def _fold_turn(turn: TurnState, msg: EventMsg, at_ms: int) -> TurnState:
    match msg:
        case events.Message(delivery="steer", author=author, text=text, message_id=message_id):
            steered = replace(turn, steered=True, spoken_to=not turn.overtaken)
            line = say("card.steered", who=plain(author, 40), text=first_line(text))
            return _append(steered, message_id, RowState.NOTE, line)
        case events.ModelStepStarted():
            return replace(turn, phase=_unless_stopping(turn, Phase.THINKING), words="", overtaken=False)
        case events.ModelStepCompleted(outcome=outcome, usage=usage, model_step_id=step):
            known = turn if outcome == "completed" else replace(turn, over_step=step)
            return _step_over(replace(known, usage=turn.usage + usage), outcome)
        case events.AssistantMessage(overtaken=True, model_step_id=step):
            return replace(turn, overtaken=True, spoken_to=False, over_step=step)
        case events.AssistantMessage(text=text, model_step_id=step):
            return replace(turn, words=text, over_step=step)
        case events.ToolCallBegin() | events.ToolCallEnd():
            return _fold_tool(turn, msg)
        case events.ApprovalRequested(request_id=request_id, calls=calls):
            gated = (*turn.gated, *(call.call_id for call in calls))
            return replace(_told(turn), phase=Phase.WAITING, request_id=request_id, gated=gated)
        case events.ApprovalResolved():
            return replace(turn, phase=_unless_stopping(turn, Phase.WORKING), request_id=None)
        case events.ContextCompacted():
            return _append(turn, "", RowState.NOTE, say("card.compacted"))
        case events.Error(turn_id=str()):
            return replace(turn, error=msg)
        case events.TurnComplete() | events.TurnAborted():
            return _ended(turn, msg, at_ms)
        case _:
            return turn


def _fold_tool(turn: TurnState, msg: events.ToolCallBegin | events.ToolCallEnd) -> TurnState:
    match msg:
        case events.ToolCallBegin(call_id=call_id, name=name, summary=summary):
            begun = replace(_told(turn), phase=_unless_stopping(turn, Phase.WORKING), tool_calls=turn.tool_calls + 1)
            return _append(begun, call_id, RowState.RUNNING, f"{name}: {summary}" if summary else name)
        case events.ToolCallEnd(call_id=call_id, name=name, outcome=outcome, is_error=is_error):
            return _tool_over(turn, call_id, plain(name), outcome, is_error)


def _tool_over(turn: TurnState, call_id: str, name: str, outcome: str, is_error: bool) -> TurnState:
    known = next((line for line in turn.lines if line.key == call_id and line.state is RowState.RUNNING), None)
    what = known.text if known else name
    match outcome:
        case "unknown" | "interrupted":
            line = Line(key=call_id, state=RowState.FAILED, text=say("card.unknown_tool", what=what))
        case "skipped":
            line = Line(key=call_id, state=RowState.SKIPPED, text=say("card.skipped_tool", what=what))
        case "denied" | "expired" | "refused":
            line = Line(key=call_id, state=RowState.SKIPPED, text=what)
        case _:
            line = Line(key=call_id, state=RowState.FAILED if is_error else RowState.DONE, text=what)
    finished = (*turn.finished, name) if line.state is RowState.DONE else turn.finished
    turn = replace(turn, finished=finished[-VISIBLE_ROWS:])
    if known is None:
        return _append(turn, call_id, line.state, line.text)
    return _trim(replace(turn, lines=tuple(line if old is known else old for old in turn.lines)))


def _step_over(turn: TurnState, outcome: Literal["completed", "failed", "interrupted", "retrying"]) -> TurnState:
    match outcome:
        case "retrying":
            return _append(turn, "", RowState.NOTE, say("card.retrying"))
        case "interrupted":
            return replace(turn, recovered=True)
        case "completed" | "failed":
            return turn


def _ended(turn: TurnState, msg: events.TurnComplete | events.TurnAborted, at_ms: int) -> TurnState:
    over = replace(
        turn,
        ended_at_ms=at_ms,
        request_id=None,
        tool_calls=max(turn.tool_calls, msg.tool_calls),
        words="",
        partial=turn.words if isinstance(msg, events.TurnAborted) else "",
    )
    match msg:
        case events.TurnComplete(usage=usage):
            return replace(over, phase=Phase.DONE, usage=usage if usage.total_tokens else turn.usage)
        case events.TurnAborted(outcome="failed"):
            return replace(over, phase=Phase.FAILED)
        case events.TurnAborted(by=None, reason=reason) if reason == RESTARTED:
            return replace(over, phase=Phase.INTERRUPTED)
        case events.TurnAborted(by=by):
            return replace(over, phase=Phase.STOPPED, by=by)


def _told(turn: TurnState) -> TurnState:
    """Words that come before a tool are progress, so they become a row; those of the last step are the answer.

    The first words after somebody spoke are for people: they are `said`, and no row.
    """
    words, spoken_to = turn.words, turn.spoken_to
    turn = replace(turn, words="", spoken_to=False, said=words if spoken_to else "")
    if spoken_to or not words.strip():
        return turn
    spoken = "\n\n".join(filter(None, (turn.spoken, words.strip())))
    return _append(replace(turn, spoken=spoken), WORDS, RowState.NOTE, first_line(words))


def _unless_stopping(turn: TurnState, phase: Phase) -> Phase:
    return Phase.STOPPING if turn.stopping else phase


def _append(turn: TurnState, key: str, state: RowState, text: str) -> TurnState:
    line = Line(key=key, state=state, text=plain(text, LINE_LIMIT))
    return _trim(replace(turn, lines=(*turn.lines, line)))


def _trim(turn: TurnState) -> TurnState:
    """Keep the last lines; older ones that are over are only counted."""
    excess = len(turn.lines) - KEPT_LINES
    if excess <= 0:
        return turn
    kept: list[Line] = []
    dropped = 0
    for line in turn.lines:
        if dropped < excess and line.state is not RowState.RUNNING:
            dropped += 1
        else:
            kept.append(line)
    return replace(turn, lines=tuple(kept), earlier=turn.earlier + dropped)


def told(state: SessionState) -> SessionState:
    """The state once everything was told of a turn that is over: what only its views needed is let go."""
    turn = state.turn
    if turn is None or not turn.over:
        return state
    return replace(state, turn=replace(turn, lines=(), spoken="", partial=""))


def stopping(turn: TurnState) -> TurnState:
    """Somebody pressed Stop and it was taken."""
    return turn if turn.over else replace(turn, stopping=True, phase=Phase.STOPPING)


def recovered(turn: TurnState) -> TurnState:
    """The process died and came back while something of the turn was in flight; a waiting approval does not care."""
    if turn.over or turn.phase is Phase.WAITING:
        return turn
    return replace(turn, recovered=True)


def stalled(turn: TurnState) -> TurnState:
    """Nothing has happened for long."""
    return turn if turn.over or turn.phase is Phase.WAITING else replace(turn, stalled=True)
