"""One request to the platform at a time, written down before it and after it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence, Set
from dataclasses import replace
from typing import Literal, Protocol, assert_never

from adapters.contract import Adapter, Capabilities, Place, Reaction, Sent, Stream, ThreadStatus, Typing, View
from adapters.errors import AdapterError, BadCredentials, MarkupRefused, NotConnected, RateLimited, Refused, TargetGone
from gateway.budget import Priority
from gateway.delivery import policy
from gateway.delivery.cards import MAX_EDIT_FAILURES, STREAM_EVERY_SECONDS, LiveCard
from gateway.delivery.choice import Sign
from gateway.delivery.opening import Step
from gateway.delivery.policy import (
    After,
    AskAgain,
    Follow,
    GiveUp,
    GiveUpChat,
    LeaveUnknown,
    Send,
    SendMarked,
    Simplify,
    ToParent,
    WaitForChat,
    WaitForPlatform,
)
from gateway.delivery.resources import Resources
from gateway.ledger import deliveries, surfaces, threads
from gateway.ledger.deliveries import DeliveryRow, Overtaken, Part, Repair
from gateway.ledger.digest import digest_of
from gateway.ledger.surfaces import NewSurface
from gateway.ledger.threads import Opening, parent_of
from gateway.strings import say
from gateway.views.messages import answer, in_parent_chat, repeated
from runtime.store.writer import Result, Statement

log = logging.getLogger("pilothouse.gateway.delivery")

OVERTAKEN = "overtaken by the end of its turn"
CARD = "card"


class Told(Protocol):
    """Who has to know what became of a request."""

    def settled(self, row: DeliveryRow) -> None:
        """The row needs no more work."""
        ...

    def changed(self, *, repairs: bool = False) -> None:
        """Rows are not as they were read."""
        ...

    def repaired(self, repair: Repair) -> None:
        """The message shows what it should, or never will."""
        ...

    def arrived(self, surface_id: int, message_id: str) -> None:
        """A message that may be edited later is on the platform."""
        ...

    def card_of(self, surface_id: int | None) -> LiveCard | None:
        """The live card with this surface."""
        ...

    def moved_to(self, chat: str) -> None:
        """The chat has another id now."""
        ...

    def thread_settled(self, thread: Opening) -> None:
        """A new thread is open, or its parent is used: what waited for it was moved there."""
        ...


class Sending:
    """Sends and edits for one chat, and stores what comes of it."""

    def __init__(self, resources: Resources, lane: Told) -> None:
        self._resources = resources
        self._lane = lane
        self._edit_failures = 0
        self._open_failures = 0
        self._later: dict[int, Statement] = {}

    @property
    def _now(self) -> int:
        return self._resources.clock.now_ms()

    # ------------------------------------------------------------------------------------------------- planned rows

    async def send_marked_row(self, row: DeliveryRow) -> None:
        """Send a row that was marked when it was planned, a moment ago."""
        adapter = self._resources.adapter(row.place)
        if adapter is None:
            await self._change(deliveries.back_to_planned(row.id, 0, self._now))
            return
        self._resources.account(row.place).budget.take(row.place)
        await self._transmit(adapter, row)

    async def send_row(self, row: DeliveryRow) -> None:
        """Send one row that is due, as its past allows."""
        adapter = self._resources.adapter(row.place)
        if adapter is None:
            self._resources.account(row.place).failed(None)
            return
        if row.surface == CARD and not self._still_wanted(row):
            await self._end(row, "failed", OVERTAKEN)
            return
        if policy.is_request(row) and (missing := await deliveries.parts_missing(self._resources.database, row)):
            await self._give_up(row, f"a part of the action could not be shown ({', '.join(missing)})")
            return
        if isinstance(row.view, Reaction | ThreadStatus):
            await self._set_mark(adapter, row)
            return
        match policy.before_send(row, adapter.capabilities):
            case Send():
                await self._mark_and_send(adapter, row, deliveries.sending(row, self._now))
            case SendMarked(view=view):
                await self._send_marked(adapter, row, view)
            case LeaveUnknown():
                await self._leave_unknown(row, "its outcome was never known")

    async def _set_mark(self, adapter: Adapter, row: DeliveryRow) -> None:
        """A mark that is set twice is set once, so nothing has to be written before it; and after it, in good time."""
        account = self._resources.account(row.place)
        account.budget.take(row.place)
        try:
            await adapter.send(row.place, row.view, row.key, row.attempt + 1)
        except RateLimited as error:
            account.budget.ban(row.place, self._now + round(error.retry_after * 1000))
        except NotConnected:
            account.failed(None)
        except BadCredentials:
            await self._platform_failed(row.place, policy.CREDENTIALS_RETRY_SECONDS, credentials=True)
        except Exception as error:  # noqa: BLE001 - whatever it was: a mark is not worth a second try
            _log_fault(error, row.view)
            self._settle_later(row, deliveries.ended(row.id, "failed", policy.reason_of(error), self._now))
        else:
            account.reached()
            self._settle_later(row, deliveries.sent(row.id, (), self._now))

    def _settle_later(self, row: DeliveryRow, statement: Statement) -> None:
        self._later[row.id] = statement
        self._lane.settled(row)

    @property
    def settled_later(self) -> Set[int]:
        """Rows that need no more work, which is not stored yet."""
        return self._later.keys()

    async def flush(self) -> bool:
        """Store what became of marks, if nothing else was stored since. True: there was something."""
        if not self._later:
            return False
        await self._write([])
        return True

    async def _write(self, unit: Sequence[Statement]) -> list[Result]:
        """One transaction, with what became of marks before it."""
        later = dict(self._later)
        results = await self._resources.database.write([*unit, *later.values()])
        for row_id in later:
            del self._later[row_id]
        return results[: len(unit)]

    def _still_wanted(self, row: DeliveryRow) -> bool:
        """Whether a card that was put off, or whose fate is not known, still has a turn to show."""
        card = self._lane.card_of(row.surface_id)
        return row.attempt > 0 or (card is not None and not card.over)

    async def _send_marked(self, adapter: Adapter, row: DeliveryRow, view: View) -> None:
        """The one repeat. A message with controls gets controls of its own, so that each copy is known apart."""
        if row.surface_id is None:
            statement = deliveries.sending_again(row, view, None, self._now)
            await self._mark_and_send(adapter, row, statement, view=view)
            return
        token = surfaces.mint(self._resources.random_bytes)
        marked = repeated(view, token)
        assert marked is not None, "what has controls can be repeated"
        copy = surfaces.copy(row.surface_id, token, self._now)
        statement = deliveries.sending_again(row, marked, token, self._now)
        left = surfaces.given_up(row.surface_id, self._now)
        await self._mark_and_send(adapter, row, copy, statement, left, view=marked)

    async def _mark_and_send(
        self, adapter: Adapter, row: DeliveryRow, *statements: Statement, view: View | None = None
    ) -> None:
        unit = list(statements)
        if row.surface_id is not None and view is None:
            unit.append(surfaces.going_out(row.surface_id, self._now))
        self._resources.account(row.place).budget.take(row.place)
        self._resources.faults.reach("delivery.sending.before")
        await self._write(unit)
        self._resources.faults.reach("delivery.sending.after")
        marked = await self._as_stored(row, view)
        await self._transmit(adapter, marked)

    async def _as_stored(self, row: DeliveryRow, view: View | None) -> DeliveryRow:
        """The row as it is now that it is marked; a repeat may belong to a surface that was just made."""
        row = replace(row, state="sending", attempt=row.attempt + 1)
        if view is None:
            return row
        surface_id = row.surface_id
        if surface_id is not None:
            surface_id = await deliveries.surface_of(self._resources.database, row.id)
        return replace(row, view=view, digest=digest_of(view), surface_id=surface_id)

    async def _transmit(self, adapter: Adapter, row: DeliveryRow) -> None:
        try:
            sent = await adapter.send(row.place, row.view, row.key, row.attempt)
        except Exception as error:  # noqa: BLE001 - whatever it was, what it means for the part has to be stored
            _log_fault(error, row.view)
            await self._after(row, policy.after_error(error, row, adapter.capabilities), error)
            return
        self._resources.account(row.place).reached()
        self._resources.faults.reach("delivery.sent.before")
        await self._sent(row, sent)
        self._resources.faults.reach("delivery.sent.after")

    async def _sent(self, row: DeliveryRow, sent: Sent) -> None:
        now = self._now
        unit = [deliveries.sent(row.id, sent.refs, now)]
        if self._resources.revive(row.place):
            unit.append(deliveries.alive(row.place))
        message_id = sent.refs[-1].id if sent.refs else None
        if row.surface_id is not None and message_id is not None:
            # What an earlier attempt showed is not known, so only a first one fulfils a wish.
            shown = row.digest if row.attempt == 1 else None
            unit.append(surfaces.arrived(row.surface_id, message_id, shown, now))
        await self._write(unit)
        self._lane.settled(row)
        if row.surface_id is not None and message_id is not None:
            self._lane.arrived(row.surface_id, message_id)

    # ---------------------------------------------------------------------------------------------- what went wrong

    async def _after(self, row: DeliveryRow, after: After, error: Exception) -> None:
        now = self._now
        match after:
            case WaitForChat(seconds=seconds):
                until = now + round(seconds * 1000)
                self._resources.account(row.place).budget.ban(row.place, until)
                await self._change(deliveries.back_to_planned(row.id, until, now))
            case WaitForPlatform(seconds=seconds, credentials=credentials):
                await self._change(deliveries.back_to_planned(row.id, 0, now))
                await self._platform_failed(row.place, seconds, credentials)
            case AskAgain(seconds=seconds):
                await self._change(deliveries.again_later(row.id, now + round(seconds * 1000), now))
            case Simplify(view=view):
                await self._change(deliveries.other_view(row.id, view, now))
            case ToParent():
                await self._change(*deliveries.to_parent_chat(row, in_parent_chat(row.view), now))
            case Follow(chat=chat):
                await self._follow(row.place, chat, deliveries.back_to_planned(row.id, 0, now))
            case GiveUpChat(reason=reason):
                await self._give_up_chat(row, reason)
            case GiveUp(reason=reason):
                await self._give_up(row, reason)
            case LeaveUnknown():
                await self._leave_unknown(row, policy.reason_of(error))
            case _:
                assert_never(after)

    async def _change(self, *statements: Statement) -> None:
        await self._write(statements)
        self._lane.changed()

    async def _platform_failed(self, place: Place, seconds: float | None, credentials: bool) -> None:
        account = self._resources.account(place)
        account.failed(seconds)
        if credentials and not account.credentials_refused:
            account.credentials_refused = True
            text = say("owner.bad_credentials", platform=place.platform, account=place.account)
            await _quietly(self._resources.neighbours.tell_owner(text), "an owner could not be told")

    async def _follow(self, place: Place, chat: str, *first: Statement) -> None:
        now = self._now
        unit = [
            *first,
            deliveries.move_chat(place, chat, now),
            surfaces.move_chat(place, chat, now),
            *self._resources.neighbours.moved(place, chat),
        ]
        await self._write(unit)
        self._lane.changed(repairs=True)
        self._lane.moved_to(chat)

    async def _leave_unknown(self, row: DeliveryRow, reason: str) -> None:
        await self._end(row, "unknown", reason)
        if (card := self._lane.card_of(row.surface_id)) is not None:
            card.hopeless = True

    async def _end(self, row: DeliveryRow, state: Literal["unknown", "failed"], reason: str) -> None:
        unit = [deliveries.ended(row.id, state, reason, self._now)]
        if row.surface_id is not None:
            gone = surfaces.never_arrived if state == "failed" else surfaces.given_up
            unit.append(gone(row.surface_id, self._now))
        await self._write(unit)
        self._lane.settled(row)

    async def _give_up(self, row: DeliveryRow, reason: str) -> None:
        log.warning("a part for %s was given up: %s (%s %s)", row.place, reason, row.source, row.surface)
        await self._end(row, "failed", reason)
        if (card := self._lane.card_of(row.surface_id)) is not None:
            card.hopeless = True
        if row.request_id is not None:
            await report_undelivered(self._resources)

    async def _give_up_chat(self, row: DeliveryRow, reason: str) -> None:
        now = self._now
        unit = [*deliveries.give_up_chat(row.place, reason, now)]
        if row.surface_id is not None:
            unit.append(surfaces.never_arrived(row.surface_id, now))
        _, marked, *_ = await self._write(unit)
        self._resources.bury(row.place)
        self._lane.changed()
        await report_undelivered(self._resources)
        if marked.count:
            text = say("owner.dead_chat", platform=row.place.platform, chat=row.place.chat, reason=reason)
            await _quietly(self._resources.neighbours.tell_owner(text), "an owner could not be told")

    # ------------------------------------------------------------------------------------------------ new threads

    async def open_thread(self, thread: Opening, step: Step) -> None:
        """Ask the platform for a thread of ours, or settle that its parent is used."""
        if step in ("parent", "unknown"):
            await self.settle_thread(replace(thread, stage=step, opened=None))
            return
        adapter = self._resources.adapter(thread.place)
        account = self._resources.account(thread.place)
        if adapter is None:
            account.failed(None)
            return
        account.budget.take(thread.place)
        self._resources.faults.reach("thread.opening.before")
        await self._write([threads.opening(thread.surface_id, self._now)])
        self._resources.faults.reach("thread.opening.after")
        try:
            place = await adapter.open_thread(parent_of(thread.place), thread.title, thread.key, thread.root)
        except Exception as error:  # noqa: BLE001 - whatever it was, the thread has to be somewhere
            _log_fault(error, "wish for a thread")
            await self._not_opened(thread, error, adapter.capabilities)
            return
        account.reached()
        self._resources.faults.reach("thread.opened.before")
        await self.settle_thread(replace(thread, stage="open", opened=place.thread))
        self._resources.faults.reach("thread.opened.after")

    async def _not_opened(self, thread: Opening, error: Exception, capabilities: Capabilities) -> None:
        now, account = self._now, self._resources.account(thread.place)
        match error:
            case RateLimited(retry_after=seconds):
                account.budget.ban(thread.place, now + round(seconds * 1000))
                await self._change(threads.put_off(thread.surface_id, now))
            case NotConnected():
                await self._change(threads.put_off(thread.surface_id, now))
                await self._platform_failed(thread.place, None, credentials=False)
            case BadCredentials():
                await self._change(threads.put_off(thread.surface_id, now))
                await self._platform_failed(thread.place, policy.CREDENTIALS_RETRY_SECONDS, credentials=True)
            case _ if policy.outcome_is_unknown(error) and self._ask_again(capabilities):
                account.budget.ban(thread.place, now + round(policy.pause_seconds(self._open_failures - 1) * 1000))
                self._lane.changed()
            case _:
                self._open_failures = 0
                stage = "unknown" if policy.outcome_is_unknown(error) else "parent"
                log.warning("no thread could be opened in %s: %s", thread.place, policy.reason_of(error))
                await self.settle_thread(replace(thread, stage=stage, opened=None))

    def _ask_again(self, capabilities: Capabilities) -> bool:
        """Under its key it is opened once, where the platform knows keys."""
        self._open_failures += 1
        return capabilities.idempotent_send != "none" and self._open_failures < policy.SAFE_ATTEMPTS

    async def settle_thread(self, thread: Opening) -> None:
        """Move what waits for a thread to where it is."""
        moved = self._resources.neighbours.opened(thread.place, thread.target)
        await self._write([*threads.settled(thread, self._now), *moved])
        self._lane.thread_settled(thread)

    # ------------------------------------------------------------------------------------------ messages of the past

    async def edit_message(self, repair: Repair) -> None:
        """Let a message show what it should. Doing it again is harmless, so nothing is written before it."""
        place = _place_of(repair)
        adapter = self._resources.adapter(place)
        account = self._resources.account(place)
        if adapter is None:
            account.failed(None)
            return
        account.budget.take(place)
        done = surfaces.edited(repair.surface_id, repair.digest, self._now)
        if not adapter.capabilities.can_edit:
            await self._never(repair, adapter)
            return
        try:
            await adapter.edit(repair.ref, repair.view)
        except RateLimited as error:
            account.budget.ban(place, self._now + round(error.retry_after * 1000))
        except NotConnected:
            account.failed(None)
        except TargetGone as error:
            if error.moved_to is not None:
                await self._follow(place, error.moved_to)
            else:
                await self._never(repair, adapter)
        except (Refused, MarkupRefused) as error:
            log.warning("a message in %s keeps what it shows: %s", place, policy.reason_of(error))
            await self._never(repair, adapter)
        except Exception as error:  # noqa: BLE001 - the edit may have been made, and is made again later
            _log_fault(error, repair.view)
            self._edit_failures += 1
            account.budget.ban(place, self._now + round(policy.pause_seconds(self._edit_failures - 1) * 1000))
            if self._edit_failures >= policy.SAFE_ATTEMPTS:
                self._edit_failures = 0
                await self._never(repair, adapter)
        else:
            account.reached()
            self._edit_failures = 0
            self._resources.faults.reach("delivery.sent.before")
            await self._repaired(repair, done)
            self._resources.faults.reach("delivery.sent.after")

    async def _never(self, repair: Repair, adapter: Adapter) -> None:
        """The message keeps what it shows. Where it was to bring the answer, that is a message of its own then."""
        unit, view = [surfaces.not_editable(repair.surface_id, repair.digest, self._now)], repair.view
        if isinstance(view, Stream) and repair.priority is not Priority.PROGRESS:
            unit += deliveries.plan(
                source=f"stream:{repair.surface_id}", surface="answer", place=_place_of(repair),
                views=answer(view.markdown or view.title, adapter.markup), priority=Priority.ANSWER, now_ms=self._now,
            )  # fmt: skip
        await self._repaired(repair, *unit)

    async def _repaired(self, repair: Repair, *statements: Statement) -> None:
        await self._write(statements)
        self._lane.repaired(repair)
        if len(statements) > 1:
            self._lane.changed()

    # --------------------------------------------------------------------------------------------------- live cards

    async def send_card(self, card: LiveCard) -> None:
        """Show the card of a turn for the first time. Its row is written when it goes out, never before."""
        adapter = self._resources.adapter(card.place)
        if adapter is None:
            self._resources.account(card.place).failed(None)
            return
        if not adapter.capabilities.can_edit:
            card.hopeless = True  # a card that could not be changed would soon say what is not so
            return
        if card.labels and await surfaces.had_card(self._resources.database, card.session.id):
            card.labels = ()
        if card.over:
            return
        try:
            row = await self._store_card(card)
        except Overtaken:
            await self._find_card(card)
            return
        digest = card.digest
        if isinstance(row.view, Stream):
            card.streamed = row.view.markdown
        await self._transmit(adapter, row)
        if card.message_id is not None:
            card.shown = digest

    async def _find_card(self, card: LiveCard) -> None:
        """The card was stored before, by a commit of which nobody knew: it is that one, or none."""
        card.hopeless = True
        for surface in await surfaces.live_cards(self._resources.database, card.session.id):
            if surface.turn_id == card.turn_id:
                card.adopt(surface)
        self._lane.changed()

    async def _store_card(self, card: LiveCard) -> DeliveryRow:
        now = self._now
        card.token = surfaces.mint(self._resources.random_bytes)
        part = Part(
            source=deliveries.event_source(card.session.id, card.first_sequence), surface=CARD, part=0,
            place=card.place, view=card.view(now), priority=Priority.PROGRESS, session_id=card.session.id,
            turn_id=card.turn_id, goes_out=True,
            new_surface=NewSurface(
                token=card.token, kind="card", choices=card.choices, session_id=card.session.id,
                turn_id=card.turn_id, first_sequence=card.first_sequence,
            ),
        )  # fmt: skip
        self._take_for(card)
        self._resources.faults.reach("delivery.sending.before")
        _, stored = await self._write(deliveries.show_card(part, now))
        self._resources.faults.reach("delivery.sending.after")
        row_id, card.surface_id = stored.rows[0]
        return part.row(row_id, card.surface_id)

    async def edit_card(self, card: LiveCard) -> None:
        """Bring a card up to date. Nothing of it is stored: what it should show is folded from the journal."""
        adapter, ref = self._resources.adapter(card.place), card.ref
        account = self._resources.account(card.place)
        assert ref is not None, "only what is there is edited"
        if adapter is None:
            account.failed(None)
            return
        digest, card.late = card.digest, False
        view = card.view(self._now)
        if isinstance(view, Stream):
            card.streamed = view.markdown
        self._take_for(card)
        try:
            await adapter.edit(ref, view)
        except RateLimited as error:
            account.budget.ban(card.place, self._now + round(error.retry_after * 1000))
        except NotConnected:
            account.failed(None)
        except (TargetGone, Refused, MarkupRefused) as error:
            log.info("the card of turn %s is left as it is: %s", card.turn_id, policy.reason_of(error))
            card.hopeless = True
        except Exception as error:  # noqa: BLE001 - the next state is sent soon, and tolerating a lost frame is the rule
            _log_fault(error, view)
            card.failures += 1
            card.hopeless = card.failures >= MAX_EDIT_FAILURES
        else:
            account.reached()
            card.shown, card.failures = digest, 0

    def _take_for(self, card: LiveCard) -> None:
        every = STREAM_EVERY_SECONDS if card.streams else None
        self._resources.account(card.place).budget.take(card.place, live_edit=True, every_seconds=every)

    async def give_sign(self, card: LiveCard, view: Sign | None) -> None:
        """Typing, the platform's own state of the thread, a mark, or a draft. One that fails is not missed, but a state
        or mark that the platform put off is given later, if it is still true by then."""
        adapter = self._resources.adapter(card.place)
        account = self._resources.account(card.place)
        before = card.status
        _given(card, view)
        if adapter is None:
            return
        account.budget.take(card.place)
        try:
            await adapter.send(card.place, view or Typing(), f"sign:{card.turn_id}", 1)
        except RateLimited as error:
            account.budget.ban(card.place, self._now + round(error.retry_after * 1000))
            card.status, card.marking = before, card.marking or isinstance(view, Reaction)
        except AdapterError as error:
            _not_given(card, view)
            log.debug("no sign of life for turn %s: %s", card.turn_id, policy.reason_of(error))
        except Exception as error:  # noqa: BLE001 - a sign of life is not worth an answer
            _not_given(card, view)
            _log_fault(error, view or Typing())


def _not_given(card: LiveCard, view: Sign | None) -> None:
    """Drafts that fail again and again are left; the card and the answer need none."""
    if isinstance(view, Stream):
        card.draft_failures += 1
        card.drafts = card.draft_failures < MAX_EDIT_FAILURES


def _given(card: LiveCard, view: Sign | None) -> None:
    match view:
        case None:
            card.typing = False
        case ThreadStatus(state=state):
            card.status = state
        case Reaction():
            card.marking = False
        case Stream(markdown=text):
            card.draft_due, card.streamed = False, text


async def report_undelivered(resources: Resources) -> None:
    """Close every request that can never be shown; one that cannot be closed now is found at the next start."""
    for session_id, request_id, reason in await deliveries.undelivered_requests(resources.database):
        await _quietly(
            resources.neighbours.undeliverable(session_id, request_id, reason),
            "a request that cannot be shown could not be closed",
        )


def _place_of(repair: Repair) -> Place:
    ref = repair.ref
    return Place(platform=ref.platform, account=ref.account, chat=ref.chat, thread=ref.thread)


def _log_fault(error: Exception, what: View | str) -> None:
    """An error that the adapter did not raise on purpose is a fault of ours, and is logged with its cause."""
    if not policy.is_known_error(error):
        named = what if isinstance(what, str) else type(what).__name__
        log.error("sending a %s failed in the adapter: %r", named, error, exc_info=error)


async def _quietly(asked: Awaitable[None], trouble: str) -> None:
    try:
        await asked
    except Exception as error:
        log.error("%s: %r", trouble, error, exc_info=error)
