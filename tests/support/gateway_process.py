"""The real gateway as a process that may kill itself at a named point: `gateway_process.py CONFIG`, or `--serve`.

`KILL_AT=point:n` in the environment kills it with SIGKILL when it passes the point for the n-th time. Which points it
passed is appended to the file in `POINTS_FILE`, if there is one, before the kill can happen. With `CAUTIOUS` its
sessions recover by the library's options, which give up what a restart interrupted, and not by the gateway's, which go
on. With `CARELESS` its store tells a commit before it is on disk.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

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


def run(config: Path) -> int:
    """Run the gateway as the environment says, to its end."""
    from gateway.service import run_service

    os.umask(0o077)
    if os.environ.get("CAUTIOUS"):
        be_cautious()
    if os.environ.get("CARELESS"):
        be_careless()
    log = os.environ.get("POINTS_FILE")
    faults = KillAt(os.environ.get("KILL_AT", ":0"), Path(log) if log else None)
    return run_service(config, os.environ, faults=faults)


# ------------------------------------------------------------------------------------------------- many, from one start


def serve() -> None:
    """Import once, then fork a gateway for every order on standard input: a line of JSON in, a line out.

    {"platform", "config", "folder", "environment", "log"} is answered with {"pid"}; {"pid"} of one that has died, with
    {"status"} as `subprocess` has it. At the end of the input everything that still runs is killed.
    """
    living: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "config" in order:
            import_for(order["platform"])
            pid = os.fork()
            if pid == 0:
                become(order)
            living.add(pid)
            answer = {"pid": pid}
        else:
            living.discard(order["pid"])
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(order["pid"], 0)[1])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def import_for(platform: str) -> None:
    """Everything that a gateway of that platform imports, as far as it is known beforehand."""
    import gateway.service
    import runtime.store.sqlite
    from adapters.registry import factory_of

    assert gateway.service
    assert runtime.store.sqlite
    factory_of(platform)


def become(order: dict[str, Any]) -> NoReturn:
    """Be that gateway, in a process that was forked for it."""
    status = 70
    try:
        nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for descriptor, stream in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, stream)
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(order["folder"])
        random.seed()
        status = run(Path(order["config"]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        sys.exit(run(Path(sys.argv[1])))
