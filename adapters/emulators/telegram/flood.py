"""How fast a bot may send: counted windows on the emulator's clock. Off unless `Knobs.flood` is given."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from adapters.emulators.telegram.knobs import FloodLimits


@dataclass(slots=True)
class Window:
    """At most `calls` within `seconds`."""

    calls: int
    seconds: float
    _at: deque[float] = field(default_factory=deque[float])

    def wait(self, now: float) -> float:
        """Seconds until a further call fits; 0 if it fits now."""
        while self._at and self._at[0] <= now - self.seconds:
            self._at.popleft()
        return 0.0 if len(self._at) < self.calls else self._at[0] + self.seconds - now

    def use(self, now: float) -> None:
        """Count a call."""
        self._at.append(now)


class FloodGate:
    """The windows of one bot."""

    def __init__(self, limits: FloodLimits) -> None:
        self._limits = limits
        self._windows: dict[tuple[str, int], Window] = {}

    def send(self, chat: int, *, group: bool, now: float) -> int:
        """0 and counted if a send or edit fits now, else whole seconds to wait."""
        limits = self._limits
        windows = [
            self._window("all", 0, round(limits.overall_per_second), 1.0),
            self._window("chat", chat, limits.chat_burst, limits.chat_burst / limits.per_chat_per_second),
        ]
        if group:
            windows.append(self._window("group", chat, limits.group_per_minute, 60.0))
        return _pass(windows, now)

    def draft(self, chat: int, now: float) -> int:
        """The same for drafts and chat actions."""
        short, long = self._limits.drafts_short, self._limits.drafts_long
        return _pass([self._window("short", chat, *short), self._window("long", chat, *long)], now)

    def _window(self, name: str, chat: int, calls: int, seconds: float) -> Window:
        return self._windows.setdefault((name, chat), Window(calls, seconds))


def _pass(windows: list[Window], now: float) -> int:
    wait = max(window.wait(now) for window in windows)
    if wait > 0:
        return math.ceil(wait)
    for window in windows:
        window.use(now)
    return 0
