"""What a restart makes of what it finds: every row of the table, under both options."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from runtime.protocol import (
    ActiveExecution,
    ActiveModelStep,
    Boundary,
    Checkpoint,
    ExecutionPhase,
    PendingApproval,
    PendingTool,
    QueuedMessage,
    Resolution,
    ToolCall,
    ToolResult,
    events,
)
from runtime.session.recovery import MAX_CRASHES, RecoveryOptions, recover
from runtime.transitions import UNKNOWN_OUTCOME, Draft

NOW = 2_000
ACTIVE = ActiveExecution(submission_id="m", turn_id="turn-1", started_at_ms=1_000, next_model_step=1)
IDLE = replace(Checkpoint.empty("s"), sequence=7, model_route="main")
RUNNING = replace(IDLE, active_execution=ACTIVE)
STEP = ActiveModelStep(model_step_id="step-1", step_index=1, started_at_ms=1_500)
STEER = QueuedMessage(id="steer", boundary=Boundary.steer("turn-1"), author="ann", text="this too")
QUEUED = QueuedMessage(id="queued", boundary=Boundary.queue(), author="ann", text="next")
UNSAFE, SAFE, KEYED = (ToolCall(call_id=name, name=name) for name in ("unsafe", "safe", "by_key"))

CAUTIOUS = RecoveryOptions()
GOING_ON = RecoveryOptions(on_interrupted_step="retry", on_uncertain_tools="continue")
ALL_OPTIONS = [
    RecoveryOptions(on_interrupted_step=step, on_uncertain_tools=tools)  # type: ignore[arg-type]
    for step, tools in product(("abort", "retry"), ("abort", "continue"))
]


def tool(call: ToolCall, state: Any = "started") -> PendingTool:
    return PendingTool(call=call, state=state, idempotency_key=f"key-of-{call.call_id}")


def asking(decision: Resolution | None = None) -> PendingApproval:
    return PendingApproval(
        request_id="r",
        turn_id="turn-1",
        submission_id="m",
        calls=(UNSAFE,),
        gated=("unsafe",),
        actions={},
        digests={},
        decision=decision,
    )


def recovered(found: Checkpoint, options: RecoveryOptions = CAUTIOUS) -> Draft:
    return recover(found, options, lambda call: call.name, NOW, "REF")  # type: ignore[arg-type,return-value]


def told(draft: Draft) -> list[Any]:
    return [event.msg for event in draft.events]


def kinds(draft: Draft) -> list[str]:
    return [event.kind for event in draft.events]


def results(draft: Draft) -> list[tuple[str, str, str]]:
    return [(item.call_id, item.outcome, item.output) for item in draft.items if isinstance(item, ToolResult)]


@pytest.mark.parametrize("options", ALL_OPTIONS)
@pytest.mark.parametrize(
    "found",
    [
        IDLE,
        replace(IDLE, pending_messages=(QUEUED,)),
        RUNNING,
        replace(RUNNING, active_execution=replace(ACTIVE, phase=ExecutionPhase.completion("done"))),
        replace(RUNNING, pending_tools=(tool(UNSAFE, "pending"),)),
        replace(RUNNING, pending_tools=(tool(UNSAFE, "pending"),), pending_approval=asking()),
        replace(RUNNING, pending_tools=(tool(UNSAFE, "pending"),), pending_approval=asking(Resolution.APPROVED)),
        replace(RUNNING, pending_messages=(STEER,)),
    ],
    ids=["idle", "queued", "model", "completion", "pending", "asking", "approved", "steered"],
)
def test_where_nothing_was_in_flight_nothing_is_written(found: Checkpoint, options: RecoveryOptions) -> None:
    """The turn goes on where it stood, the request is asked again, and the disk is left alone."""
    draft = recovered(found, options)
    assert not draft.changed
    assert draft.checkpoint is found


@pytest.mark.parametrize("options", ALL_OPTIONS)
def test_a_stop_that_was_stored_ends_the_turn_under_every_option(options: RecoveryOptions) -> None:
    """Who had stopped the turn is told so; open calls get their results, what may have run is unknown."""
    found = replace(
        RUNNING,
        active_execution=replace(ACTIVE, interrupted_by="ann"),
        pending_tools=(tool(UNSAFE), tool(SAFE, "pending")),
        pending_messages=(STEER,),
    )
    draft = recovered(found, options)
    assert results(draft) == [
        ("unsafe", "interrupted", UNKNOWN_OUTCOME),
        ("safe", "interrupted", "interrupted before it ran"),
    ]
    (aborted,) = [msg for msg in told(draft) if isinstance(msg, events.TurnAborted)]
    assert (aborted.turn_id, aborted.outcome, aborted.by) == ("turn-1", "aborted", "ann")
    assert draft.execution is not None
    assert (draft.execution.tool_calls, draft.execution.failed_tool_calls) == (1, 1)
    assert draft.checkpoint.pending_messages == (replace(STEER, boundary=Boundary.queue()),)


def test_a_stop_of_a_waiting_approval_closes_it() -> None:
    """The request is over in the same transaction, and says that it was interrupted."""
    found = replace(
        RUNNING,
        active_execution=replace(ACTIVE, interrupted_by="ann"),
        pending_tools=(tool(UNSAFE, "pending"),),
        pending_approval=asking(),
    )
    draft = recovered(found)
    (resolved,) = [msg for msg in told(draft) if isinstance(msg, events.ApprovalResolved)]
    assert resolved.decision == Resolution.INTERRUPTED
    assert draft.checkpoint.pending_approval is None


def test_a_step_in_flight_is_closed_and_its_turn_aborted() -> None:
    """By caution: the step under its own id, then the turn, in this order and with nothing between."""
    draft = recovered(replace(RUNNING, active_model_step=STEP, pending_messages=(STEER, QUEUED)))
    assert told(draft)[0] == events.ModelStepCompleted(
        turn_id="turn-1", model_step_id="step-1", step_index=1, outcome="interrupted"
    )
    assert kinds(draft) == ["model_step_completed", "turn_aborted"]
    assert [message.boundary.kind for message in draft.checkpoint.pending_messages] == ["queue", "queue"]
    assert draft.checkpoint.execution_stats.aborted_run_count == 1


def test_a_step_in_flight_is_asked_again_where_that_is_wanted() -> None:
    """The same turn and the same index go on: no tool had run."""
    draft = recovered(replace(RUNNING, active_model_step=STEP, pending_messages=(STEER,)), GOING_ON)
    assert kinds(draft) == ["model_step_completed"]
    active = draft.checkpoint.active_execution
    assert active == replace(ACTIVE, crash_count=1)
    assert draft.checkpoint.pending_messages == (STEER,)


@pytest.mark.parametrize("options", ALL_OPTIONS)
def test_calls_that_may_be_repeated_wait_again_under_their_keys(options: RecoveryOptions) -> None:
    """Started `safe` and `by_key` calls go back to pending, whatever the options."""
    draft = recovered(replace(RUNNING, pending_tools=(tool(SAFE), tool(KEYED), tool(UNSAFE, "pending"))), options)
    assert draft.checkpoint.pending_tools == (
        tool(SAFE, "pending"),
        tool(KEYED, "pending"),
        tool(UNSAFE, "pending"),
    )
    assert draft.checkpoint.active_execution == replace(ACTIVE, crash_count=1)
    assert draft.execution is None


def test_an_uncertain_call_ends_the_turn_by_caution() -> None:
    """Its outcome is unknown, calls that had not begun do not run, stored results stay, the turn is aborted."""
    found = replace(RUNNING, pending_tools=(tool(KEYED, "done"), tool(UNSAFE), tool(SAFE, "pending")))
    draft = recovered(found)
    assert results(draft) == [
        ("unsafe", "unknown", UNKNOWN_OUTCOME),
        ("safe", "interrupted", "interrupted before it ran"),
    ]
    assert kinds(draft) == ["tool_call_end", "tool_call_end", "turn_aborted"]
    assert draft.execution is not None
    assert (draft.execution.outcome, draft.execution.failed_tool_calls) == ("aborted", 1)
    assert draft.checkpoint.pending_tools == ()


def test_after_an_uncertain_call_the_same_turn_goes_on_where_that_is_wanted() -> None:
    """The model is told that the outcome is unknown; calls that had not begun still run."""
    found = replace(RUNNING, pending_tools=(tool(UNSAFE), tool(SAFE), KEYED_PENDING), active_model_step=None)
    draft = recovered(found, GOING_ON)
    assert results(draft) == [("unsafe", "unknown", UNKNOWN_OUTCOME)]
    assert [(t.call.call_id, t.state) for t in draft.checkpoint.pending_tools] == [
        ("unsafe", "done"),
        ("safe", "pending"),
        ("by_key", "pending"),
    ]
    assert draft.execution is None
    assert draft.checkpoint.active_execution is not None
    assert draft.checkpoint.active_execution.turn_id == "turn-1"


KEYED_PENDING = tool(KEYED, "pending")


def test_an_active_step_beside_a_started_call_is_closed_first() -> None:
    """A step and a call can only be there together in a damaged state; the step is closed before the call."""
    draft = recovered(replace(RUNNING, active_model_step=STEP, pending_tools=(tool(UNSAFE),)))
    assert kinds(draft)[:2] == ["model_step_completed", "tool_call_end"]


def test_an_open_question_with_calls_marked_as_started_is_asked_again() -> None:
    """Nothing starts before the decision, so a checkpoint made by hand that says otherwise loses nothing."""
    draft = recovered(replace(RUNNING, pending_tools=(tool(UNSAFE),), pending_approval=asking()))
    assert draft.checkpoint.pending_tools == (tool(UNSAFE, "pending"),)
    assert draft.checkpoint.pending_approval == asking()
    assert draft.events == []


@pytest.mark.parametrize("options", ALL_OPTIONS)
@pytest.mark.parametrize("in_flight", ["step", "tool"])
def test_a_turn_that_ends_the_program_three_times_is_given_up(in_flight: str, options: RecoveryOptions) -> None:
    """The third crash ends the turn as failed in one transaction; what waits is kept."""
    active = replace(ACTIVE, crash_count=MAX_CRASHES - 1)
    found = replace(RUNNING, active_execution=active, pending_messages=(QUEUED,))
    found = (
        replace(found, active_model_step=STEP) if in_flight == "step" else replace(found, pending_tools=(tool(UNSAFE),))
    )
    draft = recovered(found, options)
    assert [kind for kind in kinds(draft) if kind in ("error", "turn_aborted")] == ["error", "turn_aborted"]
    assert draft.execution is not None
    assert draft.execution.outcome == "failed"
    assert draft.checkpoint.pending_messages == (QUEUED,)
    (error,) = [msg for msg in told(draft) if isinstance(msg, events.Error)]
    assert (error.reference, error.turn_id) == ("REF", "turn-1")


@pytest.mark.parametrize("crashes", range(MAX_CRASHES - 1))
def test_only_what_was_in_flight_counts_as_a_crash(crashes: int) -> None:
    """A restart while a person is asked, or between two steps, is nobody's fault."""
    waiting = replace(
        RUNNING,
        active_execution=replace(ACTIVE, crash_count=crashes),
        pending_tools=(tool(UNSAFE, "pending"),),
        pending_approval=asking(),
    )
    assert not recovered(waiting, GOING_ON).changed
    flying = replace(RUNNING, active_execution=replace(ACTIVE, crash_count=crashes), active_model_step=STEP)
    active = recovered(flying, GOING_ON).checkpoint.active_execution
    assert (active.crash_count if active else None) == (crashes + 1 if crashes + 1 < MAX_CRASHES else None)


def test_a_steer_for_a_turn_that_is_gone_waits_for_a_turn_of_its_own() -> None:
    """At every start: nothing waits for ever."""
    draft = recovered(replace(IDLE, pending_messages=(QUEUED, STEER)))
    assert draft.checkpoint.pending_messages == (QUEUED, replace(STEER, boundary=Boundary.queue()))
