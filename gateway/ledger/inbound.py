"""What was let in, one row each: stored, then routed, then done.

The functions that return statements are for the caller's own transaction; the others run one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

from adapters.contract import Inbound, MessageRef, Place, decode_inbound, encode_inbound
from gateway.ledger.database import Database, Row
from runtime.errors import CheckpointError
from runtime.protocol.context import JsonValue
from runtime.store.writer import Statement


class State(StrEnum):
    """How far a row has come."""

    STORED = "stored"
    ROUTED = "routed"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRoute:
    """Where a row goes, fixed before anything is submitted. `detail` is what its handler needs to do it again."""

    session_id: str | None
    submission_id: str
    detail: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundRow:
    """A row that is not done. `leader`: the first part of the album or paste that it belongs to."""

    id: int
    inbound: Inbound
    principal: str
    received_at_ms: int
    route: StoredRoute | None = None
    leader: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The message on a platform that a submission came from."""

    inbound_id: int
    principal: str
    session_id: str | None
    submission_id: str
    ref: MessageRef


def submission_id(inbound_id: int) -> str:
    """The submission id of the op that a row asks for; the same each time the row is done again."""
    return f"in:{inbound_id}"


def source(inbound_id: int) -> str:
    """The source under which replies to a row are planned."""
    return f"in:{inbound_id}"


# ------------------------------------------------------------------------------------------------------- statements

_NOT_KNOWN = "NOT EXISTS (SELECT 1 FROM inbound_keys WHERE platform = ? AND account = ? AND event_key IN ({marks}))"

_STORE = """
INSERT INTO inbound (platform, account, chat, thread, kind, principal, message_id, received_at_ms, state, outcome,
    done_at_ms, payload)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE {unknown} RETURNING id
"""

# A row that was just inserted is the last one of this connection; otherwise one of its keys names an older row.
_KEY = """
INSERT INTO inbound_keys (platform, account, event_key, inbound_id)
SELECT ?, ?, ?, coalesce(
    (SELECT min(inbound_id) FROM inbound_keys WHERE platform = ? AND account = ? AND event_key IN ({marks})),
    last_insert_rowid())
WHERE true ON CONFLICT DO NOTHING
"""


def store(inbound: Inbound, principal: str, now_ms: int, *, done_as: str | None = None) -> list[Statement]:
    """Store it under all its keys; the first statement returns its id, or no row where one of the keys is known.

    `done_as`: it needs no work any more, and only its keys have to stay.
    """
    place, keys = inbound.place, tuple(dict.fromkeys(inbound.keys))
    marks = ", ".join("?" * len(keys))
    known = (place.platform, place.account, *keys)
    row = (
        place.platform, place.account, place.chat, place.thread or "", inbound.kind.value, principal,
        inbound.ref.id if inbound.ref else None, now_ms, State.DONE if done_as else State.STORED, done_as,
        now_ms if done_as else None, "" if done_as else _encode(inbound),
    )  # fmt: skip
    return [
        Statement(_STORE.format(unknown=_NOT_KNOWN.format(marks=marks)), (*row, *known), fetch=True),
        *(
            Statement(_KEY.format(marks=marks), (place.platform, place.account, key, *known))
            for key in keys
        ),
    ]  # fmt: skip


def _encode(inbound: Inbound) -> str:
    try:
        return encode_inbound(inbound).decode()
    except UnicodeEncodeError:  # half a surrogate pair: no text can hold it, and losing the message would be worse
        return encode_inbound(replace(inbound, text=_whole(inbound.text), arguments=_whole(inbound.arguments))).decode()


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Moved(CheckpointError):
    """The row was routed, or its chat got another id, since it was read; nothing was written. Read it again."""


def _moved() -> Exception:
    return Moved("the row is not as it was when it was read; it is read again")


def routed(ids: Sequence[int], chat: str, route: StoredRoute) -> list[Statement]:
    """Fix the route of a row and of the parts that were gathered into it, the first being the one that leads.

    `chat` is where the row was found. Moved if that has changed meanwhile, and nothing of the transaction stays.
    """
    leader, *parts = ids
    detail = msgspec.json.encode(route.detail).decode()
    statements = [
        Statement(
            "UPDATE inbound SET state = 'routed', session_id = ?, submission_id = ?, route = ?"
            " WHERE id = ? AND state = 'stored' AND chat = ?",
            (route.session_id, route.submission_id, detail, leader, chat),
            expect_rows=1,
            error=_moved,
        )
    ]
    if parts:
        statements.append(
            Statement(
                "UPDATE inbound SET state = 'routed', session_id = ?, submission_id = ?, leader = ?"
                " WHERE id = ? AND state = 'stored'",
                [(route.session_id, route.submission_id, leader, part) for part in parts],
                many=True,
                expect_rows=len(parts),
            )
        )
    return statements


def done(ids: Sequence[int], outcome: str, now_ms: int, *, forget: bool = False) -> Statement:
    """The rows are done. `forget`: what was said is none of our business, so it is not kept."""
    marks = ", ".join("?" * len(ids))
    payload = ", payload = ''" if forget else ""
    sql = f"UPDATE inbound SET state = 'done', outcome = ?, done_at_ms = ?{payload} WHERE id IN ({marks}) AND state <> 'done'"  # noqa: S608, E501
    return Statement(sql, (outcome, now_ms, *ids), expect_rows=len(ids))


def outcome_changed(inbound_id: int, before: str, after: str) -> Statement:
    """Something more came of a row that was done."""
    return Statement("UPDATE inbound SET outcome = ? WHERE id = ? AND outcome = ?", (after, inbound_id, before))


def move_chat(place: Place, chat: str) -> Statement:
    """The chat has another id: what is not done yet belongs there."""
    return Statement(
        "UPDATE inbound SET chat = ? WHERE platform = ? AND account = ? AND chat = ? AND state <> 'done'",
        (chat, place.platform, place.account, place.chat),
    )


# ---------------------------------------------------------------------------------------------------------- queries

_COLUMNS = "id, chat, principal, received_at_ms, session_id, submission_id, route, leader, payload"


def _row(row: Row) -> InboundRow:
    inbound = decode_inbound(row[8])
    if inbound.place.chat != row[1]:  # the chat has moved since
        inbound = replace(inbound, place=replace(inbound.place, chat=row[1]))
    route = None
    if row[5] is not None:
        detail: Any = msgspec.json.decode(row[6]) if row[6] else {}
        route = StoredRoute(session_id=row[4], submission_id=row[5], detail=detail)
    return InboundRow(
        id=row[0], inbound=inbound, principal=row[2], received_at_ms=row[3], route=route, leader=row[7]
    )  # fmt: skip


async def unfinished(database: Database, after: int, limit: int = 500) -> list[InboundRow]:
    """Rows beyond `after` that are not done, in order of arrival."""
    sql = f"SELECT {_COLUMNS} FROM inbound WHERE id > ? AND state <> 'done' ORDER BY id LIMIT ?"  # noqa: S608
    return [_row(row) for row in await database.read(sql, (after, limit))]


async def row(database: Database, inbound_id: int) -> InboundRow | None:
    """The row as it is now, or None if it is done."""
    sql = f"SELECT {_COLUMNS} FROM inbound WHERE id = ? AND state <> 'done'"  # noqa: S608
    rows = await database.read(sql, (inbound_id,))
    return _row(rows[0]) if rows else None


async def parts_of(database: Database, leader: int) -> list[InboundRow]:
    """The other parts of a gathered message, in order of arrival."""
    sql = f"SELECT {_COLUMNS} FROM inbound WHERE leader = ? ORDER BY id"  # noqa: S608
    return [_row(row) for row in await database.read(sql, (leader,))]


async def has_parts(database: Database, leader: int) -> bool:
    """Whether other parts were gathered into this row."""
    return bool(await database.read("SELECT 1 FROM inbound WHERE leader = ? LIMIT 1", (leader,)))


_ORIGIN = (
    "SELECT id, principal, session_id, submission_id, platform, account, chat, thread, message_id FROM inbound"
    " WHERE submission_id IS NOT NULL AND message_id IS NOT NULL"
)


def _origin(row: Row) -> Origin:
    ref = MessageRef(platform=row[4], account=row[5], chat=row[6], thread=row[7] or None, id=row[8])
    return Origin(inbound_id=row[0], principal=row[1], session_id=row[2], submission_id=row[3], ref=ref)


async def origin_of(database: Database, submission: str) -> Origin | None:
    """The message that a submission came from; None for what did not come from a message."""
    prefix, _, number = submission.partition(":")
    if prefix != "in" or not number.isdecimal():
        return None
    rows = await database.read(f"{_ORIGIN} AND id = ?", (int(number),))
    return _origin(rows[0]) if rows else None


async def by_message(database: Database, place: Place, message_id: str) -> Origin | None:
    """The submission that a message on the platform became. Of a gathered message, that of its first part."""
    sql = (
        f"{_ORIGIN} AND kind IN ('message', 'command') AND chat = ? AND message_id = ? AND platform = ? AND account = ?"
    )
    rows = await database.read(sql, (place.chat, message_id, place.platform, place.account))
    return _origin(rows[0]) if rows else None


async def with_outcome(database: Database, place: Place, outcome: str) -> list[InboundRow]:
    """Rows of a chat's thread that were done with this outcome, in order of arrival; their words are still there."""
    sql = (
        f"SELECT {_COLUMNS} FROM inbound WHERE chat = ? AND message_id IS NOT NULL AND outcome = ?"  # noqa: S608
        " AND platform = ? AND account = ? AND thread = ? AND payload <> '' ORDER BY id"
    )
    params = (place.chat, outcome, place.platform, place.account, place.thread or "")
    return [_row(row) for row in await database.read(sql, params)]


async def newest_before(database: Database, at_ms: int) -> int | None:
    """When the last thing arrived before this instant, or None."""
    rows = await database.read(
        "SELECT received_at_ms FROM inbound WHERE received_at_ms < ? ORDER BY id DESC LIMIT 1", (at_ms,)
    )
    return rows[0][0] if rows else None


async def newest_message(database: Database, place: Place) -> MessageRef | None:
    """The last message of a chat's thread that arrived, or None."""
    rows = await database.read(
        "SELECT message_id FROM inbound WHERE chat = ? AND message_id IS NOT NULL AND platform = ? AND account = ?"
        " AND thread = ? AND kind IN ('message', 'command') ORDER BY id DESC LIMIT 1",
        (place.chat, place.platform, place.account, place.thread or ""),
    )
    if not rows:
        return None
    return MessageRef(
        platform=place.platform, account=place.account, chat=place.chat, thread=place.thread, id=rows[0][0]
    )


async def private_place(database: Database, platform: str, account: str, principal: str) -> Place | None:
    """Where a person last wrote to us alone, as far as his words are kept; None if he never did."""
    rows = await database.read(
        "SELECT chat, thread FROM inbound WHERE platform = ? AND account = ? AND principal = ? AND payload <> ''"
        " AND json_extract(payload, '$.chat_kind') = 'private' ORDER BY id DESC LIMIT 1",
        (platform, account, principal),
    )
    if not rows:
        return None
    return Place(platform=platform, account=account, chat=rows[0][0], thread=rows[0][1] or None)


async def oldest_unfinished_ms(database: Database) -> int | None:
    """When the oldest row that is not done arrived, or None."""
    rows = await database.read("SELECT received_at_ms FROM inbound WHERE state <> 'done' ORDER BY id LIMIT 1")
    return rows[0][0] if rows else None


async def prune(database: Database, before_ms: int) -> int:
    """Forget rows, and their keys, that are older than everything unfinished and were done before `before_ms`.

    Platforms repeat within a day at most, and receipts of submissions are kept for 30 days: prune what is older.
    """
    rows = await database.read(
        "SELECT max(id) FROM inbound WHERE received_at_ms < ?1 AND id <"
        " coalesce((SELECT min(id) FROM inbound WHERE state <> 'done' OR done_at_ms >= ?1), 9223372036854775807)",
        (before_ms,),
    )
    last = rows[0][0]
    if last is None:
        return 0
    _, removed = await database.write(
        [
            Statement("DELETE FROM inbound_keys WHERE inbound_id <= ?", (last,)),
            Statement("DELETE FROM inbound WHERE id <= ?", (last,)),
        ]
    )
    return removed.count
