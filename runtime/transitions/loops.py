"""The moves of a bounded loop. Pure, into a draft."""

from __future__ import annotations

from runtime import loop_moves
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.protocol.session import QueuedMessage
from runtime.transitions.draft import Draft, set_loop
from runtime.transitions.ends import abort_turn, reject_turn

LEFT_LOOP = "the loop ended"


def start_loop(draft: Draft, loop: LoopState) -> None:
    """Admit a loop, or let one go on under a new generation."""
    set_loop(draft, loop)
    draft.change(runtime_status="running")
    draft.emit(
        events.LoopStarted(
            loop_id=loop.loop_id,
            generation=loop.generation,
            max_iterations=loop.max_iterations,
            max_rounds=loop.max_rounds,
        ),
        loop.loop_id,
    )


def begin_iteration(draft: Draft, loop: LoopState) -> None:
    """The prompt is given once more; the turn that holds the iteration begins in the same transaction."""
    set_loop(draft, loop_moves.iteration_started(loop))
    draft.emit(events.LoopIterationStarted(index=loop.iterations_completed + 1), loop.loop_id)


def reject_iteration(draft: Draft, message: QueuedMessage, turn_id: str, reason: str) -> None:
    """A hook refuses the prompt: the loop has failed, and its turn ends at once."""
    loop = loop_moves.loop_of(draft.checkpoint)
    assert loop is not None
    set_loop(draft, loop_moves.failed(loop, reason))
    reject_turn(draft, message, turn_id, reason, loop.loop_id)


def close_round(draft: Draft, loop: LoopState) -> None:
    """A model call of an iteration and its tools are over."""
    set_loop(draft, loop_moves.round_closed(loop))


def leave_loop(draft: Draft, loop: LoopState, status: LoopStatus, reason: str) -> None:
    """End the loop at a boundary, and with it the turn of an iteration that is not at its end."""
    within = loop_moves.within_iteration(draft.checkpoint) is not None
    set_loop(draft, loop_moves.left(loop, status, reason))
    if within:
        abort_turn(draft, LEFT_LOOP)


def fail_loop(draft: Draft, loop: LoopState, error: str) -> None:
    """End the loop by an error, and with it the turn of its iteration."""
    within = loop_moves.within_iteration(draft.checkpoint) is not None
    set_loop(draft, loop_moves.failed(loop, error))
    if within:
        abort_turn(draft, error, outcome="failed", approval=Resolution.INVALIDATED)


def lose_loop(draft: Draft, loop: LoopState) -> None:
    """A restart may not go on with the iteration: the loop's owner is gone, and a person has to decide."""
    set_loop(draft, loop_moves.lost(loop))
    draft.change(runtime_status="suspended")


def mirror_loop(draft: Draft, loop: LoopState) -> None:
    """The end of the loop is the session's own from now on."""
    set_loop(draft, loop_moves.mirrored(loop))
    draft.change(runtime_status="completed")


def announce_loop_end(draft: Draft, loop: LoopState) -> None:
    """Tell the end of the loop, once for its generation."""
    set_loop(draft, loop_moves.announced(loop))
    draft.emit(
        events.LoopEnded(
            loop_id=loop.loop_id,
            status=loop.status.value,
            iterations_completed=loop.iterations_completed,
            rounds_started=loop.rounds_started,
            error=loop.error,
            reason=loop.reason,
        ),
        loop.loop_id,
    )
