"""Takes what the door has stored, in order per place and side by side between places, until it is done.

The table is the queue: a row is read from it, and is gone from here only when its outcome is committed. Whatever fails
on the way, the row is tried again, ever more slowly; a crash begins again at the last commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from adapters.contract import Acknowledgement, Inbound, InboundKind, Notice, Place, Text
from adapters.errors import AdapterError
from gateway.access import Refusal, authorize
from gateway.acts import retire
from gateway.budget import Priority
from gateway.commands import Commands, is_slow, parse
from gateway.controls import Controls
from gateway.corrections import Corrections, NativeStop
from gateway.gathering import Next, deadline_ms, next_part
from gateway.handling import Desk, Handler, Item, Routed, Settled
from gateway.ledger import inbound as rows
from gateway.ledger.audit import Subject
from gateway.ledger.inbound import InboundRow, StoredRoute
from gateway.ledger.places import PlaceSession
from gateway.messages import Messages, refused
from gateway.offline import Absence, absence, ask
from gateway.places import conversation
from gateway.ports import Outbox
from gateway.strings import say
from runtime.clock import Clock
from runtime.errors import ConfigurationError, InvalidCheckpoint, RuntimeFailure

log = logging.getLogger(__name__)

AT_ONCE = 128
"""Rows that are handled side by side at most."""

PAGE = 256
HELD = 4096
"""Rows that are held in memory at most; the others wait in their table."""

PATIENCE_MS = 2000
"""How long the platform waits for the content of an acknowledgement (Slack and Discord give up after 3 s)."""

FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 60.0
SAY_SO_AFTER = 3
"""Failures in a row after which the person is told that it takes longer."""

GIVE_UP_AFTER = 6
"""Failures in a row by a fault of ours after which the row is given up, with a sentence: else it would hold up its
place for ever. What the runtime or the store refuses on purpose is never given up."""


class OneAnswer:
    """The one acknowledgement of a press. If its content takes too long, it is given without."""

    def __init__(self, desk: Desk, inbound: Inbound, received_at_ms: int) -> None:
        self._desk = desk
        self._inbound = inbound
        self._deadline_ms = received_at_ms + PATIENCE_MS
        self.spent = False

    async def keep_time(self) -> None:
        """Acknowledge without content once the time is over."""
        left = self._deadline_ms - self._desk.clock.now_ms()
        if left > 0:
            await self._desk.clock.sleep(left / 1000)
        if self.take():
            await self.give(None)

    def take(self) -> bool:
        """Whether the answer is still there to be given; it is the caller's then."""
        if self.spent:
            return False
        self.spent = True
        return True

    async def give(self, answer: Acknowledgement) -> None:
        """Tell the platform. What cannot be told is in the chat as well, or harmless."""
        place = self._inbound.place
        adapter = self._desk.platforms.adapter(place.platform, place.account)
        if adapter is None:
            return
        try:
            await adapter.acknowledge(self._inbound, answer)
        except AdapterError as error:
            log.info("a press could not be acknowledged: %s", error)
        except Exception:  # a fault of one adapter must not stop the router
            log.exception("a press could not be acknowledged")


@dataclass(slots=True, eq=False)
class _Lane:
    """Rows of one place that wait here, in order."""

    rows: deque[InboundRow] = field(default_factory=deque[InboundRow])
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Router:
    """Handles every stored row. One coroutine, `run`, owned by the application's task group."""

    def __init__(self, desk: Desk, outbox: Outbox) -> None:
        self._desk = desk
        self._outbox = outbox
        self._messages = Messages(desk)
        self._commands = Commands(desk)
        self._controls = Controls(desk)
        self._corrections = Corrections(desk)
        self._native_stop = NativeStop(desk)
        self._news = asyncio.Event()
        self._newest = 0
        self._held = 0
        self._lanes: dict[Place, _Lane] = {}
        self._answers: dict[int, OneAnswer] = {}
        self._turned_away: deque[tuple[Inbound, str]] = deque(maxlen=100)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._started_at_ms = 0
        self._absence = Absence(since_ms=None, until_ms=0)

    def wake(self) -> None:
        """There may be new rows."""
        self._news.set()

    def turn_away(self, press: Inbound, text: str) -> None:
        """Answer a press that was not let in. Nobody is promised that answer: it is not kept."""
        self._turned_away.append((press, text))
        self._news.set()

    @property
    def held(self) -> int:
        """Rows that were taken and are not done."""
        return self._held

    async def run(self) -> None:
        """Handle rows until cancelled, beginning with those that were left over."""
        self._started_at_ms = self._desk.clock.now_ms()
        self._absence = await self._learn_absence()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._finish_retiring(), name="finish retiring sessions")
            while True:
                self._news.clear()
                while self._turned_away:
                    press, text = self._turned_away.popleft()
                    group.create_task(OneAnswer(self._desk, press, 0).give(Text(text=text, alert=True)))
                if await self._take(group):
                    await self._news.wait()

    async def _learn_absence(self) -> Absence:
        try:
            return await absence(self._desk.database, self._started_at_ms)
        except RuntimeFailure as error:
            log.warning("it is not known how long we were away: %s", error)
            return self._absence

    # ---------------------------------------------------------------------------------------- taking

    async def _take(self, group: asyncio.TaskGroup) -> bool:
        """Take new rows into their lanes; False if there may be more already."""
        if self._held >= HELD:
            return True
        try:
            found = await rows.unfinished(self._desk.database, self._newest, PAGE)
        except RuntimeFailure as error:
            log.warning("stored messages could not be read, trying again: %s", error)
            await self._desk.clock.sleep(FIRST_PAUSE_SECONDS)
            return False
        for row in found:
            self._newest = row.id
            self._enqueue(row, group)
        return len(found) < PAGE

    def _enqueue(self, row: InboundRow, group: asyncio.TaskGroup) -> None:
        self._held += 1
        if row.inbound.handle is not None or row.inbound.kind in (InboundKind.PRESS, InboundKind.FORM):
            answer = self._answers[row.id] = OneAnswer(self._desk, row.inbound, row.received_at_ms)
            group.create_task(answer.keep_time(), name=f"answer {row.id}")
        key = conversation(row.inbound.place)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
            group.create_task(self._work(key, lane, group), name=f"lane {key.platform} {key.chat}")
        lane.rows.append(row)
        lane.news.set()

    async def _work(self, key: Place, lane: _Lane, group: asyncio.TaskGroup) -> None:
        while lane.rows:
            gathered = await self._gather(lane)
            if is_slow(gathered[0].inbound):
                group.create_task(self._handle(gathered, group), name=f"row {gathered[0].id}")
            elif gathered[0].leader is None:  # a part is handled with the row that leads
                await self._handle(gathered, group)
            else:
                self._let_go(gathered)
        del self._lanes[key]

    def _let_go(self, done: Sequence[InboundRow]) -> None:
        was_full = self._held >= HELD
        self._held -= len(done)
        for row in done:
            self._answers.pop(row.id, None)
        if was_full and self._held < HELD:
            self._news.set()

    async def _gather(self, lane: _Lane) -> list[InboundRow]:
        """The next row, with the parts that follow it."""
        gathered = [lane.rows.popleft()]
        if gathered[0].route is not None:
            return gathered
        while True:
            lane.news.clear()
            part = next_part(gathered[-1], lane.rows)
            if part is Next.CLOSED:
                return gathered
            if isinstance(part, int):
                gathered.append(lane.rows[part])
                del lane.rows[part]
                continue
            left = deadline_ms(gathered[-1], self._started_at_ms) - self._desk.clock.now_ms()
            if left <= 0 or not await _either(lane.news, self._desk.clock, left / 1000):
                return gathered

    # ---------------------------------------------------------------------------------------- handling

    async def _handle(self, gathered: list[InboundRow], group: asyncio.TaskGroup) -> None:
        """Try until it is done, then let go of it."""
        taken = gathered
        answer = self._answers.get(gathered[0].id)
        failures = faults = 0
        while True:
            try:
                known = await self._as_stored(gathered, again=failures > 0)
                if known is None:
                    break
                gathered = known
                async with self._slots:
                    await self._once(gathered, answer, group, hopeless=faults >= GIVE_UP_AFTER)
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, the row stays and is tried again
                failures += 1
                faults += not isinstance(error, RuntimeFailure | OSError)
                _complain(error, gathered[0].id, failures)
                if failures == SAY_SO_AFTER:
                    await self._say_so(gathered, error)
            await self._desk.clock.sleep(_pause_seconds(failures))
        self._let_go(taken)

    async def _as_stored(self, gathered: list[InboundRow], *, again: bool) -> list[InboundRow] | None:
        """The rows as they are now, since a commit that reported a failure may have been kept. None: they are done."""
        leader = await rows.row(self._desk.database, gathered[0].id) if again else gathered[0]
        if leader is None:
            return None
        if leader.route is not None:  # what was gathered is what was routed together
            return [leader, *await rows.parts_of(self._desk.database, leader.id)]
        return [leader, *gathered[1:]]

    async def _once(
        self, gathered: list[InboundRow], answer: OneAnswer | None, group: asyncio.TaskGroup, *, hopeless: bool
    ) -> None:
        verdict = authorize(self._desk.access.policy, gathered[0].inbound)
        late = answer is not None and answer.spent
        item = Item(rows=tuple(gathered), rights=frozenset(), late=late)
        if isinstance(verdict, Refusal):
            await self._settle(item, self._refused(item, verdict), answer, group)
            return
        item = replace(item, rights=verdict.rights)
        try:
            settled = self._given_up(item) if hopeless else await self._advance(item)
        except (ConfigurationError, InvalidCheckpoint) as error:  # it will be refused again until somebody changes it
            settled = refused(self._desk, item, str(error))
        await self._settle(item, settled, answer, group)

    async def _advance(self, item: Item) -> Settled:
        """Route it, in a commit of its own, then perform it; or perform it along the route that is stored."""
        handler = self._handler(item.inbound)
        if handler is None:
            return Settled(outcome="ignored", forget=True)
        route = item.rows[0].route
        if route is None:
            step = await handler.route(item)
            if isinstance(step, Settled):
                return step
            if handler is self._messages and self._is_long_ago(item):
                return await ask(self._desk, item)
            route = await self._route(item, step)
        return await handler.perform(item, route)

    def _is_long_ago(self, item: Item) -> bool:
        return len(item.rows) == 1 and self._absence.is_long_ago(item, self._desk.offline_age_ms())

    async def _route(self, item: Item, step: Routed) -> StoredRoute:
        route = StoredRoute(session_id=step.session_id, submission_id=item.submission_id, detail=step.detail)
        self._desk.faults.reach("intake.route.before")
        fixed = rows.routed([row.id for row in item.rows], item.inbound.place.chat, route)
        await self._desk.database.write([*fixed, *step.statements])
        self._desk.faults.reach("intake.route.after")
        return route

    def _handler(self, inbound: Inbound) -> Handler | None:
        match inbound.kind:
            case InboundKind.MESSAGE | InboundKind.COMMAND:
                return self._messages if parse(inbound) is None else self._commands
            case InboundKind.PRESS | InboundKind.FORM:
                return self._controls
            case InboundKind.EDIT | InboundKind.DELETE:
                return self._corrections
            case InboundKind.STOP:
                return self._native_stop
            case InboundKind.REACTION | InboundKind.MEMBERSHIP | InboundKind.CHAT_MIGRATED | InboundKind.OTHER:
                return None
            case _:
                assert_never(inbound.kind)

    async def _settle(self, item: Item, settled: Settled, answer: OneAnswer | None, group: asyncio.TaskGroup) -> None:
        """Store the outcome together with what people are told; only then tell them."""
        desk = self._desk
        ours = answer is not None and answer.take()
        told = list(settled.statements)
        if answer is not None and not ours and settled.late:
            told += desk.tell_privately(item, settled.late)
        ids = [row.id for row in item.rows]
        desk.faults.reach("intake.done.before")
        try:
            await desk.database.write(
                [rows.done(ids, settled.outcome, desk.clock.now_ms(), forget=settled.forget), *told]
            )
            desk.faults.reach("intake.done.after")
        except BaseException:
            if answer is not None and ours:
                group.create_task(answer.give(None))
            raise
        self._outbox.wake(item.place, repairs=item.inbound.kind in (InboundKind.PRESS, InboundKind.FORM))
        if answer is not None and ours:
            group.create_task(answer.give(settled.answer))

    # ---------------------------------------------------------------------------------------- what comes to nothing

    def _refused(self, item: Item, refusal: Refusal) -> Settled:
        """The sender has lost the right since it was stored."""
        subject = Subject(place=item.place)
        detail = {"kind": item.inbound.kind.value, "reason": refusal.reason.value, "stored": item.id}
        text = say("refused.revoked")
        words = self._desk.tell_privately(item, text) if item.inbound.kind in _SPOKEN else []
        return Settled(
            outcome="refused",
            statements=[self._desk.audit(item, "refused", subject, detail), *words],
            answer=Text(text=text, alert=True),
        )

    def _given_up(self, item: Item) -> Settled:
        log.error("row %d is given up after %d failures of ours", item.id, GIVE_UP_AFTER)
        text = say("failed.row", reference=item.submission_id)
        return Settled(
            outcome="failed",
            statements=self._desk.reply(item, text, error=True),
            answer=Text(text=text, alert=True),
        )

    async def _say_so(self, gathered: list[InboundRow], error: Exception) -> None:
        """It takes longer than anybody expects: say so, once. If even that cannot be stored, the log has to do."""
        item = Item(rows=tuple(gathered), rights=frozenset())
        if item.inbound.kind not in _SPOKEN:
            return
        with contextlib.suppress(RuntimeFailure):
            notice = Notice(text=say("failed.later"), level="warning", notify=True)
            await self._desk.database.write(self._desk.plan(item, notice, "later", Priority.CONTROL))
            self._outbox.wake(item.place)

    # ---------------------------------------------------------------------------------------- sessions that end

    async def _finish_retiring(self) -> None:
        """End every session that a crash left between the two commits of /new."""
        failures = 0
        while True:
            try:
                for session in await self._desk.places.retiring():
                    await self._retire(session)
                return
            except RuntimeFailure as error:
                failures += 1
                log.warning("a retiring session could not be ended, trying again: %s", error)
            await self._desk.clock.sleep(_pause_seconds(failures))

    async def _retire(self, session: PlaceSession) -> None:
        ended = await retire(
            self._desk, session.session_id, session.retired_by or "", session.retirement or session.session_id
        )
        if ended:
            await self._desk.database.write(ended)


_SPOKEN = frozenset({InboundKind.MESSAGE, InboundKind.COMMAND})


def _pause_seconds(failures: int) -> float:
    """The growing pause after so many failures in a row: 0.5, 1, 2, … 60 s."""
    return min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10), LAST_PAUSE_SECONDS)


def _complain(error: Exception, inbound_id: int, failures: int) -> None:
    if isinstance(error, RuntimeFailure):
        log.warning("row %d could not be handled (failure %d), trying again: %s", inbound_id, failures, error)
    else:
        log.error("row %d could not be handled (failure %d), trying again", inbound_id, failures, exc_info=error)


async def _either(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait for the event, but no longer than this; whether it was set."""
    woken = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((woken, timer), return_when=asyncio.FIRST_COMPLETED)
    finally:
        woken.cancel()
        timer.cancel()
        await asyncio.gather(woken, timer, return_exceptions=True)
    return event.is_set()
