"""S-47: a program ends within its limits, takes everything it has started along, and is heard only up to a point."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from runtime.errors import ConfigurationError
from runtime.testing import FakeClock
from runtime.tools.sandbox import Ended, Limits, Program, Sandbox
from runtime.tools.sandbox.launcher import TAIL_BYTES
from tests.architecture.sources import ROOT
from tests.security.sandboxes import (
    SHELL,
    WHO,
    Box,
    box_for,
    can_be,
    gone_within,
    interpreter_for,
    processes_of,
    processes_with,
    shape_for,
    workspace_for,
)

# Some tests here look through all processes of the machine: they must not see each other's.
pytestmark = pytest.mark.xdist_group("processes")

MIB = 1024 * 1024
END_SECONDS = 3.0

HOST = Path(__file__).with_name("sandbox_host.py")


@pytest.fixture(params=WHO)
def who(request: pytest.FixtureRequest) -> str:
    """Who starts the sandbox."""
    if not can_be(request.param):
        pytest.skip("only root can try what root's sandbox does")
    return request.param


def lasting(mark: int) -> str:
    """A command that lasts, and can be found among all processes, by this test's process and a mark."""
    return f"sleep 9{os.getpid():07d}{mark:02d}"


def left_of(mark: int) -> list[int]:
    """The processes of that command."""
    return processes_with(lasting(mark).replace(" ", "\0"))


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Return once the condition holds; it is looked at again and again, because nothing tells of it."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_memory(who: str) -> None:
    """An allocation beyond the limit fails inside the program."""
    with box_for(who) as box:
        ended = await box.run("/usr/bin/python3 -c 'bytearray(2 << 30)'")
    assert ended.exit_code == 1
    assert b"MemoryError" in ended.output.head


async def test_memory_without_a_limit(who: str) -> None:
    """Where the limit is lifted, for programs that reserve far more than they use, the same allocation succeeds."""
    with box_for(who, Limits(memory_bytes=None)) as box:
        ended = await box.run("/usr/bin/python3 -c 'import mmap; mmap.mmap(-1, 2 << 30)'")
    assert ended.exit_code == 0, ended.output


async def test_large_file(who: str) -> None:
    """A file grows to the limit and no further, and the program is ended by the kernel."""
    with box_for(who, Limits(file_bytes=4 * MIB)) as box:
        ended = await box.run("exec dd if=/dev/zero of=big bs=1M count=20")
        assert (box.path / "big").stat().st_size == 4 * MIB
    assert ended.exit_code == 128 + signal.SIGXFSZ


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_memory_files_have_a_size(who: str, place: str) -> None:
    """The folders that are memory of the host are full at their limit, whatever the number of files."""
    with box_for(who, Limits(temporary_bytes=4 * MIB)) as box:
        said = await box.says(f"for n in 1 2 3 4 5 6 7 8; do head -c 1M /dev/zero >{place}/$n; done; du -sk {place}")
    assert "No space left on device" in said
    assert int(said.splitlines()[-1].split()[0]) <= 4 * 1024 + 64


async def test_endless_output(who: str) -> None:
    """A program that prints without end is ended, and only the beginning and the end of it were kept."""
    with box_for(who, Limits(output_bytes=1000, flood_bytes=MIB)) as box:
        ended = await box.run("yes")
    assert ended.cut_off == "output"
    assert ended.output.head == b"y\n" * 500
    assert len(ended.output.tail) <= TAIL_BYTES
    assert ended.output.left_out > MIB // 2


async def test_long_output_keeps_both_ends() -> None:
    """Of an output that is only long, the beginning, the end and the number of bytes between them are told."""
    with box_for("ordinary", Limits(output_bytes=100)) as box:
        ended = await box.run("seq 100000; echo the end")
    whole = "".join(f"{n}\n" for n in range(1, 100001)).encode() + b"the end\n"
    output = ended.output
    assert (ended.exit_code, ended.cut_off) == (0, None)
    assert (output.head, output.tail) == (whole[:100], whole[-TAIL_BYTES:])
    assert output.left_out == len(whole) - 100 - TAIL_BYTES


async def test_processor_time(who: str) -> None:
    """A busy loop is ended by the kernel."""
    with box_for(who, Limits(cpu_seconds=1)) as box:
        ended = await box.run("while :; do :; done")
    assert ended.exit_code == 128 + signal.SIGXCPU


FORK = """
import os, time
children = 0
try:
    while children < 500:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        children += 1
except OSError:
    pass
print(children)
"""


BOMB = f"fork{os.getpid()}.py"
"""A name of this test process, so that another run on the same machine is not mistaken for it."""


async def forks(box: Box) -> int:
    """How many processes a program can start."""
    (box.path / BOMB).write_text(FORK)
    (box.path / BOMB).chmod(0o644)
    return int(await box.says(f"exec /usr/bin/python3 {BOMB}"))


async def test_fork_bomb(who: str) -> None:
    """No more processes than the limit come about, and soon after the run, though they would last longer, none is left.

    The sandbox tells the exit status a moment before the kernel has taken the last process of its namespace away.
    """
    with box_for(who, Limits(processes=20)) as box:
        # The limit is beyond what the user has already, and of an earlier test's box some may be ending still.
        await until(lambda: processes_of(box.path.stat().st_uid) == [], END_SECONDS)
        assert 5 <= await forks(box) < 20
        await until(lambda: processes_with(BOMB) == [], END_SECONDS)


async def test_fork_bomb_without_the_limit() -> None:
    """The limit does it: without it the same program starts all of its processes."""
    with box_for("ordinary", change=lambda line: [w for w in line if not w.startswith("--nproc")]) as box:
        assert await forks(box) == 500


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("{}", id="plain"),
        pytest.param("trap '' TERM INT HUP; while :; do {}; done", id="ignores signals"),
        pytest.param("exec >&- 2>&-; {}", id="closes its output"),
        pytest.param("setsid {} & setsid setsid {} & wait", id="leaves its session"),
        pytest.param("({} & disown) & wait; {}", id="leaves its parent"),
    ],
)
async def test_time(who: str, command: str) -> None:
    """After its time a program is gone with all it has started, whatever it does about it, within three seconds."""
    clock = FakeClock()
    with workspace_for(who) as workspace:
        sandbox = Sandbox(clock=clock, shape=shape_for(who))
        program = Program(argv=(*SHELL, command.format(*[lasting(1)] * 2)))
        running = asyncio.ensure_future(sandbox._run(program, workspace.path, "none", 100))
        await until(lambda: left_of(1))
        clock.advance(99)
        assert not running.done()
        started = time.monotonic()
        clock.advance(1)
        ended = await running
        assert time.monotonic() - started < END_SECONDS
    assert (ended.cut_off, ended.exit_code) == ("time", 137)
    assert left_of(1) == []


async def test_what_stays_in_the_background_ends_with_the_program(who: str) -> None:
    """A program that ends takes along what it left behind, also in sessions of their own."""
    with box_for(who) as box:
        ended = await box.run(f"setsid {lasting(2)} >/dev/null 2>&1 & {lasting(2)} & echo started")
    assert (ended.exit_code, ended.output.head) == (0, b"started\n")
    assert left_of(2) == []


async def test_a_stopped_turn_ends_its_program(who: str) -> None:
    """When the caller is cancelled nothing is left once the cancellation is through, within three seconds."""
    with box_for(who) as box:
        running = asyncio.ensure_future(box.run(lasting(3)))
        await until(lambda: left_of(3))
        started = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert time.monotonic() - started < END_SECONDS
        assert left_of(3) == []


async def test_cancelled_at_once(who: str) -> None:
    """A run that is cancelled while bubblewrap is still starting leaves nothing either."""
    with box_for(who) as box:
        for steps in range(12):
            running = asyncio.ensure_future(box.run(lasting(4)))
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            assert left_of(4) == []


async def test_impatience_changes_nothing(who: str) -> None:
    """Cancelling again and again while it ends does not cut the end short."""
    with box_for(who) as box:
        running = asyncio.ensure_future(box.run(lasting(5)))
        await until(lambda: left_of(5))
        while not running.done():
            running.cancel()
            await asyncio.sleep(0)
        assert running.cancelled()
        assert left_of(5) == []


@asynccontextmanager
async def host(who: str, command: str) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """A process of `who` that runs a command in its sandbox."""
    interpreter = interpreter_for(who, ROOT)
    if interpreter is None:
        pytest.skip("an ordinary user cannot read this checkout or its libraries")
    with workspace_for(who) as workspace:
        process = subprocess.Popen(
            [*interpreter, str(HOST), str(workspace.path), command], stdout=subprocess.PIPE, cwd="/"
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


async def test_a_process_of_that_user_can_use_it(who: str) -> None:
    """A whole process of root, and one of an ordinary user, examines its sandbox and runs a command in it."""
    async with host(who, "echo from inside; id -u") as process:
        printed, _ = await asyncio.to_thread(process.communicate)
    assert printed == b'{"code": 0, "output": "from inside\\n65534\\n", "cut off": null}\n'


async def test_kill_9_of_the_launcher(who: str) -> None:
    """When the process that started it dies without a word, the program dies with it."""
    mark = 10 + WHO.index(who)
    async with host(who, f"setsid {lasting(mark)} & {lasting(mark)}") as process:
        await until(lambda: len(left_of(mark)) == 2 or process.poll() is not None)
        left = left_of(mark)
        assert len(left) == 2
        os.kill(process.pid, signal.SIGKILL)
        assert all(gone_within(one, END_SECONDS) for one in left)


async def test_dying_with_its_parent_is_the_flags_doing() -> None:
    """Without that flag something is left behind: the tests above would notice."""

    def change(line: list[str]) -> list[str]:
        return [word for word in line if word != "--die-with-parent"]

    with box_for("ordinary", change=change) as box:
        await box.run(f"setsid {lasting(7)} >/dev/null 2>&1 & echo started")
        left = left_of(7)
        for process in left:
            os.kill(process, signal.SIGKILL)
        assert left
        assert all(gone_within(one, END_SECONDS) for one in left)


async def test_there_is_no_input_and_no_terminal(who: str) -> None:
    """Reading finds the end at once, and there is no terminal to speak to."""
    with box_for(who) as box:
        said = await box.says("read -r line; echo $?; (: </dev/tty) 2>&1; tty; tty <&1; ps -o tty= -p $$ || true")
    assert said.startswith("1\n")
    assert "No such device or address" in said
    assert said.count("not a tty") == 2


async def test_exit_codes_are_told(who: str) -> None:
    """A program's own exit code comes out, whatever it is, also those that bubblewrap itself uses."""
    with box_for(who) as box:
        codes = [(await box.run(f"exit {code}")).exit_code for code in (0, 1, 7, 126, 127, 255)]
        killed = (await box.run("kill -TERM $$")).exit_code
    assert codes == [0, 1, 7, 126, 127, 255]
    assert killed == 128 + signal.SIGTERM


async def test_many_at_once(who: str) -> None:
    """Runs in one workspace do not get into each other's way, and each hears only itself."""
    with box_for(who) as box:
        ended: list[Ended] = await asyncio.gather(*(box.run(f"echo {n}; sleep 0.1; echo {n}") for n in range(8)))
    assert [each.output.head for each in ended] == [f"{n}\n{n}\n".encode() for n in range(8)]


async def test_no_descriptor_is_lost(who: str) -> None:
    """After runs that ended in every way, this process has as many open descriptors as before."""
    before = len(os.listdir("/proc/self/fd"))
    with box_for(who, Limits(flood_bytes=MIB)) as box:
        for command, seconds in (("true", 20), ("yes", 20), ("sleep 20", 0.05), ("setsid sleep 20 & exit 3", 20)):
            await box.run(command, seconds=seconds)
        running = asyncio.ensure_future(box.run("sleep 20"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_every_limit_is_one() -> None:
    """Each limit has a value by default, and none can be set to nothing at all."""
    for field in fields(Limits):
        assert getattr(Limits(), field.name) > 0
        with pytest.raises(ConfigurationError, match=field.name):
            Limits(**{field.name: 0})
