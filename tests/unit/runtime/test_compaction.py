"""Long conversations: when they are summarised, what stays, and what a failure of the summary does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import Agent, ApprovalPolicy, Middleware, create_agent, errors, events, ops
from runtime.middleware import HookContext, Stop
from runtime.models.base import ModelReply
from runtime.protocol import (
    AssistantMessage,
    Checkpoint,
    Context,
    ContextItem,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from runtime.session.compaction import HEADING, Gauge, cut_point, size_of
from runtime.store import SqliteStore
from runtime.testing import BlockingModel, FaultyStore, ScriptedModel
from tests.support.sessions import (
    EagerClock,
    Work,
    agent_on,
    call,
    config,
    journal,
    seen,
    stored,
    talk,
)

FREE = ApprovalPolicy.ALLOW


def said(text: str) -> AssistantMessage:
    return AssistantMessage(parts=(TextPart(text=text),))


def asked(text: str) -> UserMessage:
    return UserMessage(id=text[:8] or "m", author="ann", text=text)


def called(*ids: str) -> AssistantMessage:
    return AssistantMessage(parts=tuple(ToolCall(call_id=each, name="work") for each in ids))


def result(call_id: str, output: str = "ok") -> ToolResult:
    return ToolResult(call_id=call_id, name="work", output=output)


def valid(context: Any) -> bool:
    """A provider accepts it: every result follows its call, every call has its result before anybody else speaks."""
    open_calls: set[str] = set()
    for item in context:
        if isinstance(item, ToolResult):
            if item.call_id not in open_calls:
                return False
            open_calls.discard(item.call_id)
        elif open_calls:
            return False
        elif isinstance(item, AssistantMessage):
            open_calls = {part.call_id for part in item.parts if isinstance(part, ToolCall)}
    return not open_calls


# --------------------------------------------------------------------------------------------- where to cut, how full

BLOCKS = st.one_of(
    st.text(max_size=200).map(lambda text: [asked(text)]),
    st.text(max_size=200).map(lambda text: [said(text)]),
    st.integers(1, 3).map(lambda n: [called(*map(str, range(n))), *(result(str(i), "x" * 50) for i in range(n))]),
)


@given(st.lists(BLOCKS, max_size=12), st.integers(1, 2000))
def test_a_cut_never_falls_between_a_call_and_its_result(blocks: list[list[ContextItem]], window: int) -> None:
    """What stays is valid by itself, is never everything, and is never nothing."""
    context = Context(item for block in blocks for item in block)
    cut = cut_point(context, window)
    if cut is None:
        assert len(blocks) <= 1
        return
    assert 0 < cut < len(context)
    assert valid(context[cut:])
    assert valid(context[:cut])


def test_the_newest_part_that_stays_is_a_fifth() -> None:
    """Of the window, or of the whole where that is less."""
    context = Context(asked("x" * 400) for _ in range(100))
    size = size_of(context[0])
    assert cut_point(context, 10 * size) == 98
    assert cut_point(context, 10_000_000) == 80


def test_a_last_entry_that_is_too_large_stays_all_the_same() -> None:
    """Something of the present always stays word for word."""
    assert cut_point(Context([asked("a"), said("b"), asked("x" * 10_000)]), 100) == 2


def test_the_gauge_believes_the_provider_and_estimates_only_what_is_new() -> None:
    """A count of the provider stands for everything up to its answer; a new epoch is counted afresh."""
    gauge = Gauge()
    context = Context([asked("x" * 4000), said("y")])
    checkpoint = Checkpoint(session_id="s", context=context)
    assert gauge.tokens(checkpoint) == size_of(context[0]) + size_of(context[1])
    gauge.measured(Usage(input_tokens=7, output_tokens=1), checkpoint)
    assert gauge.tokens(checkpoint) == 8
    longer = Checkpoint(session_id="s", context=context.append([asked("z" * 40)]))
    assert gauge.tokens(longer) == gauge.tokens(longer) == 8 + size_of(asked("z" * 40))
    gauge.measured(Usage(), longer)
    assert gauge.tokens(longer) == 8 + size_of(asked("z" * 40))
    assert gauge.tokens(Checkpoint(session_id="s", context_epoch=1, context=context[:1])) == size_of(context[0])


# ------------------------------------------------------------------------------------------------ on a running session


async def conversation(agent: Agent, turns: int = 5) -> None:
    for n in range(turns):
        await talk(agent, f"question {n}")


def answers(number: int) -> list[Any]:
    return [f"answer {n}" for n in range(number)]


async def test_a_person_may_ask_for_a_summary(store: SqliteStore) -> None:
    """The receipt comes after the commit; the newest part stays; the old epoch's rows stay on disk."""
    model = ScriptedModel([*answers(5), "what happened", "after"])
    async with agent_on(store, model) as agent:
        await conversation(agent)
        before = await stored(store)
        receipt = await agent.submit(ops.Compact(), "compact-1")
        assert receipt.status == "accepted"
        after = await stored(store)
        assert (after.context_epoch, after.context[0]) == (1, SystemMessage(text=HEADING + "what happened"))
        kept = after.context[1:]
        assert kept == before.context[-len(kept) :]
        assert 0 < len(kept) < len(before.context)
        (compacted,) = await journal(store, events.ContextCompacted)
        assert compacted == events.ContextCompacted(epoch=1, items_before=10, items_after=len(after.context))
        assert after.total_usage.input_tokens == before.total_usage.input_tokens + 10
        assert (await agent.submit(ops.Compact(), "compact-1")).status == "duplicate"
        await talk(agent, "go on")
        assert list(model.requests[-1].context)[:-1] == list(after.context)
    loaded = await stored(store)
    assert loaded.context[0] == after.context[0]


async def test_there_may_be_nothing_to_summarise(store: SqliteStore) -> None:
    """An empty conversation, or a hook that says no: a warning, and nothing changes."""

    class Keeps(Middleware):
        name = "keeps"

        async def pre_compact(self, context: HookContext) -> Stop:
            return Stop("kept for the record")

    model = ScriptedModel(answers(5))
    async with agent_on(store, model, middleware=[Keeps()]) as agent:
        assert (await agent.submit(ops.Compact())).reason == "there is nothing to summarise yet"
        await conversation(agent)
        assert "kept for the record" in ((await agent.submit(ops.Compact())).reason or "")
        assert (await stored(store)).context_epoch == 0
        assert len(model.requests) == 5


async def test_messages_wait_while_a_summary_is_made_and_a_close_does_not(store: SqliteStore) -> None:
    """What arrives meanwhile is durable, and has its turn after the new epoch."""
    model = BlockingModel("words")
    model.release.set()
    agent = await create_agent(config(store, model))
    await conversation(agent)
    model.release.clear()
    model.started.clear()
    asking = asyncio.ensure_future(agent.submit(ops.Compact()))
    await model.started.wait()
    assert (await agent.submit(ops.Message(text="next"))).disposition == "turn"
    assert len((await stored(store)).pending_messages) == 1
    model.release.set()
    assert (await asking).status == "accepted"
    await seen(agent, events.TurnComplete)
    await agent.idle()
    model.release.clear()
    model.started.clear()
    asking = asyncio.ensure_future(agent.submit(ops.Compact()))
    await model.started.wait()
    await agent.aclose()
    with pytest.raises(errors.AgentStopped):
        await asking
    assert (await stored(store)).context_epoch == 1


def full(_: Any) -> ModelReply:
    """An answer with which nine tenths of the window are used."""
    return ModelReply(parts=(TextPart(text="long"),), usage=Usage(input_tokens=90_000, output_tokens=10))


def full_call(_: Any) -> ModelReply:
    usage = Usage(input_tokens=90_000, output_tokens=10)
    return ModelReply(parts=(ToolCall(call_id="c1", name="work"),), usage=usage, end_turn=False)


async def test_the_context_is_summarised_by_itself_before_it_is_too_long(store: SqliteStore) -> None:
    """At the share of the window that is configured, between two steps of a turn, in a commit of its own."""
    model = ScriptedModel([*answers(4), full_call, "the summary", "done"])
    async with agent_on(store, model, tools=[Work()], approval_policy=FREE) as agent:
        await conversation(agent, 4)
        done = await talk(agent, "work")
        assert done.last_assistant_message == "done"
        left = await stored(store)
        assert left.context_epoch == 1
        assert left.context[0] == SystemMessage(text=HEADING + "the summary")
        assert valid(left.context)
        assert [request.session_id for request in model.requests[-2:]] == ["s/compaction", "s"]
        kinds = [event.kind for event in (await store.event_page("s", after=0, limit=1000)).events]
        at = kinds.index("context_compacted")
        assert kinds[at - 1] == "tool_call_end"
        assert kinds[at + 1] == "model_step_started"
        assert len(model.requests[-1].context) < len(model.requests[-3].context)


async def test_a_summary_that_gains_nothing_is_not_made_twice_in_a_turn(store: SqliteStore) -> None:
    """Where what stays is itself beyond the limit, the turn goes on as it is."""
    model = ScriptedModel([full, "summary", "answer"], context_window=40)
    async with agent_on(store, model, compact_at=0.5) as agent:
        await talk(agent, "x" * 400)
        await talk(agent, "y" * 400)
        assert len(await journal(store, events.ContextCompacted)) == 1


async def test_a_request_that_does_not_fit_is_shortened_once_and_asked_again(store: SqliteStore) -> None:
    """The same step index, another id; the second refusal fails the turn."""
    too_long = errors.ContextTooLong("100001 tokens")
    model = ScriptedModel([*answers(4), too_long, "the summary", "fits", too_long, "shorter", too_long])
    async with agent_on(store, model) as agent:
        await conversation(agent, 4)
        assert (await talk(agent, "more")).last_assistant_message == "fits"
        steps = (await journal(store, events.ModelStepStarted))[-2:]
        assert [step.step_index for step in steps] == [0, 0]
        await agent.submit(ops.Message(text="and more"))
        complaint = await seen(agent, events.Error)
        assert complaint.kind == "context_too_long"
        assert (await seen(agent, events.TurnAborted)).outcome == "failed"


async def test_where_not_even_a_summary_fits_the_rest_still_does(store: SqliteStore) -> None:
    """The oldest part is left out, and the context says so."""
    too_long = errors.ContextTooLong("100001 tokens")
    model = ScriptedModel([*answers(4), too_long, too_long, "fits"])
    async with agent_on(store, model) as agent:
        await conversation(agent, 4)
        assert (await talk(agent, "more")).last_assistant_message == "fits"
        first = (await stored(store)).context[0]
        assert isinstance(first, SystemMessage)
        assert "left out" in first.text


async def test_nothing_to_leave_out_fails_the_turn(store: SqliteStore) -> None:
    """One message that is too long for the window is told as that."""
    async with agent_on(store, ScriptedModel([errors.ContextTooLong("no")])) as agent:
        await agent.submit(ops.Message(text="x"))
        assert (await seen(agent, events.Error)).kind == "context_too_long"


async def test_a_summary_that_fails_costs_nothing_but_a_warning(store: SqliteStore) -> None:
    """By itself: the turn goes on with the context as it is. Asked for: the receipt says why."""
    model = ScriptedModel([*answers(4), full, errors.ModelRefused("no"), "done", errors.ModelRefused("no")])
    async with agent_on(store, model) as agent:
        await conversation(agent, 4)
        await talk(agent, "fill")
        assert (await talk(agent, "go on")).last_assistant_message == "done"
        (warning,) = await journal(store, events.Warning)
        assert "could not be summarised" in warning.message
        receipt = await agent.submit(ops.Compact())
        assert receipt.status == "rejected"
        assert "could not be summarised" in (receipt.reason or "")
        assert (await stored(store)).context_epoch == 0


async def test_a_summary_is_retried_like_any_call(store: SqliteStore) -> None:
    """A provider that is away for a moment does not prevent it."""
    model = ScriptedModel([*answers(3), errors.ModelUnavailable("down"), "summary"])
    async with agent_on(store, model, clock=EagerClock()) as agent:
        await conversation(agent, 3)
        assert (await agent.submit(ops.Compact())).status == "accepted"


async def test_a_turn_can_be_stopped_while_its_context_is_summarised(store: SqliteStore) -> None:
    """The summary is given up, and the context stays as it was."""
    blocking = BlockingModel()

    class ThenBlocks(ScriptedModel):
        async def step(self, request: Any, on_delta: Any) -> Any:
            if request.session_id.endswith("/compaction"):
                return await blocking.step(request, on_delta)
            return await super().step(request, on_delta)

    model = ThenBlocks([*answers(3), full])
    async with agent_on(store, model) as agent:
        await conversation(agent, 3)
        await talk(agent, "fill")
        await agent.submit(ops.Message(text="go on"))
        turn = await seen(agent, events.TurnStarted)
        await blocking.started.wait()
        await agent.submit(ops.Interrupt(turn_id=turn.turn_id))
        assert (await seen(agent, events.TurnAborted, timeout=20)).turn_id == turn.turn_id
        assert blocking.cancelled == 1
        assert (await stored(store)).context_epoch == 0


@pytest.mark.parametrize("commit_first", [False, True])
async def test_a_summary_whose_commit_fails_is_stored_whole_or_not_at_all(
    store: SqliteStore, commit_first: bool
) -> None:
    """Before the commit: the old epoch, and nobody was told. After it: the new one, adopted as ours."""
    faulty = FaultyStore(store, match=lambda checkpoint: checkpoint.context_epoch == 1, commit_first=commit_first)
    agent = await create_agent(config(faulty, ScriptedModel([*answers(3), "summary"])))
    await conversation(agent, 3)
    receipt = await agent.submit(ops.Compact(), "compact-1")
    assert faulty.fired
    assert receipt.status == ("accepted" if commit_first else "rejected")
    assert (await stored(store)).context_epoch == int(commit_first)
    assert (await store.receipt("compact-1") is not None) == commit_first
    await agent.aclose()


async def test_hooks_see_a_compaction(store: SqliteStore) -> None:
    """Before and after, once each."""
    order: list[str] = []

    class Notes(Middleware):
        name = "notes"

        async def pre_compact(self, context: HookContext) -> None:
            order.append("pre")

        async def post_compact(self, context: HookContext) -> None:
            order.append("post")

    async with agent_on(store, ScriptedModel([*answers(3), "summary"]), middleware=[Notes()]) as agent:
        await conversation(agent, 3)
        await agent.submit(ops.Compact())
    assert order == ["pre", "post"]


async def test_a_call_of_the_summary_is_ignored(store: SqliteStore) -> None:
    """The model may answer with a tool call all the same; without words there is no summary."""
    model = ScriptedModel([*answers(3), [call("c1")]])
    work = Work()
    async with agent_on(store, model, tools=[work], approval_policy=FREE) as agent:
        await conversation(agent, 3)
        assert (await agent.submit(ops.Compact())).status == "rejected"
        assert work.runs == []
