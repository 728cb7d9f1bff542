"""The line about a message that waits: what became of the message stands there, whenever that happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Control, Notice
from gateway.budget import Priority
from gateway.ledger import deliveries, surfaces
from gateway.ledger.surfaces import Letter, NewSurface, payload
from runtime.protocol import events
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.session import Boundary, QueuedMessage
from tests.support.delivering import PLACE, SESSION, Bench, bench

TOKEN = "W" * 22
QUEUED = events.MessageQueued(message_id="in:2", disposition="queue", position=1, text="x", author="Ann")
ENTERED = events.Message(message_id="in:2", author="Ann", delivery="queue", text="x", turn_id="t2")
STEERED = replace(QUEUED, disposition="steer")


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery that runs."""
    async with bench(tmp_path) as made:
        yield made


async def line(on: Bench) -> None:
    """Plan the line, as the intake does it."""
    control = Control(label="Steer now", token=payload(TOKEN, Letter.PROMOTE))
    new = NewSurface(token=TOKEN, kind="notice", choices="pq", session_id=SESSION, request_id="in:2")
    now = on.clock.now_ms()
    await on.store.database.write(
        [
            *deliveries.plan(
                source="in:2", surface="queue", place=PLACE, views=[Notice(text="Queued (#1).", controls=(control,))],
                priority=Priority.ANSWER, now_ms=now, session_id=SESSION, new_surface=new,
            ),
            *surfaces.unless_waiting(TOKEN, now),
        ]
    )  # fmt: skip
    on.delivery.wake(PLACE)


async def waits(on: Bench) -> None:
    """The session has the message in its queue."""
    message = QueuedMessage(id="in:2", boundary=Boundary.queue(), author="Ann", text="x", accepted_at_ms=1)
    on._sequence[SESSION] = on._sequence.get(SESSION, 0) + 1
    checkpoint = Checkpoint(
        session_id=SESSION, sequence=on._sequence[SESSION], model_route="main", pending_messages=(message,)
    )
    await on.store.save(checkpoint, events=[QUEUED], submission_id="in:2")


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        ((ENTERED,), "Taken up."),
        ((events.TurnStarted(turn_id="t2", message_id="in:2"),), "Taken up."),
        ((STEERED,), "Will be taken up after the current step."),
        ((STEERED, replace(ENTERED, delivery="steer")), "Taken up."),
        ((events.MessageRemoved(message_id="in:2", by="rec:1"),), "Removed from the queue."),
    ],
)
async def test_the_line_says_what_became_of_the_message(
    on: Bench, happened: tuple[events.EventMsg, ...], words: str
) -> None:
    """Taken up, steered or removed: one line without controls, and its controls count no more."""
    await waits(on)
    await line(on)
    await on.rest()
    assert on.adapter.messages["1"].text == "Queued (#1)."  # type: ignore[union-attr]
    for msg in happened:
        await on.happen(msg)
    await on.rest()
    assert on.adapter.messages["1"] == Notice(text=words)
    assert await on.rows("SELECT state, desired FROM surfaces WHERE kind = 'notice'") == [("closed", None)]


async def test_what_became_of_it_is_shown_after_a_restart(on: Bench) -> None:
    """A message that enters while nobody delivers: the line is put right at the next start."""
    await waits(on)
    await line(on)
    await on.rest()
    await on.crash()
    await on.happen(ENTERED, quietly=True)
    await on.restart()
    await on.rest()
    assert on.adapter.messages["1"] == Notice(text="Taken up.")


async def test_a_message_that_entered_before_its_line_was_planned_has_none(on: Bench) -> None:
    """Its event was read already, so nothing would close the line: it is not sent."""
    await waits(on)
    await on.happen(ENTERED)
    await on.rest()
    await line(on)
    await on.rest()
    assert not on.adapter.messages
    assert await on.rows("SELECT state FROM surfaces") == [("closed",)]
