"""The demo model in real sessions: real tools, real approvals, a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runtime import Agent, AgentConfig, ApprovalPolicy, ModelRouter, Workspace, create_agent, events, ops
from runtime.models.demo import DemoModel
from runtime.models.demo_plan import NOTICE
from runtime.protocol.approvals import Approve, ApproveWith, Decision, Deny
from runtime.store.sqlite import SqliteStore
from runtime.tools.files import workspace_tools

NOTE = "note in todo.txt that the release is on Friday"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    (tmp_path / "workspace").mkdir()
    return Workspace(id="w1", label="work", path=tmp_path / "workspace")


@asynccontextmanager
async def session(tmp_path: Path, workspace: Workspace, policy: ApprovalPolicy) -> AsyncIterator[Agent]:
    """A session of the demo model."""
    store = await SqliteStore.open(tmp_path / "state.db")
    try:
        agent = await create_agent(
            AgentConfig(
                models=ModelRouter("demo", DemoModel(word_seconds=0)),
                store=store,
                session_id="s1",
                tools=workspace_tools(),
                approval_policy=policy,
                workspace=workspace,
            )
        )
        try:
            yield agent
        finally:
            await agent.aclose()
    finally:
        await store.aclose()


async def ask(agent: Agent, words: str, decision: Decision | None = None) -> tuple[str, list[events.ApprovalRequested]]:
    """The answer to a message, and the approvals that were asked for on the way and decided by `decision`."""
    await agent.submit(ops.Message(text=words, author="Ann"))
    requested: list[events.ApprovalRequested] = []
    while True:
        event = await agent.next_event(timeout=30)
        assert event is not None, "the session fell silent"
        match event.msg:
            case events.ApprovalRequested():
                requested.append(event.msg)
                assert decision is not None
                await agent.submit(ops.ResolveApproval(request_id=event.msg.request_id, decision=decision))
            case events.TurnComplete(last_assistant_message=text):
                return text or "", requested
            case events.TurnAborted(reason=reason):
                pytest.fail(f"the turn was aborted: {reason}")
            case _:
                pass


async def test_a_note_asks_once_and_is_written_once(tmp_path: Path, workspace: Workspace) -> None:
    """The promise of the demo: one approval, one line in the file, an answer that says so."""
    async with session(tmp_path, workspace, ApprovalPolicy.ASK) as agent:
        answer, requested = await ask(agent, NOTE, Approve())
        assert answer == f"Noted in todo.txt: the release is on Friday\n\n{NOTICE}"
        assert [event.summaries for event in requested] == [("todo.txt (+1 line)",)]
        answer, requested = await ask(agent, "read todo.txt")
        assert (answer, requested) == ("todo.txt says:\n```\nthe release is on Friday\n```", [])
    assert (workspace.path / "todo.txt").read_text() == "the release is on Friday\n"


async def test_a_denied_note_is_not_written_and_not_claimed(tmp_path: Path, workspace: Workspace) -> None:
    """After a denial there is no file, and the answer gives the person's reason."""
    async with session(tmp_path, workspace, ApprovalPolicy.ASK) as agent:
        answer, _ = await ask(agent, NOTE, Deny("it is on Monday"))
    assert "was denied, so I did not do it. I was told: denied by the user: it is on Monday" in answer
    assert not (workspace.path / "todo.txt").exists()


async def test_an_edited_note_is_told_as_it_was_written(tmp_path: Path, workspace: Workspace) -> None:
    """When a person changes the words while approving, the answer has the person's words, not the model's."""
    async with session(tmp_path, workspace, ApprovalPolicy.ASK) as agent:
        await agent.submit(ops.Message(text=NOTE, author="Ann"))
        answer = ""
        while not answer:
            event = await agent.next_event(timeout=30)
            assert event is not None
            match event.msg:
                case events.ApprovalRequested(request_id=request_id, calls=(call,)):
                    edited = {**call.arguments, "content": "the release is on Monday\n"}
                    decision = ApproveWith(arguments={call.call_id: edited})
                    await agent.submit(ops.ResolveApproval(request_id=request_id, decision=decision))
                case events.TurnComplete(last_assistant_message=text):
                    answer = text or ""
                case _:
                    pass
    assert answer.startswith("Noted in todo.txt: the release is on Monday")
    assert (workspace.path / "todo.txt").read_text() == "the release is on Monday\n"


async def test_free_tools_work_without_asking(tmp_path: Path, workspace: Workspace) -> None:
    """Reading, listing and searching ask nobody; a path that leads out is refused without asking either."""
    (workspace.path / "a.txt").write_text("milk\n")
    async with session(tmp_path, workspace, ApprovalPolicy.ASK) as agent:
        assert "a.txt (5)" in (await ask(agent, "list files"))[0]
        assert "a.txt:1: milk" in (await ask(agent, "search for milk"))[0]
        answer, requested = await ask(agent, "add x to ../outside.txt")
    assert (answer, requested) == (
        "write_file (../outside.txt) did not work. I was told: ../outside.txt leaves the workspace.",
        [],
    )
    assert not (tmp_path / "outside.txt").exists()
