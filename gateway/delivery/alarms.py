"""Things that are due later, kept by one task on the clock that was handed in."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from runtime.clock import Clock


class Alarms:
    """Calls back when an instant has come. Nothing is polled: with no alarm set it only waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._earlier = asyncio.Event()

    def set(self, at_ms: int, ring: Callable[[], None]) -> None:
        """Call `ring` once `at_ms` has come. It cannot be taken back: `ring` looks whether it still matters."""
        self._count += 1
        heapq.heappush(self._due, (at_ms, self._count, ring))
        if self._due[0][1] == self._count:
            self._earlier.set()

    async def run(self) -> None:
        """Ring until cancelled."""
        while True:
            self._earlier.clear()
            while self._due and self._due[0][0] <= self._clock.now_ms():
                heapq.heappop(self._due)[2]()
            if self._due:
                await wait_for(self._earlier, (self._due[0][0] - self._clock.now_ms()) / 1000, self._clock)
            else:
                await self._earlier.wait()


async def wait_for(event: asyncio.Event, seconds: float, clock: Clock) -> None:
    """Return when the event is set or `seconds` have passed, whichever is first."""
    if event.is_set():
        return
    waits = (asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
