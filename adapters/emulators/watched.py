"""What a test asks of any emulator: what was called, which rules were broken, and to wait until something is so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from adapters.emulators.clock import Clock
from adapters.emulators.errors import ViolationsFound
from adapters.emulators.faults import FaultQueue
from adapters.emulators.journal import Entry, EntryKind, Exchange, Journal

T = TypeVar("T")

ASK_AGAIN_SECONDS = 0.02


class Watched:
    """Questions about the journal of the emulator that inherits this."""

    clock: Clock
    journal: Journal
    faults: FaultQueue

    @property
    def violations(self) -> list[Entry]:
        """Rules that clients broke."""
        return self.journal.of(EntryKind.VIOLATION)

    def assert_clean(self) -> None:
        """Raise ViolationsFound, listing them, if a client broke any rule."""
        if found := self.violations:
            raise ViolationsFound("\n".join(f"{entry.name}: {dict(entry.data)}" for entry in found))

    def calls(self, *methods: str) -> list[Exchange]:
        """Calls with their answers, of the named methods or of all."""
        return self.journal.exchanges(*methods)

    async def advance(self, seconds: float) -> None:
        """Move the clock ahead; whatever waits for a deadline sees it."""
        await self.clock.advance(seconds)

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30.0) -> T:
        """The first true value of `predicate`, asked whenever the journal grows and otherwise many times a second.

        `timeout` is real time whatever the clock. Raises TimeoutError telling the last journal entries.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    seen = self.journal.last
                    if value := predicate():
                        return value
                    await self._grown_or_soon(seen)
        except TimeoutError as error:
            newest = [f"{entry.kind} {entry.name}" for entry in list(self.journal)[-12:]]
            raise TimeoutError(f"nothing within {timeout} s; the newest entries are {newest}") from error

    async def _grown_or_soon(self, seen: int) -> None:
        # A predicate may look at the program under test, which changes without an entry in the journal.
        try:
            async with asyncio.timeout(ASK_AGAIN_SECONDS):
                await self.journal.grown(seen)
        except TimeoutError:
            return
