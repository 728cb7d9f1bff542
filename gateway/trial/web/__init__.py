"""`pilothouse try --web`: three chats in one page of a browser on this machine, and a panel of faults."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from gateway.exits import ExitCode
from gateway.trial.stage import make_stage
from gateway.trial.web.door import Door
from gateway.trial.web.room import Room
from gateway.trial.web.site import serving


def run_room(*, state: Path | None = None, port: int = 0, patience: float | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; returns the exit code. No process that was started here runs after that."""
    stage = make_stage(state, os.environ)
    asyncio.run(_serve(Room(stage, os.environ, patience=patience), port))
    sys.stdout.write(f"\nThe trial is over. Its files: {stage.folder}\n")
    return ExitCode.OK


async def _serve(room: Room, port: int) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    async with room, serving(room, Door(), port) as address:
        sys.stdout.write(f"Open this in a browser on this machine; Ctrl-C ends the trial:\n  {address}\n")
        sys.stdout.flush()
        await ending.wait()
