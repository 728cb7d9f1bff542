"""S-15, S-16: a call of the same approval excuses no file but one that it has itself left so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime import AgentConfig, ModelRouter, Tool, ToolContext, create_agent, ops
from runtime.protocol import Action, Approve, ToolCall, events
from runtime.store.sqlite import SqliteStore
from runtime.testing import ScriptedModel


class Script(Tool):
    """Names a file in its action, and can be told to change it."""

    name = "script"
    description = "runs the script"
    parameters = {"type": "object", "properties": {}}

    def __init__(self, content: dict[str, str]) -> None:
        self.content = content
        self.ran: list[str] = []

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        """The action with the script as it is now."""
        return replace(super().action(arguments, context), files={"run.sh": self.content["run.sh"]})

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Run what is there."""
        self.ran.append(self.content["run.sh"])
        self.content["run.sh"] = str(arguments.get("leaves", self.content["run.sh"]))
        return "done"


async def approved(
    folder: Path, content: dict[str, str], tool: Script, *calls: ToolCall, meanwhile: str | None
) -> None:
    """Ask for the calls, change the script behind the approver's back, approve, and let the turn end."""
    store = await SqliteStore.open(folder / "s.db")
    model = ScriptedModel([list(calls), "finished"])
    agent = await create_agent(AgentConfig(models=ModelRouter("m", model), store=store, session_id="s", tools=[tool]))
    await agent.submit(ops.Message(text="go"))
    async with asyncio.timeout(30):
        async for event in agent.events():
            if isinstance(event.msg, events.ApprovalRequested):
                if meanwhile is not None:
                    content["run.sh"] = meanwhile
                await agent.submit(ops.ResolveApproval(request_id=event.msg.request_id, decision=Approve()))
            if isinstance(event.msg, events.TurnComplete):
                break
    await agent.aclose()
    await store.aclose()


async def test_a_refused_sibling_excuses_nothing(tmp_path: Path) -> None:
    """The script was rewritten after the card was shown: neither of the two calls that name it runs."""
    content = {"run.sh": "shown"}
    tool = Script(content)
    calls = [ToolCall(call_id="a", name="script"), ToolCall(call_id="b", name="script")]
    await approved(tmp_path, content, tool, *calls, meanwhile="rewritten")
    assert tool.ran == []


async def test_a_sibling_excuses_what_it_did_itself(tmp_path: Path) -> None:
    """A call that changed the script as approved does not spoil the call that was approved with it."""
    content = {"run.sh": "shown"}
    tool = Script(content)
    calls = [
        ToolCall(call_id="a", name="script", arguments={"leaves": "changed by a"}),
        ToolCall(call_id="b", name="script"),
    ]
    await approved(tmp_path, content, tool, *calls, meanwhile=None)
    assert tool.ran == ["shown", "changed by a"]
