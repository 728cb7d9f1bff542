"""What people do to words that they have said, and the platform's own stop.

An edit or a deletion reaches a message only while it waits. It never starts or steers a turn.
"""

from __future__ import annotations

from adapters.contract import InboundKind
from gateway.acts import interrupt
from gateway.handling import Desk, Item, Routed, Settled
from gateway.ledger import inbound as rows
from gateway.ledger.inbound import StoredRoute
from gateway.strings import say
from runtime.protocol import ops

CLOCK_GRAIN_MS = 1000
"""Telegram tells instants in whole seconds."""


class Corrections:
    """Handles edits and deletions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def route(self, item: Item) -> Routed | Settled:
        """To the session that the message waits in, if it is the sender's own and stands alone."""
        ref = item.inbound.ref
        origin = await rows.by_message(self._desk.database, item.inbound.place, ref.id) if ref else None
        if origin is None or origin.session_id is None or origin.principal != item.principal:
            return Settled(outcome="ignored", forget=True)
        alone = origin.submission_id == rows.submission_id(origin.inbound_id)
        if not alone or await rows.has_parts(self._desk.database, origin.inbound_id):
            return Settled(outcome="ignored", forget=True)
        if len(item.inbound.text.encode()) > self._desk.message_bytes():
            return Settled(outcome="too_long", statements=self._desk.reply(item, say("edit.too_long"), error=True))
        return Routed(session_id=origin.session_id, detail={"message_id": origin.submission_id})

    async def perform(self, item: Item, route: StoredRoute) -> Settled:
        """Change or remove it, if it still waits."""
        assert route.session_id is not None
        message_id = str(route.detail["message_id"])
        op: ops.Op = ops.EditQueued(message_id=message_id, text=item.inbound.text)
        if item.inbound.kind is InboundKind.DELETE:
            op = ops.RemoveQueued(message_id=message_id, by=item.principal)
        receipt = await self._desk.submit(route.session_id, op, route.submission_id)
        return Settled(outcome="ignored" if receipt.status == "rejected" else item.inbound.kind.value, forget=True)


class NativeStop:
    """Handles the platform's own stop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def route(self, item: Item) -> Routed | Settled:
        """The turn that ran when the person stopped it; never one that began after that."""
        row = await self._desk.places.find(item.inbound)
        checkpoint = await self._desk.sessions.peek(row.session_id) if row else None
        active = checkpoint.active_execution if checkpoint else None
        if row is None or active is None:
            return Settled(outcome="not_running")
        sent = item.inbound.sent_at_ms
        if sent and active.started_at_ms - CLOCK_GRAIN_MS >= sent:
            return Settled(outcome="later_turn")
        return Routed(session_id=row.session_id, detail={"turn_id": active.turn_id})

    async def perform(self, item: Item, route: StoredRoute) -> Settled:
        """Interrupt it. The end of the turn says who stopped it."""
        assert route.session_id is not None
        turn_id = str(route.detail["turn_id"])
        result = await interrupt(self._desk, route.session_id, turn_id, item.principal, route.submission_id)
        return Settled(outcome=result.status)
