"""What was said in bound threads while we were not connected, on platforms that do not keep it for us."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from adapters.contract import Adapter, Inbound, MessageRef, Place
from adapters.errors import AdapterError, RateLimited
from gateway.ledger import inbound as rows
from gateway.ledger import places as place_rows
from gateway.ledger.database import Database
from runtime.clock import Clock

log = logging.getLogger(__name__)

THREADS = 200
"""Threads that are looked at, the ones bound last first."""


class CatchUp:
    """Feeds history through the door. What had arrived already is known by its keys."""

    def __init__(self, database: Database, intake: Callable[[Inbound], Awaitable[None]], clock: Clock) -> None:
        self._database = database
        self._intake = intake
        self._clock = clock

    async def run(self, adapter: Adapter) -> int:
        """Take in what was missed in the bound threads of an account that is connected; returns how much that was.

        A thread whose history cannot be read is left out, with a line in the log.
        """
        if not adapter.capabilities.history_backfill:
            return 0
        bound = await place_rows.threads(self._database, adapter.platform, adapter.account)
        places = dict.fromkeys(
            Place(platform=row.place.platform, account=row.place.account, chat=row.place.chat, thread=row.place.thread)
            for row in bound
        )
        found = 0
        for place in list(places)[:THREADS]:
            found += await self._thread(adapter, place)
        return found

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
