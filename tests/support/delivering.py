"""A platform that keeps a record, and delivery on a real store with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from adapters.contract import (
    Acknowledgement,
    ApprovalCard,
    Capabilities,
    Health,
    Inbound,
    Intake,
    MessageRef,
    Notice,
    Place,
    Sent,
    Typing,
    View,
)
from gateway.delivery import Asking, Decider, Delivery, Destination, Neighbours
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol import Checkpoint, ToolCall
from runtime.protocol.approvals import Action, PendingApproval
from runtime.protocol.checkpoint import ActiveExecution
from runtime.protocol.events import EventMsg
from runtime.store import SqliteStore
from runtime.store.writer import Statement
from runtime.testing import FakeClock

PLATFORM, ACCOUNT, CHAT, SESSION = "rec", "bot", "42", "s"
PLACE = Place(platform=PLATFORM, account=ACCOUNT, chat=CHAT)
FAST = Capabilities(sends_per_second=1000, sends_per_minute=60_000, edit_interval=0)


class PlainMarkup:
    """Text that is sent as it is, `limit` characters a message."""

    def __init__(self, limit: int = 4000) -> None:
        self.limit = limit

    def split(self, markdown: str) -> tuple[str, ...]:
        """Parts of at most `limit` characters, none blank."""
        return tuple(part for part in self.split_verbatim(markdown) if part.strip())

    def split_verbatim(self, text: str) -> tuple[str, ...]:
        """Parts of at most `limit` characters."""
        return tuple(text[start : start + self.limit] for start in range(0, len(text), self.limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of the adapter. `at_ms` is when it came."""

    what: str
    view: View
    place: Place | None = None
    ref: MessageRef | None = None
    key: str = ""
    attempt: int = 0
    at_ms: int = 0


@dataclass(slots=True, eq=False)
class Recorder:
    """An adapter of a platform that records all, and fails as it is told to.

    `failures` are taken one per request. With `accept_first` a request takes effect before it fails. While `held` is
    set, requests wait until it is cleared by `release`.
    """

    clock: FakeClock
    capabilities: Capabilities = FAST
    markup: PlainMarkup = field(default_factory=PlainMarkup)
    platform: str = PLATFORM
    account: str = ACCOUNT
    requests: list[Request] = field(default_factory=list[Request])
    messages: dict[str, View] = field(default_factory=dict[str, View])
    chats: dict[str, list[View]] = field(default_factory=dict[str, list[View]])
    failures: deque[Exception | None] = field(default_factory=deque[Exception | None])
    edit_failures: deque[Exception | None] = field(default_factory=deque[Exception | None])
    fail_when: Callable[[View], Exception | None] = lambda _: None
    accept_first: bool = False
    health: Health = Health(state="ready")
    _ids: Any = field(default_factory=lambda: count(1))
    threads: list[Place] = field(default_factory=list[Place])
    open_failures: deque[Exception | None] = field(default_factory=deque[Exception | None])
    _keys: dict[str, str] = field(default_factory=dict[str, str])
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    def __post_init__(self) -> None:
        self._open.set()

    def hold(self) -> None:
        """Let requests wait."""
        self._open.clear()

    def release(self) -> None:
        """Let them go on."""
        self._open.set()

    async def start(self, intake: Intake) -> None:
        """Nothing comes in."""

    async def stop(self) -> None:
        """Nothing runs."""

    async def send(self, place: Place, view: View, key: str, attempt: int) -> Sent:
        """Record it, fail if told to, keep the message."""
        self.requests.append(
            Request(what="send", view=view, place=place, key=key, attempt=attempt, at_ms=self.clock.now_ms())
        )
        await self._pass()
        failure = self.failures.popleft() if self.failures else self.fail_when(view)
        if failure is not None and not self.accept_first:
            raise failure
        ref = self._keep(place, view, key)
        if failure is not None:
            raise failure
        return Sent() if isinstance(view, Typing) else Sent(refs=(ref,))

    def _keep(self, place: Place, view: View, key: str) -> MessageRef:
        known = self._keys.get(key) if self.capabilities.idempotent_send != "none" else None
        message_id = known or str(next(self._ids))
        if known is None and not isinstance(view, Typing):
            self._keys[key] = message_id
            self.messages[message_id] = view
            self.chats.setdefault(place.chat, []).append(view)
        return MessageRef(
            platform=place.platform, account=place.account, chat=place.chat, thread=place.thread, id=message_id
        )

    async def edit(self, ref: MessageRef, view: View) -> None:
        """Record it, fail if told to, change the message."""
        self.requests.append(Request(what="edit", view=view, ref=ref, at_ms=self.clock.now_ms()))
        await self._pass()
        failure = self.edit_failures.popleft() if self.edit_failures else None
        if failure is not None:
            raise failure
        self.messages[ref.id] = view

    async def _pass(self) -> None:
        self.waiting += 1
        try:
            await self._open.wait()
        finally:
            self.waiting -= 1

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Nobody presses."""

    async def open_thread(self, place: Place, title: str, key: str, root: MessageRef | None = None) -> Place:
        """The same one for the same key, where keys count; fail if told to."""
        name = f"on {root.id}" if root is not None else f"topic {title}"
        view = Notice(text=f"open {title}: {name}")
        self.requests.append(Request(what="open", view=view, place=place, key=key, at_ms=self.clock.now_ms()))
        await self._pass()
        failure = self.open_failures.popleft() if self.open_failures else None
        if failure is not None and not self.accept_first:
            raise failure
        opened = replace(place, thread=name)
        if opened not in self.threads or self.capabilities.idempotent_send == "none":
            self.threads.append(opened)
        if failure is not None:
            raise failure
        return opened

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """There is no history."""
        return ()

    # ------------------------------------------------------------------------------------------------ what was seen

    def sent(self, kind: type[Any] | None = None) -> list[Any]:
        """Views that were sent, in order, without signs of life."""
        views = [request.view for request in self.requests if request.what == "send"]
        return [view for view in views if (isinstance(view, kind) if kind else not isinstance(view, Typing))]

    def edits(self) -> list[View]:
        """Views that messages were edited to, in order."""
        return [request.view for request in self.requests if request.what == "edit"]


@dataclass(slots=True, eq=False)
class People:
    """A directory that knows one place and a few names."""

    destinations: dict[str, Destination] = field(
        default_factory=lambda: {SESSION: Destination(place=PLACE, workspace="Shop", origin="telegram")}
    )
    asked: dict[str, Asking] = field(default_factory=dict[str, Asking])
    names: dict[str, str] = field(default_factory=lambda: {"rec:1": "Ann", "rec:2": "Bob"})
    approvers: tuple[Decider, ...] = (Decider(name="Ann", id="1"),)

    async def destination(self, session_id: str) -> Destination | None:
        """Where it was put."""
        return self.destinations.get(session_id)

    async def asking(self, message_id: str) -> Asking | None:
        """As it was put."""
        return self.asked.get(message_id)

    async def name(self, principal: str) -> str:
        """As it was put."""
        return self.names.get(principal, principal)

    async def deciders(self, place: Place) -> tuple[Decider, ...]:
        """As they were put."""
        return self.approvers


@dataclass(slots=True, eq=False)
class Running:
    """The adapters that are there."""

    adapters: dict[tuple[str, str], Any]

    def adapter(self, platform: str, account: str) -> Any:
        """The adapter of an account, if it is there."""
        return self.adapters.get((platform, account))


class Bench:
    """Delivery on a store of its own, and a hand that writes the journal."""

    def __init__(self, store: SqliteStore, clock: FakeClock, adapter: Recorder, people: People) -> None:
        self.store, self.clock, self.adapter, self.people = store, clock, adapter, people
        self.adapters = Running({(PLATFORM, ACCOUNT): adapter})
        self.undeliverable: list[tuple[str, str, str]] = []
        self.told: list[str] = []
        self.faults: Faults = NO_FAULTS
        self._random = count(1)
        self._task: asyncio.Task[None] | None = None
        self._sequence: dict[str, int] = {}
        self.steps = 0
        self.delivery: Delivery = self._make()

    def _make(self) -> Delivery:
        return Delivery(
            journal=self.store,
            peek=self.store.load,
            directory=self.people,
            platforms=self.adapters,
            neighbours=Neighbours(
                undeliverable=self._close, tell_owner=self._tell, moved=self._moved, opened=self._opened
            ),
            clock=self.clock,
            random_bytes=lambda n: next(self._random).to_bytes(n, "big"),
            faults=self.faults,
        )

    async def _close(self, session_id: str, request_id: str, reason: str) -> None:
        self.undeliverable.append((session_id, request_id, reason))

    async def _tell(self, text: str) -> None:
        self.told.append(text)

    def _moved(self, place: Place, chat: str) -> Sequence[Statement]:
        for session_id, destination in self.people.destinations.items():
            if destination.place.chat == place.chat:
                self.people.destinations[session_id] = replace(destination, place=replace(destination.place, chat=chat))
        return ()

    def _opened(self, stood_for: Place, thread: Place) -> Sequence[Statement]:
        for session_id, destination in self.people.destinations.items():
            if destination.place == stood_for:
                self.people.destinations[session_id] = replace(destination, place=thread)
        return ()

    async def start(self) -> None:
        """As the application starts it."""
        await self.delivery.recover()
        self._task = asyncio.create_task(self.delivery.run())

    @property
    def dead(self) -> bool:
        """Delivery has ended."""
        return self._task is None or self._task.done()

    async def crash(self) -> None:
        """Lose everything that is not on disk."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # a test that kills it knows
        self._task = None

    async def restart(self) -> None:
        """Crash, and start again on the same store."""
        await self.crash()
        self.delivery = self._make()
        await self.start()

    async def happen(
        self,
        *msgs: EventMsg,
        session: str = SESSION,
        pending: PendingApproval | None = None,
        submission_id: str | None = None,
        principals: tuple[str, ...] = (),
        quietly: bool = False,
    ) -> None:
        """Commit events of a session and tell delivery of it. `pending`: its checkpoint waits for that decision."""
        self._sequence[session] = self._sequence.get(session, 0) + 1
        self.steps += 1
        active = (
            None
            if pending is None
            else ActiveExecution(
                submission_id="m1", turn_id=pending.turn_id, started_at_ms=1, principals=principals
            )
        )  # fmt: skip
        checkpoint = Checkpoint(
            session_id=session,
            sequence=self._sequence[session],
            model_route="main",
            active_execution=active,
            pending_approval=pending,
        )
        saved = await self.store.save(checkpoint, events=msgs, submission_id=submission_id)
        if not quietly:
            self.delivery.committed(session, saved.first_event + len(msgs) - 1)

    async def rest(self) -> None:
        """Return once everything is read and sent."""
        assert self._task is not None
        resting = asyncio.ensure_future(self.delivery.at_rest())
        async with asyncio.timeout(30):
            await asyncio.wait((resting, self._task), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            resting.cancel()
            await self._task
        await resting

    async def until(self, holds: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> None:
        """Return once it holds."""
        async with asyncio.timeout(30):
            while True:
                found = holds()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return
                await asyncio.sleep(0.001)  # not 0: a loop that never rests starves the threads of the database

    async def pass_until(self, holds: Callable[[], Any], step: float = 1.0) -> None:
        """Let time pass, step by step, until it holds: no sleeper that is only just falling asleep is missed."""
        async with asyncio.timeout(30):
            while not holds():
                self.clock.advance(step)
                await asyncio.sleep(0.001)

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """What the database says."""
        return await self.store.database.read(sql, params)

    async def states(self) -> list[tuple[str, int, str, int]]:
        """(surface, part, state, attempt) of every delivery, in order."""
        return await self.rows("SELECT surface, part, state, attempt FROM deliveries ORDER BY id")  # type: ignore[return-value]


@asynccontextmanager
async def bench(folder: Path, capabilities: Capabilities = FAST, *, started: bool = True) -> AsyncIterator[Bench]:
    """A bench, closed at the end."""
    clock = FakeClock()
    store = await SqliteStore.open(
        folder / "state.db", clock=clock, components={"gateway": files("gateway") / "migrations"}
    )
    made = Bench(store, clock, Recorder(clock, capabilities), People())
    try:
        if started:
            await made.start()
        yield made
    finally:
        await made.crash()
        await store.aclose()


def action(tool: str = "shell", turn_id: str = "t1", **fields: Any) -> Action:
    """An action as a tool would make it."""
    fields.setdefault("arguments", {"command": "rm -rf build"})
    return Action(tool=tool, schema_hash="h", session_id=SESSION, turn_id=turn_id, workspace_id="w", **fields)


def pending(*actions: Action, request_id: str = "r1", turn_id: str = "t1", **fields: Any) -> PendingApproval:
    """A request for `actions`, or for one."""
    asked = {f"c{n}": each for n, each in enumerate(actions or (action(turn_id=turn_id),), 1)}
    calls = tuple(
        ToolCall(call_id=call_id, name=each.tool, arguments=each.arguments) for call_id, each in asked.items()
    )
    return PendingApproval(
        request_id=request_id,
        turn_id=turn_id,
        submission_id="m1",
        calls=calls,
        gated=tuple(asked),
        actions=asked,
        digests={call_id: each.digest() for call_id, each in asked.items()},
        **fields,
    )


def controls_of(view: View) -> list[str]:
    """The labels of a view's buttons."""
    return [control.label for control in getattr(view, "controls", ())]


def is_open_card(view: View) -> bool:
    """A request that waits for its decision."""
    return isinstance(view, ApprovalCard) and view.outcome is None
