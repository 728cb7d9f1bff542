"""What time removes, and what it must not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.protocol import Checkpoint, Event, Receipt, events
from runtime.store.ownership import start_of, this_process
from runtime.store.retention import DAY_MS, JournalLimits, JournalState, removable
from runtime.store.sqlite import SqliteStore
from runtime.testing import FakeClock
from tests.support.checkpoints import ACTIVE, GRANT, RECEIPTS, following

NOW = 1_800_000_000_000


def journal(**changes: object) -> JournalState:
    """A journal of 100 events of an idle session, the first 60 too old."""
    made = JournalState(
        session_id="s",
        latest=100,
        first=1,
        first_recent=61,
        active=False,
        turn_began=None,
        cursors=0,
        lowest_cursor=None,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


AGE = JournalLimits(max_age_ms=1)
COUNT = JournalLimits(max_events=30)


@pytest.mark.parametrize(
    ("state", "limits", "consumers", "expected"),
    [
        (journal(), JournalLimits(), 0, 0),
        (journal(), AGE, 0, 60),
        (journal(), COUNT, 0, 70),
        (journal(), JournalLimits(max_age_ms=1, max_events=30), 0, 70),
        (journal(), JournalLimits(max_age_ms=1, max_events=90), 0, 60),
        (journal(), JournalLimits(max_events=0), 0, 100),
        (journal(), JournalLimits(max_events=1000), 0, 0),
        (journal(first_recent=None), AGE, 0, 100),
        (journal(first=None, first_recent=None), AGE, 0, 0),
        (journal(cursors=2, lowest_cursor=40), AGE, 2, 40),
        (journal(cursors=2, lowest_cursor=80), AGE, 2, 60),
        (journal(cursors=1, lowest_cursor=80), AGE, 2, 0),
        (journal(), AGE, 1, 0),
        (journal(active=True, turn_began=51), AGE, 0, 50),
        (journal(active=True, turn_began=90), AGE, 0, 60),
        (journal(active=True, turn_began=None), AGE, 0, 0),
        (journal(active=True, turn_began=51, cursors=1, lowest_cursor=45), COUNT, 1, 45),
    ],
)
def test_what_may_go(state: JournalState, limits: JournalLimits, consumers: int, expected: int) -> None:
    """The limits ask; unread events and a running turn forbid."""
    assert removable(state, limits, consumers) == expected


@pytest.mark.parametrize("limits", [{"max_age_ms": -1}, {"max_events": -1}])
def test_negative_limits_are_refused(limits: dict[str, int]) -> None:
    """A mistake in the configuration is named."""
    with pytest.raises(ValueError, match=next(iter(limits))):
        JournalLimits(**limits)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "s.db", clock=FakeClock(NOW))
    yield store
    await store.aclose()


def old(count: int, at_ms: int = NOW - 10 * DAY_MS) -> list[Event]:
    """Some events of a former day."""
    return [
        Event(sequence=None, submission_id=None, recorded_at_ms=at_ms, msg=events.Warning(message=str(number)))
        for number in range(count)
    ]


async def sequences(store: SqliteStore, session_id: str) -> list[int | None]:
    return [event.sequence for event in (await store.event_page(session_id, after=0)).events]


LIMITS = JournalLimits(max_age_ms=DAY_MS)


async def test_old_events_go_and_numbers_go_on(store: SqliteStore) -> None:
    """Pruning takes a prefix; what follows keeps its place, and new events their count."""
    await store.save(Checkpoint.empty("s"), events=[*old(5), events.Warning(message="new"), *old(1)])
    await store.save(Checkpoint.empty("recent"), events=[events.Warning(message="new")])
    assert await store.prune_journal(LIMITS, NOW) == 5
    assert await sequences(store, "s") == [6, 7]
    assert await sequences(store, "recent") == [1]
    saved = await store.save(following(Checkpoint.empty("s")), events=old(1))
    assert saved.first_event == 8
    page = await store.event_page("s", limit=10)
    assert (page.next_before, page.latest_sequence) == (None, 8)
    assert await store.prune_journal(LIMITS, NOW) == 0


async def test_unread_events_stay(store: SqliteStore) -> None:
    """No event goes that some registered consumer has not passed; a forgotten consumer holds nothing."""
    await store.save(Checkpoint.empty("s"), events=old(5))
    await store.save(Checkpoint.empty("unread"), events=old(5))
    await store.database.write([store.cursor_statement("delivery", "s", 3), store.cursor_statement("audit", "s", 4)])
    assert await store.prune_journal(LIMITS, NOW) == 3
    assert await sequences(store, "s") == [4, 5]
    assert await sequences(store, "unread") == [1, 2, 3, 4, 5]
    await store.forget_consumer("delivery")
    assert await store.prune_journal(LIMITS, NOW) == 1
    await store.forget_consumer("audit")
    assert await store.prune_journal(LIMITS, NOW) == 6


async def test_a_running_turn_keeps_its_events(store: SqliteStore) -> None:
    """What belongs to the turn that runs, or whose approval waits, stays however old it is."""
    started = replace(old(1)[0], msg=events.TurnStarted(turn_id="turn-1"))
    former = replace(old(1)[0], msg=events.TurnStarted(turn_id="turn-0"))
    checkpoint = replace(Checkpoint.empty("s"), active_execution=ACTIVE)
    await store.save(checkpoint, events=[former, *old(2), started, *old(3)])
    assert await store.prune_journal(LIMITS, NOW) == 3
    assert await sequences(store, "s") == [4, 5, 6, 7]
    await store.save(following(checkpoint, active_execution=None))
    assert await store.prune_journal(LIMITS, NOW) == 4


async def test_many_sessions_are_gone_through(store: SqliteStore) -> None:
    """Pruning reaches every session, in bounded steps."""
    rows = [Checkpoint.empty(f"s{number:03}") for number in range(450)]
    for start in range(0, len(rows), 150):
        for each in rows[start : start + 150]:
            await store.save(each, events=old(1))
    assert await store.prune_journal(LIMITS, NOW) == 450


async def test_receipts_are_kept_for_thirty_days(store: SqliteStore) -> None:
    """A submission is recognised for thirty days, then forgotten."""
    await store.save(Checkpoint.empty("s"), receipts=[RECEIPTS[0]])
    await store.prune(NOW + 30 * DAY_MS)
    assert await store.receipt("message-1") == RECEIPTS[0]
    await store.prune(NOW + 30 * DAY_MS + 1)
    assert await store.receipt("message-1") is None
    again = Receipt(submission_id="message-1", status="accepted", disposition="turn")
    await store.save(following(Checkpoint.empty("s")), receipts=[again])


async def test_grants_go_long_after_their_end(store: SqliteStore) -> None:
    """A valid grant is never removed."""
    valid = replace(GRANT, id="valid", expires_at_ms=NOW)
    revoked = replace(GRANT, id="revoked", expires_at_ms=NOW + 90 * DAY_MS, revoked_at_ms=NOW - 31 * DAY_MS)
    await store.save(Checkpoint.empty("s"), grants=[valid, revoked])
    await store.prune(NOW)
    assert await store.database.read("SELECT grant_id FROM grants") == [("valid",)]
    await store.prune(NOW + 31 * DAY_MS)
    assert await store.database.read("SELECT grant_id FROM grants") == []


async def test_claims_that_came_to_nothing_go(store: SqliteStore) -> None:
    """A row that was claimed and never saved is removed a day later, unless it is held."""
    await store.release(await store.claim("given back"))
    await store.claim("held")
    await store.save(Checkpoint.empty("saved"))
    await store.prune(NOW + DAY_MS - 1)
    assert len(await store.database.read("SELECT * FROM sessions")) == 3
    await store.prune(NOW + DAY_MS + 1)
    rows = await store.database.read("SELECT session_id FROM sessions ORDER BY session_id")
    assert rows == [("held",), ("saved",)]


async def test_rows_of_dead_owners_go(store: SqliteStore) -> None:
    """The list of owners does not grow with every crash, and a living owner's row stays although it is old."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    me = this_process()
    try:
        process = replace(me, pid=child.pid, start=start_of(child.pid) or 0)
        other = await SqliteStore.open(store.path, clock=FakeClock(NOW), process=process)
        lease = await other.claim("theirs")
        await other.save(Checkpoint.empty("theirs"), lease=lease)
        await store.claim("ours")
        later = NOW + 3 * DAY_MS
        await store.prune(later)
        assert len(await store.database.read("SELECT * FROM owners")) == 2
    finally:
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()
    await store.prune(later)
    assert await store.database.read("SELECT pid FROM owners") == [(me.pid,)]
    assert (await store.claim("theirs")).generation == 2
    await other.aclose()
