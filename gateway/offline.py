"""What was said while the gateway was down for long: nobody may want the answer any more, so its author is asked first.

Only a gap that we know of counts: from the last thing that arrived before to the start of this process. A platform
whose clock goes wrong therefore never makes us ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.contract import Control, Notice, Place
from gateway.budget import Priority
from gateway.handling import Desk, Item, Routed, Settled
from gateway.ledger import inbound as rows
from gateway.ledger.database import Database
from gateway.ledger.inbound import InboundRow, StoredRoute
from gateway.ledger.surfaces import Letter, NewSurface, SurfaceRow, mint, payload
from gateway.messages import message_of, route_to_session
from gateway.strings import say
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
    """To the session of the place, as if the words had come now; None if nothing waits any more."""
    waiting = await _waiting(desk, surface.place)
    if not waiting:
        return None
    return await route_to_session(desk, _item(waiting[0], item))


async def answer(desk: Desk, item: Item, route: StoredRoute, surface: SurfaceRow) -> Sequence[Statement] | None:
    """Submit everything that waited, each under its own id, in order; None if the session refused the first.

    Done again after a crash, what was submitted already is known by its id.
    """
    assert route.session_id is not None
    statements: list[Statement] = []
    for row in await _waiting(desk, surface.place):
        words = _item(row, item)
        scope = desk.places.binding(words.inbound.place).scope
        op = message_of(words, words.inbound.text, scope)
        receipt = await desk.submit(route.session_id, op, words.submission_id)
        if receipt.status == "rejected":
            return statements or None
        statements.append(rows.outcome_changed(row.id, ASKED, ANSWERED))
    return statements


async def _waiting(desk: Desk, place: Place) -> list[InboundRow]:
    return await rows.with_outcome(desk.database, place, ASKED)


def _item(row: InboundRow, press: Item) -> Item:
    return Item(rows=(row,), rights=press.rights)
