"""No registered secret leaves in a message, whatever it came in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.contract import encode_view
from gateway.secrets import Secret
from runtime.protocol import events
from tests.support.delivering import Bench, action, bench, pending

CANARY = Secret("canary-7f3b9c-value").reveal()


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery that runs."""
    async with bench(tmp_path) as made:
        yield made


async def test_a_secret_is_masked_wherever_it_turns_up(on: Bench) -> None:
    """Summary, words, steer, action, reason, error and answer: each is masked before it is even stored to be sent."""
    asked = pending(action(arguments={"command": f"curl -H {CANARY}", CANARY: "x"}, cwd=CANARY), reason=CANARY)
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=asked.calls)
    await on.happen(
        events.TurnStarted(turn_id="t1"),
        events.AssistantMessage(turn_id="t1", model_step_id="m", text=f"I use {CANARY}"),
        events.ToolCallBegin(turn_id="t1", call_id="c", name="shell", summary=CANARY),
        events.Message(message_id="m", author=CANARY, delivery="steer", text=CANARY, turn_id="t1"),
        requested,
        pending=asked,
    )
    await on.until(lambda: len(on.adapter.messages) == 2)
    await on.happen(
        events.AssistantMessage(turn_id="t1", model_step_id="m", text=CANARY, overtaken=True),
        events.Error(kind="tool", message=CANARY, reference="E1", turn_id="t1"),
        events.TurnAborted(turn_id="t1", reason=CANARY, outcome="failed"),
        events.TurnStarted(turn_id="t2"),
        events.TurnComplete(turn_id="t2", last_assistant_message=f"It is {CANARY}."),
        events.Error(kind="io", message=CANARY, reference="E2"),
    )
    await on.rest()
    shown = b"".join(encode_view(request.view) for request in on.adapter.requests).decode()
    assert "***" in shown
    assert CANARY not in shown
    for (view,) in await on.rows("SELECT view FROM deliveries"):
        assert CANARY not in view.decode()
