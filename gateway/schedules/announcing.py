"""What a run says in the chat: whether, and under which head. Pure, but for reading the ledger."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.ledger.database import Database
from gateway.schedules import ledger
from gateway.schedules.calendar import duration, instant_words
from gateway.schedules.decisions import GRACE_MS
from gateway.schedules.schedule import Announce, Run, Schedule, Shown
from gateway.strings import say
from runtime.store.writer import Statement

NOTHING_NEW = "NOTHING_NEW"
"""What an agent answers, alone, if there is nothing worth telling; only where a schedule announces changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """Of the end of a run's own turn. `head` goes above the result; with `quiet` nothing is said at all.

    `statements` belong into the transaction that plans the parts.
    """

    head: str | None
    quiet: bool
    statements: Sequence[Statement]


async def announcement(
    database: Database, session_id: str, message_id: str | None, text: str | None, *, failed: bool
) -> Announcement | None:
    """What is said at the end of a turn; None where the turn is no run's own."""
    if message_id != session_id or not session_id.startswith("cron:"):
        return None
    job = await ledger.run_of_session(database, session_id)
    if job is None:
        return None
    run, schedule = job
    digest = None if failed else digest_of(text or "")
    before = await ledger.digest_before(database, run) if schedule.plan.announce is Announce.ON_CHANGE else None
    quiet = is_quiet(schedule.plan.announce, text or "", digest, before, failed=failed) and not run.by_hand
    shown = Shown.SILENT if quiet else Shown.PLANNED
    kept = await ledger.recipe_of_session(database, session_id)
    head = None if kept is not None and kept.threaded else head_of(schedule, run)
    return Announcement(head=head, quiet=quiet, statements=(ledger.told(session_id, shown, digest),))


def is_quiet(announce: Announce, text: str, digest: str | None, before: str | None, *, failed: bool) -> bool:
    """Whether the end of a run is kept quiet."""
    match announce:
        case Announce.ALWAYS:
            return False
        case Announce.ON_FAILURE:
            return not failed
        case Announce.ON_CHANGE:
            return failed or text.strip() in ("", NOTHING_NEW) or digest == before


def digest_of(text: str) -> str:
    """The same for texts that read the same."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


def head_of(schedule: Schedule, run: Run) -> str:
    """`⏰ cron · Morning report · run 14 · Workspace: Notes · late by 2 hours · next Mon 2027-01-18 09:00 CET`."""
    plan = schedule.plan
    parts = [say("cron.head", origin=plan.origin, n=run.number or schedule.runs + 1)]
    if run.workspace_label:
        parts.append(say("card.workspace", label=run.workspace_label))
    late_ms = 0 if run.by_hand or run.started_at_ms is None else run.started_at_ms - run.due_at_ms
    if late_ms > GRACE_MS + plan.jitter_seconds * 1000:
        parts.append(say("cron.late", by=duration(late_ms // 60_000 * 60)))
    if schedule.next_due_ms is not None:
        parts.append(say("cron.next", at=instant_words(schedule.next_due_ms, plan.calendar.zone)))
    return " · ".join(parts)


def as_markdown(text: str) -> str:
    """Words of ours as they are, where an answer's markup is read."""
    return re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", text)
