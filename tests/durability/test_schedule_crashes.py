"""The process dies at every named point of a run, or lives beside another one: each due time fires exactly once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from gateway.faults import POINTS
from gateway.schedules.means import Settings
from gateway.schedules.schedule import RunState, Schedule
from runtime.store import SqliteStore
from tests.support.intake import COMPONENTS, Crash, CrashAt
from tests.support.scheduling import DAY, HOUR, MINUTE, Timetable, timetable

SWEPT = sorted(point for point in POINTS if point.startswith("schedule."))


async def live(t: Timetable, hours: int) -> None:
    """So many hours pass, in steps in which turns end and the runner looks."""
    for _ in range(2 * hours):
        t.clock.advance(30 * MINUTE)
        await t.runner.look()
        for session in t.sessions.going_on:
            t.sessions.end(session)
        await t.runner.look()


async def check(t: Timetable, schedules: list[Schedule], *quiet: RunState) -> None:
    """Each due time has one row, each that ran was given its words once and had one turn, and nothing is left open.

    `quiet`: what may be said of those that did not run.
    """
    for schedule in schedules:
        runs = await t.runs(schedule)
        due = [run.due_at_ms for run in runs]
        assert due == [due[0] + n * HOUR * 1000 for n in range(len(due))], "a due time is missing or there twice"
        assert {run.state for run in runs} <= {RunState.SUCCEEDED, *quiet}
        ran = [run for run in runs if run.state is RunState.SUCCEEDED]
        numbers = [run.number for run in runs if run.number is not None]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
        for run in ran:
            assert t.sessions.session(str(run.session_id)).turns == 1, "a run had not exactly one turn"
    fired = t.sessions.fired()
    assert len(fired) == len(set(fired)) == len(t.sessions.sessions)


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("point", SWEPT)
async def test_a_death_anywhere_fires_neither_twice_nor_never(point: str, nth: int, tmp_path: Path) -> None:
    """Two schedules, a death at one passing of the point, a restart as another process, and hours after it."""
    faults = CrashAt(point, nth)
    async with timetable(tmp_path, faults=faults) as t:
        made = [await t.add("every 1h go"), await t.add("every 1h overlap=queue_one and go")]
        with pytest.raises(Crash):
            await live(t, 6)
        before = t.clock.now_ms()
        t.runner = t.another("p2")
        await live(t, 6)
        await check(t, made)
        assert t.clock.now_ms() - before == 6 * HOUR * 1000
        assert all([len(await t.runs(one)) >= 6 for one in made])
        rows = await t.stage.rows("SELECT * FROM schedule_runs ORDER BY id")
        t.runner = t.another("p3")
        await t.runner.look()
        assert await t.stage.rows("SELECT * FROM schedule_runs ORDER BY id") == rows, "a restart did something"


async def test_deaths_in_a_row_and_long_pauses(tmp_path: Path) -> None:
    """Twenty deaths at random points, with pauses of up to two days: every due time is accounted for once."""
    chance = random.Random(5)
    async with timetable(tmp_path) as t:
        made = [await t.add("every 1h go"), await t.add("every 1h misfire=all and go")]
        deaths = 0
        while deaths < 20:
            faults = CrashAt(chance.choice(SWEPT), chance.randint(1, 3))
            t.runner = t.another(f"p{deaths}", faults=faults)
            try:
                await live(t, 3)
            except Crash:
                deaths += 1
                t.clock.advance(chance.choice([0, 1, HOUR, 2 * DAY]))
        t.runner = t.another("last")
        await live(t, 12)
        await check(t, made, RunState.MISSED, RunState.SKIPPED, RunState.FAILED)


async def test_two_processes_on_one_database(tmp_path: Path) -> None:
    """Both look at the same instants: each run is begun by one of them, and nobody resubmits the other's."""
    async with timetable(tmp_path, settings=Settings(runs_at_once=3, spread_seconds=0)) as t:
        other_store = await SqliteStore.open(tmp_path / "gateway.db", clock=t.clock, components=COMPONENTS)
        try:
            made = [await t.add("every 1h go") for _ in range(6)]
            one = t.another("one", alone=False)
            mine = t.database
            t.database = other_store.database
            two = t.another("two", alone=False)
            t.database = mine
            owners: dict[str, str] = {}
            for _ in range(4):
                t.clock.advance(HOUR)
                for _ in range(6):
                    await asyncio.gather(one.look(), two.look())
                    for session in t.sessions.going_on:
                        t.sessions.end(session)
                for session, owner in await t.stage.rows("SELECT session_id, owner FROM schedule_runs"):
                    assert owners.setdefault(session, owner) == owner
            assert set(owners.values()) == {"one", "two"}
            await asyncio.gather(one.look(), two.look())
            await check(t, made)
            words = [(session, submission) for session, _, submission in t.sessions.submitted]
            assert len(words) == len(set(words)) == 24, "somebody submitted what was not theirs"
        finally:
            await other_store.aclose()


async def test_a_run_of_a_dead_process_is_taken_over_once_its_lease_is_over(tmp_path: Path) -> None:
    """Not before, where another process may live; at once, where none can."""
    async with timetable(tmp_path) as t:
        made = await t.add("every 1h timeout=7d go")
        await t.at(HOUR)
        assert len(t.sessions.submitted) == 1
        survivor = t.another("p2", alone=False)
        await survivor.look()
        assert [run.owner for run in await t.runs(made)] == ["p1"]
        t.clock.advance(61)
        await survivor.look()
        assert [run.owner for run in await t.runs(made)] == ["p2"]
        await t.another("p3", alone=True).look()
        assert [run.owner for run in await t.runs(made)] == ["p3"]
        assert t.sessions.session(t.sessions.fired()[0]).turns == 1
