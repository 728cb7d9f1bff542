"""S-30: a steer keeps its author, answers no question, and never makes a turn mightier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime import events, ops
from runtime.protocol import Approve, Boundary, Delivery, UserMessage
from runtime.store import SqliteStore
from runtime.testing import BlockingModel, ScriptedModel
from tests.support.sessions import Work, agent_on, call, condition, journal, open_store, results, seen, stored


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()


async def test_a_steer_that_says_approve_it_approves_nothing(store: SqliteStore) -> None:
    """Words decide nothing, whoever says them and however they are delivered."""
    tool = Work("gated")
    async with agent_on(store, ScriptedModel([[call("c1", "gated")], "done"]), tools=[tool]) as agent:
        await agent.submit(ops.Message(text="go", principal="ann"))
        asked = await seen(agent, events.ApprovalRequested)
        for delivery in (None, Delivery.STEER, Delivery.QUEUE):
            await agent.submit(ops.Message(text="approve it", principal="mallory", delivery=delivery))
        pending = (await stored(store)).pending_approval
        assert pending is not None
        assert pending.decision is None
        assert tool.runs == []
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        await condition(lambda: tool.runs)


async def test_a_steer_is_recorded_under_its_author(store: SqliteStore) -> None:
    """Author, principal and message id are in the context, the journal and the turn's list of people."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go", author="Ann", principal="ann-1"), "m-1")
        await model.started.wait()
        await agent.submit(ops.Message(text="and this", author="Bob", principal="bob-2"), "m-2")
        model.release.set()
        await seen(agent, events.TurnComplete)
    people = [item for item in (await stored(store)).context if isinstance(item, UserMessage)]
    assert [(item.id, item.author, item.principal) for item in people] == [
        ("m-1", "Ann", "ann-1"),
        ("m-2", "Bob", "bob-2"),
    ]
    entered = await journal(store, events.Message)
    assert [(message.delivery, message.principal) for message in entered] == [("turn", "ann-1"), ("steer", "bob-2")]


async def test_everybody_who_spoke_in_a_turn_is_checked_before_a_gated_call(store: SqliteStore) -> None:
    """Rights are those of the weakest: the check is told of all of them, also of one who spoke after the question."""
    told: list[tuple[str, ...]] = []

    async def recheck(action: Any, principals: tuple[str, ...], approved_by: str | None) -> str | None:
        told.append(principals)
        return "mallory may not use this" if "mallory" in principals else None

    blocking = BlockingModel()

    class Model(ScriptedModel):
        async def step(self, request: Any, on_delta: Any) -> Any:
            return await (super() if blocking.calls else blocking).step(request, on_delta)

    tool = Work("gated")
    model = Model([[call("c1", "gated")], "done"])
    async with agent_on(store, model, tools=[tool], recheck=recheck) as agent:
        await agent.submit(ops.Message(text="go", principal="ann"))
        await blocking.started.wait()
        await agent.submit(ops.Message(text="run it", principal="mallory"))
        blocking.release.set()
        asked = await seen(agent, events.ApprovalRequested)
        assert asked.requester == "ann"
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        await seen(agent, events.TurnComplete)
    assert told == [("ann", "mallory")]
    assert results(await stored(store)) == {"c1": "approval no longer valid: mallory may not use this"}
    assert tool.runs == []


@pytest.mark.parametrize("head_start", range(12))
async def test_a_steer_that_races_the_end_belongs_to_exactly_one_turn(store: SqliteStore, head_start: int) -> None:
    """It enters the turn before it ends, or has a turn of its own; never both, never none."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        await model.started.wait()
        model.release.set()
        for _ in range(head_start):
            await asyncio.sleep(0)
        await agent.submit(ops.Message(text="me too"), "m-2")
        await agent.idle()
    entered = [message for message in await journal(store, events.Message) if message.message_id == "m-2"]
    assert len(entered) == 1
    assert entered[0].turn_id in {record.turn_id for record in (await store.execution_page("s")).executions}
    assert (await stored(store)).pending_messages == ()


async def test_a_steer_for_a_turn_that_has_ended_is_refused(store: SqliteStore) -> None:
    """It named its turn, so it opens no other one."""
    async with agent_on(store, ScriptedModel(["done"])) as agent:
        await agent.submit(ops.Message(text="go"))
        done = await seen(agent, events.TurnComplete)
        receipt = await agent.submit(ops.Message(text="more", target_turn_id=done.turn_id))
        assert receipt.status == "rejected"
        assert "stale turn" in (receipt.reason or "")


async def test_a_stop_for_another_turn_stops_nothing(store: SqliteStore) -> None:
    """Nor does one that arrives late stop the turn after it."""
    model = BlockingModel()
    async with agent_on(store, model) as agent:
        await agent.submit(ops.Message(text="go"))
        turn = await seen(agent, events.TurnStarted)
        await model.started.wait()
        model.release.set()
        await seen(agent, events.TurnComplete)
        model.release.clear()
        model.started.clear()
        await agent.submit(ops.Message(text="next"))
        await model.started.wait()
        await agent.submit(ops.Interrupt(turn_id=turn.turn_id))
        assert (await stored(store)).active_execution is not None
        assert model.cancelled == 0
        model.release.set()
        await seen(agent, events.TurnComplete)


async def test_a_turn_that_is_stopped_hands_its_steers_to_nobody_else(store: SqliteStore) -> None:
    """They wait as messages of their authors, in their place."""
    model = BlockingModel()
    agent_options: dict[str, Any] = {}
    async with agent_on(store, model, **agent_options) as agent:
        await agent.submit(ops.Message(text="go", principal="ann"))
        turn = await seen(agent, events.TurnStarted)
        await model.started.wait()
        await agent.submit(ops.Message(text="bob's words", author="Bob", principal="bob"), "m-2")
        assert (await stored(store)).pending_messages[0].boundary == Boundary.steer(turn.turn_id)
        await agent.submit(ops.Interrupt(turn_id=turn.turn_id))
        model.release.set()
        await agent.idle()
    (own,) = [message for message in await journal(store, events.Message) if message.message_id == "m-2"]
    assert (own.author, own.principal, own.delivery) == ("Bob", "bob", "queue")
    assert own.turn_id != turn.turn_id
