"""A process that saves and says so, for tests that kill it or take its disk away.

Prints one line per acknowledged save, `session sequence`, and `failed <kind>` for one that was refused. Modes:

`point <name> <n>`   SIGKILL itself when the n-th time reaching a fault point
`endless`            save until it is killed
`limit <bytes>`      no file may grow beyond so many bytes; lifted when a line arrives on stdin
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import traceback
from dataclasses import replace

from runtime.errors import StoreFailure
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol import Checkpoint, ContextDelta, ToolResult, events
from runtime.store.sqlite import SqliteStore

SESSIONS = 6


class KillAt:
    """Kills the process at the n-th passing of a point."""

    def __init__(self, point: str, passing: int) -> None:
        self.point, self.left = point, passing

    def reach(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def say(line: str) -> None:
    """Write a line at once: a killed process flushes nothing."""
    os.write(1, f"{line}\n".encode())


def step(checkpoint: Checkpoint) -> tuple[Checkpoint, ContextDelta]:
    """The next save of a session: one item and one event each."""
    number = checkpoint.sequence + 1
    item = ToolResult(call_id=f"c{number}", name="t", output="x" * 2000)
    delta = ContextDelta(epoch=0, start=len(checkpoint.context), items=(item,))
    after = replace(checkpoint, sequence=number, context=checkpoint.context.append((item,)), title=str(number))
    return after, delta


async def session(store: SqliteStore, name: str, steps: int | None) -> None:
    """Save one session again and again."""
    checkpoint = await store.load(name) or Checkpoint.empty(name)
    while steps is None or checkpoint.sequence < steps:
        after, delta = step(checkpoint)
        try:
            await store.save(after, delta, events=[events.Warning(message=str(after.sequence))])
        except StoreFailure as failure:
            say(f"failed {failure.kind}")
            return
        checkpoint = after
        say(f"{name} {checkpoint.sequence}")


async def sessions(path: str, steps: int | None, faults: Faults = NO_FAULTS) -> None:
    """Save several sessions at once, so that they share commits."""
    store = await SqliteStore.open(path, faults=faults)
    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(session(store, f"s{number}", steps))
    await store.aclose()


async def limited(path: str, size: int) -> None:
    """Run into the limit, then go on once it is lifted."""
    store = await SqliteStore.open(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(session(store, f"s{number}", None))
    say("full")
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for number in range(SESSIONS):
        loaded = await store.load(f"s{number}")
        await session(store, f"s{number}", (loaded.sequence if loaded else 0) + 2)
    await store.aclose()
    say("end")


def main() -> None:
    """Run the mode that the arguments name."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path, mode, *rest = sys.argv[1:]
    try:
        run(path, mode, rest)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # the database's threads would keep a process that failed


def run(path: str, mode: str, rest: list[str]) -> None:
    """One of the modes."""
    match mode:
        case "point":
            asyncio.run(sessions(path, 40, KillAt(rest[0], int(rest[1]))))
        case "endless":
            asyncio.run(sessions(path, None))
        case "limit":
            asyncio.run(limited(path, int(rest[0])))
        case _:
            raise SystemExit(f"unknown mode {mode!r}")


if __name__ == "__main__":
    main()
