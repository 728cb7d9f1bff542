"""Many sessions in one process: opened on demand, closed when idle, reopened with nothing lost."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from runtime.clock import Clock, SystemClock
from runtime.config import AgentConfig
from runtime.errors import AgentStopped, ConfigurationError
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.events import Event
from runtime.protocol.ops import Op
from runtime.protocol.session import QueuedMessage
from runtime.session.agent import Agent, create_agent
from runtime.store.base import CheckpointStore

log = logging.getLogger("pilothouse.runtime.host")

ConfigFor: TypeAlias = "Callable[[str], AgentConfig | Awaitable[AgentConfig]]"
Listener: TypeAlias = Callable[[str, int], None]
LiveListener: TypeAlias = Callable[[str, Event], None]

REOPEN_FIRST_SECONDS = 1.0
REOPEN_CAP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many sessions are kept open, and for how long one without work is."""

    open_sessions: int = 256
    idle_seconds: float = 300.0
    renew_seconds: float = 10.0


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
        self._tasks: set[asyncio.Task[None]] = set()
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
                self._spawn(self._reopen(session_id), f"reopen {session_id}")

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
            self._open[session_id] = _Open(agent, self._clock.now_ms())
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

    def _committed(self, session_id: str, stored: Sequence[Event]) -> None:
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
        if agent.failure is not None and not self._closed:
            await self._reopen(agent.session_id)

    async def _reopen(self, session_id: str) -> None:
        delay = REOPEN_FIRST_SECONDS
        while not self._closed:
            await self._clock.sleep(delay)
            delay = min(2 * delay, REOPEN_CAP_SECONDS)
            if session_id in self._open or session_id in self._opening:
                return
            try:
                found = await self._store.load(session_id)
                if found is not None and (found.pending_messages or found.active_execution is not None):
                    await self.open(session_id)
                return
            except ConfigurationError as error:
                log.error("session %s cannot be opened: %s", session_id, error)
                return
            except Exception:
                log.exception("session %s could not be opened; it is tried again in %.0f s", session_id, delay)

    async def _keep_house(self) -> None:
        """Renew our ownership, and close sessions that had nothing to do for a while."""
        while not self._closed:
            await self._clock.sleep(self._limits.renew_seconds)
            try:
                await self._store.renew_ownership()
            except Exception:
                log.exception("our ownership could not be renewed")
            await self._evict()

    async def _evict(self) -> None:
        now, patience = self._clock.now_ms(), self._limits.idle_seconds * 1000
        oldest_first = sorted(self._open.items(), key=lambda item: item[1].used_at_ms)
        surplus = len(oldest_first) - self._limits.open_sessions
        for position, (session_id, each) in enumerate(oldest_first):
            if each.agent.resting and (position < surplus or now - each.used_at_ms >= patience):
                self._open.pop(session_id, None)
                await each.agent.aclose()
