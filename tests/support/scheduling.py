"""Schedules on a real database and a fake clock, with sessions in memory whose turns end when a test says so."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from adapters.contract import Place
from gateway.access import Policy
from gateway.schedules import ledger
from gateway.schedules.alarm import ClockAlarm
from gateway.schedules.calendar import next_after
from gateway.schedules.means import Means, Settings
from gateway.schedules.runner import Runner
from gateway.schedules.schedule import Run, Schedule
from gateway.schedules.wishes import Usual, new_plan, read
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol import events, ops
from runtime.protocol.checkpoint import ExecutionRecord, Receipt
from runtime.protocol.events import Event
from runtime.store.base import EventPage, ExecutionPage
from tests.support.intake import ANN_PRIVATE, OWNER, FakeSessions, Stage, stage

DAY, HOUR, MINUTE = 86_400, 3600, 60
START_MS = 1_800_000_000_000
"""Friday 2027-01-15 08:00 UTC: where the fake clock begins."""


class FakeRuns(FakeSessions):
    """Sessions in memory, and what they have done."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.records: dict[str, list[ExecutionRecord]] = {}
        self.events: dict[str, list[Event]] = {}
        self.at_once: str | None = None

    async def submit(self, session_id: str, op: ops.Op, submission_id: str | None = None) -> Receipt:
        """With `at_once`, each turn ends in the moment in which it begins, like that."""
        known = submission_id in self.receipts
        receipt = await super().submit(session_id, op, submission_id)
        if isinstance(op, ops.Message) and not known and self.at_once is not None:
            self.end(session_id, self.at_once)
        if isinstance(op, ops.Interrupt) and receipt.status == "accepted":
            self._note(session_id, "aborted", "interrupted", op.by)
        return receipt

    async def execution_page(self, session_id: str, before: int | None = None, limit: int = 100) -> ExecutionPage:
        """Every turn that ended."""
        return ExecutionPage(executions=tuple(reversed(self.records.get(session_id, []))), next_before=None)

    async def event_page(
        self, session_id: str, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> EventPage:
        """Every event."""
        found = tuple(reversed(self.events.get(session_id, [])))
        return EventPage(events=found, next_before=None, latest_sequence=len(found))

    def end(self, session_id: str, outcome: str = "completed", reason: str = "broken", by: str | None = None) -> None:
        """The turn that runs ends."""
        self._note(session_id, outcome, reason, by)
        self.finish(session_id)

    def _note(self, session_id: str, outcome: str, reason: str, by: str | None) -> None:
        session = self.session(session_id)
        turn_id = f"{session.id}.t{session.turns}"
        submission = session.turn.submission_id if session.turn is not None else session_id
        now = self.clock.now_ms()
        record = ExecutionRecord(
            turn_id=turn_id,
            submission_id=submission,
            started_at_ms=now,
            ended_at_ms=now,
            outcome=outcome,  # type: ignore[arg-type]
        )
        self.records.setdefault(session_id, []).append(record)
        msg: events.EventMsg = events.TurnComplete(turn_id=turn_id, last_assistant_message="ok")
        if outcome != "completed":
            kind = "failed" if outcome == "failed" else "aborted"
            msg = events.TurnAborted(turn_id=turn_id, reason=reason, outcome=kind, by=by)
        noted = self.events.setdefault(session_id, [])
        noted.append(Event(sequence=len(noted) + 1, submission_id=submission, recorded_at_ms=now, msg=msg))

    @property
    def going_on(self) -> list[str]:
        """Sessions with a turn."""
        return [one.id for one in self.sessions.values() if one.turn is not None]

    def fired(self) -> list[str]:
        """Session ids of runs whose words were submitted and counted, in order."""
        seen: dict[str, None] = {}
        for session_id, op, _ in self.submitted:
            if isinstance(op, ops.Message):
                seen.setdefault(session_id)
        return list(seen)


class Timetable:
    """A runner, and a person who makes schedules."""

    def __init__(self, s: Stage, settings: Settings, *, faults: Faults = NO_FAULTS, owner: str = "p1") -> None:
        self.stage = s
        self.clock = s.clock
        self.database = s.database
        self.sessions: Any = s.sessions
        self.settings = settings
        self.told_owner: list[str] = []
        self.places: Any = s.places
        self.journal: Any = s.sessions
        self.runner = self.another(owner, faults=faults)

    def another(self, owner: str, *, faults: Faults = NO_FAULTS, alone: bool = True, sessions: Any = None) -> Runner:
        """A runner as another process would have it."""
        chosen = sessions or self.sessions
        return Runner(
            Means(
                database=self.database,
                sessions=chosen,
                journal=chosen if sessions is not None else self.journal,
                places=self.places,
                access=self.stage.access,
                wake=self.stage.outbox.wake,
                tell_owner=self._tell_owner,
                clock=self.clock,
                alarm=ClockAlarm(self.clock),
                owner=owner,
                alone=alone,
                settings=lambda: self.settings,
                faults=faults,
            )
        )

    async def _tell_owner(self, text: str) -> None:
        self.told_owner.append(text)

    async def add(self, text: str, *, by: str = OWNER, target: Place = ANN_PRIVATE, key: str | None = None) -> Schedule:
        """Make a schedule, as a person would write it."""
        now = self.clock.now_ms()
        plan = new_plan(read(text), Usual(zone="UTC", target=target, workspace="notes", now_ms=now), None)
        name = key or f"t:{self.stage.key()}"
        statement = ledger.create(plan, key=name, by=by, now_ms=now, next_due_ms=next_after(plan.calendar, now))
        await self.database.write([statement])
        made = await ledger.by_key(self.database, name)
        assert made is not None
        return made

    async def at(self, seconds: float) -> None:
        """Time passes, and the runner looks."""
        self.clock.advance(seconds)
        await self.runner.look()

    async def schedule(self, schedule: Schedule) -> Schedule:
        """As it is now."""
        found = await ledger.by_id(self.database, schedule.id)
        assert found is not None
        return found

    async def runs(self, schedule: Schedule) -> list[Run]:
        """Its runs, the oldest first."""
        return list(reversed(await ledger.history(self.database, schedule.id, 1_000_000)))

    async def states(self, schedule: Schedule) -> list[str]:
        """Their states."""
        return [str(run.state) for run in await self.runs(schedule)]

    async def finish_all(self, outcome: str = "completed", **fields: Any) -> None:
        """Every turn that runs ends, and the runner sees it."""
        for session_id in self.sessions.going_on:
            self.sessions.end(session_id, outcome, **fields)
        await self.runner.look()


@contextlib.asynccontextmanager
async def timetable(
    folder: Path, *, policy: Policy | None = None, settings: Settings | None = None, faults: Faults = NO_FAULTS
) -> AsyncIterator[Timetable]:
    """A timetable over a stage; by default Ann is the owner and Bob a user."""
    async with stage(folder, policy) as s:
        s.sessions = FakeRuns(s.clock)
        await s.restart()
        yield Timetable(s, settings or Settings(spread_seconds=0), faults=faults)
