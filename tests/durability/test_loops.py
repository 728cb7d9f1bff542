"""Bounded loops across failures and restarts. Written as a stranger would, by the API alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from runtime import Agent, AgentConfig, ApprovalPolicy, Middleware, ModelRouter, Runtime, create_agent, events, ops
from runtime.errors import CheckpointError, ConfigurationError, ModelRefused, ModelUnavailable
from runtime.loops import (
    LOOP_STATE_KEY,
    Cancelled,
    Failed,
    LoopConfig,
    LoopControl,
    LoopError,
    LoopSession,
    LoopState,
    LoopStatus,
    Ok,
    finish,
    read_loop_state,
    run_loop,
)
from runtime.middleware import HookContext, Reject, Stop
from runtime.models.base import ModelReply, ModelRequest
from runtime.protocol import (
    ActiveExecution,
    ActiveModelStep,
    Approve,
    Checkpoint,
    Delivery,
    PendingTool,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from runtime.store import SqliteStore
from runtime.testing import (
    ApprovalTool,
    BlockingModel,
    CountingModel,
    FailingModel,
    FakeClock,
    FaultyStore,
    ScriptedModel,
)
from tests.support.sessions import Work, call, condition, journal, seen, sql, stored

SESSION = "s"
NOT_ADMITTED = "Session checkpoint failed; execution not admitted"
SUCCESS = {LoopStatus.COMPLETED, LoopStatus.STOPPED, LoopStatus.BUDGET_EXHAUSTED}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "sessions.db")
    yield opened
    await opened.aclose()


@pytest.fixture
async def start(store: SqliteStore) -> AsyncIterator[Any]:
    """Makes agents on the one session, and closes what is left of them."""
    made: list[Agent] = []

    async def one(model: Any, on: Any = None, **options: Any) -> Agent:
        router = ModelRouter("main", model)
        made.append(await create_agent(AgentConfig(models=router, store=on or store, session_id=SESSION, **options)))
        return made[-1]

    yield one
    for agent in made:
        await agent.aclose()


class Hook(Middleware):
    """Calls what the test wants after a round, with what the hook was told."""

    name = "hook"

    def __init__(self, after: Callable[[HookContext], Any]) -> None:
        self.after = after
        self.rounds: list[HookContext] = []

    async def post_round(self, context: HookContext) -> Any:
        """Note it, and do it."""
        self.rounds.append(context)
        return await self.after(context)


class EndlessModel:
    """Asks for a tool every time, and never answers."""

    name = "endless"
    context_window = 100_000

    def __init__(self) -> None:
        self.calls = 0

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        """One more call."""
        self.calls += 1
        return ModelReply(parts=(call("c", n=self.calls),), usage=Usage(input_tokens=1), end_turn=False)


class Numbering:
    """Answers with the number of the prompt, so that no two iterations are alike."""

    name = "numbering"
    context_window = 100_000

    def __init__(self, *, tool: str | None = None) -> None:
        self.calls = 0
        self.tool = tool

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        """The tool first, if there is one; then the number."""
        self.calls += 1
        asked = sum(isinstance(item, UserMessage) for item in request.context)
        usage = Usage(input_tokens=10)
        if self.tool is not None and not isinstance(request.context[-1], ToolResult):
            return ModelReply(parts=(call(f"c{asked}", self.tool),), usage=usage, end_turn=False)
        return ModelReply(parts=(TextPart(text=f"answer {asked}"),), usage=usage)


def counters(session: Any) -> tuple[int, int, int]:
    state = read_loop_state(session)
    assert state is not None
    return state.iterations_started, state.iterations_completed, state.rounds_started


def status(session: Any) -> LoopStatus:
    state = read_loop_state(session)
    assert state is not None
    return state.status


async def ends(store: Any) -> list[events.LoopEnded]:
    return await journal(store, events.LoopEnded)


async def completions(store: Any) -> list[events.LoopEnded]:
    """Events that publish a success."""
    return [end for end in await ends(store) if LoopStatus(end.status) in SUCCESS]


async def same_on_disk(store: Any, agent: Agent) -> Checkpoint:
    """The stored checkpoint, which is equal to the agent's."""
    on_disk = await stored(store)
    assert on_disk == agent.checkpoint
    return on_disk


# ------------------------------------------------------------------------------------------- the three of the spec


async def test_counted_stopped_after_round_failure_persists_both_failure_snapshots(
    store: SqliteStore, start: Any
) -> None:
    """Stopped is in memory and on disk before the hook runs; the hook's failure undoes it in both, counters kept."""
    model, control = BlockingModel(), LoopControl()

    async def after(context: HookContext) -> None:
        assert status(agent) == LoopStatus.STOPPED
        assert status(await stored(store)) == LoopStatus.STOPPED
        raise RuntimeError("synthetic stopped post-round failure")

    agent = await start(model, middleware=[Hook(after)])
    running = asyncio.create_task(run_loop(agent, LoopConfig("go", 3, 3), control))
    await model.started.wait()
    control.stop()
    model.release.set()
    with pytest.raises(LoopError, match="synthetic stopped post-round failure"):
        await running
    assert model.calls == 1
    assert await completions(store) == []
    assert [(end.status, end.iterations_completed) for end in await ends(store)] == [("Failed", 1)]
    for session in (agent, agent.checkpoint, await stored(store), await LoopSession.load(store, SESSION)):
        assert (status(session), counters(session)) == (LoopStatus.FAILED, (1, 1, 1))
    assert agent.checkpoint.runtime_status == (await stored(store)).runtime_status == "failed"
    before = await same_on_disk(store, agent)
    await agent.submit(ops.EditQueued(message_id="none", text="a further checkpoint"))
    assert (await same_on_disk(store, agent)).sequence > before.sequence
    session = await LoopSession.load(store, SESSION)
    await session.checkpoint()
    assert (await LoopSession.load(store, SESSION)).loop_state == session.loop_state


BOUNDARIES = [
    (LoopStatus.STOPPED, "running"),
    (LoopStatus.STOPPED, "completed"),
    (LoopStatus.BUDGET_EXHAUSTED, "running"),
    (LoopStatus.BUDGET_EXHAUSTED, "completed"),
    (LoopStatus.COMPLETED, "completed"),
]


@pytest.mark.parametrize("commit_first", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize(("ending", "runtime_status"), BOUNDARIES)
async def test_counted_bounded_checkpoint_failure_matrix_never_publishes_success(
    store: SqliteStore, start: Any, ending: LoopStatus, runtime_status: str, commit_first: bool
) -> None:
    """A save on which the success stands reports an error, kept or not: the loop failed, and nothing else is told."""
    faulty = FaultyStore(
        store,
        commit_first=commit_first,
        match=lambda saved: (
            saved.loop_state is not None and (status(saved), saved.runtime_status) == (ending, runtime_status)
        ),
        error=CheckpointError("synthetic bounded checkpoint failure"),
    )
    control = LoopControl()

    async def stop(context: HookContext) -> None:
        control.stop()

    stops = ending == LoopStatus.STOPPED
    model = EndlessModel() if ending == LoopStatus.BUDGET_EXHAUSTED else CountingModel()
    agent = await start(
        model,
        on=faulty,
        middleware=[Hook(stop)] if stops else [],
        tools=[Work()],
        approval_policy=ApprovalPolicy.ALLOW,
    )
    with pytest.raises(LoopError, match=NOT_ADMITTED) as failure:
        await run_loop(agent, LoopConfig("go", 2, 4) if stops else LoopConfig("go", 1, 1), control)
    assert faulty.fired
    assert "synthetic" in repr(failure.value.__cause__)
    assert model.calls == 1
    assert await completions(store) == []
    completed = 0 if ending == LoopStatus.BUDGET_EXHAUSTED else 1
    assert (status(agent), counters(agent)) == (LoopStatus.FAILED, (1, completed, 1))
    assert agent.checkpoint.runtime_status == "failed"
    await agent.submit(ops.EditQueued(message_id="none", text="the next checkpoint"))
    on_disk = await same_on_disk(store, agent)
    assert (status(on_disk), on_disk.runtime_status) == (LoopStatus.FAILED, "failed")
    assert [(end.status, end.error) for end in await ends(store)] == [("Failed", NOT_ADMITTED)]


RESULTS = {"ok": Ok(), "failed": Failed("synthetic finalizer failure"), "cancelled": Cancelled()}
S = LoopStatus
OUTCOMES = {
    S.RUNNING: (S.RECOVERY_UNSUPPORTED, S.FAILED, S.CANCELLED),
    S.FINALIZING: (S.RECOVERY_UNSUPPORTED, S.FAILED, S.CANCELLED),
    S.COMPLETED: (S.COMPLETED, S.FAILED, S.CANCELLED),
    S.STOPPED: (S.STOPPED, S.FAILED, S.CANCELLED),
    S.BUDGET_EXHAUSTED: (S.BUDGET_EXHAUSTED, S.FAILED, S.CANCELLED),
    S.CANCELLED: (S.CANCELLED, S.CANCELLED, S.CANCELLED),
    S.FAILED: (S.FAILED, S.FAILED, S.CANCELLED),
    S.RECOVERY_UNSUPPORTED: (S.RECOVERY_UNSUPPORTED, S.RECOVERY_UNSUPPORTED, S.CANCELLED),
}


def by_hand(status: LoopStatus, **fields: Any) -> LoopState:
    """A loop as a stranger would write it down."""
    done = status in (LoopStatus.FINALIZING, LoopStatus.COMPLETED)
    counts = (3, 3, 3) if done else (2, 1, 2)
    return LoopState(
        status=status,
        generation=7,
        owner_execution_id="gone",
        revision=4,
        iterations_started=counts[0],
        iterations_completed=counts[1],
        rounds_started=counts[2],
        max_iterations=3,
        max_rounds=6,
        prompt="go",
        **fields,
    )


async def suspended(store: Any, state: LoopState, runtime_status: Any = "suspended") -> LoopSession:
    """A stored session whose owner is gone."""
    await store.save(replace(Checkpoint.empty(SESSION), sequence=1, model_route="main"))
    session = await LoopSession.load(store, SESSION)
    session.runtime_status = runtime_status
    session.loop_state = state
    await session.checkpoint()
    return session


def serialised(session: LoopSession) -> str:
    return repr((session.session_id, session.runtime_status, session.loop_state, vars(session)["_checkpoint"]))


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("before", list(LoopStatus))
async def test_counted_finish_outcome_matrix_preserves_counters_and_generation_fence(
    store: SqliteStore, before: LoopStatus, result: str
) -> None:
    """A foreign generation changes nothing; the right one writes the outcome of the table, and only that."""
    session = await suspended(store, by_hand(before))
    config, outcome = LoopConfig("go", 3, 6), RESULTS[result]
    untouched = serialised(session)
    with pytest.raises(LoopError, match="generation changed"):
        await finish(session, config, 6, outcome)
    assert serialised(session) == untouched
    assert serialised(await LoopSession.load(store, SESSION)) == untouched

    old = read_loop_state(session)
    assert old is not None
    await finish(session, config, 7, outcome)
    new = read_loop_state(session)
    assert new is not None
    assert new.status == OUTCOMES[before][list(RESULTS).index(result)]
    assert (counters(session), new.generation) == ((3, 3, 3) if old.iterations_started == 3 else (2, 1, 2), 7)
    assert new.revision > old.revision
    assert session.runtime_status == "suspended"
    if result == "failed" and new.status == LoopStatus.FAILED:
        assert new.error == "synthetic finalizer failure"
    assert serialised(await LoopSession.load(store, SESSION)) == serialised(session)


# ------------------------------------------------------------------------------------------- finish, reading, refusing


@pytest.mark.parametrize(
    ("before", "after"), [(S.RUNNING, S.FAILED), (S.FINALIZING, S.COMPLETED), (S.STOPPED, S.STOPPED)]
)
async def test_ok_of_a_runtime_that_is_not_suspended(store: SqliteStore, before: Any, after: Any) -> None:
    """A run that ended in order has completed what was finalizing, and failed what was still running."""
    session = await suspended(store, by_hand(before), "running")
    assert (await finish(session, LoopConfig("go", 3, 6), 7, Ok())).status == after
    assert session.runtime_status == "running"


async def test_a_finisher_that_cannot_store_leaves_the_session_as_it_was(store: SqliteStore) -> None:
    """An error of the store is told, and memory is as before; an error after the commit is no loss."""
    await suspended(store, by_hand(LoopStatus.RUNNING))
    faulty = FaultyStore(store)
    session = await LoopSession.load(faulty, SESSION)
    before = serialised(session)
    with pytest.raises(CheckpointError):
        await finish(session, LoopConfig("go", 3, 6), 7, Cancelled())
    assert serialised(session) == before == serialised(await LoopSession.load(store, SESSION))
    kept = await LoopSession.load(FaultyStore(store, commit_first=True), SESSION)
    await finish(kept, LoopConfig("go", 3, 6), 7, Cancelled())
    assert serialised(kept) == serialised(await LoopSession.load(store, SESSION))


async def test_there_is_nothing_to_finish_without_a_loop(store: SqliteStore) -> None:
    """A session that never had a loop is not given one; a session that is not there is an error."""
    await store.save(replace(Checkpoint.empty(SESSION), sequence=1))
    session = await LoopSession.load(store, SESSION)
    assert read_loop_state(session) is None
    with pytest.raises(LoopError, match="no loop"):
        await finish(session, LoopConfig("go", 3, 6), 1, Ok())
    with pytest.raises(CheckpointError, match="does not exist"):
        await LoopSession.load(store, "elsewhere")


MALFORMED: list[Any] = [
    [],
    "Running",
    {"generation": 1},
    {"status": "Sleeping"},
    {"status": "Running", "generation": "one"},
    {"status": "Running", "iterations_completed": 2},
    {"status": "Running", "revision": -1},
]


@pytest.mark.parametrize("state", MALFORMED, ids=str)
async def test_a_malformed_state_is_an_error_and_no_loop(store: SqliteStore, start: Any, state: Any) -> None:
    """Reading says what is wrong; the session opens all the same, and a new loop may be started in it."""
    checkpoint = replace(Checkpoint.empty(SESSION), sequence=1, model_route="main", loop_state=state)
    with pytest.raises(LoopError, match="malformed"):
        read_loop_state(checkpoint)
    await store.save(checkpoint)
    agent = await start(CountingModel())
    assert (await run_loop(agent, LoopConfig("go", 1, 1))).status == LoopStatus.COMPLETED


async def test_the_status_is_a_column_too(store: SqliteStore, start: Any) -> None:
    """Operators see it without reading the JSON, which is not part of the metadata."""
    agent = await start(CountingModel())
    await run_loop(agent, LoopConfig("go", 1, 1))
    assert sql(store, "SELECT status, runtime_status FROM loops") == [("completed", "completed")]
    assert sql(store, f"SELECT json_extract({LOOP_STATE_KEY}, '$.iterations_completed') FROM loops") == [(1,)]
    assert LOOP_STATE_KEY not in (await stored(store)).metadata
    with pytest.raises(Exception, match="constraint"):
        sql(store, "UPDATE loops SET status = 'sleeping'")


BAD_BUDGETS = [("", 1, 1), ("go", 0, 1), ("go", 1, 0), ("go", -1, 1), ("go", True, 1), ("go", 1, 1.5)]


@pytest.mark.parametrize("budget", BAD_BUDGETS, ids=str)
async def test_a_bad_budget_is_refused_before_anything_starts(store: SqliteStore, start: Any, budget: Any) -> None:
    """By the library as an error, by the op as a rejection; nothing is stored of it."""
    with pytest.raises(ConfigurationError):
        LoopConfig(*budget)
    agent = await start(CountingModel())
    receipt = await agent.submit(ops.StartLoop(prompt=budget[0], max_iterations=budget[1], max_rounds=budget[2]))
    assert (receipt.status, (await stored(store)).loop_state) == ("rejected", None)


@pytest.mark.parametrize("budgets", [{"token_budget": 0}, {"time_budget": 0}, {"time_budget": float("nan")}])
def test_a_bad_extra_budget_is_refused(budgets: Any) -> None:
    """No budget of nothing, and none that is no number."""
    with pytest.raises(ConfigurationError):
        LoopConfig("go", 1, 1, **budgets)


# ------------------------------------------------------------------------------------------- running


async def test_iterations_are_turns_in_one_context(store: SqliteStore, start: Any) -> None:
    """Each has its own record; the context accumulates; one end is told, after everything else."""
    agent = await start(Numbering(tool="work"), tools=[tool := Work()], approval_policy=ApprovalPolicy.ALLOW)
    state = await run_loop(agent, LoopConfig("fix it", 3, 6))
    assert (state.status, counters(agent)) == (LoopStatus.COMPLETED, (3, 3, 6))
    assert len(tool.runs) == 3
    records = (await store.execution_page(SESSION)).executions
    assert [(record.outcome, record.submission_id) for record in records] == [("completed", state.loop_id)] * 3
    asked = [item.text for item in agent.checkpoint.context if isinstance(item, UserMessage)]
    assert asked == ["fix it"] * 3
    assert [msg.index for msg in await journal(store, events.LoopIterationStarted)] == [1, 2, 3]
    assert [msg.index for msg in await journal(store, events.LoopIterationCompleted)] == [1, 2, 3]
    last = (await store.event_page(SESSION, limit=1)).events[0].msg
    assert last == events.LoopEnded(loop_id=state.loop_id, status="Completed", iterations_completed=3, rounds_started=6)
    assert agent.checkpoint.runtime_status == "completed"


async def test_the_end_is_a_commit_of_its_own_after_the_mirror(store: SqliteStore, start: Any) -> None:
    """With the mirror stored and the end not, nothing is published; the next start tells it with no model call."""
    faulty = FaultyStore(store, match=lambda saved: bool((read_loop_state(saved) or by_hand(S.RUNNING)).ended))
    agent = await start(CountingModel(), on=faulty)
    with pytest.raises(LoopError):
        await run_loop(agent, LoopConfig("go", 1, 1))
    on_disk = await stored(store)
    assert (status(on_disk), on_disk.runtime_status, await ends(store)) == (S.COMPLETED, "completed", [])
    again = await start(FailingModel(RuntimeError("must not be asked")))
    await again.idle()
    assert [end.status for end in await ends(store)] == ["Completed"]


async def test_queued_messages_run_between_iterations(store: SqliteStore, start: Any) -> None:
    """A message that waits has its turn before the next iteration, and counts for nothing in the loop."""
    model = Numbering(tool="work")
    tool = Work(hold=True)
    agent = await start(model, tools=[tool], approval_policy=ApprovalPolicy.ALLOW)
    running = asyncio.create_task(run_loop(agent, LoopConfig("loop", 2, 9)))
    await tool.started.wait()
    await agent.submit(ops.Message(text="between", delivery=Delivery.QUEUE))
    tool.release.set()
    state = await running
    assert [msg.text for msg in await journal(store, events.Message)] == ["loop", "between", "loop"]
    assert (state.status, state.rounds_started) == (LoopStatus.COMPLETED, 4)


async def test_a_repeated_attempt_is_the_same_round(store: SqliteStore, start: Any) -> None:
    """A transient failure of the model is retried without a charge to the budget of rounds."""
    model = ScriptedModel([ModelUnavailable("gone"), [call("c")], ModelUnavailable("gone"), "done"])
    clock = FakeClock()
    agent = await start(model, tools=[Work()], approval_policy=ApprovalPolicy.ALLOW, clock=clock)
    running = asyncio.create_task(run_loop(agent, LoopConfig("go", 1, 2)))
    for _ in range(2):
        await condition(lambda: clock.sleeping)
        clock.advance(60)
        await condition(lambda: not clock.sleeping)
    state = await running
    assert (state.status, state.rounds_started, len(model.requests)) == (LoopStatus.COMPLETED, 2, 4)


async def test_the_rounds_are_counted_over_all_iterations(store: SqliteStore, start: Any) -> None:
    """The round that uses the budget up ends the loop: here after an iteration, which stays completed."""
    model = Numbering()
    agent = await start(model)
    state = await run_loop(agent, LoopConfig("go", 5, 2))
    assert (state.status, state.reason, counters(agent), model.calls) == (S.BUDGET_EXHAUSTED, "rounds", (2, 2, 2), 2)


async def test_the_rounds_end_within_an_iteration(store: SqliteStore, start: Any) -> None:
    """The iteration is not counted as completed, and its turn ends with every call answered."""
    agent = await start(EndlessModel(), tools=[Work()], approval_policy=ApprovalPolicy.ALLOW)
    state = await run_loop(agent, LoopConfig("go", 5, 3))
    assert (state.status, counters(agent)) == (S.BUDGET_EXHAUSTED, (1, 0, 3))
    (record,) = (await store.execution_page(SESSION)).executions
    assert (record.outcome, record.tool_calls) == ("aborted", 3)
    assert agent.checkpoint.idle


async def test_tokens_end_a_loop(store: SqliteStore, start: Any) -> None:
    """The boundary at which they are used up is the last."""
    agent = await start(Numbering())
    state = await run_loop(agent, LoopConfig("go", 5, 9, token_budget=20))
    assert (state.status, state.reason, state.tokens_used, counters(agent)) == (
        S.BUDGET_EXHAUSTED,
        "tokens",
        20,
        (2, 2, 2),
    )


async def test_time_ends_a_loop(store: SqliteStore, start: Any) -> None:
    """A round that takes long is let finish; the boundary after it is the last."""
    clock, model = FakeClock(), BlockingModel()
    agent = await start(model, clock=clock)
    running = asyncio.create_task(run_loop(agent, LoopConfig("go", 5, 9, time_budget=60)))
    await model.started.wait()
    clock.advance(60)
    model.release.set()
    state = await running
    assert (state.status, state.reason, model.calls) == (S.BUDGET_EXHAUSTED, "time", 1)


async def test_a_loop_without_progress_ends(store: SqliteStore, start: Any) -> None:
    """The second iteration did and said exactly what the first did: the loop is stopped, and says why."""
    model = ScriptedModel([[call("a", n=1)], "same", [call("b", n=1)], "same", "never"])
    agent = await start(model, tools=[Work()], approval_policy=ApprovalPolicy.ALLOW)
    state = await run_loop(agent, LoopConfig("go", 5, 9))
    assert (state.status, state.reason, counters(agent)) == (S.STOPPED, "no_progress", (2, 2, 4))
    assert [(end.status, end.reason) for end in await ends(store)] == [("Stopped", "no_progress")]


@pytest.mark.parametrize("other", [[call("b", n=2)], [call("b", "other", n=1)]], ids=["arguments", "tool"])
async def test_another_effect_or_answer_is_progress(store: SqliteStore, start: Any, other: Any) -> None:
    """The same answer after another call is not a repetition, nor another answer after the same call."""
    model = ScriptedModel([[call("a", n=1)], "same", other, "same", other, "new"])
    tools = [Work(), Work("other")]
    agent = await start(model, tools=tools, approval_policy=ApprovalPolicy.ALLOW)
    assert (await run_loop(agent, LoopConfig("go", 3, 9))).status == LoopStatus.COMPLETED


async def test_a_stop_between_two_rounds_ends_the_iteration_too(store: SqliteStore, start: Any) -> None:
    """The round counts, the iteration does not, and no further call of the model is made."""
    model, tool, control = EndlessModel(), Work(hold=True), LoopControl()
    agent = await start(model, tools=[tool], approval_policy=ApprovalPolicy.ALLOW)
    running = asyncio.create_task(run_loop(agent, LoopConfig("go", 3, 9), control))
    await tool.started.wait()
    control.stop()
    control.stop()
    tool.release.set()
    state = await running
    assert (state.status, state.reason, counters(agent), model.calls) == (S.STOPPED, "stop", (1, 0, 1), 1)


async def test_a_hook_may_stop_the_loop(store: SqliteStore, start: Any) -> None:
    """`Stop` after a round ends the loop in order; the hook hears of each round with the loop's state."""

    async def after(context: HookContext) -> Any:
        return Stop("enough") if len(hook.rounds) == 3 else None

    hook = Hook(after)
    agent = await start(Numbering(tool="work"), tools=[Work()], approval_policy=ApprovalPolicy.ALLOW, middleware=[hook])
    state = await run_loop(agent, LoopConfig("go", 9, 99))
    assert (state.status, counters(agent)) == (S.STOPPED, (2, 1, 3))
    assert [context.loop.rounds_started for context in hook.rounds if context.loop] == [1, 2, 3]


async def test_a_hook_that_breaks_within_an_iteration_fails_the_loop_and_its_turn(
    store: SqliteStore, start: Any
) -> None:
    """The session goes on: the loop has failed, its turn with it, and the next message is answered."""

    async def after(context: HookContext) -> None:
        raise OSError("/secret/path")

    agent = await start(
        Numbering(tool="work"), tools=[Work()], approval_policy=ApprovalPolicy.ALLOW, middleware=[Hook(after)]
    )
    with pytest.raises(LoopError, match="a hook failed after the round") as failure:
        await run_loop(agent, LoopConfig("go", 9, 99))
    assert "secret" not in str(failure.value)
    assert [record.outcome for record in (await store.execution_page(SESSION)).executions] == ["failed"]
    assert (status(agent), counters(agent)) == (S.FAILED, (1, 0, 1))
    await agent.submit(ops.Message(text="still there?"))
    await agent.idle()
    assert len(await journal(store, events.TurnComplete)) == 1


async def test_a_model_that_fails_fails_the_loop(store: SqliteStore, start: Any) -> None:
    """The turn's failure is the loop's, in the same transaction."""
    agent = await start(FailingModel(ModelRefused("no")))
    with pytest.raises(LoopError, match="refused"):
        await run_loop(agent, LoopConfig("go", 3, 3))
    assert (status(agent), counters(agent), agent.checkpoint.runtime_status) == (S.FAILED, (1, 0, 1), "failed")
    assert [end.status for end in await ends(store)] == ["Failed"]


async def test_a_prompt_that_policy_refuses_fails_the_loop(store: SqliteStore, start: Any) -> None:
    """The prompt passes the same hook as every message; its text does not enter the context."""

    class Strict(Middleware):
        name = "strict"

        async def message_submit(self, context: HookContext) -> Any:
            return Reject("not here")

    agent = await start(model := CountingModel(), middleware=[Strict()])
    with pytest.raises(LoopError, match="not here"):
        await run_loop(agent, LoopConfig("go", 3, 3))
    assert (model.calls, len(agent.checkpoint.context)) == (0, 0)


# ------------------------------------------------------------------------------------------- start and stop


def start_op(**fields: Any) -> ops.StartLoop:
    return ops.StartLoop(prompt="go", **{"max_iterations": 3, "max_rounds": 9, **fields})


async def test_a_second_start_is_refused_while_one_runs(store: SqliteStore, start: Any) -> None:
    """The running one is not touched; once it has ended, another may begin, under a new generation."""
    agent = await start(model := BlockingModel())
    assert (await agent.submit(start_op(max_iterations=1), "one")).status == "accepted"
    assert (await agent.submit(start_op(), "one")).status == "duplicate"
    assert "runs already" in ((await agent.submit(start_op(), "two")).reason or "")
    with pytest.raises(LoopError, match="runs already"):
        await run_loop(agent, LoopConfig("go", 1, 1))
    model.release.set()
    await agent.idle()
    state = await run_loop(agent, LoopConfig("go", 1, 1))
    assert (state.status, state.generation) == (LoopStatus.COMPLETED, 2)


async def test_start_and_stop_racing_give_one_linear_result(store: SqliteStore, start: Any) -> None:
    """Whatever the order, each is answered by what was before it, and at most one loop is told to have ended."""
    agent = await start(Numbering())
    asked = [agent.submit(op) for op in (ops.StopLoop(), start_op(), start_op(), ops.StopLoop(), ops.StopLoop())]
    receipts = await asyncio.gather(*asked)
    assert [receipt.status for receipt in receipts] == ["rejected", "accepted", "rejected", "accepted", "accepted"]
    await agent.idle()
    assert [(end.status, end.iterations_completed) for end in await ends(store)] == [("Stopped", 0)]
    assert (await agent.submit(ops.StopLoop())).status == "rejected"


async def test_a_stored_stop_waits_for_the_iteration(store: SqliteStore, start: Any) -> None:
    """`StopLoop()` lets all rounds of the iteration run, and survives a restart."""
    model, tool = Numbering(tool="work"), Work(hold=True)
    agent = await start(model, tools=[tool], approval_policy=ApprovalPolicy.ALLOW)
    await agent.submit(start_op(), "loop")
    await tool.started.wait()
    assert (await agent.submit(ops.StopLoop(by="ann"))).status == "accepted"
    tool.release.set()
    await agent.idle()
    (end,) = await ends(store)
    assert (end.status, end.reason, end.iterations_completed, end.rounds_started) == ("Stopped", "stop", 1, 2)


@pytest.mark.parametrize("by_op", [True, False], ids=["StopLoop(now)", "Interrupt"])
async def test_stopping_at_once_cancels_in_the_terminal_transaction(
    store: SqliteStore, start: Any, by_op: bool
) -> None:
    """The model's call is ended; loop and turn end in one commit; what is queued behind still runs."""
    agent = await start(model := BlockingModel())
    await agent.submit(start_op(), "loop")
    started = await seen(agent, events.TurnStarted)
    await model.started.wait()
    await agent.submit(ops.Message(text="later", delivery=Delivery.QUEUE))
    op = ops.StopLoop(now=True, by="ann") if by_op else ops.Interrupt(turn_id=started.turn_id, by="ann")
    receipt = await agent.submit(op)
    assert receipt.result is not None
    assert receipt.result.status == "stopping"
    aborted = await seen(agent, events.TurnAborted)
    assert (aborted.by, status(agent)) == ("ann", LoopStatus.CANCELLED)
    model.release.set()
    await agent.idle()
    assert [(end.status, end.iterations_completed, end.rounds_started) for end in await ends(store)] == [
        ("Cancelled", 0, 1)
    ]
    assert [msg.text for msg in await journal(store, events.Message)] == ["go", "later"]
    assert len(await journal(store, events.TurnComplete)) == 1


async def test_an_interrupt_that_cannot_be_stored_cancels_nothing(store: SqliteStore, start: Any) -> None:
    """Turn and loop are both as they were; the next start ends both."""
    faulty = FaultyStore(store, match=lambda saved: saved.loop_state is not None and status(saved) == S.CANCELLED)
    agent = await start(model := BlockingModel(), on=faulty)
    running = asyncio.create_task(run_loop(agent, LoopConfig("go", 3, 3)))
    await model.started.wait()
    await agent.submit(ops.StopLoop(now=True))
    with pytest.raises(LoopError, match="the session ended before its loop"):
        await running
    assert status(await stored(store)) == LoopStatus.RUNNING
    again = await start(CountingModel())
    await again.idle()
    assert [end.status for end in await ends(store)] == ["Cancelled"]


async def test_cancelling_the_call_cancels_the_loop(store: SqliteStore, start: Any) -> None:
    """Whoever cancels `run_loop` has the loop's end on disk when the cancellation is through."""
    agent = await start(model := BlockingModel())
    running = asyncio.create_task(run_loop(agent, LoopConfig("go", 3, 3)))
    await model.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [end.status for end in await ends(store)] == ["Cancelled"]


async def test_a_stop_between_two_iterations_touches_no_other_turn(store: SqliteStore, start: Any) -> None:
    """While a queued message has its turn, `StopLoop(now)` cancels the loop and lets the turn end."""
    model, tool = Numbering(tool="work"), Work(hold=True)
    agent = await start(model, tools=[tool], approval_policy=ApprovalPolicy.ALLOW)
    await agent.submit(ops.Message(text="first"))
    await tool.started.wait()
    await agent.submit(start_op(), "loop")
    await agent.submit(ops.StopLoop(now=True))
    tool.release.set()
    await agent.idle()
    assert [end.status for end in await ends(store)] == ["Cancelled"]
    assert len(await journal(store, events.TurnComplete)) == 1


async def test_steers_join_the_iteration_and_wait_where_it_is_to_end(store: SqliteStore, start: Any) -> None:
    """A steer that comes as the budget is used up has a turn of its own, after the loop."""
    agent = await start(model := BlockingModel())
    await agent.submit(start_op(max_rounds=1), "loop")
    await model.started.wait()
    await agent.submit(ops.Message(text="and this", delivery=Delivery.STEER))
    model.release.set()
    await agent.idle()
    (end,) = await ends(store)
    assert (end.status, end.iterations_completed, end.rounds_started) == ("BudgetExhausted", 1, 1)
    assert [(msg.text, msg.delivery) for msg in await journal(store, events.Message)] == [
        ("go", "turn"),
        ("and this", "queue"),
    ]


@pytest.mark.parametrize("within", [True, False], ids=["within an iteration", "between two"])
async def test_retiring_the_session_ends_its_loop(store: SqliteStore, start: Any, within: bool) -> None:
    """No iteration follows, and the end is told once."""
    model, tool = BlockingModel(), Work()
    agent = await start(model, tools=[tool])
    if not within:
        await agent.submit(ops.Message(text="first"))
        await model.started.wait()
    await agent.submit(start_op(), "loop")
    await model.started.wait()
    await agent.submit(ops.Retire(by="ann"))
    await agent.idle()
    assert [end.status for end in await ends(store)] == ["Cancelled"]
    assert len(await journal(store, events.LoopIterationStarted)) == within
    assert (await agent.submit(start_op())).status == "rejected"


async def test_deleting_the_session_takes_its_loop_along(store: SqliteStore) -> None:
    """No row is left of it."""
    runtime = Runtime(
        lambda id: AgentConfig(models=ModelRouter("main", BlockingModel()), store=store, session_id=id), store
    )
    await runtime.submit(SESSION, start_op(), "loop")
    await runtime.delete(SESSION)
    await runtime.aclose()
    assert sql(store, "SELECT count(*) FROM loops") == [(0,)]


# ------------------------------------------------------------------------------------------- going on after a restart


def found(state: LoopState, **fields: Any) -> Checkpoint:
    """What a dead process left."""
    empty = replace(Checkpoint.empty(SESSION), sequence=1, model_route="main")
    return replace(empty, loop_state=cast("Any", state), **fields)


IN_FLIGHT: dict[str, Any] = {
    "active_execution": ActiveExecution(submission_id="loop", turn_id="turn-1", started_at_ms=1, model_calls=1),
    "active_model_step": ActiveModelStep(model_step_id="step-1", step_index=0, started_at_ms=1),
    "context": (UserMessage(id="loop:2", author="user", text="go"),),
}


@pytest.mark.parametrize("runtime_status", ["running", "completed"])
@pytest.mark.parametrize("ending", [S.FINALIZING, S.STOPPED, S.BUDGET_EXHAUSTED, S.COMPLETED])
async def test_an_end_that_was_not_told_is_told_with_no_model_call(
    store: SqliteStore, start: Any, ending: LoopStatus, runtime_status: Any
) -> None:
    """First the mirror that is missing, then `LoopEnded`, both under the generation that was found."""
    await store.save(found(by_hand(ending, loop_id="loop"), runtime_status=runtime_status))
    agent = await start(FailingModel(RuntimeError("must not be asked")))
    await agent.idle()
    final = LoopStatus.COMPLETED if ending == S.FINALIZING else ending
    assert [(end.loop_id, end.status) for end in await ends(store)] == [("loop", final.value)]
    state = read_loop_state(agent)
    assert state is not None
    assert (state.status, state.generation, agent.checkpoint.runtime_status) == (final, 7, "completed")
    await agent.aclose()
    before = await stored(store)
    await (await start(FailingModel(RuntimeError("must not be asked")))).idle()
    assert await stored(store) == before


async def test_between_iterations_a_loop_goes_on_under_a_new_generation(store: SqliteStore, start: Any) -> None:
    """With its counters, also by the cautious options: nothing was lost."""
    state = replace(by_hand(LoopStatus.RUNNING, loop_id="loop"), iterations_started=1)
    await store.save(found(state))
    agent = await start(Numbering())
    await agent.idle()
    (begun,) = await journal(store, events.LoopStarted)
    assert (begun.loop_id, begun.generation) == ("loop", 8)
    assert [msg.index for msg in await journal(store, events.LoopIterationStarted)] == [2, 3]
    assert (status(agent), counters(agent)) == (LoopStatus.COMPLETED, (3, 3, 4))
    with pytest.raises(LoopError, match="generation changed"):
        await finish(await LoopSession.load(store, SESSION), LoopConfig("go", 3, 6), 7, Cancelled())


GOING_ON = {"on_interrupted_step": "retry", "on_uncertain_tools": "continue"}


async def test_within_an_iteration_a_loop_goes_on_where_turns_do(store: SqliteStore, start: Any) -> None:
    """The turn is recovered, the round asked again without a second charge, and the loop has a new generation."""
    state = replace(by_hand(LoopStatus.RUNNING, loop_id="loop", open_step=0), rounds_started=2)
    await store.save(found(state, **IN_FLIGHT))
    agent = await start(Numbering(), **GOING_ON)
    await agent.idle()
    assert (await journal(store, events.TurnComplete))[0].turn_id == "turn-1"
    state_now = read_loop_state(agent)
    assert state_now is not None
    assert (state_now.status, state_now.generation, counters(agent)) == (LoopStatus.COMPLETED, 8, (3, 3, 3))


async def test_within_an_iteration_a_cautious_restart_repeats_nothing(store: SqliteStore, start: Any) -> None:
    """The turn is aborted and the loop RecoveryUnsupported in the same transaction; no model is asked."""
    await store.save(found(by_hand(LoopStatus.RUNNING, loop_id="loop", open_step=0), **IN_FLIGHT))
    agent = await start(FailingModel(RuntimeError("must not be asked")))
    await agent.idle()
    page = (await store.event_page(SESSION, after=0)).events
    kinds = [event.kind for event in page]
    assert kinds == ["session_configured", "model_step_completed", "turn_aborted", "loop_ended"]
    assert [(end.status, end.iterations_completed) for end in await ends(store)] == [("RecoveryUnsupported", 1)]
    assert agent.checkpoint.runtime_status == "suspended"


async def test_an_uncertain_tool_within_an_iteration_is_not_repeated(store: SqliteStore, start: Any) -> None:
    """By the cautious options the loop waits for a person; the tool does not run again."""
    started = PendingTool(call=ToolCall(call_id="c", name="work"), state="started", idempotency_key="k")
    at_work = {key: value for key, value in IN_FLIGHT.items() if key != "active_model_step"}
    state = by_hand(LoopStatus.RUNNING, loop_id="loop", open_step=0)
    await store.save(found(state, **at_work, pending_tools=(started,)))
    agent = await start(FailingModel(RuntimeError("must not be asked")), tools=[tool := Work()])
    await agent.idle()
    assert (status(agent), tool.runs) == (LoopStatus.RECOVERY_UNSUPPORTED, [])


@pytest.mark.parametrize("options", [{}, GOING_ON], ids=["abort", "retry"])
async def test_an_iteration_of_which_no_turn_is_left(store: SqliteStore, start: Any, options: Any) -> None:
    """Of a state written by hand: cautious options give it up, the others begin the iteration again."""
    await store.save(found(by_hand(LoopStatus.RUNNING, loop_id="loop")))
    agent = await start(model := Numbering(), **options)
    await agent.idle()
    expected = (S.COMPLETED, 2) if options else (S.RECOVERY_UNSUPPORTED, 0)
    assert (status(agent), model.calls) == expected


async def test_a_person_lets_a_lost_loop_go_on(store: SqliteStore, start: Any) -> None:
    """From the iteration that was lost, under a new generation and with its counters; once."""
    await store.save(found(by_hand(LoopStatus.RUNNING, loop_id="loop"), **IN_FLIGHT))
    agent = await start(Numbering())
    await agent.idle()
    assert (await agent.submit(ops.ContinueLoop(loop_id="other"))).status == "rejected"
    assert (await agent.submit(ops.ContinueLoop(loop_id="loop"))).status == "accepted"
    await agent.idle()
    assert [msg.index for msg in await journal(store, events.LoopIterationStarted)] == [2, 3]
    assert [msg.generation for msg in await journal(store, events.LoopStarted)] == [8]
    assert [end.status for end in await ends(store)] == ["RecoveryUnsupported", "Completed"]
    assert (await agent.submit(ops.ContinueLoop(loop_id="loop"))).status == "rejected"


async def test_a_person_gives_a_lost_loop_up(store: SqliteStore, start: Any) -> None:
    """It is Cancelled, and cannot be gone on with any more."""
    await store.save(found(by_hand(LoopStatus.RUNNING, loop_id="loop"), **IN_FLIGHT))
    agent = await start(Numbering())
    await agent.idle()
    assert (await agent.submit(ops.StopLoop(by="ann"))).status == "accepted"
    assert status(agent) == LoopStatus.CANCELLED
    assert (await agent.submit(ops.ContinueLoop(loop_id="loop"))).status == "rejected"


async def test_a_loop_waits_for_a_person_across_a_restart(store: SqliteStore, start: Any) -> None:
    """An approval within an iteration is asked again in the same turn, and the loop goes on when it is given."""
    agent = await start(Numbering(tool="gated"), tools=[ApprovalTool()])
    await agent.submit(start_op(max_iterations=1), "loop")
    asked = await seen(agent, events.ApprovalRequested)
    await agent.aclose()
    again = await start(Numbering(tool="gated"), tools=[tool := ApprovalTool()])
    same = await seen(again, events.ApprovalRequested)
    assert (same.request_id, same.turn_id) == (asked.request_id, asked.turn_id)
    await again.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
    await again.idle()
    state = read_loop_state(again)
    assert state is not None
    assert (state.status, state.generation, len(tool.runs)) == (LoopStatus.COMPLETED, 2, 1)


async def test_a_start_opens_sessions_whose_loop_goes_on(store: SqliteStore) -> None:
    """Also between two iterations, where no turn runs and nothing waits; not once the end is told."""
    state = replace(by_hand(LoopStatus.RUNNING, loop_id="loop"), iterations_started=1)
    await store.save(found(state))
    runtime = Runtime(
        lambda id: AgentConfig(models=ModelRouter("main", Numbering()), store=store, session_id=id), store
    )
    await runtime.start()
    await runtime.at_rest()
    assert [end.status for end in await ends(store)] == ["Completed"]
    await runtime.aclose()
    assert await store.sessions_with_work() == ()
