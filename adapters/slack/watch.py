"""Whether anything comes from Slack, and what is done when nothing does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from adapters.contract import Environment, Health
from adapters.errors import AdapterError, BadCredentials
from adapters.slack.socket import PING_SECONDS

log = logging.getLogger("pilothouse.slack")

LOOK_SECONDS = PING_SECONDS
SILENT_MS = 3 * 10_000
"""Three windows of two pings each."""
LONGEST_PAUSE_LOOKS = 12
PROBE_LOOKS = 12


class Way(Protocol):
    """A way in: a socket, or a listener."""

    async def open(self) -> None:
        """Connect; the errors of `Adapter.start`."""
        ...

    def contact(self) -> tuple[int, float | None]:
        """A value that changes whenever something came from Slack."""
        ...

    async def is_up(self) -> bool:
        """Whether it is open."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class Watch:
    """Looks at a way in every few seconds. `probe` proves that Slack is there, for a way that nothing may come through
    for hours; `trouble` tells why what came cannot be stored."""

    def __init__(
        self,
        way: Way,
        environment: Environment,
        trouble: Callable[[], str],
        probe: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._way = way
        self._environment = environment
        self._trouble = trouble
        self._probe = probe
        self._seen: tuple[int, float | None] = (0, None)
        self._contact_ms = 0
        self._failures = 0
        self._looks = 0
        self.health = Health(state="connecting")

    async def open(self) -> None:
        """Open the way; on return something has come through it, or it listens."""
        await self._way.open()
        self._reached()

    async def run(self, tick: Callable[[], Awaitable[None]]) -> None:
        """Look until cancelled, and run `tick` each time."""
        while True:
            await self._environment.sleep(LOOK_SECONDS)
            self._looks += 1
            await self._look()
            await tick()

    async def _look(self) -> None:
        contact = self._way.contact()
        if contact != self._seen or (self._probe is not None and await self._probed(self._probe)):
            self._seen = contact
            self._reached()
        elif self._probe is None and self._environment.now_ms() - self._contact_ms >= SILENT_MS:
            await self._rebuild()

    async def _probed(self, probe: Callable[[], Awaitable[object]]) -> bool:
        if self._looks % PROBE_LOOKS:
            return False
        try:
            await probe()
        except AdapterError as error:
            self._is_failing(error)
            return False
        return await self._way.is_up()

    async def _rebuild(self) -> None:
        """Begin anew, seldom if that has failed before."""
        if self._failures and self._looks % min(2**self._failures, LONGEST_PAUSE_LOOKS):
            return
        log.warning("nothing came from Slack for %.0f s, connecting anew", SILENT_MS / 1000)
        await self._way.close()
        try:
            await self._way.open()
        except AdapterError as error:
            self._failures += 1
            self._is_failing(error)
        else:
            self._seen = self._way.contact()
            self._reached()

    def _reached(self) -> None:
        self._failures = 0
        self._contact_ms = self._environment.now_ms()
        trouble = self._trouble()
        self.health = Health(state="failing" if trouble else "ready", last_contact_ms=self._contact_ms, detail=trouble)

    def _is_failing(self, error: AdapterError) -> None:
        log.warning("no messages from Slack: %s", error)
        state = "failed" if isinstance(error, BadCredentials) else "failing"
        self.health = Health(state=state, last_contact_ms=self._contact_ms, detail=str(error))

    async def close(self) -> None:
        """End the way."""
        await self._way.close()
        self.health = Health(state="stopped", last_contact_ms=self.health.last_contact_ms)
