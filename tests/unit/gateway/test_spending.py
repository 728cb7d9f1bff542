"""Spending: counted on disk, asked before each call, told in a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.spending import WHOLE
from gateway.spending import Budget, Metered, Purse, today
from runtime.config import AgentConfig
from runtime.errors import BudgetSpent, ModelUnavailable
from runtime.models.base import Model, ModelReply, ModelRequest, ModelRouter
from runtime.protocol import events, ops
from runtime.protocol.context import Context, TextPart, Usage, UserMessage
from runtime.session.agent import create_agent
from runtime.store.sqlite import SqliteStore
from runtime.testing import FakeClock, ScriptedModel

REQUEST = ModelRequest(context=Context([UserMessage(id="m", author="Ann", text="hello")]), session_id="s")
NOON_MS = 1_000_000_000_000 - 1_000_000_000_000 % 86_400_000 + 43_200_000
DAY_SECONDS = 86_400


def costing(usd: float) -> ModelReply:
    """An answer that costs so much."""
    return ModelReply(parts=(TextPart(text="ok"),), usage=Usage(input_tokens=100, output_tokens=10, cost_usd=usd))


class Waiting:
    """A model whose calls end when the test says so."""

    name, context_window = "waiting", 1000

    def __init__(self, usd: float) -> None:
        self.running = 0
        self.asked = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)
        self._usd = usd

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        self.running += 1
        self.asked.release()
        await self.go.acquire()
        self.running -= 1
        return costing(self._usd)


class World:
    """A database, a clock that stands at noon, and models that are metered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock(NOON_MS)

    async def open(self) -> None:
        components = {"gateway": files("gateway") / "migrations"}
        self.store = await SqliteStore.open(self.path, clock=self.clock, components=components)
        self.purse = Purse(self.store.database, self.clock)

    async def restart(self) -> None:
        await self.store.aclose()
        await self.open()

    def metered(
        self, model: Model, *, here: float = 0, everywhere: float = 0, binding: str = "telegram/*/*", slots: int = 64
    ) -> Metered:
        budgets = (Budget(binding=binding, usd=here), Budget(binding=WHOLE, usd=everywhere))
        return Metered(model, self.purse, asyncio.Semaphore(slots), bindings=(binding,), budgets=lambda: budgets)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world with nothing spent."""
    world = World(tmp_path / "state.db")
    await world.open()
    yield world
    await world.store.aclose()


async def asked(model: Metered) -> str:
    """`ok`, or why not."""
    try:
        await model.step(REQUEST, lambda delta: None)
    except BudgetSpent as error:
        return str(error)
    return "ok"


async def test_day_is_over_when_its_money_is(world: World) -> None:
    """Calls are made until the limit is reached; the refusal says how much, until when and what helps."""
    model = ScriptedModel([costing(0.4)] * 4)
    metered = world.metered(model, everywhere=1.0)
    assert [await asked(metered) for _ in range(3)] == ["ok", "ok", "ok"]
    refusal = await asked(metered)
    assert "1.20 of 1.00 USD in all conversations" in refusal
    assert "00:00 UTC" in refusal
    assert "an owner can raise" in refusal
    assert len(model.requests) == 3
    world.clock.advance(DAY_SECONDS / 2)
    assert await asked(metered) == "ok"


async def test_spending_survives_a_restart(world: World) -> None:
    """What was spent is on disk with the answer, and still counts in the next process."""
    await asked(world.metered(ScriptedModel([costing(0.9)])))
    await world.restart()
    assert await world.purse.today() == pytest.approx(0.9)
    assert "0.90 of 0.80 USD" in await asked(world.metered(ScriptedModel([]), everywhere=0.8))


async def test_binding_has_a_limit_of_its_own(world: World) -> None:
    """One binding's money is not another's; both are a part of the whole."""
    await asked(world.metered(ScriptedModel([costing(0.5)]), binding="slack/*/*"))
    here = world.metered(ScriptedModel([costing(0.5)]), here=0.4, everywhere=2.0)
    assert await asked(here) == "ok"
    assert "0.50 of 0.40 USD in the places of this binding" in await asked(here)
    assert await world.purse.today() == pytest.approx(1.0)
    assert await world.purse.today("slack/*/*") == pytest.approx(0.5)


async def test_calls_side_by_side_do_not_slip_through_the_last_cent(world: World) -> None:
    """With money for one call left, one of twenty calls is made, and the others are refused once it is paid for."""
    await asked(world.metered(ScriptedModel([costing(0.5)])))
    model = Waiting(0.5)
    metered = world.metered(model, everywhere=1.0)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(asked(metered)) for _ in range(20)]
        await model.asked.acquire()
        assert model.running == 1
        model.go.release()
    outcomes = [call.result() for call in calls]
    assert outcomes.count("ok") == 1
    assert sum("reached: 1.00 of 1.00" in one for one in outcomes) == 19


async def test_failed_and_cancelled_calls_hold_nothing(world: World) -> None:
    """What a call held is free again when it fails or is cancelled."""
    waiting = world.metered(Waiting(1.0), everywhere=1.0)
    task = asyncio.create_task(asked(waiting))
    await waiting._model.asked.acquire()  # type: ignore[attr-defined]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    failing = world.metered(ScriptedModel([ModelUnavailable("away"), costing(0.1)]), everywhere=1.0)
    with pytest.raises(ModelUnavailable):
        await asked(failing)
    assert await asked(failing) == "ok"


async def test_turns_take_turns(world: World) -> None:
    """No more calls run than there are slots; the others wait and are made after them."""
    model = Waiting(0.0)
    metered = world.metered(model, slots=2)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(asked(metered)) for _ in range(5)]
        for _ in range(2):
            await model.asked.acquire()
        assert model.running == 2
        for _ in range(3):
            model.go.release()
            await model.asked.acquire()
            assert model.running == 2
        model.go.release()
        model.go.release()
    assert [call.result() for call in calls] == ["ok"] * 5


async def test_lines_for_people(world: World) -> None:
    """/usage tells what was spent today, and of how much where there is a limit."""
    await asked(world.metered(ScriptedModel([costing(0.25)])))
    budgets: Sequence[Budget] = (Budget(binding="telegram/*/*", usd=0), Budget(binding=WHOLE, usd=2.0))
    assert await today(world.purse, budgets) == ["Today (UTC): $0.25 of $2.00 in all conversations"]
    both = (Budget(binding="telegram/*/*", usd=1.0), Budget(binding=WHOLE, usd=0))
    assert await today(world.purse, both) == [
        "Today (UTC): $0.25 of $1.00 in the places of this binding",
        "Today (UTC): $0.25 in all conversations",
    ]


async def test_turn_ends_with_the_sentence(world: World) -> None:
    """A turn that finds no money left ends failed, with the sentence for people, and asks nobody."""
    await asked(world.metered(ScriptedModel([costing(1.0)])))
    model = ScriptedModel(["never"])
    router = ModelRouter("m", world.metered(model, everywhere=1.0))
    agent = await create_agent(AgentConfig(models=router, store=world.store, session_id="s1", clock=world.clock))
    await agent.submit(ops.Message(text="hello"))
    await agent.idle()
    page = await world.store.event_page("s1", limit=50)
    [error] = [event.msg for event in page.events if isinstance(event.msg, events.Error)]
    assert error.message.startswith("The spending limit of the day is reached: 1.00 of 1.00 USD")
    assert model.requests == []
    await agent.aclose()
