"""The process dies at any instant of a delivery: nothing is lost, and at most the one message in flight comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Answer, ApprovalCard, Notice, TurnCard, View
from gateway.budget import Priority
from gateway.faults import POINTS
from gateway.ledger import deliveries
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.store.writer import Statement
from tests.support.delivering import FAST, PLACE, Bench, bench, is_open_card, pending

DELIVERY_POINTS = sorted(point for point in POINTS if point.startswith("delivery."))


class Killed(BaseException):
    """The process is gone: no handler of the program sees it."""


class KillAt:
    """Kills at the n-th passing of a point, once."""

    def __init__(self, point: str, passing: int) -> None:
        self.point, self.left = point, passing
        self.hit = asyncio.Event()

    def reach(self, point: str) -> None:
        """Die, if this is the one."""
        if point == self.point and not self.hit.is_set():
            self.left -= 1
            if self.left == 0:
                self.hit.set()
                raise Killed


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery that does not run yet."""
    async with bench(tmp_path, started=False) as made:
        yield made


def script() -> list[tuple[tuple[events.EventMsg, ...], bool]]:
    """Two turns: a tool and an approval, then a failure. True: its checkpoint waits for a decision."""
    begin = events.ToolCallBegin(turn_id="t1", call_id="c0", name="shell", summary="ls")
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)
    resolved = events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.APPROVED, decided_by="rec:1")
    error = events.Error(kind="provider", message="No answer.", reference="E7", turn_id="t2")
    return [
        ((events.TurnStarted(turn_id="t1", message_id="in:1"), begin), False),
        ((requested,), True),
        ((resolved,), False),
        ((events.TurnComplete(turn_id="t1", last_assistant_message="one " * 5),), False),
        ((events.TurnStarted(turn_id="t2", message_id="in:2"), error), False),
        ((events.TurnAborted(turn_id="t2", reason="x", outcome="failed"),), False),
    ]


async def play(on: Bench, steps: list[tuple[tuple[events.EventMsg, ...], bool]]) -> None:
    """Commit the script, waiting for delivery after each step, until it dies."""
    for step, (msgs, waits) in enumerate(steps):
        if on.dead:
            return
        await on.happen(*msgs, pending=pending() if waits else None)
        if step == 0:
            await settled(on, lambda: on.adapter.sent(TurnCard))
        await settled(on, lambda: True)


async def settled(on: Bench, holds: object) -> None:
    """Return once delivery rests and it holds, or has died."""
    assert callable(holds)
    while not on.dead:
        resting = asyncio.ensure_future(on.delivery.at_rest())
        assert on._task is not None
        await asyncio.wait((resting, on._task), return_when=asyncio.FIRST_COMPLETED)
        resting.cancel()
        if holds():
            return
        await asyncio.sleep(0)


def count(views: list[View], wanted: View) -> int:
    """How often a view is there, marked or not."""
    return sum(view in (wanted, replace(wanted, repeat=True)) for view in views)  # type: ignore[call-arg]


@pytest.mark.parametrize("idempotent", ["none", "nonce"])
@pytest.mark.parametrize("passing", [1, 2, 3])
@pytest.mark.parametrize("point", DELIVERY_POINTS)
async def test_killed_at_every_point(on: Bench, point: str, passing: int, idempotent: str) -> None:
    """After the restart every part is there, with one copy at most of what was in flight; nothing says "working"."""
    on.adapter.capabilities = replace(FAST, idempotent_send=idempotent)  # type: ignore[arg-type]
    on.adapter.markup.limit = 8
    kill = KillAt(point, passing)
    on.faults = kill
    await on.restart()
    await play(on, script())
    assert kill.hit.is_set(), f"{point} was not reached {passing} times"

    on.faults = KillAt("", 0)
    await on.restart()
    for msgs, waits in script()[on.steps :]:
        await on.happen(*msgs, pending=pending() if waits else None)
        await on.rest()
    await on.rest()

    shown = on.adapter.chats["42"]
    parts = [Answer(markdown=part) for part in ("one one ", "one one ", "one ")]
    answers = [view for view in shown if isinstance(view, Answer)]
    copies = len(answers) - 3
    assert copies in (0, 1)
    assert [replace(view, repeat=False) for view in answers if not view.repeat or copies == 0] == parts
    failures = [view for view in shown if isinstance(view, Notice)]
    assert {view.text for view in failures} == {"✖ No answer.\nReference: E7"}
    asked = [view for view in shown if isinstance(view, ApprovalCard)]
    repeats = copies + len(failures) - 1 + max(0, len(asked) - 1)
    assert repeats <= (0 if idempotent == "nonce" else 1)
    assert all(getattr(view, "repeat", True) for view in (answers[3:] + failures[1:]))
    await check_ledger(on)

    before = len(on.adapter.requests)
    await on.restart()
    await on.rest()
    assert len(on.adapter.requests) == before, "a second restart does nothing at all"


async def check_ledger(on: Bench) -> None:
    """Nothing waits, nothing is wished for, and no message that we know says what is not so."""
    states = {state for _, _, state, _ in await on.states()}
    assert states <= {"sent", "unknown", "failed"}
    unknown = await on.rows("SELECT surface FROM deliveries WHERE state = 'unknown'")
    assert set(unknown) <= {("card",)}, "only progress is left unknown after one kill"
    wishes = "SELECT count(*) FROM surfaces WHERE desired IS NOT NULL AND message_id IS NOT NULL"
    assert await on.rows(wishes) == [(0,)]
    for message_id, token in await on.rows("SELECT message_id, token FROM surfaces WHERE message_id IS NOT NULL"):
        view = on.adapter.messages[message_id]
        assert not is_open_card(view), token
        assert not isinstance(view, TurnCard) or not view.controls


async def test_a_card_of_a_running_turn_says_that_it_goes_on(on: Bench) -> None:
    """After a pause that people noticed; then it collapses like any other."""
    await on.start()
    await on.happen(
        events.TurnStarted(turn_id="t1"), events.ToolCallBegin(turn_id="t1", call_id="c", name="shell", summary="make")
    )
    await on.until(lambda: on.adapter.messages)
    await on.rest()
    await on.crash()
    on.clock.advance(60)
    await on.restart()
    await on.until(on.adapter.edits)
    await on.rest()
    card = next(view for view in on.adapter.edits() if isinstance(view, TurnCard))
    assert [row.text for row in card.rows] == ["shell: make", "↻ Restarted, going on by itself"]
    await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="Done."))
    await on.rest()
    [last] = [view for view in on.adapter.messages.values() if isinstance(view, TurnCard)]
    assert last.headline.startswith("Done")


async def plan_notice(on: Bench) -> None:
    """Something new that waits to be said."""
    unit = deliveries.plan(
        source="in:9", surface="x", place=PLACE, views=[Notice(text="new")], priority=Priority.CONTROL, now_ms=1
    )
    await on.store.database.write(unit)


async def test_a_card_whose_cursor_is_beyond_its_beginning_goes_on_too(on: Bench) -> None:
    """Its turn is read again from where it began, and nothing of it is told twice."""
    await on.start()
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)
    await on.happen(events.TurnStarted(turn_id="t1"), requested, pending=pending())
    await on.until(lambda: len(on.adapter.messages) == 2)
    await on.happen(events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.APPROVED))
    await on.rest()
    on.clock.advance(60)
    seen = len(on.adapter.requests)
    await on.restart()
    await on.until(lambda: len(on.adapter.requests) > seen)
    await on.rest()
    [again] = on.adapter.requests[seen:]
    assert again.what == "edit"
    assert isinstance(again.view, TurnCard)
    assert again.view.rows[-1].text == "↻ Restarted, going on by itself"
    assert [control.label for control in again.view.controls] == ["Stop"]


async def test_messages_of_the_past_are_put_right_before_anything_new(on: Bench) -> None:
    """An approval that was decided elsewhere, and a turn that ended: edited first, even before urgent news."""
    await on.start()
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)
    await on.happen(events.TurnStarted(turn_id="t1"), requested, pending=pending())
    await on.until(lambda: len(on.adapter.messages) == 2)
    await on.rest()
    on.adapter.hold()
    await on.happen(
        events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.INTERRUPTED),
        events.TurnAborted(turn_id="t1", reason="stopped", by="rec:1"),
    )
    await on.until(lambda: on.adapter.waiting)
    await on.crash()
    on.adapter.release()
    await plan_notice(on)
    seen = len(on.adapter.requests)
    await on.restart()
    await on.rest()
    whats = [request.what for request in on.adapter.requests[seen:]]
    assert whats == ["edit", "edit", "send"]


async def test_a_turn_that_ended_without_us_is_delivered_after_the_start(on: Bench) -> None:
    """Events that were committed while delivery was down are found by their cursor."""
    await on.start()
    await on.happen(events.TurnStarted(turn_id="t1"))
    await on.rest()
    await on.crash()
    await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="Late."), quietly=True)
    await on.restart()
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="Late.")]


async def test_a_turn_that_is_read_from_its_middle_is_recalled(on: Bench) -> None:
    """The cursor may stand within a turn: place, reply and card are found again by reading its beginning."""
    await on.start()
    overtaken = events.AssistantMessage(turn_id="t1", model_step_id="m", text="First.", overtaken=True)
    await on.happen(events.TurnStarted(turn_id="t1"), overtaken)
    await on.rest()
    await on.restart()
    await on.happen(events.ToolCallBegin(turn_id="t1", call_id="c", name="shell", summary="ls"))
    await on.until(lambda: on.adapter.sent(TurnCard))
    await on.rest()
    [card] = on.adapter.sent(TurnCard)
    assert [row.text for row in card.rows] == ["shell: ls"]
    await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="Second."))
    await on.rest()
    assert [view.markdown for view in on.adapter.sent(Answer)] == ["First.", "Second."]


async def test_a_request_that_could_not_be_shown_is_closed_after_the_start(on: Bench) -> None:
    """The crash came between giving up the card and closing the request."""
    await on.start()
    on.adapter.hold()
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)
    await on.happen(events.TurnStarted(turn_id="t1"), requested, pending=pending())
    await on.until(lambda: on.adapter.waiting)
    await on.crash()
    on.adapter.release()
    [(row,)] = await on.rows("SELECT id FROM deliveries WHERE surface = 'approval'")
    await on.store.database.write([deliveries.ended(row, "failed", "refused", 1)])
    await on.store.database.write([Statement("UPDATE surfaces SET adoptable = 0 WHERE kind = 'approval'")])
    await on.restart()
    await on.until(lambda: on.undeliverable)
    assert on.undeliverable == [("s", "r1", "refused")]


async def test_a_store_that_refuses_pauses_and_loses_nothing(on: Bench) -> None:
    """Disk full while planning: the batch is planned again, once."""
    await on.start()
    on.people.asked = _Failing(2)
    await on.happen(
        events.TurnStarted(turn_id="t1", message_id="in:1"),
        events.TurnComplete(turn_id="t1", last_assistant_message="x"),
    )
    for _ in range(2):
        await on.until(lambda: on.clock.sleeping)
        on.clock.advance(60)
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="x")]


class _Failing(dict):  # type: ignore[type-arg]
    """Fails so many times, then knows nothing."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def get(self, key: str, default: object = None) -> object:
        """Fail, or know nothing."""
        self.times -= 1
        if self.times >= 0:
            raise OSError("disk")
        return default
