"""How a row of the inbound table is handled: first routed, then performed, each step safe to do again.

A handler decides; the router commits. `route` fixes, in a commit of its own, everything that must be the same when a
crash makes the row come again: session, submission id, turn or request. `perform` may be called again with that.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from adapters.contract import (
    Acknowledgement,
    Capabilities,
    Inbound,
    InboundFile,
    Notice,
    Place,
    Private,
    Reaction,
    View,
)
from gateway.access import Access, Right
from gateway.budget import Priority
from gateway.ledger import deliveries, inbound, people
from gateway.ledger.audit import Subject, audit_statement
from gateway.ledger.database import Database
from gateway.ledger.inbound import InboundRow, StoredRoute
from gateway.ledger.surfaces import NewSurface
from gateway.pace import Pace
from gateway.places import Places, conversation, display_name
from gateway.ports import GrantList, Platforms, Sessions
from gateway.receiving import Receiving
from gateway.strings import say
from runtime.clock import Clock
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol.checkpoint import Receipt
from runtime.protocol.context import JsonValue
from runtime.protocol.ops import Op
from runtime.store.writer import Statement

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to handle: a row, or the rows of one album or paste, in order. `inbound` is the first one's.

    `rights` are those that the sender has now. `late`: the platform had to be answered without content already.
    """

    rows: tuple[InboundRow, ...]
    rights: frozenset[Right]
    late: bool = False

    @property
    def id(self) -> int:
        """The row that leads."""
        return self.rows[0].id

    @property
    def inbound(self) -> Inbound:
        """What happened."""
        return self.rows[0].inbound

    @property
    def principal(self) -> str:
        """Who did it."""
        return self.rows[0].principal

    @property
    def place(self) -> Place:
        """Where, and where replies go."""
        return conversation(self.inbound.place)

    @property
    def submission_id(self) -> str:
        """Under which its op is submitted, each time."""
        return inbound.submission_id(self.id)

    @property
    def source(self) -> str:
        """Under which replies to it are planned."""
        return inbound.source(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """It goes to a session, or at least has an effect that must be the same each time.

    `statements` are committed with the route, and only with it.
    """

    session_id: str | None
    detail: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    statements: Sequence[Statement] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """It is done. `statements`, what people are told included, are committed with the outcome.

    `answer`: the one acknowledgement of a press, given after the commit. `late`: the same for people, planned when
    the platform was acknowledged without content already. `forget`: what was said is not kept.
    """

    outcome: str
    statements: Sequence[Statement] = ()
    answer: Acknowledgement = None
    late: str = ""
    forget: bool = False


class Handler(Protocol):
    """Handles one kind of thing."""

    async def route(self, item: Item) -> Routed | Settled:
        """Decide where it goes, or settle it at once."""
        ...

    async def perform(self, item: Item, route: StoredRoute) -> Settled:
        """Do it; called again after a crash, with the same route."""
        ...


async def no_lines(inbound: Inbound) -> Sequence[str]:
    """Nothing is counted."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every handler has at hand."""

    access: Access
    database: Database
    places: Places
    sessions: Sessions
    grants: GrantList
    platforms: Platforms
    clock: Clock
    random_bytes: Callable[[int], bytes]
    routes: Callable[[], Sequence[str]]
    strict_commands: Callable[[], bool] = lambda: False
    zone: Callable[[], str] = lambda: "UTC"
    agents: Callable[[], Sequence[str]] = lambda: ()
    schedules_changed: Callable[[], None] = lambda: None
    message_bytes: Callable[[], int] = lambda: 32_768
    receiving: Receiving | None = None
    pace: Pace = field(default_factory=lambda: Pace(lambda: 1_000_000))
    spent: Callable[[Inbound], Awaitable[Sequence[str]]] = no_lines
    offline_age_ms: Callable[[], int] = lambda: 3_600_000
    stopping: Callable[[str, str], None] = lambda session_id, turn_id: None
    stopping_loop: Callable[[str, str, bool], None] = lambda session_id, loop_id, now: None
    faults: Faults = NO_FAULTS

    async def submit(self, session_id: str, op: Op, submission_id: str) -> Receipt:
        """Submit an op under its stored id; doing it again is harmless."""
        self.faults.reach("intake.submit.before")
        receipt = await self.sessions.submit(session_id, op, submission_id)
        self.faults.reach("intake.submit.after")
        return receipt

    def capabilities(self, place: Place) -> Capabilities:
        """What the platform of the place can do; the least, while its adapter is not there."""
        adapter = self.platforms.adapter(place.platform, place.account)
        return adapter.capabilities if adapter is not None else Capabilities()

    def refuse_file(self, file: InboundFile) -> str | None:
        """Why a file is not even fetched; None if it is."""
        return say("files.not_here") if self.receiving is None else self.receiving.refusal(file)

    async def name(self, principal: str | None) -> str:
        """A person's name as last seen, or else the principal."""
        if principal is None:
            return "somebody"
        return await people.name_of(self.database, principal) or principal

    def plan(
        self,
        item: Item,
        view: View,
        surface: str = "reply",
        priority: Priority = Priority.ANSWER,
        new_surface: NewSurface | None = None,
        session_id: str | None = None,
    ) -> list[Statement]:
        """Plan a view as an answer to the item."""
        return deliveries.plan(
            source=item.source,
            surface=surface,
            place=item.place,
            views=[view],
            priority=priority,
            now_ms=self.clock.now_ms(),
            session_id=session_id,
            new_surface=new_surface,
        )

    def reply(self, item: Item, text: str, *, error: bool = False) -> list[Statement]:
        """Plan words of ours as an answer to the item; an error notifies."""
        reply_to = item.inbound.ref if item.inbound.chat_kind != "private" else None
        notice = Notice(text=text, level="warning" if error else "info", reply_to=reply_to, notify=error)
        return self.plan(item, notice, priority=Priority.CONTROL if error else Priority.ANSWER)

    def tell_privately(self, item: Item, text: str) -> list[Statement]:
        """Plan words for the sender alone, where the platform can; otherwise in the thread, with the name in front."""
        private = item.inbound.chat_kind == "private"
        if not private and self.capabilities(item.place).ephemeral == "any":
            view: View = Private(person=item.inbound.sender.id, text=text)
        else:
            name = "" if private else f"{display_name(item.inbound.sender.name)}: "
            view = Notice(text=f"{name}{text}")
        return self.plan(item, view, "private", Priority.CONTROL)

    def mark(self, item: Item, mark: Reaction) -> list[Statement]:
        """Plan a mark on a message."""
        return self.plan(item, mark, "mark", Priority.PROGRESS)

    def audit(
        self, item: Item, kind: str, subject: Subject, detail: Mapping[str, JsonValue] | None = None
    ) -> Statement:
        """An audit row about what the sender did."""
        return audit_statement(self.clock.now_ms(), kind, principal=item.principal, subject=subject, detail=detail)


def clock_time(at_ms: int, *, seconds: bool = False) -> str:
    """`14:02 UTC`, for people."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%H:%M:%S} UTC" if seconds else f"{at:%H:%M} UTC"
