"""What may be removed as time passes, and how far. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.store import queries
from runtime.store.writer import Row, Statement

DAY_MS = 24 * 60 * 60 * 1000
RECEIPT_DAYS = 30
"""A submission may be repeated for so long and is recognised."""
GRANT_DAYS = 30
"""A grant that ended is listed no more, and kept for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """What a journal may hold: events of `max_age_ms`, and `max_events` of them. None means no limit."""

    max_age_ms: int | None = None
    max_events: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_age_ms", "max_events"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """One session's journal. Sequences are None where there is no such event."""

    session_id: str
    latest: int
    first: int | None
    first_recent: int | None
    active: bool
    turn_began: int | None
    cursors: int
    lowest_cursor: int | None


def removable(journal: JournalState, limits: JournalLimits, consumers: int) -> int:
    """The sequence up to which (inclusive) events may go; 0 for none.

    Kept is what a cursor has not passed, and everything of a turn that runs, so also of an approval that waits. A
    consumer without a cursor here has read nothing yet.
    """
    if journal.first is None:
        return 0
    too_old = journal.latest if journal.first_recent is None else journal.first_recent - 1
    too_many = journal.latest - limits.max_events if limits.max_events is not None else 0
    wanted = max(too_old if limits.max_age_ms is not None else 0, too_many)
    read = journal.latest if consumers == 0 else (journal.lowest_cursor or 0) if journal.cursors == consumers else 0
    settled = journal.latest if not journal.active else (journal.turn_began or 1) - 1
    return max(0, min(wanted, read, settled))


def journal_state(row: Row) -> JournalState:
    """A row of READ_JOURNAL_STATES."""
    session_id, latest, first, first_recent, active, turn_began, cursors, lowest = row
    return JournalState(
        session_id=session_id,
        latest=latest,
        first=first,
        first_recent=first_recent,
        active=bool(active),
        turn_began=turn_began,
        cursors=cursors,
        lowest_cursor=lowest,
    )


def expired(now_ms: int) -> list[Statement]:
    """Statements that remove receipts and grants past their time, and claims of sessions that were never saved."""
    return [
        Statement(queries.PRUNE_RECEIPTS, (now_ms - RECEIPT_DAYS * DAY_MS,)),
        Statement(queries.PRUNE_GRANTS, (now_ms - GRANT_DAYS * DAY_MS,)),
        Statement(queries.PRUNE_CLAIMS, (now_ms - DAY_MS,)),
    ]
