"""What the SQLite store promises beyond the protocol: cost, cursors, other people's tables, and commits in doubt."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import CommitUnknown, InvalidCheckpoint, StaleCheckpoint, StoreFailure
from runtime.protocol import Checkpoint, Context, ContextDelta, events
from runtime.store import loading, queries
from runtime.store import sqlite as sqlite_module
from runtime.store.sqlite import SqliteStore
from runtime.store.writer import Connection, Row, Statement, Steps
from runtime.testing import FakeClock
from tests.support.checkpoints import (
    ACTIVE,
    MESSAGES,
    RECEIPTS,
    RECORD,
    TOOLS,
    approval,
    following,
    full_checkpoint,
    grown,
    text_item,
)


class Faults:
    """Fails once at a point."""

    def __init__(self) -> None:
        self.fail_at: str | None = None

    def reach(self, point: str) -> None:
        if point == self.fail_at:
            self.fail_at = None
            raise OSError(point)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
async def store(tmp_path: Path, faults: Faults) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "s.db", clock=FakeClock(1_000), faults=faults)
    yield store
    await store.aclose()


async def trace(store: SqliteStore) -> list[str]:
    """Every statement that the writer runs from now on, as it comes."""
    ran: list[str] = []
    await store._writer.connection._connection.set_trace_callback(ran.append)
    return ran


def log_size(store: SqliteStore) -> int:
    """Bytes of the log: it only grows while nothing checkpoints it."""
    return store.path.with_name(store.path.name + "-wal").stat().st_size


async def one_turn(store: SqliteStore, checkpoint: Checkpoint, number: int) -> Checkpoint:
    """The commits of a turn with one tool: accept, take, step, result, end."""
    waiting = replace(MESSAGES[1], id=f"message-{number:06}")
    active = replace(ACTIVE, turn_id=f"turn-{number:06}")
    begun = [events.TurnStarted(turn_id=active.turn_id), events.Warning(message="w" * 40)]
    for items, changed in (
        ((), {"pending_messages": (waiting,)}),
        ((text_item(number),), {"pending_messages": (), "active_execution": active}),
        ((text_item(number),), {"pending_tools": TOOLS[1:2]}),
        ((text_item(number),), {"pending_tools": ()}),
        ((text_item(number),), {"active_execution": None}),
    ):
        checkpoint, delta = grown(checkpoint, items, **changed)
        record = replace(RECORD, turn_id=active.turn_id) if checkpoint.idle and items else None
        receipts = [replace(RECEIPTS[0], submission_id=waiting.id)] if not items else []
        await store.save(checkpoint, delta, events=begun, execution=record, receipts=receipts)
    return checkpoint


async def test_a_turn_costs_the_same_after_a_long_history(store: SqliteStore) -> None:
    """Rows changed and statements run are equal at 12 and at 5,000 items; bytes written grow by a fifth at most."""
    raw = store._writer.connection._raw
    ran = await trace(store)
    await store._writer.connection.read("PRAGMA wal_autocheckpoint = 0")

    async def cost(checkpoint: Checkpoint, first: int) -> tuple[int, int, float]:
        ran.clear()
        turns, rows, size = 40, raw.total_changes, log_size(store)
        for number in range(first, first + turns):
            checkpoint = await one_turn(store, checkpoint, number)
        return len(ran), raw.total_changes - rows, (log_size(store) - size) / turns

    costs: list[tuple[int, int, float]] = []
    for session, length in (("short", 12), ("long", 5_000)):
        start = replace(Checkpoint.empty(session), context=Context(text_item(n) for n in range(length)))
        await store.save(start, events=[events.Warning(message="w" * 40)] * length)
        costs.append(await cost(start, len(costs) * 1000))
    short, long = costs
    assert long[:2] == short[:2]
    assert long[2] <= 1.2 * short[2]
    assert short[2] < 90_000


async def test_a_turn_syncs_once_per_commit(store: SqliteStore) -> None:
    """Five saves are five transactions: begun, committed, and nothing besides."""
    checkpoint = Checkpoint.empty("s")
    await store.save(checkpoint)
    ran = await trace(store)
    await one_turn(store, checkpoint, 1)
    assert ran.count("COMMIT") == 5
    assert ran.count("BEGIN IMMEDIATE") == 5
    assert not [each for each in ran if each.startswith("SAVEPOINT")]


async def test_a_step_does_not_read_what_it_remembers(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that goes on from its own last save writes, and reads nothing before."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)

    async def unexpected(*_: object) -> None:
        pytest.fail("the store read")

    monkeypatch.setattr(store, "_read_known", unexpected)
    for number in range(3):
        checkpoint, delta = grown(checkpoint, (text_item(number),))
        await store.save(checkpoint, delta)


async def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle session costs no memory in the store for ever, and is saved as well without it."""
    monkeypatch.setattr(sqlite_module, "REMEMBERED", 3)
    store = await SqliteStore.open(tmp_path / "s.db")
    checkpoints = [full_checkpoint(f"s{number}") for number in range(6)]
    for each in checkpoints:
        await store.save(each)
    assert len(store._remembered) == 3
    for each in checkpoints:
        after = following(each, pending_messages=MESSAGES[:1], pending_tools=(), pending_approval=None)
        await store.save(after)
        assert await store.load(each.session_id) == after
    await store.aclose()


async def test_a_row_that_was_tampered_with_is_found(store: SqliteStore) -> None:
    """A load checks what it reads, and names what is wrong."""
    await store.save(full_checkpoint())
    damages = (
        ("DELETE FROM context_items WHERE ordinal = 1", "context"),
        ("UPDATE context_items SET payload = 'x' WHERE ordinal = 0", "context item"),
        ("UPDATE sessions SET state = '{}'", "no turn runs"),
        ("UPDATE sessions SET version = 2", "version"),
        ("UPDATE sessions SET metadata = '[]'", "metadata"),
        ("UPDATE approvals SET payload = '{}'", "pending approval"),
        ("UPDATE tool_calls SET payload = '{}'", "pending tool"),
    )
    outside = sqlite3.connect(store.path, isolation_level=None)
    for damage, named in damages:
        assert outside.execute(damage).rowcount > 0
        with pytest.raises(InvalidCheckpoint, match=named):
            await store.load("s")
        await store.delete("s")
        await store.save(full_checkpoint())
    outside.close()


async def test_a_winner_outside_is_found_by_the_database(store: SqliteStore) -> None:
    """A row that another program changed, even without a new save id, is never overwritten."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    with sqlite3.connect(store.path) as outside:
        outside.execute("UPDATE sessions SET sequence = 5")
    outside.close()
    with pytest.raises(StaleCheckpoint):
        await store.save(replace(checkpoint, sequence=5))
    loaded = await store.load("s")
    assert loaded == replace(checkpoint, sequence=5)


# -- commits in doubt


async def test_a_commit_in_doubt_that_was_kept_is_adopted(store: SqliteStore, faults: Faults) -> None:
    """The store looks itself: what it finds under its save id is a success, with the right numbers."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint, events=[events.Warning(message="1")])
    after, delta = grown(checkpoint, (text_item(1),))
    faults.fail_at = "store.after_commit"
    saved = await store.save(after, delta, events=[events.Warning(message="2"), events.Warning(message="3")])
    assert saved.first_event == 2
    assert await store.load("s") == after
    last, delta = grown(after, (text_item(2),))
    assert (await store.save(last, delta, events=[events.Warning(message="4")])).first_event == 4


async def test_a_commit_in_doubt_that_was_lost_is_an_error(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not found under its save id was lost, for the reason that the disk gave, and may be saved again."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    real = store._writer.write

    async def lost(unit: object) -> None:
        cause = sqlite3.OperationalError("disk I/O error")
        cause.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise CommitUnknown("x") from cause

    monkeypatch.setattr(store._writer, "write", lost)
    with pytest.raises(StoreFailure, match="nothing was written") as raised:
        await store.save(following(checkpoint))
    assert raised.value.kind == "io"
    monkeypatch.setattr(store._writer, "write", real)
    await store.save(following(checkpoint))


async def test_damage_found_while_running_names_the_file(store: SqliteStore) -> None:
    """Whoever reads the log of a store that breaks while it runs reads which file it is."""
    checkpoint = replace(Checkpoint.empty("s"), sequence=1, context=Context(text_item(n) for n in range(500)))
    await store.save(checkpoint)
    other = sqlite3.connect(store.path)
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
    other.close()
    with store.path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StoreFailure, match="is damaged") as read:
        await store.load("s")
    assert (read.value.kind, str(read.value).partition(": ")[0]) == ("corrupt", str(store.path))
    with pytest.raises(StoreFailure) as written:
        await store.save(replace(Checkpoint.empty("t"), sequence=1, context=Context(map(text_item, range(500)))))
    assert str(written.value).startswith(f"{store.path}: ")


async def test_a_commit_in_doubt_behind_a_winner_is_stale(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer's save in its place means that the race is lost."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    other = await SqliteStore.open(store.path)

    async def overtaken(unit: object) -> None:
        await other.save(following(checkpoint, title="theirs"))
        raise CommitUnknown("x")

    monkeypatch.setattr(store._writer, "write", overtaken)
    with pytest.raises(StaleCheckpoint):
        await store.save(following(checkpoint, title="ours"))
    await other.aclose()


async def test_a_commit_in_doubt_that_cannot_be_looked_up_stays_so(
    store: SqliteStore, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never guess: where even reading fails, the caller is told that it is unknown."""

    async def unreadable(*_: object) -> None:
        raise StoreFailure("io", "x")

    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    monkeypatch.setattr(store, "_read_known", unreadable)
    faults.fail_at = "store.after_commit"
    with pytest.raises(CommitUnknown):
        await store.save(following(checkpoint))
    monkeypatch.undo()
    assert await store.load("s") == following(checkpoint)
    await store.save(following(following(checkpoint)))


async def test_a_fault_before_the_commit_leaves_disk_and_memory(store: SqliteStore, faults: Faults) -> None:
    """Nothing is written, and the same save succeeds afterwards."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    after = following(checkpoint, pending_messages=(), pending_approval=None, pending_tools=())
    faults.fail_at = "store.before_commit"
    with pytest.raises(OSError, match="before_commit"):
        await store.save(after)
    assert await store.load("s") == checkpoint
    await store.save(after)
    assert await store.load("s") == after


async def test_a_cancelled_save_leaves_the_store_usable(store: SqliteStore) -> None:
    """Whether it was kept is on disk; a load tells, and the next save goes on from there."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    task = asyncio.ensure_future(store.save(following(checkpoint, title="cancelled")))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.save_state("a", "b", 1)  # behind it in the writer
    loaded = await store.load("s")
    assert loaded in (checkpoint, following(checkpoint, title="cancelled"))
    assert loaded is not None
    await store.save(following(loaded, title="next"))


# -- cursors and work


async def test_sessions_beyond_a_cursor(store: SqliteStore) -> None:
    """A consumer finds the sessions that have events for it, also those that it never read."""
    for session, count in (("a", 2), ("b", 3), ("c", 0)):
        await store.save(Checkpoint.empty(session), events=[events.Warning(message="w")] * count)
    assert await store.sessions_beyond_cursor("delivery") == ("a", "b")
    assert await store.cursor("delivery", "a") == 0
    await store.database.write([store.cursor_statement("delivery", "a", 2), store.cursor_statement("delivery", "b", 2)])
    assert await store.sessions_beyond_cursor("delivery") == ("b",)
    assert await store.sessions_beyond_cursor("audit") == ("a", "b")
    assert await store.cursor("delivery", "b") == 2


async def test_a_cursor_never_goes_back(store: SqliteStore) -> None:
    """A late writer cannot make events appear twice."""
    await store.save(Checkpoint.empty("a"), events=[events.Warning(message="w")] * 3)
    for sequence in (2, 1, 3, 2):
        await store.database.write([store.cursor_statement("delivery", "a", sequence)])
    assert await store.cursor("delivery", "a") == 3


async def test_a_cursor_goes_with_its_session(store: SqliteStore) -> None:
    """Deleting the session removes it, and a cursor of no session is refused."""
    await store.save(Checkpoint.empty("a"))
    await store.database.write([store.cursor_statement("delivery", "a", 0)])
    await store.delete("a")
    assert await store.database.read("SELECT * FROM cursors") == []
    with pytest.raises(StoreFailure):
        await store.database.write([store.cursor_statement("delivery", "a", 1)])


async def test_sessions_with_work_are_found_at_start(store: SqliteStore) -> None:
    """A turn, an approval or messages that wait, and retirement are work; idle and claimed sessions are not."""
    await store.save(replace(Checkpoint.empty("turn"), active_execution=ACTIVE))
    await store.save(replace(full_checkpoint("approval"), pending_messages=(), retiring=False))
    await store.save(replace(Checkpoint.empty("messages"), pending_messages=MESSAGES))
    await store.save(replace(Checkpoint.empty("retiring"), retiring=True))
    await store.save(Checkpoint.empty("idle"))
    await store.claim("claimed")
    assert await store.sessions_with_work() == ("approval", "messages", "retiring", "turn")


# -- deletion and other people's tables


async def test_deletion_leaves_no_row_anywhere(store: SqliteStore) -> None:
    """Every table but receipts is free of the session, whatever hung on it."""
    lease = await store.claim("s")
    checkpoint = replace(full_checkpoint(), pending_approval=approval())
    await store.save(checkpoint, events=[events.Warning(message="w")], receipts=RECEIPTS, lease=lease)
    ended = following(
        checkpoint, active_execution=None, active_model_step=None, pending_tools=(), pending_approval=None
    )
    await store.save(ended, execution=RECORD, lease=lease)
    await store.database.write([store.cursor_statement("delivery", "s", 1)])
    tables = [row[0] for row in await store.database.read("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    of_sessions = [
        table
        for table in tables
        if (await store.database.read(f"SELECT 1 FROM pragma_table_info('{table}') WHERE name = 'session_id'"))
    ]
    assert len(of_sessions) == 11
    filled = [table for table in of_sessions if await store.database.read(f"SELECT 1 FROM {table}")]
    assert set(of_sessions) - set(filled) == {"grants"}
    await store.delete("s")
    assert [table for table in of_sessions if await store.database.read(f"SELECT 1 FROM {table}")] == ["receipts"]


async def test_others_write_through_the_same_commit(store: SqliteStore) -> None:
    """Statements of other components share commits with saves, and are atomic for themselves."""
    await store.database.write([Statement("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE)")])
    ran = await trace(store)
    insert = Statement("INSERT INTO notes (text) VALUES (?) RETURNING id", ("a",), 1, fetch=True)
    results = await asyncio.gather(
        store.database.write([insert]),
        store.database.write([replace(insert, params=("b",)), insert]),
        store.save_state("a", "b", 1),
        return_exceptions=True,
    )
    assert ran.count("COMMIT") == 1
    assert [type(result) for result in results] == [list, StoreFailure, type(None)]
    assert results[0][0].rows == [(1,)]  # type: ignore[index]
    assert await store.database.read("SELECT text FROM notes WHERE id = ?", (1,)) == [("a",)]


async def test_what_was_written_is_read_at_once(store: SqliteStore) -> None:
    """Every reader sees a commit that was acknowledged."""
    for number in range(20):
        await store.save_state("a", "b", number)
        assert [await store.load_state("a", "b") for _ in range(3)] == [number] * 3


async def test_a_load_is_one_moment(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that falls between two queries of a load is not seen by half."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    real = loading.rows
    between: list[str] = []

    def rows(sql: str, *params: object) -> Steps[list[Row]]:
        found = yield from real(sql, *params)
        if sql == queries.READ_SESSION and not between:
            with sqlite3.connect(store.path) as outside:
                outside.execute("DELETE FROM pending_messages")
                outside.execute("DELETE FROM tool_calls")
                outside.execute("UPDATE sessions SET title = 'later'")
            outside.close()
            between.append(sql)
        return found

    monkeypatch.setattr(loading, "rows", rows)
    assert await store.load("s") == checkpoint
    assert between
    assert await store.load("s") == replace(checkpoint, pending_messages=(), pending_tools=())


async def test_a_failed_read_leaves_its_connection_clean(store: SqliteStore) -> None:
    """After a load that failed, the same connections read on, and see new commits."""
    await store.save(full_checkpoint())
    with sqlite3.connect(store.path) as outside:
        outside.execute("UPDATE sessions SET state = 'x'")
        for _ in range(4):
            outside.commit()
            with pytest.raises(InvalidCheckpoint):
                await store.load("s")
    outside.close()
    await store.save_state("a", "b", "new")
    assert [await store.load_state("a", "b") for _ in range(4)] == ["new"] * 4


async def test_an_explicit_delta_is_what_is_stored(store: SqliteStore) -> None:
    """The rows are those of the delta; the rest of the checkpoint's context is not looked at."""
    await store.save(Checkpoint.empty("s"))
    second = replace(Checkpoint.empty("s"), sequence=1)
    await store.save(second, ContextDelta(epoch=0, start=0, items=(text_item(1),)))
    loaded = await store.load("s")
    assert loaded is not None
    assert list(loaded.context) == [text_item(1)]


async def test_the_fallback_to_public_calls_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the driver's private call a session is saved, loaded, raced and refused as with it."""

    async def gone(_: object) -> None:
        return None

    monkeypatch.setattr("runtime.store.writer.find_batch_call", gone)
    store = await SqliteStore.open(tmp_path / "s.db")
    assert isinstance(store._writer.connection, Connection)
    assert not store._writer.connection.batches
    checkpoint = full_checkpoint()
    await store.save(checkpoint, events=[events.Warning(message="w")])
    racers = [following(checkpoint, title=str(number)) for number in range(5)]
    results = await asyncio.gather(*(store.save(each) for each in racers), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Saved"] + ["StaleCheckpoint"] * 4
    loads = await asyncio.gather(*(store.load("s") for _ in range(6)))
    assert all(loaded in racers for loaded in loads)
    await store.aclose()
