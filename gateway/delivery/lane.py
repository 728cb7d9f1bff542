"""One chat's way out: a task that lives while there is something to send, one request at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from adapters.contract import Place
from gateway.delivery.alarms import wait_for
from gateway.delivery.cards import LiveCard
from gateway.delivery.choice import (
    EditMessage,
    GiveSign,
    Job,
    OpenThread,
    SendRow,
    ShowCard,
    Thread,
    Work,
    choose,
    next_due_ms,
    thread_of,
    urgency_of,
)
from gateway.delivery.opening import Step, next_step
from gateway.delivery.policy import pause_seconds
from gateway.delivery.resources import Resources
from gateway.delivery.sending import Sending
from gateway.ledger import deliveries, surfaces, threads
from gateway.ledger.deliveries import DeliveryRow, Overtaken, Repair
from gateway.ledger.threads import Opening, is_new, parent_of

log = logging.getLogger("pilothouse.gateway.delivery")

ROWS_AT_ONCE = 64


class Lane:
    """What goes out to one chat.

    `moved` tells that the chat has another id now, `opened` that a new thread is where the second place says.
    """

    def __init__(
        self,
        place: Place,
        resources: Resources,
        moved: Callable[[Place, str], None],
        opened: Callable[[Place, Place], None],
    ) -> None:
        self._place = Place(platform=place.platform, account=place.account, chat=place.chat)
        self._resources = resources
        self._sending = Sending(resources, self)
        self._moved = moved
        self._opened = opened
        self._opening: dict[str, Opening] = {}
        self._wake = asyncio.Event()
        self._rows: tuple[DeliveryRow, ...] = ()
        self._repairs: tuple[Repair, ...] = ()
        self._full = False
        self._rows_stale = False  # a chat without a lane has no rows that are due: whoever plans some wakes it
        self._marked: set[int] = set()
        self._expected: set[str] = set()
        self._repairs_stale = False
        self._repairs_first = False
        self._served: dict[Thread, int] = {}
        self._count = 0
        self.cards: dict[str, LiveCard] = {}

    # ------------------------------------------------------------------------------------------- told from outside

    def wake(self, *, rows: bool = True, repairs: bool = False, repairs_first: bool = False) -> None:
        """Look again: at planned rows, at messages to be put right, at the live cards."""
        self._rows_stale |= rows
        self._repairs_stale |= repairs or repairs_first
        self._repairs_first |= repairs_first
        self._wake.set()

    def to_open(self, thread: Opening) -> None:
        """A thread was being opened when the process ended."""
        self._opening[thread.place.thread or ""] = thread

    def expect(self, key: str) -> None:
        """A row with this key is about to be stored as going out; until it is offered it is not ours."""
        self._expected.add(key)

    def expect_no_more(self, key: str) -> None:
        """It was not stored, or nobody knows."""
        self._expected.discard(key)

    @property
    def expects(self) -> bool:
        """A row is about to be offered."""
        return bool(self._expected)

    def offer(self, rows: Sequence[DeliveryRow]) -> None:
        """These rows were just planned; what is marked as sending goes out as it is."""
        self._marked.update(row.id for row in rows if row.state == "sending")
        self._expected.difference_update(row.key for row in rows)
        if self._rows or self._rows_stale:
            self._rows_stale |= bool(rows)
        else:
            self._rows = tuple(rows)

    @property
    def free(self) -> bool:
        """Nothing is before a row that is planned now."""
        return not (self._rows or self._rows_stale or self._repairs_first)

    # ------------------------------------------------------------------------------------------------- told by sending

    def settled(self, row: DeliveryRow) -> None:
        """The row needs no more work here."""
        self._rows = tuple(other for other in self._rows if other.id != row.id)
        self._rows_stale |= not self._rows and self._full

    def changed(self, *, repairs: bool = False) -> None:
        """Rows are not as they were read."""
        self._rows_stale = True
        self._repairs_stale |= repairs

    def repaired(self, repair: Repair) -> None:
        """The message shows what it should, or never will."""
        self._repairs = tuple(other for other in self._repairs if other.surface_id != repair.surface_id)
        self._repairs_stale |= not self._repairs

    def arrived(self, surface_id: int, message_id: str) -> None:
        """A message that may be edited later is on the platform."""
        for card in self.cards.values():
            if card.surface_id == surface_id:
                card.message_id = message_id
                return
        self._repairs_stale = True

    def card_of(self, surface_id: int | None) -> LiveCard | None:
        """The live card with this surface."""
        return next((card for card in self.cards.values() if card.surface_id == surface_id is not None), None)

    def moved_to(self, chat: str) -> None:
        """The chat has another id now."""
        self._moved(self._place, chat)

    def thread_settled(self, thread: Opening) -> None:
        """A new thread is open, or its parent is used: what waited for it was moved there."""
        self._opening.pop(thread.place.thread or "", None)
        self._rows_stale = True
        for card in self.cards.values():
            if card.place.thread == thread.place.thread:
                card.place = thread.target
        self._opened(thread.place, thread.target)

    # ---------------------------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Send until nothing is left. A store that refuses, or a fault of ours, pauses this chat and no other."""
        failures = 0
        while True:
            try:
                if not await self._step():
                    return
                failures = 0
            except Overtaken:
                self.changed(repairs=True)
            except Exception as error:
                log.error("delivery to %s pauses: %r", self._place, error, exc_info=error)
                self.changed(repairs=True)
                await self._resources.clock.sleep(pause_seconds(failures))
                failures += 1

    async def _step(self) -> bool:
        """Do one thing, or wait for it. False: there is nothing to do and nothing to wait for."""
        self._wake.clear()
        await self._load()
        now = self._resources.clock.now_ms()
        work = self._work()
        job = choose(work, now)
        if job is None:
            due = next_due_ms(work, now)
            if due is None:
                flushed = await self._sending.flush()
                return flushed or self._wake.is_set() or self._rows_stale or self._repairs_stale
            await self._pause(due - now)
            return True
        wait = self._wait_ms(job)
        if wait:
            await self._pause(wait)
        else:
            await self._do(job)
        return True

    async def _load(self) -> None:
        place, database = self._place, self._resources.database
        if self._repairs_stale:
            self._repairs_stale = False
            self._repairs = await deliveries.repairs(database, place.platform, place.account, place.chat)
            self._repairs_first &= bool(self._repairs)
            await self._find_adopted()
        if self._rows_stale:
            self._rows_stale = False
            rows = await deliveries.due(database, place.platform, place.account, place.chat, ROWS_AT_ONCE)
            self._full = len(rows) == ROWS_AT_ONCE
            settled, expected = self._sending.settled_later, self._expected
            self._rows = tuple(row for row in rows if row.id not in settled and row.key not in expected)
            self._respect_bans()
        await self._load_opening()

    async def _load_opening(self) -> None:
        """How far the new threads are that something waits for; what is settled by now moves."""
        places = [*(row.place for row in self._rows), *(card.place for card in self.cards.values())]
        waited_for = {place.thread or "": place for place in places if is_new(place)}
        names = waited_for.keys() | self._opening.keys()
        if not names:
            return
        known = {one.place.thread or "": one for one in await threads.named(self._resources.database, names)}
        for name in names:
            thread = known.get(name) or _forgotten(waited_for.get(name) or self._opening[name].place)
            if thread.settled:
                await self._sending.settle_thread(thread)
            else:
                self._opening[name] = thread

    def _steps(self) -> dict[str, tuple[Opening, Step]]:
        """What is to be done next about each new thread."""
        if not self._opening:
            return {}
        adapter = self._resources.adapter(self._place)
        capabilities = None if adapter is None else adapter.capabilities
        waiting = {row.surface_id for row in self._rows}
        return {
            name: (thread, next_step(thread, capabilities, root_waits=thread.surface_id in waiting))
            for name, thread in self._opening.items()
        }

    async def _find_adopted(self) -> None:
        """A press may have brought the id of a card's message that nobody knew."""
        for card in list(self.cards.values()):
            if card.surface_id is not None and card.message_id is None:
                found = await surfaces.message_of(self._resources.database, card.surface_id)
                if found is not None:
                    card.message_id, card.hopeless = found, False

    def _respect_bans(self) -> None:
        """A planned row with an instant was put off by the platform for the whole chat, perhaps before a restart."""
        banned = [row.not_before_ms for row in self._rows if row.state == "planned" and row.not_before_ms]
        if banned:
            self._resources.account(self._place).budget.ban(self._place, max(banned))

    def _work(self) -> Work:
        adapter = self._resources.adapter(self._place)
        return Work(
            rows=self._rows,
            repairs=self._repairs,
            cards=tuple(self.cards.values()),
            served=self._served,
            repairs_first=self._repairs_first,
            opening=self._steps(),
            thread_states=adapter is not None and adapter.capabilities.native_stop,
            marks=adapter is not None and adapter.capabilities.reactions,
        )

    def _wait_ms(self, job: Job) -> int:
        budget = self._resources.account(self._place).budget
        return budget.wait_ms(self._place, urgency_of(job), live_edit=_is_live_edit(job))

    async def _pause(self, milliseconds: int) -> None:
        await wait_for(self._wake, milliseconds / 1000, self._resources.clock)

    async def _do(self, job: Job) -> None:
        match job:
            case SendRow(row=row) if row.id in self._marked:
                self._marked.discard(row.id)
                self._turn_of(thread_of(row.place, row.view))
                await self._sending.send_marked_row(row)
            case SendRow(row=row):
                self._turn_of(thread_of(row.place, row.view))
                await self._sending.send_row(replace(row, place=parent_of(row.place)) if is_new(row.place) else row)
            case OpenThread(thread=thread, step=step):
                self._turn_of(thread_of(thread.place))
                await self._sending.open_thread(thread, step)
            case EditMessage(repair=repair):
                await self._sending.edit_message(repair)
            case ShowCard(card=card, what="send"):
                self._turn_of(thread_of(card.place))
                await self._sending.send_card(card)
            case ShowCard(card=card):
                self._turn_of(thread_of(card.place))
                await self._sending.edit_card(card)
            case GiveSign(card=card, view=view):
                await self._sending.give_sign(card, view)
            case _:
                assert_never(job)

    def _turn_of(self, thread: Thread) -> None:
        self._count += 1
        self._served[thread] = self._count


def _forgotten(place: Place) -> Opening:
    """A thread of which nothing is known any more: its parent is all that there is."""
    return Opening(surface_id=0, place=place, title="", stage="parent", root=None, opened=None)


def _is_live_edit(job: Job) -> bool:
    return isinstance(job, ShowCard) and job.what == "edit"
