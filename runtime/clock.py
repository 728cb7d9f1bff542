"""Time, passed in. Nothing else in the runtime reads a clock or sleeps."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the runtime needs of time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancellation passes."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancellation passes."""
        await asyncio.sleep(seconds)
