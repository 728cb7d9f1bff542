"""Messages of ours that people may press, or that we may have to repair: one row each, from before it is sent.

A control carries nothing but `apv:<token>:<letter>`; what it stands for is its row.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from adapters.contract import MessageRef, Place, View, encode_view
from gateway.budget import Priority
from gateway.ledger.database import Database, Row
from gateway.ledger.digest import digest_of
from runtime.store.writer import Statement

Kind: TypeAlias = Literal["card", "approval", "answer", "notice", "form", "thread"]
State: TypeAlias = Literal["planned", "open", "closed"]


class Letter(StrEnum):
    """What a control asks for."""

    APPROVE = "y"
    SESSION = "s"
    DENY = "n"
    DETAILS = "d"
    STOP = "x"
    RETRY = "r"
    CONTINUE = "k"
    PROMOTE = "p"
    REMOVE = "q"
    LOOP_AFTER = "e"
    LOOP_NOW = "h"
    LOOP_ON = "c"
    LOOP_LEAVE = "l"
    CHOICE_1 = "1"
    CHOICE_2 = "2"
    CHOICE_3 = "3"
    CHOICE_4 = "4"
    CHOICE_5 = "5"
    CHOICE_6 = "6"


CHOICES = (
    Letter.CHOICE_1, Letter.CHOICE_2, Letter.CHOICE_3, Letter.CHOICE_4, Letter.CHOICE_5, Letter.CHOICE_6
)  # fmt: skip
"""The answers to a question, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSurface:
    """A surface to be made with its first delivery row. `choices` are the letters that its controls offer."""

    token: str
    kind: Kind
    choices: str = ""
    session_id: str | None = None
    turn_id: str | None = None
    request_id: str | None = None
    first_sequence: int | None = None
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceRow:
    """A stored surface. `ref` is None until the message's id is known; `adoptable`: a press may bring it."""

    id: int
    token: str
    kind: Kind
    state: State
    session_id: str | None
    turn_id: str | None
    request_id: str | None
    first_sequence: int | None
    place: Place
    message_id: str | None
    adoptable: bool
    choices: str
    expires_at_ms: int | None

    @property
    def ref(self) -> MessageRef | None:
        """The message on the platform, if its id is known."""
        return None if self.message_id is None else ref_in(self.place, self.message_id)


def ref_in(place: Place, message_id: str) -> MessageRef:
    """The message `message_id` of `place`."""
    return MessageRef(
        platform=place.platform, account=place.account, chat=place.chat, thread=place.thread, id=message_id
    )


def mint(random_bytes: Callable[[int], bytes]) -> str:
    """A token: 22 characters of base64url, 128 random bits."""
    return base64.urlsafe_b64encode(random_bytes(16)).rstrip(b"=").decode("ascii")


def payload(token: str, letter: Letter) -> str:
    """What a control of the surface carries; 28 bytes."""
    return f"apv:{token}:{letter.value}"


def parse(control: str) -> tuple[str, Letter] | None:
    """Token and letter of a control's payload, or None for anything that we never made."""
    prefix, _, rest = control.partition(":")
    token, _, letter = rest.partition(":")
    if prefix != "apv" or len(token) != 22:
        return None
    try:
        return token, Letter(letter)
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------------ statements

_COLUMNS = (
    "id, token, kind, state, session_id, turn_id, request_id, first_sequence, platform, account, chat, thread, person,"
    " message_id, adoptable, choices, expires_at_ms"
)

_INSERT = """
INSERT INTO surfaces (token, kind, state, session_id, turn_id, request_id, first_sequence,
    platform, account, chat, thread, person, adoptable, choices, expires_at_ms, created_at_ms, updated_at_ms)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS (SELECT 1 FROM deliveries WHERE source = ? AND surface = ? AND part = ?)
"""


def insert(
    new: NewSurface, place: Place, delivery: tuple[str, str, int], now_ms: int, *, going_out: bool = False
) -> Statement:
    """Make the surface, unless the delivery row that it belongs to is there already."""
    params = (
        new.token, new.kind, "open" if going_out else "planned", new.session_id, new.turn_id, new.request_id,
        new.first_sequence, place.platform, place.account, place.chat, place.thread, place.person,
        int(going_out), new.choices, new.expires_at_ms, now_ms, now_ms, *delivery,
    )  # fmt: skip
    return Statement(_INSERT, params)


def beside(new: NewSurface, message: int, delivery: tuple[str, str, int], now_ms: int) -> Statement:
    """A second surface for the message of the surface `message`, with controls of its own; unless it is there."""
    return Statement(
        "INSERT INTO surfaces (token, kind, state, session_id, turn_id, request_id, platform, account, chat, thread,"
        " person, message_id, choices, created_at_ms, updated_at_ms)"
        " SELECT ?, ?, 'open', ?, ?, ?, platform, account, chat, thread, person, message_id, ?, ?, ?"
        " FROM surfaces WHERE id = ? AND NOT EXISTS"
        " (SELECT 1 FROM deliveries WHERE source = ? AND surface = ? AND part = ?)",
        (
            new.token, new.kind, new.session_id, new.turn_id, new.request_id, new.choices, now_ms, now_ms, message,
            *delivery,
        ),
    )  # fmt: skip


# A message that nobody knows, and that no delivery will bring any more, can be edited only if a press finds it.
_REACHABLE = (
    "(message_id IS NOT NULL OR EXISTS"
    " (SELECT 1 FROM deliveries WHERE surface_id = surfaces.id AND deliveries.state IN ('planned', 'sending')))"
)

_OUTCOME = f"""
UPDATE surfaces SET state = 'closed', desired = CASE WHEN {_REACHABLE} THEN ?1 END,
    once_found = CASE WHEN NOT {_REACHABLE} THEN ?1 END, desired_digest = ?2, desired_priority = ?3, updated_at_ms = ?4
"""  # noqa: S608 - all of it is ours


def _outcome(view: View, priority: Priority, now_ms: int) -> tuple[bytes, str, int, int]:
    return encode_view(view), digest_of(view), int(priority), now_ms


def close_request(request_id: str, outcome: View, now_ms: int) -> Statement:
    """Every copy of the card of `request_id` is to show `outcome`; none of its controls counts any more."""
    return Statement(f"{_OUTCOME} WHERE request_id = ?5", (*_outcome(outcome, Priority.CONTROL, now_ms), request_id))


def close_card(
    session_id: str, turn_id: str, last: View, now_ms: int, priority: Priority = Priority.ANSWER
) -> Statement:
    """The card of a turn that is over is to show `last`. A stream that brings no answer is closed as progress."""
    return Statement(
        f"{_OUTCOME} WHERE session_id = ?5 AND kind = 'card' AND turn_id = ?6",
        (*_outcome(last, priority, now_ms), session_id, turn_id),
    )


def close(surface_id: int, last: View | None, now_ms: int) -> Statement:
    """The controls of one surface count no more; with `last`, its message is to show that."""
    if last is None:
        return Statement("UPDATE surfaces SET state = 'closed', updated_at_ms = ? WHERE id = ?", (now_ms, surface_id))
    return Statement(f"{_OUTCOME} WHERE id = ?5", (*_outcome(last, Priority.CONTROL, now_ms), surface_id))


def close_waiting(session_id: str, message_id: str, last: View, now_ms: int) -> Statement:
    """The line about a message that waits is to show `last`, and offers nothing any more."""
    return Statement(
        f"{_OUTCOME} WHERE session_id = ?5 AND kind = 'notice' AND request_id = ?6 AND desired_digest IS NOT ?2",
        (*_outcome(last, Priority.ANSWER, now_ms), session_id, message_id),
    )


# The runtime's own list of what waits, read in the commit that plans the line: if the message entered before that,
# its event may have been read already, and nothing else would ever close the line.
_WAITS_NO_MORE = (
    "token = ?{token} AND EXISTS (SELECT 1 FROM sessions WHERE sessions.session_id = surfaces.session_id)"
    " AND NOT EXISTS (SELECT 1 FROM pending_messages AS waiting"
    " WHERE waiting.session_id = surfaces.session_id AND waiting.message_id = surfaces.request_id)"
)


def unless_waiting(token: str, now_ms: int) -> tuple[Statement, Statement]:
    """The line about a message that has entered already is neither sent nor open; goes behind what plans it."""
    gone = _WAITS_NO_MORE.format(token=2)
    return (
        Statement(
            "UPDATE deliveries SET state = 'failed', reason = 'overtaken by its message', updated_at_ms = ?1"  # noqa: S608
            f" WHERE state = 'planned' AND surface_id = (SELECT id FROM surfaces WHERE {gone})",
            (now_ms, token),
        ),
        Statement(
            f"UPDATE surfaces SET state = 'closed', updated_at_ms = ?1 WHERE {gone}",  # noqa: S608
            (now_ms, token),
        ),
    )


def given_up(surface_id: int, now_ms: int) -> Statement:
    """No delivery will tell the message's id any more; what it should show waits for a press to find it."""
    return Statement(
        "UPDATE surfaces SET once_found = desired, desired = NULL, updated_at_ms = ?"
        " WHERE id = ? AND message_id IS NULL AND desired IS NOT NULL",
        (now_ms, surface_id),
    )


def going_out(surface_id: int, now_ms: int) -> Statement:
    """The message of the surface may be on the platform from now on."""
    return Statement(
        "UPDATE surfaces SET state = CASE state WHEN 'planned' THEN 'open' ELSE state END,"
        " adoptable = message_id IS NULL, updated_at_ms = ? WHERE id = ?",
        (now_ms, surface_id),
    )


_COPY = """
INSERT INTO surfaces (token, kind, state, session_id, turn_id, request_id, first_sequence, platform, account, chat,
    thread, person, adoptable, choices, desired, desired_digest, desired_priority, expires_at_ms, created_at_ms,
    updated_at_ms)
SELECT ?, kind, state, session_id, turn_id, request_id, first_sequence, platform, account, chat,
    thread, person, 1, choices, desired, desired_digest, desired_priority, expires_at_ms, ?, ?
FROM surfaces WHERE id = ?
"""


def copy(surface_id: int, token: str, now_ms: int) -> Statement:
    """A second surface for the same request or turn: its message may be there beside the first one's."""
    return Statement(_COPY, (token, now_ms, now_ms, surface_id), expect_rows=1)


def arrived(surface_id: int, message_id: str, shown: str | None, now_ms: int) -> Statement:
    """The message is there and shows the view with digest `shown`; a wish for that same view is fulfilled."""
    return Statement(
        "UPDATE surfaces SET message_id = ?1, adoptable = 0, shown = ?2,"
        " desired = CASE WHEN desired_digest = ?2 THEN NULL ELSE desired END, updated_at_ms = ?3 WHERE id = ?4",
        (message_id, shown, now_ms, surface_id),
    )


def never_arrived(surface_id: int, now_ms: int) -> Statement:
    """The platform said no: there is no such message, and there is nothing to edit."""
    return Statement(
        "UPDATE surfaces SET adoptable = 0, desired = NULL, updated_at_ms = ? WHERE id = ? AND message_id IS NULL",
        (now_ms, surface_id),
    )


def adopt(surface_id: int, message_id: str, now_ms: int) -> tuple[Statement, Statement]:
    """A press brought the id of a message that we did not know; the delivery that was unknown is sent after all.

    The first statement changes one row, or none where no message of this surface is missing.
    """
    return (
        Statement(
            "UPDATE surfaces SET message_id = ?, adoptable = 0, desired = COALESCE(desired, once_found),"
            " once_found = NULL, updated_at_ms = ? WHERE id = ? AND adoptable = 1",
            (message_id, now_ms, surface_id),
        ),
        Statement(
            "UPDATE deliveries SET state = 'sent', reason = 'found by a press', updated_at_ms = ?"
            " WHERE surface_id = ? AND state = 'unknown'",
            (now_ms, surface_id),
        ),
    )


def edited(surface_id: int, shown: str, now_ms: int) -> Statement:
    """The message shows the view with digest `shown`; a newer wish stays."""
    return Statement(
        "UPDATE surfaces SET shown = ?1, desired = CASE WHEN desired_digest = ?1 THEN NULL ELSE desired END,"
        " updated_at_ms = ?2 WHERE id = ?3",
        (shown, now_ms, surface_id),
    )


def not_editable(surface_id: int, wished: str, now_ms: int) -> Statement:
    """The message cannot be made to show what was wished (gone, or refused): do not ask again."""
    return Statement(
        "UPDATE surfaces SET desired = NULL, updated_at_ms = ? WHERE id = ? AND desired_digest = ?",
        (now_ms, surface_id, wished),
    )


def move_chat(place: Place, chat: str, now_ms: int) -> Statement:
    """The chat has another id. Messages in the old one cannot be reached any more."""
    return Statement(
        "UPDATE surfaces SET chat = ?, desired = NULL, updated_at_ms = ?"
        " WHERE platform = ? AND account = ? AND chat = ?",
        (chat, now_ms, place.platform, place.account, place.chat),
    )


# --------------------------------------------------------------------------------------------------------- queries


def _row(row: Row) -> SurfaceRow:
    platform, account, chat, thread, person = row[8:13]
    return SurfaceRow(
        id=row[0], token=row[1], kind=row[2], state=row[3], session_id=row[4], turn_id=row[5], request_id=row[6],
        first_sequence=row[7], message_id=row[13], adoptable=bool(row[14]), choices=row[15], expires_at_ms=row[16],
        place=Place(platform=platform, account=account, chat=chat, thread=thread, person=person),
    )  # fmt: skip


async def by_token(database: Database, token: str) -> SurfaceRow | None:
    """The surface that a control belongs to, or None. The caller compares the place and the message."""
    rows = await database.read(f"SELECT {_COLUMNS} FROM surfaces WHERE token = ?", (token,))  # noqa: S608
    return _row(rows[0]) if rows else None


async def of_request(database: Database, request_id: str) -> tuple[SurfaceRow, ...]:
    """Every copy of the card of a request, oldest first."""
    sql = f"SELECT {_COLUMNS} FROM surfaces WHERE request_id = ? ORDER BY id"  # noqa: S608
    return tuple(_row(row) for row in await database.read(sql, (request_id,)))


async def was_shown(database: Database, request_id: str) -> bool:
    """Whether a card of the request is known to be on the platform; it goes out behind everything that it shows."""
    copies = await of_request(database, request_id)
    return any(copy.kind == "approval" and copy.message_id is not None for copy in copies)


async def of_waiting(database: Database, session_id: str, message_id: str) -> SurfaceRow | None:
    """The line about a message that waits, if there is one."""
    sql = f"SELECT {_COLUMNS} FROM surfaces WHERE request_id = ? AND session_id = ? AND kind = 'notice'"  # noqa: S608
    rows = await database.read(sql, (message_id, session_id))
    return _row(rows[0]) if rows else None


async def live_cards(database: Database, session_id: str | None = None) -> tuple[SurfaceRow, ...]:
    """Cards of turns of which we have not seen the end; of one session, or of all."""
    sql = f"SELECT {_COLUMNS} FROM surfaces WHERE kind = 'card' AND state <> 'closed'"  # noqa: S608
    if session_id is None:
        return tuple(_row(row) for row in await database.read(f"{sql} ORDER BY id"))
    return tuple(_row(row) for row in await database.read(f"{sql} AND session_id = ? ORDER BY id", (session_id,)))


async def had_card(database: Database, session_id: str) -> bool:
    """A card was shown in this session before."""
    sql = "SELECT 1 FROM surfaces WHERE session_id = ? AND kind = 'card' LIMIT 1"
    return bool(await database.read(sql, (session_id,)))


async def message_of(database: Database, surface_id: int) -> str | None:
    """The id of the surface's message, once it is known."""
    rows = await database.read("SELECT message_id FROM surfaces WHERE id = ?", (surface_id,))
    return rows[0][0] if rows else None
