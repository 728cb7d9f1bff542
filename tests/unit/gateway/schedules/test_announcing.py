"""What a run says, and where its result stands, apart from how it came out."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.contract import Notice
from gateway.budget import Priority
from gateway.ledger import deliveries
from gateway.schedules.alarm import ClockAlarm, SchedulerAlarm
from gateway.schedules.announcing import NOTHING_NEW, announcement, as_markdown, digest_of, is_quiet
from gateway.schedules.schedule import Announce, RunState, Shown
from runtime.testing import FakeClock
from tests.support.scheduling import DAY, HOUR, Timetable, timetable

QUIET = [
    (Announce.ALWAYS, "x", False, "x", False),
    (Announce.ALWAYS, "", True, None, False),
    (Announce.ON_FAILURE, "x", False, None, True),
    (Announce.ON_FAILURE, "", True, None, False),
    (Announce.ON_CHANGE, "x", False, None, False),
    (Announce.ON_CHANGE, "x  y", False, "x y", True),
    (Announce.ON_CHANGE, "x", False, "y", False),
    (Announce.ON_CHANGE, NOTHING_NEW, False, "y", True),
    (Announce.ON_CHANGE, " ", False, "y", True),
    (Announce.ON_CHANGE, "", True, "y", True),
]


@pytest.mark.parametrize(("announce", "text", "failed", "before", "quiet"), QUIET)
def test_what_is_kept_quiet(announce: Announce, text: str, failed: bool, before: str | None, quiet: bool) -> None:
    """Success without news where that is wished (C22); failures only where they are wished, since an alert tells."""
    digest = None if failed else digest_of(text)
    assert is_quiet(announce, text, digest, before and digest_of(before), failed=failed) == quiet


@pytest.fixture
async def t(tmp_path: Path):
    async with timetable(tmp_path) as made:
        yield made


async def test_the_head_names_run_labels_lateness_and_what_is_next(t: Timetable) -> None:
    """Everything that tells the post from words of a conversation."""
    await t.add('"0 9 * * *" name=Report write it')
    await t.at(3 * HOUR)
    [session] = t.sessions.going_on
    found = await announcement(t.database, session, session, "done", failed=False)
    assert found is not None
    assert found.head == "⏰ cron · Report · run 1 · Workspace: Notes · late by 2 hours · next Sat 2027-01-16 09:00 UTC"
    assert await announcement(t.database, session, "in:7", "reply", failed=False) is None
    assert await announcement(t.database, "s-1", "s-1", "x", failed=False) is None
    assert as_markdown("a_b*c") == "a\\_b\\*c"


async def said(t: Timetable, text: str) -> tuple[bool, Shown]:
    """The run that goes on ends with that text, its result is planned, and the runner looks."""
    [session] = t.sessions.going_on
    found = await announcement(t.database, session, session, text, failed=False)
    assert found is not None
    await t.database.write(list(found.statements))
    await t.finish_all()
    [(shown,)] = await t.stage.rows("SELECT shown FROM schedule_runs WHERE session_id = ?", session)
    return found.quiet, Shown(shown)


async def test_on_change_compares_with_the_last_that_said_something(t: Timetable) -> None:
    """The same again is silent; run by hand it is told in any case."""
    await t.add("every 1h announce=on_change go")
    expected = [("a", False), ("a", True), ("b", False), ("b", True), ("a", False)]
    for text, quiet in expected:
        await t.at(HOUR)
        assert (await said(t, text))[0] == quiet, text
    await t.stage.say("/cron run 1")
    await t.runner.look()
    assert (await said(t, "a"))[0] is False


async def test_delivery_has_a_status_of_its_own(t: Timetable) -> None:
    """A run that succeeded and did not arrive is both, and an owner is told, once (C6, C7, C17)."""
    made = await t.add("every 1h go")
    await t.at(HOUR)
    [session] = t.sessions.going_on
    found = await announcement(t.database, session, session, "done", failed=False)
    assert found is not None
    place = (await t.stage.places.session(session)).place  # type: ignore[union-attr]
    unit = deliveries.plan(
        source=f"ev:{session}:9", surface="answer", place=place, views=[Notice(text="x")], priority=Priority.ANSWER,
        now_ms=1, session_id=session,
    )  # fmt: skip
    result = await t.database.write([*unit, *found.statements])
    await t.finish_all()
    [run] = await t.runs(made)
    assert (run.state, run.shown) == (RunState.SUCCEEDED, Shown.PLANNED)
    await t.database.write([deliveries.ended(result[0].rows[0][0], "failed", "the chat is gone", 3)])
    await t.runner.look()
    await t.runner.look()
    [run] = await t.runs(made)
    assert (run.state, run.shown, run.shown_reason) == (RunState.SUCCEEDED, Shown.FAILED, "the chat is gone")
    assert t.told_owner == ["The result of cron · go, run 1, could not be delivered: the chat is gone."]
    assert (await t.schedule(made)).failures == 0


async def test_each_run_has_a_thread_where_the_platform_hangs_them_on_messages(tmp_path: Path) -> None:
    """Its head is planned as the root with the run, its session is bound there, and the result needs no head."""
    from dataclasses import replace

    async with timetable(tmp_path) as t:
        t.runner._means = replace(t.runner._means, opens_threads=lambda place: place.thread is None)
        await t.add("every 1h name=Report go")
        await t.at(HOUR)
        [session] = t.sessions.going_on
        [(title, stage)] = await t.stage.rows("SELECT title, stage FROM surfaces WHERE kind = 'thread'")
        assert (title, stage) == ("Report", "planned")
        assert (await t.stage.told())[0].startswith("⏰ cron · Report · run 1 · Workspace: Notes")
        home = (await t.stage.places.session(session)).place  # type: ignore[union-attr]
        assert home.thread is not None
        assert home.person is None
        found = await announcement(t.database, session, session, "done", failed=False)
        assert found is not None
        assert found.head is None


async def test_the_alarm_of_apscheduler_has_no_grace_and_wakes(t: Timetable) -> None:
    """Its job is a timer without grace (C29, C30): one that rings late still rings; it can be woken, and closed."""
    alarm = SchedulerAlarm()
    try:
        await alarm.sleep(1)  # long past: at once
        [job] = alarm.scheduler.get_jobs()
        assert job.misfire_grace_time is None
        assert job.max_instances == 1
        assert job.trigger.get_next_fire_time(None, job.next_run_time) is not None
        alarm.wake()
        await alarm.sleep(None)
    finally:
        alarm.close()


async def test_the_alarm_on_a_clock_sleeps_no_longer_than_it_may() -> None:
    """However far the next due time is, the clock is looked at within twenty seconds (C3)."""
    import asyncio

    clock = FakeClock()
    alarm = ClockAlarm(clock)
    sleeping = asyncio.ensure_future(alarm.sleep(clock.now_ms() + 400 * DAY * 1000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.advance(20)
    await sleeping
