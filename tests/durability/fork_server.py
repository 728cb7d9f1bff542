"""Imports once, then forks a child for each conversation that a crash test wants: a line of JSON in, a line out.

In:  {"folder", "scenario", "point", "nth"} to go on until the point kills the process, or to the end without one.
Out: {"killed", "passed": [every point in its order], "problems": [...], "error"}.

A life of the kill soak has {"folder", "life", "seed", "limit"} instead (see `soak`), and {"signal", "after", "delay"}
if it is to be ended from outside: so many seconds after so many acknowledgements.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from runtime.store import SqliteStore
from tests.durability.scenarios import SESSION, Conversation, problems
from tests.durability.soak import run_life


class KillAt:
    """Counts the points, and ends the process at one of them, as `kill -9` would."""

    def __init__(self, point: str | None, nth: int) -> None:
        self.passed: list[str] = []
        self._point, self._nth = point, nth

    def reach(self, point: str) -> None:
        """Count it; die if it is the one."""
        self.passed.append(point)
        if point == self._point and self.passed.count(point) == self._nth:
            os.kill(os.getpid(), signal.SIGKILL)


async def run(job: dict[str, Any], faults: KillAt) -> list[str]:
    """Go on with the conversation; without a kill, start once more afterwards and see that nothing happens."""
    folder = Path(job["folder"])
    store = await SqliteStore.open(folder / "sessions.db", faults=faults)
    try:
        await Conversation(job["scenario"], store, folder, faults).go_on()
        found = await problems(Conversation(job["scenario"], store, folder))
        before = await state(store)
        again = Conversation(job["scenario"], store, folder)
        await again.go_on()
        if await state(store) != before:
            found.append("a second restart changed something")
        return found
    finally:
        await store.aclose()


async def state(store: SqliteStore) -> tuple[Any, ...]:
    """Everything that a restart could have changed."""
    page = await store.event_page(SESSION, after=0, limit=100_000)
    return await store.load(SESSION), page.events


def child(job: dict[str, Any], result: Path, acknowledgements: int) -> None:
    """The forked process: its own loop, its own database connections."""
    answer: dict[str, Any] = {"problems": [], "error": None}
    try:
        answer |= run_life(job, acknowledgements) if "life" in job else run_scenario(job)
    except BaseException:
        answer["error"] = traceback.format_exc()
    result.write_text(json.dumps(answer))


def run_scenario(job: dict[str, Any]) -> dict[str, Any]:
    """Go on with a conversation until its point kills the process, or to the end."""
    faults = KillAt(job["point"], job["nth"])
    found = asyncio.run(asyncio.wait_for(run(job, faults), 90))
    return {"problems": found, "passed": faults.passed}


def send_signal(job: dict[str, Any], pid: int, acknowledgements: int) -> None:
    """End the process at the moment that the job names, unless it has ended by itself."""
    process = os.pidfd_open(pid)
    try:
        missing = job["after"]
        while missing > 0:
            ready, _, _ = select.select([process, acknowledgements], [], [])
            if process in ready:
                return
            missing -= len(os.read(acknowledgements, missing))
        if not select.select([process], [], [], job["delay"])[0]:
            signal.pidfd_send_signal(process, job["signal"])
    finally:
        os.close(process)


def answer_to(job: dict[str, Any]) -> dict[str, Any]:
    """What became of the child that has the job."""
    result = Path(job["folder"]) / "result.json"
    result.unlink(missing_ok=True)
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(job, result, tells)
        os._exit(0)
    os.close(tells)
    if "signal" in job:
        send_signal(job, pid, told)
    _, status = os.waitpid(pid, 0)
    os.close(told)
    if os.WIFSIGNALED(status):
        return {"killed": os.WTERMSIG(status), "passed": [], "problems": [], "error": None}
    return {"killed": None, "passed": [], **json.loads(result.read_text())}


def main() -> None:
    """One job after the other, until the input ends. A child that crashes by itself says where."""
    faulthandler.enable()
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
