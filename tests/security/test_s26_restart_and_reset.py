"""S-26: an approval outlives its process and not its session; what may have run is never run again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime import ApprovalPolicy, create_agent, events, ops
from runtime.protocol import Approve, ToolCall
from runtime.store import SqliteStore
from runtime.testing import FakeClock, FaultyStore, ScriptedModel
from tests.support.sessions import Work, agent_on, call, config, journal, open_store, results, seen, stored


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()


def script() -> ScriptedModel:
    return ScriptedModel([[call("c1", "gated")], "done"])


async def ask_and_close(store: SqliteStore, model: ScriptedModel, tool: Work, **options: Any) -> str:
    """A session that waits for a person, and whose process is gone; the id of its request."""
    agent = await create_agent(config(store, model, tools=[tool], **options))
    await agent.submit(ops.Message(text="go", principal="requester"))
    asked = await seen(agent, events.ApprovalRequested)
    await agent.aclose()
    return asked.request_id


def approve(request_id: str) -> ops.ResolveApproval:
    return ops.ResolveApproval(request_id=request_id, decision=Approve(), decided_by="approver")


async def test_the_same_button_works_after_a_restart(store: SqliteStore) -> None:
    """The id that was shown before the restart resumes the same turn."""
    tool, model = Work("gated"), script()
    request_id = await ask_and_close(store, model, tool)
    turn = (await stored(store)).active_execution
    async with agent_on(store, model, tools=[tool]) as agent:
        receipt = await agent.submit(approve(request_id))
        assert getattr(receipt.result, "status", None) == "resolved"
        done = await seen(agent, events.TurnComplete)
    assert turn is not None
    assert done.turn_id == turn.turn_id
    assert len(tool.runs) == 1


async def test_an_approval_that_expired_while_the_process_was_away_runs_nothing(store: SqliteStore) -> None:
    """Its time went on; the press is told, and so is the model."""
    tool, model, clock = Work("gated"), script(), FakeClock()
    options: dict[str, Any] = {"clock": clock, "approval_timeout_seconds": 60}
    request_id = await ask_and_close(store, model, tool, **options)
    clock.advance(61)
    async with agent_on(store, model, tools=[tool], **options) as agent:
        await seen(agent, events.TurnComplete)
        receipt = await agent.submit(approve(request_id))
        assert getattr(receipt.result, "status", None) == "expired"
    assert results(await stored(store)) == {"c1": "approval expired"}
    assert tool.runs == []


async def no_more(action: Any, principals: tuple[str, ...], approved_by: str | None) -> str | None:
    return "the approver's right was taken away"


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ({"tools": []}, "tool is gone"),
        ({"tools": [Work("gated", description="does more now")]}, "tool has changed"),
        ({"tools": [Work("gated")], "approval_policy": ApprovalPolicy.DENY}, "blocked by policy"),
        ({"tools": [Work("gated")], "recheck": no_more}, "the approver's right was taken away"),
    ],
)
async def test_everything_is_checked_again_before_it_runs(store: SqliteStore, later: dict[str, Any], why: str) -> None:
    """Tool, schema, policy and rights as they are now, not as they were when the question was asked."""
    model = script()
    request_id = await ask_and_close(store, model, Work("gated"))
    async with agent_on(store, model, **later) as agent:
        await agent.submit(approve(request_id))
        await seen(agent, events.TurnComplete)
    assert results(await stored(store)) == {"c1": f"approval no longer valid: {why}"}
    assert [tool.runs for tool in later["tools"]] in ([], [[]])


@pytest.mark.parametrize("end", ["retire", "interrupt", "delete"])
async def test_a_press_after_the_end_runs_nothing(store: SqliteStore, end: str) -> None:
    """After `/new`, after a stop, after deletion: the request is closed, and a press finds that out."""
    tool, model = Work("gated"), script()
    async with agent_on(store, model, tools=[tool]) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        if end == "retire":
            await agent.submit(ops.Retire(by="ann", reason="/new"))
        else:
            await agent.submit(ops.Interrupt(turn_id=asked.turn_id))
        await agent.idle()
        receipt = await agent.submit(approve(asked.request_id))
        assert getattr(receipt.result, "status", None) == "already"
        (closed,) = await journal(store, events.ApprovalResolved)
        assert closed.decision == ("invalidated" if end == "retire" else "interrupted")
    if end == "delete":
        await store.delete("s")
        async with agent_on(store, model, tools=[tool]) as agent:
            receipt = await agent.submit(approve(asked.request_id))
            assert getattr(receipt.result, "status", None) == "unknown"
    assert tool.runs == []


@pytest.mark.parametrize("commit_first", [False, True])
@pytest.mark.parametrize("at", range(1, 9))
async def test_whichever_save_is_lost_the_call_runs_at_most_once(
    store: SqliteStore, at: int, commit_first: bool
) -> None:
    """The n-th save fails before or after its commit; start again and press again until the turn has ended."""
    tool = Work("gated")
    model = ScriptedModel(scripted)
    faulty: Any = FaultyStore(store, at=at, commit_first=commit_first)
    for attempt in range(3):
        agent = await create_agent_or_none(faulty if attempt == 0 else store, model, tool)
        if agent is None:
            continue
        await agent.submit(ops.Message(text="go"), "m-1")
        while not agent.ended and (await stored(store)).active_execution is None and not await over(store):
            await agent.next_event(timeout=30)
        while not agent.ended and not await over(store):
            approval = (await stored(store)).pending_approval
            if approval is not None and approval.decision is None:
                await agent.submit(approve(approval.request_id))
            elif await agent.next_event(timeout=30) is None:
                break
        await agent.aclose()
    assert await over(store)
    assert len(tool.runs) <= 1
    (record,) = (await store.execution_page("s")).executions
    assert record.submission_id == "m-1"


def scripted_step(request: Any) -> Any:
    """A call first, an answer once its result is there."""
    asked = any(isinstance(part, ToolCall) for item in request.context for part in getattr(item, "parts", ()))
    return "done" if asked else [call("c1", "gated")]


scripted = [scripted_step] * 20


async def over(store: SqliteStore) -> bool:
    return bool((await store.execution_page("s")).executions)


async def create_agent_or_none(store: Any, model: Any, tool: Work) -> Any:
    from runtime.errors import CheckpointError

    options: dict[str, Any] = {"on_interrupted_step": "retry", "on_uncertain_tools": "continue"}
    try:
        return await create_agent(config(store, model, tools=[tool], **options))
    except CheckpointError:
        return None
