"""Time, chance, the environment and other programs come in at a few named places and nowhere else."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import offences, uses_of

STARTS_PROGRAMS = (
    "subprocess",
    "subprocess.*",
    "asyncio.create_subprocess_*",
    "asyncio.subprocess",
    "asyncio.subprocess.*",
    "?.subprocess_exec",
    "?.subprocess_shell",
    "os.exec*",
    "os.spawn*",
    "os.posix_spawn*",
    "os.system",
    "os.popen",
    "os.fork*",
    "pty",
    "pty.*",
    "multiprocessing",
    "multiprocessing.*",
    "concurrent.futures.ProcessPoolExecutor",
    "concurrent.futures.process*",
    "runpy",
    "runpy.*",
    "builtins.exec",
    "builtins.eval",
    "builtins.__import__",
)

READS_CLOCK_OR_CHANCE = (
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.localtime",
    "time.gmtime",
    "time.sleep",
    "asyncio.sleep",
    # `random.Random` may be named, as the type of a source that is handed in, but not made without a seed.
    "random.[!R]*",
    "random.Random()",
    "secrets.token_*",
    "secrets.choice",
    "secrets.rand*",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid.uuid6",
    "uuid.uuid7",
    "os.urandom",
    "os.getrandom",
)

READS_ENVIRONMENT = ("os.environ", "os.environ.*", "os.environb*", "os.getenv*")

# Path of the module, and why it has to. A module that no longer needs its line fails the test too.
MAY_START_PROGRAMS: dict[str, str] = {
    "gateway/trial/child.py": "the trial starts the real gateway, so that it can be killed",
    "runtime/tools/sandbox/launcher.py": "the one launcher of programs that an agent runs, all shut in",
}
MAY_READ_CLOCK_OR_CHANCE: dict[str, str] = {
    "runtime/clock.py": "the one system clock, handed to everybody else",
    "runtime/testing.py": "the fake clock lets other tasks have their turn; no time passes",
    "runtime/config.py": "the default source of ids, replaced by tests like the clock",
    "runtime/store/sqlite.py": "the default source of the ids of owners and saves",
    "adapters/discord/connection.py": "lets the client's handlers of the last frames have their turn; no time passes",
    "adapters/emulators/clock.py": "the platforms' own clock, real in `pilothouse try` and by hand in tests",
}
MAY_READ_ENVIRONMENT: dict[str, str] = {}


def test_programs_are_started_in_named_modules_only() -> None:
    """Only the listed modules can start another program or run text as code, so that one gate covers them all."""
    assert offences(STARTS_PROGRAMS, MAY_START_PROGRAMS, "runtime", "adapters", "gateway") == []


def test_clock_and_chance_are_passed_in() -> None:
    """Below `gateway` nothing reads a clock, sleeps or draws a random number but the listed modules."""
    assert offences(READS_CLOCK_OR_CHANCE, MAY_READ_CLOCK_OR_CHANCE, "runtime", "adapters") == []


def test_environment_is_passed_in() -> None:
    """Below `gateway` nothing reads environment variables but the listed modules."""
    assert offences(READS_ENVIRONMENT, MAY_READ_ENVIRONMENT, "runtime", "adapters") == []


SPELLINGS = [
    ("import subprocess as sp\nsp.run([])", STARTS_PROGRAMS),
    ("from asyncio import create_subprocess_exec as go\nasync def f(): await go('x')", STARTS_PROGRAMS),
    ("import asyncio.subprocess", STARTS_PROGRAMS),
    ("def f():\n    from os import execvp\n    execvp('x', [])", STARTS_PROGRAMS),
    ("import os\nrun = os.posix_spawnp", STARTS_PROGRAMS),
    ("async def f(loop): await loop.subprocess_shell(None, 'x')", STARTS_PROGRAMS),
    ("exec('1')", STARTS_PROGRAMS),
    ("from datetime import datetime, UTC\ndatetime.now(UTC)", READS_CLOCK_OR_CHANCE),
    ("import datetime as dt\ndt.datetime.utcnow()", READS_CLOCK_OR_CHANCE),
    ("from time import monotonic as m\nm()", READS_CLOCK_OR_CHANCE),
    ("import asyncio\nasync def f(): await asyncio.sleep(1)", READS_CLOCK_OR_CHANCE),
    ("from random import random", READS_CLOCK_OR_CHANCE),
    ("import random as r\nr.shuffle([])", READS_CLOCK_OR_CHANCE),
    ("from random import Random\nsource = Random()", READS_CLOCK_OR_CHANCE),
    ("from random import SystemRandom", READS_CLOCK_OR_CHANCE),
    ("import uuid\nfactory = uuid.uuid4", READS_CLOCK_OR_CHANCE),
    ("import secrets\nsecrets.token_hex()", READS_CLOCK_OR_CHANCE),
    ("import os\nos.environ.get('HOME')", READS_ENVIRONMENT),
    ("from os import getenv", READS_ENVIRONMENT),
]


@pytest.mark.parametrize(("source", "patterns"), SPELLINGS)
def test_every_spelling_is_seen(source: str, patterns: tuple[str, ...]) -> None:
    """An import under another name, inside a function, or a name that is only mentioned does not hide a use."""
    assert uses_of(patterns, ast.parse(source))


INNOCENT = """
import os, secrets, asyncio
from datetime import datetime, timedelta
from random import Random
from runtime.clock import Clock
async def f(clock: Clock, chance: Random, executor, left: bytes, right: bytes):
    await clock.sleep(1)
    executor.exec(datetime.fromtimestamp(clock.now_ms() / 1000))
    secrets.compare_digest(left, right)
    async with asyncio.timeout(1):
        os.path.exists("x")
"""


def test_innocent_code_passes() -> None:
    """A clock that was passed in, comparing in constant time and building an instant are no offence."""
    tree = ast.parse(INNOCENT)
    for patterns in (STARTS_PROGRAMS, READS_CLOCK_OR_CHANCE, READS_ENVIRONMENT):
        assert uses_of(patterns, tree) == []
