"""The two ends of an op: accepted with what it did, or refused with a sentence. Pure, into a draft."""

from __future__ import annotations

from runtime.protocol import events
from runtime.protocol.approvals import ApprovalResult, InterruptResult
from runtime.protocol.checkpoint import Receipt
from runtime.transitions import Draft


def accepted(draft: Draft, submission_id: str, result: ApprovalResult | InterruptResult | None = None) -> Receipt:
    """The op is done once this is stored; its id is known from then on."""
    receipt = Receipt(submission_id=submission_id, status="accepted", result=result)
    draft.receipts.append(receipt)
    return receipt


def refused(
    draft: Draft, submission_id: str, problem: str, result: ApprovalResult | InterruptResult | None = None
) -> Receipt:
    """Nothing is done, and everybody who reads along is warned; the id may be used again."""
    draft.emit(events.Warning(message=problem), submission_id)
    return Receipt(submission_id=submission_id, status="rejected", reason=problem, result=result)
