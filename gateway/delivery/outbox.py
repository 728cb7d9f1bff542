"""All lanes: one per chat with something to do, none for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.contract import Place
from gateway.budget import Priority
from gateway.delivery.cards import LiveCard
from gateway.delivery.lane import Lane
from gateway.delivery.resources import Resources
from gateway.ledger import deliveries, threads
from gateway.ledger.deliveries import DeliveryRow
from gateway.ledger.threads import is_new

ChatKey = tuple[str, str, str]


class Outbox:
    """Sends what is planned. `run` owns the tasks; what was asked for before it waits for it."""

    def __init__(
        self, resources: Resources, moved: Callable[[Place, str], None], opened: Callable[[Place, Place], None]
    ) -> None:
        self._resources = resources
        self._told = moved
        self._opened = opened
        self._lanes: dict[ChatKey, Lane] = {}
        self._running: set[ChatKey] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    def wake(self, place: Place, *, repairs: bool = False, repairs_first: bool = False) -> None:
        """Something was planned for the chat, and is committed."""
        self._lane(place).wake(repairs=repairs, repairs_first=repairs_first)
        self._start(_key(place))

    def free(self, place: Place) -> bool:
        """An answer that is planned now could go out at once."""
        if is_new(place):
            return False
        key = _key(place)
        lane = self._lanes.get(key)
        if key in self._running or self._tasks is None or (lane is not None and not lane.free):
            return False
        if self._resources.adapter(place) is None:
            return False
        return self._resources.account(place).budget.wait_ms(place, Priority.ANSWER) == 0

    def expect(self, place: Place, key: str) -> None:
        """A row with this key is about to be stored as going out; it is nobody else's until it is offered."""
        self._lane(place).expect(key)

    def expect_no_more(self, place: Place, key: str) -> None:
        """It may not have been stored; whoever finds it takes it for what it is."""
        self._lane(place).expect_no_more(key)
        self.wake(place)

    def offer(self, place: Place, rows: Sequence[DeliveryRow], *, repairs: bool = False) -> None:
        """These rows of the chat were just planned, and are committed; with `repairs`, a message is to be edited."""
        lane = self._lane(place)
        lane.offer(rows)
        lane.wake(rows=False, repairs=repairs)
        self._start(_key(place))

    def look(self, card: LiveCard) -> None:
        """A live card has changed, or something of it is due."""
        adapter = self._resources.adapter(card.place)
        states = adapter is not None and adapter.capabilities.native_stop
        marks = adapter is not None and adapter.capabilities.reactions
        signs = (states and card.to_mark) or (marks and card.to_accept) or card.to_draft
        if card.to_send or card.to_edit or card.to_type or signs:
            self._lane(card.place).wake(rows=False)
            self._start(_key(card.place))

    def attach(self, card: LiveCard) -> None:
        """The chat has a live card more."""
        self._lane(card.place).cards[card.key] = card

    def detach(self, card: LiveCard) -> None:
        """The turn of the card is over."""
        lane = self._lanes.get(_key(card.place))
        if lane is not None and lane.cards.get(card.key) is card:
            del lane.cards[card.key]
            self._forget(_key(card.place))

    def connected(self, platform: str, account: str) -> None:
        """The adapter of an account runs: nothing of it has to wait any longer."""
        place = Place(platform=platform, account=account, chat="")
        self._resources.account(place).reached()
        for key, lane in self._lanes.items():
            if key[:2] == (platform, account):
                lane.wake()

    async def recover(self) -> None:
        """Wake every chat that a crash left with something to send or to put right; the latter goes first."""
        self._resources.dead |= await deliveries.dead_chats(self._resources.database)
        for thread in await threads.unsettled(self._resources.database):
            self._lane(thread.place).to_open(thread)
            self.wake(thread.place)
        for platform, account, chat in await deliveries.busy_chats(self._resources.database):
            self.wake(Place(platform=platform, account=account, chat=chat), repairs_first=True)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for key in list(self._running):
                    self._spawn(tasks, key)
                await asyncio.Event().wait()
            finally:
                self._tasks = None  # what is planned from now on is found at the next start

    @property
    def resting(self) -> bool:
        """No chat has anything to send."""
        return self._at_rest.is_set()

    async def at_rest(self) -> None:
        """Return once no chat has anything to send."""
        await self._at_rest.wait()

    def _lane(self, place: Place) -> Lane:
        key = _key(place)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(place, self._resources, self._moved, self._opened)
        return lane

    def _start(self, key: ChatKey) -> None:
        if key in self._running:
            return
        self._running.add(key)
        self._at_rest.clear()
        if self._tasks is not None:
            self._spawn(self._tasks, key)

    def _spawn(self, tasks: asyncio.TaskGroup, key: ChatKey) -> None:
        tasks.create_task(self._run_lane(key), name=f"delivery to {key}")

    async def _run_lane(self, key: ChatKey) -> None:
        try:
            await self._lanes[key].run()
        finally:
            self._running.discard(key)
            self._forget(key)
            if not self._running:
                self._at_rest.set()

    def _forget(self, key: ChatKey) -> None:
        lane = self._lanes.get(key)
        if lane is not None and key not in self._running and not lane.cards and not lane.expects:
            del self._lanes[key]

    def _moved(self, place: Place, chat: str) -> None:
        """Live cards go with their chat; the message of a card stays where nobody can reach it."""
        old = self._lanes.get(_key(place))
        moved = replace(place, chat=chat)
        for card in list(old.cards.values()) if old else []:
            self.detach(card)
            card.place, card.message_id, card.hopeless = replace(card.place, chat=chat), None, True
            self.attach(card)
        self.wake(moved)
        self._told(place, chat)


def _key(place: Place) -> ChatKey:
    return place.platform, place.account, place.chat
