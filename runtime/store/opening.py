"""Connections as the store needs them: set up, and verified, because a pragma that did not hold fails silently."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from runtime.clock import Clock
from runtime.errors import ConfigurationError
from runtime.store.failures import kind_of, translate
from runtime.store.writer import Connection

PAGE_SIZE = 1024
WAL_PAGES = 1000
"""Pages in the log after which the writer moves them into the database."""
WAL_SIZE_LIMIT = 64 * 1024 * 1024
"""The log file is cut to this many bytes whenever it starts again from its beginning."""

_FULL = 2
_BUSY_TRIES = 100


async def open_writer(path: Path, *, busy_timeout_ms: int, clock: Clock) -> Connection:
    """The one connection that writes and checkpoints. Each commit is synced before it is told (`synchronous=FULL`).

    ConfigurationError where the database does not keep a setting on which durability rests.
    """
    connection = await Connection.open(path, busy_timeout_ms=busy_timeout_ms)
    try:
        await connection.read(f"PRAGMA page_size = {PAGE_SIZE}")
        await _enter_wal(connection, path, clock)
        await _set(connection, path, "synchronous", "FULL", _FULL)
        await _set(connection, path, "foreign_keys", "ON", 1)
        await _set(connection, path, "busy_timeout", str(busy_timeout_ms), busy_timeout_ms)
        await _set(connection, path, "temp_store", "MEMORY", 2)
        await _set(connection, path, "wal_autocheckpoint", str(WAL_PAGES), WAL_PAGES)
        await _set(connection, path, "journal_size_limit", str(WAL_SIZE_LIMIT), WAL_SIZE_LIMIT)
    except BaseException:
        await connection.close()
        raise
    return connection


async def open_reader(path: Path, *, busy_timeout_ms: int) -> Connection:
    """A connection that can neither write nor checkpoint."""
    connection = await Connection.open(path, busy_timeout_ms=busy_timeout_ms)
    try:
        await _set(connection, path, "busy_timeout", str(busy_timeout_ms), busy_timeout_ms)
        await _set(connection, path, "temp_store", "MEMORY", 2)
        await _set(connection, path, "wal_autocheckpoint", "0", 0)
        await _set(connection, path, "query_only", "ON", 1)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _set(connection: Connection, path: Path, pragma: str, value: str, expected: int) -> None:
    await connection.read(f"PRAGMA {pragma} = {value}")
    found = await connection.read(f"PRAGMA {pragma}")
    if not found or found[0][0] != expected:
        raise ConfigurationError(
            f"the database {path} does not keep the setting {pragma}={value} (it says {found}); "
            "nothing is safe on it: use another SQLite library or another file system"
        )


async def _enter_wal(connection: Connection, path: Path, clock: Clock) -> None:
    """Two programs that open a fresh file at once: SQLite refuses one of them without waiting, so it tries again."""
    for _ in range(_BUSY_TRIES):
        try:
            found = await connection.read("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            if kind_of(error) != "busy":
                raise translate(error) from error
            await clock.sleep(0.05)
            continue
        if found[0][0] != "wal":
            raise ConfigurationError(
                f"the database {path} cannot use a write-ahead log (it says {found[0][0]!r}); "
                "put it on a local file system"
            )
        return
    raise ConfigurationError(f"the database {path} is locked by another program; stop it and try again")
