"""Which sessions keep which files."""

from __future__ import annotations

from gateway.ledger.database import Database, Rows
from runtime.store.writer import Statement

DAY_MS = 24 * 3600 * 1000


def kept(session_id: str, sha256: str, size: int, principal: str | None, now_ms: int) -> Statement:
    """The session keeps the file; to say it again changes nothing."""
    return Statement(
        "INSERT INTO session_files (session_id, sha256, principal, size, at_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (session_id, sha256, principal, size, now_ms),
    )


async def bytes_of_day(database: Rows, principal: str, now_ms: int) -> int:
    """How much a person has sent in the last 24 hours."""
    sql = "SELECT COALESCE(SUM(size), 0) FROM session_files WHERE principal = ? AND at_ms > ?"
    rows = await database.read(sql, (principal, now_ms - DAY_MS))
    return int(rows[0][0])


async def forget_gone_sessions(database: Database, before_ms: int) -> None:
    """Files of deleted sessions are kept by nobody any more. A session that is about to begin has young ones."""
    gone = "DELETE FROM session_files WHERE session_id NOT IN (SELECT session_id FROM sessions) AND at_ms < ?"
    await database.write([Statement(gone, (before_ms,))])


async def all_kept(database: Rows) -> frozenset[str]:
    """Every content that some session keeps."""
    return frozenset(row[0] for row in await database.read("SELECT DISTINCT sha256 FROM session_files"))
