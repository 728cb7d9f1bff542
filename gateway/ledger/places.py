"""Which session belongs to which place, and what each session was begun with.

The functions that return statements are for the caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from adapters.contract import MessageRef, Place
from gateway.ledger.database import Database, Row
from runtime.errors import StaleCheckpoint
from runtime.protocol.context import JsonValue
from runtime.protocol.session import SessionContext
from runtime.store.writer import Statement


class SessionState(StrEnum):
    """`retiring`: it takes no more messages, and its turn has still to be ended."""

    ACTIVE = "active"
    RETIRING = "retiring"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRow:
    """The session that a place has now. `place.person` is set only where each person has a session."""

    id: int
    place: Place
    session_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSession:
    """A session of a place, with its labels and recipe as they were when it began."""

    session_id: str
    place: Place
    state: SessionState
    context: SessionContext
    recipe: Mapping[str, JsonValue]
    created_at_ms: int
    retired_by: str | None = None
    retirement: str | None = None


# ------------------------------------------------------------------------------------------------------- statements

_IS = "platform = ? AND account = ? AND chat = ? AND thread = ? AND person = ?"


def key(place: Place) -> tuple[str, str, str, str, str]:
    """The place as the UNIQUE index sees it. ValueError if a part is missing."""
    if not (place.platform and place.account and place.chat) or place.thread == "" or place.person == "":
        raise ValueError(f"a part of the place is missing: {place!r}")
    return (place.platform, place.account, place.chat, place.thread or "", place.person or "")


def bind(
    place: Place, session_id: str, context: SessionContext, recipe: Mapping[str, JsonValue], now_ms: int
) -> list[Statement]:
    """Give a place its first session. Fails if it has one."""
    columns = "platform, account, chat, thread, person, session_id, generation, bound_at_ms"
    return [
        Statement(
            f"INSERT INTO places ({columns}) VALUES (?, ?, ?, ?, ?, ?, 1, ?)",  # noqa: S608
            (*key(place), session_id, now_ms),
        ),
        _begin(place, session_id, context, recipe, now_ms),
    ]


def rebind(
    row: PlaceRow,
    session_id: str,
    context: SessionContext,
    recipe: Mapping[str, JsonValue],
    *,
    retired_by: str,
    retirement: str,
    now_ms: int,
) -> list[Statement]:
    """Give a place its next session; the one it has takes no more messages and is to be ended."""

    def overtaken() -> Exception:
        return StaleCheckpoint(f"the place has another session than {row.session_id!r} by now; nothing was written")

    return [
        Statement(
            "UPDATE places SET session_id = ?, generation = generation + 1, bound_at_ms = ?"
            " WHERE id = ? AND session_id = ? AND generation = ?",
            (session_id, now_ms, row.id, row.session_id, row.generation),
            expect_rows=1,
            error=overtaken,
        ),
        Statement(
            "UPDATE place_sessions SET state = 'retiring', retired_by = ?, retirement = ?"
            " WHERE session_id = ? AND state = 'active'",
            (retired_by, retirement, row.session_id),
            expect_rows=1,
            error=overtaken,
        ),
        _begin(row.place, session_id, context, recipe, now_ms),
    ]


def _begin(
    place: Place, session_id: str, context: SessionContext, recipe: Mapping[str, JsonValue], now_ms: int
) -> Statement:
    return Statement(
        "INSERT INTO place_sessions (session_id, place_id, generation, state, context, recipe, created_at_ms)"  # noqa: S608
        f" SELECT ?, id, generation, 'active', ?, ?, ? FROM places WHERE {_IS}",
        (session_id, _json(context), _json(recipe), now_ms, *key(place)),
        expect_rows=1,
    )


def retired(session_id: str) -> Statement:
    """The session has ended; doing it again changes nothing."""
    return Statement(
        "UPDATE place_sessions SET state = 'retired' WHERE session_id = ? AND state = 'retiring'", (session_id,)
    )


def move_chat(place: Place, chat: str) -> Statement:
    """The chat has another id: its places move, unless the new id has a place of its own already."""
    return Statement(
        "UPDATE OR IGNORE places SET chat = ? WHERE platform = ? AND account = ? AND chat = ?",
        (chat, place.platform, place.account, place.chat),
    )


def thread_opened(stood_for: Place, thread: Place) -> Statement:
    """A new thread is open: the session that it was for has it, unless that place has a session already."""
    return Statement(
        f"UPDATE OR IGNORE places SET thread = ? WHERE {_IS}",  # noqa: S608
        (thread.thread or "", *key(stood_for)),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ---------------------------------------------------------------------------------------------------------- queries

_PLACE = "id, platform, account, chat, thread, person, session_id, generation"


def _place(platform: str, account: str, chat: str, thread: str, person: str) -> Place:
    return Place(platform=platform, account=account, chat=chat, thread=thread or None, person=person or None)


def _row(row: Row) -> PlaceRow:
    return PlaceRow(id=row[0], place=_place(*row[1:6]), session_id=row[6], generation=row[7])


async def find(database: Database, place: Place) -> PlaceRow | None:
    """The session of exactly this place, or None."""
    rows = await database.read(f"SELECT {_PLACE} FROM places WHERE {_IS}", key(place))  # noqa: S608
    return _row(rows[0]) if rows else None


RUNS = "cron:"
"""The person of a place that belongs to one run of a schedule begins so: it has the thread beside everybody there."""

_OF_PEOPLE = f"substr(person, 1, {len(RUNS)}) <> '{RUNS}'"


async def in_thread(database: Database, place: Place) -> tuple[PlaceRow, ...]:
    """Every place of a chat's thread, whosoever it belongs to, oldest first; of runs, those that wait for a person."""
    sql = (
        f"SELECT {_PLACE} FROM places WHERE platform = ? AND account = ? AND chat = ? AND thread = ? AND ({_OF_PEOPLE}"  # noqa: S608
        " OR session_id IN (SELECT session_id FROM approvals WHERE open = 1)) ORDER BY id"
    )
    return tuple(_row(row) for row in await database.read(sql, key(place)[:4]))


async def threads(database: Database, platform: str, account: str) -> tuple[PlaceRow, ...]:
    """Every bound place of one of our accounts, newest binding first, without those of single runs."""
    sql = (
        f"SELECT {_PLACE} FROM places WHERE platform = ? AND account = ? AND {_OF_PEOPLE}"  # noqa: S608
        " ORDER BY bound_at_ms DESC, id DESC"
    )
    return tuple(_row(row) for row in await database.read(sql, (platform, account)))


async def of_posted(database: Database, message: MessageRef) -> PlaceRow | None:
    """The place of the run that posted the message, if one did."""
    rows = await database.read(
        "SELECT r.session_id FROM schedule_runs AS r JOIN schedules AS s ON s.id = r.schedule_id"
        " JOIN deliveries AS d ON d.session_id = r.session_id, json_each(d.refs) AS ref"
        " WHERE s.platform = ? AND s.account = ? AND d.session_id >= 'cron:' AND d.session_id < 'cron;'"
        " AND d.chat = ? AND json_extract(ref.value, '$.id') = ? LIMIT 1",
        (message.platform, message.account, message.chat, message.id),
    )
    return await of_session(database, rows[0][0]) if rows else None


async def of_session(database: Database, session_id: str) -> PlaceRow | None:
    """The place that belonged to the session first, with the session that it has now."""
    sql = (
        "SELECT p.id, p.platform, p.account, p.chat, p.thread, p.person, p.session_id, p.generation FROM places AS p"
        " JOIN place_sessions AS s ON s.place_id = p.id WHERE s.session_id = ?"
    )
    rows = await database.read(sql, (session_id,))
    return _row(rows[0]) if rows else None


async def newest_run_in(database: Database, place: Place) -> PlaceRow | None:
    """The place of the newest run that has spoken in the thread."""
    sql = (
        f"SELECT {_PLACE} FROM places WHERE platform = ? AND account = ? AND chat = ? AND thread = ?"  # noqa: S608
        f" AND NOT {_OF_PEOPLE} ORDER BY id DESC LIMIT 1"
    )
    rows = await database.read(sql, key(place)[:4])
    return _row(rows[0]) if rows else None


_SESSION = """
SELECT s.session_id, p.platform, p.account, p.chat, p.thread, p.person, s.state, s.context, s.recipe, s.created_at_ms,
    s.retired_by, s.retirement
FROM place_sessions AS s JOIN places AS p ON p.id = s.place_id
"""


def _session(row: Row) -> PlaceSession:
    return PlaceSession(
        session_id=row[0],
        place=_place(*row[1:6]),
        state=SessionState(row[6]),
        context=msgspec.json.decode(row[7], type=SessionContext),
        recipe=msgspec.json.decode(row[8]),
        created_at_ms=row[9],
        retired_by=row[10],
        retirement=row[11],
    )


async def session(database: Database, session_id: str) -> PlaceSession | None:
    """The session and its place, which is where its answers go; None if no chat began it."""
    rows = await database.read(f"{_SESSION} WHERE s.session_id = ?", (session_id,))
    return _session(rows[0]) if rows else None


async def retiring(database: Database) -> tuple[PlaceSession, ...]:
    """Sessions that have still to be ended."""
    rows = await database.read(f"{_SESSION} WHERE s.state = 'retiring' ORDER BY s.session_id")
    return tuple(map(_session, rows))


async def sessions_of(database: Database, rows: Sequence[PlaceRow]) -> tuple[PlaceSession, ...]:
    """The present sessions of these places and those of them that are still being ended."""
    ids = [row.id for row in rows]
    marks = ", ".join("?" * len(ids))
    found = await database.read(f"{_SESSION} WHERE s.place_id IN ({marks}) AND s.state <> 'retired'", ids)
    return tuple(map(_session, found))
