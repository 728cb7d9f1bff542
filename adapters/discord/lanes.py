"""Taking in what the gateway sends: in the order of arrival per channel, each thing until it is stored.

Discord does not send anything again once it was received, so what could not be stored stays here and is tried again;
what follows it in its channel waits. If the process ends meanwhile, the channel's history has it. The last message of
a channel that counts as seen is the last one that was stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from adapters.contract import Environment

log = logging.getLogger("pilothouse.discord")

FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 30.0
MOST_WAITING = 1000
"""Things that wait in one channel; from then on its history is relied on."""

REMEMBERED = 2000

Job = Callable[[], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Lane:
    jobs: deque[Job] = field(default_factory=deque[Job])
    full: bool = False


class Lanes:
    """Runs jobs one after the other per channel. Whoever makes it calls `stop`."""

    def __init__(self, environment: Environment, fill: Callable[[str], Job]) -> None:
        """`fill` makes the job that reads from a channel's history what came after the last message seen there."""
        self._environment = environment
        self._fill = fill
        self._lanes: dict[str, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: OrderedDict[str, int] = OrderedDict()
        self.trouble: dict[str, str] = {}
        """What stands in the way, by channel."""

    def put(self, channel: str, job: Job) -> None:
        """Do it after all that was put there before."""
        lane = self._lanes.get(channel)
        if lane is None:
            lane = self._lanes[channel] = _Lane()
            task = asyncio.create_task(self._work(channel, lane), name=f"discord channel {channel}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(lane.jobs) < MOST_WAITING:
            lane.jobs.append(job)
        elif not lane.full:
            lane.full = True
            lane.jobs.append(self._fill(channel))

    def saw(self, channel: str, message: str) -> None:
        """The message is stored, as is all that was said before it in the channel."""
        self._seen[channel] = max(int(message), self._seen.get(channel, 0))
        self._seen.move_to_end(channel)
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def seen(self, channel: str) -> str | None:
        """The last message of the channel that was stored."""
        last = self._seen.get(channel)
        return str(last) if last is not None else None

    def fill_gaps(self) -> None:
        """Events were lost: let every channel that we know read its history before what comes now."""
        for channel in list(self._seen):
            self.put(channel, self._fill(channel))

    async def stop(self) -> None:
        """End all work; on return none runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lanes.clear()
        self.trouble.clear()

    async def _work(self, channel: str, lane: _Lane) -> None:
        while lane.jobs:
            await self._until_done(channel, lane.jobs[0])
            lane.jobs.popleft()
            if not lane.jobs:
                lane.full = False
        del self._lanes[channel]

    async def _until_done(self, channel: str, job: Job) -> None:
        failures = 0
        while True:
            try:
                await job()
            except Exception as error:  # noqa: BLE001 - it was not taken in, for whatever reason, and is tried again
                failures += 1
                self.trouble[channel] = f"what came could not be stored ({type(error).__name__}: {error})"
                log.warning("channel %s: %s", channel, self.trouble[channel])
            else:
                self.trouble.pop(channel, None)
                return
            await self._environment.sleep(min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10), LAST_PAUSE_SECONDS))
