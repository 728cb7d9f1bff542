"""Answers to a request for approval, and its other ends: expired, undeliverable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from runtime import transitions
from runtime.errors import ToolError
from runtime.protocol import approvals, ops
from runtime.protocol.approvals import ApprovalResult, Grant, PendingApproval, Resolution
from runtime.protocol.checkpoint import Receipt
from runtime.protocol.context import ToolCall
from runtime.session.receipts import accepted, refused
from runtime.session.state import SessionState
from runtime.transitions import Draft

APPROVAL_EXPIRED = "approval expired"
UNDELIVERABLE = "undeliverable: the request for approval could not be shown to anybody"


class Decisions:
    """The requests for approval of one session."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    async def resolve(self, draft: Draft, op: ops.ResolveApproval, submission_id: str) -> Receipt:
        """Answer the one pending request; every other is told what became of it."""
        pending = draft.checkpoint.pending_approval
        if pending is None or pending.request_id != op.request_id:
            pending = await self._state.store.approval(self._state.session_id, op.request_id)
            if pending is None or pending.decision is None:
                return refused(draft, submission_id, "there is no such request", ApprovalResult(status="unknown"))
        if pending.decision is not None:
            return _already(draft, pending, submission_id)
        if pending.expires_at_ms is not None and draft.now_ms >= pending.expires_at_ms:
            expire(draft)
            result = ApprovalResult(status="expired")
            return Receipt(submission_id=submission_id, status="rejected", reason=APPROVAL_EXPIRED, result=result)
        problem = await self._decide(draft, pending, op)
        if problem is not None:
            return refused(draft, submission_id, problem, ApprovalResult(status="unknown"))
        closed = draft.checkpoint.pending_approval
        resolution = closed.decision if closed is not None else _resolution_of(op.decision)
        result = ApprovalResult(
            status="resolved", decision=resolution, decided_by=op.decided_by, decided_at_ms=draft.now_ms
        )
        return accepted(draft, submission_id, result)

    async def _decide(self, draft: Draft, pending: PendingApproval, op: ops.ResolveApproval) -> str | None:
        """Put the decision into the draft; a sentence if it cannot be taken."""
        by = op.decided_by
        match op.decision:
            case approvals.Approve():
                transitions.close_approval(draft, Resolution.APPROVED, by)
            case approvals.ApproveForSession():
                if pending.high_risk:
                    return "this request may only be approved once"
                transitions.close_approval(draft, Resolution.APPROVED_FOR_SESSION, by)
                draft.grants.extend(self._grants_for(pending, by, draft.now_ms))
            case approvals.ApproveWith():
                return await self._approve_edited(draft, pending, op.decision, by)
            case approvals.Deny():
                _deny(draft, pending, op.decision.reason.strip(), by)
            case approvals.Abort():
                transitions.close_approval(draft, Resolution.ABORTED, by)
                transitions.abort_turn(draft, "aborted with its approval", by=by)
            case _:
                assert_never(op.decision)
        return None

    async def _approve_edited(
        self, draft: Draft, pending: PendingApproval, decision: approvals.ApproveWith, by: str | None
    ) -> str | None:
        actions, digests = dict(pending.actions), dict(pending.digests)
        for call_id in (*decision.arguments, *decision.deny):
            if call_id not in pending.gated:
                return f"call {call_id!r} is not part of this request"
        calls = {call.call_id: call for call in pending.calls}
        for call_id, arguments in decision.arguments.items():
            call = calls[call_id]
            try:
                action = await self._state.gate.edited(call, arguments, self._state.tool_context(call))
            except ToolError as error:
                return f"the edited arguments do not fit: {error}"
            actions[call_id], digests[call_id] = action, action.digest()
        draft.change(pending_approval=replace(pending, actions=actions, digests=digests))
        transitions.close_approval(draft, Resolution.EDITED, by, self._answer(decision, calls))
        denied = {call_id: f"denied by the user: {reason}" for call_id, reason in decision.deny.items()}
        transitions.refuse_gated(draft, denied, "denied")
        return None

    def _answer(self, decision: approvals.ApproveWith, calls: Mapping[str, ToolCall]) -> str:
        """What a question was answered, for whoever sees its card; empty where an action was changed."""
        answers = (
            arguments.get("answer")
            for call_id, arguments in decision.arguments.items()
            if calls[call_id].name in self._state.gate.questions
        )
        return next((answer for answer in answers if isinstance(answer, str)), "")

    def _grants_for(self, pending: PendingApproval, by: str | None, now_ms: int) -> list[Grant]:
        config = self._state.config
        lifetime = int(config.allow_for_session_seconds * 1000)
        return [
            Grant(
                id=config.new_id(),
                session_id=self._state.session_id,
                digest=pending.actions[call.call_id].grant_digest(),
                tool=call.name,
                summary=self._state.gate.summary(call),
                granted_by=by,
                granted_at_ms=now_ms,
                expires_at_ms=now_ms + lifetime,
            )
            for call in pending.calls
            if call.call_id in pending.gated
        ]


def expire(draft: Draft) -> None:
    """Nobody decided in time: the request is closed, and its calls do not run."""
    pending = draft.checkpoint.pending_approval
    assert pending is not None
    transitions.close_approval(draft, Resolution.EXPIRED, None)
    transitions.refuse_gated(draft, dict.fromkeys(pending.gated, APPROVAL_EXPIRED), "expired")


def undeliverable(draft: Draft, op: ops.Undeliverable, submission_id: str) -> Receipt:
    """Nobody could be asked: the request is closed, and its calls do not run."""
    pending = draft.checkpoint.pending_approval
    if pending is None or pending.request_id != op.request_id or pending.decision is not None:
        return refused(draft, submission_id, "that request is not open")
    transitions.close_approval(draft, Resolution.UNDELIVERABLE, None, op.reason)
    transitions.refuse_gated(draft, dict.fromkeys(pending.gated, UNDELIVERABLE), "refused")
    return accepted(draft, submission_id)


def _deny(draft: Draft, pending: PendingApproval, reason: str, by: str | None) -> None:
    transitions.close_approval(draft, Resolution.DENIED, by, reason)
    text = f"denied by the user: {reason}" if reason else "denied by the user"
    transitions.refuse_gated(draft, dict.fromkeys(pending.gated, text), "denied")


def _already(draft: Draft, pending: PendingApproval, submission_id: str) -> Receipt:
    result = ApprovalResult(
        status="expired" if pending.decision == Resolution.EXPIRED else "already",
        decision=pending.decision,
        decided_by=pending.decided_by,
        decided_at_ms=pending.decided_at_ms,
    )
    return refused(draft, submission_id, "the request is decided already", result)


def _resolution_of(decision: approvals.Decision) -> Resolution:
    match decision:
        case approvals.Approve():
            return Resolution.APPROVED
        case approvals.ApproveForSession():
            return Resolution.APPROVED_FOR_SESSION
        case approvals.ApproveWith():
            return Resolution.EDITED
        case approvals.Deny():
            return Resolution.DENIED
        case approvals.Abort():
            return Resolution.ABORTED
        case _:
            assert_never(decision)
