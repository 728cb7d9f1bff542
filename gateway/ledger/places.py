"""Which session belongs to which place, and what each session was begun with.

The functions that return statements are for the caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from adapters.contract import Place
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


async def in_thread(database: Database, place: Place) -> tuple[PlaceRow, ...]:
    """Every place of a chat's thread, whosoever it belongs to, oldest first."""
    sql = f"SELECT {_PLACE} FROM places WHERE platform = ? AND account = ? AND chat = ? AND thread = ? ORDER BY id"  # noqa: S608
    return tuple(_row(row) for row in await database.read(sql, key(place)[:4]))


async def threads(database: Database, platform: str, account: str) -> tuple[PlaceRow, ...]:
    """Every bound place of one of our accounts, newest binding first."""
    sql = f"SELECT {_PLACE} FROM places WHERE platform = ? AND account = ? ORDER BY bound_at_ms DESC, id DESC"  # noqa: S608
    return tuple(_row(row) for row in await database.read(sql, (platform, account)))


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
