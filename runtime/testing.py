"""Fakes for tests of what is built on the runtime. They are shipped, and tested themselves."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping
from typing import Any

from runtime.models.scripted import BlockingModel, CountingModel, FailingModel, ScriptedModel
from runtime.store.faulty import FaultyStore
from runtime.tools.base import Tool, ToolContext

__all__ = [
    "ApprovalTool",
    "BlockingModel",
    "CountingModel",
    "FailingModel",
    "FakeClock",
    "FaultyStore",
    "ScriptedModel",
]


class FakeClock:
    """A clock that stands still until it is told to advance."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return self._now_ms

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now_ms + round(seconds * 1000), self._count, woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Let time pass and wake who is due, in order."""
        self._now_ms += round(seconds * 1000)
        while self._sleepers and self._sleepers[0][0] <= self._now_ms:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)

    @property
    def sleeping(self) -> int:
        """How many are asleep."""
        return sum(not woken.done() for _, _, woken in self._sleepers)


class ApprovalTool(Tool):
    """Asks a person whatever the policy says, and counts its runs."""

    approval = "always"

    def __init__(self, name: str = "gated", output: str = "done") -> None:
        self.name = name
        self.description = "a tool that a person has to approve"
        self.parameters = {"type": "object", "properties": {}}
        self.output = output
        self.runs: list[Mapping[str, Any]] = []

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Count the run."""
        self.runs.append(arguments)
        return self.output
