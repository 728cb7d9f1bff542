"""People's words on their way into a session, and the truthful receipt that they get."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from adapters.contract import Control, Inbound, InboundFile, Notice, Reaction
from adapters.errors import AdapterError
from gateway.access import Authorized, Right, authorize
from gateway.acts import resolve
from gateway.budget import Priority
from gateway.gathering import text_of
from gateway.handling import Desk, Item, Routed, Settled, clock_time
from gateway.ledger.inbound import StoredRoute
from gateway.ledger.surfaces import Letter, NewSurface, mint, payload, unless_waiting
from gateway.looping import Begin
from gateway.places import author_of, is_for_us
from gateway.receiving import Received, Whose
from gateway.strings import say
from runtime.errors import ConfigurationError
from runtime.protocol import ops
from runtime.protocol.approvals import ApproveWith
from runtime.protocol.checkpoint import Receipt
from runtime.protocol.session import Delivery, Quoted
from runtime.store.writer import Statement
from runtime.tools.ask_user import answered, question_of
from runtime.tools.base import Workspace

log = logging.getLogger(__name__)

HISTORY_MESSAGES = 50
HISTORY_CHARACTERS = 16_000
"""How much of an old thread comes along with the first words that are said to us in it."""


class Messages:
    """Handles messages."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def route(self, item: Item) -> Routed | Settled:
        """To the session of its place, which begins with it if there is none; or nowhere, with a sentence."""
        try:
            if not await is_meant_for_us(self._desk, item.inbound):
                return Settled(outcome="not_for_us", forget=True)
            refusal = self._objection(item) or too_fast(self._desk, item)
            return refusal or await self._answering(item, await route_to_session(self._desk, item))
        except ConfigurationError as error:
            return refused(self._desk, item, str(error))

    async def _answering(self, item: Item, routed: Routed) -> Routed:
        """Plain words are the answer to the question that waits, if there is one."""
        words = text_of(item.rows).strip()
        if routed.session_id is None or not words or item.inbound.forwarded or files_of(item):
            return routed
        checkpoint = await self._desk.sessions.peek(routed.session_id)
        pending = checkpoint.pending_approval if checkpoint is not None else None
        if pending is None or question_of(pending) is None:
            return routed
        return replace(routed, detail={**routed.detail, "answers": pending.request_id})

    async def _answer(self, item: Item, route: StoredRoute) -> Settled | None:
        """Answer the question that the words were routed to; None if it was over by then: they are a message."""
        assert route.session_id is not None
        request_id = str(route.detail["answers"])
        checkpoint = await self._desk.sessions.peek(route.session_id)
        pending = checkpoint.pending_approval if checkpoint is not None else None
        waits = pending is not None and pending.request_id == request_id and question_of(pending) is not None
        decision = answered(pending, text_of(item.rows).strip()) if pending is not None and waits else ApproveWith()
        result = await resolve(
            self._desk, route.session_id, request_id, decision, item.principal, f"{route.submission_id}:answer"
        )
        if result.status != "resolved":
            return None
        return Settled(outcome="answered")  # the question's card shows it, and the turn goes on

    async def perform(self, item: Item, route: StoredRoute) -> Settled:
        """Submit it, and say what will happen with it."""
        assert route.session_id is not None
        if "answers" in route.detail and (settled := await self._answer(item, route)) is not None:
            return settled
        scope = self._desk.places.binding(item.inbound.place).scope
        delivery = None if Right.STEER in item.rights else Delivery.QUEUE
        received = await receive(self._desk, item, route.session_id)
        if received.refusals and not received.attachments and not _has_words(item):
            return Settled(outcome="empty", statements=self._desk.reply(item, "\n".join(received.refusals), error=True))
        op = message_of(item, text_of(item.rows), scope, delivery, received)
        if route.detail.get("begun"):
            op = replace(op, quoted=(*await earlier_words(self._desk, item), *op.quoted))
        settled = await submit_message(self._desk, item, route, op)
        if not received.refusals:
            return settled
        notice = Notice(text="\n".join(received.refusals), level="warning", reply_to=item.inbound.ref)
        return replace(settled, statements=[*settled.statements, *self._desk.plan(item, notice, "files")])

    def _objection(self, item: Item) -> Settled | None:
        text = text_of(item.rows)
        if not _has_words(item):
            refusals = [self._desk.refuse_file(file) for file in files_of(item)]
            if all(refusals):
                words = "\n".join(dict.fromkeys(filter(None, refusals))) or say("message.empty")
                return Settled(outcome="empty", statements=self._desk.reply(item, words, error=True))
        size, limit = len(text.encode()), self._desk.message_bytes()
        if size > limit:
            return refused(self._desk, item, say("message.too_long", size=_kilobytes(size), limit=_kilobytes(limit)))
        return None


def too_fast(desk: Desk, item: Item) -> Settled | None:
    """Settles words of somebody who sends more of them than anybody may. He is told once, and until when it holds."""
    found = desk.pace.take(item.principal, item.inbound.sent_at_ms or item.rows[0].received_at_ms)
    if found is None:
        return None
    if not found.first:
        return Settled(outcome="too_fast")
    words = say("message.too_fast", until=clock_time(found.until_ms, seconds=True))
    return Settled(outcome="too_fast", statements=desk.reply(item, words, error=True))


async def is_meant_for_us(desk: Desk, inbound: Inbound) -> bool:
    """Whether something said in a place is meant for us; see `places.is_for_us`."""
    listen = desk.places.binding(inbound.place).listen
    if is_for_us(inbound, listen, bound=False):
        return True
    return is_for_us(inbound, listen, bound=True) and await desk.places.is_bound(inbound)


async def route_to_session(desk: Desk, item: Item) -> Routed:
    """To the session of the item's place; where there is none, it begins in the same commit."""
    row = await desk.places.find(item.inbound)
    if row is not None:
        return Routed(session_id=row.session_id)
    begun = desk.places.begin(item.inbound, item.principal)
    return Routed(session_id=begun.session_id, detail={"begun": True}, statements=begun.statements)


async def earlier_words(desk: Desk, item: Item) -> Sequence[Quoted]:
    """What people who may use us said in a thread before we were spoken to in it: data, the newest of it."""
    adapter = desk.platforms.adapter(item.place.platform, item.place.account)
    if item.place.thread is None or adapter is None or not adapter.capabilities.history_backfill:
        return ()
    try:
        said = await adapter.backfill(item.place, None)
    except AdapterError as error:
        log.warning("the thread before the first mention could not be read: %s", error)
        return ()
    ours = {row.inbound.ref for row in item.rows}
    quoted: list[Quoted] = []
    room = HISTORY_CHARACTERS
    for one in reversed(said[-HISTORY_MESSAGES:]):
        room -= len(one.text)
        if room < 0:
            break
        if one.ref not in ours and one.text and isinstance(authorize(desk.access.policy, one), Authorized):
            quoted.append(Quoted(source="history", author=author_of(one, "shared"), text=one.text))
    return tuple(reversed(quoted))


def files_of(item: Item) -> tuple[InboundFile, ...]:
    """Every file that came along."""
    return tuple(file for row in item.rows for file in row.inbound.files)


def _has_words(item: Item) -> bool:
    return bool(text_of(item.rows).strip()) or any(row.inbound.quotes for row in item.rows)


async def receive(desk: Desk, item: Item, session_id: str) -> Received:
    """Take the files that came along into the session's keeping and its workspace."""
    files = files_of(item)
    if not files or desk.receiving is None:
        return Received(refusals=(say("files.not_here"),) if files else ())
    opening = await desk.places.opening(session_id)
    if opening is None:
        return Received()
    found = opening.binding.workspace
    workspace = Workspace(id=found.id, label=found.title, path=found.path)
    whose = Whose(
        place=item.inbound.place,
        principal=item.principal,
        session_id=session_id,
        workspace=workspace,
        key=str(item.id),
    )
    return await desk.receiving.receive(files, whose)


def message_of(
    item: Item, text: str, scope: str, delivery: Delivery | None = None, received: Received | None = None
) -> ops.Message:
    """The op for a person's words. What was forwarded or quoted is data, and not words of the sender."""
    first = item.inbound
    quoted = tuple(
        Quoted(source=quote.source, author=quote.author, text=quote.text)
        for row in item.rows
        for quote in row.inbound.quotes
    )
    if first.forwarded and text:
        quoted, text = (*quoted, Quoted(source="forward", author=None, text=text)), ""
    if received is None:
        received = Received(refusals=(say("files.with_command"),) if files_of(item) else ())
    notes = (say("message.files_left_out", reason=reason) for reason in received.refusals)
    quoted = (*quoted, *(Quoted(source="note", author=None, text=note) for note in notes))
    return ops.Message(
        text=text or say("files.only" if received.attachments and not quoted else "message.forwarded"),
        attachments=received.attachments,
        author=author_of(first, scope),
        principal=item.principal,
        quoted=quoted,
        reply_to=first.reply_to.id if first.reply_to else None,
        delivery=delivery,
    )


async def submit_message(desk: Desk, item: Item, route: StoredRoute, op: ops.Message) -> Settled:
    """Submit words, and settle the item with the receipt that the person gets."""
    assert route.session_id is not None
    receipt = await desk.submit(route.session_id, op, route.submission_id)
    if receipt.status == "rejected":
        return refused(desk, item, receipt.reason or "")
    return Settled(outcome=receipt.disposition or receipt.status, statements=_receipt(desk, item, route, receipt))


async def begin_loop(desk: Desk, item: Item, route: StoredRoute, wish: Begin) -> Settled:
    """Start a loop with somebody's words, and settle the item with the receipt that the person gets."""
    assert route.session_id is not None
    op = ops.StartLoop(
        prompt=wish.prompt,
        max_iterations=wish.iterations,
        max_rounds=wish.rounds,
        author=author_of(item.inbound, desk.places.binding(item.inbound.place).scope),
        principal=item.principal,
    )
    receipt = await desk.submit(route.session_id, op, route.submission_id)
    if receipt.status == "rejected":
        return refused(desk, item, receipt.reason or "")
    if desk.capabilities(item.place).reactions:
        return Settled(outcome="loop")  # its card follows, and a mark before it
    words = say("loop.started", m=wish.iterations, rounds=wish.rounds)
    return Settled(outcome="loop", statements=desk.plan(item, Notice(text=words), "mark", Priority.PROGRESS))


def refused(desk: Desk, item: Item, reason: str) -> Settled:
    """Done, with a sentence that says why nothing came of it."""
    text = say("message.refused", reason=reason.rstrip("."))
    return Settled(outcome="refused", statements=desk.reply(item, text, error=True))


def _receipt(desk: Desk, item: Item, route: StoredRoute, receipt: Receipt) -> Sequence[Statement]:
    match receipt.disposition:
        case "steer":
            return mark_or_say(desk, item, "steered", say("receipt.steered"))
        case "queue":
            reactions = desk.capabilities(item.place).reactions and item.inbound.ref is not None
            marked = mark_or_say(desk, item, "queued", "")
            first = _is_first(receipt)
            line = first or not reactions
            return [*marked, *(_queue_line(desk, item, route, receipt, controls=first) if line else ())]
        case _:
            return ()  # its turn begins now, and shows itself: by its answer, or by a mark if that takes longer


def mark_or_say(desk: Desk, item: Item, mark: str, words: str) -> list[Statement]:
    """A mark on the message; where the platform has none, a silent line."""
    ref = item.inbound.ref
    if ref is not None and desk.capabilities(item.place).reactions:
        return desk.mark(item, Reaction(ref=ref, mark=mark))  # type: ignore[arg-type]
    return desk.plan(item, Notice(text=words), "mark", Priority.PROGRESS) if words else []


def _is_first(receipt: Receipt) -> bool:
    return receipt.position == 1


def _position(receipt: Receipt) -> str:
    return say("receipt.queued", n=receipt.position)


def _queue_line(desk: Desk, item: Item, route: StoredRoute, receipt: Receipt, *, controls: bool) -> list[Statement]:
    """A silent line, with the two things that can be done about a message that waits.

    Delivery edits it to what became of the message, so that none of it stays on the screen when it is not true.
    """
    token = mint(desk.random_bytes)
    letters = {Letter.PROMOTE: "control.promote", Letter.REMOVE: "control.remove"} if controls else {}
    surface = NewSurface(
        token=token,
        kind="notice",
        choices="".join(letters),
        session_id=route.session_id,
        request_id=route.submission_id,
    )
    buttons = tuple(Control(label=say(key), token=payload(token, letter)) for letter, key in letters.items())
    notice = Notice(text=_position(receipt), controls=buttons)
    priority = Priority.ANSWER if controls else Priority.PROGRESS
    return [
        *desk.plan(item, notice, "queue", priority, surface, route.session_id),
        *unless_waiting(token, desk.clock.now_ms()),
    ]


def _kilobytes(size: int) -> str:
    return f"{(size + 1023) // 1024} KB"
