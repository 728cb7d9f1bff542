"""Who did what: rows that are only ever added, each bound to all before it by a hash.

A row is written in the transaction of what it tells of. Its hash is added soon after, by `seal`, in the order of the
rows: transactions that run side by side need not wait for one another, and a row that was removed or changed meanwhile
still shows, since ids have no gaps.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from adapters.contract import Place
from gateway.ledger.database import Database, Row
from runtime.clock import Clock
from runtime.errors import CheckpointError
from runtime.protocol.context import JsonValue
from runtime.store.writer import Statement

log = logging.getLogger(__name__)

GENESIS = "0" * 64
SEAL_SECONDS = 30.0
_BATCH = 500

_CONTENT = (
    "at_ms, kind, principal, platform, account, chat, thread, session_id, turn_id, request_id, workspace_label,"
    " origin_label, detail"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an audit row is about, as far as it is known."""

    place: Place | None = None
    session_id: str | None = None
    turn_id: str | None = None
    request_id: str | None = None
    workspace_label: str | None = None
    origin_label: str | None = None


NOTHING = Subject()


def audit_statement(
    at_ms: int,
    kind: str,
    *,
    principal: str | None = None,
    subject: Subject = NOTHING,
    detail: Mapping[str, JsonValue] | None = None,
) -> Statement:
    """Add a row. `kind` is a past participle (`refused`, `pressed`, `decided`, …); `detail` must be free of secrets."""
    marks = ", ".join("?" * 13)
    return Statement(
        f"INSERT INTO audit ({_CONTENT}) VALUES ({marks})",  # noqa: S608
        _values(at_ms, kind, principal, subject, detail),
    )


def refused_statement(
    at_ms: int, principal: str, subject: Subject, detail: Mapping[str, JsonValue], *, quiet_ms: int
) -> Statement:
    """Add a row of kind `refused`, unless this principal has one that is younger than `quiet_ms`; returns its id."""
    marks = ", ".join("?" * 13)
    return Statement(
        f"INSERT INTO audit ({_CONTENT}) SELECT {marks} WHERE NOT EXISTS"  # noqa: S608
        " (SELECT 1 FROM audit WHERE kind = 'refused' AND principal = ? AND at_ms > ?) RETURNING id",
        (*_values(at_ms, "refused", principal, subject, detail), principal, at_ms - quiet_ms),
        fetch=True,
    )


def _values(
    at_ms: int, kind: str, principal: str | None, subject: Subject, detail: Mapping[str, JsonValue] | None
) -> tuple[JsonValue, ...]:
    place = subject.place
    where = (place.platform, place.account, place.chat, place.thread) if place else (None, None, None, None)
    about = (subject.session_id, subject.turn_id, subject.request_id, subject.workspace_label, subject.origin_label)
    return (at_ms, kind, principal, *where, *about, msgspec.json.encode(detail or {}, order="sorted").decode())


def _hash(prev: str, row: Row) -> str:
    return hashlib.sha256(prev.encode() + msgspec.json.encode(row)).hexdigest()


async def seal(database: Database) -> int:
    """Bind every row that has no hash yet to those before it; returns how many there were."""
    sealed = 0
    while rows := await database.read(
        f"SELECT id, {_CONTENT} FROM audit WHERE hash IS NULL ORDER BY id LIMIT {_BATCH}"  # noqa: S608
    ):
        before = await database.read("SELECT hash FROM audit WHERE id < ? ORDER BY id DESC LIMIT 1", (rows[0][0],))
        await database.write(_links(before[0][0] if before else GENESIS, rows))
        sealed += len(rows)
    return sealed


def _links(prev: str, rows: Sequence[Row]) -> list[Statement]:
    links: list[tuple[str, str, int]] = []
    for row in rows:
        links.append((prev, _hash(prev, row), row[0]))
        prev = links[-1][1]
    sql = "UPDATE audit SET prev = ?, hash = ? WHERE id = ? AND hash IS NULL"
    return [Statement(sql, links, many=True, expect_rows=len(links))]


async def broken_at(database: Database) -> int | None:
    """The id of the first row that was changed, or before which one is missing; None: the chain is whole.

    Rows that have no hash yet are checked for gaps only.
    """
    prev: str | None = GENESIS
    expected = 1
    while rows := await database.read(
        f"SELECT id, {_CONTENT}, prev, hash FROM audit WHERE id >= ? ORDER BY id LIMIT {_BATCH}",  # noqa: S608
        (expected,),
    ):
        for row in rows:
            if row[0] != expected or (row[-1] is not None and not _follows(prev, row)):
                return expected
            prev, expected = row[-1], expected + 1
    given = await database.read("SELECT seq FROM sqlite_sequence WHERE name = 'audit'")
    return expected if given and given[0][0] >= expected else None


def _follows(prev: str | None, row: Row) -> bool:
    return prev is not None and row[-2] == prev and row[-1] == _hash(prev, row[:-2])


class Sealer:
    """Keeps the chain short of open rows; owned by the application's task group."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run(self) -> None:
        """Seal now and then, until cancelled. A store that refuses is tried again the next time."""
        while True:
            try:
                await seal(self._database)
            except CheckpointError as error:
                log.warning("audit rows could not be sealed, trying again: %s", error)
            await self._clock.sleep(SEAL_SECONDS)
