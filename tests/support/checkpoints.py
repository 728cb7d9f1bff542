"""Values in which nothing has its default, for tests that must not lose a field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runtime.protocol import (
    Action,
    ActiveExecution,
    ActiveModelStep,
    ApprovalResult,
    AssistantMessage,
    Attachment,
    Boundary,
    Checkpoint,
    Context,
    ContextDelta,
    ContextItem,
    EventMsg,
    ExecutionPhase,
    ExecutionRecord,
    ExecutionStats,
    Grant,
    InterruptResult,
    PendingApproval,
    PendingTool,
    QueuedMessage,
    Quoted,
    Receipt,
    Resolution,
    SessionContext,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    events,
)

USAGE = Usage(input_tokens=11, output_tokens=7, cache_read_tokens=3, cost_usd=0.125)
ATTACHMENT = Attachment(id="file-1", name="Plan ü.pdf", media_type="application/pdf", size=1234, sha256="ab" * 32)
QUOTED = Quoted(source="thread", author="ada", text="as I said:\n> no")
LABELS = SessionContext(
    tenant_id="team-1",
    user_id="user-1",
    user_name="Ada",
    workspace_id="ws-1",
    workspace_label="project",
    origin_label="cron",
)
READ = ToolCall(call_id="call-1", name="read_file", arguments={"path": "a/ü.txt", "limit": 3, "deep": {"x": [1, None]}})
WRITE = ToolCall(call_id="call-2", name="write_file", arguments={"path": "b.txt", "text": "\x00\u2028"})
SHELL = ToolCall(call_id="call-3", name="shell", arguments={"argv": ["ls", "-l"]})


def action(call: ToolCall, **changes: Any) -> Action:
    """An Action with every field set."""
    fields: dict[str, Any] = {
        "tool": call.name,
        "schema_hash": "5c",
        "arguments": call.arguments,
        "argv": ("ls", "-l"),
        "cwd": "/srv/project",
        "environment": {"LANG": "C"},
        "stdin_hash": "0f",
        "files": {"b.txt": "77"},
        "network": "host",
        "sandbox": "bubblewrap",
        "timeout_seconds": 2.5,
        "workspace_id": "ws-1",
        "session_id": "s",
        "turn_id": "turn-1",
        "requester": "telegram:7",
        "version": 1,
    }
    return Action(**(fields | changes))


def approval(**changes: Any) -> PendingApproval:
    """A request for two of three calls, decided."""
    made = PendingApproval(
        request_id="request-1",
        turn_id="turn-1",
        submission_id="message-1",
        calls=(READ, WRITE, SHELL),
        gated=("call-2", "call-3"),
        actions={"call-2": action(WRITE), "call-3": action(SHELL)},
        digests={"call-2": action(WRITE).digest(), "call-3": action(SHELL).digest()},
        reason="writes outside",
        expires_at_ms=2_000_000,
        decision=Resolution.APPROVED,
        decided_by="telegram:8",
        decided_at_ms=1_500_000,
        high_risk=True,
    )
    return replace(made, **changes)


ITEMS: tuple[ContextItem, ...] = (
    SystemMessage(text="Summary of what came before."),
    UserMessage(
        id="message-0",
        author="ada",
        text="hello 👋",
        attachments=(ATTACHMENT,),
        principal="telegram:7",
        quoted=(QUOTED,),
    ),
    AssistantMessage(
        parts=(ThinkingPart(text="hm"), TextPart(text="I look."), READ), native={"id": "msg_1", "signature": ["x", 1]}
    ),
    ToolResult(call_id="call-1", name="read_file", output="text", is_error=True, outcome="failed"),
)

MESSAGES = (
    QueuedMessage(
        id="message-2",
        boundary=Boundary.steer("turn-1"),
        author="ada",
        text="stop that",
        principal="telegram:7",
        quoted=(QUOTED,),
        attachments=(ATTACHMENT,),
        reply_to="message-0",
        accepted_at_ms=1_100_000,
    ),
    QueuedMessage(id="message-3", boundary=Boundary.queue(), author="bob", text="and then", accepted_at_ms=1_200_000),
)

ACTIVE = ActiveExecution(
    submission_id="message-1",
    turn_id="turn-1",
    started_at_ms=1_000_000,
    model_calls=2,
    tool_calls=3,
    failed_tool_calls=1,
    usage=USAGE,
    next_model_step=2,
    stop_hook_active=True,
    interrupted_by="telegram:7",
    crash_count=1,
    principals=("telegram:7", "telegram:8"),
    phase=ExecutionPhase.model(),
)

TOOLS = (
    PendingTool(call=READ, state="done", idempotency_key="key-1"),
    PendingTool(call=WRITE, state="started", idempotency_key="key-2"),
    PendingTool(call=SHELL, state="pending", idempotency_key="key-3"),
)


def full_checkpoint(session_id: str = "s", sequence: int = 1) -> Checkpoint:
    """A checkpoint in which no field has its default."""
    return Checkpoint(
        session_id=session_id,
        sequence=sequence,
        session_context=LABELS,
        metadata={"gateway.chat": {"workspace": "/srv/project", "versions": [1, 2]}},
        model_route="large",
        context=Context(ITEMS),
        context_epoch=2,
        pending_messages=MESSAGES,
        active_execution=ACTIVE,
        active_model_step=ActiveModelStep(model_step_id="step-1", step_index=1, started_at_ms=1_000_500),
        pending_tools=TOOLS,
        pending_approval=approval(),
        execution_stats=ExecutionStats(
            run_count=5, aborted_run_count=1, failed_run_count=2, model_calls=9, tool_calls=8, failed_tool_calls=3
        ),
        total_usage=USAGE,
        title="A title",
        retiring=True,
        loop_state={"status": "running", "rounds_started": 2},
        runtime_status="suspended",
    )


RECORD = ExecutionRecord(
    turn_id="turn-0",
    submission_id="message-0",
    started_at_ms=10,
    ended_at_ms=20,
    outcome="failed",
    model_calls=2,
    tool_calls=3,
    failed_tool_calls=1,
    usage=USAGE,
)

RECEIPTS = (
    Receipt(submission_id="message-1", status="accepted", disposition="steer", position=2, reason="because"),
    Receipt(
        submission_id="press-1",
        status="accepted",
        result=ApprovalResult(
            status="already", decision=Resolution.DENIED, decided_by="telegram:8", decided_at_ms=1_500_000
        ),
    ),
    Receipt(submission_id="stop-1", status="accepted", result=InterruptResult(status="stopping")),
)

GRANT = Grant(
    id="grant-1",
    session_id="s",
    digest="d1",
    tool="shell",
    summary="ls -l",
    granted_by="telegram:8",
    granted_at_ms=1_000_000,
    expires_at_ms=9_000_000,
)

EVENTS: tuple[EventMsg, ...] = (
    events.SessionConfigured(
        session_id="s", context=LABELS, model=events.ModelInfo(route="large", name="m", context_window=1000)
    ),
    events.MessageQueued(
        message_id="message-2", disposition="steer", position=1, text="x", author="ada", principal="telegram:7"
    ),
    events.MessageEdited(message_id="message-2", text="y"),
    events.MessageRemoved(message_id="message-2", by="telegram:7"),
    events.Message(
        message_id="message-2",
        author="ada",
        delivery="queue",
        text="y",
        attachments=(ATTACHMENT,),
        principal="telegram:7",
        turn_id="turn-1",
    ),
    events.TurnStarted(turn_id="turn-1", message_id="message-1"),
    events.TurnComplete(
        turn_id="turn-1", last_assistant_message="done", usage=USAGE, model_calls=2, tool_calls=1, duration_ms=5
    ),
    events.TurnAborted(
        turn_id="turn-1",
        reason="stopped",
        outcome="failed",
        by="telegram:7",
        model_calls=2,
        tool_calls=1,
        duration_ms=5,
    ),
    events.ModelStepStarted(turn_id="turn-1", model_step_id="step-1", step_index=1),
    events.ModelStepCompleted(turn_id="turn-1", model_step_id="step-1", step_index=1, outcome="retrying", usage=USAGE),
    events.AssistantMessage(turn_id="turn-1", model_step_id="step-1", text="hm", overtaken=True),
    events.ToolCallBegin(turn_id="turn-1", call_id="call-1", name="read_file", summary="a"),
    events.ToolCallEnd(
        turn_id="turn-1", call_id="call-1", name="read_file", output="text", is_error=True, outcome="failed"
    ),
    events.ApprovalRequested(
        request_id="request-1",
        turn_id="turn-1",
        calls=(WRITE, SHELL),
        reason="writes outside",
        expires_at_ms=2_000_000,
        summaries=("b.txt", "ls -l"),
        high_risk=True,
        requester="telegram:7",
    ),
    events.ApprovalResolved(
        request_id="request-1", turn_id="turn-1", decision=Resolution.EDITED, decided_by="telegram:8", reason="ok"
    ),
    events.ModelChanged(route="small", name="n", context_window=100),
    events.SubmissionRejected(reason="stale turn"),
    events.Warning(message="nothing to stop"),
    events.Error(kind="rate_limit", message="wait", retryable=True, retry_after=1.5, reference="E-1", turn_id="turn-1"),
    events.TokenCount(last=USAGE, total=USAGE, context_window=1000),
    events.ContextCompacted(epoch=3, items_before=10, items_after=2),
    events.GrantRevoked(grant_id="grant-1"),
    events.SessionRetired(reason="retired"),
    events.LoopStarted(loop_id="loop-1", generation=1, max_iterations=5, max_rounds=20),
    events.LoopIterationStarted(index=1),
    events.LoopIterationCompleted(index=1),
    events.LoopEnded(loop_id="loop-1", status="failed", iterations_completed=1, rounds_started=2, error="x"),
)


def grown(checkpoint: Checkpoint, items: tuple[ContextItem, ...], **changes: Any) -> tuple[Checkpoint, ContextDelta]:
    """The next checkpoint with `items` appended, and its delta."""
    delta = ContextDelta(epoch=checkpoint.context_epoch, start=len(checkpoint.context), items=items)
    after = replace(checkpoint, sequence=checkpoint.sequence + 1, context=checkpoint.context.append(items), **changes)
    return after, delta


def following(checkpoint: Checkpoint, **changes: Any) -> Checkpoint:
    """The next checkpoint."""
    return replace(checkpoint, sequence=checkpoint.sequence + 1, **changes)


def text_item(number: int) -> UserMessage:
    """A small context item."""
    return UserMessage(id=f"message-{number}", author="ada", text=f"text {number}")
