"""What a session does next: a pure function of its checkpoint and of what is in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime import loop_moves, transitions
from runtime.protocol.approvals import RUNS
from runtime.protocol.checkpoint import ActiveExecution, Checkpoint
from runtime.protocol.context import ToolCall
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.protocol.session import QueuedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """Effects that the process is waiting for. `backing_off`: a failed model call waits for its next attempt.

    `full`: the context has to become shorter before the model is asked. `stop_loop`: the loop's control says stop.
    `round_over`: a round of the loop has ended, and its hooks have not run.
    """

    model: bool = False
    tools: frozenset[str] = frozenset()
    backing_off: bool = False
    authorised: bool = False
    compacting: bool = False
    full: bool = False
    stop_loop: bool = False
    round_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do until something arrives, ends, or `until_ms` is reached."""

    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """No turn runs and nothing waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeMessage:
    """Start a turn with this message."""

    message: QueuedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class EndInterrupted:
    """A person stopped the turn: end what is in flight, then the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """Ask the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorten:
    """Summarise the context before the model is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorise:
    """A fresh batch of calls: decide which run, which are refused, and which a person is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireApproval:
    """Nobody decided in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipTools:
    """A steer waits: calls that have not begun and that no person approved are skipped."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """Start these calls; more than one only if all of them may run side by side."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The model has ended its answer: let steers enter, or end the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartIteration:
    """Give the loop's prompt once more."""

    loop: LoopState


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRound:
    """A model call of the loop and its tools are over, and its iteration is not."""

    loop: LoopState


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveLoop:
    """The loop ends at this boundary."""

    loop: LoopState
    status: LoopStatus
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRoundHooks:
    """What hooks have to say after a round of the loop."""

    loop: LoopState


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLoop:
    """Make the end of the loop the session's own."""

    loop: LoopState


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceLoopEnd:
    """Tell the end of the loop."""

    loop: LoopState


Move: TypeAlias = (
    Wait
    | Rest
    | TakeMessage
    | EndInterrupted
    | StartStep
    | Shorten
    | Authorise
    | ExpireApproval
    | SkipTools
    | RunTools
    | Complete
    | StartIteration
    | CloseRound
    | LeaveLoop
    | RunRoundHooks
    | MirrorLoop
    | AnnounceLoopEnd
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the decision needs of the configuration."""

    skip_tools_on_steer: bool = True
    parallel: frozenset[str] = frozenset()


def next_move(checkpoint: Checkpoint, flight: InFlight, rules: Rules, now_ms: int) -> Move:
    """The one thing to do now."""
    active = checkpoint.active_execution
    if active is None:
        return Wait() if flight.compacting else _next_between_turns(checkpoint, flight, now_ms)
    if active.interrupted_by is not None:
        return EndInterrupted()
    if flight.model or flight.backing_off or flight.compacting:
        return Wait()
    if checkpoint.pending_tools:
        return _next_of_batch(checkpoint, flight, rules, now_ms)
    if active.phase.kind == "completion":
        return Complete()
    loop = loop_moves.within_iteration(checkpoint)
    move = _next_of_round(loop, active, flight, now_ms) if loop is not None else None
    return move or (Shorten() if flight.full else StartStep())


def _next_between_turns(checkpoint: Checkpoint, flight: InFlight, now_ms: int) -> Move:
    """A loop that has ended is told to its end; then what waits; then a loop's next iteration."""
    loop = loop_moves.loop_of(checkpoint)
    move = _end_of_loop(loop, checkpoint, flight, now_ms) if loop is not None and not loop.ended else None
    if move is not None:
        return move
    if checkpoint.pending_messages and not checkpoint.retiring:
        return TakeMessage(message=checkpoint.pending_messages[0])
    if loop is not None and loop.status == LoopStatus.RUNNING and not checkpoint.retiring:
        return StartIteration(loop=loop)
    return Rest()


def _end_of_loop(loop: LoopState, checkpoint: Checkpoint, flight: InFlight, now_ms: int) -> Move | None:
    if loop.status == LoopStatus.RUNNING:
        verdict = loop_moves.verdict(loop, now_ms, stop=flight.stop_loop)
        if verdict is not None:
            return LeaveLoop(loop=loop, status=verdict[0], reason=verdict[1])
    if flight.round_over:
        return RunRoundHooks(loop=loop)
    if loop_moves.needs_mirror(loop, checkpoint.runtime_status):
        return MirrorLoop(loop=loop)
    return AnnounceLoopEnd(loop=loop) if loop.status in loop_moves.FINAL else None


def _next_of_round(loop: LoopState, active: ActiveExecution, flight: InFlight, now_ms: int) -> Move | None:
    """What a loop does between two rounds of an iteration; None within a round, and to begin the next."""
    if loop_moves.round_is_over(loop, active.next_model_step):
        return CloseRound(loop=loop)
    if loop.open_step is not None:
        return None
    verdict = loop_moves.verdict(loop, now_ms, stop=flight.stop_loop, tokens_in_turn=active.usage.total_tokens)
    if verdict is not None:
        return LeaveLoop(loop=loop, status=verdict[0], reason=verdict[1])
    return RunRoundHooks(loop=loop) if flight.round_over else None


def _next_of_batch(checkpoint: Checkpoint, flight: InFlight, rules: Rules, now_ms: int) -> Move:
    approval = checkpoint.pending_approval
    if approval is not None and approval.decision is None:
        if approval.expires_at_ms is not None and now_ms >= approval.expires_at_ms:
            return ExpireApproval()
        return Wait(until_ms=approval.expires_at_ms)
    if not flight.authorised:
        return Authorise()
    waiting = [tool for tool in checkpoint.pending_tools if tool.state == "pending"]
    if rules.skip_tools_on_steer and transitions.waiting_steers(checkpoint):
        approved = approved_calls(checkpoint)
        skippable = tuple(tool.call for tool in waiting if tool.call.call_id not in approved)
        if skippable:
            return SkipTools(calls=skippable)
    if not waiting:
        return Wait()
    first = waiting[0]
    if first.call.name not in rules.parallel:
        return Wait() if flight.tools else RunTools(call_ids=(first.call.call_id,))
    running = {tool.call.name for tool in checkpoint.pending_tools if tool.call.call_id in flight.tools}
    if running - rules.parallel:
        return Wait()
    side_by_side: list[str] = []
    for tool in waiting:
        if tool.call.name not in rules.parallel:
            break
        side_by_side.append(tool.call.call_id)
    return RunTools(call_ids=tuple(side_by_side))


def approved_calls(checkpoint: Checkpoint) -> frozenset[str]:
    """Calls of the batch that a person approved."""
    approval = checkpoint.pending_approval
    if approval is None or approval.decision not in RUNS:
        return frozenset()
    return frozenset(approval.gated)
