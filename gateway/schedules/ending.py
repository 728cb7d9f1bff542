"""A run is over, or is made to be: what its session did is read, and its row, its schedule and people are told."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from adapters.contract import Notice
from gateway.budget import Priority
from gateway.ledger import deliveries
from gateway.ledger.audit import Subject, audit_statement
from gateway.schedules import ledger
from gateway.schedules.calendar import duration
from gateway.schedules.decisions import Standing, after_failure, after_success
from gateway.schedules.ledger import Parts
from gateway.schedules.means import Journal, Means
from gateway.schedules.schedule import Run, RunState, Schedule, Shown, State
from gateway.strings import say
from runtime.protocol import events, ops
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord

log = logging.getLogger("pilothouse.schedules")

TIMED_OUT = "took too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run came out."""

    state: RunState
    reason: str = ""


async def look(means: Means, run: Run) -> End | None:
    """How the run came out, or None while it goes on."""
    assert run.session_id is not None, "a run that runs has its session"
    checkpoint = await means.sessions.peek(run.session_id)
    record = await _record(means.journal, run.session_id)
    if record is not None:
        return await _end(means.journal, run, record)
    if checkpoint is not None and _has_refused(checkpoint):
        return End(state=RunState.CANCELLED, reason="its creator may not use the agent any more")
    return None


def _has_refused(checkpoint: Checkpoint) -> bool:
    """The words were taken, no turn runs or waits, and none has ended."""
    return checkpoint.idle and not checkpoint.pending_messages


async def _record(journal: Journal, session_id: str) -> ExecutionRecord | None:
    """The record of the run's own turn; later ones are of people who went on there."""
    before = None
    while True:
        page = await journal.execution_page(session_id, before)
        found = next((one for one in page.executions if one.submission_id == session_id), None)
        if found is not None or page.next_before is None:
            return found
        before = page.next_before


async def _end(journal: Journal, run: Run, record: ExecutionRecord) -> End:
    if run.reason:  # it was to be ended, and its turn may have been quicker
        return End(state=RunState.FAILED, reason=run.reason)
    if record.outcome == "completed":
        return End(state=RunState.SUCCEEDED)
    aborted = await _aborted(journal, record)
    if aborted is not None and aborted.by is not None:
        return End(state=RunState.CANCELLED, reason=f"stopped by {aborted.by}")
    return End(state=RunState.FAILED, reason=aborted.reason if aborted is not None else record.outcome)


async def _aborted(journal: Journal, record: ExecutionRecord) -> events.TurnAborted | None:
    """The event of a turn's end; None where the journal was shortened."""
    assert record.submission_id is not None
    before = None
    while True:
        page = await journal.event_page(record.submission_id, before=before)
        for event in page.events:
            if isinstance(event.msg, events.TurnAborted) and event.msg.turn_id == record.turn_id:
                return event.msg
        if page.next_before is None:
            return None
        before = page.next_before


async def close(means: Means, run: Run, schedule: Schedule, end: End) -> None:
    """Store how the run came out, with what follows for its schedule and what people are told of it, once.

    Overtaken: it was closed already, or another run of the schedule ended meanwhile; look again.
    """
    now_ms = means.clock.now_ms()
    standing = _standing(schedule, end, now_ms)
    subject = Subject(
        place=schedule.plan.target,
        session_id=run.session_id,
        workspace_label=run.workspace_label,
        origin_label=run.origin_label or schedule.plan.origin,
    )
    detail = {"schedule": schedule.id, "run": run.number, "reason": end.reason}
    unit = [
        ledger.ended(run, end.state, end.reason, now_ms),
        audit_statement(now_ms, f"run_{end.state}", principal=schedule.created_by, subject=subject, detail=detail),
    ]
    if standing is not None:
        unit += [ledger.stands(schedule, standing), *_told(schedule, standing, run, end, now_ms)]
    means.faults.reach("schedule.end.before")
    await means.database.write(unit)
    means.faults.reach("schedule.end.after")
    log.info("run %s of %s: %s %s", run.session_id, schedule.plan.origin, end.state, end.reason)
    if standing is not None and standing.say is not None:
        means.wake(schedule.plan.target)


def _standing(schedule: Schedule, end: End, now_ms: int) -> Standing | None:
    match end.state:
        case RunState.FAILED:
            return after_failure(schedule.failures, schedule.alerted_at_ms, now_ms)
        case RunState.SUCCEEDED if schedule.failures:
            return after_success(schedule.alerted_at_ms)
        case _:
            return None


def _told(schedule: Schedule, standing: Standing, run: Run, end: End, now_ms: int):  # type: ignore[no-untyped-def]
    unit = (
        ledger.change_state(schedule, State.PAUSED, f"failed {standing.failures} times in a row", now_ms)
        if standing.pause and schedule.state is State.ACTIVE
        else []
    )
    if standing.say is None:
        return unit
    text = say(
        standing.say,
        name=schedule.plan.origin,
        id=schedule.id,
        n=standing.failures or schedule.failures,
        reason=end.reason,
    )
    good = end.state is RunState.SUCCEEDED
    view = Notice(text=text, level="info" if good else "warning", notify=not good)
    return [
        *unit,
        *deliveries.plan(
            source=f"cron:{schedule.id}:{run.due_at_ms}:standing",
            surface="notice",
            place=schedule.plan.target,
            views=[view],
            priority=Priority.CONTROL,
            now_ms=now_ms,
        ),
    ]


async def enforce_time_limit(means: Means, run: Run, schedule: Schedule) -> int | None:
    """End a run that takes too long; else, when it will have. Time in which a person is waited for does not count."""
    assert run.session_id is not None
    assert run.started_at_ms is not None
    checkpoint = await means.sessions.peek(run.session_id)
    active = None if checkpoint is None else checkpoint.active_execution
    approval = None if checkpoint is None else checkpoint.pending_approval
    if active is None or active.submission_id != run.session_id:
        return None
    if approval is not None and approval.decision is None:
        return None
    limit_ms = schedule.plan.timeout_seconds * 1000
    until_ms = await _counted_from(means, run.session_id, run.started_at_ms) + limit_ms
    if means.clock.now_ms() < until_ms:
        return until_ms
    await interrupt(means, run, active.turn_id, f"{TIMED_OUT} ({duration(schedule.plan.timeout_seconds)})")
    return None


async def interrupt(means: Means, run: Run, turn_id: str, reason: str) -> None:
    """End the run's turn; the run has failed for that reason, however its turn comes out."""
    assert run.session_id is not None
    await means.database.write([ledger.marked(run, reason)])
    await means.sessions.submit(run.session_id, ops.Interrupt(turn_id=turn_id), f"{run.session_id}:end:{turn_id}")


async def _counted_from(means: Means, session_id: str, started_at_ms: int) -> int:
    """The begin, or the newest decision of a person: nothing before it can have been slow of itself."""
    sql = "SELECT MAX(decided_at_ms) FROM approvals WHERE session_id = ?"
    rows = await means.database.read(sql, (session_id,))
    return max(started_at_ms, rows[0][0] or 0)


async def settle_result(means: Means, parts: Parts) -> None:
    """Store whether the result arrived, apart from how the run came out; an owner is told if it did not."""
    if parts.waiting:
        return
    shown = Shown.FAILED if parts.failed else Shown.UNKNOWN if parts.unknown else Shown.DELIVERED
    await means.database.write([ledger.arrived(parts.run, shown, parts.reason)])
    if shown is Shown.FAILED:
        text = say("cron.undelivered", name=parts.name, n=parts.run.number or 0, reason=parts.reason or "-")
        log.warning("%s", text)
        await means.tell_owner(text)
