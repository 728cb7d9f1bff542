"""The adapters that run: connected in the background, and again when they could not be reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from adapters.contract import Adapter, Intake, Place
from adapters.errors import AdapterError, BadCredentials
from runtime.clock import Clock

log = logging.getLogger("pilothouse.connections")

FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 60.0


class Connections:
    """One adapter per platform of the configuration.

    They are made before anything is planned for them, since that has to fit their platform; connecting
    comes later. `connected` is called with each adapter once it takes messages in.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Adapter]],
        intake: Intake,
        connected: Callable[[Adapter], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._makers = dict(makers)
        self._adapters: dict[str, Adapter] = {}
        self._intake = intake
        self._connected = connected
        self._clock = clock
        self._ready: dict[str, str] = {}
        self._refusals: dict[str, BadCredentials] = {}

    def adapter(self, platform: str, account: str) -> Adapter | None:
        """The adapter of one of our accounts, connected or not; None if we do not have that account any more.

        Until it is connected nobody knows which account it has: it is taken for the one that is asked for.
        """
        if self._ready.get(platform, account) != account:
            return None
        return self._adapters.get(platform)

    def opens_threads(self, place: Place) -> bool:
        """Whether what begins in the place gets a thread of its own, on a message of ours."""
        adapter = self.adapter(place.platform, place.account)
        if adapter is None or place.thread is not None:
            return False
        can = adapter.capabilities
        return can.can_create_thread and can.threads in ("thread", "forum")

    def account_of(self, platform: str) -> str | None:
        """Our account on a platform, once it is connected."""
        return self._ready.get(platform)

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """Every adapter, by platform, connected or not."""
        return self._adapters

    @property
    def platforms(self) -> tuple[str, ...]:
        """Every platform of the configuration."""
        return tuple(self._makers)

    async def make(self) -> None:
        """Make every adapter. Loading a client library may take seconds: that is done off the loop."""
        for platform, maker in self._makers.items():
            self._adapters[platform] = await asyncio.to_thread(maker)

    async def run(self) -> None:
        """Connect each platform; returns once all are connected.

        BadCredentials: every platform refuses us, so there is nothing to wait for.
        """
        async with asyncio.TaskGroup() as group:
            for platform, adapter in self._adapters.items():
                group.create_task(self._connect(platform, adapter), name=f"connect {platform}")
        if self._refusals and len(self._refusals) == len(self._adapters):
            raise next(iter(self._refusals.values()))

    async def _connect(self, platform: str, adapter: Adapter) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await adapter.start(self._intake)
            except BadCredentials as error:
                log.error("%s refuses our credentials: %s", platform, error)
                self._refusals[platform] = error
                return
            except AdapterError as error:
                log.warning("%s cannot be reached, trying again in %.0f s: %s", platform, pause, error)
            else:
                self._ready[platform] = adapter.account
                log.info("connected to %s as %s", platform, adapter.account)
                await self._connected(adapter)
                return
            await self._clock.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    async def stop(self) -> None:
        """Disconnect all; on return nothing comes in and nothing goes out."""
        outcomes = await asyncio.gather(
            *(adapter.stop() for adapter in self._adapters.values()), return_exceptions=True
        )
        self._ready.clear()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                log.warning("an adapter did not stop in order: %s", outcome)
