"""The real gateway as a process that may kill itself at a named point: `gateway_process.py CONFIG`.

`KILL_AT=point:n` in the environment kills it with SIGKILL when it passes the point for the n-th time. Which points it
passed is appended to the file in `POINTS_FILE`, if there is one, before the kill can happen. With `CAUTIOUS` its
sessions recover by the library's options, which give up what a restart interrupted, and not by the gateway's, which go
on. With `CARELESS` its store tells a commit before it is on disk.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.config import AgentConfig
    from runtime.store.writer import Connection


class KillAt:
    """Counts points, and dies at one of them."""

    def __init__(self, target: str, log: Path | None) -> None:
        self.point, _, nth = target.rpartition(":")
        self.nth = int(nth) if nth else 0
        self.log = log
        self.passed: Counter[str] = Counter()

    def reach(self, point: str) -> None:
        """Note the point; die if it is the one."""
        self.passed[point] += 1
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{point}\n")
        if point == self.point and self.passed[point] == self.nth:
            os.kill(os.getpid(), signal.SIGKILL)


def be_cautious() -> None:
    """Let every session that the gateway opens recover as the library does by itself."""
    from gateway.agents import Agents

    going_on = Agents.config_for

    async def cautious(self: Agents, session_id: str) -> AgentConfig:
        config = await going_on(self, session_id)
        return replace(config, on_interrupted_step="abort", on_uncertain_tools="abort")

    Agents.config_for = cautious  # type: ignore[method-assign]


def be_careless() -> None:
    """Let the store open its file with `synchronous=NORMAL`: for the control run of a test of power losses."""
    from runtime.store import opening

    setting = opening._set

    async def careless(connection: Connection, path: Path, pragma: str, value: str, expected: int) -> None:
        if pragma == "synchronous":
            value, expected = "NORMAL", 1
        await setting(connection, path, pragma, value, expected)

    opening._set = careless


def main() -> int:
    from gateway.service import run_service

    os.umask(0o077)
    if os.environ.get("CAUTIOUS"):
        be_cautious()
    if os.environ.get("CARELESS"):
        be_careless()
    log = os.environ.get("POINTS_FILE")
    faults = KillAt(os.environ.get("KILL_AT", ":0"), Path(log) if log else None)
    return run_service(Path(sys.argv[1]), os.environ, faults=faults)


if __name__ == "__main__":
    sys.exit(main())
