"""Gateways as processes of their own, forked from one that has imported everything: a start costs no imports."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("gateway_process.py")
ROOT = PROGRAM.parents[2]


class Gateway:
    """One of them, as `asyncio.subprocess.Process` shows it."""

    def __init__(self, server: GatewayServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._handle = os.pidfd_open(pid)
        self._status: int | None = None

    @property
    def returncode(self) -> int | None:
        """Its exit code, minus the signal that ended it, or None while it runs."""
        if self._status is None and self._has_ended():
            self._status = self._server.status_of(self.pid)
            os.close(self._handle)
        return self._status

    def _has_ended(self) -> bool:
        waiting = select.poll()
        waiting.register(self._handle, select.POLLIN)
        return bool(waiting.poll(0))

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        if self.returncode is None:
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            handle = os.dup(self._handle)  # others may wait too, and a loop watches a descriptor once
            loop.add_reader(handle, over.set)
            try:
                await over.wait()
            finally:
                loop.remove_reader(handle)
                os.close(handle)
        status = self.returncode
        assert status is not None
        return status


class GatewayServer:
    """The process that forks them. It ends with this one."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._one_by_one = threading.Lock()
        atexit.register(self.close)

    def start(self, platform: str, config: Path, log: Path, environment: Mapping[str, str]) -> Gateway:
        """Start one in its configuration's folder; what it writes is added to `log`."""
        answer = self._ask(
            platform=platform,
            config=str(config),
            folder=str(config.parent),
            log=str(log),
            environment={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        return Gateway(self, answer["pid"])

    def status_of(self, pid: int) -> int:
        """The exit code of one that has ended."""
        return int(self._ask(pid=pid)["status"])

    def _ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one_by_one:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
            return answer

    def close(self) -> None:
        """End it, and whatever still runs."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


@cache
def gateway_server() -> GatewayServer:
    """The one of this process, started when it is first asked for."""
    return GatewayServer()
