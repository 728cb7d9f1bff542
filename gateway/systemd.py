"""Tells systemd how we are: ready, alive, stopping. Without systemd it tells nobody.

The protocol is a datagram of `KEY=value` lines to the socket in $NOTIFY_SOCKET, see sd_notify(3).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from runtime.clock import Clock


class ServiceManager:
    """One per process. A manager that does not listen is no error: we run as well without it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_seconds = int(environ.get("WATCHDOG_USEC", "0") or 0) / 1_000_000

    def ready(self, status: str) -> None:
        """We take messages from now on."""
        self._tell("READY=1", f"STATUS={status}")

    def stopping(self) -> None:
        """We take nothing in any more."""
        self._tell("STOPPING=1", "STATUS=finishing what is under way")

    async def keep_alive(self, clock: Clock) -> None:
        """Say that we live, twice as often as the watchdog wants it, until cancelled. A blocked loop stays silent."""
        while self._watchdog_seconds:
            self._tell("WATCHDOG=1")
            await clock.sleep(self._watchdog_seconds / 2)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
                connection.connect(self._address)
                connection.sendall("\n".join(lines).encode())
        except OSError:
            # The manager restarts sometimes, and nothing depends on its having heard us.
            return
