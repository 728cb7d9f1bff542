"""S-21: a tool is reached through the gate or not at all, on every path that leads to a call."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime import ApprovalPolicy, Middleware, create_agent, events, ops
from runtime.middleware import Continue, HookContext, Rewrite
from runtime.protocol import (
    ActiveExecution,
    Approve,
    AssistantMessage,
    Boundary,
    Checkpoint,
    Delivery,
    PendingTool,
    QueuedMessage,
    UserMessage,
)
from runtime.store import SqliteStore
from runtime.testing import BlockingModel, ScriptedModel
from tests.architecture.sources import ROOT, source_modules
from tests.support.sessions import Work, agent_on, call, config, open_store, results, seen, stored


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()


async def foreground(store: SqliteStore, tool: Work) -> Any:
    agent = await create_agent(config(store, ScriptedModel([[call("c1", "gated")]]), tools=[tool]))
    await agent.submit(ops.Message(text="go"))
    return agent


async def steered(store: SqliteStore, tool: Work) -> Any:
    blocking = BlockingModel()

    class Model(ScriptedModel):
        async def step(self, request: Any, on_delta: Any) -> Any:
            if not blocking.calls:
                return await blocking.step(request, on_delta)
            return await super().step(request, on_delta)

    agent = await create_agent(config(store, Model([[call("c1", "gated")]]), tools=[tool]))
    await agent.submit(ops.Message(text="go"))
    await blocking.started.wait()
    await agent.submit(ops.Message(text="do that", delivery=Delivery.STEER))
    blocking.release.set()
    return agent


async def queued(store: SqliteStore, tool: Work) -> Any:
    message = QueuedMessage(id="m", boundary=Boundary.queue(), author="ann", text="go")
    await store.save(replace(Checkpoint.empty("s"), sequence=1, model_route="main", pending_messages=(message,)))
    return await create_agent(config(store, ScriptedModel([[call("c1", "gated")]]), tools=[tool]))


def stopped_at(state: Any) -> Checkpoint:
    gated = call("c1", "gated")
    active = ActiveExecution(submission_id="m", turn_id="t", started_at_ms=1, next_model_step=1)
    return replace(
        Checkpoint.empty("s"),
        sequence=1,
        model_route="main",
        context=(UserMessage(id="m", author="ann", text="go"), AssistantMessage(parts=(gated,))),
        active_execution=active,
        pending_tools=(PendingTool(call=gated, state=state, idempotency_key="k"),),
    )


async def resumed(store: SqliteStore, tool: Work) -> Any:
    await store.save(stopped_at("pending"))
    return await create_agent(config(store, ScriptedModel([]), tools=[tool]))


async def repeated(store: SqliteStore, tool: Work) -> Any:
    """A call that may be run again after a crash: it was approved once, and that approval is used up."""
    tool.replay = "by_key"
    await store.save(stopped_at("started"))
    return await create_agent(config(store, ScriptedModel([]), tools=[tool]))


class Hook(Middleware):
    name = "hook"

    async def pre_tool_use(self, context: HookContext) -> Rewrite:
        return Rewrite({"rewritten": True})

    async def stop(self, context: HookContext) -> Continue:
        return Continue("now call it")


async def rewritten(store: SqliteStore, tool: Work) -> Any:
    model = ScriptedModel([[call("c1", "gated")]])
    agent = await create_agent(config(store, model, tools=[tool], middleware=[Hook()]))
    await agent.submit(ops.Message(text="go"))
    return agent


async def one_more_step(store: SqliteStore, tool: Work) -> Any:
    model = ScriptedModel(["done?", [call("c1", "gated")]])
    agent = await create_agent(config(store, model, tools=[tool], middleware=[Hook()]))
    await agent.submit(ops.Message(text="go"))
    return agent


async def unattended(store: SqliteStore, tool: Work) -> Any:
    """A policy that allows everything does not allow a tool that always asks."""
    tool.approval = "always"
    model = ScriptedModel([[call("c1", "gated")]])
    agent = await create_agent(config(store, model, tools=[tool], approval_policy=ApprovalPolicy.ALLOW))
    await agent.submit(ops.Message(text="go"))
    return agent


PATHS = [foreground, steered, queued, resumed, repeated, rewritten, one_more_step, unattended]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
async def test_every_path_to_a_gated_tool_asks(store: SqliteStore, path: Any) -> None:
    """Whatever led to the call: a person is asked before it, and it has not run."""
    tool = Work("gated")
    agent = await path(store, tool)
    asked = await seen(agent, events.ApprovalRequested)
    assert [each.name for each in asked.calls] == ["gated"]
    assert tool.runs == []
    assert (await stored(store)).pending_tools[0].state == "pending"
    await agent.aclose()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
async def test_every_path_to_a_denied_tool_is_refused(store: SqliteStore, path: Any) -> None:
    """Where the policy denies, no path gets around it."""
    tool = Work("gated")
    agent = await path(store, tool)
    await agent.aclose()
    model = ScriptedModel(["done"] * 3)
    async with agent_on(store, model, tools=[tool], approval_policy=ApprovalPolicy.DENY) as again:
        left = await stored(store)
        if left.pending_approval is not None:  # it was asked before the policy was tightened
            request_id = left.pending_approval.request_id
            await again.submit(ops.ResolveApproval(request_id=request_id, decision=Approve()))
        await again.idle()
        assert tool.runs == []
        assert "blocked by policy" in results(await stored(store)).get("c1", "blocked by policy")


def calls_of(tree: ast.AST, attribute: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == attribute
    ]


def test_only_the_gate_runs_a_tool() -> None:
    """In the source: `tool.run(…)` stands in the gate and nowhere else, and nobody but the gate holds tools."""
    runners = {
        module.path
        for module in source_modules("runtime", "gateway", "adapters")
        for node in calls_of(module.tree, "run")
        if isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"tool", "each_tool", "found"}
    }
    assert runners == {"runtime/session/gate.py"}
    session = {path.name: path.read_text().count("config.tools") for path in (ROOT / "runtime/session").glob("*.py")}
    holders = {name: count for name, count in session.items() if count}
    assert holders == {"state.py": 1}, "the session hands its tools to the gate, and keeps none"
    assert "config.tools," in (ROOT / "runtime/session/state.py").read_text()


PROCESS_STARTERS = {"subprocess", "pty", "multiprocessing"}
STARTING_CALLS = {"create_subprocess_exec", "create_subprocess_shell"}
STARTING_CALLS_OF_OS = {"posix_spawn", "posix_spawnp", "fork", "forkpty", "system", "popen", "execv", "execve"}


def test_only_tools_start_processes() -> None:
    """The session's own code can start nothing: what runs a program is a tool, behind the gate."""
    for module in source_modules("runtime"):
        if module.path.startswith("runtime/tools/"):
            continue
        imported = {
            name.name.partition(".")[0]
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Import)
            for name in node.names
        } | {
            (node.module or "").partition(".")[0] for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom)
        }
        assert not imported & PROCESS_STARTERS, module.path
        assert not [name for name in STARTING_CALLS if calls_of(module.tree, name)], module.path
        assert not [name for name in STARTING_CALLS_OF_OS if _of_os(calls_of(module.tree, name))], module.path


def _of_os(calls: list[ast.Call]) -> list[ast.Call]:
    return [
        each
        for each in calls
        if isinstance(each.func, ast.Attribute) and isinstance(each.func.value, ast.Name) and each.func.value.id == "os"
    ]
