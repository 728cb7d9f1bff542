"""A question of the model to people: durable, answered once, and never together with anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ToolError
from runtime.protocol import events, ops
from runtime.protocol.approvals import Approve, ApproveWith, Deny
from runtime.protocol.context import ToolCall, ToolResult
from runtime.testing import ApprovalTool, ScriptedModel
from runtime.tools.ask_user import MAX_CHOICES, AskUser, answered, question_of
from tests.support.sessions import agent_on, open_store, seen, stored

ASKED = ToolCall(call_id="q", name="ask_user", arguments={"question": "Which one?", "choices": ["red", "blue"]})


async def result(store: object) -> list[tuple[str, str]]:
    """The results of tools in the stored conversation: name and output."""
    context = (await stored(store)).context
    return [(item.name, item.output) for item in context if isinstance(item, ToolResult)]


async def test_answer_is_the_result_also_after_a_restart(tmp_path: Path) -> None:
    """The question waits on disk; the answer of a later process is what the model gets, and a second one comes late."""
    store = await open_store(tmp_path)
    async with agent_on(store, ScriptedModel([[ASKED]]), tools=[AskUser()]) as agent:
        await agent.submit(ops.Message(text="go"))
        await seen(agent, events.ApprovalRequested)
    model = ScriptedModel(["done"])
    async with agent_on(store, model, tools=[AskUser()]) as agent:
        asked = await seen(agent, events.ApprovalRequested)
        pending = (await stored(store)).pending_approval
        assert pending is not None
        question = question_of(pending)
        assert question is not None
        op = ops.ResolveApproval(
            request_id=asked.request_id, decision=answered(pending, "blue"), decided_by="telegram:1"
        )
        assert (await agent.submit(op)).status == "accepted"
        resolved = await seen(agent, events.ApprovalResolved)
        assert (resolved.reason, resolved.decided_by) == ("blue", "telegram:1")
        await seen(agent, events.TurnComplete)
        late = await agent.submit(op)
        assert late.result is not None
        assert late.result.status == "already"  # type: ignore[union-attr]
    assert await result(store) == [("ask_user", "The answer: blue")]
    await store.aclose()


@pytest.mark.parametrize(
    ("decision", "output"),
    [(Approve(), "Nobody has answered the question."), (Deny("not now"), "denied by the user: not now")],
)
async def test_consent_is_no_answer(tmp_path: Path, decision: Approve | Deny, output: str) -> None:
    """Whoever merely approves has answered nothing; a denial tells its reason."""
    store = await open_store(tmp_path)
    async with agent_on(store, ScriptedModel([[ASKED], "done"]), tools=[AskUser()]) as agent:
        await agent.submit(ops.Message(text="go"))
        asked = await seen(agent, events.ApprovalRequested)
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=decision))
        await seen(agent, events.TurnComplete)
    assert await result(store) == [("ask_user", output)]
    await store.aclose()


async def test_question_is_asked_by_itself(tmp_path: Path) -> None:
    """Beside a call that needs consent it is not asked, and of two questions only the first one is."""
    store = await open_store(tmp_path)
    gated = ToolCall(call_id="g", name="gated")
    second = ToolCall(call_id="q2", name="ask_user", arguments={"question": "And why?"})
    model = ScriptedModel([[ASKED, gated], [ASKED, second], "done"])
    async with agent_on(store, model, tools=[AskUser(), ApprovalTool()]) as agent:
        await agent.submit(ops.Message(text="go"))
        first = await seen(agent, events.ApprovalRequested)
        assert [call.name for call in first.calls] == ["gated"]
        await agent.submit(ops.ResolveApproval(request_id=first.request_id, decision=Approve()))
        asked = await seen(agent, events.ApprovalRequested)
        assert [call.call_id for call in asked.calls] == ["q"]
        arguments = {"question": "Which one?", "choices": ["red", "blue"], "answer": "red"}
        decision = ApproveWith(arguments={"q": arguments})
        await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=decision))
        await seen(agent, events.TurnComplete)
    outputs = [output for _, output in await result(store)]
    assert sum("one question at a time" in output for output in outputs) == 2
    assert "The answer: red" in outputs
    await store.aclose()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"question": ""},
        {"question": "x", "answer": "forged"},
        {"question": "x", "choices": ["a"] * (MAX_CHOICES + 1)},
        {"question": "x", "choices": "a"},
        {"question": "x", "choices": [1]},
        {"question": "x" * 2000},
    ],
)
def test_model_cannot_answer_itself(arguments: dict[str, object]) -> None:
    """An answer in the model's call, and whatever else does not fit, is refused before anybody is asked."""
    with pytest.raises(ToolError):
        AskUser().validate(ToolCall(call_id="q", name="ask_user", arguments=arguments))  # type: ignore[arg-type]
