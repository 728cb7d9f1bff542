"""S-15: what runs is byte for byte what was shown. The executor takes the stored action, and compares its digest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from runtime import ApprovalPolicy, create_agent, events, ops
from runtime.protocol import Action, Approve, ApproveForSession, ApproveWith, Deny
from runtime.session.gate import Gate, Ticket
from runtime.store import SqliteStore
from runtime.testing import FakeClock, ScriptedModel
from runtime.tools.base import Tool, ToolContext
from tests.support.sessions import agent_on, call, config, open_store, results, seen, sql, stored

MUTATIONS: dict[str, Any] = {
    "tool": "other",
    "schema_hash": "0" * 16,
    "arguments": {"command": "rm -rf ."},
    "argv": ("rm", "-rf", "."),
    "cwd": "/",
    "environment": {"LD_PRELOAD": "x.so"},
    "stdin_hash": "0",
    "files": {"run.sh": "0"},
    "network": "host",
    "sandbox": "off",
    "timeout_seconds": 9999.0,
    "workspace_id": "another",
    "session_id": "another",
    "turn_id": "another",
    "requester": "another",
    "version": 99,
}


class Recording(Tool):
    """Shows everything that it would run, and notes what it ran."""

    name = "command"
    parameters: Any = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.ran: list[str] = []

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        full = {"argv": ("make", "test"), "cwd": "src", "environment": {"CI": "1"}, "stdin_hash": "e3b0"}
        return replace(super().action(arguments, context), **full, files={"run.sh": "abc"}, sandbox="strict")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        self.ran.append(self.action(arguments, context).digest())
        return "ran"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()


def test_every_field_of_an_action_is_in_its_digest() -> None:
    """A field that is added later is bound too, or this test fails: each of them changes the digest."""
    assert set(MUTATIONS) == {field.name for field in fields(Action)}
    action = Recording().action({"command": "make test"}, ToolContext(session_id="s", turn_id="t", call_id="c"))
    digests = {replace(action, **{name: value}).digest() for name, value in MUTATIONS.items()}
    assert len(digests | {action.digest()}) == len(MUTATIONS) + 1


def test_equal_actions_have_equal_digests_in_whatever_order_they_were_built() -> None:
    """The order of keys is no difference; a type is one: 1 is not "1", and nothing can be shifted between fields."""
    one = Action(tool="t", schema_hash="h", arguments={"a": 1, "b": {"x": 1, "y": 2}})
    other = Action(tool="t", schema_hash="h", arguments={"b": {"y": 2, "x": 1}, "a": 1})
    assert one.digest() == other.digest()
    assert one.digest() != replace(one, arguments={"a": "1", "b": {"x": 1, "y": 2}}).digest()
    assert replace(one, argv=("a b",)).digest() != replace(one, argv=("a", "b")).digest()


@pytest.mark.parametrize("name", MUTATIONS)
async def test_an_action_changed_in_memory_does_not_run(name: str) -> None:
    """Whoever holds the ticket: the executor recomputes the digest and refuses."""
    tool = Recording()
    gate = Gate(
        [tool], ApprovalPolicy.ASK, clock=FakeClock(), redact=str, output_limit=1000, new_reference=lambda: "REF"
    )
    context = ToolContext(session_id="s", turn_id="t", call_id="c")
    shown = tool.action({"command": "make test"}, context)
    changed = replace(shown, **{name: MUTATIONS[name]})
    ticket = Ticket(call_id="c", action=changed, digest=shown.digest(), idempotency_key="k", gated=True)
    assert await gate.changed_since(ticket, context, {}) == "digest_mismatch"
    result = await gate.invoke(ticket, context)
    assert (result.output, tool.ran) == ("approval no longer valid: digest_mismatch", [])


@pytest.mark.parametrize("name", MUTATIONS)
async def test_an_action_changed_on_disk_does_not_run(store: SqliteStore, name: str) -> None:
    """Between the question and the answer somebody edits the database: the approved call is refused, by name."""
    tool = Recording()
    model = ScriptedModel([[call("c1", "command", command="make test")], "done"])
    agent = await create_agent(config(store, model, tools=[tool]))
    await agent.submit(ops.Message(text="go"))
    asked = await seen(agent, events.ApprovalRequested)
    await agent.aclose()
    ((payload,),) = sql(store, "SELECT payload FROM approvals")
    row = json.loads(payload)
    row["actions"]["c1"][name] = MUTATIONS[name]
    sql(store, "UPDATE approvals SET payload = ?", json.dumps(row))
    async with agent_on(store, model, tools=[tool]) as again:
        await again.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        await seen(again, events.TurnComplete)
    assert results(await stored(store)) == {"c1": "approval no longer valid: digest_mismatch"}
    assert tool.ran == []


async def test_only_what_was_approved_ever_ran(store: SqliteStore) -> None:
    """Over a conversation with every kind of answer: the digests that ran are among those that were approved."""
    tool = Recording()
    commands = [f"command {n}" for n in range(6)]
    calls = [call(f"c{n}", "command", command=text) for n, text in enumerate(commands)]
    model = ScriptedModel([step for each in calls for step in ([each], "done")])
    answers = [
        Approve(),
        Deny("no"),
        ApproveForSession(),
        ApproveWith({"c3": {"command": "edited"}}),
        ApproveWith({}, {"c4": "no"}),
        Approve(),
    ]
    approved: set[str] = set()
    async with agent_on(store, model, tools=[tool]) as agent:
        for answer in answers:
            await agent.submit(ops.Message(text="go"))
            asked = await seen(agent, events.ApprovalRequested)
            await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=answer))
            kept = await store.approval("s", asked.request_id)
            assert kept is not None
            if kept.decision in ("approved", "approved_for_session", "edited"):
                approved |= set(kept.digests.values())
            await seen(agent, events.TurnComplete)
    assert len(tool.ran) == 4
    assert len(set(tool.ran)) == 4
    # A run computes its action anew; turn and requester are the same, so equal digests mean equal actions.
    assert set(tool.ran) <= approved


async def test_the_executor_never_sees_the_models_own_object(store: SqliteStore) -> None:
    """A model, or a hook, that changes its arguments after the question changes nothing that runs."""
    arguments: dict[str, Any] = {"command": "make test"}
    tool = Recording()
    ran: list[Any] = []

    async def run(given: Mapping[str, Any], context: ToolContext) -> str:
        ran.append(dict(given))
        return "ran"

    tool.run = run  # type: ignore[method-assign]
    model = ScriptedModel([[call("c1", "command", **arguments)], "done"])
    async with agent_on(store, model, tools=[tool]) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        asked.calls[0].arguments["command"] = "rm -rf ."  # type: ignore[index]
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=Approve()))
        await seen(agent, events.TurnComplete)
    assert ran == [{"command": "make test"}]
