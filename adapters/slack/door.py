"""From a payload to intake: for us, read, in the order of arrival per chat, and acknowledged only once it is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from adapters.contract import Environment, Inbound, InboundKind, Intake, SenderKind
from adapters.slack.identity import Me
from adapters.slack.inbound import read
from adapters.slack.tenants import is_for_us

log = logging.getLogger("pilothouse.slack")

FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 30.0
MOST_WAITING = 1000
"""Payloads that wait behind one that cannot be stored. Slack sends what is beyond that again."""


@dataclass(slots=True)
class _Lane:
    """The order of one chat, and how many are in it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Door:
    """Takes payloads in until it is closed. `seen` gets each inbound that was stored, or is of no use to intake."""

    def __init__(
        self,
        me: Me,
        intake: Intake,
        named: Callable[[Inbound], Awaitable[Inbound]],
        seen: Callable[[Inbound], None],
        environment: Environment,
    ) -> None:
        self._me = me
        self._intake = intake
        self._named = named
        self._seen = seen
        self._environment = environment
        self._lanes: dict[str, _Lane] = {}
        self._waiting = 0
        self._closing = asyncio.Event()
        self.trouble = ""
        """Why what came cannot be stored at the moment."""

    async def take(self, body: Mapping[str, Any]) -> HTTPStatus:
        """OK once what the payload tells is durable, or refused for good; everything else is no acknowledgement."""
        if not is_for_us(body, self._me):
            log.warning("a payload for another app or workspace was turned away")
            return HTTPStatus.UNAUTHORIZED
        inbound = read(body, self._me)
        if self._is_our_own(inbound) or inbound.kind is InboundKind.OTHER:
            self._seen(inbound)
            return HTTPStatus.OK  # Slack tells us of every message of ours, and of every preview
        if self._waiting >= MOST_WAITING or self._closing.is_set():
            return HTTPStatus.SERVICE_UNAVAILABLE
        async with self._lane(inbound.place.chat):
            return await self._store(inbound)

    def _is_our_own(self, inbound: Inbound) -> bool:
        return inbound.sender.kind is SenderKind.BOT and inbound.sender.id in (self._me.user, self._me.bot)

    @asynccontextmanager
    async def _lane(self, chat: str) -> AsyncGenerator[None]:
        """One at a time within a chat, first come, first served."""
        lane = self._lanes.setdefault(chat, _Lane())
        lane.wanted += 1
        self._waiting += 1
        try:
            async with lane.lock:
                yield
        finally:
            self._waiting -= 1
            lane.wanted -= 1
            if not lane.wanted:
                del self._lanes[chat]

    async def _store(self, inbound: Inbound) -> HTTPStatus:
        """Store it, however often it takes: what was said after it waits, so that the order stays."""
        pause = FIRST_PAUSE_SECONDS
        named = await self._named(inbound)
        while not self._closing.is_set():
            try:
                await self._intake(named)
            except Exception as error:  # noqa: BLE001 - it was not taken in, for whatever reason; health shows it
                self.trouble = f"what came could not be stored ({type(error).__name__}: {error})"
                log.warning("%s", self.trouble)
            else:
                self.trouble = ""
                self._seen(named)
                return HTTPStatus.OK
            await self._pause(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)
        return HTTPStatus.SERVICE_UNAVAILABLE

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        sleeps, ends = (
            asyncio.ensure_future(self._environment.sleep(seconds)),
            asyncio.create_task(self._closing.wait()),
        )
        try:
            await asyncio.wait((sleeps, ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeps.cancel()
            ends.cancel()
            await asyncio.gather(sleeps, ends, return_exceptions=True)

    def close(self) -> None:
        """Take nothing new in, and try nothing again."""
        self._closing.set()
