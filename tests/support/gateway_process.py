"""The real gateway as a process that may kill itself at a named point: `gateway_process.py CONFIG`.

`KILL_AT=point:n` in the environment kills it with SIGKILL when it passes the point for the n-th time. Which points it
passed is appended to the file in `POINTS_FILE`, if there is one, before the kill can happen.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path


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


def main() -> int:
    from gateway.service import run_service

    os.umask(0o077)
    log = os.environ.get("POINTS_FILE")
    faults = KillAt(os.environ.get("KILL_AT", ":0"), Path(log) if log else None)
    return run_service(Path(sys.argv[1]), os.environ, faults=faults)


if __name__ == "__main__":
    sys.exit(main())
