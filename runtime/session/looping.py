"""Ops on a bounded loop, pure into a draft, and what a running agent keeps of one beside its state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from runtime import loop_moves, transitions
from runtime.errors import CheckpointError, LoopError
from runtime.loop_moves import FINAL
from runtime.protocol import ops
from runtime.protocol.approvals import InterruptResult
from runtime.protocol.checkpoint import Receipt
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.session.receipts import accepted, refused
from runtime.transitions import Draft

NOT_ADMITTED = "Session checkpoint failed; execution not admitted"
"""Part of every error of a loop whose success could not be stored for sure."""


class LoopControl:
    """A handle to stop a loop in order. It may be shared: `stop()` may be called from any task, and more than once.

    Which loop it stops is said by who starts one with it. A stop that came before ends the loop at its first boundary.
    """

    def __init__(self) -> None:
        self._stopped = False

    def stop(self) -> None:
        """End the loop at its next round or iteration boundary; a model call in flight is let finish."""
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for."""
        return self._stopped


@dataclass(slots=True, eq=False)
class LoopRun:
    """Somebody waits for the end of a loop."""

    control: LoopControl
    ended: asyncio.Future[LoopState]


@dataclass(slots=True, eq=False)
class LoopRuns:
    """The loops of this agent that somebody waits for, and what happened to the running one outside its state.

    `round_over`: hooks have still to hear of a round. `stop`: a hook wants the loop to end. `error`: why it failed.
    """

    waiting: dict[str, LoopRun] = field(default_factory=dict[str, LoopRun])
    round_over: bool = False
    stop: bool = False
    error: BaseException | None = None

    def stops(self, loop: LoopState | None) -> bool:
        """Whether the loop is to end at the next boundary."""
        run = self.waiting.get(loop.loop_id) if loop is not None else None
        return self.stop or (run is not None and run.control.stopped)

    def tell(self, loop: LoopState) -> None:
        """The loop has ended, and everything of it is stored."""
        run = self.waiting.pop(loop.loop_id, None)
        cause, self.error, self.stop, self.round_over = self.error, None, False, False
        if run is None or run.ended.done():
            return
        if loop.status != LoopStatus.FAILED:
            run.ended.set_result(loop)
            return
        failure = LoopError(loop.error or "the loop failed")
        failure.__cause__ = cause
        run.ended.set_exception(failure)

    def abandon(self, why: str, cause: BaseException | None) -> None:
        """The agent ends before its loops do."""
        for run in self.waiting.values():
            if not run.ended.done():
                text = NOT_ADMITTED if isinstance(self.error, CheckpointError) else "the session ended before its loop"
                failure = LoopError(f"{text}: {why}")
                failure.__cause__ = self.error or cause
                run.ended.set_exception(failure)
                run.ended.exception()  # whoever waited may have gone away: no error of ours
        self.waiting.clear()


def admit_start(draft: Draft, op: ops.StartLoop, submission_id: str, owner: str) -> Receipt:
    """Admit a loop once this is stored, or say why not."""
    found = loop_moves.loop_of(draft.checkpoint)
    problem = loop_moves.objection(op.prompt, op.max_iterations, op.max_rounds, op.token_budget, op.time_budget_seconds)
    if draft.checkpoint.retiring:
        problem = "this session has ended; start the loop in the new one"
    elif found is not None and not found.ended:
        problem = "a loop runs already; stop it first"
    if problem is not None:
        return refused(draft, submission_id, problem)
    transitions.start_loop(draft, loop_moves.admitted(op, submission_id, owner, found, draft.now_ms))
    return accepted(draft, submission_id)


def admit_stop(draft: Draft, op: ops.StopLoop, submission_id: str) -> Receipt:
    """Stop the loop after its iteration or now; a loop that a restart lost is given up."""
    loop = loop_moves.loop_of(draft.checkpoint)
    other = loop is not None and op.loop_id not in (None, loop.loop_id)
    if loop is None or other or (loop.status in FINAL and loop.status != LoopStatus.RECOVERY_UNSUPPORTED):
        return refused(draft, submission_id, "no loop runs", InterruptResult(status="not_running"))
    if loop.status == LoopStatus.RECOVERY_UNSUPPORTED:
        transitions.set_loop(draft, loop_moves.cancelled(loop, op.by))
    elif loop.status == LoopStatus.RUNNING:
        _stop(draft, loop, op)
    return accepted(draft, submission_id, InterruptResult(status="stopping"))


def _stop(draft: Draft, loop: LoopState, op: ops.StopLoop) -> None:
    if not op.now:
        transitions.set_loop(draft, loop_moves.stop_requested(loop, op.by))
    elif loop_moves.within_iteration(draft.checkpoint) is None:
        transitions.set_loop(draft, loop_moves.cancelled(loop, op.by))
    elif draft.active.interrupted_by is None:
        draft.change_active(interrupted_by=op.by or "someone")


def admit_continuation(draft: Draft, op: ops.ContinueLoop, submission_id: str, owner: str) -> Receipt:
    """Let a lost loop go on, or say why not."""
    loop = loop_moves.loop_of(draft.checkpoint)
    if draft.checkpoint.retiring:
        return refused(draft, submission_id, "this session has ended")
    if loop is None or loop.loop_id != op.loop_id or loop.status != LoopStatus.RECOVERY_UNSUPPORTED or not loop.ended:
        return refused(draft, submission_id, "that loop does not wait to be continued")
    transitions.start_loop(draft, loop_moves.continued(loop, owner, draft.now_ms))
    return accepted(draft, submission_id)


def retire_loop(draft: Draft, by: str | None) -> None:
    """The session ends: a loop between two iterations ends with it; within one it ends with the turn."""
    loop = loop_moves.loop_of(draft.checkpoint)
    if loop is not None and loop.status == LoopStatus.RUNNING and not loop_moves.within_iteration(draft.checkpoint):
        transitions.set_loop(draft, loop_moves.cancelled(loop, by))
