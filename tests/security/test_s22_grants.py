"""S-22 and S-23: "once" is once, "for this session" is exactly that action, and no text of a command allows itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.schedules.tool import ScheduleTask
from runtime import ApprovalPolicy, events, ops
from runtime.protocol import Action, Approve, ToolCall
from runtime.session.gate import Ask, Gate
from runtime.store import SqliteStore
from runtime.testing import FakeClock, ScriptedModel
from runtime.tools.base import ToolContext
from runtime.tools.fetch import FetchUrl
from runtime.tools.shell import Shell, shell_tool
from tests.security.workspaces import make_workspace
from tests.support.sessions import Work, agent_on, call, open_store, seen
from tests.unit.runtime.test_gate import grant

ACTION = Action(
    tool="work", schema_hash="h", arguments={"a": 1}, argv=("x",), cwd=".", environment={"A": "1"}, stdin_hash="s",
    files={"f": "0"}, sandbox="default", network="none", timeout_seconds=5.0, workspace_id="w", session_id="s",
    turn_id="t", requester="ann",
)  # fmt: skip

# What another value of each field may be. A field without a row here fails the test below.
OTHERS: dict[str, Any] = {
    "tool": "other", "schema_hash": "i", "arguments": {"a": 2}, "argv": ("y",), "cwd": "sub", "environment": {"A": "2"},
    "stdin_hash": "t", "files": {"f": "1"}, "sandbox": "other", "network": "host", "timeout_seconds": 6.0,
    "workspace_id": "v", "session_id": "r", "turn_id": "u", "requester": "bob", "version": 2,
}  # fmt: skip
NOT_BOUND = {"turn_id", "requester"}

TRICKS = [
    "pytest -q", "pytest -q -p evil", 'sh -c "pytest -q"', "env pytest -q", "env -S 'pytest -q'", "busybox sh",
    "echo x | node", "r\"\"m -rf x", "pytest -q; rm x", "pytest -q && rm x", "pytest -q\nrm x", "$(rm x)", "`rm x`",
    "pytest -q > /dev/null", "pytest -q # rm", "cat <<E\nE", "xargs rm", "find . -exec rm {} +", "git status",
    "pip install x", "curl x", "python -c 1", "A=1 pytest -q", "p*test -q", "{pytest,-q}", "~/x", "! pytest -q",
    "pytest -q &", "pytest\t-q", "pytest -q ", " pytest -q", "PYTEST -q", "pytest -q\x00", "pytest\u200b -q", "-q",
]  # fmt: skip


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()


def gate_of(tool: Any) -> Gate:
    """A gate that asks for everything."""
    return Gate([tool], ApprovalPolicy.ASK, clock=FakeClock(), redact=str, output_limit=1000, new_reference=lambda: "r")


@pytest.mark.parametrize("name", [field.name for field in fields(Action)])
def test_a_grant_is_bound_to_every_field(name: str) -> None:
    """Another value of any field but turn and requester is another grant."""
    other = replace(ACTION, **{name: OTHERS[name]})
    assert other.digest() != ACTION.digest()
    assert (other.grant_digest() == ACTION.grant_digest()) is (name in NOT_BOUND)


async def test_once_is_once(store: SqliteStore) -> None:
    """The very same call, approved a moment ago, is asked for again: in the same turn and in the next."""
    tool = Work("gated")
    model = ScriptedModel([[call("c1", "gated")], [call("c2", "gated")], "done", [call("c3", "gated")], "done"])
    asked: list[str] = []
    async with agent_on(store, model, tools=[tool]) as agent:
        for expected in (2, 1):
            await agent.submit(ops.Message(text="go"))
            for _ in range(expected):
                request = await seen(agent, events.ApprovalRequested)
                asked.append(request.request_id)
                assert len(tool.runs) == len(asked) - 1
                await agent.submit(ops.ResolveApproval(request_id=request.request_id, decision=Approve()))
            await seen(agent, events.TurnComplete)
        assert await store.grants("s") == ()
    assert len(set(asked)) == len(tool.runs) == 3


def test_what_reaches_beyond_the_workspace_is_never_granted() -> None:
    """Programs, the network and what lasts: such a tool is approved once at a time."""
    assert Shell.high_risk
    assert FetchUrl.high_risk
    assert ScheduleTask.high_risk


@pytest.mark.parametrize("command", TRICKS)
async def test_no_command_is_allowed_by_its_text(command: str, tmp_path: Path) -> None:
    """Whatever a command looks like, and whatever was granted before: it is asked for, or refused."""
    tool, context = shell_tool(), make_workspace(tmp_path)
    gate = gate_of(tool)
    granted = [grant(await _action(gate, text, context)) for text in ("pytest -q", command.strip("\x00"))]
    asked = ToolCall(call_id="c", name="shell", arguments={"command": command})
    verdict = await gate.authorise(asked, context, granted, 0)
    assert isinstance(verdict, Ask) or type(verdict).__name__ == "Refuse"


async def _action(gate: Gate, command: str, context: ToolContext) -> Action:
    verdict = await gate.authorise(ToolCall(call_id="c", name="shell", arguments={"command": command}), context, (), 0)
    assert isinstance(verdict, Ask)
    return verdict.action
