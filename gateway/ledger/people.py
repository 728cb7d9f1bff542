"""Display names, and who claimed the gateway. Names are for people to read; nothing compares them."""

from __future__ import annotations

from gateway.ledger.database import Database, Rows
from runtime.errors import CheckpointError
from runtime.store.writer import Statement


def seen(principal: str, name: str, now_ms: int) -> Statement:
    """Remember under which name a person was seen last."""
    return Statement(
        "INSERT INTO people (principal, name, seen_at_ms) VALUES (?, ?, ?)"
        " ON CONFLICT (principal) DO UPDATE SET name = excluded.name, seen_at_ms = excluded.seen_at_ms",
        (principal, name, now_ms),
    )


async def name_of(database: Database, principal: str) -> str | None:
    """The name under which a person was seen last, or None."""
    rows = await database.read("SELECT name FROM people WHERE principal = ?", (principal,))
    return rows[0][0] if rows else None


class AlreadyClaimed(CheckpointError):
    """There is an owner by code; nothing was written."""


def _already_claimed() -> Exception:
    return AlreadyClaimed("the gateway has an owner by code already; nothing was written")


def claim(principal: str, name: str, now_ms: int) -> Statement:
    """Make `principal` the owner by code. AlreadyClaimed if there is one, and nothing of the transaction stays."""
    return Statement(
        "INSERT INTO claimed_owners (principal, name, claimed_at_ms)"
        " SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM claimed_owners)",
        (principal, name, now_ms),
        expect_rows=1,
        error=_already_claimed,
    )


def give_up_claims() -> Statement:
    """Nobody is an owner by code any more."""
    return Statement("DELETE FROM claimed_owners")


async def claimed_owners(database: Rows) -> frozenset[str]:
    """Who became an owner by code: nobody, or one."""
    return frozenset(row[0] for row in await database.read("SELECT principal FROM claimed_owners"))
