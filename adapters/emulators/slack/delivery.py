"""Getting an event, press, command or form to the app, and what its acknowledgement says.

Events come at least once: one that is not acknowledged in time comes again, up to three times. Everything else comes
once, and the person is told if nobody answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from adapters.emulators.clock import Clock
from adapters.emulators.faults import FaultKind, FaultQueue
from adapters.emulators.journal import EntryKind, Journal
from adapters.emulators.slack.app import App
from adapters.emulators.slack.knobs import Knobs
from adapters.emulators.wire_json import JsonObject

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class EnvelopeKind(StrEnum):
    """`type` of a Socket Mode envelope."""

    EVENT = "events_api"
    INTERACTIVE = "interactive"
    COMMAND = "slash_commands"


@dataclass(slots=True, kw_only=True)
class Envelope:
    """One thing on its way. `id` changes with every attempt, as Slack's do; `event_id` inside the payload does not."""

    kind: EnvelopeKind
    name: str
    payload: JsonObject
    id: str = ""
    attempt: int = 0
    reason: str = ""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    answer: JsonObject | None = None

    @property
    def wants_answer(self) -> bool:
        """Whether the acknowledgement may carry something."""
        return self.kind is not EnvelopeKind.EVENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt went: acknowledged, perhaps with a payload, or not, for a reason. `final` forbids another."""

    acknowledged: bool
    answer: JsonObject | None = None
    reason: str = ""
    final: bool = False


class Carrier(Protocol):
    """A way to the app: sockets or HTTP."""

    async def carry(self, envelope: Envelope) -> Outcome:
        """One attempt, over within the time that the app has to acknowledge."""
        ...


class Delivery:
    """Envelopes of one app, through whatever faults are armed for them."""

    def __init__(
        self,
        *,
        app: App,
        clock: Clock,
        journal: Journal,
        faults: FaultQueue,
        knobs: Knobs,
        spawn: Spawn,
        new_id: Callable[[], str],
    ) -> None:
        self._app = app
        self._clock = clock
        self._journal = journal
        self._faults = faults
        self._knobs = knobs
        self._spawn = spawn
        self._new_id = new_id
        self._held: list[Envelope] = []
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self.sockets: Carrier
        self.http: Carrier

    # -- events

    def publish(self, name: str, payload: JsonObject) -> None:
        """Send an event, as often as needed."""
        fault = self._faults.take(name, event=True, account=self._app.account)
        copies = [self._event(name, payload)]
        if fault is not None:
            self._journal.record(EntryKind.FAULT, fault.kind, {"event": name}, account=self._app.account)
        if fault is not None and fault.kind is FaultKind.REORDER:
            self._held.extend(copies)
            return
        if fault is not None and fault.kind is FaultKind.DUPLICATE:
            copies.append(self._event(name, payload))
        delay = fault.seconds if fault is not None and fault.kind is FaultKind.DELAY else 0.0
        held, self._held = (self._held, []) if fault is None else ([], self._held)
        for envelope in [*copies, *held]:
            self.trace(envelope, "queued")
            self._keep(self._deliver_event(envelope, delay))

    def _event(self, name: str, payload: JsonObject) -> Envelope:
        return Envelope(kind=EnvelopeKind.EVENT, name=name, payload=payload)

    async def _deliver_event(self, envelope: Envelope, delay: float) -> None:
        if delay:
            await self._clock.sleep(delay)
        for number, pause in enumerate((0.0, *self._knobs.retry_delays)):
            if pause:
                await self._clock.sleep(pause)
            envelope.attempt = number
            outcome = await self._attempt(envelope)
            if outcome.acknowledged:
                self.trace(envelope, "confirmed")
                return
            self.trace(envelope, "refused", reason=outcome.reason)
            if outcome.final:
                break
            envelope.reason = outcome.reason
        self.trace(envelope, "expired")

    # -- presses, commands and forms

    def ask(self, envelope: Envelope, then: Callable[[Outcome], None]) -> None:
        """Send what a person waits for; `then` gets how it went."""
        self.trace(envelope, "queued")
        self._keep(self._deliver_once(envelope, then))

    async def _deliver_once(self, envelope: Envelope, then: Callable[[Outcome], None]) -> None:
        outcome = await self._attempt(envelope)
        self.trace(envelope, "confirmed" if outcome.acknowledged else "refused", reason=outcome.reason or None)
        then(outcome)

    # -- both

    async def _attempt(self, envelope: Envelope) -> Outcome:
        envelope.id = self._new_id()
        envelope.answered, envelope.answer = asyncio.Event(), None
        carrier = self.http if self._app.request_url is not None else self.sockets
        return await carrier.carry(envelope)

    def trace(self, envelope: Envelope, state: str, **more: Any) -> None:
        """Record where an envelope is on its way."""
        data: JsonObject = {"state": state, "attempt": envelope.attempt, "envelope_id": envelope.id}
        if "event_id" in envelope.payload:
            data["event_id"] = envelope.payload["event_id"]
        data |= {name: value for name, value in more.items() if value is not None}
        self._journal.record(EntryKind.EVENT, envelope.name, data, account=self._app.account)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._under_way[id(task)] = task
        task.add_done_callback(lambda done: self._under_way.pop(id(done), None))

    @property
    def pending(self) -> int:
        """How many are on their way, waiting to be tried again included."""
        return len(self._under_way)

    def forget(self) -> None:
        """Drop everything that is on its way."""
        self._held.clear()
        for task in list(self._under_way.values()):
            task.cancel()
