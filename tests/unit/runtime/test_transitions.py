"""Changes of a session as pure functions: what one transaction holds, and that the state before it stays as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime import transitions
from runtime.protocol import (
    ActiveExecution,
    ActiveModelStep,
    Boundary,
    Checkpoint,
    Context,
    ContextDelta,
    ExecutionPhase,
    PendingApproval,
    PendingTool,
    QueuedMessage,
    Resolution,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    events,
)
from runtime.protocol.checks import check
from runtime.transitions import Draft

NOW = 5_000
USAGE = Usage(input_tokens=10, output_tokens=5)
IDLE = replace(Checkpoint.empty("s"), sequence=3, model_route="main", context=(SystemMessage(text="before"),))
ACTIVE = ActiveExecution(submission_id="m", turn_id="t", started_at_ms=1_000)
RUNNING = replace(IDLE, active_execution=ACTIVE)
MESSAGE = QueuedMessage(id="m", boundary=Boundary.queue(), author="ann", text="  do\n it  ", principal="ann-1")
STEER = QueuedMessage(id="st", boundary=Boundary.steer("t"), author="bob", text="and that", principal="bob-2")
FREE, GATED = ToolCall(call_id="free", name="free"), ToolCall(call_id="gated", name="gated")


def kinds(draft: Draft) -> list[str]:
    return [event.kind for event in draft.events]


def asking(decision: Resolution | None = None) -> PendingApproval:
    return PendingApproval(
        request_id="r",
        turn_id="t",
        submission_id="m",
        calls=(FREE, GATED),
        gated=("gated",),
        actions={},
        digests={},
        decision=decision,
    )


def test_an_untouched_draft_has_nothing_to_store() -> None:
    """And one that only reads is no transaction."""
    draft = Draft(IDLE, NOW)
    assert not draft.changed
    assert draft.delta() == ContextDelta(epoch=0, start=1, items=())


def test_a_turn_begins_in_one_piece() -> None:
    """The message leaves the queue, enters the context under its author, gives the title, and is named everywhere."""
    draft = Draft(replace(IDLE, pending_messages=(MESSAGE,)), NOW)
    transitions.begin_turn(draft, MESSAGE, "t")
    entered = UserMessage(id="m", author="ann", text="  do\n it  ", principal="ann-1")
    assert draft.delta() == ContextDelta(epoch=0, start=1, items=(entered,))
    after = draft.checkpoint
    assert (after.pending_messages, after.title) == ((), "do it")
    assert after.active_execution == ActiveExecution(
        submission_id="m", turn_id="t", started_at_ms=NOW, principals=("ann-1",)
    )
    assert kinds(draft) == ["turn_started", "message"]
    assert {event.submission_id for event in draft.events} == {"m"}
    assert draft.base.context == IDLE.context
    check(after)


def test_a_title_is_one_short_line_and_is_given_once() -> None:
    """The first message names the session; later ones do not."""
    draft = Draft(replace(IDLE, pending_messages=(replace(MESSAGE, text="x" * 200),)), NOW)
    transitions.begin_turn(draft, draft.checkpoint.pending_messages[0], "t")
    assert draft.checkpoint.title == "x" * 59 + "…"
    named = Draft(replace(IDLE, title="kept", pending_messages=(MESSAGE,)), NOW)
    transitions.begin_turn(named, MESSAGE, "t")
    assert named.checkpoint.title == "kept"


def test_a_rejected_message_is_consumed_by_a_turn_without_a_word_of_it() -> None:
    """Started, aborted, recorded; its text is in no event and in no context."""
    draft = Draft(replace(IDLE, pending_messages=(MESSAGE,)), NOW)
    transitions.reject_turn(draft, MESSAGE, "t", "not that")
    assert kinds(draft) == ["turn_started", "turn_aborted"]
    assert draft.items == []
    assert "do" not in str([event.msg for event in draft.events]).replace("id=", "")
    assert draft.execution is not None
    assert draft.checkpoint.idle
    check(draft.checkpoint, draft.execution)


def test_a_steer_adds_its_author_to_the_people_of_the_turn_once() -> None:
    """Rights are checked for everybody who spoke."""
    draft = Draft(replace(RUNNING, pending_messages=(STEER, replace(STEER, id="st2"))), NOW)
    for message in transitions.waiting_steers(draft.checkpoint):
        transitions.enter_steer(draft, message)
    assert draft.active.principals == ("bob-2",)
    assert [item.id for item in draft.items if isinstance(item, UserMessage)] == ["st", "st2"]
    assert draft.checkpoint.pending_messages == ()


@pytest.mark.parametrize("outcome", ["retrying", "failed", "interrupted"])
def test_a_step_that_gave_no_answer_leaves_its_index_to_the_next(outcome: Any) -> None:
    """The same index is asked again under another id; calls of the model are counted all the same."""
    draft = Draft(RUNNING, NOW)
    transitions.start_step(draft, "one")
    transitions.close_step(draft, outcome)
    transitions.start_step(draft, "two")
    assert draft.checkpoint.active_model_step == ActiveModelStep(model_step_id="two", step_index=0, started_at_ms=NOW)
    assert draft.active.model_calls == 2
    assert transitions.close_step(Draft(RUNNING, NOW), outcome) is None


def test_an_answer_with_calls_makes_them_wait_under_keys_of_their_own() -> None:
    """Not started; the key names the step, so that the same id in a later batch is another call."""
    draft = Draft(replace(RUNNING, active_execution=replace(ACTIVE, crash_count=2)), NOW)
    transitions.start_step(draft, "step")
    transitions.finish_step(draft, (TextPart(text="first this"), FREE), USAGE, None, 1000)
    assert draft.checkpoint.pending_tools == (PendingTool(call=FREE, state="pending", idempotency_key="step:free"),)
    assert draft.active.phase == ExecutionPhase.model()
    assert (draft.active.next_model_step, draft.active.crash_count) == (1, 0)
    assert (draft.active.usage, draft.checkpoint.total_usage) == (USAGE, USAGE)
    assert kinds(draft) == ["model_step_started", "model_step_completed", "assistant_message", "token_count"]
    check(draft.checkpoint)


def test_an_answer_without_calls_is_the_ending() -> None:
    """It is stored as the phase, so that a restart needs no model for it."""
    draft = Draft(RUNNING, NOW)
    transitions.start_step(draft, "step")
    transitions.finish_step(draft, (TextPart(text="do"), TextPart(text="ne")), USAGE, None, 1000)
    assert draft.active.phase == ExecutionPhase.completion("done")
    transitions.complete_turn(draft)
    completed = draft.events[-1].msg
    assert isinstance(completed, events.TurnComplete)
    assert (completed.last_assistant_message, completed.duration_ms) == ("done", NOW - 1_000)
    assert draft.checkpoint.execution_stats.run_count == 1
    check(draft.checkpoint, draft.execution)


def test_an_overtaken_ending_is_marked_where_it_is_told_or_told_again() -> None:
    """In the same transaction its event is changed; in a later one it is repeated, marked."""
    draft = Draft(RUNNING, NOW)
    transitions.start_step(draft, "step")
    transitions.finish_step(draft, (TextPart(text="done"),), USAGE, None, 1000)
    transitions.overtake(draft, draft.active.phase, "again")
    said = [event.msg for event in draft.events if isinstance(event.msg, events.AssistantMessage)]
    assert [(msg.text, msg.overtaken) for msg in said] == [("done", True)]
    assert draft.active.phase == ExecutionPhase.model()

    ending = ExecutionPhase.completion("done")
    later = Draft(replace(RUNNING, active_execution=replace(ACTIVE, phase=ending)), NOW)
    transitions.overtake(later, ending, "again")
    assert kinds(later) == ["assistant_message"]


def test_the_last_result_closes_the_batch_and_its_approval() -> None:
    """Until then the decision stays, so that a restart knows what may run."""
    tools = tuple(PendingTool(call=each, state="started") for each in (FREE, GATED))
    draft = Draft(replace(RUNNING, pending_tools=tools, pending_approval=asking(Resolution.APPROVED)), NOW)
    transitions.finish_tool(draft, ToolResult(call_id="free", name="free", output="ok"))
    assert draft.checkpoint.pending_approval is not None
    transitions.finish_tool(draft, ToolResult(call_id="gated", name="gated", output="no", is_error=True))
    assert (draft.checkpoint.pending_tools, draft.checkpoint.pending_approval) == ((), None)
    assert (draft.active.tool_calls, draft.active.failed_tool_calls) == (2, 1)


def test_a_call_that_did_not_run_has_a_result_and_counts_as_none() -> None:
    """Denied, skipped, expired: told to the model, and no tool call of the turn."""
    draft = Draft(replace(RUNNING, pending_tools=(PendingTool(call=GATED, state="pending"),)), NOW)
    transitions.refuse_gated(draft, {"gated": "denied by the user"}, "denied")
    assert draft.items == [
        ToolResult(call_id="gated", name="gated", output="denied by the user", is_error=True, outcome="denied")
    ]
    assert draft.active.tool_calls == 0


def test_an_approval_is_decided_once() -> None:
    """A second decision finds it closed, and nothing is told twice."""
    draft = Draft(replace(RUNNING, pending_approval=asking()), NOW)
    assert transitions.close_approval(draft, Resolution.APPROVED, "ann") is not None
    assert transitions.close_approval(draft, Resolution.DENIED, "bob") is None
    approval = draft.checkpoint.pending_approval
    assert approval is not None
    assert (approval.decision, approval.decided_by, approval.decided_at_ms) == (Resolution.APPROVED, "ann", NOW)
    assert kinds(draft) == ["approval_resolved"]


@pytest.mark.parametrize("outcome", ["aborted", "failed"])
def test_a_turn_that_ends_early_leaves_nothing_open(outcome: Any) -> None:
    """Step, approval, calls, steers: everything is closed in the one transaction, and the counts say it once."""
    found = replace(
        RUNNING,
        pending_tools=(
            PendingTool(call=FREE, state="started"),
            PendingTool(call=GATED, state="pending"),
        ),
        pending_approval=asking(),
        pending_messages=(STEER, replace(MESSAGE, id="q")),
    )
    draft = Draft(found, NOW)
    transitions.abort_turn(draft, "because", outcome=outcome, by="ann")
    after = draft.checkpoint
    check(after, draft.execution)
    assert after.idle
    assert {item.call_id for item in draft.items if isinstance(item, ToolResult)} == {"free", "gated"}
    assert [message.boundary for message in after.pending_messages] == [Boundary.queue()] * 2
    stats = after.execution_stats
    assert (stats.run_count, stats.aborted_run_count + stats.failed_run_count) == (1, 1)
    assert getattr(stats, f"{outcome}_run_count") == 1
    assert kinds(draft)[0] == "approval_resolved"
    assert kinds(draft)[-1] == "turn_aborted"
    assert kinds(draft).count("turn_aborted") == 1


def test_a_record_never_ends_before_it_starts() -> None:
    """Also when the machine's clock was set back meanwhile."""
    draft = Draft(RUNNING, 0)
    transitions.abort_turn(draft, "because")
    assert draft.execution is not None
    assert draft.execution.ended_at_ms == draft.execution.started_at_ms
    check(draft.checkpoint, draft.execution)


def test_a_summary_begins_a_new_epoch_with_the_newest_part() -> None:
    """The delta starts at 0; the context before it stays as it was for whoever still holds it."""
    context = tuple(UserMessage(id=str(n), author="ann", text=str(n)) for n in range(5))
    draft = Draft(replace(IDLE, context=context), NOW)
    transitions.compact(draft, "so far", 3, USAGE, "c-1")
    assert draft.delta() == ContextDelta(epoch=1, start=0, items=(SystemMessage(text="so far"), *context[3:]))
    assert draft.base.context == Context(context)
    assert [(event.kind, event.submission_id) for event in draft.events] == [("context_compacted", "c-1")]
    assert draft.checkpoint.total_usage == USAGE


def test_waiting_messages_keep_their_places() -> None:
    """Edit and promotion change a message where it stands; what is not there changes nothing."""
    waiting = tuple(replace(MESSAGE, id=name) for name in "abc")
    draft = Draft(replace(RUNNING, pending_messages=waiting), NOW)
    assert transitions.edit_queued(draft, "b", "new")
    assert transitions.promote_queued(draft, "c")
    assert not transitions.remove_queued(draft, "nobody", None)
    assert not transitions.promote_queued(Draft(replace(IDLE, pending_messages=waiting), NOW), "a")
    assert [(m.id, m.text, m.boundary.kind) for m in draft.checkpoint.pending_messages] == [
        ("a", MESSAGE.text, "queue"),
        ("b", "new", "queue"),
        ("c", MESSAGE.text, "steer"),
    ]
