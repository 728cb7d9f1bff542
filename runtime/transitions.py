"""Every change of a session, as pure functions over a draft.

A draft starts as a checkpoint and gathers what one transaction will hold: the next checkpoint, the context items and
events that come with it, receipts, grants, and the execution record of a turn that ends. Nothing here reads a clock,
makes an id or touches a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from runtime import loop_moves
from runtime.protocol import events
from runtime.protocol.approvals import Grant, PendingApproval, PendingTool, Resolution
from runtime.protocol.checkpoint import (
    ActiveExecution,
    ActiveModelStep,
    Checkpoint,
    ExecutionPhase,
    ExecutionRecord,
    Receipt,
)
from runtime.protocol.context import (
    AssistantMessage,
    AssistantPart,
    Context,
    ContextDelta,
    ContextItem,
    JsonValue,
    Outcome,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from runtime.protocol.events import Event, EventMsg
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.protocol.session import Boundary, QueuedMessage

UNKNOWN_OUTCOME = "execution interrupted; result unknown after restart"
SKIPPED = "skipped because of new instructions"
INTERRUPTED = "interrupted before it ran"
CUT_OFF = "interrupted while it ran; what it did until then stays"
LEFT_LOOP = "the loop ended"
TITLE_LENGTH = 60


class Draft:
    """A transition in the making; see the module."""

    def __init__(self, checkpoint: Checkpoint, now_ms: int) -> None:
        self.base = checkpoint
        self.now_ms = now_ms
        self.checkpoint = checkpoint
        self.items: list[ContextItem] = []
        self.events: list[Event] = []
        self.receipts: list[Receipt] = []
        self.grants: list[Grant] = []
        self.execution: ExecutionRecord | None = None
        self.new_epoch = False

    @property
    def changed(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.checkpoint is not self.base or self.events or self.receipts or self.grants)

    @property
    def active(self) -> ActiveExecution:
        """The turn that runs; there must be one."""
        active = self.checkpoint.active_execution
        assert active is not None, "no turn runs"
        return active

    def delta(self) -> ContextDelta:
        """What the transaction appends to the context."""
        if self.new_epoch:
            return ContextDelta(epoch=self.checkpoint.context_epoch, start=0, items=tuple(self.checkpoint.context))
        return ContextDelta(epoch=self.base.context_epoch, start=len(self.base.context), items=tuple(self.items))

    def emit(self, msg: EventMsg, submission_id: str | None = None) -> None:
        """Let `msg` be part of the transaction; by default correlated with the message that started the turn."""
        if submission_id is None and self.checkpoint.active_execution is not None:
            submission_id = self.checkpoint.active_execution.submission_id
        self.events.append(Event(sequence=None, submission_id=submission_id, recorded_at_ms=self.now_ms, msg=msg))

    def change(self, **fields: object) -> None:
        """Replace fields of the checkpoint."""
        self.checkpoint = replace(self.checkpoint, **fields)  # type: ignore[arg-type]

    def change_active(self, **fields: object) -> None:
        """Replace fields of the running turn."""
        self.change(active_execution=replace(self.active, **fields))  # type: ignore[arg-type]

    def append(self, *items: ContextItem) -> None:
        """Let the model see `items` from now on."""
        self.items.extend(items)
        self.change(context=self.checkpoint.context.append(items))


# ------------------------------------------------------------------------------------------------ what waits


def accept_message(draft: Draft, message: QueuedMessage) -> Receipt:
    """Make `message` wait at its boundary; the receipt may be given once this is stored."""
    pending = (*draft.checkpoint.pending_messages, message)
    draft.change(pending_messages=pending)
    disposition = _disposition(message.boundary)
    receipt = Receipt(submission_id=message.id, status="accepted", disposition=disposition, position=len(pending))
    draft.receipts.append(receipt)
    draft.emit(announce(message, len(pending)), message.id)
    return receipt


def announce(message: QueuedMessage, position: int) -> events.MessageQueued:
    """The event that says where `message` waits."""
    return events.MessageQueued(
        message_id=message.id,
        disposition=_disposition(message.boundary),
        position=position,
        text=message.text,
        author=message.author,
        principal=message.principal,
    )


def _disposition(boundary: Boundary) -> Literal["turn", "steer", "queue"]:
    if boundary.kind == "steer":
        return "steer"
    return "queue" if boundary.kind == "queue" else "turn"


def edit_queued(draft: Draft, message_id: str, text: str) -> bool:
    """Give a waiting message a new text; False if it does not wait any more."""
    if not any(message.id == message_id for message in draft.checkpoint.pending_messages):
        return False
    pending = tuple(
        replace(message, text=text) if message.id == message_id else message
        for message in draft.checkpoint.pending_messages
    )
    draft.change(pending_messages=pending)
    draft.emit(events.MessageEdited(message_id=message_id, text=text), message_id)
    return True


def remove_queued(draft: Draft, message_id: str, by: str | None) -> bool:
    """Remove a waiting message; False if it does not wait any more."""
    kept = tuple(message for message in draft.checkpoint.pending_messages if message.id != message_id)
    if len(kept) == len(draft.checkpoint.pending_messages):
        return False
    draft.change(pending_messages=kept)
    draft.emit(events.MessageRemoved(message_id=message_id, by=by), message_id)
    return True


def promote_queued(draft: Draft, message_id: str) -> bool:
    """Let a waiting message steer the running turn; False if it does not wait or nothing runs."""
    active = draft.checkpoint.active_execution
    if active is None:
        return False
    found = False
    pending: list[QueuedMessage] = []
    for position, message in enumerate(draft.checkpoint.pending_messages, start=1):
        if message.id == message_id:
            found = True
            message = replace(message, boundary=Boundary.steer(active.turn_id))
            draft.emit(announce(message, position), message.id)
        pending.append(message)
    if found:
        draft.change(pending_messages=tuple(pending))
    return found


def release_steers(draft: Draft) -> None:
    """Let steers of a turn that does not run wait for a turn of their own, where they stand: nothing waits for ever."""
    active = draft.checkpoint.active_execution
    turn_id = active.turn_id if active else None
    pending = tuple(
        replace(message, boundary=Boundary.queue())
        if message.boundary.kind == "steer" and message.boundary.turn_id != turn_id
        else message
        for message in draft.checkpoint.pending_messages
    )
    if pending != draft.checkpoint.pending_messages:
        draft.change(pending_messages=pending)


# ------------------------------------------------------------------------------------------------ a turn begins


def begin_turn(draft: Draft, message: QueuedMessage, turn_id: str, submission_id: str | None = None) -> None:
    """Take `message` out of the queue and start a turn with it; `submission_id`, if it was not the message's own."""
    _open_turn(draft, message, turn_id, submission_id)
    draft.emit(entered(message, _disposition(message.boundary), turn_id), message.id)
    draft.append(as_user_message(message))
    if draft.checkpoint.title is None:
        draft.change(title=_title(message.text))


def reject_turn(
    draft: Draft, message: QueuedMessage, turn_id: str, reason: str, submission_id: str | None = None
) -> None:
    """Consume `message` by a turn that ends at once; its text never enters the context."""
    _open_turn(draft, message, turn_id, submission_id)
    end_turn(draft, "aborted", reason)


def _open_turn(draft: Draft, message: QueuedMessage, turn_id: str, submission_id: str | None) -> None:
    kept = tuple(each for each in draft.checkpoint.pending_messages if each.id != message.id)
    active = ActiveExecution(
        submission_id=submission_id or message.id,
        turn_id=turn_id,
        started_at_ms=draft.now_ms,
        principals=(message.principal,) if message.principal else (),
    )
    draft.change(pending_messages=kept, active_execution=active)
    draft.emit(events.TurnStarted(turn_id=turn_id, message_id=message.id))


def entered(message: QueuedMessage, delivery: Literal["turn", "steer", "queue"], turn_id: str) -> events.Message:
    """The event that says that `message` is part of the conversation."""
    return events.Message(
        message_id=message.id,
        author=message.author,
        delivery=delivery,
        text=message.text,
        attachments=message.attachments,
        principal=message.principal,
        turn_id=turn_id,
    )


def as_user_message(message: QueuedMessage) -> UserMessage:
    """What the model sees of a message."""
    return UserMessage(
        id=message.id,
        author=message.author,
        text=message.text,
        attachments=message.attachments,
        principal=message.principal,
        quoted=message.quoted,
    )


def _title(text: str) -> str | None:
    line = " ".join(text.split())
    return (line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…") or None


def join_turn(draft: Draft, message: QueuedMessage) -> None:
    """Let a queued message enter the turn that has just begun, beside the one that began it."""
    _enter(draft, message, "queue")


# ------------------------------------------------------------------------------------------------ steering


def waiting_steers(checkpoint: Checkpoint) -> tuple[QueuedMessage, ...]:
    """Messages that wait for the next boundary of the running turn, in order."""
    active = checkpoint.active_execution
    if active is None:
        return ()
    target = Boundary.steer(active.turn_id)
    return tuple(message for message in checkpoint.pending_messages if message.boundary == target)


def enter_steer(draft: Draft, message: QueuedMessage) -> None:
    """Let `message` enter the running turn."""
    _enter(draft, message, "steer")


def _enter(draft: Draft, message: QueuedMessage, delivery: Literal["steer", "queue"]) -> None:
    _consume(draft, message)
    active = draft.active
    if message.principal and message.principal not in active.principals:
        draft.change_active(principals=(*active.principals, message.principal))
    draft.emit(entered(message, delivery, active.turn_id), message.id)
    draft.append(as_user_message(message))


def reject_steer(draft: Draft, message: QueuedMessage, reason: str) -> None:
    """Consume `message` without a trace in the context."""
    _consume(draft, message)
    draft.emit(events.SubmissionRejected(reason=reason), message.id)


def _consume(draft: Draft, message: QueuedMessage) -> None:
    draft.change(pending_messages=tuple(m for m in draft.checkpoint.pending_messages if m.id != message.id))


# ------------------------------------------------------------------------------------------------ model steps


def start_step(draft: Draft, model_step_id: str) -> None:
    """A model call is about to start."""
    active = draft.active
    step = ActiveModelStep(model_step_id=model_step_id, step_index=active.next_model_step, started_at_ms=draft.now_ms)
    draft.change(active_model_step=step)
    draft.change_active(model_calls=active.model_calls + 1, phase=ExecutionPhase.model())
    loop = loop_moves.within_iteration(draft.checkpoint)
    if loop is not None:
        set_loop(draft, loop_moves.round_started(loop, step.step_index))
    draft.emit(events.ModelStepStarted(turn_id=active.turn_id, model_step_id=model_step_id, step_index=step.step_index))


def close_step(
    draft: Draft, outcome: Literal["completed", "failed", "interrupted", "retrying"], usage: Usage | None = None
) -> ActiveModelStep | None:
    """The model call in flight is over; its index is used again unless it completed."""
    step = draft.checkpoint.active_model_step
    if step is None:
        return None
    draft.change(active_model_step=None)
    draft.emit(
        events.ModelStepCompleted(
            turn_id=draft.active.turn_id,
            model_step_id=step.model_step_id,
            step_index=step.step_index,
            outcome=outcome,
            usage=usage or Usage(),
        )
    )
    return step


def finish_step(
    draft: Draft,
    parts: tuple[AssistantPart, ...],
    usage: Usage,
    native: JsonValue,
    context_window: int,
) -> None:
    """The model has answered: its calls wait to be authorised, or the turn is about to complete."""
    step = close_step(draft, "completed", usage)
    assert step is not None, "no model step was active"
    active = draft.active
    draft.append(AssistantMessage(parts=parts, native=native))
    calls = tuple(part for part in parts if isinstance(part, ToolCall))
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    draft.change(
        total_usage=draft.checkpoint.total_usage + usage,
        pending_tools=tuple(
            PendingTool(call=call, state="pending", idempotency_key=f"{step.model_step_id}:{call.call_id}")
            for call in calls
        ),
    )
    draft.change_active(
        usage=active.usage + usage,
        next_model_step=active.next_model_step + 1,
        crash_count=0,
        phase=ExecutionPhase.model() if calls else ExecutionPhase.completion(text or None),
    )
    if text:
        draft.emit(events.AssistantMessage(turn_id=active.turn_id, model_step_id=step.model_step_id, text=text))
    draft.emit(events.TokenCount(last=usage, total=draft.checkpoint.total_usage, context_window=context_window))


def overtake(draft: Draft, ending: ExecutionPhase, model_step_id: str) -> None:
    """A steer overtook the ending: what was to be the answer is a message of its own, and the turn goes on."""
    text = ending.last_assistant_message
    draft.change_active(phase=ExecutionPhase.model())
    if not text:
        return
    for position, event in enumerate(draft.events):
        if isinstance(event.msg, events.AssistantMessage) and event.msg.text == text:
            draft.events[position] = replace(event, msg=replace(event.msg, overtaken=True))
            return
    draft.emit(
        events.AssistantMessage(turn_id=draft.active.turn_id, model_step_id=model_step_id, text=text, overtaken=True)
    )


def compact(draft: Draft, summary: str, keep_from: int, usage: Usage, submission_id: str | None = None) -> None:
    """Begin a new epoch: the summary, and the newest part of the context as it is. Alone in its transaction."""
    assert not draft.items, "what was appended before would be lost"
    before = draft.checkpoint.context
    kept = before.since(keep_from)
    items: tuple[ContextItem, ...] = (SystemMessage(text=summary), *kept)
    draft.new_epoch = True
    draft.change(
        context=Context(items),
        context_epoch=draft.checkpoint.context_epoch + 1,
        total_usage=draft.checkpoint.total_usage + usage,
    )
    if draft.checkpoint.active_execution is not None:
        draft.change_active(usage=draft.active.usage + usage)
    draft.emit(
        events.ContextCompacted(epoch=draft.checkpoint.context_epoch, items_before=len(before), items_after=len(items)),
        submission_id,
    )


# ------------------------------------------------------------------------------------------------ tools


def start_tool(draft: Draft, call_id: str, summary: str) -> None:
    """Mark a call as started; its effect may follow once this is stored."""
    tool = _tool(draft, call_id)
    _set_tool(draft, replace(tool, state="started"))
    draft.emit(
        events.ToolCallBegin(turn_id=draft.active.turn_id, call_id=call_id, name=tool.call.name, summary=summary)
    )


def finish_tool(draft: Draft, result: ToolResult) -> None:
    """Store the result of a call; the last one of a batch closes the batch and its approval."""
    tool = _tool(draft, result.call_id)
    if tool.state == "started":
        active = draft.active
        draft.change_active(
            tool_calls=active.tool_calls + 1,
            failed_tool_calls=active.failed_tool_calls + result.is_error,
            crash_count=0 if result.outcome == "completed" else active.crash_count,
        )
    _set_tool(draft, replace(tool, state="done"))
    loop = loop_moves.within_iteration(draft.checkpoint)
    if loop is not None:
        set_loop(draft, loop_moves.with_effect(loop, tool.call, result))
    draft.append(result)
    draft.emit(
        events.ToolCallEnd(
            turn_id=draft.active.turn_id,
            call_id=result.call_id,
            name=result.name,
            output=result.output,
            is_error=result.is_error,
            outcome=result.outcome,
        )
    )
    if all(each.state == "done" for each in draft.checkpoint.pending_tools):
        draft.change(pending_tools=(), pending_approval=None)


def refuse_tool(draft: Draft, call: ToolCall, text: str, outcome: Outcome) -> None:
    """Give a call that did not run an error result."""
    finish_tool(draft, ToolResult(call_id=call.call_id, name=call.name, output=text, is_error=True, outcome=outcome))


def _tool(draft: Draft, call_id: str) -> PendingTool:
    return next(tool for tool in draft.checkpoint.pending_tools if tool.call.call_id == call_id)


def _set_tool(draft: Draft, changed: PendingTool) -> None:
    draft.change(
        pending_tools=tuple(
            changed if tool.call.call_id == changed.call.call_id else tool for tool in draft.checkpoint.pending_tools
        )
    )


def return_to_pending(draft: Draft, call_ids: Iterable[str]) -> None:
    """Started calls that may be run again wait once more, under the same idempotency key."""
    again = set(call_ids)
    draft.change(
        pending_tools=tuple(
            replace(tool, state="pending") if tool.call.call_id in again else tool
            for tool in draft.checkpoint.pending_tools
        )
    )


# ------------------------------------------------------------------------------------------------ approvals


def request_approval(draft: Draft, approval: PendingApproval, summaries: Sequence[str]) -> None:
    """Ask a person; no call of the batch starts before the decision."""
    draft.change(pending_approval=approval)
    draft.emit(announce_approval(approval, summaries, draft.active))


def announce_approval(
    approval: PendingApproval, summaries: Sequence[str], active: ActiveExecution
) -> events.ApprovalRequested:
    """The event that asks."""
    return events.ApprovalRequested(
        request_id=approval.request_id,
        turn_id=approval.turn_id,
        calls=tuple(call for call in approval.calls if call.call_id in approval.gated),
        reason=approval.reason,
        expires_at_ms=approval.expires_at_ms,
        summaries=tuple(summaries),
        high_risk=approval.high_risk,
        requester=active.principals[0] if active.principals else None,
    )


def close_approval(draft: Draft, resolution: Resolution, by: str | None, reason: str = "") -> PendingApproval | None:
    """Decide the open approval, at most once. It stays until its batch is done: a restart must know what may run."""
    approval = draft.checkpoint.pending_approval
    if approval is None or approval.decision is not None:
        return None
    closed = replace(approval, decision=resolution, decided_by=by, decided_at_ms=draft.now_ms)
    draft.change(pending_approval=closed)
    draft.change_active(crash_count=0)
    draft.emit(
        events.ApprovalResolved(
            request_id=approval.request_id, turn_id=approval.turn_id, decision=resolution, decided_by=by, reason=reason
        )
    )
    return closed


def refuse_gated(draft: Draft, texts: Mapping[str, str], outcome: Outcome) -> None:
    """Give gated calls that will not run their error result."""
    for tool in draft.checkpoint.pending_tools:
        if tool.state == "pending" and tool.call.call_id in texts:
            refuse_tool(draft, tool.call, texts[tool.call.call_id], outcome)


# ------------------------------------------------------------------------------------------------ a turn ends


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
        end_iteration(draft, loop, answer, reason, active.interrupted_by or by)
    release_steers(draft)


def note(draft: Draft, text: str) -> None:
    """Let the model see a remark of ours."""
    draft.append(SystemMessage(text=text))


# ------------------------------------------------------------------------------------------------ loops


def set_loop(draft: Draft, loop: LoopState) -> None:
    """Store another state of the loop, and with a failure that of the session's runtime."""
    draft.change(loop_state=loop_moves.as_json(loop))
    if loop.status == LoopStatus.FAILED:
        draft.change(runtime_status="failed")


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


def end_iteration(draft: Draft, loop: LoopState, answer: str | None, reason: str, by: str | None) -> None:
    """The turn of an iteration has ended, as `draft.execution` says: so has the iteration, or its loop."""
    assert draft.execution is not None, "no turn has ended"
    after = loop_moves.turn_ended(loop, draft.execution, answer, reason, by)
    set_loop(draft, after)
    if after.iterations_completed > loop.iterations_completed:
        draft.emit(events.LoopIterationCompleted(index=after.iterations_completed), loop.loop_id)


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
