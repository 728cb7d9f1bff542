"""The whole gateway from outside: `python benchmarks/gateway.py`.

A Telegram emulator and an instant OpenAI-compatible server on loopback, each a process; the real gateway is a third.
Printed beside the goals: start to the first poll, idle memory, message to reply (plain, and with one tool call), new
chats at once, and CPU per message. Nothing is asserted: machines differ, and this one may be busy.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from adapters.emulators.client import EmulatorClient  # noqa: E402
from adapters.emulators.journal import Entry, EntryKind  # noqa: E402

TOKEN = "42:" + "B" * 35
PEOPLE = list(range(1001, 1041))
WARM = PEOPLE[:10]
FRESH = PEOPLE[20:40]
ROUNDS = 4
GAP_SECONDS = 1.3

CONFIG = """\
[gateway]
state_dir = "state"
http = "127.0.0.1:0"
[telegram]
token = "{token}"
api_base = "{url}"
poll_seconds = 25
[access]
owners = [{owners}]
[[workspaces]]
id = "bench"
path = "workspace"
[approvals]
default = "allow"
[[models]]
name = "instant"
provider = "openai"
model = "instant"
base_url = "{model_url}"
api_key = "none-needed"
"""

SCRIPT: dict[str, Any] = {
    "rules": [
        {
            "contains": "tool please",
            "role": "user",
            "reply": {"calls": [{"id": "c1", "name": "list_files", "arguments": {}}], "piece": 200},
        }
    ],
    "default": {"text": "Here is your answer.", "piece": 200},
}


@dataclass(frozen=True)
class Line:
    """One figure beside its goal."""

    what: str
    measured: str
    goal: str


async def process(*command: str, **options: Any) -> tuple[asyncio.subprocess.Process, str]:
    """Start a process and read its first line."""
    started = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, **options)
    assert started.stdout is not None
    return started, (await started.stdout.readline()).decode().strip()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Bench:
    """Drives the three processes."""

    def __init__(self, platform: EmulatorClient, gateway: asyncio.subprocess.Process) -> None:
        self.platform = platform
        self.pid = gateway.pid

    async def newest(self) -> int:
        """The number of the journal's newest entry."""
        entries = await self.platform.journal()
        return entries[-1].number if entries else 0

    async def exchange(self, person: int, text: str) -> float:
        """Seconds from a message to its answer on the person's screen."""
        after = await self.newest()
        began = time.perf_counter()
        await self.platform.say(person, text)
        await self.platform.wait_for(lambda entry: answers(entry, person), after=after, timeout=30)
        return time.perf_counter() - began

    async def exchanges(self, people: list[int], text: str) -> list[float]:
        """Every person in turn, slowly enough for the platform's own limits."""
        times: list[float] = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            times += [await self.exchange(person, text) for person in people]
            await asyncio.sleep(max(0.0, GAP_SECONDS - (time.perf_counter() - began)))
        return times

    async def burst(self, people: list[int], text: str) -> float:
        """Answers per second when everybody writes at once."""
        after = await self.newest()
        missing = set(people)
        began = time.perf_counter()
        await asyncio.gather(*(self.platform.say(person, text) for person in people))

        def seen(entry: Entry) -> bool:
            missing.difference_update(person for person in list(missing) if answers(entry, person))
            return not missing

        await self.platform.wait_for(seen, after=after, timeout=60)
        return len(people) / (time.perf_counter() - began)


def answers(entry: Entry, person: int) -> bool:
    """Whether the entry is the answer that the person asked for."""
    if entry.kind is not EntryKind.REQUEST or entry.name.lower() != "sendmessage":
        return False
    params = entry.data.get("params", {})
    return int(params.get("chat_id", 0)) == person and "Here is your answer" in str(params.get("text", ""))


async def measure(folder: Path) -> list[Line]:
    """Start everything, measure, end everything."""
    script, workspace = folder / "script.json", folder / "workspace"
    script.write_text(json.dumps(SCRIPT))
    workspace.mkdir()
    people = [argument for person in PEOPLE for argument in ("--user", f"{person}:P{person}")]
    emulator, line = await process(
        sys.executable, "-m", "adapters.emulators", "--platform", "telegram", "--token", TOKEN, *people
    )
    url = json.loads(line)["url"]
    model, model_url = await process(
        sys.executable, "tests/support/model_server.py", "--port", "0", "--script", str(script)
    )
    owners = ", ".join(f'"telegram:{person}"' for person in PEOPLE)
    config = folder / "pilothouse.toml"
    config.write_text(CONFIG.format(token=TOKEN, url=url, model_url=model_url, owners=owners))
    config.chmod(0o600)
    try:
        async with EmulatorClient(url) as platform:
            return await _measured(platform, config, folder)
    finally:
        for each in (model, emulator):
            each.kill()
            await each.wait()


async def _measured(platform: EmulatorClient, config: Path, folder: Path) -> list[Line]:
    began = time.perf_counter()
    with (folder / "gateway.log").open("wb") as log:
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway.cli", "run", "--config", str(config), cwd=ROOT, stdout=log, stderr=log
        )
    try:
        await platform.wait_for(
            lambda entry: entry.kind is EntryKind.REQUEST and entry.name.lower() == "getupdates", timeout=60
        )
        start = time.perf_counter() - began
        bench = Bench(platform, gateway)
        await asyncio.sleep(1.0)
        idle = memory_mb(gateway.pid)
        await bench.exchanges(WARM, "hello")
        cpu = cpu_seconds(gateway.pid)
        plain = await bench.exchanges(WARM, "hello")
        cpu = (cpu_seconds(gateway.pid) - cpu) / len(plain)
        tool = await bench.exchanges(WARM, "tool please")
        burst = await bench.burst(FRESH, "hello")
        return [
            Line("start to first poll (G12)", f"{start:.2f} s", "3.4 s"),
            Line("memory idle (G15)", f"{idle:.0f} MB", "120 MB"),
            Line("message to reply, plain, p50 / p95 (G13)", spread(plain), "50 ms p50"),
            Line("message to reply, one tool call, p50 / p95", spread(tool), ""),
            Line("CPU per message (G13)", f"{cpu * 1000:.1f} ms", "24 ms"),
            Line("20 new chats at once (G14)", f"{burst:.0f} msg/s", "70 msg/s"),
        ]
    finally:
        gateway.terminate()
        await gateway.wait()


def spread(seconds: list[float]) -> str:
    """Median and 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1000:.0f} / {ordered[int(len(ordered) * 0.95)] * 1000:.0f} ms"


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        lines = asyncio.run(measure(Path(folder)))
    for line in lines:
        print(
            f"{line.what:44} {line.measured:>18}   goal {line.goal}"
            if line.goal
            else f"{line.what:44} {line.measured:>18}"
        )


if __name__ == "__main__":
    main()
