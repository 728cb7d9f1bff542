"""`kill -9` at every named point of the runtime, at its first, second and third passing, in every kind of turn.

After each kill the process is started again and goes on to the end; then everything that was promised must hold, and a
second restart must do nothing at all.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from runtime.faults import POINTS
from tests.durability.scenarios import SCENARIOS, lines

pytestmark = pytest.mark.timeout(400)  # half a minute alone; the machine may be shared

ROOT = Path(__file__).parents[2]
PASSINGS = 3
SERVERS = 2


class ForkServers:
    """Processes that have imported everything, and fork a child per job."""

    def __init__(self, number: int) -> None:
        command = [sys.executable, "-m", "tests.durability.fork_server"]
        self._all = [
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(number)
        ]
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        for server in self._all:
            self._free.put(server)

    def run(self, folder: Path, scenario: str, point: str | None = None, nth: int = 0) -> dict[str, Any]:
        """Go on with the conversation in the folder, until the kill or to the end."""
        return self.ask({"folder": str(folder), "scenario": scenario, "point": point, "nth": nth})

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Hand a job to a server that is free, and wait for its answer."""
        server = self._free.get()
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            print(json.dumps(job), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())
        finally:
            self._free.put(server)

    def close(self) -> None:
        """End them; their children have ended."""
        for server in self._all:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(timeout=60)
            assert server.stdout is not None
            server.stdout.close()


@pytest.fixture(scope="module")
def servers() -> Iterator[ForkServers]:
    opened = ForkServers(SERVERS)
    yield opened
    opened.close()


@pytest.fixture
def folders() -> Iterator[Any]:
    """A maker of empty folders; in memory where that is possible, since a kill needs no disk to lose nothing."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="sweep-", dir=memory if memory.is_dir() else None))
    yield lambda: Path(tempfile.mkdtemp(dir=root))
    shutil.rmtree(root)


def test_every_point_in_every_kind_of_turn(servers: ForkServers, folders: Any) -> None:
    """No kill loses or doubles anything; every point of the registry is reached; every round acknowledged something."""
    with ThreadPoolExecutor(SERVERS) as pool:
        whole = dict(zip(SCENARIOS, pool.map(lambda name: servers.run(folders(), name), SCENARIOS), strict=True))
        for name, answer in whole.items():
            assert (answer["error"], answer["problems"]) == (None, []), name
        reached: Counter[str] = Counter()
        for answer in whole.values():
            reached.update(answer["passed"])
        assert set(POINTS) - set(reached) == set(), "points that no scenario reaches"
        kills = [kill for name, answer in whole.items() for kill in kills_of(name, answer["passed"])]
        assert {point for _, point, _ in kills} == set(POINTS)
        failures = [failure for failure in pool.map(lambda kill: sweep(servers, folders(), *kill), kills) if failure]
    print(f"crash sweep: {len(kills)} kills at {len(reached)} points in {len(SCENARIOS)} kinds of turn")
    assert failures == []


def kills_of(name: str, passed: list[str]) -> Iterator[tuple[str, str, int]]:
    """Every point at its first passings, but each instant once: a commit that holds two things has two names for it."""
    seen: Counter[str] = Counter()
    before = ""
    for point in passed:
        seen[point] += 1
        same_instant = point.startswith("agent.") and before.startswith("agent.") and point[-5:] == before[-5:]
        within_commit = point.startswith("store.") and name not in ("plain", "approval")
        before = point
        if seen[point] <= PASSINGS and not (same_instant and seen[point] > 1) and not within_commit:
            yield name, point, seen[point]


def sweep(servers: ForkServers, folder: Path, name: str, point: str, nth: int) -> str | None:
    """Kill at the point, go on to the end; what went wrong, or None."""
    killed = servers.run(folder, name, point, nth)
    if killed["killed"] != signal.SIGKILL:
        return f"{name}: {point} was not reached {nth} times: {killed}"
    answer = servers.run(folder, name)
    if answer["error"] or answer["problems"] or not lines(folder / "acknowledged.log"):
        return f"{name}, killed at {point} ({nth}): {answer['error'] or answer['problems'] or 'nothing acknowledged'}"
    shutil.rmtree(folder)
    return None


AGAIN = ("agent.start.before", "agent.start.after", "store.before_commit", "store.after_commit", "agent.step.after")


@pytest.mark.parametrize("name", ["tool", "by_key", "approval", "steer", "interrupt", "loop"])
def test_a_kill_during_recovery(servers: ForkServers, folders: Any, name: str) -> None:
    """A second kill, while the first is being recovered from, changes nothing of the promise."""
    first = ["agent.step.after", "model.call.after", "agent.tool.after", "tool.run.after", "agent.decision.after"]
    rounds = 0
    with ThreadPoolExecutor(SERVERS) as pool:

        def twice(points: tuple[str, str]) -> str | None:
            folder = folders()
            if servers.run(folder, name, points[0], 1)["killed"] is None:
                return "not reached"
            if servers.run(folder, name, points[1], 1)["killed"] is None:
                return "not reached"
            answer = servers.run(folder, name)
            return answer["error"] or (f"{points}: {answer['problems']}" if answer["problems"] else None)

        for outcome in pool.map(twice, [(one, two) for one in first for two in AGAIN]):
            assert outcome in (None, "not reached"), outcome
            rounds += outcome is None
    print(f"kills during recovery: {rounds} rounds of {name}")
    assert rounds >= 3


def test_a_turn_that_kills_the_program_three_times_is_given_up(servers: ForkServers, folders: Any) -> None:
    """Three real kills in the same model call: the turn fails in words, and what had queued behind it is answered."""
    folder = folders()
    for _ in range(3):
        assert servers.run(folder, "plain", "model.call.before", 1)["killed"] == signal.SIGKILL
    answer = servers.run(folder, "plain")
    assert answer["error"] is None
    (problem,) = answer["problems"]
    assert "1 turns were not answered" in problem
    assert "outcome='failed'" in problem
    assert len(lines(folder / "model.log")) == 0


@pytest.mark.parametrize("kills", [1, 2])
def test_progress_between_two_crashes_starts_the_count_again(servers: ForkServers, folders: Any, kills: int) -> None:
    """Up to twice before the first answer, and as often after it: the turn is answered all the same."""
    folder = folders()
    for nth in (1, 2):
        for _ in range(kills):
            answer = servers.run(folder, "tool", "model.call.before", nth if not lines(folder / "effects.log") else 1)
            assert answer["killed"] == signal.SIGKILL
    answer = servers.run(folder, "tool")
    assert (answer["error"], answer["problems"]) == (None, [])
