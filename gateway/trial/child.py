"""The gateway of a trial as a process of its own, wherever it was started."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gateway.config.secret_sources import PREFIX
from gateway.state_folder import owner_of
from gateway.trial.stage import Stage

END_SECONDS = 15.0
"""Longer than the gateway's own limit for an orderly end."""


class Child:
    """Starts `pilothouse run`, and sees whoever owns the state folder: ours, or one from another terminal."""

    def __init__(self, stage: Stage, environ: Mapping[str, str]) -> None:
        self._stage = stage
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None
        self._is_starting = False
        self._log_from = 0

    @property
    def pid(self) -> int | None:
        """The gateway that owns the state folder now, or None."""
        owner = owner_of(self._stage.state)
        return owner.pid if owner else None

    @property
    def living(self) -> bool:
        """Whether the process that was started here still runs, from the moment `start` is called."""
        return self._is_starting or (self._process is not None and self._process.returncode is None)

    @property
    def started(self) -> int | None:
        """Process id of the newest process that was started here."""
        return self._process.pid if self._process else None

    @property
    def ending(self) -> str:
        """How the newest process that was started here ended, in words."""
        code = self._process.returncode if self._process else None
        if code is None:
            return "it was not started here"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    async def start(self) -> None:
        """Start it. It ends when this program does, however that ends: its standard input closes then."""
        self._is_starting = True
        try:
            with self._stage.log.open("ab") as log:
                self._log_from = log.tell()
                self._process = await asyncio.create_subprocess_exec(
                    *command(self._stage.config),
                    "--until-stdin-closes",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=without_our_settings(self._environ),
                    # Of its own group, so that Ctrl-C in this terminal reaches only us.
                    process_group=0,
                )
        finally:
            self._is_starting = False

    def kill(self) -> int | None:
        """SIGKILL to the gateway; returns its process id, or None if there is none."""
        pid = self.pid or (self.started if self.living else None)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid

    async def stop(self) -> None:
        """End the process that was started here, in good order if it can."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def tail(self, lines: int) -> str:
        """The end of what the gateway has said since it was started here last."""
        try:
            text = self._stage.log.read_bytes()[self._log_from :].decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def command(config: Path) -> list[str]:
    """The command line of a gateway with this configuration, by the interpreter that runs us."""
    return [sys.executable, "-m", "gateway", "run", "--config", str(config)]


def command_for_people(config: Path) -> str:
    """The same, as one would type it in another terminal."""
    script = Path(sys.executable).with_name("pilothouse")
    words = [str(script)] if script.exists() else [sys.executable, "-m", "gateway"]
    return shlex.join([*words, "run", "--config", str(config)])


def without_our_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which no real token is found: the trial must never speak in the name of a real bot."""
    foreign = ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX) and name not in foreign}
