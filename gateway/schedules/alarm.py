"""What wakes the runner: at the next instant that is known, when told to, and every so often in any case.

The alarm decides nothing. Whoever wakes looks at the ledger and at the clock; an alarm that rings early, late, twice or
after the clock was set changes nothing but the time of that look.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Protocol, cast

from runtime.clock import Clock

LOOK_EVERY_SECONDS = 20.0
"""The longest sleep: a clock that was set, a machine that slept and another process's change are noticed by then."""


class Alarm(Protocol):
    """Rings for one sleeper."""

    def wake(self) -> None:
        """Ring now; also while nobody sleeps: then the next sleep is none."""
        ...

    async def sleep(self, until_ms: int | None) -> None:
        """Return at that instant of the machine's clock, when woken, or after `LOOK_EVERY_SECONDS`."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class ClockAlarm:
    """An alarm on the clock that is passed in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rings = asyncio.Event()

    def wake(self) -> None:
        """See `Alarm`."""
        self._rings.set()

    async def sleep(self, until_ms: int | None) -> None:
        """See `Alarm`."""
        seconds = LOOK_EVERY_SECONDS
        if until_ms is not None:
            seconds = min(seconds, max(0.0, (until_ms - self._clock.now_ms()) / 1000))
        told, timer = asyncio.ensure_future(self._rings.wait()), asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({told, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
            timer.cancel()
            await asyncio.gather(told, timer, return_exceptions=True)
        self._rings.clear()

    def close(self) -> None:
        """See `Alarm`."""


class SchedulerAlarm:
    """An alarm that APScheduler rings, from memory: its jobs are timers, and no truth about any schedule.

    No grace and none of its jitter: late is when the ledger says so.
    """

    def __init__(self) -> None:
        self._rings = asyncio.Event()
        self.scheduler: Any = None
        self._next: Any = None

    def wake(self) -> None:
        """See `Alarm`."""
        self._rings.set()

    async def sleep(self, until_ms: int | None) -> None:
        """See `Alarm`."""
        if self.scheduler is None:
            await asyncio.to_thread(importlib.import_module, "apscheduler.schedulers.asyncio")  # it takes its time
            self.scheduler, self._next = _scheduler(self._rings.set)
        if until_ms is not None:
            self._next(until_ms)
        await self._rings.wait()
        self._rings.clear()

    def close(self) -> None:
        """See `Alarm`."""
        if self.scheduler is not None:
            self.scheduler.shutdown(wait=False)
            self.scheduler = None


def _scheduler(ring: Any) -> tuple[Any, Any]:
    """The scheduler with its one job, and what sets when that rings next."""
    # It costs as much to import as half of the gateway, and tells no types.
    from datetime import UTC, datetime, timedelta

    from apscheduler.executors.base import BaseExecutor  # pyright: ignore[reportUnknownVariableType]
    from apscheduler.schedulers.asyncio import AsyncIOScheduler
    from apscheduler.triggers.base import BaseTrigger

    class Ring(BaseExecutor):  # pyright: ignore[reportUntypedBaseClass]
        """Rings at once, on the loop: there is nothing else to run."""

        def _do_submit_job(self, job: Any, run_times: Any) -> None:
            ring()
            cast(Any, self)._run_job_success(job.id, [])

    class NextLook(BaseTrigger):  # pyright: ignore[reportUntypedBaseClass]
        """The next look, if no due time comes before it."""

        def get_next_fire_time(self, previous_fire_time: Any, now: datetime) -> Any:
            return now + timedelta(seconds=LOOK_EVERY_SECONDS)

    made: Any = AsyncIOScheduler(
        timezone=UTC,
        executors={"default": Ring()},
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    made.start()
    job: Any = made.add_job(ring, NextLook(), id="schedules")

    def at(until_ms: int) -> None:
        now = datetime.now(UTC)
        latest = now + timedelta(seconds=LOOK_EVERY_SECONDS)
        job.modify(next_run_time=min(latest, max(now, datetime.fromtimestamp(until_ms / 1000, UTC))))

    return made, at
