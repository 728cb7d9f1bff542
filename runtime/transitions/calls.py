"""Tool calls and the approval that they may need. Pure, into a draft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from runtime import loop_moves
from runtime.protocol import events
from runtime.protocol.approvals import PendingApproval, PendingTool, Resolution
from runtime.protocol.checkpoint import (
    ActiveExecution,
)
from runtime.protocol.context import (
    Outcome,
    ToolCall,
    ToolResult,
)
from runtime.transitions.draft import Draft, set_loop

SKIPPED = "skipped because of new instructions"


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
