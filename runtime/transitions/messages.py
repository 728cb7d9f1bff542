"""How messages wait, and how they enter a turn. Pure, into a draft."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from runtime.protocol import events
from runtime.protocol.checkpoint import (
    ActiveExecution,
    Checkpoint,
    Receipt,
)
from runtime.protocol.context import (
    UserMessage,
)
from runtime.protocol.session import Boundary, QueuedMessage
from runtime.transitions.draft import Draft

TITLE_LENGTH = 60


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


def begin_turn(draft: Draft, message: QueuedMessage, turn_id: str, submission_id: str | None = None) -> None:
    """Take `message` out of the queue and start a turn with it; `submission_id`, if it was not the message's own."""
    open_turn(draft, message, turn_id, submission_id)
    draft.emit(entered(message, _disposition(message.boundary), turn_id), message.id)
    draft.append(as_user_message(message))
    if draft.checkpoint.title is None:
        draft.change(title=_title(message.text))


def open_turn(draft: Draft, message: QueuedMessage, turn_id: str, submission_id: str | None) -> None:
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


def waiting_steers(checkpoint: Checkpoint) -> tuple[QueuedMessage, ...]:
    """Messages that wait for the next boundary of the running turn, in order."""
    active = checkpoint.active_execution
    if active is None or not checkpoint.pending_messages:
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
