"""One write connection, and the commit that waiting writers share.

The algorithm is a generator that asks for statements and is told their results. It runs in one of two ways: as a whole
in the driver's thread (one hop for a whole batch), or, where the driver's private entry is gone, statement by statement
through its public calls.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import aiosqlite

from runtime.errors import CheckpointError, CommitUnknown
from runtime.faults import NO_FAULTS, Faults
from runtime.store.failures import failure, kind_of, translate, while_running

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = "Sequence[Any]"

MAX_BATCH = 256
"""Units in one transaction at most: bounds what one commit holds, and what is redone if SQLite gives it up."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a unit.

    `expect_rows` is the number of rows that it must change (or return, with `fetch`); otherwise the unit fails with
    what `error` makes. `fetch` keeps the returned rows. With `many`, `params` is a sequence of parameter rows.
    """

    sql: str
    params: Parameters = ()
    expect_rows: int | None = None
    error: Callable[[], Exception] | None = None
    fetch: bool = False
    many: bool = False


Unit: TypeAlias = Sequence[Statement]


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement did: rows changed (or returned), and the returned rows if they were asked for."""

    count: int
    rows: list[Row]


Steps: TypeAlias = Generator[Statement, Result, T]
Outcome: TypeAlias = "list[Result] | Exception"


class Transaction(Protocol):
    """What the algorithm may ask of the connection besides statements."""

    @property
    def in_transaction(self) -> bool:
        """A transaction is open."""
        ...


BEGIN = Statement("BEGIN IMMEDIATE")
COMMIT = Statement("COMMIT")
ROLLBACK = Statement("ROLLBACK")
SAVEPOINT = Statement("SAVEPOINT unit")
RELEASE = Statement("RELEASE unit")
ROLLBACK_TO = Statement("ROLLBACK TO unit")


def commit_together(units: Sequence[Unit], faults: Faults, connection: Transaction) -> Steps[list[Outcome]]:
    """Run the units in one transaction and commit once; a unit that fails, fails alone.

    Every outcome is the unit's results (it is on disk), CommitUnknown (it may be), or another error (it is not).
    """
    try:
        if connection.in_transaction:  # an earlier ROLLBACK failed
            yield ROLLBACK
        yield BEGIN
    except sqlite3.Error as error:
        return [translate(error)] * len(units)
    outcomes: list[Outcome] = []
    for unit in units:
        outcomes.append((yield from _attempt(unit, len(units) == 1, connection)))
        if not connection.in_transaction:
            return (yield from _redo_alone(units, outcomes, faults, connection))
    return (yield from _commit(units, outcomes, faults, connection))


def _attempt(unit: Unit, alone: bool, connection: Transaction) -> Steps[Outcome]:
    try:
        if alone:
            return (yield from _statements(unit))
        yield SAVEPOINT
        results = yield from _statements(unit)
        yield RELEASE
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the unit's writer and to nobody else
        yield from _undo(alone, connection)
        return translate(error)
    return results


def _statements(unit: Unit) -> Steps[list[Result]]:
    results: list[Result] = []
    for statement in unit:
        result = yield statement
        if statement.expect_rows is not None and result.count != statement.expect_rows:
            raise statement.error() if statement.error else _unexpected(statement.expect_rows, result.count)
        results.append(result)
    return results


def _unexpected(expected: int, count: int) -> CheckpointError:
    return CheckpointError(f"{count} rows were changed where {expected} had to be; nothing was written")


def _undo(alone: bool, connection: Transaction) -> Steps[None]:
    """Take back the failed unit, or else the whole transaction; the caller sees by `in_transaction` which it was."""
    if not alone and connection.in_transaction:
        try:
            yield ROLLBACK_TO
            yield RELEASE
        except sqlite3.Error:
            alone = True  # the savepoint is gone, so what the others wrote cannot be told apart any more
    if alone and connection.in_transaction:
        yield ROLLBACK


def _redo_alone(
    units: Sequence[Unit], tried: Sequence[Outcome], faults: Faults, connection: Transaction
) -> Steps[list[Outcome]]:
    """The transaction is lost. The unit that was tried last lost it; the others go again, each in its own."""
    culprit = len(tried) - 1
    outcomes: list[Outcome] = []
    for index, unit in enumerate(units):
        if index == culprit or (index < culprit and isinstance(tried[index], Exception)):
            outcomes.append(tried[index])
        else:
            outcomes += yield from commit_together([unit], faults, connection)
    return outcomes


def _commit(
    units: Sequence[Unit], outcomes: list[Outcome], faults: Faults, connection: Transaction
) -> Steps[list[Outcome]]:
    if all(isinstance(outcome, Exception) for outcome in outcomes):
        yield ROLLBACK
        return outcomes
    try:
        faults.reach("store.before_commit")
    except Exception as error:  # noqa: BLE001 - a fault that a test injects
        yield ROLLBACK
        return _all_become(outcomes, error)
    try:
        yield COMMIT
    except sqlite3.Error as error:
        return (yield from _commit_failed(error, units, outcomes, faults, connection))
    try:
        faults.reach("store.after_commit")
    except Exception as error:  # noqa: BLE001 - a fault that a test injects
        return _all_become(outcomes, _unknown(error))
    return outcomes


def _commit_failed(
    error: sqlite3.Error, units: Sequence[Unit], outcomes: list[Outcome], faults: Faults, connection: Transaction
) -> Steps[list[Outcome]]:
    refused = kind_of(error) == "constraint"  # a deferred constraint: SQLite keeps the transaction open and unwritten
    if connection.in_transaction:
        yield ROLLBACK
    if not refused:
        return _all_become(outcomes, _unknown(error))
    if len(units) == 1:
        return [translate(error)]
    redone: list[Outcome] = []
    for unit, outcome in zip(units, outcomes, strict=True):
        if isinstance(outcome, Exception):
            redone.append(outcome)
        else:
            redone += yield from commit_together([unit], faults, connection)
    return redone


def _unknown(error: Exception) -> CommitUnknown:
    unknown = CommitUnknown("the commit reported an error and may have been kept: read again before going on")
    unknown.__cause__ = error
    return unknown


def _all_become(outcomes: Sequence[Outcome], error: Exception) -> list[Outcome]:
    return [outcome if isinstance(outcome, Exception) else error for outcome in outcomes]


class Connection:
    """A connection of the driver, able to run a generator of statements in one go."""

    def __init__(
        self, path: Path, connection: aiosqlite.Connection, raw: sqlite3.Connection, batch_call: _BatchCall | None
    ) -> None:
        self.path = path
        self._connection = connection
        self._raw = raw
        self._batch_call = batch_call
        self._one_by_one = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, busy_timeout_ms: int) -> Connection:
        """Connect in autocommit mode: every transaction is begun by its statement. The file must exist."""
        made: list[sqlite3.Connection] = []
        failed: list[sqlite3.Error] = []

        def make(*args: Any, **options: Any) -> sqlite3.Connection:
            # After a failure the driver leaves its thread to itself, which then may outlive the loop and fail there. So
            # it gets a connection in any case, and is closed in the ordinary way.
            try:
                made.append(sqlite3.Connection(*args, **options))
            except sqlite3.Error as error:
                failed.append(error)
                made.append(sqlite3.Connection(":memory:"))
            return made[0]

        connection = await aiosqlite.connect(
            f"{path.absolute().as_uri()}?mode=rw",  # noqa: ASYNC240 - asks for the current folder at most
            uri=True,
            isolation_level=None,
            timeout=busy_timeout_ms / 1000,
            cached_statements=256,
            factory=make,
        )
        if failed:
            await connection.close()
            raise failed[0]
        return cls(path, connection, made[0], await find_batch_call(connection))

    @property
    def batches(self) -> bool:
        """Whole batches are handed over in one call."""
        return self._batch_call is not None

    async def run(self, steps: Callable[[Transaction], Steps[T]]) -> T:
        """Run the steps, without any other steps of this connection between them. StoreFailure once it is closed."""
        if self._closed:
            raise failure("closed")
        if self._batch_call is not None:
            return cast("T", await self._batch_call(_drive, self._raw, steps))
        # A task of its own: a cancelled caller must not leave a transaction half-way.
        task = asyncio.create_task(self._run_alone(steps), name="store statements")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def read(self, sql: str, params: Parameters = ()) -> list[Row]:
        """The rows of one query."""
        return await self.run(lambda _: _one(Statement(sql, params, fetch=True)))

    async def close(self) -> None:
        """Let what runs end, then close; safe to call twice."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)
        await self._connection.close()

    async def _run_alone(self, steps: Callable[[Transaction], Steps[T]]) -> T:
        async with self._one_by_one:
            return await self._run_publicly(steps(self._raw))

    async def _run_publicly(self, steps: Steps[T]) -> T:
        try:
            statement = next(steps)
            while True:
                try:
                    result = await self._execute_publicly(statement)
                except Exception as error:  # noqa: BLE001 - the steps decide what an error means
                    statement = steps.throw(error)
                else:
                    statement = steps.send(result)
        except StopIteration as stop:
            return cast("T", stop.value)

    async def _execute_publicly(self, statement: Statement) -> Result:
        if statement.many:
            cursor = await self._connection.executemany(statement.sql, statement.params)
        else:
            cursor = await self._connection.execute(statement.sql, statement.params)
        async with cursor:
            rows = [tuple(row) for row in await cursor.fetchall()] if statement.fetch else []
            return Result(len(rows) if statement.fetch else cursor.rowcount, rows)


def _one(statement: Statement) -> Steps[list[Row]]:
    return (yield statement).rows


def _execute(raw: sqlite3.Connection, statement: Statement) -> Result:
    cursor = (raw.executemany if statement.many else raw.execute)(statement.sql, statement.params)
    if not statement.fetch:
        return Result(cursor.rowcount, [])
    rows = cursor.fetchall()
    return Result(len(rows), rows)


def _drive(raw: sqlite3.Connection, make: Callable[[Transaction], Steps[T]]) -> T:
    steps = make(raw)
    try:
        statement = next(steps)
        while True:
            try:
                result = _execute(raw, statement)
            except Exception as error:  # noqa: BLE001 - the steps decide what an error means
                statement = steps.throw(error)
            else:
                statement = steps.send(result)
    except StopIteration as stop:
        return cast("T", stop.value)


_BatchCall: TypeAlias = Callable[..., Awaitable[Any]]


async def find_batch_call(connection: aiosqlite.Connection) -> _BatchCall | None:
    """The driver's entry that runs one function in its thread, or None where it is gone or behaves otherwise.

    `Connection._execute` is private. It saves a thread hop (40 to 60 µs) per statement; without it all still works.
    """
    call = cast("_BatchCall | None", getattr(connection, "_execute", None))
    try:
        return call if call is not None and await call(divmod, 17, 5) == (3, 2) else None
    except Exception:  # noqa: BLE001 - any failure means: not what we know, so use the public calls
        return None


class Writer:
    """The only way to write. Units that wait together share one commit."""

    def __init__(self, connection: Connection, faults: Faults = NO_FAULTS) -> None:
        self.connection = connection
        self._faults = faults
        self._waiting: list[tuple[Unit, asyncio.Future[list[Result]]]] = []
        self._flush: asyncio.Task[None] | None = None
        self._closed = False

    async def write(self, unit: Unit) -> list[Result]:
        """Run the unit as one transaction. On return it is on disk, and the results are those of its statements.

        StoreFailure, or what a statement's `error` made: nothing of the unit was written. CommitUnknown: it may have
        been kept. A cancelled caller may find the unit written.
        """
        if self._closed:
            raise failure("closed")
        future: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, future))
        if self._flush is None or self._flush.done():
            self._flush = asyncio.create_task(self._drain(), name="store flush")
        return await future

    async def aclose(self) -> None:
        """Write what waits, take nothing new, close the connection."""
        self._closed = True
        if self._flush is not None:
            await asyncio.wait([self._flush])
        await self.connection.close()

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            units = [unit for unit, _ in batch]
            try:
                outcomes = await self.connection.run(lambda raw, units=units: commit_together(units, self._faults, raw))
            except BaseException as error:
                _settle_all(batch, _unknown(error) if isinstance(error, Exception) else _unknown(RuntimeError("cut")))
                if isinstance(error, Exception):
                    continue  # the driver's own failure; it was told to everybody whom it concerns
                _settle_all(self._waiting, failure("closed"))
                self._waiting = []
                raise
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                _settle(
                    future, while_running(self.connection.path, outcome) if isinstance(outcome, Exception) else outcome
                )


def _settle(future: asyncio.Future[list[Result]], outcome: Outcome) -> None:
    if future.done():
        return  # the waiter was cancelled
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _settle_all(batch: Sequence[tuple[Unit, asyncio.Future[list[Result]]]], error: Exception) -> None:
    for _, future in batch:
        _settle(future, error)
