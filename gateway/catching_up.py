"""What was said in bound threads while we were not connected, on platforms that do not keep it for us.

What is said there now waits until it was caught up with. Without that, a thread's last message could be stored before
those that were missed, and a crash in between would hide them for ever: the next start reads from the last one on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from adapters.contract import Adapter, Inbound, InboundKind, MessageRef, Place
from adapters.errors import AdapterError, RateLimited
from gateway.ledger import inbound as rows
from gateway.ledger import places as place_rows
from gateway.ledger.database import Database
from gateway.ledger.threads import is_new
from runtime.clock import Clock

log = logging.getLogger(__name__)

THREADS = 200
"""Threads that are looked at, the ones bound last first."""

_SPOKEN = (InboundKind.MESSAGE, InboundKind.COMMAND)


class CatchUp:
    """Feeds history of one platform through the door. What had arrived already is known by its keys."""

    def __init__(self, database: Database, intake: Callable[[Inbound], Awaitable[None]], clock: Clock) -> None:
        self._database = database
        self._intake = intake
        self._clock = clock
        self._left: dict[Place, asyncio.Event] = {}
        self._wanted: list[Place] = []
        self._known = asyncio.Event()

    async def run(self, adapter: Adapter) -> int:
        """Take in what was missed in the bound threads of an account that is connected; returns how much that was.

        A thread whose history cannot be read is left out, with a line in the log.
        """
        try:
            if not adapter.capabilities.history_backfill:
                return 0
            for place in (await self._bound(adapter))[:THREADS]:
                self._left[place] = asyncio.Event()
            self._known.set()
            return await self._all(adapter)
        finally:
            self.end()

    async def turn_of(self, inbound: Inbound) -> None:
        """Return when nothing that was said before it in its thread is missing any more, or nobody looks for it.

        Presses do not wait: they change nothing in what was said, and the platform wants its answer in time.
        """
        if inbound.kind not in _SPOKEN or inbound.handle is not None:
            return
        await self._known.wait()
        place = replace(inbound.place, person=None)
        caught_up = self._left.get(place)
        if caught_up is not None:
            self._wanted.append(place)
            await caught_up.wait()

    def end(self) -> None:
        """Let everything pass that waits, now and later."""
        self._known.set()
        for caught_up in self._left.values():
            caught_up.set()
        self._left.clear()

    async def _bound(self, adapter: Adapter) -> Sequence[Place]:
        bound = await place_rows.threads(self._database, adapter.platform, adapter.account)
        # A thread of ours that is not open yet has no history.
        return list(dict.fromkeys(replace(row.place, person=None) for row in bound if not is_new(row.place)))

    async def _all(self, adapter: Adapter) -> int:
        found = 0
        while self._left:
            place = self._next()
            found += await self._thread(adapter, place)
            if (caught_up := self._left.pop(place, None)) is not None:
                caught_up.set()
        return found

    def _next(self) -> Place:
        """The thread in which somebody speaks now, else the one bound last."""
        while self._wanted:
            if (place := self._wanted.pop(0)) in self._left:
                return place
        return next(iter(self._left))

    async def _thread(self, adapter: Adapter, place: Place) -> int:
        since = await rows.newest_message(self._database, place)
        try:
            missed = await self._patiently(adapter, place, since)
        except AdapterError as error:
            log.warning("what was missed in %s %s could not be read: %s", place.platform, place.chat, error)
            return 0
        for inbound in missed:
            await self._intake(inbound)
        return len(missed)

    async def _patiently(self, adapter: Adapter, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        try:
            return await adapter.backfill(place, since)
        except RateLimited as error:
            await self._clock.sleep(error.retry_after)
            return await adapter.backfill(place, since)
