"""Outgoing parts: `planned → sending → sent | unknown | failed`, each a row before it is sent.

A row is unique on (source, surface, part), so that planning twice is planning once. `source` is
`ev:<session>:<event sequence>` or `in:<inbound id>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import msgspec

from adapters.contract import ApprovalCard, MessageRef, Place, View, decode_view, encode_view
from gateway.budget import Priority
from gateway.ledger.database import Database, Row
from gateway.ledger.digest import digest_of_bytes
from gateway.ledger.surfaces import NewSurface, beside, insert
from runtime.errors import CheckpointError
from runtime.store.writer import Statement

State: TypeAlias = Literal["planned", "sending", "sent", "unknown", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """A stored part. `attempt` counts the sends that may have reached the platform."""

    id: int
    source: str
    surface: str
    part: int
    session_id: str | None
    turn_id: str | None
    request_id: str | None
    surface_id: int | None
    place: Place
    priority: Priority
    view: View
    digest: str
    state: State
    attempt: int
    fallback: bool
    not_before_ms: int

    @property
    def key(self) -> str:
        """The same for every attempt, 24 characters: it fits every platform's field for such keys."""
        return key_of(self.source, self.surface, self.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownDelivery:
    """A part of which nobody can say whether it arrived; it is never sent again."""

    id: int
    place: Place
    view: View
    attempt: int
    created_at_ms: int


class Overtaken(CheckpointError):
    """Somebody else has moved the row on; nothing was written."""


def _overtaken() -> Exception:
    return Overtaken("the delivery row is not in the state any more that it was read in; read it again")


def event_source(session_id: str, sequence: int) -> str:
    """The source of what follows from a stored event."""
    return f"ev:{session_id}:{sequence}"


def drop_card(source: str, now_ms: int) -> Statement:
    """A card that was put off is not sent any more: its turn is over."""
    return Statement(
        "UPDATE deliveries SET state = 'failed', reason = 'overtaken by the end of its turn', updated_at_ms = ?"
        " WHERE source = ? AND surface = 'card' AND state = 'planned'",
        (now_ms, source),
    )


def key_of(source: str, surface: str, part: int) -> str:
    """The key under which the platform may know the part."""
    name = "\0".join((source, surface, str(part)))
    return hashlib.sha256(name.encode()).hexdigest()[:24]


# ------------------------------------------------------------------------------------------------------ statements

_INSERT = """
INSERT OR IGNORE INTO deliveries (source, surface, part, session_id, turn_id, request_id, surface_id,
    platform, account, chat, thread, person, priority, view, digest, state, attempt, created_at_ms, updated_at_ms)
VALUES (?, ?, ?, ?, ?, ?, (SELECT id FROM surfaces WHERE token = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING id, surface_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part to be planned. `new_surface`: its message has the controls. `goes_out`: it is sent in this moment."""

    source: str
    surface: str
    part: int
    place: Place
    view: View
    priority: Priority
    session_id: str | None = None
    turn_id: str | None = None
    request_id: str | None = None
    new_surface: NewSurface | None = None
    goes_out: bool = False

    @property
    def name(self) -> tuple[str, str, int]:
        """What it is unique by."""
        return self.source, self.surface, self.part

    @property
    def key(self) -> str:
        """The key of its row."""
        return key_of(*self.name)

    def statements(self, now_ms: int) -> list[Statement]:
        """Its surface, if any, and its row. The last statement returns the ids of both, or nothing if it is known."""
        encoded = encode_view(self.view)
        place, new = self.place, self.new_surface
        params = (
            *self.name, self.session_id, self.turn_id, self.request_id, None if new is None else new.token,
            place.platform, place.account, place.chat, place.thread, place.person, int(self.priority),
            encoded, digest_of_bytes(encoded), "sending" if self.goes_out else "planned", int(self.goes_out),
            now_ms, now_ms,
        )  # fmt: skip
        made = [] if new is None else [insert(new, place, self.name, now_ms, going_out=self.goes_out)]
        return [*made, Statement(_INSERT, params, fetch=True)]

    def row(self, row_id: int, surface_id: int | None) -> DeliveryRow:
        """The stored row."""
        return DeliveryRow(
            id=row_id, source=self.source, surface=self.surface, part=self.part, session_id=self.session_id,
            turn_id=self.turn_id, request_id=self.request_id, surface_id=surface_id, place=self.place,
            priority=self.priority, view=self.view, digest=digest_of_bytes(encode_view(self.view)),
            state="sending" if self.goes_out else "planned", attempt=int(self.goes_out), fallback=False,
            not_before_ms=0,
        )  # fmt: skip


def parts(
    *,
    source: str,
    surface: str,
    place: Place,
    views: Sequence[View],
    priority: Priority,
    session_id: str | None = None,
    turn_id: str | None = None,
    request_id: str | None = None,
    new_surface: NewSurface | None = None,
) -> list[Part]:
    """`views` as parts 0, 1, … of `surface`; the last one is the message of `new_surface`."""
    return [
        Part(
            source=source, surface=surface, part=part, place=place, view=view, priority=priority,
            session_id=session_id, turn_id=turn_id, request_id=request_id,
            new_surface=new_surface if part == len(views) - 1 else None,
        )
        for part, view in enumerate(views)
    ]  # fmt: skip


def plan(
    *,
    source: str,
    surface: str,
    place: Place,
    views: Sequence[View],
    priority: Priority,
    now_ms: int,
    session_id: str | None = None,
    turn_id: str | None = None,
    request_id: str | None = None,
    new_surface: NewSurface | None = None,
) -> list[Statement]:
    """The statements that plan `views` as parts 0, 1, … of `surface`; put them into the transaction of their cause.

    With `new_surface`, the last view is its message: the one with the controls. Planning again changes nothing. After
    the commit, tell the outbox: `Outbox.wake(place)`.
    """
    planned = parts(
        source=source, surface=surface, place=place, views=views, priority=priority, session_id=session_id,
        turn_id=turn_id, request_id=request_id, new_surface=new_surface,
    )  # fmt: skip
    return [statement for part in planned for statement in part.statements(now_ms)]


_BY_EDIT = """
INSERT OR IGNORE INTO deliveries (source, surface, part, session_id, turn_id, surface_id, platform, account, chat,
    thread, person, priority, view, digest, state, attempt, reason, created_at_ms, updated_at_ms)
SELECT ?, ?, 0, session_id, turn_id, id, platform, account, chat, thread, person, ?, ?, ?, 'sent', 0,
    'shown by an edit', ?, ?
FROM surfaces WHERE token = ?
"""


def shown_by_edit(
    source: str, surface: str, view: View, message: int, new: NewSurface, now_ms: int
) -> tuple[Statement, Statement]:
    """A message that is there (that of the surface `message`) gets `view` by an edit, with the controls of `new`."""
    encoded = encode_view(view)
    params = (source, surface, int(Priority.CONTROL), encoded, digest_of_bytes(encoded), now_ms, now_ms, new.token)
    return beside(new, message, (source, surface, 0), now_ms), Statement(_BY_EDIT, params)


async def last_view(database: Database, surface_id: int) -> View | None:
    """What the message of a surface was planned to show, or None where it is forgotten."""
    sql = "SELECT view FROM deliveries WHERE surface_id = ? ORDER BY id DESC LIMIT 1"
    rows = await database.read(sql, (surface_id,))
    return decode_view(rows[0][0]) if rows else None


def show_card(part: Part, now_ms: int) -> list[Statement]:
    """A card that goes out in this moment: its surface and its row, marked `sending`, in one transaction.

    Each returns its id. The row must be new, else Overtaken: a card is never sent twice.
    """
    surface, row = part.statements(now_ms)
    returning = f"{surface.sql} RETURNING id"
    return [
        Statement(returning, surface.params, expect_rows=1, error=_overtaken, fetch=True),
        Statement(row.sql, row.params, expect_rows=1, error=_overtaken, fetch=True),
    ]


def sending(row: DeliveryRow, now_ms: int) -> Statement:
    """The part goes out: attempt counts one more. Overtaken if the row was changed since it was read."""
    return Statement(
        "UPDATE deliveries SET state = 'sending', attempt = attempt + 1, updated_at_ms = ?"
        " WHERE id = ? AND digest = ? AND state IN ('planned', 'sending')",
        (now_ms, row.id, row.digest),
        expect_rows=1,
        error=_overtaken,
    )


def sending_again(row: DeliveryRow, view: View, token: str | None, now_ms: int) -> Statement:
    """As `sending`, with a view that says that it may be there twice, and with the surface `token` if there is one."""
    encoded = encode_view(view)
    return Statement(
        "UPDATE deliveries SET state = 'sending', attempt = attempt + 1, view = ?, digest = ?, updated_at_ms = ?,"
        " surface_id = COALESCE((SELECT id FROM surfaces WHERE token = ?), surface_id)"
        " WHERE id = ? AND digest = ? AND state IN ('planned', 'sending')",
        (encoded, digest_of_bytes(encoded), now_ms, token, row.id, row.digest),
        expect_rows=1,
        error=_overtaken,
    )


def back_to_planned(row_id: int, not_before_ms: int, now_ms: int) -> Statement:
    """Nothing was done by the platform: this attempt does not count."""
    return Statement(
        "UPDATE deliveries SET state = 'planned', attempt = attempt - 1, not_before_ms = ?, updated_at_ms = ?"
        " WHERE id = ? AND state = 'sending'",
        (not_before_ms, now_ms, row_id),
    )


def again_later(row_id: int, not_before_ms: int, now_ms: int) -> Statement:
    """The platform may have it: the attempt counts, and the next one is due at `not_before_ms`."""
    return Statement(
        "UPDATE deliveries SET not_before_ms = ?, updated_at_ms = ? WHERE id = ? AND state = 'sending'",
        (not_before_ms, now_ms, row_id),
    )


def sent(row_id: int, refs: Sequence[MessageRef], now_ms: int) -> Statement:
    """The part is on the platform as these messages."""
    return Statement(
        "UPDATE deliveries SET state = 'sent', refs = ?, reason = NULL, updated_at_ms = ? WHERE id = ?",
        (msgspec.json.encode(refs), now_ms, row_id),
    )


def ended(row_id: int, state: Literal["unknown", "failed"], reason: str, now_ms: int) -> Statement:
    """The part is given up, for the reason given."""
    return Statement(
        "UPDATE deliveries SET state = ?, reason = ?, updated_at_ms = ?"
        " WHERE id = ? AND state IN ('planned', 'sending')",
        (state, reason, now_ms, row_id),
    )


def other_view(row_id: int, view: View, now_ms: int) -> Statement:
    """Nothing was done by the platform: the part is planned anew with another view."""
    encoded = encode_view(view)
    return Statement(
        "UPDATE deliveries SET state = 'planned', attempt = attempt - 1, view = ?, digest = ?, updated_at_ms = ?"
        " WHERE id = ? AND state = 'sending'",
        (encoded, digest_of_bytes(encoded), now_ms, row_id),
    )


def to_parent_chat(row: DeliveryRow, view: View, now_ms: int) -> tuple[Statement, ...]:
    """The thread is gone: what waits for it goes to its chat, once, in the same order, and its controls count there.

    `view` is the row's own, which says so.
    """
    place = row.place
    thread = (place.platform, place.account, place.chat, place.thread)
    return (
        other_view(row.id, view, now_ms),
        Statement(
            "UPDATE surfaces SET thread = NULL, updated_at_ms = ? WHERE id IN (SELECT surface_id FROM deliveries"
            " WHERE platform = ? AND account = ? AND chat = ? AND thread = ? AND state IN ('planned', 'sending'))",
            (now_ms, *thread),
        ),
        Statement(
            "UPDATE deliveries SET thread = NULL, fallback = 1, updated_at_ms = ?"
            " WHERE platform = ? AND account = ? AND chat = ? AND thread = ? AND state IN ('planned', 'sending')",
            (now_ms, *thread),
        ),
    )


def drop_waiting(surface_id: int, now_ms: int) -> Statement:
    """The line about a message that waits no more is not sent, if it was not yet."""
    return Statement(
        "UPDATE deliveries SET state = 'failed', reason = 'overtaken by its message', updated_at_ms = ?"
        " WHERE surface_id = ? AND state = 'planned'",
        (now_ms, surface_id),
    )


def show_outcome(request_id: str, outcome: View, now_ms: int) -> tuple[Statement, Statement]:
    """A request is closed: what explains it is not sent any more, and its card says the outcome at once."""
    encoded = encode_view(outcome)
    return (
        Statement(
            "UPDATE deliveries SET state = 'failed', reason = 'overtaken by the outcome', updated_at_ms = ?"
            " WHERE request_id = ? AND surface_id IS NULL AND state IN ('planned', 'sending')",
            (now_ms, request_id),
        ),
        Statement(
            "UPDATE deliveries SET view = ?, digest = ?, updated_at_ms = ?"
            " WHERE request_id = ? AND surface_id IS NOT NULL AND state IN ('planned', 'sending')",
            (encoded, digest_of_bytes(encoded), now_ms, request_id),
        ),
    )


def move_chat(place: Place, chat: str, now_ms: int) -> Statement:
    """What waits for the chat goes to its new id."""
    return Statement(
        "UPDATE deliveries SET chat = ?, updated_at_ms = ?"
        " WHERE platform = ? AND account = ? AND chat = ? AND state IN ('planned', 'sending')",
        (chat, now_ms, place.platform, place.account, place.chat),
    )


def give_up_chat(place: Place, reason: str, now_ms: int) -> tuple[Statement, Statement]:
    """The chat is dead: what waits for it failed. The second statement changes a row if it was not dead before."""
    return (
        Statement(
            "UPDATE deliveries SET state = 'failed', reason = ?, updated_at_ms = ?"
            " WHERE platform = ? AND account = ? AND chat = ? AND state IN ('planned', 'sending')",
            (reason, now_ms, place.platform, place.account, place.chat),
        ),
        Statement(
            "INSERT OR IGNORE INTO dead_chats (platform, account, chat, since_ms, reason) VALUES (?, ?, ?, ?, ?)",
            (place.platform, place.account, place.chat, now_ms, reason),
        ),
    )


def alive(place: Place) -> Statement:
    """The chat takes messages after all."""
    return Statement(
        "DELETE FROM dead_chats WHERE platform = ? AND account = ? AND chat = ?",
        (place.platform, place.account, place.chat),
    )


_LIVE = "kind IN ('card', 'approval') AND state <> 'closed'"


def forget(before_ms: int) -> tuple[Statement, Statement]:
    """Remove what was settled before `before_ms`: rows, then messages that no row belongs to any more.

    What waits stays, and so do open requests and the cards of running turns. A button of a removed message is told that
    it is no longer in use.
    """
    return (
        Statement(
            "DELETE FROM deliveries WHERE state IN ('sent', 'unknown', 'failed') AND updated_at_ms < ?"  # noqa: S608
            f" AND (surface_id IS NULL OR surface_id NOT IN (SELECT id FROM surfaces WHERE {_LIVE}))",
            (before_ms,),
        ),
        Statement(
            f"DELETE FROM surfaces WHERE updated_at_ms < ? AND NOT ({_LIVE}) AND NOT EXISTS"  # noqa: S608
            " (SELECT 1 FROM deliveries WHERE surface_id = surfaces.id)",
            (before_ms,),
        ),
    )


# --------------------------------------------------------------------------------------------------------- queries

_COLUMNS = (
    "id, source, surface, part, session_id, turn_id, request_id, surface_id, platform, account, chat, thread, person,"
    " priority, view, digest, state, attempt, fallback, not_before_ms"
)


def _delivery(row: Row) -> DeliveryRow:
    platform, account, chat, thread, person = row[8:13]
    return DeliveryRow(
        id=row[0], source=row[1], surface=row[2], part=row[3], session_id=row[4], turn_id=row[5], request_id=row[6],
        surface_id=row[7], place=Place(platform=platform, account=account, chat=chat, thread=thread, person=person),
        priority=Priority(row[13]), view=decode_view(row[14]), digest=row[15], state=cast("State", row[16]),
        attempt=row[17], fallback=bool(row[18]), not_before_ms=row[19],
    )  # fmt: skip


async def due(database: Database, platform: str, account: str, chat: str, limit: int) -> tuple[DeliveryRow, ...]:
    """The oldest rows of a chat that are not settled, in the order in which they have to go out."""
    sql = (
        f"SELECT {_COLUMNS} FROM deliveries WHERE platform = ? AND account = ? AND chat = ?"  # noqa: S608
        " AND state IN ('planned', 'sending') ORDER BY id LIMIT ?"
    )
    return tuple(_delivery(row) for row in await database.read(sql, (platform, account, chat, limit)))


async def surface_of(database: Database, row_id: int) -> int | None:
    """The surface that the row's message belongs to."""
    return (await database.read("SELECT surface_id FROM deliveries WHERE id = ?", (row_id,)))[0][0]


async def title_of(database: Database, request_id: str) -> str | None:
    """What the card of a request is called, or None where no card was planned."""
    sql = "SELECT view FROM deliveries WHERE request_id = ? AND surface_id IS NOT NULL ORDER BY id LIMIT 1"
    rows = await database.read(sql, (request_id,))
    view = decode_view(rows[0][0]) if rows else None
    return view.title if isinstance(view, ApprovalCard) else None


async def card_goes_out(database: Database, request_id: str) -> bool:
    """Whether a card of the request has still to go out, or is on its way; it will say what it says by then."""
    sql = "SELECT 1 FROM deliveries WHERE request_id = ? AND surface_id IS NOT NULL AND state IN ('planned', 'sending')"
    return bool(await database.read(f"{sql} LIMIT 1", (request_id,)))


async def unknown_in(database: Database, place: Place) -> tuple[UnknownDelivery, ...]:
    """Parts of the chat of which nobody can say whether they arrived, oldest first; for /status."""
    sql = (
        "SELECT id, platform, account, chat, thread, person, view, attempt, created_at_ms FROM deliveries"
        " WHERE platform = ? AND account = ? AND chat = ? AND state = 'unknown' AND priority <> 2"
        " AND thread IS ? ORDER BY id"
    )
    rows = await database.read(sql, (place.platform, place.account, place.chat, place.thread))
    return tuple(
        UnknownDelivery(
            id=row[0],
            place=Place(platform=row[1], account=row[2], chat=row[3], thread=row[4], person=row[5]),
            view=decode_view(row[6]),
            attempt=row[7],
            created_at_ms=row[8],
        )
        for row in rows
    )


async def parts_missing(database: Database, row: DeliveryRow) -> tuple[str, ...]:
    """States of the earlier parts of the same surface that are not on the platform."""
    sql = "SELECT state FROM deliveries WHERE source = ? AND surface = ? AND part < ? AND state <> 'sent' ORDER BY part"
    return tuple(found[0] for found in await database.read(sql, (row.source, row.surface, row.part)))


async def undelivered_requests(database: Database) -> tuple[tuple[str, str, str], ...]:
    """(session, request, reason) of open approvals whose card will never be shown; found at start."""
    sql = (
        "SELECT DISTINCT s.session_id, s.request_id, d.reason FROM surfaces s JOIN deliveries d ON d.surface_id = s.id"
        " WHERE s.kind = 'approval' AND s.state <> 'closed' AND d.state = 'failed'"
        " AND NOT EXISTS (SELECT 1 FROM surfaces o WHERE o.request_id = s.request_id"
        " AND (o.message_id IS NOT NULL OR o.adoptable = 1))"
    )
    return tuple((row[0], row[1], row[2] or "") for row in await database.read(sql))


async def busy_chats(database: Database) -> tuple[tuple[str, str, str], ...]:
    """(platform, account, chat) of every chat with something to send or to repair."""
    sql = (
        "SELECT platform, account, chat FROM deliveries WHERE state IN ('planned', 'sending')"
        " UNION SELECT platform, account, chat FROM surfaces WHERE desired IS NOT NULL AND message_id IS NOT NULL"
    )
    return tuple((row[0], row[1], row[2]) for row in await database.read(sql))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A message that is to show another view than it does."""

    surface_id: int
    ref: MessageRef
    view: View
    digest: str
    priority: Priority


async def repairs(database: Database, platform: str, account: str, chat: str) -> tuple[Repair, ...]:
    """Messages of a chat that have to be edited, the most urgent and then the oldest first."""
    sql = (
        "SELECT id, thread, message_id, desired, desired_digest, desired_priority FROM surfaces"
        " WHERE platform = ? AND account = ? AND chat = ? AND desired IS NOT NULL AND message_id IS NOT NULL"
        " ORDER BY desired_priority, id"
    )
    return tuple(
        Repair(
            surface_id=row[0],
            ref=MessageRef(platform=platform, account=account, chat=chat, thread=row[1], id=row[2]),
            view=decode_view(row[3]),
            digest=row[4],
            priority=Priority(row[5]),
        )
        for row in await database.read(sql, (platform, account, chat))
    )


async def dead_chats(database: Database) -> frozenset[tuple[str, str, str]]:
    """(platform, account, chat) of every chat that took nothing when it was tried last."""
    return frozenset((row[0], row[1], row[2]) for row in await database.read(_DEAD))


_DEAD = "SELECT platform, account, chat FROM dead_chats"


async def oldest_unsent_ms(database: Database) -> int | None:
    """When the oldest part that waits was planned; for health."""
    rows = await database.read("SELECT MIN(created_at_ms) FROM deliveries WHERE state IN ('planned', 'sending')")
    return rows[0][0]
