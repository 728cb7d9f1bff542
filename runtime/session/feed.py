"""Events to their readers: stored ones at least from the journal, live ones while they last.

A reader's buffer is bounded. One that falls behind loses nothing that is stored: it reads the journal again from where
it was. Text deltas are all that it may miss.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from runtime.protocol import events
from runtime.protocol.events import Event
from runtime.store.base import EventPage

BUFFER = 1024

ReadPage = Callable[[int, int], Awaitable[EventPage]]
"""(after, limit) -> ascending page of the journal."""


@dataclass(slots=True, eq=False)
class Reader:
    """One consumer's place in the stream."""

    read_page: ReadPage
    after: int
    buffer: deque[Event] = field(default_factory=deque[Event])
    behind: bool = False
    newest_missed: int = 0
    ended: bool = False
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, event: Event) -> None:
        """Take an event in, or fall behind."""
        if len(self.buffer) >= BUFFER:
            self._fall_behind()
        if event.sequence is None:
            if self.behind and isinstance(event.msg, events.AssistantDelta):
                return
            self.buffer.append(event)
        elif not self.behind:
            self.buffer.append(event)
        else:
            self.newest_missed = event.sequence
        self.woken.set()

    def _fall_behind(self) -> None:
        self.behind = True
        self.newest_missed = max(self.newest_missed, *(event.sequence or 0 for event in self.buffer))
        kept = [
            event
            for event in self.buffer
            if event.sequence is None and not isinstance(event.msg, events.AssistantDelta)
        ]
        self.buffer = deque(kept[-BUFFER // 2 :])

    def end(self) -> None:
        """No event will come after those that are there."""
        self.ended = True
        self.woken.set()

    async def next(self) -> Event | None:
        """The next event, or None once the stream has ended and was read to its end."""
        while True:
            while self.buffer:
                event = self.buffer.popleft()
                if event.sequence is None:
                    return event
                if event.sequence > self.after:
                    self.after = event.sequence
                    return event
            if self.behind:
                await self._catch_up()
                continue
            if self.ended:
                return None
            self.woken.clear()
            await self.woken.wait()

    async def _catch_up(self) -> None:
        page = await self.read_page(self.after, BUFFER // 4)
        self.buffer.extend(page.events)
        if page.events and page.events[-1].sequence != page.latest_sequence:
            return
        # What was published while the page was read is not on it, and was not taken into the buffer.
        self.behind = self.newest_missed > page.latest_sequence > 0  # 0: the session was deleted


class Feed:
    """Where an agent publishes."""

    def __init__(self, read_page: ReadPage) -> None:
        self._read_page = read_page
        self._readers: set[Reader] = set()
        self._ended = False

    def reader(self, after: int, *, behind: bool) -> Reader:
        """A reader from beyond `after`; `behind` if the journal holds more than the stream will bring."""
        reader = Reader(self._read_page, after, behind=behind)
        if self._ended:
            reader.end()
        else:
            self._readers.add(reader)
        return reader

    def drop(self, reader: Reader) -> None:
        """Forget a reader."""
        self._readers.discard(reader)

    def publish(self, published: list[Event]) -> None:
        """Show events; stored ones are committed already."""
        for reader in self._readers:
            for event in published:
                reader.offer(event)

    def end(self) -> None:
        """End every reader's stream."""
        self._ended = True
        for reader in self._readers:
            reader.end()
