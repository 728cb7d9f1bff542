"""`pilothouse try`: the real gateway against an emulated Telegram, with a chat in this terminal.

No account, no key, no network. The gateway is a process of its own: kill it, start it again, from here or from another
terminal, and see what it makes of it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from gateway.exits import ExitCode
from gateway.trial.stage import make_stage
from gateway.trial.trial import Front, Trial


def run_trial(*, state: Path | None = None, plain: bool = False) -> int:
    """Talk until the person leaves; returns the exit code. On return no process that was started here runs any more."""
    stage = make_stage(state, os.environ)
    lines = plain or not (sys.stdin.isatty() and sys.stdout.isatty())
    return asyncio.run(_run(Trial(stage, os.environ), lines=lines))


async def _run(trial: Trial, *, lines: bool) -> int:
    async with trial:
        await _front(trial, lines=lines).run()
        elsewhere = trial.started_elsewhere
    sys.stdout.write(f"The trial is over. Its files: {trial.stage.folder}\n")
    if elsewhere:
        sys.stdout.write(f"The gateway that you started elsewhere still runs: kill {elsewhere}\n")
    return ExitCode.OK if trial.answered or not trial.said else ExitCode.FAILED


def _front(trial: Trial, *, lines: bool) -> Front:
    if lines:
        from gateway.trial.lines import Lines

        return Lines(trial)
    from gateway.trial.screen import Screen

    return Screen(trial)
