"""No acknowledgement without a commit: triggers, full disks, locks, kills and torn logs."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.errors import StoreFailure
from runtime.protocol import Checkpoint, events
from runtime.store import opening
from runtime.store.sqlite import SqliteStore
from tests.support.checkpoints import RECEIPTS, RECORD, following, full_checkpoint, grown, text_item
from tests.support.open_connections import connections_are_closed
from tests.support.store_child import SESSIONS

__all__ = ["connections_are_closed"]  # the fixture works where it is named

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "s.db", busy_timeout_ms=50)
    yield store
    await store.aclose()


@pytest.fixture
def outside(store: SqliteStore) -> Iterator[sqlite3.Connection]:
    """A second connection to the open store's file, as an operator has it."""
    connection = sqlite3.connect(store.path, isolation_level=None)
    yield connection
    connection.close()


ABORTED = events.TurnAborted(turn_id="turn-1", reason="stopped")


@pytest.mark.parametrize("how", ["ABORT", "FAIL", "ROLLBACK"])
async def test_a_trigger_that_refuses_an_event_refuses_the_save(
    store: SqliteStore, outside: sqlite3.Connection, how: str
) -> None:
    """A trigger made while the store is open fails the save as a whole; once it is dropped the same save works."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint, events=[events.Warning(message="before")])
    outside.execute(
        "CREATE TRIGGER t BEFORE INSERT ON event_journal WHEN NEW.event_kind = 'turn_aborted' "
        f"BEGIN SELECT RAISE({how}, 'x'); END"
    )
    ended, delta = grown(
        checkpoint,
        (text_item(1),),
        active_execution=None,
        active_model_step=None,
        pending_tools=(),
        pending_approval=None,
        pending_messages=(),
    )
    for _ in range(2):
        with pytest.raises(StoreFailure) as raised:
            await store.save(
                ended, delta, events=[events.Warning(message="lost"), ABORTED], receipts=RECEIPTS, execution=RECORD
            )
        assert raised.value.kind == "constraint"
        assert await store.load("s") == checkpoint
        assert await store.receipt("message-1") is None
        assert (await store.execution_page("s")).executions == ()
    await store.save_state("other", "things", "work")
    outside.execute("DROP TRIGGER t")
    saved = await store.save(ended, delta, events=[ABORTED], receipts=RECEIPTS, execution=RECORD)
    assert saved.first_event == 2
    assert await store.load("s") == ended
    assert [event.kind for event in (await store.event_page("s", after=0)).events] == ["warning", "turn_aborted"]


@pytest.mark.parametrize("how", ["ABORT", "ROLLBACK"])
async def test_saves_beside_a_refused_one_are_kept(store: SqliteStore, outside: sqlite3.Connection, how: str) -> None:
    """Sessions that shared the commit with it are acknowledged, and are on disk."""
    outside.execute(
        f"CREATE TRIGGER t BEFORE INSERT ON sessions WHEN NEW.session_id = 's3' BEGIN SELECT RAISE({how}, 'x'); END"
    )
    checkpoints = [full_checkpoint(f"s{number}") for number in range(8)]
    results = await asyncio.gather(*(store.save(each) for each in checkpoints), return_exceptions=True)
    assert [index for index, result in enumerate(results) if isinstance(result, BaseException)] == [3]
    loaded = [await store.load(each.session_id) for each in checkpoints]
    assert loaded == [None if index == 3 else each for index, each in enumerate(checkpoints)]


async def test_a_locked_database_acknowledges_nothing(store: SqliteStore, outside: sqlite3.Connection) -> None:
    """While another program holds the lock saves fail as busy, reads work, and afterwards the same save succeeds."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    outside.execute("BEGIN IMMEDIATE")
    after = following(checkpoint, title="after")
    with pytest.raises(StoreFailure) as raised:
        await store.save(after, receipts=RECEIPTS)
    assert raised.value.kind == "busy"
    assert await store.load("s") == checkpoint
    outside.execute("ROLLBACK")
    await store.save(after, receipts=RECEIPTS)
    assert await store.load("s") == after


async def test_a_full_database_acknowledges_nothing(store: SqliteStore) -> None:
    """Without room saves fail, each for itself, with a sentence; reads work; with room again all goes on."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    writer = store._writer.connection
    (pages,) = (await writer.read("PRAGMA page_count"))[0]
    await writer.read(f"PRAGMA max_page_count = {pages + 40}")
    acknowledged: dict[str, Checkpoint] = {"s": checkpoint}
    refused: list[Checkpoint] = []
    for start in range(0, 60, 6):
        batch = [full_checkpoint(f"s{number}") for number in range(start, start + 6)]
        results = await asyncio.gather(*(store.save(each) for each in batch), return_exceptions=True)
        for each, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                assert isinstance(result, StoreFailure)
                assert result.kind == "full"
                assert "free some space" in str(result)
                refused.append(each)
            else:
                acknowledged[each.session_id] = each
    assert len(acknowledged) > 1
    assert len(refused) > 10
    listed = await store.list_sessions(limit=100)
    assert {line.session_id for line in listed} == acknowledged.keys()
    assert {name: await store.load(name) for name in acknowledged} == acknowledged
    await writer.read("PRAGMA max_page_count = 1000000")
    for each in refused:
        await store.save(each)
    assert await store.load(refused[-1].session_id) == refused[-1]
    assert await store.database.read("PRAGMA integrity_check") == [("ok",)]


# -- processes that are killed


@contextmanager
def child(path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A saving process; it is gone when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.store_child", str(path), *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def acknowledged(lines: list[str]) -> dict[str, int]:
    """The highest acknowledged save of every session."""
    saves = [line.split() for line in lines if line.startswith("s") and line.endswith("\n")]
    return {name: int(sequence) for name, sequence in saves}


async def check(path: Path, told: dict[str, int], *, most: int = 1) -> None:
    """What was told is stored, whole, with at most `most` saves beyond it; and the store works."""
    store = await SqliteStore.open(path)
    assert await store.database.read("PRAGMA integrity_check") == [("ok",)]
    assert await store.database.read("PRAGMA foreign_key_check") == []
    for number in range(SESSIONS):
        name = f"s{number}"
        loaded = await store.load(name)
        stored = loaded.sequence if loaded else 0
        assert told.get(name, 0) <= stored <= told.get(name, 0) + most
        if loaded is None:
            continue
        assert len(loaded.context) == stored == (await store.event_page(name)).latest_sequence
        assert loaded.title == str(stored)
        await store.save(following(loaded))
    await store.aclose()


@pytest.mark.parametrize("passing", [1, 2, 30])
@pytest.mark.parametrize("point", ["store.before_commit", "store.after_commit"])
async def test_a_kill_at_a_commit_keeps_what_was_told(tmp_path: Path, point: str, passing: int) -> None:
    """Killed right before or after a commit: all that was told is there; what was in flight is whole or absent."""
    with child(tmp_path / "s.db", "point", point, str(passing)) as process:
        assert process.stdout is not None
        lines = process.stdout.readlines()
        assert process.wait() == -9
    told = acknowledged(lines)
    assert told or passing <= 2
    await check(tmp_path / "s.db", told)


async def test_kills_at_any_time_keep_what_was_told(tmp_path: Path) -> None:
    """One database through several kills at random moments: nothing acknowledged is ever missing."""
    chance = random.Random(7)
    told: dict[str, int] = {}
    for _ in range(4):
        with child(tmp_path / "s.db", "endless") as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(chance.randrange(30, 200))]
            process.kill()
            lines += process.stdout.readlines()
        told |= acknowledged(lines)
        copy = tmp_path / "copy"
        copy.mkdir()
        for each in tmp_path.glob("s.db*"):
            shutil.copy(each, copy / each.name)
        await check(copy / "s.db", told)
        shutil.rmtree(copy)
    assert min(told.values()) > 3
    assert len(told) == SESSIONS


async def test_a_disk_that_fills_up_acknowledges_nothing_more(tmp_path: Path) -> None:
    """A real limit of the system: refused saves are told as such, and the same process goes on once there is room."""
    with child(tmp_path / "s.db", "limit", "200000") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        lines: list[str] = []
        while not lines or lines[-1] != "full\n":
            lines.append(process.stdout.readline())
            assert lines[-1], "the process ended early"
        kinds = Counter(line for line in lines if line.startswith("failed"))
        assert kinds.keys() <= {"failed full\n", "failed io\n"}
        assert kinds.total() == SESSIONS
        before = acknowledged(lines)
        process.stdin.write("\n")
        process.stdin.flush()
        lines += process.stdout.readlines()
        assert process.wait() == 0
    told = acknowledged(lines)
    assert lines[-1] == "end\n"
    assert {name: told[name] - before[name] for name in told} == dict.fromkeys(told, 2)
    assert len(told) == SESSIONS
    await check(tmp_path / "s.db", told, most=0)


# -- torn logs


async def recorded(path: Path) -> list[tuple[int, int]]:
    """Save a session a few times, keeping the whole log; the log's size after each save, by sequence."""
    store = await SqliteStore.open(path)
    await store._writer.connection.read("PRAGMA wal_autocheckpoint = 0")
    checkpoint = Checkpoint.empty("s")
    sizes: list[tuple[int, int]] = []
    for number in range(8):
        await store.save(checkpoint, events=[events.Warning(message=str(number))])
        sizes.append((path.with_name("s.db-wal").stat().st_size, checkpoint.sequence))
        checkpoint, _ = grown(checkpoint, (text_item(number),), title=str(number))
    kept = path.parent / "kept"
    kept.mkdir()
    for each in ("s.db", "s.db-wal"):
        shutil.copy(path.with_name(each), kept / each)
    await store.aclose()
    return sizes


async def test_a_log_that_was_cut_anywhere_ends_at_a_save(tmp_path: Path) -> None:
    """Cut at each frame and inside each: what loads is exactly the last save that is whole, never a part of one."""
    sizes = await recorded(tmp_path / "s.db")
    log = (tmp_path / "kept" / "s.db-wal").read_bytes()
    (page,) = struct.unpack(">I", log[8:12])
    assert page == opening.PAGE_SIZE
    frame = page + 24
    borders = range(sizes[0][0], len(log) + 1, frame)
    states: set[int] = set()
    for cut in sorted({*borders, *(border - frame // 2 for border in borders), *(border - 1 for border in borders)}):
        case = tmp_path / "case"
        shutil.copytree(tmp_path / "kept", case)
        (case / "s.db-wal").write_bytes(log[:cut])
        store = await SqliteStore.open(case / "s.db")
        loaded = await store.load("s")
        expected = max((sequence for size, sequence in sizes if size <= cut), default=None)
        assert (loaded.sequence if loaded else None) == expected
        if loaded is not None:
            assert len(loaded.context) == loaded.sequence
            assert (await store.event_page("s")).latest_sequence == loaded.sequence + 1
            await store.save(following(loaded))
            states.add(loaded.sequence)
        await store.aclose()
        shutil.rmtree(case)
    assert states == set(range(8))
