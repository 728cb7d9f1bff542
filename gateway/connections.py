"""The adapters that run: connected in the background, and again when they could not be reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from adapters.contract import Adapter, Intake
from adapters.errors import AdapterError, BadCredentials
from runtime.clock import Clock

log = logging.getLogger("pilothouse.connections")

FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 60.0


class Connections:
    """One adapter per platform of the configuration.

    `makers` make them: importing a client library may take seconds, so that happens off the loop, and sessions recover
    meanwhile. `connected` is called with each account once its adapter takes messages in.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Adapter]],
        intake: Intake,
        connected: Callable[[str, str], None],
        clock: Clock,
    ) -> None:
        self._makers = makers
        self._intake = intake
        self._connected = connected
        self._clock = clock
        self._adapters: dict[str, Adapter] = {}
        self._ready: dict[tuple[str, str], Adapter] = {}
        self._refusals: dict[str, BadCredentials] = {}

    def adapter(self, platform: str, account: str) -> Adapter | None:
        """The adapter of one of our accounts, or None while it is not there."""
        return self._ready.get((platform, account))

    def account_of(self, platform: str) -> str | None:
        """Our account on a platform, once it is connected."""
        return next((account for name, account in self._ready if name == platform), None)

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """Every adapter that was made, by platform, connected or not."""
        return self._adapters

    @property
    def platforms(self) -> tuple[str, ...]:
        """Every platform of the configuration."""
        return tuple(self._makers)

    async def run(self) -> None:
        """Connect each platform; returns once all are connected.

        BadCredentials: every platform refuses us, so there is nothing to wait for.
        """
        async with asyncio.TaskGroup() as group:
            for platform in self._makers:
                group.create_task(self._connect(platform), name=f"connect {platform}")
        if self._refusals and len(self._refusals) == len(self._makers):
            raise next(iter(self._refusals.values()))

    async def _connect(self, platform: str) -> None:
        adapter = await asyncio.to_thread(self._makers[platform])
        self._adapters[platform] = adapter
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
                self._ready[platform, adapter.account] = adapter
                log.info("connected to %s as %s", platform, adapter.account)
                self._connected(platform, adapter.account)
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
