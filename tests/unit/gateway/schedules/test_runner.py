"""What is due is carried out once; what is not carried out is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.access import Policy
from gateway.schedules import ledger
from gateway.schedules.means import Settings
from gateway.schedules.schedule import RunState, State
from runtime.errors import AgentStopped, ConfigurationError
from runtime.protocol import ops
from tests.support.intake import ANN_PRIVATE, OWNER
from tests.support.scheduling import DAY, HOUR, MINUTE, START_MS, Timetable, timetable

NINE = '"0 9 * * *" '
"""An hour after the clock begins."""


@pytest.fixture
async def t(tmp_path: Path):
    async with timetable(tmp_path) as made:
        yield made


async def test_a_due_time_runs_once_in_a_session_of_its_own(t: Timetable) -> None:
    """At nine and not before: one fresh session with the labels, the words, and its creator; and then again."""
    made = await t.add(NINE + "name=Report write it")
    await t.at(HOUR - 1)
    assert t.sessions.fired() == []
    await t.at(1)
    await t.runner.look()
    due = START_MS + HOUR * 1000
    key = f"cron:{made.id}:{due}"
    assert t.sessions.submitted == [
        (key, ops.Message(text="write it", author="cron · Report", principal=OWNER, delivery="queue"), key)  # type: ignore[arg-type]
    ]
    [run] = await t.runs(made)
    assert (run.state, run.due_at_ms, run.number, run.session_id) == (RunState.RUNNING, due, 1, key)
    assert (run.workspace_label, run.origin_label) == ("Notes", "cron · Report")
    opening = await t.stage.places.opening(key)
    assert opening is not None
    assert (opening.context.origin_label, opening.context.workspace_label) == ("cron · Report", "Notes")
    assert opening.metadata["gateway.chat"]["run"] == {  # type: ignore[index, call-overload]
        "schedule": made.id, "name": "Report", "due_at_ms": due, "submission": key, "agent": None, "model": None,
        "tools": None, "unattended": "ask", "approval_seconds": 86_400, "timeout_seconds": 3600, "announce": "always",
        "threaded": False,
    }  # fmt: skip
    await t.finish_all()
    assert await t.states(made) == ["succeeded"]
    await t.at(DAY)
    assert len(t.sessions.fired()) == 2
    assert (await t.schedule(made)).runs == 2


async def test_looking_changes_nothing(t: Timetable) -> None:
    """However often the list, one schedule and its history are read, also right before and after it is due (C1)."""
    made = await t.add(NINE + "go")

    async def read() -> None:
        for _ in range(3):
            await ledger.every(t.database)
            await ledger.by_id(t.database, made.id)
            await ledger.history(t.database, made.id, 10)

    t.clock.advance(HOUR - 0.001)
    await read()
    t.clock.advance(0.002)
    before = await t.stage.rows("SELECT * FROM schedules")
    await read()
    assert await t.stage.rows("SELECT * FROM schedules") == before
    await t.runner.look()
    assert len(t.sessions.fired()) == 1


async def test_a_restart_near_the_due_time_loses_and_moves_nothing(t: Timetable) -> None:
    """The next due time follows from the last one that was accounted for, never from the moment of a start (C2)."""
    made = await t.add(NINE + "go")
    for seconds in (HOUR - 0.5, 1, 3, DAY - 10, 5, 5.1):
        t.clock.advance(seconds)
        t.runner = t.another(f"p{t.clock.now_ms()}")
        await t.runner.look()
        await t.finish_all()
    assert [run.due_at_ms for run in await t.runs(made)] == [START_MS + HOUR * 1000, START_MS + (DAY + HOUR) * 1000]


async def test_a_weekly_one_keeps_its_day_and_zone_in_the_table(t: Timetable) -> None:
    """1 is Monday, and nine is nine in Berlin, also for a process that knows it from the table alone (C32)."""
    made = await t.add('"0 9 * * 1" tz=Europe/Berlin go')
    t.runner = t.another("next")
    for _ in range(2):
        await t.at(7 * DAY)
        await t.finish_all()
    due = [run.due_at_ms - START_MS for run in await t.runs(made)]
    assert due == [3 * DAY * 1000, 10 * DAY * 1000]


async def test_the_loop_wakes_by_itself_and_looks_now_and_then(t: Timetable) -> None:
    """A due time rings; so does a change by another process, without a word, within the longest sleep (C3)."""
    import asyncio

    task = asyncio.ensure_future(t.runner.run())
    try:
        await t.stage.until(lambda: t.clock.sleeping > 0)
        await t.add("at 2027-01-15T09:00 go")
        for _ in range(HOUR // 20 + 1):
            await t.stage.until(lambda: t.clock.sleeping > 0)
            t.clock.advance(20)
            await asyncio.sleep(0)
        await t.stage.until(lambda: t.sessions.fired())
        made = await t.add("every 1m go")
        t.runner.wake()
        while not any(name.startswith(f"cron:{made.id}:") for name in t.sessions.fired()):
            await asyncio.sleep(0)
            if t.clock.sleeping:
                t.clock.advance(20)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert t.clock.sleeping == 0, "a sleeper was left behind"


MISFIRES = [
    ("", ["missed", "missed", "running"]),
    ("misfire=latest", ["missed", "missed", "running"]),
    ("misfire=skip", ["missed", "missed", "missed"]),
    ("misfire=all catch_up=2", ["missed", "missed", "running"]),  # the first is older than a day, too
]


@pytest.mark.parametrize(("options", "expected"), MISFIRES)
async def test_missed_due_times(t: Timetable, options: str, expected: list[str]) -> None:
    """Three days without anybody: none runs, one late, or those within bounds; each has its row (C8)."""
    made = await t.add(f"{NINE}{options} go")
    await t.at(3 * DAY)
    assert await t.states(made) == expected
    assert len(t.sessions.fired()) == expected.count("running")


async def test_all_that_was_missed_runs_one_after_the_other(t: Timetable) -> None:
    """The newest within number and age, each once the one before is done."""
    made = await t.add("every 4h misfire=all catch_up=3 go")
    await t.at(DAY + 3 * HOUR)
    assert await t.states(made) == ["missed"] * 3 + ["running"] + ["waiting"] * 2
    for _ in range(3):
        await t.finish_all()
    assert await t.states(made) == ["missed"] * 3 + ["succeeded"] * 3
    assert [run.number for run in await t.runs(made)][3:] == [1, 2, 3]


async def test_years_without_anybody_are_one_row_and_a_week(t: Timetable) -> None:
    """What was missed long ago is one row; nothing is enumerated for years."""
    made = await t.add("every 1h go")
    await t.at(3 * 365 * DAY)
    runs = await t.runs(made)
    assert len(runs) == 1 + 8 * 24
    assert runs[0].covers_until_ms == t.clock.now_ms() - 8 * DAY * 1000
    assert {str(run.state) for run in runs[:-1]} == {"missed"}
    assert runs[-1].state is RunState.RUNNING


OVERLAPS = [
    ("", [["running", "skipped", "skipped"], ["succeeded", "skipped", "skipped", "running"]]),
    ("overlap=queue_one", [["running", "waiting", "skipped"], ["succeeded", "running", "skipped", "waiting"]]),
    ("overlap=allow", [["running", "running", "running"], ["succeeded", "succeeded", "succeeded", "running"]]),
]


@pytest.mark.parametrize(("option", "expected"), OVERLAPS)
async def test_overlap(t: Timetable, option: str, expected: list[list[str]]) -> None:
    """A long run: what comes due meanwhile is skipped and recorded, waits alone, or runs beside it."""
    made = await t.add(f"every 1h timeout=7d {option} go")
    for _ in range(3):
        await t.at(HOUR)
    assert await t.states(made) == expected[0]
    await t.finish_all()
    await t.at(HOUR)
    assert await t.states(made) == expected[1]
    assert [run.reason for run in await t.runs(made) if run.state is RunState.SKIPPED] != [""]


async def test_a_long_run_starves_nobody(tmp_path: Path) -> None:
    """Two at once: while one goes on for ever, the others have the second place one after the other (C13)."""
    async with timetable(tmp_path, settings=Settings(runs_at_once=2, spread_seconds=0)) as t:
        made = [await t.add(NINE + f"go {n}") for n in range(5)]
        await t.at(HOUR)
        assert len(t.sessions.going_on) == 2
        slow = t.sessions.fired()[0]
        for _ in range(3):
            [other] = [one for one in t.sessions.going_on if one != slow]
            t.sessions.end(other)
            await t.runner.look()
        assert len(t.sessions.fired()) == 5
        assert [(await t.states(one))[0] for one in made].count("running") == 2


async def test_a_run_that_waits_for_a_person_takes_no_place(tmp_path: Path) -> None:
    """It may wait for a day: others run meanwhile."""
    async with timetable(tmp_path, settings=Settings(runs_at_once=1, spread_seconds=0)) as t:
        await t.add(NINE + "one")
        await t.add(NINE + "two")
        await t.at(HOUR)
        [first] = t.sessions.going_on
        t.sessions.ask(first, "r1")
        await t.runner.look()
        assert len(t.sessions.going_on) == 2


async def test_what_is_overdue_at_the_start_is_spread(tmp_path: Path) -> None:
    """Runs that were missed begin some seconds apart; what is due now does not wait for them."""
    async with timetable(tmp_path, settings=Settings(runs_at_once=50, spread_seconds=2)) as t:
        for n in range(5):
            await t.add(f"at 2027-01-15T09:0{n} go")
        await t.add("at 2027-01-15T10:00 now")
        await t.at(2 * HOUR)
        assert len(t.sessions.fired()) == 2
        for seen in (3, 4, 5):
            await t.at(2)
            assert len(t.sessions.fired()) == seen


async def test_jitter_delays_the_begin_and_not_the_due_time(t: Timetable) -> None:
    """The row exists at once; it begins within the bound, at the same instant whoever works it out."""
    made = await t.add("every 1h jitter=10m go")
    await t.at(HOUR)
    [run] = await t.runs(made)
    assert run.due_at_ms == START_MS + HOUR * 1000
    assert 0 < run.not_before_ms - t.clock.now_ms() <= 600_000
    assert t.sessions.fired() == []
    await t.at((run.not_before_ms - t.clock.now_ms()) / 1000)
    assert len(t.sessions.fired()) == 1


async def test_the_clock_goes_back_an_hour(t: Timetable) -> None:
    """What has run does not run again; what comes runs when its time comes."""
    made = await t.add("*/30 * * * * go")
    await t.at(HOUR)
    await t.finish_all()
    fired = len(await t.runs(made))
    for _ in range(4):
        t.clock.advance(-HOUR if _ == 0 else 15 * MINUTE)
        await t.runner.look()
    assert len(await t.runs(made)) == fired
    await t.at(45 * MINUTE)
    assert len(await t.runs(made)) == fired + 1


async def test_the_clock_goes_forward_three_days(t: Timetable) -> None:
    """One late run, and every due time accounted for once."""
    made = await t.add("*/30 * * * * go")
    await t.at(3 * DAY)
    runs = await t.runs(made)
    assert len(runs) == len({run.due_at_ms for run in runs}) == 3 * 48
    assert len(t.sessions.fired()) == 1


async def test_five_years(t: Timetable) -> None:
    """A schedule over five years of simulated time: nine of Berlin on each of its days, once (C11, C31)."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    t.settings = Settings(history=10_000)
    t.sessions.at_once = "completed"
    made = await t.add('"0 9 1,15 * *" tz=Europe/Berlin go')
    while t.clock.now_ms() < START_MS + 5 * 365 * DAY * 1000:
        due = (await t.schedule(made)).next_due_ms
        assert due is not None
        await t.at((due - t.clock.now_ms()) / 1000)
        await t.runner.look()
    runs = await t.runs(made)
    local = [datetime.fromtimestamp(run.due_at_ms / 1000, ZoneInfo("Europe/Berlin")) for run in runs]
    assert {(at.day, at.hour, at.minute) for at in local} == {(1, 9, 0), (15, 9, 0)}
    assert len(runs) == len(t.sessions.fired()) == len({at.date() for at in local}) == 120
    assert {run.state for run in runs} == {RunState.SUCCEEDED}


async def test_ten_thousand_at_once(tmp_path: Path) -> None:
    """Every one has its row at once, and they run as there is room, each once."""
    async with timetable(tmp_path, settings=Settings(runs_at_once=100, spread_seconds=0)) as t:
        t.sessions.at_once = "completed"
        one = await t.add(NINE + "go")
        row = (await t.stage.rows("SELECT plan, next_due_ms FROM schedules"))[0]
        await _copies(t, row, 9_999)
        await t.at(HOUR)
        assert (await t.stage.rows("SELECT count(*), count(DISTINCT schedule_id) FROM schedule_runs")) == [
            (10_000, 10_000)
        ]
        assert len(await t.runs(one)) == 1
        for _ in range(3):
            await t.runner.look()
        assert len(t.sessions.fired()) == len(set(t.sessions.fired())) == 400
        states = await t.stage.rows("SELECT state, count(*) FROM schedule_runs GROUP BY state ORDER BY state")
        assert states == [("running", 100), ("succeeded", 300), ("waiting", 9_600)]


async def _copies(t: Timetable, row: tuple[Any, ...], count: int) -> None:
    from runtime.store.writer import Statement

    sql = (
        "INSERT INTO schedules (creation_key, name, plan, state, platform, account, chat, created_by, created_at_ms,"
        " updated_at_ms, revision, accounted_until_ms, next_due_ms)"
        " VALUES (?, 'n', ?, 'active', 'telegram', 'bot', '42', ?, 1, 1, 1, ?, ?)"
    )
    rows = [(f"copy:{n}", row[0], OWNER, t.clock.now_ms(), row[1]) for n in range(count)]
    await t.database.write([Statement(sql, rows, many=True)])


async def test_a_run_that_takes_too_long_is_ended(t: Timetable) -> None:
    """After its time-out, not before; time in which a person is waited for does not count."""
    made = await t.add("every 1h timeout=10m go")
    await t.at(HOUR)
    [session] = t.sessions.going_on
    await t.at(5 * MINUTE)
    t.sessions.ask(session, "r1")
    await t.at(20 * MINUTE)
    assert t.sessions.going_on == [session]
    t.sessions.session(session).approval = None
    await t.runner.look()
    assert t.sessions.going_on == []
    await t.runner.look()
    [run] = await t.runs(made)
    assert (run.state, run.reason) == (RunState.FAILED, "took too long (10 minutes)")


async def test_a_session_that_cannot_open_fails_its_run_with_the_reason(t: Timetable) -> None:
    """Anything else is tried again, and the run is as it was."""
    made = await t.add(NINE + "go")
    t.sessions.failures = [AgentStopped("the disk is full"), ConfigurationError("the model 'x' is gone")]
    await t.at(HOUR)
    assert await t.states(made) == ["running"]
    await t.runner.look()
    [run] = await t.runs(made)
    assert (run.state, run.reason) == (RunState.FAILED, "the model 'x' is gone")


async def test_a_workspace_that_is_gone_fails_the_run(t: Timetable) -> None:
    """With the reason, and nothing is opened."""
    made = await t.add(NINE + "workspace=site go")
    t.stage.workspaces = t.stage.workspaces[:1]
    await t.at(HOUR)
    [run] = await t.runs(made)
    assert run.state is RunState.FAILED
    assert "'site'" in run.reason
    assert t.sessions.submitted == []


async def test_a_removed_creator_ends_it(t: Timetable) -> None:
    """No turn; it is switched off; the chat and an owner are told, once (S-32)."""
    made = await t.add("every 1h go", by="telegram:43")
    t.stage.access.replace(Policy(owners=frozenset({OWNER})))
    await t.at(HOUR)
    await t.at(HOUR)
    assert t.sessions.submitted == []
    assert (await t.schedule(made)).state is State.DISABLED
    assert await t.states(made) == ["cancelled"]
    assert await t.stage.told() == t.told_owner
    assert "telegram:43 may not use the agent any more" in t.told_owner[0]
    assert t.stage.outbox.woken == [ANN_PRIVATE]


async def test_words_that_were_refused_at_the_boundary_end_the_run(t: Timetable) -> None:
    """The creator was removed between begin and boundary: no turn, and no row that says "running" for ever (C14)."""
    made = await t.add(NINE + "go")
    await t.at(HOUR)
    [session] = t.sessions.going_on
    t.sessions.finish(session)
    await t.runner.look()
    [run] = await t.runs(made)
    assert (run.state, run.reason) == (RunState.CANCELLED, "its creator may not use the agent any more")


async def test_a_person_who_stops_a_run_is_no_failure(t: Timetable) -> None:
    """It is cancelled, with who did it, and counts for no alert."""
    made = await t.add("every 1h go")
    for _ in range(3):
        await t.at(HOUR)
        await t.finish_all("aborted", by="telegram:43")
    assert await t.states(made) == ["cancelled"] * 3
    assert (await t.runs(made))[0].reason == "stopped by telegram:43"
    assert await t.stage.told() == []


async def test_alerts_are_few(t: Timetable) -> None:
    """From the second failure in a row on, one an hour; one word once it works again; a pause after ten."""
    made = await t.add("every 20m go")
    for n in range(1, 7):
        await t.at(20 * MINUTE)
        await t.finish_all("failed", reason="no model")
        assert len(await t.stage.told()) == (0, 1, 1, 1, 2, 2)[n - 1], n
    assert (await t.stage.told())[0] == f"⚠ cron · go (#{made.id}) failed 2 times in a row: no model."
    await t.at(20 * MINUTE)
    await t.finish_all()
    assert (await t.stage.told())[-1] == f"cron · go (#{made.id}) works again, after 6 failures."
    for _ in range(10):
        await t.at(20 * MINUTE)
        await t.finish_all("failed", reason="no model")
    assert (await t.schedule(made)).state is State.PAUSED
    assert f"/cron resume {made.id}" in (await t.stage.told())[-1]
    before = len(t.sessions.fired())
    await t.at(DAY)
    assert len(t.sessions.fired()) == before


async def test_one_failure_alone_alarms_nobody(t: Timetable) -> None:
    """Nor does its recovery."""
    await t.add("every 1h go")
    for outcome in ("failed", "completed", "failed", "completed"):
        await t.at(HOUR)
        await t.finish_all(outcome)
    assert await t.stage.told() == []


async def test_history_is_kept_within_bounds(t: Timetable) -> None:
    """The newest rows stay; one that runs is never forgotten."""
    t.settings = Settings(history=5, runs_at_once=4)
    made = await t.add("every 1h overlap=allow timeout=7d go")
    await t.at(HOUR)
    first = (await t.runs(made))[0]
    for _ in range(10):
        await t.at(HOUR)
        for session in t.sessions.going_on:
            if session != first.session_id:
                t.sessions.end(session)
    await t.at(HOUR - 1)
    await t.at(0)
    assert (await t.runs(made))[0].id == first.id
    assert len([one for one in await t.runs(made) if one.ended_at_ms]) <= 6


async def test_a_calendar_that_is_over_is_done(t: Timetable) -> None:
    """After its one time, and after its end; its row stays."""
    single = await t.add("at 2027-01-15T09:00 go")
    bounded = await t.add("every 1h end=2027-01-15T10:30 go")
    for _ in range(4):
        await t.at(HOUR)
        await t.finish_all()
    assert (await t.schedule(single)).state is (await t.schedule(bounded)).state is State.DONE
    assert await t.states(single) == ["succeeded"]
    assert await t.states(bounded) == ["succeeded", "succeeded"]


async def test_one_that_is_done_goes_on_only_with_a_new_time(t: Timetable) -> None:
    """A change of another kind leaves it done."""
    made = await t.add("at 2027-01-15T09:00 go")
    await t.at(HOUR)
    await t.finish_all()
    await t.stage.say("/cron edit 1 overlap=allow")
    assert (await t.schedule(made)).state is State.DONE
    await t.stage.say("/cron edit 1 at 2027-01-15T12:00")
    assert (await t.schedule(made)).state is State.ACTIVE
    await t.at(3 * HOUR)
    assert await t.states(made) == ["succeeded", "running"]
