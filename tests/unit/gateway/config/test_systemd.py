"""What the service manager is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.systemd import ServiceManager
from runtime.testing import FakeClock


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """Address and socket of a service manager that listens."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.setblocking(False)
        yield path, listener


def told(listener: socket.socket) -> list[str]:
    """Every datagram so far."""
    found: list[str] = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def test_ready_and_stopping(manager: tuple[str, socket.socket]) -> None:
    """Both states are told with a status that people read in `systemctl status`."""
    address, listener = manager
    ours = ServiceManager({"NOTIFY_SOCKET": address})
    ours.ready("polling telegram")
    ours.stopping()
    assert told(listener) == [
        "READY=1\nSTATUS=polling telegram",
        "STOPPING=1\nSTATUS=finishing what is under way",
    ]


async def test_watchdog_hears_twice_per_period(manager: tuple[str, socket.socket]) -> None:
    """With a watchdog of 10 s a sign of life goes out every 5 s, beginning at once."""
    address, listener = manager
    clock = FakeClock(0)
    ours = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "10000000"})
    alive = asyncio.create_task(ours.keep_alive(clock))
    for expected in (1, 2, 3):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert told(listener) == ["WATCHDOG=1"], expected
        clock.advance(5)
    alive.cancel()


async def test_without_a_watchdog_nothing_is_told(manager: tuple[str, socket.socket]) -> None:
    """No watchdog asked for: the task ends by itself."""
    address, listener = manager
    await ServiceManager({"NOTIFY_SOCKET": address}).keep_alive(FakeClock(0))
    assert told(listener) == []


def test_deaf_manager_is_no_error(tmp_path: Path) -> None:
    """Without a manager, or with one that is gone, we run as well."""
    ServiceManager({}).ready("x")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("x")
    ServiceManager({"NOTIFY_SOCKET": "@pilothouse-nobody-listens-here"}).stopping()
