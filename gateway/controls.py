"""Presses and forms: token, row, right, op, and the one acknowledgement with the true result.

A control carries a token and nothing else. What it stands for, where it may be pressed and what it offers is a row;
everything is asked of the database, never of the message that the control hangs on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import assert_never

from adapters.contract import ApprovalCard, Form, Inbound, InboundKind, Notice, Text
from gateway import looping, offline
from gateway.access import Right
from gateway.acts import interrupt, last_message, requesters, resolve, result_words
from gateway.commands import ask_again
from gateway.handling import Desk, Item, Routed, Settled
from gateway.ledger import deliveries, surfaces
from gateway.ledger.audit import Subject
from gateway.ledger.inbound import StoredRoute
from gateway.ledger.surfaces import CHOICES, Letter, SurfaceRow
from gateway.messages import message_of, submit_message
from gateway.strings import say
from gateway.views.action import action_text, gated_actions
from gateway.views.messages import without_controls
from runtime.errors import ConfigurationError
from runtime.protocol import ops
from runtime.protocol.approvals import Approve, ApproveForSession, ApproveWith, Decision, Deny, PendingApproval
from runtime.protocol.context import JsonValue
from runtime.store.writer import Statement
from runtime.tools.ask_user import answered, choices_of, question_of

ALERT_LENGTH = 200
"""Characters of an acknowledgement. Telegram's limit for callback answers; the others allow more."""

MAX_REASON = 2000

RIGHTS: Mapping[Letter, Right] = {
    Letter.APPROVE: Right.APPROVE,
    Letter.SESSION: Right.APPROVE,
    Letter.DENY: Right.APPROVE,
    Letter.DETAILS: Right.APPROVE,
    Letter.STOP: Right.STOP,
    Letter.RETRY: Right.TALK,
    Letter.CONTINUE: Right.TALK,
    Letter.PROMOTE: Right.STEER,
    Letter.REMOVE: Right.STEER,
    Letter.LOOP_AFTER: Right.STOP,
    Letter.LOOP_NOW: Right.STOP,
    Letter.LOOP_ON: Right.TALK,
    Letter.LOOP_LEAVE: Right.TALK,
    **dict.fromkeys(CHOICES, Right.TALK),
}
"""What a control asks of whoever presses it, at the moment at which it is acted on."""


class Objection(Enum):
    """Why a press counts for nothing, whoever made it."""

    ELSEWHERE = auto()
    """It was not pressed on the message that it belongs to."""
    NOT_OFFERED = auto()
    OVER = auto()


def objection(press: Inbound, letter: Letter, surface: SurfaceRow, now_ms: int) -> Objection | None:
    """Compare every binding of the surface with where the press came from.

    An approval that was decided or has expired is no objection: the session says what became of it.
    """
    if surface.state == "planned" or not _at_its_place(press, surface):
        return Objection.ELSEWHERE
    if letter not in surface.choices or (press.kind is InboundKind.FORM and letter is not Letter.DENY):
        return Objection.NOT_OFFERED  # the only form that there is asks why something is denied
    if surface.kind == "approval":
        return None
    expired = surface.expires_at_ms is not None and now_ms >= surface.expires_at_ms
    return Objection.OVER if expired or surface.state == "closed" else None


def _at_its_place(press: Inbound, surface: SurfaceRow) -> bool:
    place, home = press.place, surface.place
    if (place.platform, place.account) != (home.platform, home.account):
        return False
    if press.kind is InboundKind.FORM:
        # A form is opened by a press that was checked, and Slack does not say where it was opened.
        return place.chat == "" or (place.chat == home.chat and place.thread in (home.thread, None))
    if place.chat != home.chat or press.ref is None:
        return False
    if surface.message_id is None:
        return surface.adoptable and place.thread == home.thread
    # Of an old message Telegram says the id and the chat, but not the thread any more.
    return press.ref.id == surface.message_id and place.thread in (home.thread, None)


class Controls:
    """Handles presses and forms."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def route(self, item: Item) -> Routed | Settled:
        """Find what was pressed, and whether it may be; fix the turn or request that it acts on."""
        control = surfaces.parse(item.inbound.token or "")
        surface = await surfaces.by_token(self._desk.database, control[0]) if control else None
        if control is None or surface is None:
            return self._ended(item, None, "unknown", say("control.stale"))
        letter = control[1]
        problem = objection(item.inbound, letter, surface, self._desk.clock.now_ms())
        if problem is not None:
            return self._stale(item, surface, letter, problem)
        found = _adoption(item, surface, self._desk.clock.now_ms())
        if _right_for(letter, surface) not in item.rights:
            return await self._not_yours(item, surface, letter)
        try:
            step = await self._step(item, surface, letter)
        except ConfigurationError as error:
            return self._ended(item, surface, "refused", str(error))
        if isinstance(step, Settled):
            return Settled(
                outcome=step.outcome,
                statements=[*found, *step.statements],
                answer=step.answer,
                late=step.late,
            )
        return Routed(session_id=step.session_id, detail=step.detail, statements=[*found, *step.statements])

    async def _step(self, item: Item, surface: SurfaceRow, letter: Letter) -> Routed | Settled:
        session_id = surface.session_id
        detail: dict[str, JsonValue] = {"letter": letter.value, "token": surface.token}
        if offline.is_question(surface):
            step = await offline.route(self._desk, item, surface)
            if step is None:
                return self._ended(item, surface, "nothing", say("control.stale"))
            return Routed(session_id=step.session_id, detail={**detail, **step.detail}, statements=step.statements)
        if session_id is None:
            return self._ended(item, surface, "unknown", say("control.stale"))
        match letter:
            case Letter.APPROVE | Letter.SESSION:
                return await self._four_eyes(item, surface) or Routed(session_id=session_id, detail=detail)
            case Letter.DENY:
                if self._asks_reason(item) and await self._waits(surface):
                    return Settled(outcome="asked_reason", answer=_reason_form(surface), late=say("deny.again"))
                return Routed(session_id=session_id, detail=detail)
            case Letter.DETAILS:
                return await self._details(item, surface)
            case Letter.RETRY | Letter.CONTINUE:
                return await self._may_go_on(item, surface) or Routed(session_id=session_id, detail=detail)
            case Letter.STOP | Letter.PROMOTE | Letter.REMOVE:
                return Routed(session_id=session_id, detail=detail)
            case Letter.LOOP_AFTER | Letter.LOOP_NOW | Letter.LOOP_ON | Letter.LOOP_LEAVE:
                return Routed(session_id=session_id, detail=detail)
            case (
                Letter.CHOICE_1
                | Letter.CHOICE_2
                | Letter.CHOICE_3
                | Letter.CHOICE_4
                | Letter.CHOICE_5
                | Letter.CHOICE_6
            ):
                return Routed(session_id=session_id, detail=detail)
            case _:
                assert_never(letter)

    async def perform(self, item: Item, route: StoredRoute) -> Settled:
        """Act on the session; the route says on what."""
        surface = await surfaces.by_token(self._desk.database, str(route.detail["token"]))
        letter = Letter(str(route.detail["letter"]))
        if surface is None:
            return self._ended(item, surface, "unknown", say("control.stale"))
        # It was routed with the rights of then; a restart or a reload may lie between.
        if _right_for(letter, surface) not in item.rights:
            return await self._not_yours(item, surface, letter)
        try:
            if offline.is_question(surface):
                return await self._answer_late(item, route, surface)
            return await self._perform(item, route, surface, letter)
        except ConfigurationError as error:
            return self._ended(item, surface, "refused", str(error))

    async def _perform(self, item: Item, route: StoredRoute, surface: SurfaceRow, letter: Letter) -> Settled:
        match letter:
            case Letter.APPROVE:
                return await self._resolve(item, route, surface, Approve())
            case Letter.SESSION:
                return await self._resolve(item, route, surface, ApproveForSession())
            case Letter.DENY:
                return await self._resolve(item, route, surface, Deny(_reason(item.inbound)))
            case Letter.STOP:
                return await self._stop(item, route, surface)
            case Letter.RETRY | Letter.CONTINUE:
                return await self._go_on(item, route, surface, letter)
            case Letter.PROMOTE | Letter.REMOVE:
                return await self._queued(item, route, surface, letter)
            case Letter.LOOP_AFTER | Letter.LOOP_NOW:
                return await self._stop_loop(item, route, surface, now=letter is Letter.LOOP_NOW)
            case Letter.LOOP_ON | Letter.LOOP_LEAVE:
                return await self._settle_lost(item, route, surface, go_on=letter is Letter.LOOP_ON)
            case Letter.DETAILS:
                return await self._details(item, surface)
            case (
                Letter.CHOICE_1
                | Letter.CHOICE_2
                | Letter.CHOICE_3
                | Letter.CHOICE_4
                | Letter.CHOICE_5
                | Letter.CHOICE_6
            ):
                return await self._resolve(item, route, surface, await self._answer(surface, letter))
            case _:
                assert_never(letter)

    # ---------------------------------------------------------------------------------------- approvals

    async def _answer(self, surface: SurfaceRow, letter: Letter) -> Decision:
        """The choice as a decision. Of a question that waits no more the session says what became of it."""
        pending = await self._waiting(surface)
        question = question_of(pending)
        chosen = choices_of(question)[CHOICES.index(letter) :][:1] if question is not None else ()
        if pending is None or not chosen:
            return ApproveWith()
        return answered(pending, chosen[0])

    async def _resolve(self, item: Item, route: StoredRoute, surface: SurfaceRow, decision: Decision) -> Settled:
        assert surface.session_id is not None
        request_id = surface.request_id or ""
        result = await resolve(
            self._desk, surface.session_id, request_id, decision, item.principal, route.submission_id
        )  # fmt: skip
        words = await result_words(self._desk, result)
        done, closing = result.status == "resolved", list[Statement]()
        if result.status == "unknown":  # no event will ever close this card
            gone = ApprovalCard(title=say("decided.unknown"), outcome=words)
            closing.append(surfaces.close(surface.id, gone, self._desk.clock.now_ms()))
        return self._ended(
            item,
            surface,
            result.status,
            words,
            alert=not done,
            late="" if done else words,
            wish=type(decision).__name__,
            statements=closing,
        )

    async def _waiting(self, surface: SurfaceRow) -> PendingApproval | None:
        """The request of the surface, while it waits for a decision."""
        checkpoint = await self._desk.sessions.peek(surface.session_id or "")
        pending = checkpoint.pending_approval if checkpoint else None
        if pending is None or pending.request_id != surface.request_id or pending.decision is not None:
            return None
        expired = pending.expires_at_ms is not None and self._desk.clock.now_ms() >= pending.expires_at_ms
        return None if expired else pending

    async def _waits(self, surface: SurfaceRow) -> bool:
        return await self._waiting(surface) is not None

    def _asks_reason(self, item: Item) -> bool:
        """A form is the answer to a press; one that was pressed too long ago is a plain denial."""
        return item.inbound.kind is InboundKind.PRESS and not item.late and self._desk.capabilities(item.place).forms

    async def _four_eyes(self, item: Item, surface: SurfaceRow) -> Settled | None:
        if not self._desk.places.binding(surface.place).four_eyes:
            return None
        pending = await self._waiting(surface)
        checkpoint = await self._desk.sessions.peek(surface.session_id or "")
        if pending is None or item.principal not in requesters(checkpoint):
            return None
        return self._ended(item, surface, "four_eyes", say("press.four_eyes"), alert=True)

    async def _details(self, item: Item, surface: SurfaceRow) -> Settled:
        if surface.kind != "approval":
            text = say("details.turn", turn=surface.turn_id or "-", session=surface.session_id or "-")
            return self._ended(item, surface, "details", text, alert=True)
        pending = await self._waiting(surface)
        if pending is None:
            return self._ended(item, surface, "details", say("decided.unknown"), alert=True)
        text = action_text(gated_actions(pending))
        if len(text) <= ALERT_LENGTH:
            return self._ended(item, surface, "details", text, alert=True)
        if item.inbound.chat_kind == "private" or self._desk.capabilities(item.place).ephemeral == "any":
            told = self._desk.tell_privately(item, text)
            return self._ended(item, surface, "details", say("details.sent"), late="", statements=told)
        return self._ended(item, surface, "details", say("details.above"), alert=True)

    async def _not_yours(self, item: Item, surface: SurfaceRow, letter: Letter) -> Settled:
        """A private refusal; the card stays as it is."""
        text = say("press.not_allowed")
        if _right_for(letter, surface) is Right.APPROVE:
            deciders = self._desk.access.policy.deciders(item.place.platform)
            names = [await self._desk.name(who) for who in deciders[:3]]
            text = say("press.only", who=", ".join(names) or say("who.nobody"))
        return self._ended(item, surface, "not_allowed", text, alert=True, kind="press_refused")

    # ---------------------------------------------------------------------------------------- turns

    async def _stop(self, item: Item, route: StoredRoute, surface: SurfaceRow) -> Settled:
        assert surface.session_id is not None
        turn_id = surface.turn_id or ""
        result = await interrupt(self._desk, surface.session_id, turn_id, item.principal, route.submission_id)
        if result.status == "stopping":
            return self._ended(item, surface, "stopping", say("stop.now"), late="")
        return self._ended(item, surface, "not_running", say("stop.idle"), alert=True)

    async def _stop_loop(self, item: Item, route: StoredRoute, surface: SurfaceRow, *, now: bool) -> Settled:
        assert surface.session_id is not None
        loop_id = surface.turn_id or ""
        outcome, words = await looping.stop_loop(
            self._desk, surface.session_id, loop_id, item.principal, route.submission_id, now=now
        )
        stopping = outcome == "stopping"
        return self._ended(item, surface, outcome, words, alert=not stopping, late="" if stopping else None)

    async def _settle_lost(self, item: Item, route: StoredRoute, surface: SurfaceRow, *, go_on: bool) -> Settled:
        """A loop that a restart lost goes on, or is left; either way its question is over."""
        assert surface.session_id is not None
        loop_id = surface.turn_id or ""
        words = await looping.settle_lost(
            self._desk, surface.session_id, loop_id, item.principal, route.submission_id, go_on=go_on
        )
        text = words or say("loop.gone")
        closed = surfaces.close(surface.id, Notice(text=text), self._desk.clock.now_ms())
        outcome = ("continued" if go_on else "left") if words else "gone"
        return self._ended(
            item, surface, outcome, text, alert=not words, late="" if words else None, statements=[closed]
        )

    async def _may_go_on(self, item: Item, surface: SurfaceRow) -> Settled | None:
        checkpoint = await self._desk.sessions.peek(surface.session_id or "")
        if checkpoint is None or last_message(checkpoint) is None:
            return self._ended(item, surface, "nothing", say("retry.nothing"), alert=True)
        if not checkpoint.idle:
            return self._ended(item, surface, "running", say("retry.running"), alert=True)
        return None

    async def _go_on(self, item: Item, route: StoredRoute, surface: SurfaceRow, letter: Letter) -> Settled:
        if letter is Letter.RETRY:
            settled = await ask_again(self._desk, item, route)
        else:
            scope = self._desk.places.binding(surface.place).scope
            op = message_of(item, say("continue.words"), scope)
            settled = await submit_message(self._desk, item, route, op)
        if settled.outcome in ("refused", "nothing"):
            return settled
        shown = await deliveries.last_view(self._desk.database, surface.id)
        last = None if shown is None else without_controls(shown)
        closed = surfaces.close(surface.id, last, self._desk.clock.now_ms())
        return self._ended(item, surface, settled.outcome, say("retry.done"), late="", statements=[closed])

    async def _answer_late(self, item: Item, route: StoredRoute, surface: SurfaceRow) -> Settled:
        answered = await offline.answer(self._desk, item, route, surface)
        if not answered.statements:
            return self._ended(item, surface, "refused", say("offline.refused"))
        outcome, key = ("answered", "offline.answering") if answered.taken else ("nobody", "offline.nobody")
        closed = surfaces.close(surface.id, Notice(text=say(key)), self._desk.clock.now_ms())
        return self._ended(item, surface, outcome, say(key), late="", statements=[*answered.statements, closed])

    async def _queued(self, item: Item, route: StoredRoute, surface: SurfaceRow, letter: Letter) -> Settled:
        assert surface.session_id is not None
        message_id, promote = surface.request_id or "", letter is Letter.PROMOTE
        op: ops.Op = ops.PromoteQueued(message_id=message_id)
        if not promote:
            op = ops.RemoveQueued(message_id=message_id, by=item.principal)
        receipt = await self._desk.submit(surface.session_id, op, route.submission_id)
        text = say("receipt.steered" if promote else "queue.removed")
        if receipt.status == "rejected":
            text = say("queue.gone")
        # What became of it is shown by its event: the message may enter before this is committed.
        shown = Notice(text=text) if receipt.status == "rejected" else None
        closed = surfaces.close(surface.id, shown, self._desk.clock.now_ms())
        outcome = "promoted" if promote else "removed"
        if receipt.status == "rejected":
            return self._ended(item, surface, "gone", text, alert=True, statements=[closed])
        return self._ended(item, surface, outcome, text, late="", statements=[closed])

    # ---------------------------------------------------------------------------------------- shared

    def _stale(self, item: Item, surface: SurfaceRow, letter: Letter, problem: Objection) -> Settled:
        if problem is not Objection.OVER:
            return self._ended(item, surface, problem.name.lower(), say("control.stale"), kind="press_refused")
        text = say("stop.idle" if letter is Letter.STOP else "control.stale")
        closing: list[Statement] = []
        if surface.kind == "notice" and letter not in (Letter.PROMOTE, Letter.REMOVE):  # nothing else ever repairs it
            closing.append(surfaces.close(surface.id, Notice(text=text), self._desk.clock.now_ms()))
        return self._ended(item, surface, "over", text, statements=closing)

    def _ended(
        self,
        item: Item,
        surface: SurfaceRow | None,
        outcome: str,
        words: str,
        *,
        alert: bool = True,
        late: str | None = None,
        statements: Sequence[Statement] = (),
        kind: str = "pressed",
        wish: str = "",
    ) -> Settled:
        """Settle the press with its answer and its audit row."""
        subject = Subject(
            place=item.place,
            session_id=surface.session_id if surface else None,
            turn_id=surface.turn_id if surface else None,
            request_id=surface.request_id if surface else None,
        )
        detail = {"result": outcome, "surface": surface.id if surface else None, "wish": wish}
        return Settled(
            outcome=outcome,
            statements=[self._desk.audit(item, kind, subject, detail), *statements],
            answer=Text(text=_fitting(words), alert=alert),
            late=words if late is None else late,
        )


def _right_for(letter: Letter, surface: SurfaceRow) -> Right:
    if letter is Letter.DETAILS and surface.kind != "approval":
        return Right.TALK
    return RIGHTS[letter]


def _adoption(item: Item, surface: SurfaceRow, now_ms: int) -> Sequence[Statement]:
    """Learn the id of a message of ours that nobody had told us."""
    if surface.message_id is not None or not surface.adoptable or item.inbound.ref is None:
        return ()
    return surfaces.adopt(surface.id, item.inbound.ref.id, now_ms)


def _reason_form(surface: SurfaceRow) -> Form:
    presets = (("", say("deny.no_reason")), *((say(key), say(key)) for key in ("deny.too_risky", "deny.wrong_target")))
    token = surfaces.payload(surface.token, Letter.DENY)
    return Form(title=say("deny.title"), label=say("deny.label"), token=token, presets=presets)


def _reason(inbound: Inbound) -> str:
    """What was written into the form; a press alone gives no reason."""
    if inbound.kind is not InboundKind.FORM:
        return ""
    filled = [value for value in inbound.fields.values() if value.strip()]
    return (inbound.text.strip() or " ".join(filled).strip())[:MAX_REASON]


def _fitting(words: str) -> str:
    return words if len(words) <= ALERT_LENGTH else f"{words[: ALERT_LENGTH - 1]}…"
