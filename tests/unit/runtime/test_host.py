"""Many sessions in one process: opened on demand, closed when idle, freed when stuck; nothing lost on the way."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from runtime import AgentConfig, ApprovalPolicy, Limits, Middleware, ModelRouter, Runtime, errors, events, ops
from runtime.middleware import HookContext
from runtime.protocol import ApproveForSession, Boundary, Checkpoint, Event, QueuedMessage
from runtime.store import SqliteStore
from runtime.store.retention import JournalLimits
from runtime.testing import BlockingModel, CountingModel, FakeClock, ScriptedModel
from tests.support.sessions import Work, call, condition, journal, sql, stored


def recipe(store: Any, model: Any, clock: Any, **options: Any) -> Callable[[str], AgentConfig]:
    return lambda session_id: AgentConfig(
        models=ModelRouter("main", model), store=store, session_id=session_id, clock=clock, **options
    )


@asynccontextmanager
async def runtime_on(store: Any, model: Any, limits: Limits | None = None, **options: Any) -> AsyncIterator[Any]:
    """A started runtime on a clock that the test moves: (runtime, clock)."""
    clock = FakeClock()
    runtime = Runtime(recipe(store, model, clock, **options), store, limits=limits, clock=clock)
    await runtime.start()
    try:
        yield runtime, clock
    finally:
        await runtime.aclose()


async def rounds(clock: FakeClock, seconds: float, number: int) -> None:
    """Let the house be kept so many times."""
    for _ in range(number):
        await condition(lambda: clock.sleeping)
        clock.advance(seconds)
        await asyncio.sleep(0)


def with_work(session_id: str, model_route: str = "main") -> Checkpoint:
    message = QueuedMessage(id=f"m-{session_id}", boundary=Boundary.queue(), author="ann", text="hello")
    return replace(Checkpoint.empty(session_id), sequence=1, model_route=model_route, pending_messages=(message,))


async def test_a_session_is_opened_by_its_first_message_and_once(store: SqliteStore) -> None:
    """Many that ask at once get one agent."""
    async with runtime_on(store, CountingModel()) as (runtime, _):
        assert runtime.open_sessions == 0
        receipts = await asyncio.gather(*(runtime.submit("a", ops.Message(text=str(n))) for n in range(20)))
        assert {receipt.status for receipt in receipts} == {"accepted"}
        assert runtime.open_sessions == 1
        agents = await asyncio.gather(*(runtime.open("a") for _ in range(5)))
        assert len(set(map(id, agents))) == 1


async def test_work_goes_on_by_itself_at_the_start(store: SqliteStore) -> None:
    """Every session with work is opened and drained; others are not; one that cannot be opened stops nobody."""
    for checkpoint in (with_work("a"), with_work("broken", "gone"), with_work("c")):
        await store.save(checkpoint)
    await store.save(replace(Checkpoint.empty("idle"), sequence=1, model_route="main"))
    model = CountingModel()
    async with runtime_on(store, model) as (runtime, _):
        await runtime.at_rest()
        assert model.calls == 2
        assert runtime.open_sessions == 2
        assert (await stored(store, "broken")).pending_messages != ()


async def test_idle_sessions_are_closed_and_reopened_with_nothing_lost(store: SqliteStore) -> None:
    """After a while without work the agent is gone; the next message brings it back where it stood."""
    limits = Limits(idle_seconds=30, renew_seconds=10)
    async with runtime_on(store, CountingModel(), limits) as (runtime, clock):
        await runtime.submit("a", ops.Message(text="one"), "m-1")
        await runtime.at_rest()
        await rounds(clock, 10, 2)
        assert runtime.open_sessions == 1
        clock.advance(10)
        await condition(lambda: runtime.open_sessions == 0)
        assert (await runtime.submit("a", ops.Message(text="one"), "m-1")).status == "duplicate"
        await runtime.submit("a", ops.Message(text="two"))
        await runtime.at_rest()
        entered = await journal(store, events.Message, "a")
        assert [message.text for message in entered] == ["one", "two"]


async def test_the_oldest_are_closed_first_where_there_are_too_many(store: SqliteStore) -> None:
    """Only sessions at rest; one that works stays open however many there are."""
    blocking = BlockingModel()
    limits = Limits(open_sessions=2, idle_seconds=1000, renew_seconds=10)
    async with runtime_on(store, blocking, limits) as (runtime, clock):
        await runtime.submit("busy", ops.Message(text="go"))
        await blocking.started.wait()
        for session_id in ("a", "b", "c"):
            agent = await runtime.open(session_id)
            await agent.idle()
            clock.advance(1)
        await rounds(clock, 10, 1)
        await condition(lambda: runtime.open_sessions == 2)
        assert not (await runtime.open("busy")).ended
        assert (await runtime.status("busy")).turn_id is not None
        blocking.release.set()


async def test_a_message_that_meets_an_eviction_is_not_lost(store: SqliteStore) -> None:
    """Whatever the order of close and submit, the message is accepted and answered once."""
    model = CountingModel()
    async with runtime_on(store, model, Limits(idle_seconds=0.001, renew_seconds=1)) as (runtime, clock):
        for n in range(30):
            clock.advance(1)
            for _ in range(n % 7):
                await asyncio.sleep(0)
            assert (await runtime.submit("a", ops.Message(text=str(n)), f"m-{n}")).status == "accepted"
            await runtime.at_rest()
        assert model.calls == 30


async def test_ten_thousand_known_sessions_cost_nothing(store: SqliteStore) -> None:
    """Neither tasks nor agents nor descriptors: only what is open costs."""
    sql(
        store,
        """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
        INSERT INTO sessions (session_id, sequence, save_id, version, context_epoch, context_length, event_sequence,
            created_at_ms, updated_at_ms, state, session_context, metadata, model_route)
        SELECT 's' || i, 1, 'x' || i, 1, 0, 0, 0, 0, 0, '{}', '{}', '{}', 'main' FROM n""",
    )
    tasks, objects = len(asyncio.all_tasks()), len(gc.get_objects())
    async with runtime_on(store, CountingModel()) as (runtime, _):
        assert runtime.open_sessions == 0
        assert len(asyncio.all_tasks()) == tasks + 1
        assert len(gc.get_objects()) < objects + 5_000
        await runtime.submit("s9999", ops.Message(text="hello"))
        await runtime.at_rest()
        assert runtime.open_sessions == 1


async def test_an_agent_that_fails_is_opened_again_ever_more_slowly(store: SqliteStore) -> None:
    """With work on disk: after 1, 2, 4 … seconds; a message in between opens it at once."""
    attempts: list[int] = []

    class Fails(Middleware):
        name = "fails"
        broken = True

        async def message_submit(self, context: HookContext) -> None:
            attempts.append(clock.now_ms())
            if self.broken:
                raise RuntimeError("not yet")

    hook = Fails()
    clock = FakeClock()
    runtime = Runtime(
        recipe(store, CountingModel(), clock, middleware=[hook]),
        store,
        limits=Limits(renew_seconds=10_000),
        clock=clock,
    )
    await runtime.start()
    first = clock.now_ms()
    await runtime.submit("a", ops.Message(text="hello"))
    for expected in (1, 3, 7, 15):
        await condition(lambda: clock.sleeping == 2)
        while (clock.now_ms() - first) < expected * 1000:
            clock.advance(1)
            await asyncio.sleep(0)
        await condition(lambda expected=expected: attempts[-1] - first == expected * 1000)
    hook.broken = False
    await condition(lambda: clock.sleeping == 2)
    clock.advance(60)
    await condition(lambda: runtime.open_sessions == 1)
    await runtime.at_rest()
    assert len(await journal(store, events.TurnComplete, "a")) == 1
    await runtime.aclose()


async def test_a_stuck_turn_is_taken_over_and_its_queue_goes_on(store: SqliteStore) -> None:
    """After `stuck_seconds` without progress a successor has the session; the old agent can store nothing more."""
    hangs = BlockingModel()

    class HangsOnce(CountingModel):
        async def step(self, request: Any, on_delta: Any) -> Any:
            if not hangs.calls:
                return await hangs.step(request, on_delta)
            return await super().step(request, on_delta)

    limits = Limits(renew_seconds=10)
    async with runtime_on(store, HangsOnce(), limits, stuck_seconds=60) as (runtime, clock):
        await runtime.submit("a", ops.Message(text="one"), "m-1")
        await hangs.started.wait()
        await runtime.submit("a", ops.Message(text="two"), "m-2")
        stuck = await runtime.open("a")
        await rounds(clock, 10, 5)
        assert (await runtime.open("a")) is stuck
        clock.advance(10)
        await condition(lambda: stuck.ended)
        assert isinstance(stuck.failure, errors.TurnStuck)
        with pytest.raises(errors.AgentStopped):
            await stuck.submit(ops.Message(text="three"))
        await condition(lambda: runtime.open_sessions == 1)
        await runtime.at_rest()
        records = (await store.execution_page("a")).executions
        assert [(r.submission_id, r.outcome) for r in records] == [("m-2", "completed"), ("m-1", "aborted")]


async def test_a_session_that_waits_for_a_person_is_not_stuck(store: SqliteStore) -> None:
    """However long the answer takes."""
    model = ScriptedModel([[call("c1")], "done"])
    async with runtime_on(store, model, Limits(renew_seconds=10), stuck_seconds=60, tools=[Work()]) as (runtime, clock):
        await runtime.submit("a", ops.Message(text="go"))
        await runtime.at_rest()
        agent = await runtime.open("a")
        await rounds(clock, 10, 20)
        assert not agent.ended


@pytest.mark.parametrize(("limit", "freed"), [(None, True), (600.0, False)])
async def test_a_tool_may_run_as_long_as_its_own_limit_says(
    store: SqliteStore, limit: float | None, freed: bool
) -> None:
    """Only a tool without a limit of its own can be stuck before that."""
    work = Work(hold=True, timeout_seconds=limit)
    model = ScriptedModel([[call("c1")], "done"])
    options = {"tools": [work], "approval_policy": ApprovalPolicy.ALLOW, "stuck_seconds": 60}
    async with runtime_on(store, model, Limits(renew_seconds=10), **options) as (runtime, clock):
        await runtime.submit("a", ops.Message(text="go"))
        await work.started.wait()
        agent = await runtime.open("a")
        await rounds(clock, 10, 12)
        await asyncio.sleep(0)
        assert agent.ended == freed
        work.release.set()


async def test_listeners_hear_of_every_commit_and_of_what_is_only_live(store: SqliteStore) -> None:
    """Commits by their newest sequence, in order; deltas as they come; nothing after they have left."""
    commits: list[tuple[str, int]] = []
    live: list[Event] = []
    async with runtime_on(store, CountingModel("two words")) as (runtime, _):
        leave = runtime.on_commit(lambda session_id, sequence: commits.append((session_id, sequence)))
        runtime.on_live(lambda session_id, event: live.append(event))
        await runtime.submit("a", ops.Message(text="hello"))
        await runtime.at_rest()
        heard = [sequence for _, sequence in commits]
        assert heard == sorted(heard)
        assert heard[-1] == (await store.event_page("a")).latest_sequence
        assert [event.msg.text for event in live if isinstance(event.msg, events.AssistantDelta)] == ["two ", "words"]
        leave()
        await runtime.submit("a", ops.Message(text="more"))
        await runtime.at_rest()
        assert [sequence for _, sequence in commits] == heard


async def test_status_is_told_without_opening(store: SqliteStore) -> None:
    """What a session does, waits for and has queued; None for one that is not there."""
    await store.save(with_work("asleep"))
    model = ScriptedModel([[call("c1")]])
    runtime = Runtime(recipe(store, model, FakeClock(), tools=[Work()]), store, clock=FakeClock())
    assert await runtime.status("nobody") is None
    asleep = await runtime.status("asleep")
    assert asleep is not None
    assert [message.text for message in asleep.queue] == ["hello"]
    assert runtime.open_sessions == 0
    await runtime.submit("a", ops.Message(text="go"))
    await runtime.at_rest()
    asking = await runtime.status("a")
    assert asking is not None
    assert asking.request_id is not None
    assert asking.turn_id is not None
    await runtime.aclose()


async def test_grants_are_listed_while_they_hold_and_revoked(store: SqliteStore) -> None:
    """A grant that ended by its time is not listed."""
    model = ScriptedModel([[call("c1")], "done"])
    async with runtime_on(store, model, tools=[Work()], allow_for_session_seconds=60) as (runtime, clock):
        await runtime.submit("a", ops.Message(text="go"))
        await runtime.at_rest()
        asked = await runtime.status("a")
        await runtime.submit("a", ops.ResolveApproval(request_id=asked.request_id, decision=ApproveForSession()))
        await runtime.at_rest()
        (grant,) = await runtime.grants("a")
        assert grant.tool == "work"
        clock.advance(60)
        assert await runtime.grants("a") == ()


async def test_a_session_can_be_copied_and_deleted(store: SqliteStore) -> None:
    """The copy has the conversation and goes its own way; the deleted one is gone although it was open."""
    async with runtime_on(store, CountingModel()) as (runtime, _):
        await runtime.submit("a", ops.Message(text="hello"))
        await runtime.at_rest()
        await runtime.fork("a", "b")
        assert (await stored(store, "b")).context == (await stored(store, "a")).context
        open_agent = await runtime.open("a")
        await runtime.delete("a")
        assert open_agent.ended
        assert await store.load("a") is None
        await runtime.submit("b", ops.Message(text="go on"))
        await runtime.at_rest()
        assert len((await stored(store, "b")).context) == 4
        await runtime.delete("nobody")


async def test_the_house_is_kept_although_a_chore_fails(store: SqliteStore) -> None:
    """A database that is busy for a moment ends neither eviction nor renewal."""
    renewed: list[int] = []

    async def fails_once() -> None:
        renewed.append(1)
        if len(renewed) == 1:
            raise errors.CheckpointError("busy")

    store.renew_ownership = fails_once  # type: ignore[method-assign]
    async with runtime_on(store, CountingModel(), Limits(idle_seconds=5, renew_seconds=10)) as (runtime, clock):
        await runtime.open("a")
        await runtime.at_rest()
        await rounds(clock, 10, 1)
        await condition(lambda: runtime.open_sessions == 0)
        await rounds(clock, 10, 1)
        await condition(lambda: len(renewed) == 2)


async def test_journals_are_kept_to_their_limits(store: SqliteStore) -> None:
    """Old events go once every reader has had them; the numbers go on as before."""
    limits = Limits(renew_seconds=10, prune_seconds=60, journal=JournalLimits(max_events=5))
    async with runtime_on(store, CountingModel(), limits) as (runtime, clock):
        for n in range(3):
            await runtime.submit("a", ops.Message(text=str(n)))
            await runtime.at_rest()
        latest = (await store.event_page("a")).latest_sequence
        assert await runtime.sessions_beyond_cursor("reader") == ("a",)
        await store.database.write([store.cursor_statement("reader", "a", latest)])
        assert await runtime.cursor("reader", "a") == latest
        assert await runtime.sessions_beyond_cursor("reader") == ()
        await rounds(clock, 10, 7)
        async with asyncio.timeout(30):
            while len((await store.event_page("a", limit=100)).events) > 5:
                await asyncio.sleep(0)
        assert (await store.event_page("a")).latest_sequence == latest


async def test_a_closed_runtime_takes_nothing(store: SqliteStore) -> None:
    """And leaves no task behind."""
    before = asyncio.all_tasks()
    async with runtime_on(store, CountingModel()) as (runtime, _):
        await runtime.submit("a", ops.Message(text="hello"))
    with pytest.raises(errors.AgentStopped):
        await runtime.submit("a", ops.Message(text="hello"))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
