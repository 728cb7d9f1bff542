"""What becomes of due times: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.schedules.calendar import due, next_after
from gateway.schedules.schedule import Misfire, Overlap, Plan, RunState, Schedule, run_key

GRACE_MS = 60_000
"""A run that begins no later than this after its time is on time."""

HORIZON_MS = 8 * 24 * 3600 * 1000
"""Due times that were missed longer ago are accounted for by one row together."""

ALERT_AFTER = 2
ALERT_EVERY_MS = 3600 * 1000
PAUSE_AFTER = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A row to be made for a due time."""

    due_at_ms: int
    state: RunState
    reason: str = ""
    not_before_ms: int = 0
    covers_until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Every due time up to now with what becomes of it, and where the schedule stands then."""

    runs: tuple[NewRun, ...]
    accounted_until_ms: int
    next_due_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Rows of a schedule that are not final."""

    waiting: int = 0
    running: int = 0


def claim(schedule: Schedule, now_ms: int, open_rows: Open, spread_ms: int = 0) -> Claim:
    """Account for every due time up to `now_ms`.

    A late one begins `spread_ms` later than it could, so that not everything that was missed begins at once.
    """
    plan, since_ms = schedule.plan, schedule.accounted_until_ms
    horizon_ms = now_ms - HORIZON_MS
    runs = _long_ago(schedule, horizon_ms)
    found = due(plan.calendar, max(since_ms, horizon_ms), now_ms)
    runs += _recent(schedule, found, now_ms, open_rows, spread_ms)
    accounted_ms = max([since_ms, *(run.covers_until_ms or run.due_at_ms for run in runs)])
    return Claim(runs=tuple(runs), accounted_until_ms=accounted_ms, next_due_ms=next_after(plan.calendar, accounted_ms))


def _long_ago(schedule: Schedule, horizon_ms: int) -> list[NewRun]:
    first = next_after(schedule.plan.calendar, schedule.accounted_until_ms)
    if first is None or first > horizon_ms:
        return []
    return [NewRun(due_at_ms=first, state=RunState.MISSED, reason="long ago", covers_until_ms=horizon_ms)]


def _recent(schedule: Schedule, found: Sequence[int], now_ms: int, open_rows: Open, spread_ms: int) -> list[NewRun]:
    late = [at_ms for at_ms in found if now_ms - at_ms > GRACE_MS]
    fresh = found[len(late) :]
    caught_up = _caught_up(schedule.plan, late, bool(fresh), now_ms)
    runs: list[NewRun] = []
    waiting, running = open_rows.waiting, open_rows.running
    for at_ms in found:
        if at_ms in caught_up or at_ms in fresh:
            in_turn = at_ms in caught_up and schedule.plan.misfire is Misfire.ALL
            refusal = None if in_turn else _refusal(schedule.plan.overlap, waiting, running)
            later_ms = spread_ms if at_ms in caught_up else 0
            runs.append(_one(schedule, at_ms, refusal, now_ms + later_ms))
            waiting += refusal is None
        else:
            runs.append(NewRun(due_at_ms=at_ms, state=RunState.MISSED, reason="nobody was there"))
    return runs


def _caught_up(plan: Plan, late: Sequence[int], fresh: bool, now_ms: int) -> frozenset[int]:
    """The late due times that run after all."""
    match plan.misfire:
        case Misfire.SKIP:
            return frozenset()
        case Misfire.LATEST:
            return frozenset() if fresh else frozenset(late[-1:])
        case Misfire.ALL:
            young = [at_ms for at_ms in late if now_ms - at_ms <= plan.catch_up_seconds * 1000]
            return frozenset(young[-plan.catch_up_runs :])


def _refusal(overlap: Overlap, waiting: int, running: int) -> str | None:
    match overlap:
        case Overlap.ALLOW:
            return None
        case Overlap.SKIP:
            return "an earlier run still went on" if waiting + running else None
        case Overlap.QUEUE_ONE:
            return "another one waited already" if waiting else None


def _one(schedule: Schedule, at_ms: int, refusal: str | None, now_ms: int) -> NewRun:
    if refusal is not None:
        return NewRun(due_at_ms=at_ms, state=RunState.SKIPPED, reason=refusal)
    begin_ms = now_ms + jitter_ms(schedule.id, at_ms, schedule.plan.jitter_seconds)
    return NewRun(due_at_ms=at_ms, state=RunState.WAITING, not_before_ms=begin_ms)


def jitter_ms(schedule_id: int, due_at_ms: int, jitter_seconds: int) -> int:
    """How much later than due a run begins: evenly spread, and the same whoever asks."""
    if jitter_seconds == 0:
        return 0
    digest = hashlib.sha256(run_key(schedule_id, due_at_ms).encode()).digest()
    return int.from_bytes(digest[:8], "big") % (jitter_seconds * 1000 + 1)


def may_begin(overlap: Overlap, running: int) -> bool:
    """Whether a waiting run of a schedule may begin, beside those of it that run."""
    return overlap is Overlap.ALLOW or running == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How often a schedule has failed in a row, when people were told, and what they are to be told now."""

    failures: int
    alerted_at_ms: int | None
    say: str | None = None
    pause: bool = False


def after_failure(failures: int, alerted_at_ms: int | None, now_ms: int) -> Standing:
    """One more failure: an alert from the second in a row on, at most one in an hour; the tenth pauses."""
    failures += 1
    if failures >= PAUSE_AFTER:
        return Standing(failures=failures, alerted_at_ms=now_ms, say="cron.paused_by_failures", pause=True)
    quiet = alerted_at_ms is not None and now_ms - alerted_at_ms < ALERT_EVERY_MS
    if failures < ALERT_AFTER or quiet:
        return Standing(failures=failures, alerted_at_ms=alerted_at_ms)
    return Standing(failures=failures, alerted_at_ms=now_ms, say="cron.alert")


def after_success(alerted_at_ms: int | None) -> Standing:
    """It works: said once, if people were told that it did not."""
    return Standing(failures=0, alerted_at_ms=None, say=None if alerted_at_ms is None else "cron.recovered")
