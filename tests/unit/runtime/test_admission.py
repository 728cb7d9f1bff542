"""Where a message waits, and why it may not: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.protocol import (
    ActiveExecution,
    Attachment,
    Boundary,
    Checkpoint,
    Delivery,
    PendingApproval,
    QueuedMessage,
    Resolution,
    events,
    ops,
)
from runtime.session import admission
from runtime.session.admission import AdmissionRules
from runtime.transitions import Draft

RULES = AdmissionRules(queue_limit=3, default_delivery=Delivery.STEER)
IDLE = replace(Checkpoint.empty("s"), model_route="main")
ACTIVE = ActiveExecution(submission_id="m", turn_id="t", started_at_ms=0)
RUNNING = replace(IDLE, active_execution=ACTIVE)
WAITING = QueuedMessage(id="w", boundary=Boundary.queue(), author="ann", text="first")
APPROVAL = PendingApproval(request_id="r", turn_id="t", submission_id="m", calls=(), gated=(), actions={}, digests={})
ASKING = replace(RUNNING, pending_approval=APPROVAL)
DECIDED = replace(RUNNING, pending_approval=replace(APPROVAL, decision=Resolution.APPROVED))
FILE = Attachment(id="f", name="a.txt", media_type="text/plain", size=1, sha256="0")


def admit(found: Checkpoint, rules: AdmissionRules = RULES, **fields: Any) -> tuple[Any, Draft]:
    draft = Draft(found, 1_000)
    fields.setdefault("text", "hello")
    return admission.admit_message(draft, ops.Message(**fields), "new", rules), draft


@pytest.mark.parametrize(
    ("found", "fields", "boundary"),
    [
        (IDLE, {}, Boundary.turn()),
        (IDLE, {"delivery": Delivery.QUEUE}, Boundary.turn()),
        (IDLE, {"delivery": Delivery.STEER}, Boundary.turn()),
        (replace(IDLE, pending_messages=(WAITING,)), {}, Boundary.queue()),
        (RUNNING, {}, Boundary.steer("t")),
        (RUNNING, {"target_turn_id": "t"}, Boundary.steer("t")),
        (RUNNING, {"delivery": Delivery.STEER}, Boundary.steer("t")),
        (RUNNING, {"delivery": Delivery.QUEUE}, Boundary.queue()),
        (ASKING, {}, Boundary.queue()),
        (ASKING, {"delivery": Delivery.STEER}, Boundary.steer("t")),
        (DECIDED, {}, Boundary.steer("t")),
    ],
)
def test_where_a_message_waits(found: Checkpoint, fields: dict[str, Any], boundary: Boundary) -> None:
    """The table of situations: idle, running, asking a person; unspecified, steer, queue."""
    receipt, draft = admit(found, **fields)
    assert receipt.status == "accepted"
    assert receipt.disposition == boundary.kind
    assert receipt.position == len(found.pending_messages) + 1
    assert draft.checkpoint.pending_messages[-1].boundary == boundary
    assert draft.receipts == [receipt]


def test_the_default_delivery_is_configurable() -> None:
    """Where the configuration says queue, an unspecified message queues."""
    receipt, _ = admit(RUNNING, AdmissionRules(queue_limit=3, default_delivery=Delivery.QUEUE))
    assert receipt.disposition == "queue"


@pytest.mark.parametrize(
    ("found", "fields", "reason"),
    [
        (IDLE, {"target_turn_id": "t"}, "stale turn"),
        (RUNNING, {"target_turn_id": "old"}, "stale turn"),
        (replace(IDLE, pending_messages=(WAITING,) * 3), {}, "queue is full"),
        (replace(IDLE, retiring=True), {}, "has ended"),
        (IDLE, {"text": " \n"}, "empty"),
        (IDLE, {"text": "x" * ((1 << 20) + 1)}, "1 MiB"),
        (IDLE, {"attachments": (FILE,) * 17}, "16 attachments"),
    ],
)
def test_why_a_message_may_not_wait(found: Checkpoint, fields: dict[str, Any], reason: str) -> None:
    """The reason is said, and nothing at all is changed: the id may be used again."""
    receipt, draft = admit(found, **fields)
    assert receipt.status == "rejected"
    assert reason in receipt.reason
    assert not draft.changed


def test_a_file_needs_no_words() -> None:
    """An attachment alone is a message, and so is the longest text, and a text that is no valid Unicode."""
    assert admit(IDLE, text="", attachments=(FILE,))[0].status == "accepted"
    assert admit(IDLE, text="x" * (1 << 20))[0].status == "accepted"
    assert admit(IDLE, text="\ud800")[0].status == "accepted"


def test_an_edit_keeps_everything_but_the_text() -> None:
    """Place, boundary, attachments and reply stay."""
    message = replace(WAITING, attachments=(FILE,), reply_to="r")
    draft = Draft(replace(IDLE, pending_messages=(message, replace(WAITING, id="x"))), 0)
    receipt = admission.admit_edit(draft, ops.EditQueued(message_id="w", text="better"), "e")
    assert receipt.status == "accepted"
    assert draft.checkpoint.pending_messages == (replace(message, text="better"), replace(WAITING, id="x"))
    assert [event.msg for event in draft.events] == [events.MessageEdited(message_id="w", text="better")]


@pytest.mark.parametrize(
    "admitted",
    [
        lambda draft: admission.admit_edit(draft, ops.EditQueued(message_id="gone", text="x"), "e"),
        lambda draft: admission.admit_removal(draft, ops.RemoveQueued(message_id="gone"), "e"),
        lambda draft: admission.admit_promotion(draft, ops.PromoteQueued(message_id="gone"), "e"),
    ],
)
def test_what_does_not_wait_cannot_be_changed(admitted: Any) -> None:
    """A message that has entered, or was never there: a warning, and nothing changes."""
    draft = Draft(replace(RUNNING, pending_messages=(WAITING,)), 0)
    receipt = admitted(draft)
    assert receipt.status == "rejected"
    assert draft.checkpoint.pending_messages == (WAITING,)
    assert [event.kind for event in draft.events] == ["warning"]


@pytest.mark.parametrize(("text", "reason"), [("  ", "empty"), ("x" * ((1 << 20) + 1), "1 MiB")])
def test_an_edit_obeys_the_rules_of_a_message(text: str, reason: str) -> None:
    """What could not be sent cannot be edited in either."""
    draft = Draft(replace(IDLE, pending_messages=(WAITING,)), 0)
    receipt = admission.admit_edit(draft, ops.EditQueued(message_id="w", text=text), "e")
    assert reason in (receipt.reason or "")
    assert not draft.changed


def test_a_removed_message_is_gone_and_a_promoted_one_steers() -> None:
    """Removal names who did it; promotion changes the boundary and says so."""
    second = replace(WAITING, id="second")
    draft = Draft(replace(RUNNING, pending_messages=(WAITING, second)), 0)
    admission.admit_removal(draft, ops.RemoveQueued(message_id="w", by="ann"), "r")
    admission.admit_promotion(draft, ops.PromoteQueued(message_id="second"), "p")
    assert draft.checkpoint.pending_messages == (replace(second, boundary=Boundary.steer("t")),)
    assert [event.kind for event in draft.events] == ["message_removed", "message_queued"]
    assert draft.events[0].msg == events.MessageRemoved(message_id="w", by="ann")
