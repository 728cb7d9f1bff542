"""Running sessions for tests: an agent on a real store, and words for what a test waits for."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from runtime import Agent, AgentConfig, ModelRouter, Tool, ToolContext, create_agent, events, ops
from runtime.clock import SystemClock
from runtime.models.base import Model
from runtime.protocol import Checkpoint, Event, EventMsg, ToolCall, ToolResult
from runtime.store import SqliteStore
from runtime.testing import FakeClock

M = TypeVar("M")

SESSION = "s"


def config(store: Any, model: Model, **options: Any) -> AgentConfig:
    """A configuration of the one session that most tests need."""
    return AgentConfig(models=ModelRouter("main", model), store=store, session_id=SESSION, **options)


@asynccontextmanager
async def agent_on(store: Any, model: Model, **options: Any) -> AsyncIterator[Agent]:
    """A running agent, closed at the end."""
    agent = await create_agent(config(store, model, **options))
    try:
        yield agent
    finally:
        await agent.aclose()


async def event_of(agent: Agent, kind: type[M], timeout: float = 30.0) -> Event:
    """The next event of that kind; what comes before it is passed over."""
    async with asyncio.timeout(timeout):
        while (event := await agent.next_event()) is not None:
            if isinstance(event.msg, kind):
                return event
    raise AssertionError(f"the stream ended without {kind.__name__}")


async def seen(agent: Agent, kind: type[M], timeout: float = 30.0) -> M:
    """What the next event of that kind says."""
    msg = (await event_of(agent, kind, timeout)).msg
    assert isinstance(msg, kind)
    return msg


async def rest_of(agent: Agent, timeout: float = 30.0) -> list[EventMsg]:
    """Every event until the stream ends."""
    rest: list[EventMsg] = []
    async with asyncio.timeout(timeout):
        while (event := await agent.next_event()) is not None:
            rest.append(event.msg)
    return rest


async def condition(holds: Callable[[], Any], timeout: float = 30.0) -> None:
    """Return once it holds."""
    async with asyncio.timeout(timeout):
        while not holds():
            await asyncio.sleep(0)


async def talk(agent: Agent, text: str = "go", **fields: Any) -> events.TurnComplete:
    """Say something and wait for the answer."""
    await agent.submit(ops.Message(text=text, **fields))
    return await seen(agent, events.TurnComplete)


async def stored(store: Any, session_id: str = SESSION) -> Checkpoint:
    """The checkpoint on disk."""
    found = await store.load(session_id)
    assert found is not None
    return found


async def journal(store: Any, kind: type[M], session_id: str = SESSION) -> list[M]:
    """Every stored event of that kind, in order."""
    page = await store.event_page(session_id, after=0, limit=100_000)
    return [event.msg for event in page.events if isinstance(event.msg, kind)]


def results(checkpoint: Checkpoint) -> dict[str, str]:
    """The results of calls in the context, by call id."""
    return {item.call_id: item.output for item in checkpoint.context if isinstance(item, ToolResult)}


def sql(store: SqliteStore, statement: str, *params: Any) -> list[tuple[Any, ...]]:
    """Run a statement on a connection of our own."""
    connection = sqlite3.connect(store.path, timeout=5)
    try:
        with connection:
            return connection.execute(statement, params).fetchall()
    finally:
        connection.close()


def refuse_events(store: SqliteStore, kind: str) -> None:
    """Let the database refuse every commit that holds an event of that kind."""
    sql(
        store,
        f"CREATE TRIGGER refuse_{kind} BEFORE INSERT ON event_journal WHEN NEW.event_kind = '{kind}' "
        "BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
    )


def allow_events(store: SqliteStore, kind: str) -> None:
    """Take the refusal back."""
    sql(store, f"DROP TRIGGER refuse_{kind}")


def call(call_id: str, name: str = "work", **arguments: Any) -> ToolCall:
    """What a model asks for."""
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


class Work(Tool):
    """Notes its runs; with `hold` each run waits until `release` is set."""

    parameters: Any = {"type": "object", "properties": {}}
    description = "work that tests watch"

    def __init__(self, name: str = "work", *, hold: bool = False, output: str = "ok", **options: Any) -> None:
        self.name = name
        self.runs: list[Mapping[str, Any]] = []
        self.contexts: list[ToolContext] = []
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = 0
        self.output = output
        if not hold:
            self.release.set()
        for option, value in options.items():
            setattr(self, option, value)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Note it, wait if it has to, and answer."""
        self.runs.append(arguments)
        self.contexts.append(context)
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.output


class EagerClock(SystemClock):
    """Nothing takes time."""

    def __init__(self) -> None:
        self._passed = 0

    def now_ms(self) -> int:
        """As if every sleep had lasted."""
        return super().now_ms() + self._passed

    async def sleep(self, seconds: float) -> None:
        """Return at once, as if the time had passed."""
        self._passed += int(seconds * 1000) + 1
        await asyncio.sleep(0)


async def advance_when_asleep(clock: FakeClock, seconds: float, sleepers: int = 1) -> None:
    """Let time pass once that many wait for it."""
    await condition(lambda: clock.sleeping >= sleepers)
    clock.advance(seconds)


async def open_store(folder: Path) -> SqliteStore:
    """A store of its own in the folder."""
    return await SqliteStore.open(folder / "sessions.db")
