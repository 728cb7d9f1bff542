"""From stored events to planned deliveries: each session's journal is read once, by a durable cursor.

What follows from a batch of events and the cursor beyond it are one transaction, so that a crash makes nothing twice.
Events from which nothing follows do not move the stored cursor: reading them again costs less than a commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from adapters.contract import Phase, Place, Stream, View
from gateway.budget import Priority
from gateway.delivery.alarms import Alarms
from gateway.delivery.border import CONSUMER, Directory, Journal, Peek
from gateway.delivery.cards import (
    CARD_AFTER_SECONDS,
    MARK_AFTER_SECONDS,
    STALL_SECONDS,
    STREAM_EVERY_SECONDS,
    TYPING_AFTER_SECONDS,
    TYPING_EVERY_SECONDS,
    LiveCard,
    LoopCard,
    Session,
)
from gateway.delivery.outbox import Outbox
from gateway.delivery.planning import Planned, Planning
from gateway.delivery.policy import pause_seconds
from gateway.delivery.resources import Resources
from gateway.ledger import surfaces
from gateway.ledger.deliveries import DeliveryRow, Part, last_view
from gateway.ledger.surfaces import SurfaceRow
from gateway.views.card import label_lines, lost_card
from gateway.views.loop import loop_events, of_state
from gateway.views.loop_card import LOOP_CHOICES
from gateway.views.show import first_line, plain
from gateway.views.stream import Writing
from gateway.views.turn import SessionState, TurnState, fold, fold_all, stopping, told
from runtime.errors import CommitUnknown
from runtime.loop_moves import loop_of, loop_of_turn
from runtime.protocol import events
from runtime.protocol.approvals import PendingApproval
from runtime.protocol.checkpoint import ActiveExecution, Checkpoint
from runtime.protocol.events import Event

log = logging.getLogger("pilothouse.gateway.delivery")

BATCH = 200
REMEMBERED = 1024
"""Sessions whose place in the journal is remembered while nothing runs in them."""
TITLE_LENGTH = 60
FIRST_EVENTS = 16
"""Among these is the beginning of a session's first turn."""
RECOVERED_AFTER_SECONDS = 10.0
"""A restart that nobody noticed is not worth a word."""


@dataclass(slots=True, eq=False)
class _Heads:
    """How far each journal goes, what of it need not be read from disk, and which sessions are being read."""

    newest: dict[str, int] = field(default_factory=dict[str, int])
    at_hand: dict[str, deque[Event]] = field(default_factory=dict[str, "deque[Event]"])
    reading: set[str] = field(default_factory=set[str])


class Reader:
    """Reads every journal that grows. `run` owns the tasks."""

    def __init__(
        self, journal: Journal, directory: Directory, peek: Peek, outbox: Outbox, resources: Resources, alarms: Alarms
    ) -> None:
        self._journal = journal
        self._directory = directory
        self._peek = peek
        self._outbox = outbox
        self._resources = resources
        self._alarms = alarms
        self._planning = Planning(directory, peek, resources)
        self._heads = _Heads()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._writing: dict[str, Writing] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    # ------------------------------------------------------------------------------------------- told from outside

    def committed(self, session_id: str, sequence: int, stored: Sequence[Event] = ()) -> None:
        """The session's journal goes up to `sequence` now, by the events `stored`, if they are at hand."""
        self._heads.newest[session_id] = max(sequence, self._heads.newest.get(session_id, 0))
        if stored:
            self._heads.at_hand.setdefault(session_id, deque(maxlen=BATCH)).extend(stored)
        self._at_rest.clear()
        self._start(session_id)

    def showed(self, session_id: str, event: Event) -> None:
        """The session shows something that is not stored: text while it is written."""
        if not isinstance(event.msg, events.AssistantDelta):
            return
        msg, writing = event.msg, self._writing.get(session_id)
        if writing is None or writing.step_id != msg.model_step_id:
            writing = self._writing[session_id] = Writing(turn_id=msg.turn_id, step_id=msg.model_step_id)
        writing.text += msg.text
        session = self._sessions.get(session_id)
        card = None if session is None else session.live
        if card is not None and (card.streams or card.drafts):
            self._wrote(card, writing)

    def _wrote(self, card: LiveCard, writing: Writing) -> None:
        """A stream is looked at once in a while; what was written meanwhile goes out together."""
        card.writing = writing
        if not card.writing_soon:
            card.writing_soon = True
            soon = self._resources.clock.now_ms() + round(STREAM_EVERY_SECONDS * 1000)
            self._alarms.set(soon, lambda: self._show_writing(card))

    def _show_writing(self, card: LiveCard) -> None:
        card.writing_soon = False
        if not card.over:
            card.draft_due = card.drafts
            self._outbox.look(card)

    def stopping(self, session_id: str, turn_id: str) -> None:
        """Somebody stops the turn: its card says so at once."""
        session = self._sessions.get(session_id)
        turn = session.state.turn if session is not None else None
        if session is None or turn is None or turn.turn_id != turn_id or turn.over:
            return
        session.state = replace(session.state, turn=stopping(turn))
        for card in session.cards:
            self._outbox.look(card)

    def stopping_loop(self, session_id: str, loop_id: str, now: bool) -> None:
        """Somebody stops the loop, after its iteration or now: its card says so at once."""
        session = self._sessions.get(session_id)
        loop = session.state.loop if session is not None else None
        if session is None or loop is None or loop.loop_id != loop_id or loop.end is not None:
            return
        iteration = session.state.iteration
        session.state = replace(session.state, loop=replace(loop, stopping=True))
        if now and iteration is not None:
            session.state = replace(session.state, turn=stopping(iteration))
        for card in session.cards:
            self._outbox.look(card)

    def moved(self, place: Place, chat: str) -> None:
        """The chat of some sessions has another id."""
        for session in self._sessions.values():
            if session.destination is not None and session.destination.place.chat == place.chat:
                session.destination = None

    def opened(self, stood_for: Place) -> None:
        """A new thread is known; who is to speak there is asked again where that is."""
        for session in self._sessions.values():
            if session.destination is not None and session.destination.place.thread == stood_for.thread:
                session.destination = None

    @property
    def resting(self) -> bool:
        """Every journal was read to its end."""
        return self._at_rest.is_set()

    async def at_rest(self) -> None:
        """Return once every journal was read to its end."""
        await self._at_rest.wait()

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for session_id in list(self._heads.newest):
                    self._start(session_id)
                await asyncio.Event().wait()
            finally:
                self._tasks = None  # what is committed from now on is found by its cursor at the next start

    def _start(self, session_id: str) -> None:
        if self._tasks is not None and session_id not in self._heads.reading:
            self._heads.reading.add(session_id)
            self._tasks.create_task(self._read(session_id), name=f"reading {session_id}")

    # ---------------------------------------------------------------------------------------------------- the start

    async def recover(self) -> None:
        """Take up the cards of turns that were running, and find every journal that goes on beyond our cursor."""
        for surface in await surfaces.live_cards(self._resources.database):
            await self._take_up(surface)
        for session_id in await self._journal.sessions_beyond_cursor(CONSUMER):
            self._heads.newest[session_id] = _FAR
            self._at_rest.clear()

    async def _take_up(self, surface: SurfaceRow) -> None:
        session_id, first, turn_id = surface.session_id, surface.first_sequence, surface.turn_id
        assert session_id is not None, "a card belongs to a session"
        assert first is not None, "a card knows where its turn begins"
        assert turn_id is not None, "a card belongs to a turn"
        cursor = await self._journal.cursor(CONSUMER, session_id)
        if cursor < first:
            return  # its turn is about to be read, and the card is found then
        session = self._sessions.get(session_id) or Session(session_id, cursor, cursor)
        earliest = min([first, *(card.first_sequence for card in session.cards)])
        session.state = await self._state_at(session_id, earliest, session.position)
        if surface.choices == LOOP_CHOICES:
            await self._take_loop_up(session, surface, first, turn_id)
            return
        turn = session.state.turn
        if turn is None or turn.turn_id != turn_id or turn.over:
            await self._close_lost(surface)
            return
        session.known = True
        card = await self._card(session, events.TurnStarted(turn_id=turn_id, message_id=turn.message_id), first)
        card = card or LiveCard(session, turn_id, first, surface.place)
        card.place = surface.place
        card.adopt(surface)
        self._begin(session, card)
        self._mark_recovered(card)
        self._outbox.look(card)
        self._keep_time(card)

    async def _take_loop_up(self, session: Session, surface: SurfaceRow, first: int, loop_id: str) -> None:
        loop = session.state.loop
        if loop is None or loop.loop_id != loop_id or loop.end is not None:
            await self._close_lost(surface)
            return
        card = await self._loop_card(session, loop_id, first) or LoopCard(session, loop_id, first, surface.place)
        card.place = surface.place
        card.adopt(surface)
        self._begin(session, card)
        self._mark_recovered(card)
        self._outbox.look(card)
        self._keep_time(card)

    async def _state_at(self, session_id: str, first: int, position: int) -> SessionState:
        """The state as it was when the journal was read up to `position`; what waits is asked of the session itself."""
        checkpoint = await self._peek(session_id)
        waiting = () if checkpoint is None else checkpoint.pending_messages
        state = SessionState(waiting=tuple(message.id for message in waiting if message.boundary.kind == "queue"))
        after = first - 1
        while after < position:
            page = await self._journal.event_page(session_id, after=after, limit=BATCH)
            known = [event for event in page.events if (event.sequence or 0) <= position]
            if not known:
                break
            state, after = fold_all(state, known), known[-1].sequence or position
        if checkpoint is None:
            return state
        if state.turn is None and checkpoint.active_execution is not None:
            state = replace(state, turn=_outline(checkpoint.active_execution, checkpoint.pending_approval))
        return _with_stored_loop(state, checkpoint)

    async def _close_lost(self, surface: SurfaceRow) -> None:
        """Its turn is not in the journal any more: the card must not say "working" for ever."""
        now = self._resources.clock.now_ms()
        shown = await last_view(self._resources.database, surface.id)
        last: View = lost_card()
        if isinstance(shown, Stream):
            last = replace(shown, title=lost_card().headline, closed=True)
        await self._resources.database.write([surfaces.close(surface.id, last, now)])
        self._outbox.wake(surface.place, repairs_first=True)

    # ------------------------------------------------------------------------------------------------- reading on

    async def _read(self, session_id: str) -> None:
        failures = 0
        try:
            while True:
                try:
                    await self._read_on(session_id)
                    if session_id not in self._heads.newest:
                        return
                    failures = 0
                except Exception as error:
                    log.error("reading session %s pauses: %r", session_id, error, exc_info=error)
                    await self._resources.clock.sleep(pause_seconds(failures))
                    failures += 1
        finally:
            self._heads.reading.discard(session_id)
            if not self._heads.newest:
                self._at_rest.set()

    async def _read_on(self, session_id: str) -> None:
        session = await self._session(session_id)
        while session.position < self._heads.newest.get(session_id, 0):
            batch = await self._next_batch(session)
            if not batch:
                break
            await self._take(session, batch)
        newest = self._heads.newest.pop(session_id, None)
        self._heads.at_hand.pop(session_id, None)
        self._remember(session)
        if newest == _FAR:
            await self._settle(session)  # else every start would read the same events again

    async def _next_batch(self, session: Session) -> Sequence[Event]:
        """The events beyond the session's position: those at hand, or from its journal where some are missing."""
        at_hand = self._heads.at_hand.get(session.id, ())
        batch = [event for event in at_hand if (event.sequence or 0) > session.position]
        if batch and batch[0].sequence == session.position + 1:
            return batch
        page = await self._journal.event_page(session.id, after=session.position, limit=BATCH)
        return page.events

    async def settle(self) -> None:
        """Store how far every journal was read, where nothing runs; for an orderly end."""
        for session in list(self._sessions.values()):
            await self._settle(session)

    async def _settle(self, session: Session) -> None:
        if not session.cards and session.position > session.stored:
            statement = self._journal.cursor_statement(CONSUMER, session.id, session.position)
            session.stored = session.position
            await self._resources.database.write([statement])

    async def _session(self, session_id: str) -> Session:
        found = self._sessions.get(session_id)
        if found is not None:
            return found
        cursor = await self._journal.cursor(CONSUMER, session_id)
        return Session(session_id, cursor, cursor)

    def _remember(self, session: Session) -> None:
        self._sessions[session.id] = session
        self._sessions.move_to_end(session.id)
        for old_id, old in list(self._sessions.items()) if len(self._sessions) > REMEMBERED else []:
            if not old.cards and old_id not in self._heads.reading:
                del self._sessions[old_id]
                break

    async def _take(self, session: Session, batch: Sequence[Event]) -> None:
        """Fold the batch, plan what follows from it, and store that with the cursor beyond it."""
        before, live, loop = session.state, session.live, session.loop
        planned = Planned()
        try:
            for event in batch:
                await self._recall(session, event)
                session.state = fold(session.state, event)
                await self._follow(session, event, planned)
            position = batch[-1].sequence or session.position
            for request_id, reason in planned.refused:
                await self._resources.neighbours.undeliverable(session.id, request_id, reason)
            rows = await self._store(session, position, planned)
        except BaseException:
            session.state, session.live, session.loop, session.known = before, live, loop, False
            for card in session.cards:
                card.over = False
            raise
        session.position = position
        self._show_loop(session, loop)
        self._show(session, live, planned, rows)

    async def _store(self, session: Session, position: int, planned: Planned) -> list[DeliveryRow] | None:
        """Store the batch. Returns the rows if all of them are new: then nobody has to read them."""
        if not planned.statements and not planned.parts:
            return []
        parts = self._mark_first(planned.parts)
        faults, now = self._resources.faults, self._resources.clock.now_ms()
        unit, ends = list(planned.statements), list[int]()
        for part in parts:
            unit += part.statements(now)
            ends.append(len(unit) - 1)
        unit.append(self._journal.cursor_statement(CONSUMER, session.id, position))
        going_out = [part for part in parts if part.goes_out]
        faults.reach("delivery.plan.before")
        try:
            for part in going_out:
                self._outbox.expect(part.place, part.key)
            results = await self._resources.database.write(unit)
        except BaseException as error:
            for part in going_out:
                self._outbox.expect_no_more(part.place, part.key)
            if isinstance(error, CommitUnknown) and await self._was_kept(session, position):
                return None
            raise
        faults.reach("delivery.sending.after" if going_out else "delivery.plan.after")
        session.stored = position
        found = [results[end].rows for end in ends]
        if not all(found):
            return None
        return [part.row(*rows[0]) for part, rows in zip(parts, found, strict=True)]

    async def _was_kept(self, session: Session, position: int) -> bool:
        """Whether a commit of which nobody knows is on disk: its cursor tells."""
        session.stored = await self._journal.cursor(CONSUMER, session.id)
        return session.stored >= position

    def _mark_first(self, parts: Sequence[Part]) -> Sequence[Part]:
        """An answer that can go out at once is marked as sending where it is planned: one commit less to wait for.

        A crash right after it leaves a row of which nobody knows whether it went out, as any other crash in a send.
        """
        if not parts or parts[0].priority is not Priority.ANSWER or parts[0].new_surface is not None:
            return parts
        one_place = all(part.place == parts[0].place for part in parts)
        if not one_place or not self._outbox.free(parts[0].place):
            return parts
        return [replace(parts[0], goes_out=True), *parts[1:]]

    async def _follow(self, session: Session, event: Event, planned: Planned) -> None:
        match event.msg:
            case events.TurnStarted():
                await self._turn_started(session, event)
            case events.ToolCallBegin():
                for card in session.cards:
                    card.wanted |= isinstance(card, LoopCard) == (session.state.iteration is not None)
            case events.TurnComplete() | events.TurnAborted() if session.live is not None:
                session.live.over = True
            case events.LoopStarted(loop_id=loop_id) if session.loop is None or session.loop.turn_id != loop_id:
                session.loop = await self._loop_card(session, loop_id, event.sequence or 0)
            case events.LoopIterationCompleted() if session.loop is not None:
                session.loop.wanted = True
            case events.LoopEnded() if session.loop is not None:
                session.loop.over = True
            case _:
                pass
        await self._planning.follow(session, event, planned)

    async def _turn_started(self, session: Session, event: Event) -> None:
        assert isinstance(event.msg, events.TurnStarted)
        assert event.sequence is not None, "only stored events are read"
        if session.state.iteration is not None:
            session.live = None  # the loop's card shows it
            return
        session.live = await self._card(session, event.msg, event.sequence)

    async def _loop_card(self, session: Session, loop_id: str, sequence: int) -> LoopCard | None:
        """What is shown of the loop; None where no chat began the session."""
        destination = await self._planning.destination(session)
        if destination is None:
            return None
        asking = await self._directory.asking(loop_id)
        card = LoopCard(
            session,
            loop_id,
            sequence,
            destination.place,
            labels=label_lines(destination.workspace, destination.origin),
            reply_to=None if asking is None or asking.private else asking.ref,
            asked=asking.ref if asking is not None and asking.spoken else None,
            private=asking is not None and asking.private,
        )
        await self._find_card(card)
        return card

    async def _card(self, session: Session, started: events.TurnStarted, sequence: int) -> LiveCard | None:
        """What is shown of the turn; None where no chat began the session."""
        destination = await self._planning.destination(session)
        if destination is None or (started.message_id and started.message_id == destination.quiet_turn):
            return None
        asking = await self._directory.asking(started.message_id) if started.message_id else None
        card = LiveCard(
            session,
            started.turn_id,
            sequence,
            destination.place,
            labels=label_lines(destination.workspace, destination.origin),
            reply_to=None if asking is None or asking.private else asking.ref,
            asked=asking.ref if asking is not None and asking.spoken else None,
            private=asking is not None and asking.private,
        )
        if asking is not None and asking.text:
            card.title = await self._title(session.id, sequence, card.place, asking.text)
        if card.private:
            self._resources.account(card.place).budget.of_one_person(card.place)
            self._let_stream(card)
        if not session.known:
            await self._find_card(card)
        session.known = True
        return card

    async def _title(self, session_id: str, sequence: int, place: Place, text: str) -> str | None:
        """A name for the thread of a session, from the first words of its first turn; None for later turns.

        Where a person has named it otherwise, the platform or its adapter keeps that name.
        """
        adapter = self._resources.adapter(place)
        if adapter is None or not adapter.capabilities.can_rename_thread or sequence > FIRST_EVENTS:
            return None
        before = await self._journal.event_page(session_id, after=0, limit=FIRST_EVENTS)
        if any(isinstance(event.msg, events.TurnStarted) and event.sequence != sequence for event in before.events):
            return None
        return plain(first_line(text), TITLE_LENGTH) or None

    def _let_stream(self, card: LiveCard) -> None:
        """In a private chat a platform with streams shows the text while it is written."""
        adapter = self._resources.adapter(card.place)
        way = "none" if adapter is None else adapter.capabilities.native_stream
        card.streams, card.drafts = way == "chunks", way == "draft"
        card.writing = self._writing.get(card.session.id)

    async def _recall(self, session: Session, event: Event) -> None:
        """Something of a turn of which the beginning was read before a restart: read the turn again."""
        loop_id = event.submission_id if loop_events(event) else loop_of_turn(event)
        if loop_id is not None and (session.state.loop is None or session.state.loop.loop_id != loop_id):
            await self._recall_loop(session, event, loop_id)
            return
        turn_id, turn = getattr(event.msg, "turn_id", None), session.state.turn
        if turn_id is None or isinstance(event.msg, events.TurnStarted) or (turn and turn.turn_id == turn_id):
            return
        before = event.sequence
        while before is not None:
            page = await self._journal.event_page(session.id, before=before, limit=BATCH)
            for earlier in page.events:
                msg = earlier.msg
                if isinstance(msg, events.TurnStarted) and msg.turn_id == turn_id and earlier.sequence is not None:
                    iteration_of = loop_of_turn(earlier)
                    if iteration_of is not None:
                        await self._recall_loop(session, event, iteration_of)
                        return
                    session.state = await self._state_at(session.id, earlier.sequence, (event.sequence or 1) - 1)
                    session.live = await self._card(session, msg, earlier.sequence)
                    return
            before = page.next_before

    async def _recall_loop(self, session: Session, event: Event, loop_id: str) -> None:
        """Something of a loop of which the beginning was read before a restart: read the loop again."""
        before = event.sequence
        while before is not None:
            page = await self._journal.event_page(session.id, before=before, limit=BATCH)
            for earlier in page.events:
                msg = earlier.msg
                if isinstance(msg, events.LoopStarted) and msg.loop_id == loop_id and earlier.sequence is not None:
                    session.state = await self._state_at(session.id, earlier.sequence, (event.sequence or 1) - 1)
                    session.loop = await self._loop_card(session, loop_id, earlier.sequence)
                    return
            before = page.next_before
        checkpoint = await self._peek(session.id)
        stored = loop_of(checkpoint) if checkpoint is not None else None
        if stored is not None and stored.loop_id == loop_id:
            session.state = replace(session.state, loop=of_state(stored))
            session.loop = await self._loop_card(session, loop_id, event.sequence or 0)

    async def _find_card(self, card: LiveCard) -> None:
        """A turn that is read again after a crash may have its card already."""
        for surface in await surfaces.live_cards(self._resources.database, card.session.id):
            if surface.turn_id == card.turn_id:
                card.adopt(surface)

    # --------------------------------------------------------------------------------------------- after the commit

    def _show(
        self, session: Session, before: LiveCard | None, planned: Planned, rows: list[DeliveryRow] | None
    ) -> None:
        if before is not None and before is not session.live:
            self._end(before)
        live = session.live
        if session.state.turn is not None and session.state.turn.over:
            self._writing.pop(session.id, None)
            session.state = told(session.state)
        if live is not None and live.over:
            self._end(live)
            session.live = None
        elif live is not None:
            if live is not before:
                self._begin(session, live)
                self._mark_recovered(live)
            self._outbox.look(live)
            self._keep_time(live)
        places = planned.places | {part.place for part in planned.parts}
        for place in places:
            new = [row for row in rows or () if row.place == place]
            if rows is None:
                self._outbox.wake(place, repairs=planned.repairs)
            else:
                self._outbox.offer(place, new, repairs=planned.repairs)

    def _show_loop(self, session: Session, before: LoopCard | None) -> None:
        loop = session.loop
        if before is not None and before is not loop:
            self._end(before)
        if loop is not None and loop.over:
            self._end(loop)
            session.loop = None
        elif loop is not None:
            if loop is not before:
                self._begin(session, loop)
                self._mark_recovered(loop)
            self._outbox.look(loop)
            self._keep_time(loop)

    def _begin(self, session: Session, card: LiveCard) -> None:
        if isinstance(card, LoopCard):
            session.loop = card
        else:
            session.live = card
        self._sessions[session.id] = session
        self._outbox.attach(card)
        now = self._resources.clock.now_ms()
        self._alarms.set(now + round(TYPING_AFTER_SECONDS * 1000), lambda: self._type(card))
        if card.asked is not None:
            self._alarms.set(now + round(MARK_AFTER_SECONDS * 1000), lambda: self._mark(card))
        self._alarms.set(now + round(CARD_AFTER_SECONDS * 1000), lambda: self._want(card))
        self._alarms.set(now + round(STALL_SECONDS * 1000), lambda: self._watch(card))

    def _mark_recovered(self, card: LiveCard) -> None:
        """A card that an earlier process sent says that its turn goes on, if there was a pause that people noticed."""
        pause = self._resources.clock.now_ms() - card.since_ms
        if card.surface_id is not None and pause >= RECOVERED_AFTER_SECONDS * 1000:
            card.mark_recovered()

    def _end(self, card: LiveCard) -> None:
        card.over = True
        self._outbox.detach(card)

    def _type(self, card: LiveCard) -> None:
        if card.over or card.message_id is not None:
            return
        card.typing = True
        self._outbox.look(card)
        again = self._resources.clock.now_ms() + round(TYPING_EVERY_SECONDS * 1000)
        self._alarms.set(again, lambda: self._type(card))

    def _mark(self, card: LiveCard) -> None:
        if not card.over:
            card.marking = True
            self._outbox.look(card)

    def _keep_time(self, card: LiveCard) -> None:
        """Let the card's clock go on while its turn runs; one that waits for a person shows none."""
        if card.ticking or card.waiting:
            return
        card.ticking = True
        due = self._resources.clock.now_ms() + round(card.tick_seconds * 1000)
        self._alarms.set(due, lambda: self._tick(card))

    def _tick(self, card: LiveCard) -> None:
        card.ticking = False
        if card.over or card.waiting:
            return
        card.ticks += 1
        if card.message_id is not None and not card.streams:
            card.late = True
            self._outbox.look(card)
        self._keep_time(card)

    def _want(self, card: LiveCard) -> None:
        if not card.over:
            card.wanted = True
            self._outbox.look(card)

    def _watch(self, card: LiveCard) -> None:
        """Say so where nothing has happened for long."""
        if card.over:
            return
        now, limit = self._resources.clock.now_ms(), round(STALL_SECONDS * 1000)
        due = card.since_ms + limit
        if due <= now:
            card.mark_stalled()
            self._outbox.look(card)
            due = now + limit
        self._alarms.set(due, lambda: self._watch(card))


def _with_stored_loop(state: SessionState, checkpoint: Checkpoint) -> SessionState:
    """What only the session's own state tells of a loop: a stop that was asked for, or all, if its journal is gone."""
    stored = loop_of(checkpoint)
    if stored is None or stored.ended:
        return state
    if state.loop is None:
        return replace(state, loop=of_state(stored)) if state.turn is not None and state.turn.loop_id else state
    stops = stored.stop_requested and state.loop.loop_id == stored.loop_id
    return replace(state, loop=replace(state.loop, stopping=state.loop.stopping or stops))


def _outline(active: ActiveExecution, pending: PendingApproval | None) -> TurnState:
    """What a checkpoint knows of a turn whose beginning was removed from its journal."""
    undecided = pending is not None and pending.decision is None
    return TurnState(
        turn_id=active.turn_id,
        message_id=active.submission_id,
        started_at_ms=active.started_at_ms,
        since_ms=active.started_at_ms,
        phase=Phase.WAITING if undecided else Phase.WORKING,
        tool_calls=active.tool_calls,
        usage=active.usage,
    )


_FAR = 2**62
"""Read to the end, wherever that is."""
