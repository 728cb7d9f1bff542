"""Durable rows per second, by the number of writers that wait: the store beside plain sqlite3 with the same grouping.

Run `python benchmarks/store.py [seconds]`. Nothing is asserted: the numbers are those of this machine and this minute,
so each pair is measured in turn. "plain" is one connection that commits as many 1 KB rows as there are writers at once,
which is what the disk and SQLite allow; "units" are rows written through the store's shared commit; "saves" are whole
checkpoints with an item and an event each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from runtime.protocol import Checkpoint, ContextDelta, UserMessage, events
from runtime.store.sqlite import SqliteStore
from runtime.store.writer import Statement

PAYLOAD = "x" * 1024
WRITERS = (1, 2, 8, 32, 128)
TABLE = "CREATE TABLE rows (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)"
INSERT = "INSERT INTO rows (payload) VALUES (?)"


def plain(folder: Path, writers: int, seconds: float) -> float:
    """Rows per second of one sqlite3 connection, WAL and FULL, `writers` rows a commit."""
    connection = sqlite3.connect(folder / f"plain{writers}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(TABLE)
    rows, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(writers):
            connection.execute(INSERT, (PAYLOAD,))
        connection.execute("COMMIT")
        rows += writers
    took = time.perf_counter() - begun
    connection.close()
    return rows / took


async def at_once(writers: int, seconds: float, write: Callable[[int], Awaitable[None]]) -> float:
    """Calls per second of `write`, with so many callers."""
    count, begun = 0, time.perf_counter()

    async def one(number: int) -> None:
        nonlocal count
        while time.perf_counter() - begun < seconds:
            await write(number)
            count += 1

    await asyncio.gather(*(one(number) for number in range(writers)))
    return count / (time.perf_counter() - begun)


async def units(folder: Path, writers: int, seconds: float) -> float:
    """Rows per second through the shared commit."""
    store = await SqliteStore.open(folder / f"units{writers}.db")
    await store.database.write([Statement(TABLE)])

    async def write(_: int) -> None:
        await store.database.write([Statement(INSERT, (PAYLOAD,), 1)])

    try:
        return await at_once(writers, seconds, write)
    finally:
        await store.aclose()


async def saves(folder: Path, writers: int, seconds: float) -> float:
    """Checkpoints per second, each with one context item and one event."""
    store = await SqliteStore.open(folder / f"saves{writers}.db")
    sessions = [Checkpoint.empty(f"session-{number}") for number in range(writers)]

    async def write(number: int) -> None:
        before = sessions[number]
        item = UserMessage(id=str(before.sequence), author="ada", text=PAYLOAD[:500])
        delta = ContextDelta(epoch=0, start=len(before.context), items=(item,))
        after = replace(before, sequence=before.sequence + 1, context=before.context.append(delta.items))
        await store.save(after, delta, events=[events.Warning(message="saved")])
        sessions[number] = after

    try:
        return await at_once(writers, seconds, write)
    finally:
        await store.aclose()


def main() -> None:
    """Print one line per number of writers."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(f"{'writers':>8} {'plain':>10} {'units':>10} {'saves':>10}   per second")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        for writers in WRITERS:
            raw = plain(folder, writers, seconds)
            shared = asyncio.run(units(folder, writers, seconds))
            whole = asyncio.run(saves(folder, writers, seconds))
            print(f"{writers:>8} {raw:>10.0f} {shared:>10.0f} {whole:>10.0f}")


if __name__ == "__main__":
    main()
