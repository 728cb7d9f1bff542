"""S-06: rights count when a message that waited is taken, not only when it was stored."""

from __future__ import annotations

from pathlib import Path

from gateway.access import Access, Policy
from gateway.agents import StillListed
from runtime import AgentConfig, ModelRouter, create_agent, ops
from runtime.protocol import events
from runtime.store.sqlite import SqliteStore
from runtime.testing import BlockingModel


async def test_words_of_a_removed_person_do_not_enter(tmp_path: Path) -> None:
    """Bob is removed while his words wait behind a turn: they are consumed, and the model never sees them."""
    access = Access(Policy(users=frozenset({"telegram:1", "telegram:2"})))
    store = await SqliteStore.open(tmp_path / "s.db")
    model = BlockingModel()
    agent = await create_agent(
        AgentConfig(models=ModelRouter("m", model), store=store, session_id="s", middleware=[StillListed(access)])
    )
    await agent.submit(ops.Message(text="first", principal="telegram:1"))
    await model.started.wait()
    await agent.submit(ops.Message(text="from bob", principal="telegram:2", delivery=ops.Delivery.QUEUE))
    access.replace(Policy(users=frozenset({"telegram:1"})))
    model.release.set()
    await agent.idle()
    page = await store.event_page("s", after=0)
    ended = [event.msg for event in page.events if isinstance(event.msg, events.TurnAborted)]
    assert [end.reason for end in ended] == ["its author may not use the agent any more"]
    assert all("from bob" not in str(item) for item in agent.checkpoint.context)
    await agent.aclose()
    await store.aclose()
