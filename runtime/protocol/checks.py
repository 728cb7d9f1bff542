"""What must hold of every checkpoint that is saved or loaded."""

from __future__ import annotations

from runtime.errors import InvalidCheckpoint
from runtime.protocol.checkpoint import VERSION, Checkpoint, ExecutionRecord


def check(checkpoint: Checkpoint, execution: ExecutionRecord | None = None) -> None:
    """Raise InvalidCheckpoint, naming the first contradiction, or return."""
    for problem in _problems(checkpoint, execution):
        raise InvalidCheckpoint(f"session {checkpoint.session_id!r}: {problem}")


def _problems(c: Checkpoint, execution: ExecutionRecord | None):  # type: ignore[no-untyped-def]
    if c.version != VERSION:
        yield f"version {c.version} is not {VERSION}"
    if not c.session_id:
        yield "the session id is empty"
    if c.sequence < 0:
        yield "the sequence is negative"
    active = c.active_execution
    inner = (c.active_model_step, c.pending_approval, c.pending_tools or None)
    if active is None:
        if any(part is not None for part in inner):
            yield "a model step, tool or approval is pending, but no turn runs"
    else:
        if not active.turn_id or not active.submission_id:
            yield "the running turn has an empty id"
        if active.phase.kind == "completion" and any(part is not None for part in inner):
            yield "the turn is completing, but a model step, tool or approval is pending"
        if execution is not None:
            yield "an execution record was given while a turn still runs"
    yield from _problems_of_ids(c)
    if execution is not None and execution.ended_at_ms < execution.started_at_ms:
        yield "the execution record ends before it starts"


def _problems_of_ids(c: Checkpoint):  # type: ignore[no-untyped-def]
    ids = [message.id for message in c.pending_messages]
    if any(not id for id in ids) or len(set(ids)) != len(ids):
        yield "a queued message has an empty or a repeated id"
    calls = [tool.call.call_id for tool in c.pending_tools]
    if any(not call for call in calls) or len(set(calls)) != len(calls):
        yield "a pending tool has an empty or a repeated call id"
    if c.active_model_step is not None and not c.active_model_step.model_step_id:
        yield "the active model step has an empty id"
    approval = c.pending_approval
    if approval is not None:
        if not approval.request_id:
            yield "the pending approval has an empty id"
        if c.active_execution is not None and approval.turn_id != c.active_execution.turn_id:
            yield "the pending approval belongs to another turn"
