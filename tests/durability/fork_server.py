"""Imports once, then forks a child for each conversation that a crash test wants: a line of JSON in, a line out.

In:  {"folder", "scenario", "point", "nth"} to go on until the point kills the process, or to the end without one.
Out: {"killed", "passed": [every point in its order], "problems": [...], "error"}.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from runtime.store import SqliteStore
from tests.durability.scenarios import SESSION, Conversation, problems


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


def child(job: dict[str, Any], result: Path) -> None:
    """The forked process: its own loop, its own database connections."""
    faults = KillAt(job["point"], job["nth"])
    answer: dict[str, Any] = {"problems": [], "error": None}
    try:
        answer["problems"] = asyncio.run(asyncio.wait_for(run(job, faults), 30))
    except BaseException:
        answer["error"] = traceback.format_exc()
    answer["passed"] = faults.passed
    result.write_text(json.dumps(answer))


def main() -> None:
    """One job after the other, until the input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        result = Path(job["folder"]) / "result.json"
        result.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            child(job, result)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            answer = {"killed": os.WTERMSIG(status), "passed": [], "problems": [], "error": None}
        else:
            answer = {"killed": None, **json.loads(result.read_text())}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
