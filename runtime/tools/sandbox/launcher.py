"""Starts a program, reads what it prints, and ends it with everything it has started. The one place that starts any.

A run is over when this returns: the first process of its namespace has been seen dead, and the kernel kills that
namespace's other processes before it. A run that is cut off, by its time, its output or its caller, is killed at once;
nothing in it is asked to end first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from runtime.clock import Clock
from runtime.errors import SandboxError

log = logging.getLogger("pilothouse.runtime.sandbox")

Cause: TypeAlias = Literal["time", "output"]
CommandLine: TypeAlias = Callable[[int, int], Sequence[str]]
"""(descriptor of the filter, descriptor of the status) -> what to execute."""

TAIL_BYTES = 16 * 1024
_START_SECONDS = 1.0
_END_SECONDS = 2.0
_CHUNK = 64 * 1024
_UMASK = 0o022  # as the file tools create files; the folder itself decides who gets in


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What a program printed: the beginning, the end, and how many bytes between them were left out."""

    head: bytes
    tail: bytes = b""
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: by itself with `exit_code` (128 and more: killed by that signal), or cut off by us."""

    exit_code: int
    output: Capture
    cut_off: Cause | None = None


class _Output:
    """Collects by size. `flooded` is set once there was more than anybody may print."""

    def __init__(self, keep: int, flood: int) -> None:
        self._keep = keep
        self._flood = flood
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self.flooded = asyncio.Event()

    def add(self, piece: bytes) -> None:
        """Take what was read; all but the beginning and the end is dropped."""
        self._total += len(piece)
        room = self._keep - len(self._head)
        self._head += piece[:room]
        self._tail += piece[max(room, 0) :]
        del self._tail[:-TAIL_BYTES]
        if self._total > self._flood:
            self.flooded.set()

    def capture(self) -> Capture:
        """What was kept."""
        kept = len(self._head) + len(self._tail)
        return Capture(head=bytes(self._head), tail=bytes(self._tail), left_out=self._total - kept)


class _Status:
    """What bubblewrap reports: the first process of the sandbox, and the exit code of the program if it was started."""

    def __init__(self) -> None:
        self._text = b""
        self.first_process: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def add(self, piece: bytes) -> None:
        """Take a piece of the report; an empty one is its end."""
        self._text += piece
        found = re.search(rb'"child-pid": (\d+)\D', self._text)
        if not self.first_process.done() and (found or not piece):
            self.first_process.set_result(int(found[1]) if found else None)

    def exit_code(self) -> int | None:
        """The program's exit code; None if it was never started, or did not end by itself."""
        found = re.search(rb'"exit-code": (\d+)', self._text)
        return int(found[1]) if found else None


async def run_shut_in(
    command_line: CommandLine,
    seccomp: bytes,
    descriptors: Sequence[int],
    *,
    seconds: float,
    keep_bytes: int,
    flood_bytes: int,
    clock: Clock,
    stdin: int | None = None,
    take: Callable[[bytes], None] | None = None,
) -> Ended:
    """Run to the end, or for `seconds`. SandboxError: it was never started.

    With `stdin`, a descriptor to read from, the program is talked to: `take` gets what it prints while it does, and
    what it prints as errors is dropped.

    `descriptors` of ours go along, and the command line closes them before it gives up the host: through an open
    folder a program could leave the sandbox.

    On return, and also when the caller is cancelled, no process of the run is left.
    """
    output, status = _Output(keep_bytes, flood_bytes), _Status()
    with _reading(_both(output.add, take)) as printed, _reading(status.add) as reported:
        process = _start(command_line, seccomp, descriptors, printed.writer, reported.writer, stdin)
        printed.close_writer()
        reported.close_writer()
        run = _Run(process, status)
        try:
            cause = await _until_over(run, output, seconds, clock)
        finally:
            reported.drain()
            await run.end()
        printed.drain()
        reported.drain()
    code, captured = status.exit_code(), output.capture()
    if cause is not None:
        return Ended(exit_code=128 + signal.SIGKILL, output=captured, cut_off=cause)
    if code is None:
        raise SandboxError(_never_started(captured, process.returncode))
    return Ended(exit_code=code, output=captured)


def _both(keep: Callable[[bytes], None], take: Callable[[bytes], None] | None) -> Callable[[bytes], None]:
    if take is None:
        return keep

    def add(piece: bytes) -> None:
        keep(piece)
        take(piece)

    return add


async def _until_over(run: _Run, output: _Output, seconds: float, clock: Clock) -> Cause | None:
    over = asyncio.ensure_future(run.over())
    timer = asyncio.ensure_future(clock.sleep(seconds))
    flood = asyncio.ensure_future(output.flooded.wait())
    waits = (over, timer, flood)
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            return None
        return "output" if flood.done() else "time"
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def _never_started(captured: Capture, code: int | None) -> str:
    said = captured.head.decode(errors="replace").strip().splitlines()
    return said[-1][:300] if said else f"the sandbox ended with code {code} and said nothing"


def _start(
    command_line: CommandLine, seccomp: bytes, descriptors: Sequence[int], output: int, status: int, stdin: int | None
) -> subprocess.Popen[bytes]:
    """Our own environment, other descriptors, terminal and folder do not go along."""
    filter_descriptor = os.memfd_create("filter")
    try:
        os.write(filter_descriptor, seccomp)
        os.lseek(filter_descriptor, 0, os.SEEK_SET)
        return subprocess.Popen(  # noqa: S603 - running what nobody trusts is what this is for
            list(command_line(filter_descriptor, status)),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=output,
            stderr=output if stdin is None else subprocess.DEVNULL,
            pass_fds=(filter_descriptor, status, *descriptors),
            env={},
            cwd="/",
            umask=_UMASK,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"{error.filename or 'the sandbox'} cannot be started: {error.strerror}") from error
    finally:
        os.close(filter_descriptor)


class _Watched:
    """A process by its descriptor. `gone` is set once it has ended; one that is gone already is seen as such."""

    def __init__(self, process: int) -> None:
        self.gone = asyncio.Event()
        self._process = process
        self._loop = asyncio.get_running_loop()
        try:
            self._descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            self._descriptor = -1
            self.gone.set()
        else:
            self._loop.add_reader(self._descriptor, self._ended)

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self._descriptor >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    async def close(self) -> None:
        """Wait until it is gone, for a bounded time, and let go of it."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.gone.wait()
        except TimeoutError:
            log.error("process %d of the sandbox does not end though it was killed", self._process)
        finally:
            self._let_go()

    def _ended(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self.gone.set()

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


class _Run:
    """A started process, the first process of its sandbox, and the end of both."""

    def __init__(self, process: subprocess.Popen[bytes], status: _Status) -> None:
        self._process = process
        self._outside = _Watched(process.pid)
        self._inside: _Watched | None = None
        self._reported = status.first_process
        self._reported.add_done_callback(self._watch_first)

    async def over(self) -> None:
        """Return once the process has ended."""
        await self._outside.gone.wait()

    async def end(self) -> None:
        """Kill what is left and return once it is gone. A cancelled caller waits too: that is what it asked for."""
        ending = asyncio.ensure_future(self._end())
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                cancelled = True
        ending.result()
        if cancelled:
            raise asyncio.CancelledError

    def _watch_first(self, reported: asyncio.Future[int | None]) -> None:
        # At once, while bubblewrap still holds the number: later it could be another process's.
        if not reported.cancelled() and (first := reported.result()) is not None:
            self._inside = _Watched(first)

    async def _end(self) -> None:
        if not self._outside.gone.is_set():
            await self._until_reported()
            if self._inside is not None:
                self._inside.kill()
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._outside.close()
        if self._inside is not None:
            await self._inside.close()
        if self._outside.gone.is_set():
            self._process.wait()

    async def _until_reported(self) -> None:
        """Known within milliseconds. Killed before that, bubblewrap could leave its first process behind."""
        over = asyncio.ensure_future(self.over())
        await asyncio.wait({self._reported, over}, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()


class _Pipe:
    """A pipe whose reading end is emptied by the event loop, and whose writing end is given away."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self._writing = True
        os.set_blocking(self._reader, False)
        asyncio.get_running_loop().add_reader(self._reader, self._ready)
        self._reading = True

    def close_writer(self) -> None:
        """Ours is closed, so that the end of the others' is seen."""
        if self._writing:
            self._writing = False
            os.close(self.writer)

    def drain(self) -> None:
        """Take what is still in it, without waiting for more."""
        while self._reading and self._ready():
            pass

    def close(self) -> None:
        """Give both ends back."""
        self._stop()
        self.close_writer()
        os.close(self._reader)

    def _ready(self) -> bool:
        try:
            piece = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        self._take(piece)
        if not piece:
            self._stop()
        return bool(piece)

    def _stop(self) -> None:
        if self._reading:
            self._reading = False
            asyncio.get_running_loop().remove_reader(self._reader)


@contextmanager
def _reading(take: Callable[[bytes], None]) -> Generator[_Pipe]:
    pipe = _Pipe(take)
    try:
        yield pipe
    finally:
        pipe.close()
