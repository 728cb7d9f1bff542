"""Turns as people steer, queue and stop them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime import (
    AgentConfig,
    ApprovalPolicy,
    Middleware,
    ModelRouter,
    SessionLimits,
    SpendLimits,
    Workspace,
    create_agent,
    errors,
    events,
    ops,
)
from runtime.config import ConfigurationError
from runtime.middleware import AddContext, Continue, HookContext, Stop
from runtime.models.base import ModelReply
from runtime.protocol import Approve, Boundary, Delivery, SystemMessage, TextPart, ToolCall, Usage, UserMessage
from runtime.session.gate import GRACE_SECONDS
from runtime.store import SqliteStore
from runtime.testing import BlockingModel, CountingModel, FailingModel, FakeClock, ScriptedModel
from runtime.tools.base import Tool, ToolContext
from tests.support.sessions import (
    Work,
    agent_on,
    call,
    condition,
    config,
    journal,
    results,
    seen,
    stored,
    talk,
)

FREE = ApprovalPolicy.ALLOW


# ------------------------------------------------------------------------------------------------------- stopping


async def test_stopping_a_model_call_keeps_what_it_had_said(store: SqliteStore) -> None:
    """The turn ends within two seconds, the call is cancelled, and the words so far stay in the context."""

    class Talks(BlockingModel):
        async def step(self, request: Any, on_delta: Any) -> Any:
            from runtime.models.base import Delta

            on_delta(Delta(text="so far"))
            return await super().step(request, on_delta)

    model = Talks()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await model.started.wait()
        receipt = await agent.submit(ops.Interrupt(turn_id=turn.turn_id, by="ann"))
        assert receipt.result is not None
        assert receipt.result.status == "stopping"
        aborted = await seen(agent, events.TurnAborted, timeout=20.0)
        assert (aborted.turn_id, aborted.by, aborted.outcome) == (turn.turn_id, "ann", "aborted")
        assert model.cancelled == 1
        last = (await stored(store)).context[-1]
        assert last.parts == (TextPart(text="so far"),)  # type: ignore[union-attr]


class Shell(Tool):
    """Runs a process that has a child of its own, and ends both when it is cancelled."""

    name = "shell"
    parameters: Any = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.started = asyncio.Event()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        program = "import os, time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        try:
            assert process.stdout is not None
            self.pids = [int(await process.stdout.readline()), int(await process.stdout.readline())]
            self.started.set()
            await process.wait()
            return "ended"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_stop_is_over_within_two_seconds() -> None:
    """What is cancelled has so long to end that its commit still fits; no test can time that on a busy machine."""
    assert GRACE_SECONDS <= 1.5


async def test_stopping_a_tool_leaves_no_process(store: SqliteStore) -> None:
    """A stop during a long tool: two seconds later its process and the child of that are gone."""
    shell = Shell()
    async with agent_on(store, ScriptedModel([[call("c1", "shell")]]), tools=[shell], approval_policy=FREE) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await shell.started.wait()
        assert all(lives(pid) for pid in shell.pids)
        await agent.submit(ops.Interrupt(turn_id=turn.turn_id))
        await seen(agent, events.TurnAborted, timeout=20.0)
        await condition(lambda: not any(lives(pid) for pid in shell.pids), timeout=20.0)
        assert results(await stored(store)) == {"c1": "interrupted while it ran; what it did until then stays"}
        (record,) = (await store.execution_page("s")).executions
        assert (record.outcome, record.tool_calls, record.failed_tool_calls) == ("aborted", 1, 1)


async def test_a_tool_that_ignores_the_stop_does_not_hold_the_turn(store: SqliteStore) -> None:
    """Two seconds are all that a tool gets; the turn ends without it."""

    class Stubborn(Work):
        async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
            self.started.set()
            while not self.release.is_set():
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
            return "at last"

    stubborn = Stubborn(hold=True)
    async with agent_on(store, ScriptedModel([[call("c1")], "next"]), tools=[stubborn], approval_policy=FREE) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await stubborn.started.wait()
        await agent.submit(ops.Interrupt(turn_id=turn.turn_id))
        await seen(agent, events.TurnAborted, timeout=20.0)
        stubborn.release.set()
        assert (await talk(agent, "go on")).last_assistant_message == "next"
        assert "at last" not in str(list((await stored(store)).context))


async def test_a_stop_names_its_turn(store: SqliteStore) -> None:
    """Another turn's id, or no turn at all, is a warning and changes nothing."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        idle = await agent.submit(ops.Interrupt(turn_id="none"))
        assert (idle.status, getattr(idle.result, "status", None)) == ("rejected", "not_running")
        await agent.submit(ops.Message(text="go"))
        await model.started.wait()
        other = await agent.submit(ops.Interrupt(turn_id="another"))
        assert getattr(other.result, "status", None) == "not_running"
        assert (await stored(store)).active_execution is not None
        model.release.set()
        await seen(agent, events.TurnComplete)
        assert len(await journal(store, events.Warning)) == 2


async def test_a_stop_wins_over_messages_that_came_before_it(store: SqliteStore) -> None:
    """Steers that wait when a turn is stopped become turns of their own, in their place."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await model.started.wait()
        model.release.set()
        asked = [
            asyncio.ensure_future(agent.submit(op))
            for op in (ops.Message(text="one"), ops.Message(text="two"), ops.Interrupt(turn_id=turn.turn_id))
        ]
        receipts = await asyncio.gather(*asked)
        await agent.idle()
        assert receipts[2].result.status == "stopping"  # type: ignore[union-attr]
        entered = [(m.text, m.delivery) for m in await journal(store, events.Message)]
        assert [text for text, _ in entered] == ["go", "one", "two"]
        assert "steer" not in [delivery for _, delivery in entered]
        records = (await store.execution_page("s")).executions
        assert [record.outcome for record in records] == ["completed", "completed", "aborted"]


async def test_a_second_stop_changes_nothing(store: SqliteStore) -> None:
    """One terminal event, one record, and who stopped first is named."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await model.started.wait()
        stops = [agent.submit(ops.Interrupt(turn_id=turn.turn_id, by=by)) for by in ("ann", "bob")]
        await asyncio.gather(*stops)
        await agent.idle()
        (aborted,) = await journal(store, events.TurnAborted)
        assert aborted.by == "ann"
        assert len((await store.execution_page("s")).executions) == 1


# ------------------------------------------------------------------------------------------------------- steering


async def test_all_waiting_steers_enter_together_and_in_order(store: SqliteStore) -> None:
    """At the next boundary, in one checkpoint, as one request."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        await model.started.wait()
        for text in ("one", "two", "three"):
            await agent.submit(ops.Message(text=text))
        model.release.set()
        done = await seen(agent, events.TurnComplete)
        steers = [m for m in await journal(store, events.Message) if m.delivery == "steer"]
        assert [m.text for m in steers] == ["one", "two", "three"]
        assert {m.turn_id for m in steers} == {done.turn_id}
        assert model.calls == 2


async def test_an_ending_that_a_steer_overtook_is_a_message_of_its_own(store: SqliteStore) -> None:
    """The answer of the turn is the last one; the one before is marked."""
    model = BlockingModel("an answer")
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        await model.started.wait()
        await agent.submit(ops.Message(text="wait"))
        model.release.set()
        await agent.idle()
        said = await journal(store, events.AssistantMessage)
        assert [(m.text, m.overtaken) for m in said] == [("an answer", True), ("an answer", False)]
        assert len(await journal(store, events.TurnComplete)) == 1


async def test_a_steer_between_two_calls_skips_those_that_have_not_begun(store: SqliteStore) -> None:
    """The running call ends, the next ones say that they were skipped, and the model is asked again."""
    first, second = Work("first", hold=True), Work("second")
    model = ScriptedModel([[call("c1", "first"), call("c2", "second"), call("c3", "second")], "changed my mind"])
    async with agent_on(store, model, tools=[first, second], approval_policy=FREE) as agent:
        await agent.submit(ops.Message(text="go"))
        await first.started.wait()
        await agent.submit(ops.Message(text="stop that"))
        first.release.set()
        await seen(agent, events.TurnComplete)
        skipped = "skipped because of new instructions"
        assert results(await stored(store)) == {"c1": "ok", "c2": skipped, "c3": skipped}
        assert second.runs == []
        assert isinstance(model.requests[1].context[-1], UserMessage)


async def test_a_steer_never_skips_what_a_person_approved(store: SqliteStore) -> None:
    """An approval is a person's word: the approved calls run, and then the steer enters."""
    first, second = Work("first", hold=True), Work("second")
    model = ScriptedModel([[call("c1", "first"), call("c2", "second")], "done"])
    async with agent_on(store, model, tools=[first, second]) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        await first.started.wait()
        await agent.submit(ops.Message(text="something else", delivery=Delivery.STEER))
        first.release.set()
        await seen(agent, events.TurnComplete)
        assert results(await stored(store)) == {"c1": "ok", "c2": "ok"}


async def test_skipping_can_be_switched_off(store: SqliteStore) -> None:
    """Then a batch runs to its end."""
    first, second = Work("first", hold=True), Work("second")
    model = ScriptedModel([[call("c1", "first"), call("c2", "second")], "done"])
    tools = [first, second]
    async with agent_on(store, model, tools=tools, approval_policy=FREE, skip_tools_on_steer=False) as agent:
        await agent.submit(ops.Message(text="go"))
        await first.started.wait()
        await agent.submit(ops.Message(text="later"))
        first.release.set()
        await seen(agent, events.TurnComplete)
        assert len(second.runs) == 1


async def test_a_tool_may_ask_to_be_ended_by_a_steer(store: SqliteStore) -> None:
    """Only a tool that opted in is cut off; its result says why."""
    waiting = Work("waiting", hold=True, cancel_on_input=True)
    model = ScriptedModel([[call("c1", "waiting")], "done"])
    async with agent_on(store, model, tools=[waiting], approval_policy=FREE) as agent:
        await agent.submit(ops.Message(text="go"))
        await waiting.started.wait()
        await agent.submit(ops.Message(text="never mind", delivery=Delivery.QUEUE))
        assert not waiting.cancelled
        await agent.submit(ops.Message(text="now"))
        await seen(agent, events.TurnComplete)
        assert results(await stored(store)) == {"c1": "stopped because of new instructions"}
        assert waiting.cancelled == 1


async def test_tools_that_may_run_side_by_side_do_and_each_result_is_stored_as_it_comes(store: SqliteStore) -> None:
    """The slower one runs on while the result of the quicker one is on disk."""
    slow, quick = Work("slow", hold=True, parallel=True), Work("quick", parallel=True)
    model = ScriptedModel([[call("c1", "slow"), call("c2", "quick")], "done"])
    async with agent_on(store, model, tools=[slow, quick], approval_policy=FREE) as agent:
        await agent.submit(ops.Message(text="go"))
        await slow.started.wait()
        await seen(agent, events.ToolCallEnd)
        left = await stored(store)
        assert results(left) == {"c2": "ok"}
        assert [(tool.call.call_id, tool.state) for tool in left.pending_tools] == [("c1", "started"), ("c2", "done")]
        slow.release.set()
        await seen(agent, events.TurnComplete)
        assert results(await stored(store)) == {"c1": "ok", "c2": "ok"}


# ------------------------------------------------------------------------------------------------------- the queue


async def test_what_waits_can_be_edited_removed_and_promoted(store: SqliteStore) -> None:
    """By the id of its receipt, while it waits; a removed message's id stays a duplicate."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await model.started.wait()
        for name in ("edit", "remove", "promote"):
            await agent.submit(ops.Message(text=name, delivery=Delivery.QUEUE), name)
        await agent.submit(ops.EditQueued(message_id="edit", text="edited"))
        await agent.submit(ops.RemoveQueued(message_id="remove", by="ann"))
        await agent.submit(ops.PromoteQueued(message_id="promote"))
        waiting = (await stored(store)).pending_messages
        assert [(m.text, m.boundary) for m in waiting] == [
            ("edited", Boundary.queue()),
            ("promote", Boundary.steer(turn.turn_id)),
        ]
        assert (await agent.submit(ops.Message(text="again"), "remove")).status == "duplicate"
        model.release.set()
        await agent.idle()
        entered = [(m.text, m.delivery) for m in await journal(store, events.Message)]
        assert entered == [("go", "turn"), ("promote", "steer"), ("edited", "queue")]
        assert (await agent.submit(ops.EditQueued(message_id="edit", text="too late"))).status == "rejected"


async def test_a_full_queue_says_so_and_the_id_may_be_used_again(store: SqliteStore) -> None:
    """Never acknowledged, never stored."""
    model = BlockingModel()
    async with agent_on(store, model, queue_limit=1) as agent:
        await agent.submit(ops.Message(text="go"))
        await model.started.wait()
        await agent.submit(ops.Message(text="one"))
        refused = await agent.submit(ops.Message(text="two"), "m-2")
        assert (refused.status, refused.reason) == ("rejected", "the queue is full (1)")
        model.release.set()
        await agent.idle()
        assert (await agent.submit(ops.Message(text="two"), "m-2")).status == "accepted"


async def test_a_failed_turn_keeps_what_waited_behind_it(store: SqliteStore) -> None:
    """The next message has its turn although the one before could not be answered."""
    model = ScriptedModel([errors.ModelRefused("no"), "answered"])
    async with agent_on(store, model) as agent:
        first, second = await asyncio.gather(
            agent.submit(ops.Message(text="one")), agent.submit(ops.Message(text="two", delivery=Delivery.QUEUE))
        )
        await agent.idle()
        records = (await store.execution_page("s")).executions
        assert [(r.submission_id, r.outcome) for r in records] == [
            (second.submission_id, "completed"),
            (first.submission_id, "failed"),
        ]


# --------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("limits", "options", "reason"),
    [
        (SpendLimits(), {"max_model_steps": 3}, "after 3 model steps"),
        (SpendLimits(tool_calls=2), {}, "after 2 tool calls"),
        (SpendLimits(tokens=30), {}, "after 30 tokens"),
        (SpendLimits(cost_usd=0.5), {}, "it has cost 0.50 USD"),
    ],
)
async def test_a_turn_that_never_ends_is_ended(
    store: SqliteStore, limits: SpendLimits, options: dict[str, Any], reason: str
) -> None:
    """A model that always calls a tool stops at the limit, with a sentence that says which."""
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)

    def endless(_: Any) -> ModelReply:
        return ModelReply(parts=(ToolCall(call_id="c", name="work"),), usage=usage, end_turn=False)

    work = Work()
    model = ScriptedModel([endless] * 300)
    async with agent_on(store, model, tools=[work], approval_policy=FREE, limits=limits, **options) as agent:
        await agent.submit(ops.Message(text="go"))
        complaint = await seen(agent, events.Error)
        assert reason in complaint.message
        assert complaint.reference
        aborted = await seen(agent, events.TurnAborted)
        assert (aborted.outcome, aborted.reason) == ("failed", complaint.message)
        assert len(work.runs) <= 3


async def test_a_turn_has_only_so_much_time(store: SqliteStore) -> None:
    """Counted on the clock from the turn's start, seen at the next boundary."""
    clock, work = FakeClock(), Work(hold=True)
    model = ScriptedModel([[call("c1")], "never asked"])
    limits = SpendLimits(seconds=60)
    async with agent_on(store, model, tools=[work], approval_policy=FREE, clock=clock, limits=limits) as agent:
        await agent.submit(ops.Message(text="go"))
        await work.started.wait()
        clock.advance(60)
        work.release.set()
        assert "60 seconds" in (await seen(agent, events.TurnAborted)).reason


@pytest.mark.parametrize("limit", [0, -1, 1025])
def test_a_queue_has_a_length_that_makes_sense(store: SqliteStore, limit: int) -> None:
    """From 1 to 1024; anything else is said before anything starts."""
    with pytest.raises(ConfigurationError, match="queue_limit"):
        config(store, CountingModel(), queue_limit=limit)


def test_two_things_of_one_name_are_refused(store: SqliteStore) -> None:
    """Tools, middleware and routes are told apart by name."""
    with pytest.raises(ConfigurationError, match="two tools"):
        config(store, CountingModel(), tools=[Work(), Work()])

    class Named(Middleware):
        name = "same"

    with pytest.raises(ConfigurationError, match="same"):
        config(store, CountingModel(), middleware=[Named(), Named()])
    with pytest.raises(ConfigurationError):
        ModelRouter("a", CountingModel()).register("a", CountingModel())
    with pytest.raises(ConfigurationError, match="nowhere"):
        AgentConfig(models=ModelRouter("a", CountingModel()), store=store, model_route="nowhere")


# ------------------------------------------------------------------------------------------------- models and hooks


async def test_the_model_is_changed_between_turns_only(store: SqliteStore) -> None:
    """While a turn runs it is a warning; an unknown route is one too."""
    blocking = BlockingModel()
    models = ModelRouter("a", blocking).register("b", CountingModel())
    agent = await create_agent(AgentConfig(models=models, store=store, session_id="s"))
    await agent.submit(ops.Message(text="go"))
    await blocking.started.wait()
    for op in (ops.SetModel(route="b"), ops.ResumeSession(session_id="x"), ops.Compact()):
        assert (await agent.submit(op)).status == "rejected"
    blocking.release.set()
    await agent.idle()
    assert (await agent.submit(ops.SetModel(route="c"))).status == "rejected"
    assert (await stored(store)).model_route == "a"
    assert (await agent.submit(ops.SetModel(route="b"))).status == "accepted"
    await agent.aclose()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.ModelAuthentication("401"), "authentication"),
        (errors.ModelRefused("400"), "provider"),
        (errors.ModelError("?"), "provider"),
    ],
)
async def test_an_error_that_no_retry_mends_fails_the_turn_at_once(
    store: SqliteStore, error: Exception, kind: str
) -> None:
    """Step, error, terminal event in one commit; raw text of the provider stays in the log."""
    model = FailingModel(error)
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        complaint = await seen(agent, events.Error)
        assert (complaint.kind, model.calls) == (kind, 1)
        assert str(error) not in complaint.message
        (closed,) = await journal(store, events.ModelStepCompleted)
        assert closed.outcome == "failed"


async def test_retry_after_is_honoured(store: SqliteStore) -> None:
    """The provider's patience counts where it is longer than ours."""
    clock = FakeClock()
    model = ScriptedModel([errors.ModelRateLimited("429", retry_after=30.0), "done"])
    async with agent_on(store, model, clock=clock) as agent:
        await agent.submit(ops.Message(text="go"))
        await seen(agent, events.ModelStepCompleted)
        await condition(lambda: clock.sleeping)
        clock.advance(29)
        assert (clock.sleeping, len(model.requests)) == (1, 1)
        clock.advance(1)
        assert (await seen(agent, events.TurnComplete)).last_assistant_message == "done"


async def test_hooks_add_to_the_context_for_good_or_for_one_request(store: SqliteStore) -> None:
    """`pre_model` stores a remark, `model_request` does not, `post_tool_use` comments on a result."""

    class Remarks(Middleware):
        name = "remarks"

        async def pre_model(self, context: HookContext) -> AddContext:
            return AddContext("for good")

        async def model_request(self, context: HookContext) -> AddContext:
            return AddContext("for now")

        async def post_tool_use(self, context: HookContext) -> AddContext:
            assert context.result is not None
            return AddContext(f"about {context.result.call_id}")

    model = ScriptedModel([[call("c1")], "done"])
    async with agent_on(store, model, tools=[Work()], approval_policy=FREE, middleware=[Remarks()]) as agent:
        await talk(agent)
        remarks = [item.text for item in (await stored(store)).context if isinstance(item, SystemMessage)]
        assert remarks == ["for good", "about c1", "for good"]
        assert [list(request.reminders) for request in model.requests] == [["for now"], ["for now"]]


async def test_a_stop_hook_gets_one_more_step(store: SqliteStore) -> None:
    """Once per turn, so that it cannot keep the turn going for ever."""

    class More(Middleware):
        name = "more"

        async def stop(self, context: HookContext) -> Continue:
            return Continue("are you sure?")

    model = CountingModel()
    async with agent_on(store, model, middleware=[More()]) as agent:
        await talk(agent)
        assert model.calls == 2


async def test_hooks_run_in_order_and_end_in_reverse(store: SqliteStore) -> None:
    """In the order of declaration; `session_end` the other way round; `turn_end` sees the record."""
    order: list[str] = []

    class Notes(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def session_start(self, context: HookContext) -> None:
            order.append(f"start {self.name}")

        async def turn_end(self, context: HookContext) -> None:
            assert context.execution is not None
            order.append(f"turn {self.name} {context.execution.outcome}")

        async def session_end(self, context: HookContext) -> None:
            order.append(f"end {self.name}")

    async with agent_on(store, CountingModel(), middleware=[Notes("a"), Notes("b")]) as agent:
        await talk(agent)
        await agent.idle()
    assert order == ["start a", "start b", "turn a completed", "turn b completed", "end b", "end a"]


async def test_a_start_hook_may_refuse_the_session(store: SqliteStore) -> None:
    """Then there is no agent, nothing is stored, and another process may have the session."""

    class Refuses(Middleware):
        name = "refuses"

        async def session_start(self, context: HookContext) -> Stop:
            return Stop("not today")

    with pytest.raises(ConfigurationError, match="not today"):
        await create_agent(config(store, CountingModel(), middleware=[Refuses()]))
    assert await store.load("s") is None


async def test_retiring_ends_everything_and_takes_nothing_more(store: SqliteStore) -> None:
    """The open question is invalidated, waiting messages are removed by name, later ones are refused."""
    gated = Work("gated")
    async with agent_on(store, ScriptedModel([[call("c1", "gated")]]), tools=[gated]) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        await agent.submit(ops.Message(text="next"), "m-2")
        await agent.submit(ops.Retire(by="ann", reason="/new"))
        await agent.idle()
        (resolved,) = await journal(store, events.ApprovalResolved)
        assert resolved.decision == "invalidated"
        assert [m.message_id for m in await journal(store, events.MessageRemoved)] == ["m-2"]
        late = await agent.submit(ops.Message(text="hello?"))
        assert (late.status, "has ended" in (late.reason or "")) == ("rejected", True)
        press = await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        assert getattr(press.result, "status", None) == "already"
        assert gated.runs == []


# -------------------------------------------------------------------------------------------- budgets and collecting


async def test_of_many_calls_only_as_many_begin_as_the_turn_may_still_make(store: SqliteStore) -> None:
    """Twenty parallel calls with one left: one runs, nineteen are told why not, and nobody is asked about them."""
    work = Work(parallel=True)
    calls = [call(f"c{n}") for n in range(20)]
    model = ScriptedModel([[call("first")], calls, "never asked"])
    limits = SpendLimits(tool_calls=2)
    async with agent_on(store, model, tools=[work], approval_policy=FREE, limits=limits) as agent:
        await agent.submit(ops.Message(text="go"))
        await seen(agent, events.TurnAborted)
        assert len(work.runs) == 2
        told = results(await stored(store))
        assert [told[f"c{n}"] for n in range(20)] == ["ok"] + ["blocked: a turn may make 2 calls"] * 19


async def test_the_budget_counts_before_a_person_is_asked(store: SqliteStore) -> None:
    """A request lists only what the turn may still run."""
    gated = Work()
    model = ScriptedModel([[call(f"c{n}") for n in range(5)]])
    async with agent_on(store, model, tools=[gated], limits=SpendLimits(tool_calls=2)) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        assert [each.call_id for each in asked.calls] == ["c0", "c1"]


async def test_a_session_has_its_own_limits(store: SqliteStore) -> None:
    """What its turns have used together counts, also after a restart."""
    limits = SessionLimits(tokens=30)
    model = ScriptedModel(["one", "two", "never"])
    async with agent_on(store, model, session_limits=limits) as agent:
        await talk(agent)
        await talk(agent)
    async with agent_on(store, model, session_limits=limits) as agent:
        await agent.submit(ops.Message(text="more"))
        assert "30 tokens" in (await seen(agent, events.TurnAborted)).reason
        assert len(model.requests) == 2


async def test_collecting_joins_what_waits_into_one_turn(store: SqliteStore) -> None:
    """Everything that had queued enters the next turn, each message by its own author, in order and in one commit."""
    model = BlockingModel()
    async with agent_on(store, model, collect=True, default_delivery=Delivery.QUEUE) as agent:
        await agent.submit(ops.Message(text="go"))
        await model.started.wait()
        for text, author in (("one", "ann"), ("two", "bob"), ("three", "ann")):
            await agent.submit(ops.Message(text=text, author=author, principal=author))
        model.release.set()
        await agent.idle()
        entered = (await journal(store, events.Message))[1:]
        assert [(m.text, m.author, m.delivery) for m in entered] == [
            ("one", "ann", "queue"),
            ("two", "bob", "queue"),
            ("three", "ann", "queue"),
        ]
        assert len({m.turn_id for m in entered}) == 1
        assert model.calls == 2
        assert len((await store.execution_page("s")).executions) == 2


async def test_what_is_too_long_for_the_context_is_a_file_of_the_workspace(store: SqliteStore, tmp_path: Path) -> None:
    """Head and tail are in the context with the name of the file; the file has all of it, redacted."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    work = Work(output="head " + "x" * 5000 + "hunter2" + "y" * 5000 + " tail")
    model = ScriptedModel([[call("c1")], "done"])
    workspace = Workspace(id="w", label="w", path=folder)
    async with agent_on(
        store,
        model,
        tools=[work],
        approval_policy=FREE,
        workspace=workspace,
        tool_output_limit=1000,
        redact=lambda text: text.replace("hunter2", "•••"),
    ) as agent:
        await talk(agent)
        shown = results(await stored(store))["c1"]
        assert shown.startswith("head x")
        assert shown.endswith("y tail")
        assert len(shown) < 1200
        (kept,) = (folder / "tool-output").iterdir()
        assert f"tool-output/{kept.name}" in shown
        assert kept.read_text() == work.output.replace("hunter2", "•••")


async def test_an_output_that_cannot_be_a_file_is_cut_all_the_same(store: SqliteStore, tmp_path: Path) -> None:
    """Without a workspace, or where it is gone, the context has head and tail."""
    work = Work(output="x" * 5000)
    model = ScriptedModel([[call("c1")], "done", [call("c2")], "done"])
    gone = Workspace(id="w", label="w", path=tmp_path / "gone")
    for workspace in (None, gone):
        async with agent_on(
            store, model, tools=[work], approval_policy=FREE, workspace=workspace, tool_output_limit=1000
        ) as agent:
            await talk(agent)
    assert all("4000 characters left out …" in output for output in results(await stored(store)).values())
