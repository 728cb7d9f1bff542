"""What becomes of an op that asks nothing of the outside: pure, into a draft."""

from __future__ import annotations

from dataclasses import dataclass

from runtime import transitions
from runtime.protocol import ops
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.session import Boundary, Delivery, QueuedMessage
from runtime.session.receipts import accepted, refused
from runtime.transitions import Draft

TOO_LONG = f"the message is longer than {ops.MAX_TEXT_BYTES >> 20} MiB; send it as a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRules:
    """What admission needs of the configuration."""

    queue_limit: int
    default_delivery: Delivery


def known(checkpoint: Checkpoint, submission_id: str) -> bool:
    """Whether the session itself remembers this submission."""
    active = checkpoint.active_execution
    if active is not None and active.submission_id == submission_id:
        return True
    return any(message.id == submission_id for message in checkpoint.pending_messages)


def admit_message(draft: Draft, op: ops.Message, submission_id: str, rules: AdmissionRules) -> Receipt:
    """Let a message wait at its boundary, or say why not; a rejected message leaves nothing behind."""
    reason = _objection(draft.checkpoint, op, rules)
    if reason is not None:
        return Receipt(submission_id=submission_id, status="rejected", reason=reason)
    message = QueuedMessage(
        id=submission_id,
        boundary=_boundary(draft.checkpoint, op, rules),
        author=op.author,
        text=op.text,
        principal=op.principal,
        quoted=op.quoted,
        attachments=op.attachments,
        reply_to=op.reply_to,
        accepted_at_ms=draft.now_ms,
    )
    return transitions.accept_message(draft, message)


def _objection(checkpoint: Checkpoint, op: ops.Message, rules: AdmissionRules) -> str | None:
    if checkpoint.retiring:
        return "this session has ended; send the message again in the new one"
    if not op.text.strip() and not op.attachments:
        return "the message is empty"
    if len(op.text.encode(errors="replace")) > ops.MAX_TEXT_BYTES:  # a lone surrogate must not end the session
        return TOO_LONG
    if len(op.attachments) > ops.MAX_ATTACHMENTS:
        return f"the message has more than {ops.MAX_ATTACHMENTS} attachments"
    active = checkpoint.active_execution
    if op.target_turn_id is not None and (active is None or active.turn_id != op.target_turn_id):
        return "stale turn: the turn that the message was meant for does not run"
    if len(checkpoint.pending_messages) >= rules.queue_limit:
        return f"the queue is full ({rules.queue_limit})"
    return None


def _boundary(checkpoint: Checkpoint, op: ops.Message, rules: AdmissionRules) -> Boundary:
    active = checkpoint.active_execution
    if active is None:
        return Boundary.queue() if checkpoint.pending_messages else Boundary.turn()
    delivery = op.delivery
    if delivery is None:
        waits = checkpoint.pending_approval is not None and checkpoint.pending_approval.decision is None
        delivery = Delivery.QUEUE if waits else rules.default_delivery
    return Boundary.steer(active.turn_id) if delivery == Delivery.STEER else Boundary.queue()


def admit_edit(draft: Draft, op: ops.EditQueued, submission_id: str) -> Receipt:
    """Edit a waiting message; a warning if it does not wait any more."""
    if not op.text.strip():
        return Receipt(submission_id=submission_id, status="rejected", reason="the new text is empty")
    if len(op.text.encode(errors="replace")) > ops.MAX_TEXT_BYTES:
        return Receipt(submission_id=submission_id, status="rejected", reason=TOO_LONG)
    done = transitions.edit_queued(draft, op.message_id, op.text)
    return _done_or_warned(draft, submission_id, done, "the message does not wait any more")


def admit_removal(draft: Draft, op: ops.RemoveQueued, submission_id: str) -> Receipt:
    """Remove a waiting message; a warning if it does not wait any more."""
    done = transitions.remove_queued(draft, op.message_id, op.by)
    return _done_or_warned(draft, submission_id, done, "the message does not wait any more")


def admit_promotion(draft: Draft, op: ops.PromoteQueued, submission_id: str) -> Receipt:
    """Let a waiting message steer; a warning if it does not wait or nothing runs."""
    done = transitions.promote_queued(draft, op.message_id)
    return _done_or_warned(draft, submission_id, done, "the message does not wait any more, or nothing runs")


def _done_or_warned(draft: Draft, submission_id: str, done: bool, otherwise: str) -> Receipt:
    return accepted(draft, submission_id) if done else refused(draft, submission_id, otherwise)
