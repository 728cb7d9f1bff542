"""What was said while the gateway was down for long: nobody may want the answer any more, so its author is asked first.

Only a gap that we know of counts: from the last thing that arrived before to the start of this process. A platform
whose clock goes wrong therefore never makes us ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.contract import Control, Notice, Place
from gateway.access import NO_RIGHTS, Authorized, Right, authorize
from gateway.budget import Priority
from gateway.handling import Desk, Item, Routed, Settled
from gateway.ledger import inbound as rows
from gateway.ledger.audit import Subject
from gateway.ledger.database import Database
from gateway.ledger.inbound import InboundRow, StoredRoute
from gateway.ledger.surfaces import Letter, NewSurface, SurfaceRow, mint, payload
from gateway.messages import message_of, receive, route_to_session
from gateway.places import place_for
from gateway.receiving import Received
from gateway.strings import say
from runtime.protocol.context import JsonValue
from runtime.protocol.ops import Message
from runtime.protocol.session import Delivery
from runtime.store.writer import Statement

ASKED = "asked_offline"
ANSWERED = "answered_late"
"""Outcomes of a row whose author was asked, and has said yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """When we were not there, in UTC milliseconds; `since_ms` is None where nothing had ever arrived before."""

    since_ms: int | None
    until_ms: int

    def is_long_ago(self, item: Item, age_ms: int) -> bool:
        """Whether the item was sent while we were away, and longer ago than `age_ms` when we came back."""
        sent = item.inbound.sent_at_ms
        return self.since_ms is not None and self.since_ms < sent < self.until_ms - age_ms


async def absence(database: Database, started_at_ms: int) -> Absence:
    """The gap before this start."""
    return Absence(since_ms=await rows.newest_before(database, started_at_ms), until_ms=started_at_ms)


async def ask(desk: Desk, item: Item) -> Settled:
    """Ask, once for everything that waits in the place; the words stay in their rows."""
    if await rows.with_outcome(desk.database, item.place, ASKED):
        return Settled(outcome=ASKED)
    token = mint(desk.random_bytes)
    surface = NewSurface(token=token, kind="notice", choices=Letter.CONTINUE.value, request_id=item.submission_id)
    control = Control(label=say("control.answer_now"), token=payload(token, Letter.CONTINUE))
    notice = Notice(text=say("offline.ask"), reply_to=item.inbound.ref, controls=(control,), notify=True)
    return Settled(outcome=ASKED, statements=desk.plan(item, notice, "offline", Priority.CONTROL, surface))


def is_question(surface: SurfaceRow) -> bool:
    """Whether a surface is such a question, and not that of a turn."""
    return surface.session_id is None and (surface.request_id or "").startswith("in:")


async def route(desk: Desk, item: Item, surface: SurfaceRow) -> Routed | None:
    """Each to the session of its own place, as if the words had come now; None if nothing waits any more.

    Whoever may not talk any more gets no session. Without anybody left the route names none.
    """
    waiting = await _waiting(desk, surface.place)
    if not waiting:
        return None
    ways: dict[Place, Routed] = {}
    sessions: dict[str, JsonValue] = {}
    for row in waiting:
        words = _item(desk, row)
        if words is None:
            continue
        home = place_for(row.inbound, desk.places.binding(row.inbound.place).scope)
        if home not in ways:
            ways[home] = await route_to_session(desk, words)
        sessions[str(row.id)] = ways[home].session_id
    statements = [statement for way in ways.values() for statement in way.statements]
    first = next((way.session_id for way in ways.values()), None)
    return Routed(session_id=first, detail={"sessions": sessions}, statements=statements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of the words that waited: how many were taken, and the statements that say so of each."""

    taken: int
    statements: Sequence[Statement]


async def answer(desk: Desk, item: Item, route: StoredRoute, surface: SurfaceRow) -> Answered:
    """Submit everything that waited, each under its own id, in order; words of people who may not talk are dropped.

    What a session refuses, and what follows it there, waits on; without statements nothing came of it. Done again
    after a crash, what was submitted already is known by its id.
    """
    known = route.detail.get("sessions")
    sessions = known if isinstance(known, dict) else {}
    taken, statements, full = 0, list[Statement](), set[str]()
    for row in await _waiting(desk, surface.place):
        words = _item(desk, row)
        if words is None:
            statements += _dropped(desk, row)
            continue
        session_id = await _session_of(desk, row, sessions)
        if session_id is None or session_id in full:
            continue
        received = await receive(desk, words, session_id)
        receipt = await desk.submit(session_id, _op(desk, words, received), words.submission_id)
        if receipt.status == "rejected":
            full.add(session_id)
            continue
        taken += 1
        statements.append(rows.outcome_changed(row.id, ASKED, ANSWERED))
    return Answered(taken=taken, statements=statements)


def _op(desk: Desk, words: Item, received: Received) -> Message:
    scope = desk.places.binding(words.inbound.place).scope
    delivery = None if Right.STEER in words.rights else Delivery.QUEUE
    return message_of(words, words.inbound.text, scope, delivery, received)


async def _session_of(desk: Desk, row: InboundRow, sessions: Mapping[str, JsonValue]) -> str | None:
    """The session that was fixed; for words that came to wait since, the one that their place has, if any."""
    fixed = sessions.get(str(row.id))
    if fixed is not None:
        return str(fixed)
    found = await desk.places.find(row.inbound)
    return found.session_id if found is not None else None


def _dropped(desk: Desk, row: InboundRow) -> list[Statement]:
    words = Item(rows=(row,), rights=NO_RIGHTS)
    return [
        rows.outcome_changed(row.id, ASKED, "refused"),
        desk.audit(words, "refused", Subject(place=words.place), {"kind": row.inbound.kind.value}),
    ]


async def _waiting(desk: Desk, place: Place) -> list[InboundRow]:
    return await rows.with_outcome(desk.database, place, ASKED)


def _item(desk: Desk, row: InboundRow) -> Item | None:
    """The words with the rights that their author has now; None if he may not talk any more."""
    verdict = authorize(desk.access.policy, row.inbound)
    if not isinstance(verdict, Authorized) or Right.TALK not in verdict.rights:
        return None
    return Item(rows=(row,), rights=verdict.rights)
