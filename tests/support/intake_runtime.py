"""The stage of `tests.support.intake` with the real runtime behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from adapters.contract import Place
from gateway.access import Policy
from gateway.ledger.surfaces import NewSurface
from runtime.config import AgentConfig
from runtime.host import Runtime
from runtime.models.base import ModelRouter
from runtime.protocol.context import ToolCall
from runtime.testing import ApprovalTool, ScriptedModel
from tests.support.intake import ANN_PRIVATE, Stage, stage


@contextlib.asynccontextmanager
async def runtime_stage(
    folder: Path, policy: Policy | None = None, replies: Sequence[Any] | None = None, **fields: Any
) -> AsyncIterator[tuple[Stage, ApprovalTool]]:
    """A stage on real sessions. By default the model asks for one gated call per turn, and then says "done"."""
    tool = ApprovalTool()
    script = list(replies) if replies is not None else [[ToolCall(call_id="c1", name="gated")], "done"]
    async with stage(folder, policy) as s:
        model = ScriptedModel(script)

        async def config_for(session_id: str) -> AgentConfig:
            opening = await s.places.opening(session_id)
            assert opening is not None
            return AgentConfig(
                **{
                    "models": ModelRouter("demo", model),
                    "store": s.store,
                    "session_id": session_id,
                    "session_context": opening.context,
                    "metadata": opening.metadata,
                    "tools": [tool],
                    "clock": s.clock,
                    "queue_limit": 20,
                    **fields,
                }
            )

        async with running(s, config_for):
            yield s, tool


@contextlib.asynccontextmanager
async def running(s: Stage, config_for: Any) -> AsyncIterator[None]:
    """Let the stage talk to a runtime of its own, until the end."""
    await s.stop()
    runtime = Runtime(config_for, s.store, clock=s.clock)
    s.sessions = _WithGrants(runtime, s.store)
    s.build()
    await runtime.start()
    await s.start()
    try:
        yield
    finally:
        await s.stop()
        await runtime.aclose()


class _WithGrants:
    """The runtime, with the store's list of grants."""

    def __init__(self, runtime: Runtime, store: Any) -> None:
        self.submit = runtime.submit
        self.peek = runtime.peek
        self.grants = store.grants
        self.runtime = runtime


async def gated_session(s: Stage, place: Place = ANN_PRIVATE) -> tuple[NewSurface, str]:
    """A turn that waits for its approval, with its card, and the request's id."""
    await s.say("go", place)
    session_id = await s.session_of(place)
    found: list[tuple[Any, ...]] = []
    while not found:
        found = await s.rows("SELECT request_id, turn_id FROM approvals WHERE session_id = ?", session_id)
    card = await s.card(place, session_id=session_id, request_id=found[0][0], turn_id=found[0][1])
    return card, found[0][0]
