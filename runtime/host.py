"""Many sessions in one process: opened on demand, closed when idle, reopened with nothing lost."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from runtime import loop_moves
from runtime.clock import Clock, SystemClock
from runtime.config import AgentConfig
from runtime.errors import AgentStopped, ConfigurationError, TurnStuck
from runtime.protocol.approvals import Grant
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.events import Event
from runtime.protocol.ops import Op
from runtime.protocol.session import QueuedMessage, SessionContext
from runtime.session.agent import Agent, create_agent
from runtime.store.base import CheckpointStore

if TYPE_CHECKING:  # it brings the database driver along
    from runtime.store.retention import JournalLimits

log = logging.getLogger("pilothouse.runtime.host")

ConfigFor: TypeAlias = "Callable[[str], AgentConfig | Awaitable[AgentConfig]]"
Listener: TypeAlias = Callable[[str, int], None]
StoredListener: TypeAlias = Callable[[str, SessionContext, Sequence[Event]], None]
LiveListener: TypeAlias = Callable[[str, Event], None]

REOPEN_FIRST_SECONDS = 1.0
REOPEN_CAP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many sessions are kept open, for how long one without work is, and what a journal may hold (None: all).

    Every `renew_seconds` ownership is renewed, idle sessions are closed and stuck ones are freed; every `prune_seconds`
    what is past its time is removed.
    """

    open_sessions: int = 256
    idle_seconds: float = 300.0
    renew_seconds: float = 10.0
    prune_seconds: float = 3600.0
    journal: JournalLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """What a session is doing now. Instants are UTC milliseconds."""

    session_id: str
    turn_id: str | None
    started_at_ms: int | None
    model_step: int
    tools: tuple[str, ...]
    queue: tuple[QueuedMessage, ...]
    request_id: str | None
    model_route: str | None


@dataclass(slots=True, eq=False)
class _Open:
    agent: Agent
    used_at_ms: int
    opened_at_ms: int


class Runtime:
    """The sessions of this process. Start it, submit to it, close it; it owns the agents it opens."""

    def __init__(
        self, config_for: ConfigFor, store: CheckpointStore, *, limits: Limits | None = None, clock: Clock | None = None
    ) -> None:
        self._config_for = config_for
        self._store = store
        self._limits = limits or Limits()
        self._clock = clock or SystemClock()
        self._open: dict[str, _Open] = {}
        self._opening: dict[str, asyncio.Future[Agent]] = {}
        self._listeners: list[Listener] = []
        self._live: list[LiveListener] = []
        self._stored: list[StoredListener] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}
        self._pruned_at_ms = self._clock.now_ms()
        self._closed = False

    async def start(self) -> None:
        """Open every session that has work, so that it goes on by itself; a session that cannot be opened is tried
        again later and does not stop the others."""
        self._spawn(self._keep_house(), "house-keeping of the runtime")
        work = await self._store.sessions_with_work()
        for session_id in work:
            try:
                await self.open(session_id)
            except ConfigurationError as error:
                log.error("session %s cannot be opened: %s", session_id, error)
            except Exception:
                log.exception("session %s could not be opened; it is tried again", session_id)
                self._spawn(self._reopen(session_id, REOPEN_FIRST_SECONDS), f"reopen {session_id}")

    async def open(self, session_id: str) -> Agent:
        """The running agent of a session; opened if it is not."""
        while True:
            if self._closed:
                raise AgentStopped("the runtime was closed")
            found = self._open.get(session_id)
            if found is not None and not found.agent.ended:
                found.used_at_ms = self._clock.now_ms()
                return found.agent
            opening = self._opening.get(session_id)
            if opening is None:
                return await self._open_now(session_id)
            await asyncio.wait({opening})

    async def _open_now(self, session_id: str) -> Agent:
        opening: asyncio.Future[Agent] = asyncio.get_running_loop().create_future()
        self._opening[session_id] = opening
        try:
            config = self._config_for(session_id)
            if inspect.isawaitable(config):
                config = await config
            agent = await create_agent(config, on_commit=self._committed, on_live=self._showed)
            now = self._clock.now_ms()
            self._open[session_id] = _Open(agent, used_at_ms=now, opened_at_ms=now)
            self._spawn(self._watch(agent), f"watch {session_id}")
            return agent
        finally:
            del self._opening[session_id]
            opening.cancel()

    async def submit(self, session_id: str, op: Op, submission_id: str | None = None) -> Receipt:
        """Ask something of a session, opening it if need be; on return what the receipt says is durable."""
        for last in (False, True):
            agent = await self.open(session_id)
            try:
                return await agent.offer(op, submission_id)
            except AgentStopped:  # evicted between the two calls: once more, with the reopened one
                if last or agent.failure is not None:
                    raise
        raise AssertionError("unreachable")

    async def events(self, session_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The journal of a session from beyond `after`, then live; it ends when the session's agent does."""
        agent = await self.open(session_id)
        async for event in agent.events(after):
            yield event

    async def peek(self, session_id: str) -> Checkpoint | None:
        """The newest stored state, without opening the session."""
        found = self._open.get(session_id)
        if found is not None and not found.agent.ended:
            return found.agent.checkpoint
        return await self._store.load(session_id)

    async def status(self, session_id: str) -> SessionStatus | None:
        """What the session is doing, or None if there is no such session."""
        checkpoint = await self.peek(session_id)
        if checkpoint is None:
            return None
        active, approval = checkpoint.active_execution, checkpoint.pending_approval
        undecided = approval is not None and approval.decision is None
        return SessionStatus(
            session_id=session_id,
            turn_id=active.turn_id if active else None,
            started_at_ms=active.started_at_ms if active else None,
            model_step=active.next_model_step if active else 0,
            tools=tuple(tool.call.name for tool in checkpoint.pending_tools if tool.state == "started"),
            queue=checkpoint.pending_messages,
            request_id=approval.request_id if approval is not None and undecided else None,
            model_route=checkpoint.model_route,
        )

    async def cursor(self, consumer: str, session_id: str) -> int:
        """How far `consumer` has read the journal of the session."""
        return await self._store.cursor(consumer, session_id)

    async def sessions_beyond_cursor(self, consumer: str) -> tuple[str, ...]:
        """Sessions with events that `consumer` has not had: what a reader asks for once, when it starts."""
        return await self._store.sessions_beyond_cursor(consumer)

    async def grants(self, session_id: str) -> tuple[Grant, ...]:
        """Every stored "allow for this session" that still holds. `ops.RevokeGrant` withdraws one."""
        now = self._clock.now_ms()
        return tuple(grant for grant in await self._store.grants(session_id) if grant.expires_at_ms > now)

    async def fork(self, session_id: str, new_session_id: str) -> Checkpoint:
        """A copy of the session's conversation under a new id; nothing that waits comes along.

        CheckpointError where the source is missing or runs a turn, or the new id is taken.
        """
        return await self._store.fork(session_id, new_session_id)

    async def delete(self, session_id: str) -> None:
        """End the session and remove everything that hangs on it, but for its receipts. A missing one is no error."""
        found = self._open.pop(session_id, None)
        if found is not None:
            await found.agent.aclose()
        await self._store.delete(session_id)

    def on_commit(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(session id, newest journal sequence)` after each commit that stored events."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_live(self, listener: LiveListener) -> Callable[[], None]:
        """Call `listener(session id, event)` for events that are not stored."""
        self._live.append(listener)
        return lambda: self._live.remove(listener)

    async def at_rest(self) -> None:
        """Return once every open session is idle; a session that waits for a person counts as idle."""
        await asyncio.gather(*(each.agent.settled() for each in list(self._open.values())))

    async def aclose(self) -> None:
        """Close every session in order; what is on disk stays, and the next start goes on from it."""
        self._closed = True
        await asyncio.gather(*(each.agent.aclose() for each in list(self._open.values())))
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()

    @property
    def open_sessions(self) -> int:
        """How many agents run in this process."""
        return len(self._open)

    def on_stored(self, listener: StoredListener) -> Callable[[], None]:
        """Call `listener(session id, its labels, the events)` after each commit that stored events."""
        self._stored.append(listener)
        return lambda: self._stored.remove(listener)

    def _committed(self, session_id: str, stored: Sequence[Event]) -> None:
        opened = self._open.get(session_id)
        if stored and opened is not None:
            for observer in self._stored:
                observer(session_id, opened.agent.checkpoint.session_context, stored)
        if stored and stored[-1].sequence is not None:
            for listener in self._listeners:
                listener(session_id, stored[-1].sequence)

    def _showed(self, session_id: str, event: Event) -> None:
        for listener in self._live:
            listener(session_id, event)

    def _spawn(self, work: Awaitable[None], name: str) -> None:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, agent: Agent) -> None:
        """Forget an agent that has ended; one that failed with work on disk is opened again, ever more slowly."""
        await agent.wait_ended()
        current = self._open.get(agent.session_id)
        if current is not None and current.agent is agent:
            del self._open[agent.session_id]
        if agent.failure is None:
            self._failures.pop(agent.session_id, None)
        elif not self._closed:
            await self._reopen(agent.session_id, self._delay_after_failure(agent.session_id, current))

    def _delay_after_failure(self, session_id: str, found: _Open | None) -> float:
        """One that fails again soon after it was opened waits twice as long."""
        lasted_ms = self._clock.now_ms() - found.opened_at_ms if found is not None else 0
        before = self._failures.get(session_id, 0) if lasted_ms < REOPEN_CAP_SECONDS * 1000 else 0
        self._failures[session_id] = before + 1
        return min(REOPEN_CAP_SECONDS, REOPEN_FIRST_SECONDS * 2 ** min(before, 10))

    async def _reopen(self, session_id: str, delay: float) -> None:
        while not self._closed:
            await self._clock.sleep(delay)
            delay = min(2 * delay, REOPEN_CAP_SECONDS)
            if session_id in self._open or session_id in self._opening:
                return
            try:
                found = await self._store.load(session_id)
                if found is not None and _has_work(found):
                    await self.open(session_id)
                return
            except ConfigurationError as error:
                log.error("session %s cannot be opened: %s", session_id, error)
                return
            except Exception:
                log.exception("session %s could not be opened; it is tried again in %.0f s", session_id, delay)

    async def _keep_house(self) -> None:
        """Renew our ownership, close sessions that had nothing to do for a while, free those that are stuck."""
        while not self._closed:
            await self._clock.sleep(self._limits.renew_seconds)
            for chore in (self._store.renew_ownership, self._evict, self._free_stuck, self._prune):
                try:
                    await chore()
                except Exception:
                    log.exception("%s failed; it is tried again", chore.__name__.strip("_"))

    async def _free_stuck(self) -> None:
        """Take a session whose turn makes no progress from its agent; its successor recovers it, and its queue goes on.

        The successor's claim is a new generation, so whatever the old agent may still try to store is refused.
        """
        now = self._clock.now_ms()
        for session_id, each in list(self._open.items()):
            agent = each.agent
            if agent.without_progress_ms(now) < agent.stuck_after_ms:
                continue
            log.error("session %s made no progress for %d s; it is taken over", session_id, agent.stuck_after_ms / 1000)
            del self._open[session_id]
            agent.abandon(TurnStuck(f"no progress for {agent.stuck_after_ms / 1000:g} s"))
            await self.open(session_id)

    async def _prune(self) -> None:
        now = self._clock.now_ms()
        if now - self._pruned_at_ms < self._limits.prune_seconds * 1000:
            return
        self._pruned_at_ms = now
        await self._store.prune(now)
        if self._limits.journal is not None:
            await self._store.prune_journal(self._limits.journal, now)

    async def _evict(self) -> None:
        now, patience = self._clock.now_ms(), self._limits.idle_seconds * 1000
        surplus = len(self._open) - self._limits.open_sessions
        resting = [(session_id, each) for session_id, each in self._open.items() if each.agent.resting]
        resting.sort(key=lambda item: item[1].used_at_ms)
        for position, (session_id, each) in enumerate(resting):
            if each.agent.resting and (position < surplus or now - each.used_at_ms >= patience):
                self._open.pop(session_id, None)
                await each.agent.aclose()


def _has_work(checkpoint: Checkpoint) -> bool:
    """Whether the session goes on without being asked."""
    return bool(checkpoint.pending_messages) or not checkpoint.idle or loop_moves.has_work(checkpoint)
