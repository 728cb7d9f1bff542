"""Time, passed in: one that flows and one that stands until it is told to move.

Every deadline of an emulated platform reads one of these clocks, so that a test advances it instead of
sleeping. Both can be advanced; the flowing clock then jumps ahead and keeps flowing.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from abc import ABC, abstractmethod
from typing import Protocol

SETTLE_TURNS = 12
"""Turns of the event loop that `ManualClock.advance` leaves to woken tasks before it moves on."""


class Clock(Protocol):
    """Seconds since the epoch, waiting, and jumping ahead."""

    def now(self) -> float:
        """Seconds since the epoch; never runs backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `now()` has moved by `seconds`; at once for zero and less."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Return True as soon as `event` is set, False once `seconds` have passed without it."""
        ...

    async def advance(self, seconds: float) -> None:
        """Move time ahead and wake whoever was waiting for an instant on the way."""
        ...


class _Ticking(ABC):
    """What both clocks share: a pulse at every jump, and waiting for an event or an instant."""

    def __init__(self) -> None:
        self._jumped = asyncio.Event()

    @abstractmethod
    def now(self) -> float: ...

    @abstractmethod
    async def _sleep_until(self, deadline: float) -> None: ...

    async def sleep(self, seconds: float) -> None:
        await self._sleep_until(self.now() + seconds)

    def _pulse(self) -> None:
        jumped, self._jumped = self._jumped, asyncio.Event()
        jumped.set()

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set() or seconds <= 0:
            return event.is_set()
        # The deadline counts from here, not from when the task below gets its first turn.
        timer = asyncio.ensure_future(self._sleep_until(self.now() + seconds))
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiting, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            timer.cancel()
            await asyncio.gather(waiting, timer, return_exceptions=True)
        return event.is_set()


class FlowingClock(_Ticking):
    """Real time plus whatever it was advanced by."""

    def __init__(self) -> None:
        super().__init__()
        # One monotonic axis anchored at the wall clock: dates are right, and a changed system clock moves no deadline.
        self._origin = time.time() - time.monotonic()

    def now(self) -> float:
        return self._origin + time.monotonic()

    async def _sleep_until(self, deadline: float) -> None:
        while (left := deadline - self.now()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._jumped.wait()
            except TimeoutError:
                return

    async def advance(self, seconds: float) -> None:
        _refuse_backwards(seconds)
        await _settle()
        self._origin += seconds
        self._pulse()
        await _settle()


class ManualClock(_Ticking):
    """Stands still until `advance`; stops at every awaited instant on the way, in order."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        super().__init__()
        self._now = start
        self._deadlines: list[float] = []

    def now(self) -> float:
        return self._now

    async def _sleep_until(self, deadline: float) -> None:
        heapq.heappush(self._deadlines, deadline)
        while self._now < deadline:
            await self._jumped.wait()

    async def advance(self, seconds: float) -> None:
        """Woken tasks get `SETTLE_TURNS` turns of the loop at each instant; work that needs a socket is not awaited."""
        _refuse_backwards(seconds)
        target = self._now + seconds
        await _settle()
        while self._deadlines and self._deadlines[0] <= target:
            self._now = max(self._now, heapq.heappop(self._deadlines))
            self._pulse()
            await _settle()
        self._now = target
        self._pulse()
        await _settle()


async def _settle() -> None:
    for _ in range(SETTLE_TURNS):
        await asyncio.sleep(0)


def wall_time() -> float:
    """Seconds since 1970 by the machine's clock, which nobody can advance."""
    return time.time()


def _refuse_backwards(seconds: float) -> None:
    if seconds < 0:
        raise ValueError(f"a clock cannot be moved by {seconds} s: it only goes forward")
