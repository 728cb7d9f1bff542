"""Discord's ids: a time and a number within it. They rise, and a message's age can be told by its id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

EPOCH_MS: Final = 1_420_070_400_000
"""The first second of 2015, which is where Discord counts from."""


class Snowflakes:
    """Makes ids that rise, also while the clock stands still."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = 0

    def next(self) -> str:
        """A new id."""
        self._last = max(self._last + 1, snowflake_at(self._now()))
        return str(self._last)


def snowflake_at(seconds: float) -> int:
    """The lowest id of an instant."""
    return max(0, int(seconds * 1000) - EPOCH_MS) << 22


def instant_of(snowflake: str | int) -> float:
    """Seconds since the epoch at which an id was made."""
    return ((int(snowflake) >> 22) + EPOCH_MS) / 1000
