"""What a durable turn costs, in counts that no busy machine changes: commits, rows, bytes, tasks, descriptors."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime import Agent, ApprovalPolicy, ops
from runtime.protocol import AssistantMessage, Checkpoint, TextPart, ToolResult, UserMessage
from runtime.store import SqliteStore
from runtime.testing import CountingModel, ScriptedModel
from tests.support.sessions import Work, agent_on, call, condition, sql

ROOT = Path(__file__).parents[2]
TABLES = ("context_items", "event_journal", "execution_journal", "receipts", "tool_calls", "pending_messages")


class Commits:
    """Counts the commits of a store."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()

    def reach(self, point: str) -> None:
        """Count it."""
        self.passed[point] += 1

    @property
    def number(self) -> int:
        return self.passed["store.after_commit"]


def model(turns: int) -> ScriptedModel:
    steps = [step for n in range(turns) for step in ([call(f"c{n}")], "the answer")]
    return ScriptedModel(steps, context_window=100_000_000)  # so that no history is summarised


async def with_history(store: SqliteStore, length: int) -> None:
    pair = (UserMessage(id="m", author="ann", text="x" * 80), AssistantMessage(parts=(TextPart(text="y" * 80),)))
    context = tuple(pair[n % 2] for n in range(length))
    await store.save(replace(Checkpoint.empty("s"), sequence=1, model_route="main", context=context))


def written() -> int:
    """Bytes that this process has written until now."""
    return int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])


async def test_a_turn_with_a_tool_is_five_commits(tmp_path: Path) -> None:
    """Accept; take and step; answer and tool; result and step; answer and end. No more rows than there is to tell."""
    commits = Commits()
    store = await SqliteStore.open(tmp_path / "sessions.db", faults=commits)
    async with agent_on(store, model(2), tools=[Work()], approval_policy=ApprovalPolicy.ALLOW) as agent:
        await agent.submit(ops.Message(text="warm up"), "m-0")
        await agent.idle()
        before = commits.number, {name: rows(store, name) for name in TABLES}
        await agent.submit(ops.Message(text="hello"), "m-1")
        await agent.idle()
        assert commits.number - before[0] == 5
        added = {name: rows(store, name) - before[1][name] for name in TABLES}
        assert added == {
            "context_items": 4,
            "event_journal": 13,
            "execution_journal": 1,
            "receipts": 1,
            "tool_calls": 1,
            "pending_messages": 0,
        }
    await store.aclose()


def rows(store: SqliteStore, table: str) -> int:
    return sql(store, f"SELECT count(*) FROM {table}")[0][0]


async def test_an_approval_costs_two_commits_more(tmp_path: Path) -> None:
    """The decision, and the start of the call, which must be stored before its effect."""
    from runtime import events
    from runtime.protocol import Approve
    from tests.support.sessions import seen

    commits = Commits()
    store = await SqliteStore.open(tmp_path / "sessions.db", faults=commits)
    async with agent_on(store, model(1), tools=[Work()]) as agent:
        before = commits.number
        await agent.submit(ops.Message(text="hello"))
        asked = await seen(agent, events.ApprovalRequested)
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        await agent.idle()
        assert commits.number - before == 7
    await store.aclose()


async def bytes_of_a_turn(folder: Path, length: int) -> float:
    folder.mkdir()
    store = await SqliteStore.open(folder / "sessions.db")
    await with_history(store, length)
    turns = 12
    options: dict[str, Any] = {"tools": [Work()], "approval_policy": ApprovalPolicy.ALLOW, "initial_replay_batches": 0}
    async with agent_on(store, model(turns + 2), **options) as agent:
        for _ in range(2):
            await agent.submit(ops.Message(text="warm up"))
            await agent.idle()
        before = written()
        for _ in range(turns):
            await agent.submit(ops.Message(text="hello"))
            await agent.idle()
        cost = (written() - before) / turns
    await store.aclose()
    return cost


async def test_bytes_do_not_grow_with_the_history(tmp_path: Path) -> None:
    """At 5,000 messages a turn writes at most a fifth more than at 12."""
    short, long = await bytes_of_a_turn(tmp_path / "short", 12), await bytes_of_a_turn(tmp_path / "long", 5_000)
    assert long <= 1.2 * short, (short, long)


async def test_turns_of_many_sessions_share_their_commits(tmp_path: Path) -> None:
    """At fifty sessions at once, a turn costs less than one commit of its own."""
    from runtime import AgentConfig, ModelRouter, Runtime

    commits = Commits()
    store = await SqliteStore.open(tmp_path / "sessions.db", faults=commits)

    def recipe(session_id: str) -> AgentConfig:
        return AgentConfig(
            models=ModelRouter("main", model(1)),
            store=store,
            session_id=session_id,
            tools=[Work()],
            approval_policy=ApprovalPolicy.ALLOW,
        )

    runtime = Runtime(recipe, store)
    await asyncio.gather(*(runtime.open(f"s{n}") for n in range(50)))
    before = commits.number
    await asyncio.gather(*(runtime.submit(f"s{n}", ops.Message(text="hello")) for n in range(50)))
    await runtime.at_rest()
    assert (commits.number - before) / 50 < 1
    await runtime.aclose()
    await store.aclose()


async def test_an_idle_session_holds_no_descriptor_and_one_task(tmp_path: Path) -> None:
    """However many are open: files and connections are the store's; a session at rest is its loop, and no timer."""
    from runtime import AgentConfig, ModelRouter, create_agent

    store = await SqliteStore.open(tmp_path / "sessions.db")

    async def opened(session_id: str) -> Agent:
        models = ModelRouter("main", CountingModel())
        agent = await create_agent(AgentConfig(models=models, store=store, session_id=session_id))
        await agent.idle()
        return agent

    first = await opened("first")  # the store's connections open their files when they are first used
    descriptors = len(os.listdir("/proc/self/fd"))
    agents = [await opened(f"s{n}") for n in range(40)]
    assert len(os.listdir("/proc/self/fd")) == descriptors
    await condition(lambda: len(asyncio.all_tasks()) == 1 + 41)  # this test, and one loop per session
    for agent in (first, *agents):
        await agent.aclose()
    await condition(lambda: len(asyncio.all_tasks()) == 1)
    await store.aclose()


async def test_the_model_is_handed_the_history_without_a_copy(tmp_path: Path) -> None:
    """A request at 5,000 messages shares the items of the one before: nothing is built anew per step."""
    store = await SqliteStore.open(tmp_path / "sessions.db")
    await with_history(store, 5_000)
    scripted = model(1)
    async with agent_on(store, scripted, tools=[Work()], approval_policy=ApprovalPolicy.ALLOW) as agent:
        await agent.submit(ops.Message(text="hello"))
        await agent.idle()
    first, second = (request.context for request in scripted.requests)
    assert isinstance(second[-1], ToolResult)
    assert all(one is other for one, other in zip(first, second, strict=False))
    await store.aclose()


@pytest.mark.parametrize("module", ["aiosqlite", "sqlite3", "pydantic"])
def test_importing_the_runtime_loads_no_library_it_may_not_need(module: str) -> None:
    """The database driver comes with the store, pydantic with typed functions as tools."""
    program = f"import runtime, sys; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
