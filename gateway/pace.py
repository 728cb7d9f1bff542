"""How many messages one person may send in a minute."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

MINUTE_MS = 60_000
REMEMBERED = 4096
"""People that are remembered at most; who said nothing for longest is forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFast:
    """A message that is not taken. `until_ms`: from when on messages are taken again. `first`: it was not told yet."""

    until_ms: int
    first: bool


@dataclass(slots=True)
class _Person:
    taken: deque[int] = field(default_factory=deque[int])
    told_until_ms: int = 0


class Pace:
    """Counts messages by the platform's own time, so that a backlog from a time when we were down is no flood."""

    def __init__(self, per_minute: Callable[[], int]) -> None:
        self._per_minute = per_minute
        self._people: OrderedDict[str, _Person] = OrderedDict()

    def take(self, principal: str, at_ms: int) -> TooFast | None:
        """Count one message, sent at `at_ms`; None if it may go on."""
        person = self._people.setdefault(principal, _Person())
        self._people.move_to_end(principal)
        if len(self._people) > REMEMBERED:
            self._people.popitem(last=False)
        while person.taken and person.taken[0] <= at_ms - MINUTE_MS:
            person.taken.popleft()
        if len(person.taken) < self._per_minute():
            person.taken.append(at_ms)
            return None
        until_ms = person.taken[0] + MINUTE_MS
        first = until_ms > person.told_until_ms
        person.told_until_ms = max(until_ms, person.told_until_ms)
        return TooFast(until_ms=until_ms, first=first)
