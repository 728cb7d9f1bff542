"""Threads that we open ourselves: a root message, the thread on it, and everything that waited for it goes there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from adapters.contract import Answer, ApprovalCard, Capabilities, MessageRef, Notice, Place, TurnCard
from adapters.errors import NotConnected, OutcomeUnknown, RateLimited, Refused, TargetGone
from gateway.budget import Priority
from gateway.delivery import Destination
from gateway.delivery.opening import next_step
from gateway.faults import POINTS
from gateway.ledger import places, threads
from gateway.ledger.threads import Opening, Stage, is_new, new_thread
from runtime.protocol import events
from runtime.protocol.session import SessionContext
from tests.support.delivering import FAST, PLACE, SESSION, Bench, bench, pending

SOURCE = "cron:report:2026-12-01"
NEW = new_thread(PLACE, SOURCE)
THREADS = replace(FAST, threads="thread", can_create_thread=True, idempotent_send="lookup")
TOPICS = replace(FAST, threads="topic", can_create_thread=True)
ROOT = Notice(text="Morning report (run 14)")
STEPS = {"root", "open", "parent", "unknown"}


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery to a platform with threads, that does not run yet; the session speaks in the new thread."""
    async with bench(tmp_path, THREADS, started=False) as made:
        made.people.destinations[SESSION] = Destination(place=NEW)
        yield made


async def plan(on: Bench) -> None:
    """As a schedule that fires plans it."""
    unit = threads.plan(
        source=SOURCE, place=PLACE, title="Morning report", root=ROOT, priority=Priority.ANSWER, now_ms=1
    )
    await on.store.database.write(unit)
    on.delivery.wake(PLACE)


async def answered(on: Bench, text: str = "Nothing new.", turn: str = "t1") -> None:
    """The session's turn runs and ends."""
    await on.happen(
        events.TurnStarted(turn_id=turn), events.TurnComplete(turn_id=turn, last_assistant_message=text)
    )  # fmt: skip


def shown(on: Bench) -> list[tuple[str, str | None]]:
    """(words, thread) of every message that was sent, in order."""
    views = [(request.view, request.place) for request in on.adapter.requests if request.what == "send"]
    words = [(getattr(view, "text", None) or getattr(view, "markdown", ""), place) for view, place in views]
    return [(text, place.thread) for text, place in words if place is not None]


async def test_the_root_goes_first_then_the_thread_is_opened_on_it(on: Bench) -> None:
    """What was planned for the thread before it was open, and what comes later, is in it."""
    await plan(on)
    await answered(on)
    await on.start()
    await on.rest()
    await answered(on, "And more.", "t2")
    await on.rest()
    assert shown(on) == [(ROOT.text, None), ("Nothing new.", "on 1"), ("And more.", "on 1")]
    [opened] = [request for request in on.adapter.requests if request.what == "open"]
    assert (opened.place, opened.key) == (PLACE, (NEW.thread or "").removeprefix("new:"))
    assert await on.rows("SELECT state, stage, opened, thread FROM surfaces") == [("open", "open", "on 1", None)]
    assert on.people.destinations[SESSION].place == replace(PLACE, thread="on 1")


async def test_planning_twice_is_planning_once(on: Bench) -> None:
    """A schedule that fires again after a crash opens nothing more."""
    await plan(on)
    await plan(on)
    await on.start()
    await on.rest()
    await plan(on)
    await on.rest()
    assert [request.what for request in on.adapter.requests] == ["send", "open"]


async def test_a_topic_begins_empty(tmp_path: Path) -> None:
    """Where a thread needs no message, it is opened first, and its first message is in it."""
    async with bench(tmp_path, TOPICS) as on:
        on.people.destinations[SESSION] = Destination(place=NEW)
        await plan(on)
        await answered(on)
        await on.rest()
        topic = "topic Morning report"
        assert shown(on) == [(ROOT.text, topic), ("Nothing new.", topic)]
        assert [request.what for request in on.adapter.requests] == ["open", "send", "send"]


@pytest.mark.parametrize("capabilities", [FAST, replace(TOPICS, can_create_thread=False)])
async def test_where_no_thread_is_opened_the_parent_is_used(tmp_path: Path, capabilities: Capabilities) -> None:
    """A platform without threads, or one where nobody asked for topics, is not asked for any."""
    async with bench(tmp_path, capabilities) as on:
        on.people.destinations[SESSION] = Destination(place=NEW)
        await plan(on)
        await answered(on)
        await on.rest()
        assert shown(on) == [(ROOT.text, None), ("Nothing new.", None)]
        assert await on.rows("SELECT stage FROM surfaces") == [("parent",)]


@pytest.mark.parametrize("error", [Refused("no rights"), TargetGone("unknown channel")])
async def test_a_refused_thread_loses_nothing(on: Bench, error: Exception) -> None:
    """What was to go there is in the parent chat, and so is what comes later."""
    on.adapter.open_failures.append(error)
    await plan(on)
    await answered(on)
    await on.start()
    await on.rest()
    await answered(on, "And more.", "t2")
    await on.rest()
    assert shown(on) == [(ROOT.text, None), ("Nothing new.", None), ("And more.", None)]


async def test_a_root_that_is_refused_loses_nothing(on: Bench) -> None:
    """Without a root there is no thread to hang on it; the words are in the parent."""
    on.adapter.fail_when = lambda view: None if isinstance(view, Answer) else Refused("no")
    await plan(on)
    await answered(on)
    await on.start()
    await on.rest()
    assert shown(on)[-1] == ("Nothing new.", None)
    assert not on.adapter.threads


@pytest.mark.parametrize(("error", "seconds"), [(RateLimited("slow", retry_after=7), 7), (NotConnected("no route"), 1)])
async def test_a_thread_that_was_put_off_is_opened_later(on: Bench, error: Exception, seconds: float) -> None:
    """Nothing goes to the parent meanwhile."""
    on.adapter.open_failures.append(error)
    await plan(on)
    await answered(on)
    await on.start()
    await on.until(lambda: any(request.what == "open" for request in on.adapter.requests) and on.clock.sleeping >= 1)
    await on.until(lambda: on.clock.sleeping)
    while not on.adapter.threads:
        on.clock.advance(seconds)
        await asyncio.sleep(0.001)
    await on.rest()
    assert shown(on) == [(ROOT.text, None), ("Nothing new.", "on 1")]


@pytest.mark.parametrize("keyed", [True, False])
async def test_a_thread_that_may_be_open_is_asked_for_again_only_under_a_key(tmp_path: Path, keyed: bool) -> None:
    """The platform opened it and its answer was lost: with keys the same one is found, without the parent is used."""
    idempotent: Literal["lookup", "none"] = "lookup" if keyed else "none"
    async with bench(tmp_path, replace(THREADS, idempotent_send=idempotent)) as on:
        on.people.destinations[SESSION] = Destination(place=NEW)
        on.adapter.accept_first = True
        on.adapter.open_failures.append(OutcomeUnknown("?"))
        await plan(on)
        await answered(on)
        await on.until(lambda: on.adapter.threads)
        while len(shown(on)) < 2:
            on.clock.advance(1)
            await asyncio.sleep(0.001)
        await on.rest()
        assert shown(on)[1] == ("Nothing new.", "on 1" if keyed else None)
        assert len(on.adapter.threads) == 1
        assert await on.rows("SELECT stage FROM surfaces") == [("open" if keyed else "unknown",)]


async def test_card_and_approval_wait_for_the_thread(on: Bench) -> None:
    """Neither is ever in the parent, and the approval's controls count in the thread."""
    on.adapter.hold()
    await plan(on)
    await on.start()
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)
    await on.happen(events.TurnStarted(turn_id="t1"), requested, pending=pending())
    await on.until(lambda: on.adapter.waiting)
    on.adapter.release()
    await on.until(lambda: on.adapter.sent(ApprovalCard) and on.adapter.sent(TurnCard))
    await on.rest()
    places_of = {type(request.view): request.place for request in on.adapter.requests if request.what == "send"}
    thread = replace(PLACE, thread="on 1")
    assert (places_of[Notice], places_of[ApprovalCard], places_of[TurnCard]) == (PLACE, thread, thread)
    rows = await on.rows("SELECT kind, thread FROM surfaces ORDER BY kind")
    assert rows == [("approval", "on 1"), ("card", "on 1"), ("thread", None)]


class Killed(BaseException):
    """The process is gone."""


class KillAt:
    """Kills at a point, once."""

    def __init__(self, point: str) -> None:
        self.point, self.hit = point, False

    def reach(self, point: str) -> None:
        """Die, if this is it."""
        if point == self.point and not self.hit:
            self.hit = True
            raise Killed


@pytest.mark.parametrize("point", sorted(point for point in POINTS if point.startswith("thread.")))
@pytest.mark.parametrize("capabilities", [THREADS, TOPICS], ids=["thread", "topic"])
async def test_a_crash_while_it_opens(tmp_path: Path, point: str, capabilities: Capabilities) -> None:
    """The words come once, in one thread; where nobody can say whether a topic was opened, in the parent chat."""
    async with bench(tmp_path, capabilities, started=False) as on:
        on.people.destinations[SESSION] = Destination(place=NEW)
        on.faults = KillAt(point)
        on.delivery = on._make()
        await plan(on)
        await answered(on)
        await on.start()
        await on.until(lambda: on.dead)
        await on.restart()
        await on.rest()
        assert [text for text, _ in shown(on)] == [ROOT.text, "Nothing new."]
        lost = capabilities is TOPICS and point in ("thread.opening.after", "thread.opened.before")
        assert (shown(on)[-1][1] is None) is lost
        assert len(on.adapter.threads) <= 1


async def test_a_crash_after_the_root_opens_the_thread_at_the_next_start(on: Bench) -> None:
    """Also where nothing waits for it yet: people reply to the root."""
    on.adapter.open_failures.append(RateLimited("slow", retry_after=60))
    await plan(on)
    await on.start()
    await on.until(lambda: any(request.what == "open" for request in on.adapter.requests))
    await on.until(lambda: on.clock.sleeping)
    await on.restart()
    await on.rest()
    assert [place.thread for place in on.adapter.threads] == ["on 1"]


async def test_the_session_gets_the_thread(on: Bench) -> None:
    """The place that stood for it becomes the thread, so that a reply finds the session; an occupied one stays."""
    bound: Sequence[tuple[Place, str]] = ((NEW, "s"), (replace(PLACE, thread="taken"), "other"))
    for place, session in bound:
        await on.store.database.write(places.bind(place, session, SessionContext(), {}, 1))
    thread = replace(PLACE, thread="on 1")
    await on.store.database.write([places.thread_opened(NEW, thread)])
    found = await places.session(on.store.database, "s")
    assert found is not None
    assert found.place == thread
    await on.store.database.write([places.thread_opened(thread, replace(PLACE, thread="taken"))])
    assert (await places.session(on.store.database, "s")) == found


def test_there_are_no_threads_in_threads() -> None:
    """Said at once, where the caller can still do something about it."""
    assert is_new(NEW)
    assert not is_new(PLACE)
    with pytest.raises(ValueError, match="a thread cannot be opened in a thread"):
        new_thread(NEW, SOURCE)


@pytest.mark.parametrize(
    ("stage", "root", "capabilities", "waits", "step"),
    [
        ("planned", None, THREADS, True, "root"),
        ("planned", "1", THREADS, False, "open"),
        ("planned", None, THREADS, False, "parent"),
        ("opening", "1", THREADS, False, "open"),
        ("planned", None, TOPICS, True, "open"),
        ("opening", None, TOPICS, True, "unknown"),
        ("planned", None, FAST, True, "parent"),
        ("planned", None, None, True, "root"),
        ("planned", "1", None, False, "open"),
    ],
)
def test_the_next_step(
    stage: Stage, root: str | None, capabilities: Capabilities | None, waits: bool, step: str
) -> None:
    """What is done next follows from how far it is and what the platform can do."""
    ref = None if root is None else MessageRef(platform="rec", account="bot", chat="42", id=root)
    thread = Opening(surface_id=1, place=NEW, title="T", stage=stage, root=ref, opened=None)
    assert next_step(thread, capabilities, root_waits=waits) == step
    assert step in STEPS


async def test_a_thread_that_was_forgotten_is_its_parent(on: Bench) -> None:
    """The record of a thread goes after a month; what a session says then, or what waited, is in the parent chat."""
    await answered(on)
    await on.start()
    await on.rest()
    assert shown(on) == [("Nothing new.", None)]
    assert await threads.target_of(on.store.database, NEW) == PLACE
