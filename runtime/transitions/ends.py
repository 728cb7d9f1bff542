"""How a turn ends. Pure, into a draft."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from runtime import loop_moves
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.checkpoint import (
    ExecutionRecord,
)
from runtime.protocol.loops import LoopState
from runtime.protocol.session import QueuedMessage
from runtime.transitions.calls import close_approval, refuse_tool
from runtime.transitions.draft import Draft, set_loop
from runtime.transitions.messages import open_turn, release_steers
from runtime.transitions.steps import close_step

UNKNOWN_OUTCOME = "execution interrupted; result unknown after restart"
INTERRUPTED = "interrupted before it ran"
CUT_OFF = "interrupted while it ran; what it did until then stays"


def complete_turn(draft: Draft) -> None:
    """End the turn with its answer."""
    end_turn(draft, "completed", "", answer=draft.active.phase.last_assistant_message)


def abort_turn(
    draft: Draft,
    reason: str,
    *,
    outcome: Literal["aborted", "failed"] = "aborted",
    by: str | None = None,
    approval: Resolution = Resolution.INTERRUPTED,
    started_text: str = CUT_OFF,
) -> None:
    """End the turn without an answer: close step and approval, give every open call an error result."""
    close_step(draft, "failed" if outcome == "failed" else "interrupted")
    close_approval(draft, approval, by, reason)
    for tool in draft.checkpoint.pending_tools:
        if tool.state == "started":
            refuse_tool(draft, tool.call, started_text, "interrupted")
        elif tool.state == "pending":
            refuse_tool(draft, tool.call, INTERRUPTED, "interrupted")
    end_turn(draft, outcome, reason, by=by)


def end_turn(
    draft: Draft,
    outcome: Literal["completed", "aborted", "failed"],
    reason: str,
    *,
    answer: str | None = None,
    by: str | None = None,
) -> None:
    """Write the terminal event and the record, and let what waited for this turn wait for one of its own."""
    active = draft.active
    loop = loop_moves.within_iteration(draft.checkpoint)
    duration = draft.now_ms - active.started_at_ms
    if outcome == "completed":
        draft.emit(
            events.TurnComplete(
                turn_id=active.turn_id,
                last_assistant_message=answer,
                usage=active.usage,
                model_calls=active.model_calls,
                tool_calls=active.tool_calls,
                duration_ms=duration,
            )
        )
    else:
        draft.emit(
            events.TurnAborted(
                turn_id=active.turn_id,
                reason=reason,
                outcome=outcome,
                by=by,
                model_calls=active.model_calls,
                tool_calls=active.tool_calls,
                duration_ms=duration,
            )
        )
    draft.execution = ExecutionRecord(
        turn_id=active.turn_id,
        submission_id=active.submission_id,
        started_at_ms=active.started_at_ms,
        ended_at_ms=max(draft.now_ms, active.started_at_ms),
        outcome=outcome,
        model_calls=active.model_calls,
        tool_calls=active.tool_calls,
        failed_tool_calls=active.failed_tool_calls,
        usage=active.usage,
    )
    stats = draft.checkpoint.execution_stats
    draft.change(
        active_execution=None,
        active_model_step=None,
        pending_tools=(),
        pending_approval=None,
        execution_stats=replace(
            stats,
            run_count=stats.run_count + 1,
            aborted_run_count=stats.aborted_run_count + (outcome == "aborted"),
            failed_run_count=stats.failed_run_count + (outcome == "failed"),
            model_calls=stats.model_calls + active.model_calls,
            tool_calls=stats.tool_calls + active.tool_calls,
            failed_tool_calls=stats.failed_tool_calls + active.failed_tool_calls,
        ),
    )
    if loop is not None:
        _end_iteration(draft, loop, answer, reason, active.interrupted_by or by)
    release_steers(draft)


def reject_turn(
    draft: Draft, message: QueuedMessage, turn_id: str, reason: str, submission_id: str | None = None
) -> None:
    """Consume `message` by a turn that ends at once; its text never enters the context."""
    open_turn(draft, message, turn_id, submission_id)
    end_turn(draft, "aborted", reason)


def _end_iteration(draft: Draft, loop: LoopState, answer: str | None, reason: str, by: str | None) -> None:
    """The turn of an iteration has ended, as `draft.execution` says: so has the iteration, or its loop."""
    assert draft.execution is not None, "no turn has ended"
    after = loop_moves.turn_ended(loop, draft.execution, answer, reason, by)
    set_loop(draft, after)
    if after.iterations_completed > loop.iterations_completed:
        draft.emit(events.LoopIterationCompleted(index=after.iterations_completed), loop.loop_id)
