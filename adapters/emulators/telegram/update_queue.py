"""Updates that a bot has not confirmed yet, and how an offset confirms them.

Pure: time comes in as a number, what was confirmed or dropped goes out as a list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from adapters.emulators.wire_json import JsonObject

REMEMBERED: Final = 5000
FUTURE_TOLERANCE: Final = 10
"""td's TQueue: an offset further than this ahead of the newest update is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update; `lane` groups those that a webhook must get in order (chat or person)."""

    id: int
    type: str
    body: JsonObject
    lane: int
    expires_at: float

    def to_wire(self) -> JsonObject:
        """Update of the Bot API."""
        return {"update_id": self.id, self.type: self.body}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a getUpdates call takes, and which updates that call confirmed or found too old."""

    updates: list[Update]
    confirmed: list[Update]
    expired: list[Update]


@dataclass(slots=True, kw_only=True)
class UpdateQueue:
    """Pending updates in order of their ids, the newest confirmed ones, and those to be delivered again."""

    next_id: int
    pending: deque[Update] = field(default_factory=deque[Update])
    confirmed: deque[Update] = field(default_factory=lambda: deque[Update](maxlen=REMEMBERED))
    again: list[Update] = field(default_factory=list[Update])
    _again_handed: bool = False

    def push(self, kind: str, body: JsonObject, *, lane: int, expires_at: float) -> Update:
        """Append a new update under the next id."""
        update = Update(id=self.next_id, type=kind, body=body, lane=lane, expires_at=expires_at)
        self.next_id += 1
        self.pending.append(update)
        return update

    def repeat(self, update: Update) -> None:
        """Append an update once more under its own id."""
        self.pending.append(update)

    def redeliver(self, count: int) -> list[Update]:
        """Deliver the newest `count` confirmed updates once more, whatever offset the bot asks for."""
        self.again = list(self.confirmed)[-count:] if count > 0 else []
        self._again_handed = False
        return self.again

    def take(self, offset: int, limit: int, now: float) -> Batch:
        """What getUpdates with this offset returns. A positive offset confirms everything before it.

        A negative offset keeps only that many of the newest and forgets the others. An offset from the future
        confirms nothing.
        """
        expired = self._remove(update for update in self.pending if update.expires_at <= now)
        if self._again_handed:
            self.again, self._again_handed = [], False
        if offset < 0:
            gone = self._remove(list(self.pending)[: max(0, len(self.pending) + offset)])
        elif 0 < offset < self.next_id + FUTURE_TOLERANCE:
            gone = self._remove(update for update in self.pending if update.id < offset)
        else:
            gone = []
        self.confirmed.extend(gone)
        updates = [*self.again, *self.pending][:limit]
        self._again_handed = bool(self.again)
        return Batch(updates=updates, confirmed=gone, expired=expired)

    def first_in(self, lane: int) -> Update | None:
        """The oldest pending update of a lane."""
        return next((update for update in [*self.again, *self.pending] if update.lane == lane), None)

    def lanes(self) -> set[int]:
        """Lanes that have something pending."""
        return {update.lane for update in [*self.again, *self.pending]}

    def finish(self, update: Update) -> None:
        """A webhook took the update: confirm this one delivery of it."""
        if update in self.again:
            self.again.remove(update)
            return
        self.pending.remove(update)
        self.confirmed.append(update)

    def clear(self) -> list[Update]:
        """Forget everything pending; returns it."""
        gone = list(self.pending)
        self.pending.clear()
        self.again = []
        return gone

    def _remove(self, chosen: Iterable[Update]) -> list[Update]:
        gone = list(chosen)
        if gone:
            identities = {id(update) for update in gone}
            self.pending = deque(update for update in self.pending if id(update) not in identities)
        return gone
