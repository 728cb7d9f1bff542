"""Carries out what is due: claims it, begins it, sees how it comes out. One loop, one task, no truth of its own.

Each pass reads the ledger and moves rows; every move is a compare-and-set, so a pass that dies anywhere is repaired by
the next one, in this process or another, and a second process does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from gateway.schedules import beginning, ending, ledger
from gateway.schedules.beginning import LEASE_MS, CannotOpen
from gateway.schedules.decisions import GRACE_MS, Open, claim
from gateway.schedules.ending import End
from gateway.schedules.ledger import Overtaken
from gateway.schedules.means import Means
from gateway.schedules.schedule import Run, RunState, Schedule
from runtime.protocol import events
from runtime.protocol.events import Event

log = logging.getLogger("pilothouse.schedules")

BATCH = 500
"""Schedules that are claimed in one go: their transactions share commits."""

LONGEST_SPREAD_MS = 10 * 60 * 1000
TRIM_EVERY_MS = 3600 * 1000


class Runner:
    """Runs schedules. `run` is owned by the application's task group; `wake` after anything was changed."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._submitted: set[int] = set()
        self._to_abort: dict[str, tuple[str, str]] = {}
        self._trimmed_at_ms = 0
        self._next_ms: int | None = None

    def wake(self) -> None:
        """Something was changed, and is committed."""
        self._means.alarm.wake()

    def stored(self, session_id: str, stored: Sequence[Event]) -> None:
        """The session has stored events; the end of a turn is what may be waited for."""
        ends = (events.TurnComplete, events.TurnAborted, events.ApprovalRequested, events.ApprovalResolved)
        if session_id.startswith("cron:") and any(isinstance(event.msg, ends) for event in stored):
            self.wake()

    def abort(self, session_id: str, turn_id: str, reason: str) -> None:
        """End the run's turn, soon; it has failed for that reason."""
        self._to_abort[session_id] = (turn_id, reason)
        self.wake()

    async def run(self) -> None:
        """Carry out what is due until cancelled. A store that refuses is tried again."""
        try:
            while True:
                await self.look()
                await self._means.alarm.sleep(self._next_ms)
        finally:
            self._means.alarm.close()

    async def look(self) -> None:
        """One pass: everything that can be done now is done. Nothing raises but cancellation."""
        self._next_ms = None
        for part in (
            self._take_over,
            self._claim,
            self._follow,
            self._begin,
            self._settle,
            self._plan_next,
            self._trim,
        ):
            try:
                await part()
            except Overtaken:
                self._soon()
            except Exception:
                log.exception("%s of schedules failed; it is tried again", part.__name__.strip("_"))
                self._soon(5.0)

    def _soon(self, seconds: float = 0.0) -> None:
        self._at(self._means.clock.now_ms() + round(seconds * 1000))

    def _at(self, at_ms: int | None) -> None:
        if at_ms is not None:
            self._next_ms = at_ms if self._next_ms is None else min(self._next_ms, at_ms)

    # ---------------------------------------------------------------------------------------------------------- claim

    async def _claim(self) -> None:
        """Give every due time its row."""
        spread_ms = 0
        now_ms = self._means.clock.now_ms()
        while found := await ledger.due_now(self._means.database, now_ms, BATCH):
            open_rows = await ledger.open_rows(self._means.database, [one.id for one in found])
            self._means.faults.reach("schedule.claim.before")
            writes: list[Awaitable[None]] = []
            for schedule in found:
                late = schedule.next_due_ms is not None and now_ms - schedule.next_due_ms > GRACE_MS
                if late:
                    spread_ms = min(spread_ms + self._spread_ms, LONGEST_SPREAD_MS)
                rows = open_rows.get(schedule.id, Open())
                writes.append(self._claim_one(schedule, rows, now_ms, spread_ms - self._spread_ms if late else 0))
            await _all(writes)
            self._means.faults.reach("schedule.claim.after")

    @property
    def _spread_ms(self) -> int:
        return round(self._means.settings().spread_seconds * 1000)

    async def _claim_one(self, schedule: Schedule, rows: Open, now_ms: int, spread_ms: int) -> None:
        unit = ledger.claimed(schedule, claim(schedule, now_ms, rows, spread_ms), now_ms)
        await self._means.database.write(unit)

    # ---------------------------------------------------------------------------------------------------------- begin

    async def _begin(self) -> None:
        """Begin what waits, as far as there is room. One that waits for a person takes none."""
        busy = await self._busy()
        room = self._means.settings().runs_at_once - busy
        while room > 0:
            found = await ledger.waiting(self._means.database, self._means.clock.now_ms(), room)
            if not found:
                return
            await _all([self._begin_one(run, schedule) for run, schedule in found])
            room = self._means.settings().runs_at_once - await self._busy()

    async def _busy(self) -> int:
        mine = [run for run, _ in await ledger.running(self._means.database) if run.owner == self._means.owner]
        return sum([not await self._waits_for_people(run) for run in mine])

    async def _waits_for_people(self, run: Run) -> bool:
        assert run.session_id is not None
        checkpoint = await self._means.sessions.peek(run.session_id)
        approval = None if checkpoint is None else checkpoint.pending_approval
        return approval is not None and approval.decision is None

    async def _begin_one(self, run: Run, schedule: Schedule) -> None:
        try:
            begun = await beginning.begin(self._means, run, schedule)
        except CannotOpen as error:
            await self._close(run, schedule, End(state=RunState.FAILED, reason=str(error)))
            return
        if begun is not None:
            await self._submit(begun, schedule)

    async def _submit(self, run: Run, schedule: Schedule) -> bool:
        try:
            await beginning.submit(self._means, run, schedule)
        except CannotOpen as error:
            await self._close(run, schedule, End(state=RunState.FAILED, reason=str(error)))
            return False
        self._submitted.add(run.id)
        return True

    async def _close(self, run: Run, schedule: Schedule, end: End) -> None:
        await ending.close(self._means, run, schedule, end)
        self._submitted.discard(run.id)

    # --------------------------------------------------------------------------------------------------------- follow

    async def _take_over(self) -> None:
        """Go on with what a process that is gone had begun."""
        now_ms = self._means.clock.now_ms()
        for run, _ in await ledger.running(self._means.database):
            gone = self._means.alone or run.lease_until_ms <= now_ms
            if run.owner != self._means.owner and gone:
                await self._means.database.write([ledger.taken_over(run, self._means.owner, now_ms + LEASE_MS)])
        if not self._means.alone:
            await self._means.database.write([ledger.renewed(self._means.owner, now_ms + LEASE_MS)])

    async def _follow(self) -> None:
        """See to the runs that go on."""
        mine: dict[int, list[Run]] = {}
        for run, _ in await ledger.running(self._means.database):
            if run.owner == self._means.owner:
                mine.setdefault(run.schedule_id, []).append(run)
        await _all([self._follow_in_turn(runs) for runs in mine.values()])

    async def _follow_in_turn(self, runs: Sequence[Run]) -> None:
        for run in runs:
            await self._follow_one(run)

    async def _follow_one(self, run: Run) -> None:
        # Read anew: a run of the same schedule that ended a moment ago has changed what follows from this one.
        assert run.session_id is not None
        job = await ledger.run_of_session(self._means.database, run.session_id)
        if job is None or job[0].state is not RunState.RUNNING:
            return
        run, schedule = job
        if run.id not in self._submitted and not await self._submit(run, schedule):
            return
        if run.session_id in self._to_abort:
            await ending.interrupt(self._means, run, *self._to_abort.pop(run.session_id))
            self._soon(0.1)
            return
        end = await ending.look(self._means, run)
        if end is None:
            self._at(await ending.enforce_time_limit(self._means, run, schedule))
            return
        await self._close(run, schedule, end)

    async def _settle(self) -> None:
        """See which results arrived."""
        for parts in await ledger.on_their_way(self._means.database):
            await ending.settle_result(self._means, parts)

    # ----------------------------------------------------------------------------------------------------------- rest

    async def _plan_next(self) -> None:
        self._at(await ledger.next_due_ms(self._means.database))
        waiting_ms = await ledger.next_waiting_ms(self._means.database)
        if waiting_ms is not None and waiting_ms > self._means.clock.now_ms():
            self._at(waiting_ms)  # one that could begin and did not waits for another to end, which wakes us

    async def _trim(self) -> None:
        now_ms = self._means.clock.now_ms()
        if now_ms - self._trimmed_at_ms >= TRIM_EVERY_MS:
            await ledger.trim(self._means.database, self._means.settings().history)
            self._trimmed_at_ms = now_ms


async def _all(works: list[Awaitable[None]]) -> None:
    """Do all of it; what failed is raised once the rest is done, an overtaken one only if nothing else failed."""
    failures = [one for one in await asyncio.gather(*works, return_exceptions=True) if isinstance(one, BaseException)]
    for failure in sorted(failures, key=lambda one: isinstance(one, Overtaken)):
        raise failure
