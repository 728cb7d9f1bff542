"""Delivery as the application sees it: start it, tell it of commits, ask it what it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from adapters.contract import Place
from gateway.delivery.alarms import Alarms
from gateway.delivery.border import Directory, Journal, Neighbours, Peek, Platforms
from gateway.delivery.outbox import Outbox
from gateway.delivery.reader import Reader
from gateway.delivery.resources import Resources
from gateway.delivery.sending import report_undelivered
from gateway.ledger import deliveries
from gateway.ledger.deliveries import UnknownDelivery
from runtime.clock import Clock
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol.events import Event


class Delivery:
    """From stored events to messages on the platforms.

    `recover` first, before the sessions run; then `run`, in the application's task group. `committed` is the listener
    for `Runtime.on_commit`. After a crash at any instant, doing this again sends what was not sent, repairs what is
    shown, and repeats at most the one message that was on its way.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        peek: Peek,
        directory: Directory,
        platforms: Platforms,
        neighbours: Neighbours,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        faults: Faults = NO_FAULTS,
    ) -> None:
        self._resources = Resources(
            database=journal.database,
            platforms=platforms,
            clock=clock,
            random_bytes=random_bytes,
            neighbours=neighbours,
            faults=faults,
        )
        self._alarms = Alarms(clock)
        self._outbox = Outbox(self._resources, self._moved, self._opened)
        self._reader = Reader(journal, directory, peek, self._outbox, self._resources, self._alarms)

    def _moved(self, place: Place, chat: str) -> None:
        self._reader.moved(place, chat)

    def _opened(self, stood_for: Place, thread: Place) -> None:
        self._reader.opened(stood_for)

    async def recover(self) -> None:
        """Find what a crash has left. On return nothing was sent yet; `run` begins with what is shown and not so."""
        await self._reader.recover()
        await self._outbox.recover()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._alarms.run(), name="alarms of delivery")
            tasks.create_task(self._outbox.run(), name="outbox")
            tasks.create_task(self._reader.run(), name="reader of journals")
            await report_undelivered(self._resources)

    def committed(self, session_id: str, sequence: int, stored: Sequence[Event] = ()) -> None:
        """The journal of the session goes up to `sequence` now; new events that are at hand need not be read."""
        self._reader.committed(session_id, sequence, stored)

    def showed(self, session_id: str, event: Event) -> None:
        """The session shows an event that is not stored; the listener for `Runtime.on_live`."""
        self._reader.showed(session_id, event)

    def wake(self, place: Place, *, repairs: bool = False) -> None:
        """Something was planned for the chat, or (`repairs`) a surface of it was closed, and that is committed."""
        self._outbox.wake(place, repairs=repairs)

    def connected(self, platform: str, account: str) -> None:
        """The adapter of the account runs from now on."""
        self._outbox.connected(platform, account)

    def stopping(self, session_id: str, turn_id: str) -> None:
        """A stop was taken: the card says "Stopping…" at once. "Stopped" follows from the stored event alone."""
        self._reader.stopping(session_id, turn_id)

    def stopping_loop(self, session_id: str, loop_id: str, now: bool) -> None:
        """A stop of the loop was taken, after its iteration or now: its card says so at once."""
        self._reader.stopping_loop(session_id, loop_id, now)

    async def unknown_deliveries(self, place: Place) -> tuple[UnknownDelivery, ...]:
        """Parts of which nobody can say whether they arrived; for /status."""
        return await deliveries.unknown_in(self._resources.database, place)

    async def oldest_unsent_ms(self) -> int | None:
        """When the oldest part that waits was planned; for health."""
        return await deliveries.oldest_unsent_ms(self._resources.database)

    async def at_rest(self) -> None:
        """Return once everything that is stored is read, planned and sent."""
        while True:
            await self._reader.at_rest()
            await self._outbox.at_rest()
            if self._reader.resting and self._outbox.resting:
                return

    async def settle(self) -> None:
        """Store how far every journal was read; for an orderly end, once nothing is committed any more."""
        await self._reader.settle()

    async def forget(self, before_ms: int) -> None:
        """Remove what was settled before `before_ms`."""
        await self._resources.database.write(deliveries.forget(before_ms))
