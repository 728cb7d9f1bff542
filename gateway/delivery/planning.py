"""What each stored event means for the place of its session: which parts, where, how urgent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

import msgspec

from adapters.contract import Answer, Document, MessageRef, Notice, Phase, Place, ThreadStatus, View
from gateway.budget import Priority
from gateway.delivery.border import Destination, Directory, Peek
from gateway.delivery.cards import LiveCard, Session
from gateway.delivery.resources import Resources
from gateway.ledger import deliveries, surfaces
from gateway.ledger.audit import Subject, audit_statement
from gateway.ledger.deliveries import Part
from gateway.ledger.surfaces import NewSurface
from gateway.ledger.threads import is_new, target_of
from gateway.schedules.announcing import Announcement, announcement, as_markdown
from gateway.strings import say
from gateway.views.approval import (
    Ask,
    TooLong,
    approval_choices,
    approval_parts,
    outcome_card,
)
from gateway.views.card import label_lines, turn_card
from gateway.views.loop_card import loop_card, loop_end
from gateway.views.messages import answer, end_notice, removed, trouble
from gateway.views.show import plain, whole
from gateway.views.stream import in_full, last_stream
from runtime.protocol import events
from runtime.protocol.approvals import PendingApproval
from runtime.protocol.context import JsonValue
from runtime.protocol.events import Event
from runtime.store.writer import Statement


@dataclass(slots=True, eq=False)
class Planned:
    """What follows from a batch: parts and other statements for its transaction, and who is woken after it.

    `refused` are requests that cannot be shown, with the reason: they are closed before the batch counts as read.
    """

    statements: list[Statement] = field(default_factory=list[Statement])
    parts: list[Part] = field(default_factory=list[Part])
    places: set[Place] = field(default_factory=set[Place])
    repairs: bool = False
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Planning:
    """Turns events into statements. It writes nothing itself."""

    def __init__(self, directory: Directory, peek: Peek, resources: Resources) -> None:
        self._directory = directory
        self._peek = peek
        self._resources = resources

    @property
    def _now(self) -> int:
        return self._resources.clock.now_ms()

    async def follow(self, session: Session, event: Event, planned: Planned) -> None:
        """Add what follows from `event`; `session` is as it is after it."""
        if isinstance(event.msg, events.ToolCallBegin | events.ApprovalRequested):
            await self._said(session, event, planned)
        match event.msg:
            case events.TurnComplete():
                await self._complete(session, event, planned)
            case events.TurnAborted():
                await self._aborted(session, event, planned)
            case events.AssistantMessage(overtaken=True, text=text):
                await self._overtaken(session, event, text, planned)
            case events.ApprovalRequested():
                await self._requested(session, event, planned)
            case events.ApprovalResolved():
                await self._resolved(session, event, planned)
            case events.Error(turn_id=None):
                await self._tell(session, event, trouble(event.msg), planned)
            case events.Warning(message=message) if event.submission_id is None:
                notice = Notice(text=plain(message, 500), level="warning")
                await self._tell(session, event, notice, planned)
            case events.LoopEnded():
                await self._loop_ended(session, event, planned)
            case events.ToolCallBegin() | events.ToolCallEnd():
                await self._executed(session, event, planned)
            case events.MessageQueued(disposition="steer", message_id=message_id):
                await self._waits_no_more(session, message_id, "receipt.steered", planned)
            case events.Message(message_id=message_id, delivery="steer" | "queue"):
                await self._waits_no_more(session, message_id, "receipt.taken", planned)
            case events.TurnStarted(message_id=str(message_id)):
                await self._waits_no_more(session, message_id, "receipt.taken", planned)
            case events.MessageRemoved(message_id=message_id):
                await self._waits_no_more(session, message_id, "queue.removed", planned)
            case events.SessionRetired() if session.state.removed:
                await self._tell(session, event, removed(session.state.removed), planned)
            case _:
                pass

    # ------------------------------------------------------------------------------------------------ a turn's end

    async def _complete(self, session: Session, event: Event, planned: Planned) -> None:
        assert isinstance(event.msg, events.TurnComplete)
        if _is_quiet_iteration(session):
            return
        place, reply_to = await self._target(session)
        if place is None:
            return
        said = event.msg.last_assistant_message
        run = await self._announcement(session, said, planned, failed=False)
        if run is not None and run.quiet:
            return
        if run is not None and run.head is not None:
            said = f"{as_markdown(run.head)}\n\n{said or say('answer.empty')}"
        if (shown := self._streamable(session, place, said)) is not None:
            self._close_card(session, event, place, None, planned, text=shown)  # its end is the answer
            planned.places.add(place)
            views = [view for view in await self._answer(place, shown, None) if isinstance(view, Document)]
        else:
            views = await self._answer(place, said, reply_to)
        self._plan(planned, event, session, "answer", place, views, Priority.ANSWER)
        if shown is None:
            self._close_card(session, event, place, None, planned)

    async def _aborted(self, session: Session, event: Event, planned: Planned) -> None:
        msg, turn = event.msg, session.state.turn
        assert isinstance(msg, events.TurnAborted)
        if turn is not None and turn.loop_id is not None:
            return  # the end of its loop follows, and says why
        place, reply_to = await self._target(session)
        if place is None or turn is None:
            return
        run = await self._announcement(session, None, planned, failed=True)
        if run is not None and run.quiet:
            return
        who = plain(await self._directory.name(msg.by), 60) if msg.by else None
        token = surfaces.mint(self._resources.random_bytes)
        notice, choices = end_notice(turn, msg, who, token, reply_to)
        if run is not None and run.head is not None:
            notice = replace(notice, text=f"{run.head}\n{notice.text}")
        new = self._surface(session, msg.turn_id, token, choices) if choices else None
        shown = self._streamable(session, place, turn.partial)
        if turn.partial.strip() and shown is None:
            await self._partial(session, event, place, turn.partial, planned)
        untold = run is not None and run.head is not None
        if turn.phase is Phase.STOPPED and msg.by and not untold and self._is_shown(session.live, place):
            # The card says it, so that nothing else has to.
            self._close_card(session, event, place, who, planned, new, text=shown)
            planned.places.add(place)
            return
        self._plan(planned, event, session, "end", place, [notice], Priority.CONTROL, new)
        self._close_card(session, event, place, who, planned, text=shown)

    async def _partial(self, session: Session, event: Event, place: Place, text: str, planned: Planned) -> None:
        """What the model had written when it was stopped is kept, and says so."""
        views = list(await self._answer(place, text, None))
        last = max((n for n, view in enumerate(views) if isinstance(view, Answer)), default=None)
        if last is not None:
            view = views[last]
            assert isinstance(view, Answer)
            views[last] = replace(view, footer=say("answer.stopped"), notify=False)
        self._plan(planned, event, session, "partial", place, views, Priority.ANSWER)

    def _streamable(self, session: Session, place: Place, answer: str | None) -> str | None:
        """All that the turn says, if its stream is there to say it; None where the answer is a message of its own."""
        live, turn = session.live, session.state.turn
        if live is None or turn is None or not live.streams or turn.steered or not self._is_shown(live, place):
            return None
        text = in_full(turn, answer)
        return text if (answer or "").strip() and text.startswith(live.streamed) else None

    def _is_shown(self, card: LiveCard | None, place: Place) -> bool:
        """The card is on the platform and can be changed."""
        adapter = self._resources.adapter(place)
        editable = adapter is not None and adapter.capabilities.can_edit
        return editable and card is not None and card.message_id is not None and not card.hopeless

    async def _announcement(
        self, session: Session, text: str | None, planned: Planned, *, failed: bool
    ) -> Announcement | None:
        """How the end of a run of a schedule is told; None for every other turn."""
        message_id = None if session.state.turn is None else session.state.turn.message_id
        found = await announcement(self._resources.database, session.id, message_id, text, failed=failed)
        if found is not None:
            planned.statements += found.statements
        return found

    def _surface(self, session: Session, turn_id: str, token: str, choices: str) -> NewSurface:
        return NewSurface(token=token, kind="notice", choices=choices, session_id=session.id, turn_id=turn_id)

    def _close_card(
        self,
        session: Session,
        event: Event,
        place: Place,
        who: str | None,
        planned: Planned,
        offer: NewSurface | None = None,
        text: str | None = None,
    ) -> None:
        """Whatever the card shows, it is to collapse, with the controls of `offer`. It may be on its way just now.

        `text`: it is a stream, and ends with all of this.
        """
        live, turn = session.live, session.state.turn
        if live is None or turn is None:
            return
        adapter = self._resources.adapter(place)
        if adapter is not None and adapter.capabilities.native_stop:
            views = [ThreadStatus(state="active")]
            self._plan(planned, event, session, "status", place, views, Priority.PROGRESS)
        if not live.wanted:
            return  # nobody has seen a card of this turn, and nobody will
        go_on = None if offer is None else offer.token
        last: View = turn_card(
            session.state, self._now, labels=live.labels, who=who, with_cost=live.private, go_on=go_on
        )  # fmt: skip
        priority = Priority.ANSWER
        if live.streams:
            priority = Priority.PROGRESS if text is None and offer is None else Priority.ANSWER
            last = last_stream(
                turn, live.streamed if text is None else text, last.headline,
                stream_id=live.turn_id, labels=live.labels, controls=last.controls,
            )  # fmt: skip
        source = deliveries.event_source(session.id, live.first_sequence)
        planned.statements += [
            deliveries.drop_card(source, self._now),
            surfaces.close_card(session.id, turn.turn_id, last, self._now, priority),
        ]
        if offer is not None and live.surface_id is not None:
            end = deliveries.event_source(session.id, event.sequence or 0)
            planned.statements += deliveries.shown_by_edit(end, "end", last, live.surface_id, offer, self._now)
        planned.repairs = True

    async def _overtaken(self, session: Session, event: Event, text: str, planned: Planned) -> None:
        place, _ = await self._target(session)
        if place is not None and text.strip():
            views = await self._answer(place, text, None)
            self._plan(planned, event, session, "overtaken", place, views, Priority.ANSWER)

    async def _said(self, session: Session, event: Event, planned: Planned) -> None:
        """Words beside calls, once somebody has spoken in the turn: they may be all that answers the one before."""
        turn, (place, _) = session.state.turn, await self._target(session)
        if place is not None and turn is not None and turn.said.strip():
            self._plan(
                planned, event, session, "said", place, await self._answer(place, turn.said, None), Priority.ANSWER
            )

    async def _answer(self, place: Place, text: str | None, reply_to: MessageRef | None) -> Sequence[View]:
        adapter = self._resources.adapter(place)
        if adapter is None:  # its platform is not configured now: kept whole until it is
            return [Answer(markdown=whole(text or "") or say("answer.empty"), reply_to=reply_to)]
        return await _off_the_loop(text, answer, text, adapter.markup, reply_to)

    # -------------------------------------------------------------------------------------------- the end of a loop

    async def _loop_ended(self, session: Session, event: Event, planned: Planned) -> None:
        """The one message of a loop: its last answer and how it ended; and its card collapses."""
        loop, card = session.state.loop, session.loop
        destination = await self.destination(session)
        if loop is None or destination is None:
            return
        place = destination.place if card is None else card.place
        adapter = self._resources.adapter(place)
        who = plain(await self._directory.name(loop.by), 60) if loop.by else None
        token = surfaces.mint(self._resources.random_bytes)
        markup = None if adapter is None else adapter.markup
        reply_to = None if card is None else card.reply_to
        views, choices = await _off_the_loop(loop.answer, loop_end, loop, markup, token, who, reply_to)
        new = self._surface(session, loop.loop_id, token, choices) if choices else None
        self._plan(planned, event, session, "loop", place, views, Priority.CONTROL if new else Priority.ANSWER, new)
        if card is None or not card.wanted:
            return
        last = loop_card(session.state, self._now, labels=card.labels, who=who, with_cost=card.private)
        source = deliveries.event_source(session.id, card.first_sequence)
        planned.statements += [
            deliveries.drop_card(source, self._now),
            surfaces.close_card(session.id, loop.loop_id, last, self._now),
        ]
        planned.repairs = True

    # --------------------------------------------------------------------------------------------------- approvals

    async def _requested(self, session: Session, event: Event, planned: Planned) -> None:
        assert isinstance(event.msg, events.ApprovalRequested)
        for card in session.cards:
            card.wanted = True
        await self._audit(planned, session, event, "asked", event.msg.requester)
        pending, spoke = await self._pending(session.id, event.msg.request_id)
        if pending is None:
            return  # it was decided before anybody could be asked, and its end follows in the journal
        place, _ = await self._target(session)
        adapter = None if place is None else self._resources.adapter(place)
        if place is None or adapter is None:
            planned.refused.append((pending.request_id, say("approval.not_shown")))
            return
        token = surfaces.mint(self._resources.random_bytes)
        ask = await self._ask(session, place, event.msg, spoke)
        text, markup, can = repr(pending.actions), adapter.markup, adapter.capabilities
        views = await _off_the_loop(text, approval_parts, pending, ask, token, self._now, markup, can)
        if isinstance(views, TooLong):
            planned.refused.append((pending.request_id, views.reason))
            notice = Notice(text=say("approval.refused"), level="warning")
            self._plan(planned, event, session, "refused", place, [notice], Priority.CONTROL)
            return
        new = NewSurface(
            token=token, kind="approval", choices=approval_choices(pending), session_id=session.id,
            turn_id=pending.turn_id, request_id=pending.request_id, expires_at_ms=pending.expires_at_ms,
        )  # fmt: skip
        self._plan(planned, event, session, "approval", place, views, Priority.CONTROL, new)

    async def _ask(self, session: Session, place: Place, asked: events.ApprovalRequested, spoke: Sequence[str]) -> Ask:
        """Everybody whose words entered the turn has asked for it: who spoke last may have brought it about."""
        everybody: dict[str, None] = dict.fromkeys(who for who in (asked.requester, *spoke) if who is not None)
        requesters = list(everybody)[:MAX_REQUESTERS]
        destination = await self.destination(session)
        labels = () if destination is None else label_lines(destination.workspace, destination.origin)
        deciders = await self._directory.deciders(place)
        return Ask(
            labels=labels,
            summaries=asked.summaries,
            requester=", ".join([plain(await self._directory.name(who), 40) for who in requesters]) or None,
            deciders=tuple(decider.name for decider in deciders),
            mention=tuple(decider.id for decider in deciders),
        )

    async def _pending(self, session_id: str, request_id: str) -> tuple[PendingApproval | None, Sequence[str]]:
        """The request while it is undecided, and whose words have entered the turn."""
        checkpoint = await self._peek(session_id)
        pending = None if checkpoint is None else checkpoint.pending_approval
        if pending is None or pending.request_id != request_id or pending.decision is not None:
            return None, ()
        active = None if checkpoint is None else checkpoint.active_execution
        return pending, () if active is None else active.principals

    async def _resolved(self, session: Session, event: Event, planned: Planned) -> None:
        msg = event.msg
        assert isinstance(msg, events.ApprovalResolved)
        await self._audit(planned, session, event, "decided", msg.decided_by)
        title = await deliveries.title_of(self._resources.database, msg.request_id)
        copies = await surfaces.of_request(self._resources.database, msg.request_id)
        if title is None or not copies:
            return
        who = await self._directory.name(msg.decided_by) if msg.decided_by else None
        outcome = outcome_card(title, msg.decision, who, event.recorded_at_ms, msg.reason)
        planned.statements += [
            *deliveries.show_outcome(msg.request_id, outcome, self._now),
            surfaces.close_request(msg.request_id, outcome, self._now),
        ]
        planned.places.update(copy.place for copy in copies)
        planned.repairs = True
        adapter = self._resources.adapter(copies[0].place)
        lost = all(copy.message_id is None for copy in copies) and not await deliveries.card_goes_out(
            self._resources.database, msg.request_id
        )
        if adapter is not None and (lost or not adapter.capabilities.can_edit):
            notice = Notice(text=f"{outcome.title}\n{outcome.outcome}")
            self._plan(planned, event, session, "outcome", copies[0].place, [notice], Priority.CONTROL)

    # -------------------------------------------------------------------------------------------------------- others

    async def _waits_no_more(self, session: Session, message_id: str, key: str, planned: Planned) -> None:
        """The line that says that a message waits says what became of it, without controls."""
        line = await surfaces.of_waiting(self._resources.database, session.id, message_id)
        if line is None:
            return
        planned.statements += [
            deliveries.drop_waiting(line.id, self._now),
            surfaces.close_waiting(session.id, message_id, Notice(text=say(key)), self._now),
        ]
        planned.places.add(line.place)
        planned.repairs = True

    async def _tell(self, session: Session, event: Event, notice: Notice, planned: Planned) -> None:
        place, _ = await self._target(session)
        if place is not None:
            self._plan(planned, event, session, "notice", place, [notice], Priority.CONTROL)

    async def destination(self, session: Session) -> Destination | None:
        """Where the session's words go; asked for once, since it changes only where a chat moves or a thread opens."""
        if session.destination is None:
            found = await self._directory.destination(session.id)
            if found is not None and is_new(found.place):
                found = replace(found, place=await target_of(self._resources.database, found.place))
                if is_new(found.place):
                    return found
            session.destination = found
        return session.destination

    async def _target(self, session: Session) -> tuple[Place | None, MessageRef | None]:
        """Where the session's words go: the place that was fixed when its turn began."""
        live = session.live
        if live is not None:
            return live.place, live.reply_to
        destination = await self.destination(session)
        return (None if destination is None else destination.place), None

    def _plan(
        self,
        planned: Planned,
        event: Event,
        session: Session,
        surface: str,
        place: Place,
        views: Sequence[View],
        priority: Priority,
        new: NewSurface | None = None,
    ) -> None:
        planned.parts += deliveries.parts(
            source=deliveries.event_source(session.id, event.sequence or 0),
            surface=surface,
            place=place,
            views=views,
            priority=priority,
            session_id=session.id,
            turn_id=getattr(event.msg, "turn_id", None),
            request_id=None if new is None else new.request_id,
            new_surface=new,
        )

    # --------------------------------------------------------------------------------------------------------- audit

    async def _executed(self, session: Session, event: Event, planned: Planned) -> None:
        """A gated call begins or ends."""
        msg, turn = event.msg, session.state.turn
        assert isinstance(msg, events.ToolCallBegin | events.ToolCallEnd)
        if turn is not None and msg.call_id in turn.gated:
            kind = "started" if isinstance(msg, events.ToolCallBegin) else "ended"
            await self._audit(planned, session, event, kind, None)

    async def _audit(self, planned: Planned, session: Session, event: Event, kind: str, principal: str | None) -> None:
        msg, live = event.msg, session.live
        request_id: str | None = getattr(msg, "request_id", None)
        subject = Subject(
            place=None if live is None else live.place,
            session_id=session.id,
            turn_id=getattr(msg, "turn_id", None),
            request_id=request_id,
        )
        digests = await self._digests(session.id, request_id) if request_id else {}
        detail: dict[str, JsonValue] = {**_detail(msg), **({"digests": {**digests}} if digests else {})}
        planned.statements.append(
            audit_statement(event.recorded_at_ms, kind, principal=principal, subject=subject, detail=detail)
        )

    async def _digests(self, session_id: str, request_id: str) -> dict[str, str]:
        """The digests of what was asked for, by call; the runtime keeps its requests."""
        sql = "SELECT json_extract(payload, '$.digests') FROM approvals WHERE session_id = ? AND request_id = ?"
        rows = await self._resources.database.read(sql, (session_id, request_id))
        return msgspec.json.decode(rows[0][0], type=dict[str, str]) if rows and rows[0][0] else {}


MAX_REQUESTERS = 5

LONG = 4000
"""Characters from which on a text is cut elsewhere than on the loop: a dense one of 45,000 takes seconds."""

Given = ParamSpec("Given")
Made = TypeVar("Made")


async def _off_the_loop(
    text: str | None, make: Callable[Given, Made], *args: Given.args, **kwargs: Given.kwargs
) -> Made:
    """What `make` makes of the arguments, with `text` among them; meanwhile the loop serves everybody else."""
    if len(text or "") < LONG:
        return make(*args, **kwargs)
    return await asyncio.to_thread(make, *args, **kwargs)


def _is_quiet_iteration(session: Session) -> bool:
    """The turn was an iteration that nobody spoke in: what it said is a line of the loop's card."""
    turn = session.state.turn
    return turn is not None and turn.loop_id is not None and not turn.steered


def _detail(msg: events.EventMsg) -> dict[str, JsonValue]:
    match msg:
        case events.ApprovalRequested(calls=calls, summaries=summaries, high_risk=high_risk):
            return {"tools": [call.name for call in calls], "summaries": list(summaries), "high_risk": high_risk}
        case events.ApprovalResolved(decision=decision, reason=reason):
            return {"decision": decision.value, "reason": reason}
        case events.ToolCallBegin(call_id=call_id, name=name, summary=summary):
            return {"call": call_id, "tool": name, "summary": summary}
        case events.ToolCallEnd(call_id=call_id, name=name, outcome=outcome, is_error=is_error):
            return {"call": call_id, "tool": name, "outcome": outcome, "is_error": is_error}
        case _:
            return {}
