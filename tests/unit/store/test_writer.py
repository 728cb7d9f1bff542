"""The shared commit: who fails with whom, and how the driver is used."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiosqlite
import pytest

from runtime.errors import CheckpointError, CommitUnknown, StoreFailure
from runtime.store import writer as writing
from runtime.store.writer import Connection, Result, Statement, Unit, Writer, find_batch_call


def put(key: str, value: str = "x") -> Unit:
    """A unit of one row."""
    return [Statement("INSERT INTO t VALUES (?, ?)", (key, value), expect_rows=1)]


class Points:
    """Records the points that were reached, and fails at one of them."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.fail_at: str | None = None

    def reach(self, point: str) -> None:
        self.reached.append(point)
        if point == self.fail_at:
            self.fail_at = None
            raise RuntimeError(point)


class Bench:
    """A writer on a small table, and a second connection that looks at it from outside."""

    def __init__(self, path: Path, writer: Writer, points: Points) -> None:
        self.path = path
        self.writer = writer
        self.points = points
        self.outside = sqlite3.connect(path, isolation_level=None)

    def stored(self) -> list[str]:
        return [row[0] for row in self.outside.execute("SELECT k FROM t ORDER BY k")]

    def commits(self) -> int:
        return self.points.reached.count("store.before_commit")

    async def together(self, *units: Unit) -> list[list[Result] | BaseException]:
        """Submit units so that they share a batch."""
        return await asyncio.gather(*(self.writer.write(unit) for unit in units), return_exceptions=True)


@pytest.fixture(params=["one call", "public calls"])
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    """Both ways of using the driver must behave alike."""
    if request.param == "public calls":
        monkeypatch.setattr(writing, "find_batch_call", no_batch_call)
    path = tmp_path / "t.db"
    sqlite3.connect(path).executescript(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (k TEXT PRIMARY KEY, v TEXT);"
        "CREATE TABLE child (k TEXT REFERENCES t (k) DEFERRABLE INITIALLY DEFERRED);"
    ).connection.close()
    connection = await Connection.open(path, busy_timeout_ms=50)
    await connection.read("PRAGMA foreign_keys = ON")
    assert connection.batches == (request.param == "one call")
    points = Points()
    made = Bench(path, Writer(connection, points), points)
    yield made
    made.outside.close()
    await made.writer.aclose()


async def no_batch_call(_: aiosqlite.Connection) -> None:
    """What is found of a driver without its private call."""


async def test_the_private_call_of_the_driver_is_still_there(tmp_path: Path) -> None:
    """LOUD: aiosqlite's `Connection._execute(function, *arguments)` runs the function in its thread.

    If this fails, the driver has changed: everything still works through its public calls, but each statement costs a
    thread hop. Adapt `find_batch_call`.
    """
    path = tmp_path / "t.db"
    path.touch()
    connection = await Connection.open(path, busy_timeout_ms=50)
    try:
        assert connection.batches
    finally:
        await connection.close()


@pytest.mark.parametrize("fault", ["absent", "raises", "answers wrongly"])
async def test_a_driver_that_changed_is_used_publicly(fault: str) -> None:
    """A private call that is gone or behaves otherwise is not used."""

    class Changed:
        async def call(self, *_: object) -> object:
            if fault == "raises":
                raise TypeError("other signature")
            return None

    changed = Changed()
    if fault != "absent":
        changed._execute = changed.call  # type: ignore[attr-defined]
    assert await find_batch_call(changed) is None  # type: ignore[arg-type]


async def test_units_that_wait_together_share_a_commit(bench: Bench) -> None:
    """Many writers at once cost one commit, and each gets the results of its own statements."""
    results = await bench.together(*(put(f"{number:02}") for number in range(20)))
    assert results == [[Result(1, [])]] * 20
    assert bench.stored() == [f"{number:02}" for number in range(20)]
    assert bench.commits() == 1


async def test_units_that_come_during_a_commit_share_the_next(bench: Bench) -> None:
    """Nobody waits for more than one commit besides its own."""
    first = asyncio.ensure_future(bench.writer.write(put("a")))
    while not bench.points.reached:
        await asyncio.sleep(0)
    await bench.together(put("b"), put("c"))
    await first
    assert bench.stored() == ["a", "b", "c"]
    assert bench.commits() <= 3


async def test_a_batch_is_bounded(bench: Bench) -> None:
    """More units than fit go on in the next transaction."""
    await bench.together(*(put(f"{number:04}") for number in range(writing.MAX_BATCH + 1)))
    assert len(bench.stored()) == writing.MAX_BATCH + 1
    assert bench.commits() == 2


async def test_a_unit_is_atomic(bench: Bench) -> None:
    """If its second statement fails, its first has not happened."""
    with pytest.raises(StoreFailure) as raised:
        await bench.writer.write([*put("a"), *put("a")])
    assert raised.value.kind == "constraint"
    assert isinstance(raised.value.__cause__, sqlite3.IntegrityError)
    assert "UNIQUE" not in str(raised.value)
    assert bench.stored() == []
    await bench.writer.write(put("a"))


async def test_one_bad_unit_fails_alone(bench: Bench) -> None:
    """The units around it, in the same commit, are kept."""
    results = await bench.together(put("a"), [*put("b"), *put("a")], put("c"))
    assert [type(result) for result in results] == [list, StoreFailure, list]
    assert bench.stored() == ["a", "c"]
    assert bench.commits() == 1


async def test_expected_rows_are_compared(bench: Bench) -> None:
    """A statement that changes or returns another number of rows fails its unit with its own error."""
    await bench.writer.write(put("a"))
    update = "UPDATE t SET v = ? WHERE k = ?"
    with pytest.raises(LookupError, match="mine"):
        await bench.writer.write([Statement(update, ("y", "b"), 1, lambda: LookupError("mine"))])
    with pytest.raises(CheckpointError, match="0 rows"):
        await bench.writer.write([*put("c"), Statement(update, ("y", "b"), 1)])
    with pytest.raises(CheckpointError, match="1 rows"):
        await bench.writer.write([Statement("SELECT k FROM t", (), 2, fetch=True)])
    assert bench.stored() == ["a"]


async def test_results_hold_what_was_asked_for(bench: Bench) -> None:
    """Counts always, rows with `fetch`, one count for `many`."""
    results = await bench.writer.write(
        [
            Statement("INSERT INTO t VALUES (?, ?)", [("a", "1"), ("b", "2")], 2, many=True),
            Statement("UPDATE t SET v = v || '!' RETURNING k, v", (), 2, fetch=True),
            Statement("SELECT count(*) FROM t", fetch=True),
        ]
    )
    assert results == [Result(2, []), Result(2, [("a", "1!"), ("b", "2!")]), Result(1, [(2,)])]


async def test_a_value_that_cannot_be_bound_fails_alone(bench: Bench) -> None:
    """Lone surrogates and huge numbers are refused in words, and nobody else notices."""
    results = await bench.together(
        put("a"), put("\ud800"), [Statement("INSERT INTO t VALUES (?, ?)", ("n", 1 << 70))], put("b")
    )
    assert [type(result) for result in results] == [list, CheckpointError, CheckpointError, list]
    assert bench.stored() == ["a", "b"]


@pytest.mark.parametrize("victim", [0, 1, 2])
async def test_a_lost_transaction_is_redone_without_its_culprit(bench: Bench, victim: int) -> None:
    """Where SQLite gives the whole transaction up, every other unit goes again, each in a transaction of its own."""
    bench.outside.execute(
        "CREATE TRIGGER lost BEFORE INSERT ON t WHEN NEW.k = 'bad' BEGIN SELECT RAISE(ROLLBACK, 'x'); END"
    )
    units = [put("a"), put("b")]
    units.insert(victim, put("bad"))
    results = await bench.together(*units, [*put("c"), *put("a")])
    assert isinstance(results[victim], StoreFailure)
    assert [type(result) for index, result in enumerate(results) if index != victim] == [list, list, StoreFailure]
    assert bench.stored() == ["a", "b"]


async def test_a_deferred_constraint_fails_alone_too(bench: Bench) -> None:
    """A constraint that is checked at the commit does not take the others along."""
    orphan = [Statement("INSERT INTO child VALUES (?)", ("nobody",))]
    results = await bench.together(put("a"), orphan, put("b"), [*put("c"), *put("c")])
    assert [type(result) for result in results] == [list, StoreFailure, list, StoreFailure]
    assert bench.stored() == ["a", "b"]
    with pytest.raises(StoreFailure):
        await bench.writer.write(orphan)


async def test_a_locked_database_is_busy(bench: Bench) -> None:
    """Another program's lock is reported after the time-out as busy; nothing is written, and later all works."""
    bench.outside.execute("BEGIN IMMEDIATE")
    results = await bench.together(put("a"), put("b"))
    assert [getattr(result, "kind", None) for result in results] == ["busy", "busy"]
    bench.outside.execute("ROLLBACK")
    await bench.writer.write(put("c"))
    assert bench.stored() == ["c"]


async def test_a_fault_before_the_commit_writes_nothing(bench: Bench) -> None:
    """Every member of the batch is told, and nothing of any is on disk."""
    bench.points.fail_at = "store.before_commit"
    results = await bench.together(put("a"), put("b"))
    assert [type(result) for result in results] == [RuntimeError, RuntimeError]
    assert bench.stored() == []
    await bench.writer.write(put("a"))


async def test_a_fault_after_the_commit_is_unknown_to_all(bench: Bench) -> None:
    """Every member whose rows may be on disk is told so; one that had failed before knows better."""
    bench.points.fail_at = "store.after_commit"
    results = await bench.together(put("a"), [*put("b"), *put("a")], put("c"))
    assert [type(result) for result in results] == [CommitUnknown, StoreFailure, CommitUnknown]
    assert bench.stored() == ["a", "c"]


async def test_a_commit_without_a_fault_point_is_none(bench: Bench) -> None:
    """Each commit passes one point before and one after; a batch of which nothing is left passes none."""
    await bench.together(put("a"), put("b"))
    await bench.together(put("a"))
    assert bench.points.reached == ["store.before_commit", "store.after_commit"]


async def test_a_cancelled_waiter_disturbs_nobody(bench: Bench) -> None:
    """The batch goes on, and the others get their results."""
    tasks = [asyncio.ensure_future(bench.writer.write(put(key))) for key in "abc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [list, asyncio.CancelledError, list]
    assert set(bench.stored()) >= {"a", "c"}
    await bench.writer.write(put("d"))


async def test_the_first_of_a_batch_may_be_cancelled(bench: Bench) -> None:
    """Who came first does not carry the batch."""
    first = asyncio.ensure_future(bench.writer.write(put("a")))
    second = asyncio.ensure_future(bench.writer.write(put("b")))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [Result(1, [])]


async def test_closing_writes_what_waits(bench: Bench) -> None:
    """Units that were submitted come to their commit; later ones are refused."""
    tasks = [asyncio.ensure_future(bench.writer.write(put(key))) for key in "abc"]
    await asyncio.sleep(0)
    await bench.writer.aclose()
    assert [type(result) for result in await asyncio.gather(*tasks, return_exceptions=True)] == [list] * 3
    assert bench.stored() == ["a", "b", "c"]
    with pytest.raises(StoreFailure) as raised:
        await bench.writer.write(put("d"))
    assert raised.value.kind == "closed"


async def test_a_flush_that_is_cut_tells_everybody(bench: Bench) -> None:
    """If the flush's task is cancelled (a loop that is torn down), nobody waits for ever."""
    waiting = [asyncio.ensure_future(bench.writer.write(put(key))) for key in "ab"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (flush,) = [task for task in asyncio.all_tasks() if task.get_name() == "store flush"]
    waiting.append(asyncio.ensure_future(bench.writer.write(put("c"))))
    await asyncio.sleep(0)
    flush.cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [CommitUnknown, CommitUnknown, StoreFailure]


async def test_no_task_stays_behind(bench: Bench) -> None:
    """An idle writer has no task."""
    await bench.writer.write(put("a"))
    await asyncio.sleep(0)
    assert [task.get_name() for task in asyncio.all_tasks() if "store" in task.get_name()] == []


async def test_a_cancelled_reader_leaves_no_transaction(bench: Bench) -> None:
    """Steps that were begun come to their end although nobody waits for them."""
    ends: list[bool] = []

    def steps(transaction: writing.Transaction) -> writing.Steps[None]:
        yield Statement("BEGIN")
        yield Statement("SELECT 1")
        yield Statement("ROLLBACK")
        ends.append(transaction.in_transaction)

    task = asyncio.ensure_future(bench.writer.connection.run(steps))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bench.writer.write(put("a"))
    assert ends == [False]


class Failing:
    """Wraps the execution of statements: the n-th that is not a rollback fails as a disk does."""

    def __init__(self, at: int, code: int, give_up: bool) -> None:
        self.at, self.code, self.give_up, self.count = at, code, give_up, 0

    def __call__(self, real: Callable[[sqlite3.Connection, Statement], Result]) -> Callable[..., Result]:
        def execute(raw: sqlite3.Connection, statement: Statement) -> Result:
            if "ROLLBACK" not in statement.sql and "RELEASE" not in statement.sql:
                self.count += 1
                if self.count == self.at:
                    if self.give_up and raw.in_transaction:
                        raw.execute("ROLLBACK")
                    error = sqlite3.OperationalError("disk I/O error")
                    error.sqlite_errorcode = self.code
                    raise error
            return real(raw, statement)

        return execute


@pytest.mark.parametrize("give_up", [False, True], ids=["transaction stays", "transaction is given up"])
@pytest.mark.parametrize("at", range(1, 9))
async def test_an_io_error_at_any_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, give_up: bool
) -> None:
    """Whichever statement fails: what was told to be written is there, what was told not to be is not."""
    path = tmp_path / "t.db"
    sqlite3.connect(path).executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (k TEXT, v TEXT)").connection.close()
    connection = await Connection.open(path, busy_timeout_ms=50)
    bench = Bench(path, Writer(connection), Points())
    failing = Failing(at, sqlite3.SQLITE_IOERR_WRITE, give_up)
    monkeypatch.setattr(writing, "_execute", failing(writing._execute))
    results = await bench.together(put("a"), put("b"), put("c"))
    assert failing.count >= at
    kept = set(bench.stored())
    for key, result in zip("abc", results, strict=True):
        match result:
            case list():
                assert key in kept
            case CommitUnknown():
                assert at == 8  # the commit itself
            case StoreFailure():
                assert key not in kept
                assert result.kind == "io"
            case _:
                pytest.fail(f"unexpected {result!r}")
    assert any(not isinstance(result, list) for result in results)
    await bench.writer.write(put("later"))
    assert "later" in bench.stored()
    bench.outside.close()
    await bench.writer.aclose()


async def test_a_file_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    """A missing file is the driver's error, and its thread has ended by the time we are told."""
    before = threading.enumerate()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await Connection.open(tmp_path / "absent.db", busy_timeout_ms=50)
    for thread in set(threading.enumerate()) - set(before):
        thread.join(5)
        assert not thread.is_alive()
    assert not (tmp_path / "absent.db").exists()
