"""How often methods may be called: counted windows on the emulator's clock. Off unless `Knobs.rates`."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from adapters.emulators.slack.catalogue import Method, Tier

MINUTE = 60.0


@dataclass(slots=True)
class Window:
    """At most `calls` within `seconds`."""

    calls: int
    seconds: float
    _at: deque[float] = field(default_factory=deque[float])

    def wait(self, now: float) -> float:
        """Seconds until a further call fits; 0, and counted, if it fits now."""
        while self._at and self._at[0] <= now - self.seconds:
            self._at.popleft()
        if len(self._at) >= self.calls:
            return self._at[0] + self.seconds - now
        self._at.append(now)
        return 0.0


class Rates:
    """The windows of one app in one workspace."""

    def __init__(self, post_burst: int) -> None:
        self._post_burst = post_burst
        self._windows: dict[tuple[str, str], Window] = {}

    def wait(self, method: Method, channel: str, now: float) -> int:
        """Whole seconds to wait; 0, and counted, if the call fits now."""
        if method.tier is Tier.POST:
            window = self._window(method.name, channel, self._post_burst, float(self._post_burst))
        else:
            window = self._window(method.name, "", int(method.tier), MINUTE)
        return math.ceil(window.wait(now))

    def _window(self, name: str, key: str, calls: int, seconds: float) -> Window:
        return self._windows.setdefault((name, key), Window(calls, seconds))

    def clear(self) -> None:
        """Forget what was counted."""
        self._windows.clear()
