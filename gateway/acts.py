"""What commands and controls both do to a session, and how its true result is put into words."""

from __future__ import annotations

from gateway.handling import Desk, clock_time
from gateway.ledger import places as place_rows
from gateway.strings import say
from runtime.errors import ConfigurationError
from runtime.protocol import ops
from runtime.protocol.approvals import ApprovalResult, Decision, InterruptResult, Resolution
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import UserMessage
from runtime.store.writer import Statement


async def interrupt(desk: Desk, session_id: str, turn_id: str, by: str, submission_id: str) -> InterruptResult:
    """End exactly this turn; a later one goes on."""
    receipt = await desk.submit(session_id, ops.Interrupt(turn_id=turn_id, by=by), submission_id)
    result = receipt.result
    if not isinstance(result, InterruptResult):
        result = InterruptResult(status="not_running" if receipt.status == "rejected" else "stopping")
    if result.status == "stopping":
        desk.stopping(session_id, turn_id)
    return result


async def resolve(
    desk: Desk, session_id: str, request_id: str, decision: Decision, by: str, submission_id: str
) -> ApprovalResult:
    """Decide exactly this request, or learn what became of it."""
    op = ops.ResolveApproval(request_id=request_id, decision=decision, decided_by=by)
    receipt = await desk.submit(session_id, op, submission_id)
    if isinstance(receipt.result, ApprovalResult):
        return receipt.result
    return ApprovalResult(status="resolved" if receipt.status == "duplicate" else "unknown")


async def retire(desk: Desk, session_id: str, by: str, submission_id: str) -> list[Statement]:
    """End a retiring session; the statements say that it has ended.

    One that cannot be opened as things are stays `retiring`: it cannot run either, and every start tries again.
    """
    op = ops.Retire(by=by, reason="a new conversation was begun")
    try:
        await desk.submit(session_id, op, submission_id)
    except ConfigurationError:
        return []
    return [place_rows.retired(session_id)]


async def result_words(desk: Desk, result: ApprovalResult) -> str:
    """The true result of a decision, for whoever decided."""
    match result.status:
        case "resolved":
            return say(f"decided.{result.decision.value if result.decision else 'approved'}")
        case "already":
            outcome = say(f"outcome_word.{(result.decision or Resolution.INVALIDATED).value}")
            at = clock_time(result.decided_at_ms or 0)
            if result.decided_by is None:
                return say("decided.closed", outcome=outcome, at=at)
            return say("decided.already", outcome=outcome, who=await desk.name(result.decided_by), at=at)
        case "expired":
            return say("decided.expired")
        case "unknown":
            return say("decided.unknown")


def requesters(checkpoint: Checkpoint | None) -> frozenset[str]:
    """On whose behalf the gated calls would run: whoever they name, and everybody whose words entered the turn."""
    if checkpoint is None:
        return frozenset()
    approval, active = checkpoint.pending_approval, checkpoint.active_execution
    named = (action.requester for action in approval.actions.values()) if approval else ()
    spoke = active.principals if active else ()
    return frozenset(who for who in (*named, *spoke) if who is not None)


def last_message(checkpoint: Checkpoint | None) -> UserMessage | None:
    """The last words of a person in the conversation."""
    if checkpoint is None:
        return None
    for item in reversed(checkpoint.context):
        if isinstance(item, UserMessage):
            return item
    return None
