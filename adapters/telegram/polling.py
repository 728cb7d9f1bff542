"""Long polling with an offset of our own: it moves when what came is durable, and never before.

The server repeats updates until a later offset is asked for, so nothing that fails here is lost, and what was taken
and could not be confirmed comes again under the same keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from adapters.contract import Environment, Health, Inbound, Intake
from adapters.errors import AdapterError, BadCredentials, NotConnected, RateLimited
from adapters.telegram.inbound import ALLOWED_UPDATES
from adapters.telegram.payload import Payload, a_number
from adapters.telegram.refusals import Conflict, conflict_sentence

log = logging.getLogger("pilothouse.telegram")

SILENT_WINDOWS = 3
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 30.0
Result = TypeVar("Result")


class UpdateSource(Protocol):
    """A connection, as polling needs it."""

    async def updates(self, offset: int | None, seconds: int, kinds: Sequence[str] | None) -> list[Payload]:
        """Updates from an offset on; see `Connection.updates`."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class _Stopped(Exception):
    """`stop` was called while we waited for something."""


@dataclass(kw_only=True)
class _IntakeFailed(Exception):
    """Some of what came is not durable."""

    error: Exception


class Polling:
    """Takes updates in until it is stopped. One at a time of it may run for a bot."""

    def __init__(
        self,
        connect: Callable[[], UpdateSource],
        read: Callable[[Payload], Inbound],
        intake: Intake,
        environment: Environment,
        seconds: int,
    ) -> None:
        self._connect = connect
        self._read = read
        self._intake = intake
        self._environment = environment
        self._seconds = seconds
        self._source: UpdateSource | None = None
        self._offset: int | None = None
        self._failures = 0
        self._stopping = False
        self._waiting: asyncio.Future[Any] | None = None
        self.health = Health(state="connecting")

    def stop(self) -> None:
        """Ask for no more updates; what is being taken in is finished."""
        self._stopping = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def run(self) -> None:
        """Poll until stopped; no task and no connection is left on return."""
        try:
            while not self._stopping:
                await self._round()
        except _Stopped:
            pass
        finally:
            self.health = Health(state="stopped", last_contact_ms=self.health.last_contact_ms)
            await self._disconnect()

    async def _round(self) -> None:
        try:
            updates = await self._until_stopped(self._poll())
            self._reached()
            await self._take(updates)
        except _Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, inbound must not end; health shows it
            await self._failed(error)
        else:
            self._failures = 0

    async def _poll(self) -> list[Payload]:
        """One poll. After a failure it does not wait for news, so that health is right again at once."""
        if self._source is None:
            self._source = self._connect()
        healthy = self.health.state == "ready"
        poll = self._source.updates(self._offset, self._seconds if healthy else 0, ALLOWED_UPDATES)
        return await self._unless_silent(poll, float(SILENT_WINDOWS * self._seconds))

    async def _unless_silent(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """The result, or NotConnected when the alarm rings first: a half-open connection never says anything."""
        task = asyncio.create_task(work)
        alarm = asyncio.ensure_future(self._environment.sleep(seconds))
        try:
            await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NotConnected(f"nothing came for {seconds:.0f} s, although a poll ends after {self._seconds} s")
            return task.result()
        finally:
            task.cancel()
            alarm.cancel()
            await asyncio.gather(task, alarm, return_exceptions=True)

    async def _until_stopped(self, work: Awaitable[Result]) -> Result:
        self._waiting = waiting = asyncio.ensure_future(work)
        try:
            return await waiting
        except asyncio.CancelledError:
            if self._stopping and not _cancelled_from_outside():
                raise _Stopped from None
            raise
        finally:
            self._waiting = None

    # --------------------------------------------------------------------------------------------------------- intake

    async def _take(self, updates: Sequence[Payload]) -> None:
        """Take all in, in order within a chat; the offset moves up to the first that was not."""
        lanes: dict[str, list[tuple[int, Inbound]]] = {}
        for update in updates:
            inbound = self._read(update)
            lanes.setdefault(inbound.place.chat, []).append((a_number(update.get("update_id")), inbound))
        failures: dict[int, Exception] = {}
        async with asyncio.TaskGroup() as group:
            for lane in lanes.values():
                group.create_task(self._take_lane(lane, failures))
        if failures:
            first = min(failures)
            self._offset = first
            raise _IntakeFailed(error=failures[first])
        if lanes:
            self._offset = 1 + max(number for lane in lanes.values() for number, _ in lane)

    async def _take_lane(self, lane: Sequence[tuple[int, Inbound]], failures: dict[int, Exception]) -> None:
        for number, inbound in lane:
            try:
                await self._intake(inbound)
            except Exception as error:  # noqa: BLE001 - it was not taken in, for whatever reason, and comes again
                failures[number] = error
                return

    # --------------------------------------------------------------------------------------------------------- health

    def _reached(self) -> None:
        if self.health.state != "ready":
            log.info("Telegram gives us messages")
        self.health = Health(state="ready", last_contact_ms=self._environment.now_ms())

    async def _failed(self, error: Exception) -> None:
        self._failures += 1
        state, detail = "failing", f"{type(error).__name__}: {error}"
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), LAST_PAUSE_SECONDS)
        match error:
            case _IntakeFailed(error=cause):
                detail = f"what came could not be stored ({type(cause).__name__}: {cause})"
            case Conflict():
                detail = conflict_sentence(error)
            case RateLimited(retry_after=seconds):
                pause = max(pause, seconds)
            case BadCredentials():
                state, pause = "failed", LAST_PAUSE_SECONDS
            case AdapterError():
                await self._disconnect()
            case _:
                log.exception("polling failed in a way that it should not", exc_info=error)
        log.warning("no messages from Telegram: %s", detail)
        self.health = Health(state=state, last_contact_ms=self.health.last_contact_ms, detail=detail)
        await self._until_stopped(self._environment.sleep(pause))

    async def _disconnect(self) -> None:
        """The next poll makes new connections: an old session may be dead for good."""
        source, self._source = self._source, None
        if source is not None:
            await source.close()


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
