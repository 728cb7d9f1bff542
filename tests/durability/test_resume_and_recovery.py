"""Sessions across restarts: what is stored is what happens next. Written as a stranger would, by the API alone."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime import (
    Agent,
    AgentConfig,
    ApprovalPolicy,
    Middleware,
    ModelRouter,
    SystemClock,
    Tool,
    create_agent,
    errors,
    events,
    ops,
)
from runtime.middleware import HookContext, Reject
from runtime.protocol import (
    ActiveExecution,
    ActiveModelStep,
    AssistantMessage,
    Boundary,
    Checkpoint,
    Delivery,
    Event,
    EventMsg,
    ExecutionPhase,
    PendingTool,
    QueuedMessage,
    SessionContext,
    ToolCall,
    ToolResult,
    UserMessage,
)
from runtime.store import SqliteStore
from runtime.testing import (
    ApprovalTool,
    BlockingModel,
    CountingModel,
    FailingModel,
    FakeClock,
    ScriptedModel,
)

SESSION = "s"
ROOT = Path(__file__).parents[2]
UNKNOWN = "execution interrupted; result unknown after restart"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "sessions.db")
    yield opened
    await opened.aclose()


def config(store: SqliteStore, model: Any, **options: Any) -> AgentConfig:
    return AgentConfig(models=ModelRouter("main", model), store=store, session_id=SESSION, **options)


async def message_of(agent: Agent, kind: type[EventMsg], timeout: float = 30.0) -> Any:
    """The next event of that kind; what comes before it is passed over."""
    return (await event_of(agent, kind, timeout)).msg


async def event_of(agent: Agent, kind: type[EventMsg], timeout: float = 30.0) -> Event:
    async with asyncio.timeout(timeout):
        while (event := await agent.next_event()) is not None:
            if isinstance(event.msg, kind):
                return event
    raise AssertionError(f"the stream ended without {kind.__name__}")


async def rest_of(agent: Agent, timeout: float = 30.0) -> list[EventMsg]:
    """Every event until the stream ends."""
    seen: list[EventMsg] = []
    async with asyncio.timeout(timeout):
        while (event := await agent.next_event()) is not None:
            seen.append(event.msg)
    return seen


async def stored(store: SqliteStore) -> Checkpoint:
    found = await store.load(SESSION)
    assert found is not None
    return found


async def journal(store: SqliteStore) -> list[EventMsg]:
    return [event.msg for event in (await store.event_page(SESSION, after=0, limit=1000)).events]


def running(**fields: Any) -> Checkpoint:
    """A session in which turn-1 was running when the process died."""
    active = ActiveExecution(submission_id="m-1", turn_id="turn-1", started_at_ms=1_000, **fields)
    context = (UserMessage(id="m-1", author="ann", text="do it"),)
    return replace(Checkpoint.empty(SESSION), sequence=1, model_route="main", context=context, active_execution=active)


def sql(store: SqliteStore, statement: str) -> None:
    with sqlite3.connect(store.path, timeout=5) as connection:
        connection.execute(statement)
    connection.close()


# ------------------------------------------------------------------------------------------- the fourteen of the spec


async def test_failed_message_submit_leaves_the_accepted_message_for_restart(store: SqliteStore) -> None:
    """A submit hook that fails stops the agent and loses nothing: the next start delivers the message once."""

    class FailsOnce(Middleware):
        name = "fails-once"
        calls = 0

        async def message_submit(self, context: HookContext) -> None:
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError("message submit failed")

    model, hook = CountingModel(), FailsOnce()
    agent = await create_agent(config(store, model, middleware=[hook]))
    receipt = await agent.submit(ops.Message(text="hello"))
    seen = await rest_of(agent)
    assert isinstance(seen[-1], events.Error)
    assert "message submit failed" in str(agent.failure)
    left = await stored(store)
    assert left.active_execution is None
    assert [message.id for message in left.pending_messages] == [receipt.submission_id]
    assert len(left.context) == 0

    again = await create_agent(config(store, model, middleware=[hook]))
    completed = await message_of(again, events.TurnComplete)
    assert completed.last_assistant_message == "done"
    await again.idle()
    assert (await stored(store)).pending_messages == ()
    assert model.calls == 1
    await again.aclose()


async def test_interrupted_approval_is_one_durable_terminal_transition(store: SqliteStore) -> None:
    """An interrupt of a waiting approval is stored as a whole or not at all; what was not stored is asked again."""
    tool = ApprovalTool()
    model = ScriptedModel([[ToolCall(call_id="c1", name="gated")]])
    agent = await create_agent(config(store, model, tools=[tool]))
    await agent.submit(ops.Message(text="go"))
    asked = await message_of(agent, events.ApprovalRequested)

    sql(
        store,
        "CREATE TRIGGER no_abort BEFORE INSERT ON event_journal WHEN NEW.event_kind = 'turn_aborted' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    receipt = await agent.submit(ops.Interrupt(turn_id=asked.turn_id))
    assert receipt.status == "rejected"
    await rest_of(agent, timeout=20.0)
    left = await stored(store)
    assert left.active_execution is not None
    assert left.pending_approval is not None
    assert len(left.pending_tools) == 1

    sql(store, "DROP TRIGGER no_abort")
    again = await create_agent(config(store, model, tools=[tool]))
    asked_again = await message_of(again, events.ApprovalRequested)
    assert asked_again == asked
    await again.submit(ops.Interrupt(turn_id=asked.turn_id))
    aborted = await message_of(again, events.TurnAborted)
    assert aborted.turn_id == asked.turn_id
    ended = await stored(store)
    assert ended.active_execution is None
    assert ended.active_model_step is None
    assert ended.pending_approval is None
    assert ended.pending_tools == ()
    await again.aclose()

    third = await create_agent(config(store, model, tools=[tool]))
    with pytest.raises(TimeoutError):
        await message_of(third, events.ApprovalRequested, timeout=0.1)
    assert tool.runs == []
    await third.aclose()


async def test_resumed_agent_rejects_a_checkpoint_without_its_model_route(store: SqliteStore) -> None:
    """A saved session that does not say which model it uses is refused, in these words."""
    await store.save(Checkpoint.empty(SESSION))
    with pytest.raises(errors.NoModelRoute, match="saved session has no model route"):
        await create_agent(config(store, CountingModel()))


async def test_explicit_model_route_replaces_a_saved_route_that_is_still_registered(store: SqliteStore) -> None:
    """`override_saved_model_route` is durable, also when the old route would still work."""
    a, b = CountingModel(name="model-a"), CountingModel(name="model-b")
    first = ModelRouter("a", a).register("b", b)
    agent = await create_agent(AgentConfig(models=first, store=store, session_id=SESSION))
    assert (await message_of(agent, events.SessionConfigured)).model.route == "a"
    await agent.aclose()

    second = ModelRouter("b", b).register("a", a)
    again = await create_agent(
        AgentConfig(models=second, store=store, session_id=SESSION, override_saved_model_route=True)
    )
    configured = await message_of(again, events.SessionConfigured)
    assert (configured.model.route, configured.model.name) == ("b", "model-b")
    assert (await stored(store)).model_route == "b"
    await again.aclose()


async def test_model_route_change_is_recorded_with_its_checkpoint(store: SqliteStore) -> None:
    """The route and the event that tells of it are one commit, under the id of the op."""
    models = ModelRouter("a", CountingModel()).register("b", CountingModel(name="model-b"))
    agent = await create_agent(AgentConfig(models=models, store=store, session_id=SESSION))
    receipt = await agent.submit(ops.SetModel(route="b"), "change-1")
    event = await event_of(agent, events.ModelChanged)
    assert (event.msg.route, event.submission_id, receipt.submission_id) == ("b", "change-1", "change-1")  # type: ignore[union-attr]
    assert (await stored(store)).model_route == "b"
    (newest,) = (await store.event_page(SESSION, limit=1)).events
    assert newest == event
    await agent.aclose()


async def test_new_agent_uses_its_configured_model_instead_of_global_state(store: SqliteStore) -> None:
    """State that somebody stored under a scope of his own never chooses a session's model."""
    await store.save_state("agent", "model_route", "other")
    models = ModelRouter("main", CountingModel()).register("other", CountingModel())
    agent = await create_agent(AgentConfig(models=models, store=store, session_id=SESSION))
    assert (await message_of(agent, events.SessionConfigured)).model.route == "main"
    assert (await stored(store)).model_route == "main"
    await agent.aclose()


async def test_stale_save_does_not_leapfrog_winning_checkpoint(store: SqliteStore) -> None:
    """A writer that lost the race ends, and leaves the winner's checkpoint exactly as it is."""
    agent = await create_agent(config(store, CountingModel()))
    await message_of(agent, events.SessionConfigured)
    found = await stored(store)
    item = UserMessage(id="outside", author="bob", text="from elsewhere")
    outside = replace(found, sequence=found.sequence + 1, context=(*found.context, item))
    await store.save(outside)

    receipt = await agent.submit(ops.Message(text="too late"))
    assert receipt.status == "rejected"
    seen = await rest_of(agent)
    assert isinstance(seen[-1], events.Error)
    assert seen[-1].kind == "stale"
    assert isinstance(agent.failure, errors.StaleCheckpoint)
    assert await stored(store) == outside
    with pytest.raises(errors.AgentStopped, match="owner"):
        await agent.submit(ops.Message(text="hello?"))


async def test_resumed_agent_uses_the_durable_session_context(store: SqliteStore) -> None:
    """Labels are those of the session's creation, in full; later ones are not mixed in."""
    first = SessionContext(workspace_label="alpha", origin_label="cron")
    agent = await create_agent(config(store, CountingModel(), session_context=first))
    assert (await message_of(agent, events.SessionConfigured)).context == first
    await agent.aclose()
    later = SessionContext(workspace_label="beta", user_name="eve")
    again = await create_agent(config(store, CountingModel(), session_context=later))
    assert (await message_of(again, events.SessionConfigured)).context == first
    assert (await stored(store)).session_context == first
    await again.aclose()


async def test_resumed_agent_preserves_or_explicitly_replaces_durable_metadata(store: SqliteStore) -> None:
    """Without metadata in the configuration the saved map stays; with one it is replaced as a whole."""

    class Sees(Middleware):
        name = "sees"
        metadata: Any = None

        async def session_start(self, context: HookContext) -> None:
            self.metadata = dict(context.metadata)

    saved = {"gateway.chat": {"workspace": "alpha"}}
    agent = await create_agent(config(store, CountingModel(), metadata=saved))
    await agent.aclose()

    keeps = Sees()
    agent = await create_agent(config(store, CountingModel(), middleware=[keeps]))
    assert keeps.metadata == saved
    await agent.aclose()

    other, replaces = {"gateway.chat": {"workspace": "beta"}}, Sees()
    agent = await create_agent(config(store, CountingModel(), middleware=[replaces], metadata=other))
    assert replaces.metadata == other
    assert (await stored(store)).metadata == other
    await agent.aclose()


async def test_resume_request_carries_the_target_session_context(store: SqliteStore) -> None:
    """A request to switch tells the target's labels, also where its model route is unknown here."""
    labels = SessionContext(tenant_id="t", user_id="u", workspace_label="gamma")
    target = replace(Checkpoint.empty("target"), session_context=labels, model_route="unknown here")
    await store.save(target)
    agent = await create_agent(config(store, CountingModel()))
    await agent.submit(ops.ResumeSession(session_id="target"), "switch-1")
    event = await event_of(agent, events.SessionResumeRequested)
    assert event.submission_id == "switch-1"
    assert event.sequence is None
    assert event.msg == events.SessionResumeRequested(session_id="target", context=labels)
    assert not any(isinstance(msg, events.SessionResumeRequested) for msg in await journal(store))
    await agent.submit(ops.ResumeSession(session_id="nowhere"), "switch-2")
    assert (await event_of(agent, events.Warning)).submission_id == "switch-2"
    await agent.aclose()


async def test_zero_replay_mode_emits_uncertain_tool_recovery_as_individual_events(store: SqliteStore) -> None:
    """A call that may have run is reported as unknown and never run again; what waited gets a turn of its own."""
    tool = ApprovalTool("write_file")
    call = ToolCall(call_id="call-1", name="write_file", arguments={"path": "a"})
    steer = QueuedMessage(id="m-2", boundary=Boundary.steer("turn-1"), author="ann", text="and b")
    await store.save(replace(running(), pending_tools=(PendingTool(call=call),), pending_messages=(steer,)))

    model = FailingModel(RuntimeError("no model here"))
    agent = await create_agent(config(store, model, tools=[tool], initial_replay_batches=0))
    first = await agent.next_event()
    assert first is not None
    assert isinstance(first.msg, events.SessionConfigured)
    end = await message_of(agent, events.ToolCallEnd)
    assert (end.turn_id, end.call_id, end.is_error, end.output) == ("turn-1", "call-1", True, UNKNOWN)
    entered = await message_of(agent, events.Message)
    assert (entered.delivery, entered.text) == ("queue", "and b")
    aborted = await message_of(agent, events.TurnAborted)
    assert aborted.turn_id == entered.turn_id
    assert aborted.outcome == "failed"
    await agent.idle()

    left = await stored(store)
    assert left.idle
    assert left.pending_messages == left.pending_tools == ()
    assert left.context[1] == ToolResult(
        call_id="call-1", name="write_file", output=UNKNOWN, is_error=True, outcome="unknown"
    )
    newest, oldest = (await store.execution_page(SESSION, limit=10)).executions
    assert (oldest.turn_id, oldest.outcome) == ("turn-1", "aborted")
    assert (oldest.tool_calls, oldest.failed_tool_calls) == (1, 1)
    assert newest.outcome == "failed"
    assert left.execution_stats.aborted_run_count == 1
    assert not any(isinstance(msg, events.SessionHistory) for msg in await journal(store))
    assert tool.runs == []
    await agent.aclose()


async def test_restart_resolves_a_durable_turn_completion_instead_of_aborting_it(store: SqliteStore) -> None:
    """An answer that is stored is delivered after a restart, without asking a model."""
    model = FailingModel(RuntimeError("must not be asked"))
    await store.save(running(phase=ExecutionPhase.completion("the answer"), next_model_step=1))
    agent = await create_agent(config(store, model))
    completed = await message_of(agent, events.TurnComplete)
    assert (completed.turn_id, completed.last_assistant_message) == ("turn-1", "the answer")
    await agent.idle()
    stats = (await stored(store)).execution_stats
    assert (stats.run_count, stats.aborted_run_count, stats.failed_run_count) == (1, 0, 0)
    assert model.calls == 0
    await agent.aclose()


async def test_restart_resumes_the_same_model_cursor(store: SqliteStore) -> None:
    """Nothing was in flight: the same turn goes on at the step where it stood."""
    await store.save(running(next_model_step=3))
    agent = await create_agent(config(store, CountingModel()))
    started = await message_of(agent, events.ModelStepStarted)
    assert (started.turn_id, started.step_index) == ("turn-1", 3)
    assert (await message_of(agent, events.TurnComplete)).turn_id == "turn-1"
    assert (await stored(store)).execution_stats.aborted_run_count == 0
    await agent.aclose()


async def test_restart_closes_an_active_model_step_with_the_recovery_checkpoint(store: SqliteStore) -> None:
    """A step that a crash cut off is closed by the start-up transaction, and so is its turn."""
    step = ActiveModelStep(model_step_id="step-1", step_index=0, started_at_ms=1_000)
    await store.save(replace(running(), active_model_step=step))
    agent = await create_agent(config(store, FailingModel(RuntimeError("must not be asked"))))
    first = [await agent.next_event(timeout=30), await agent.next_event(timeout=30), await agent.next_event(timeout=30)]
    assert [event.kind for event in first if event] == ["session_configured", "model_step_completed", "turn_aborted"]
    closed = first[1].msg if first[1] else None
    assert isinstance(closed, events.ModelStepCompleted)
    assert (closed.model_step_id, closed.outcome) == ("step-1", "interrupted")
    left = await stored(store)
    assert left.active_execution is None
    assert left.active_model_step is None
    await agent.aclose()


# --------------------------------------------------------------------------------------------- and of the same kind


async def test_a_steer_is_durable_while_the_model_call_is_blocked(store: SqliteStore) -> None:
    """The receipt of a steer means that it is stored, however long the model takes; then it enters the same turn."""
    model = BlockingModel()
    agent = await create_agent(config(store, model))
    await agent.submit(ops.Message(text="go"))
    turn = await message_of(agent, events.TurnStarted)
    await model.started.wait()
    receipt = await agent.submit(ops.Message(text="also this"))
    assert (receipt.status, receipt.disposition) == ("accepted", "steer")
    waiting = (await stored(store)).pending_messages
    assert [(m.text, m.boundary) for m in waiting] == [("also this", Boundary.steer(turn.turn_id))]
    model.release.set()
    entered = await message_of(agent, events.Message)
    while entered.delivery != "steer":
        entered = await message_of(agent, events.Message)
    assert entered.turn_id == turn.turn_id
    assert (await message_of(agent, events.TurnComplete)).turn_id == turn.turn_id
    assert model.calls == 2
    await agent.aclose()


async def test_a_queued_message_starts_exactly_once_after_completion(store: SqliteStore) -> None:
    """A queued message waits for the end of the turn, then has one turn of its own."""
    model = BlockingModel()
    agent = await create_agent(config(store, model))
    await agent.submit(ops.Message(text="first"))
    await model.started.wait()
    receipt = await agent.submit(ops.Message(text="second", delivery=Delivery.QUEUE), "m-2")
    assert (receipt.disposition, receipt.position) == ("queue", 1)
    model.release.set()
    await agent.idle()
    await agent.aclose()
    again = await create_agent(config(store, model))
    await again.idle()
    await again.aclose()
    told = await journal(store)
    starts = [msg.message_id for msg in told if isinstance(msg, events.TurnStarted)]
    assert starts == [receipt_id for receipt_id in starts if receipt_id != "m-2"] + ["m-2"]
    order = [type(msg) for msg in told if isinstance(msg, events.TurnStarted | events.TurnComplete)]
    assert order == [events.TurnStarted, events.TurnComplete] * 2
    assert model.calls == 2


async def test_refilled_rejected_input_starves_neither_the_model_nor_completion(store: SqliteStore) -> None:
    """Somebody whose every message is rejected, and who writes on and on, can hold up no turn."""

    class RejectsEve(Middleware):
        name = "rejects-eve"
        agent: Agent | None = None
        rejected = 0

        async def message_submit(self, context: HookContext) -> Reject | None:
            assert context.message is not None
            if context.message.author != "eve":
                return None
            self.rejected += 1
            self.write_on()
            return Reject("not you")

        def write_on(self) -> None:
            assert self.agent is not None
            writing.append(asyncio.ensure_future(self.agent.submit(ops.Message(text="me!", author="eve"))))

    writing: list[asyncio.Future[Any]] = []
    hook = RejectsEve()
    model = ScriptedModel([[ToolCall(call_id="c1", name="gated")], "the answer"])
    policy = ApprovalPolicy("allow")
    tool = CountingTool()
    agent = await create_agent(config(store, model, middleware=[hook], tools=[tool], approval_policy=policy))
    hook.agent = agent
    await agent.submit(ops.Message(text="work", author="ann"))
    hook.write_on()
    completed = await message_of(agent, events.TurnComplete)
    assert completed.last_assistant_message == "the answer"
    assert hook.rejected >= 1
    await agent.aclose()
    await asyncio.gather(*writing, return_exceptions=True)
    texts = [item.text for item in (await stored(store)).context if isinstance(item, UserMessage)]
    assert texts == ["work"]


class CountingTool(Tool):
    """Counts its runs."""

    name = "gated"
    parameters = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, arguments: Any, context: Any) -> str:
        self.runs += 1
        return "ok"


async def test_a_rejected_prompt_leaves_no_trace_and_does_not_wedge_the_next_turn(store: SqliteStore) -> None:
    """What a submit hook rejects never reaches the context, also not that of the next turn."""

    class RejectsSecrets(Middleware):
        name = "rejects-secrets"

        async def message_submit(self, context: HookContext) -> Reject | None:
            return Reject("no secrets") if context.message and "secret" in context.message.text else None

    model = ScriptedModel(["fine"])
    agent = await create_agent(config(store, model, middleware=[RejectsSecrets()]))
    await agent.submit(ops.Message(text="my secret"))
    started = await message_of(agent, events.TurnStarted)
    aborted = await message_of(agent, events.TurnAborted)
    assert (aborted.turn_id, aborted.reason) == (started.turn_id, "no secrets")
    assert len((await stored(store)).context) == 0
    await agent.submit(ops.Message(text="hello"))
    assert (await message_of(agent, events.TurnComplete)).last_assistant_message == "fine"
    assert [item.text for item in model.requests[0].context if isinstance(item, UserMessage)] == ["hello"]
    left = await stored(store)
    assert left.title == "hello"
    assert left.pending_messages == ()
    await agent.aclose()


async def test_a_failed_start_keeps_the_whole_queue(store: SqliteStore) -> None:
    """Whatever makes a start fail, every waiting message is still there, in order, and is answered later."""
    waiting = tuple(
        QueuedMessage(id=f"m-{n}", boundary=Boundary.queue(), author="ann", text=f"text {n}") for n in range(3)
    )
    before = replace(Checkpoint.empty(SESSION), sequence=1, model_route="gone", pending_messages=waiting)
    await store.save(before)
    with pytest.raises(errors.UnknownRoute, match="gone"):
        await create_agent(config(store, CountingModel()))
    assert await stored(store) == before

    sql(
        store,
        "CREATE TRIGGER no_start BEFORE INSERT ON event_journal WHEN NEW.event_kind = 'session_configured' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    with pytest.raises(errors.CheckpointError):
        await create_agent(config(store, CountingModel(), override_saved_model_route=True))
    assert await stored(store) == before
    sql(store, "DROP TRIGGER no_start")

    model = CountingModel()
    agent = await create_agent(config(store, model, override_saved_model_route=True))
    await agent.idle()
    await agent.aclose()
    assert model.calls == 3
    started = [msg.message_id for msg in await journal(store) if isinstance(msg, events.TurnStarted)]
    assert started == ["m-0", "m-1", "m-2"]


async def test_an_admission_receipt_survives_a_restart(store: SqliteStore) -> None:
    """The same submission is a duplicate for ever: after the turn, after a restart, after its removal."""
    model = CountingModel()
    agent = await create_agent(config(store, model))
    first = await agent.submit(ops.Message(text="once"), "m-1")
    assert (first.status, first.disposition) == ("accepted", "turn")
    await agent.idle()
    assert (await agent.submit(ops.Message(text="once"), "m-1")).status == "duplicate"
    await agent.aclose()
    again = await create_agent(config(store, model))
    assert (await again.submit(ops.Message(text="once"), "m-1")).status == "duplicate"
    kept = await store.receipt("m-1")
    assert kept is not None
    assert kept.status == "accepted"
    await again.idle()
    await again.aclose()
    assert model.calls == 1


async def test_a_retry_keeps_the_index_and_changes_the_id(store: SqliteStore) -> None:
    """A model call that failed for a moment is asked again as the same step, under another id."""
    clock = FakeClock()
    model = ScriptedModel([errors.ModelUnavailable("down"), errors.ModelRateLimited("slow"), "up again"])
    agent = await create_agent(config(store, model, clock=clock))
    await agent.submit(ops.Message(text="hello"))
    for _ in range(2):
        closed = await message_of(agent, events.ModelStepCompleted)
        assert closed.outcome == "retrying"
        await condition(lambda: clock.sleeping == 1)
        clock.advance(3.2)
    completed = await message_of(agent, events.TurnComplete)
    assert completed.last_assistant_message == "up again"
    starts = [msg for msg in await journal(store) if isinstance(msg, events.ModelStepStarted)]
    assert [start.step_index for start in starts] == [0, 0, 0]
    assert len({start.model_step_id for start in starts}) == 3
    await agent.aclose()


async def condition(holds: Any) -> None:
    """Return once it holds; the clock of the test stands still meanwhile."""
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)


async def test_an_interrupt_ends_a_back_off(store: SqliteStore) -> None:
    """A turn that waits to ask again can be stopped at once; the clock does not have to move."""
    clock = FakeClock()
    model = FailingModel(errors.ModelUnavailable("down", retry_after=3600.0))
    agent = await create_agent(config(store, model, clock=clock))
    await agent.submit(ops.Message(text="hello"))
    turn = await message_of(agent, events.TurnStarted)
    assert (await message_of(agent, events.ModelStepCompleted)).outcome == "retrying"
    await agent.submit(ops.Interrupt(turn_id=turn.turn_id))
    aborted = await message_of(agent, events.TurnAborted, timeout=20.0)
    assert (aborted.turn_id, aborted.outcome) == (turn.turn_id, "aborted")
    assert model.calls == 1
    await agent.aclose()


async def test_an_event_that_cannot_be_stored_rolls_back_its_checkpoint(store: SqliteStore) -> None:
    """Checkpoint, context and events are one transaction: without the event nothing of it is stored."""
    model = CountingModel()
    agent = await create_agent(config(store, model))
    sql(
        store,
        "CREATE TRIGGER no_turn BEFORE INSERT ON event_journal WHEN NEW.event_kind = 'turn_started' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    receipt = await agent.submit(ops.Message(text="hello"))
    assert receipt.status == "accepted"
    await rest_of(agent)
    left = await stored(store)
    assert left.active_execution is None
    assert (len(left.context), left.title) == (0, None)
    assert [message.id for message in left.pending_messages] == [receipt.submission_id]
    assert model.calls == 0
    sql(store, "DROP TRIGGER no_turn")
    again = await create_agent(config(store, model))
    assert (await message_of(again, events.TurnComplete)).last_assistant_message == "done"
    await again.aclose()


async def test_delete_removes_the_whole_subtree(store: SqliteStore) -> None:
    """Nothing of a deleted session stays but its receipts, and another session is untouched."""
    agent = await create_agent(config(store, CountingModel()))
    await agent.submit(ops.Message(text="hello"), "m-1")
    await agent.idle()
    await agent.aclose()
    other = replace(Checkpoint.empty("other"), sequence=1, model_route="main")
    await store.save(other)
    await store.delete(SESSION)
    assert await store.load(SESSION) is None
    assert await store.load("other") == other
    assert (await store.event_page(SESSION)).events == ()
    assert (await store.execution_page(SESSION)).executions == ()
    assert await store.receipt("m-1") is not None
    with sqlite3.connect(store.path) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if "session_id" in [column[1] for column in connection.execute(f"PRAGMA table_info({name})")]
        ]
        left = {
            name
            for name in tables
            if connection.execute(f"SELECT 1 FROM {name} WHERE session_id = ?", (SESSION,)).fetchone()
        }
    connection.close()
    assert "context_items" in tables
    assert left == {"receipts"}


# ------------------------------------------------------------------------------- two agents, and models that misbehave


@pytest.mark.parametrize("same_store", [True, False])
async def test_a_newer_agent_of_the_same_process_fences_the_older_one(store: SqliteStore, same_store: bool) -> None:
    """An agent that was dropped without closing it does not hold its session: its next save fails, and it ends."""
    older = await create_agent(config(store, CountingModel()))
    second = store if same_store else await SqliteStore.open(store.path)
    newer = await create_agent(config(second, CountingModel("newer")))
    receipt = await older.submit(ops.Message(text="from the older one"))
    assert receipt.status == "rejected"
    last = (await rest_of(older))[-1]
    assert isinstance(last, events.Error)
    assert (last.kind, last.message) == ("stale", "Another owner has this session.")
    await newer.submit(ops.Message(text="hello"))
    assert (await message_of(newer, events.TurnComplete)).last_assistant_message == "newer"
    await newer.aclose()
    if not same_store:
        await second.aclose()


HOLDER = """
import asyncio, sys
from runtime import AgentConfig, ModelRouter, create_agent
from runtime.store import SqliteStore
from runtime.testing import CountingModel

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await create_agent(AgentConfig(models=ModelRouter("main", CountingModel()), store=store, session_id="s"))
    print("held", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_another_living_process_is_refused_and_a_killed_one_is_replaced_at_once(store: SqliteStore) -> None:
    """Two processes never run one session: the second is told who has it, until the first is dead."""
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(store.path), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        with pytest.raises(errors.StaleCheckpoint, match=f"owned by process {holder.pid} on host"):
            await create_agent(config(store, CountingModel()))
    finally:
        holder.kill()
        await holder.wait()
    agent = await create_agent(config(store, CountingModel()))
    await agent.submit(ops.Message(text="hello"))
    assert (await message_of(agent, events.TurnComplete)).last_assistant_message == "done"
    await agent.aclose()


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyError("x"), ValueError()])
async def test_a_model_that_breaks_fails_the_turn_and_not_the_session(store: SqliteStore, error: Exception) -> None:
    """An exception that is no ModelError fails the turn, in a sentence with a reference; the next turn runs."""
    model = ScriptedModel([error, "better now"])
    agent = await create_agent(config(store, model))
    await agent.submit(ops.Message(text="hello"))
    complaint = await message_of(agent, events.Error)
    assert (complaint.kind, complaint.retryable) == ("provider", False)
    assert complaint.message.endswith(".")
    assert "bug" not in complaint.message
    assert complaint.reference
    aborted = await message_of(agent, events.TurnAborted)
    assert (aborted.outcome, aborted.reason) == ("failed", complaint.message)
    await agent.submit(ops.Message(text="again"))
    assert (await message_of(agent, events.TurnComplete)).last_assistant_message == "better now"
    assert (await stored(store)).execution_stats.failed_run_count == 1
    await agent.aclose()


async def test_a_model_call_that_cancels_itself_is_asked_again(store: SqliteStore) -> None:
    """A cancellation that did not come from us is a lost line, not the end of the session."""

    class CancelsOnce(CountingModel):
        async def step(self, request: Any, on_delta: Any) -> Any:
            if self.calls == 0:
                self.calls += 1
                raise asyncio.CancelledError
            return await super().step(request, on_delta)

    model = CancelsOnce()
    agent = await create_agent(config(store, model, clock=EagerClock()))
    await agent.submit(ops.Message(text="hello"))
    assert (await message_of(agent, events.TurnComplete)).last_assistant_message == "done"
    assert model.calls == 2
    await agent.aclose()


class EagerClock(SystemClock):
    """Nothing takes time."""

    def __init__(self) -> None:
        self._passed = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._passed

    async def sleep(self, seconds: float) -> None:
        self._passed += int(seconds * 1000) + 1
        await asyncio.sleep(0)


async def test_every_retry_is_used_up_before_the_turn_fails(store: SqliteStore) -> None:
    """Five retries, then one terminal commit that says why, with the kind that the model's error has."""
    model = FailingModel(errors.ModelRateLimited("429"))
    agent = await create_agent(config(store, model, clock=EagerClock()))
    await agent.submit(ops.Message(text="hello"))
    complaint = await message_of(agent, events.Error)
    assert (complaint.kind, complaint.retryable) == ("rate_limit", True)
    assert (await message_of(agent, events.TurnAborted)).outcome == "failed"
    assert model.calls == 6
    await agent.aclose()


async def test_a_closed_agent_acknowledges_nothing(store: SqliteStore) -> None:
    """A submit after the end raises, and stores nothing."""
    agent = await create_agent(config(store, CountingModel()))
    await agent.aclose()
    before = await stored(store)
    with pytest.raises(errors.AgentStopped):
        await agent.submit(ops.Message(text="hello"))
    assert await stored(store) == before
    assert await agent.next_event() is not None
    assert await agent.next_event() is None
    assert await agent.next_event() is None


async def test_a_start_that_changes_nothing_writes_nothing(store: SqliteStore) -> None:
    """Opening and closing a session that is at rest leaves its checkpoint and its journal as they were."""
    agent = await create_agent(config(store, CountingModel()))
    await agent.submit(ops.Message(text="hello"))
    await agent.idle()
    await agent.aclose()
    before, told = await stored(store), await journal(store)
    again = await create_agent(config(store, CountingModel()))
    first = await again.next_event(timeout=30)
    assert first is not None
    assert isinstance(first.msg, events.SessionConfigured)
    assert first.sequence is None
    history = await again.next_event(timeout=30)
    assert history is not None
    assert isinstance(history.msg, events.SessionHistory)
    assert answers(history.msg.events) == ["done"]
    await again.aclose()
    assert (await stored(store), await journal(store)) == (before, told)


def answers(batch: Sequence[Event]) -> list[str]:
    """The answers of the model among events."""
    return [event.msg.text for event in batch if isinstance(event.msg, events.AssistantMessage)]


async def test_the_context_is_valid_for_a_provider_after_every_kind_of_end(store: SqliteStore) -> None:
    """Every call has exactly one result in the context, also one that a stop cut off."""
    tool = ApprovalTool()
    calls = [ToolCall(call_id="c1", name="gated"), ToolCall(call_id="c2", name="nobody")]
    agent = await create_agent(config(store, ScriptedModel([calls]), tools=[tool]))
    await agent.submit(ops.Message(text="go"))
    asked = await message_of(agent, events.ApprovalRequested)
    await agent.submit(ops.Interrupt(turn_id=asked.turn_id))
    await message_of(agent, events.TurnAborted)
    context = (await stored(store)).context
    asked_for = [
        p.call_id for i in context if isinstance(i, AssistantMessage) for p in i.parts if hasattr(p, "call_id")
    ]
    given = [item.call_id for item in context if isinstance(item, ToolResult)]
    assert sorted(asked_for) == sorted(given) == ["c1", "c2"]
    await agent.aclose()
