"""S-33: a turn is bounded in steps, calls, tokens, time and output, and a stop by a person always wins."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime import ApprovalPolicy, SessionLimits, SpendLimits, Tool, ToolContext, events, ops
from runtime.models.base import ModelReply
from runtime.protocol import Delivery, ToolCall, Usage
from runtime.store import SqliteStore
from runtime.testing import FakeClock, ScriptedModel
from tests.support.sessions import Work, agent_on, call, condition, journal, open_store, results, seen, stored

FREE = ApprovalPolicy.ALLOW


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()


def endless(_: Any) -> ModelReply:
    usage = Usage(input_tokens=1000, output_tokens=10, cost_usd=0.1)
    return ModelReply(parts=(ToolCall(call_id="c", name="work"),), usage=usage, end_turn=False)


@pytest.mark.parametrize(
    ("options", "most_steps"),
    [
        ({"max_model_steps": 7}, 7),
        ({"limits": SpendLimits(tool_calls=7)}, 7),
        ({"limits": SpendLimits(tokens=7_000)}, 7),
        ({"limits": SpendLimits(cost_usd=0.65)}, 7),
        ({"session_limits": SessionLimits(tokens=7_000)}, 7),
        ({"session_limits": SessionLimits(cost_usd=0.65)}, 7),
    ],
)
async def test_a_model_that_always_calls_a_tool_is_ended_with_a_reason(
    store: SqliteStore, options: dict[str, Any], most_steps: int
) -> None:
    """At the limit, once, in words; and the session takes the next message."""
    model, work = ScriptedModel([endless] * 100, context_window=10_000_000), Work()
    async with agent_on(store, model, tools=[work], approval_policy=FREE, **options) as agent:
        await agent.submit(ops.Message(text="go"))
        aborted = await seen(agent, events.TurnAborted)
        assert aborted.outcome == "failed"
        assert any(digit.isdigit() for digit in aborted.reason)
        assert len(model.requests) <= most_steps
        assert len(work.runs) <= most_steps
        assert (await agent.submit(ops.Message(text="next"))).status == "accepted"


async def test_at_one_call_left_exactly_one_of_twenty_runs(store: SqliteStore) -> None:
    """The budget is taken before a call begins, not counted afterwards."""
    work = Work(parallel=True)
    model = ScriptedModel([[call(f"c{n}") for n in range(20)]])
    async with agent_on(store, model, tools=[work], approval_policy=FREE, limits=SpendLimits(tool_calls=1)) as agent:
        await agent.submit(ops.Message(text="go"))
        await seen(agent, events.TurnAborted)
    assert len(work.runs) == 1
    assert len(results(await stored(store))) == 20


class Sleeps(Tool):
    """Runs a process tree for a minute."""

    name = "sleeps"
    parameters: Any = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.group = 0
        self.started = asyncio.Event()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        program = "import os, time; os.fork(); os.fork(); os.write(1, b'x'); time.sleep(60)"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        self.group = process.pid
        try:
            assert process.stdout is not None
            await process.stdout.readexactly(4)
            self.started.set()
            await process.wait()
            return "woke up"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def living_in(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(entry.name))
    return found


async def test_a_stop_ends_a_long_tool_and_everything_it_started(store: SqliteStore) -> None:
    """Within two seconds no process of it is left, and the stop wins over steers that came before it."""
    tool = Sleeps()
    async with agent_on(
        store, ScriptedModel([[call("c1", "sleeps")], "next"]), tools=[tool], approval_policy=FREE
    ) as a:
        await a.submit(ops.Message(text="go"))
        turn = await seen(a, events.TurnStarted)
        await tool.started.wait()
        assert len(living_in(tool.group)) == 4
        await a.submit(ops.Message(text="rather this", delivery=Delivery.STEER))
        await a.submit(ops.Interrupt(turn_id=turn.turn_id))
        await seen(a, events.TurnAborted, timeout=20.0)
        await condition(lambda: not living_in(tool.group), timeout=20.0)
        entered = await seen(a, events.Message)
        assert entered.delivery == "queue"


async def test_a_stop_cancels_the_question_that_is_open(store: SqliteStore) -> None:
    """The request is closed with the turn, and nobody can answer it any more."""
    tool = Work("gated")
    async with agent_on(store, ScriptedModel([[call("c1", "gated")]]), tools=[tool]) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        await agent.submit(ops.Interrupt(turn_id=asked.turn_id))
        await seen(agent, events.TurnAborted, timeout=20.0)
        assert [closed.decision for closed in await journal(store, events.ApprovalResolved)] == ["interrupted"]


async def test_a_turn_has_only_so_much_time_and_output(store: SqliteStore) -> None:
    """Wall time is counted on the clock; what a tool prints is cut before it is stored."""
    clock, work = FakeClock(), Work(output="x" * 100_000, hold=True)
    model = ScriptedModel([[call("c1")], "never"])
    options: dict[str, Any] = {"clock": clock, "limits": SpendLimits(seconds=10), "tool_output_limit": 1000}
    async with agent_on(store, model, tools=[work], approval_policy=FREE, **options) as agent:
        await agent.submit(ops.Message(text="go"))
        await work.started.wait()
        clock.advance(11)
        work.release.set()
        await seen(agent, events.TurnAborted)
    assert len(results(await stored(store))["c1"]) < 1200
    assert len(model.requests) == 1


async def test_a_waiting_queue_is_bounded(store: SqliteStore) -> None:
    """Somebody who writes without end fills his queue and no more."""
    tool = Work("gated")
    model = ScriptedModel([[call("c1", "gated")]])
    async with agent_on(store, model, tools=[tool], queue_limit=8) as agent:
        await agent.submit(ops.Message(text="go"))
        await seen(agent, events.ApprovalRequested)
        receipts = [await agent.submit(ops.Message(text=str(n))) for n in range(50)]
        assert sum(receipt.status == "accepted" for receipt in receipts) == 8
        assert len((await stored(store)).pending_messages) == 8
