"""Fifty chats under traffic in a process that is killed again and again, at any instant: nothing promised is lost.

Unlike the sweep, which kills at named points, the kernel kills here, wherever the process happens to be, also within a
start or a recovery. What comes in, who answers and when it ends is drawn from the printed seed; where exactly a kill
falls is the machine's own.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.durability.scenarios import lines
from tests.durability.test_crash_sweep import ForkServers

SEED = 20_270_115
KINDS = ("traffic", "traffic", "traffic", "start", "start", "stop")


@pytest.fixture
def server() -> Iterator[ForkServers]:
    """One process that has imported everything."""
    opened = ForkServers(1)
    yield opened
    opened.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; in memory where that is possible, since a kill needs no disk to lose nothing."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="soak-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


def drawn(random: Random, kills: int) -> list[str]:
    """How each life ends; the first and the last that is killed are under traffic."""
    ends = ["traffic"]
    while sum(end != "stop" for end in ends) < kills - 1:
        ends.append(random.choice(KINDS))
    return [*ends, "traffic"]


def soak(server: ForkServers, folder: Path, *, seed: int, messages: int, kills: int, longest: float) -> None:
    """Kill so often while so many messages are said, each time at most `longest` seconds after what it waits for."""
    print(f"kill soak: seed {seed}")
    random = Random(f"{seed}:lives")
    ends = drawn(random, kills)
    traffic = sum(end != "start" for end in ends) + 1
    ended: Counter[str] = Counter()
    limit = 0
    for end in ends:
        if end != "start":
            limit = max(limit + 1, messages * (ended["traffic"] + ended["stop"] + 1) // traffic)
        job: dict[str, Any] = {"folder": str(folder), "life": "goes on", "seed": seed, "limit": limit}
        job["signal"] = signal.SIGTERM if end == "stop" else signal.SIGKILL
        before = len(lines(folder / "acknowledged.log"))
        said = before + len(lines(folder / "refused.log"))
        job["after"] = 0 if end == "start" else random.randint(1, max(1, limit - said - 1))
        job["delay"] = random.uniform(0, longest)
        answer = server.ask(job)
        assert answer["error"] is None, answer["error"]
        assert answer["killed"] == (None if end == "stop" else signal.SIGKILL), (end, answer)
        acknowledged = len(lines(folder / "acknowledged.log")) - before
        assert end == "start" or acknowledged > 0, f"seed {seed}: life {ended.total()} acknowledged nothing"
        ended[end] += 1
    check(server, folder, seed=seed, messages=messages, ended=ended)


def check(server: ForkServers, folder: Path, *, seed: int, messages: int, ended: Counter[str]) -> None:
    """Let everything come to its end, start again, and look at what was promised."""
    job = {"folder": str(folder), "life": "drain", "seed": seed, "limit": messages}
    drained = server.ask(job)
    assert drained["error"] is None, drained["error"]
    answer = server.ask({**job, "life": "again"})
    assert answer["error"] is None, answer["error"]
    assert answer["problems"] == [], f"seed {seed}: {answer['problems'][:20]}"
    counts = answer["counts"]
    acknowledged, refused = (len(set(lines(folder / f"{name}.log"))) for name in ("acknowledged", "refused"))
    assert acknowledged + refused == messages
    figures = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    print(
        f"kill soak: seed {seed}, {messages} messages, {acknowledged} acknowledged, {refused} refused; "
        f"killed {ended['traffic']} times under traffic and {ended['start']} times at the start, "
        f"stopped {ended['stop']} times; {figures}"
    )
    assert ended["start"] > 0
    assert ended["stop"] > 0
    for name in ("delivered", "removed", "rejected", "recovered", "effects", "approvals", "calls completed"):
        assert counts.get(name, 0) > 0, f"nothing was {name}: the soak shows less than it says"


@pytest.mark.timeout(400)  # half a minute alone; the machine may be shared
def test_a_short_soak(server: ForkServers, folder: Path) -> None:
    """Every acknowledged message ends once, no tool runs twice, a request is decided once, and then all is quiet."""
    soak(server, folder, seed=SEED, messages=1000, kills=16, longest=0.3)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_long_soak(server: ForkServers, folder: Path) -> None:
    """The same over 10,000 messages and 200 kills."""
    soak(server, folder, seed=SEED, messages=10_000, kills=200, longest=1.8)
