"""Delivery behind real sessions: what the runtime commits is what people see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from adapters.contract import Answer, ApprovalCard, Notice, TurnCard
from gateway.delivery import Delivery, Neighbours
from runtime import AgentConfig, ModelRouter, Runtime, ops
from runtime.errors import ModelError
from runtime.models.base import Model
from runtime.protocol import ToolCall
from runtime.protocol.approvals import Approve
from runtime.testing import ApprovalTool, BlockingModel, FailingModel, ScriptedModel
from tests.support.delivering import Bench, bench, controls_of, is_open_card


class Together:
    """A runtime and delivery on the bench's store. `options` are those of its agents, by default as the gateway's."""

    def __init__(self, on: Bench, model: Model, tools: Sequence[Any], **options: Any) -> None:
        self.on = on
        self._options = {"on_interrupted_step": "retry", "on_uncertain_tools": "continue", **options}
        self.runtime = Runtime(self._config, on.store, clock=on.clock)
        self._model, self._tools = model, tools
        self.delivery = Delivery(
            journal=on.store,
            peek=self.runtime.peek,
            directory=on.people,
            platforms=on.adapters,
            neighbours=Neighbours(undeliverable=self._close, tell_owner=on._tell, moved=lambda place, chat: ()),
            clock=on.clock,
            random_bytes=lambda n: next(on._random).to_bytes(n, "big"),
        )
        on.delivery = self.delivery

    def _config(self, session_id: str) -> AgentConfig:
        return AgentConfig(
            models=ModelRouter("main", self._model), store=self.on.store, session_id=session_id, tools=self._tools,
            clock=self.on.clock, **self._options,
        )  # fmt: skip

    async def _close(self, session_id: str, request_id: str, reason: str) -> None:
        op = ops.Undeliverable(request_id=request_id, reason=reason)
        await self.runtime.submit(session_id, op, f"undeliverable:{request_id}")

    async def say(self, text: str, submission_id: str = "in:1") -> None:
        """As intake submits it."""
        await self.runtime.submit("s", ops.Message(text=text, principal="rec:2"), submission_id)

    async def pass_time(self, seconds: float) -> None:
        """Let a turn that has begun last so long."""
        await self.on.until(lambda: self.delivery._alarms._due)
        self.on.clock.advance(seconds)


@asynccontextmanager
async def together(on: Bench, model: Model, *tools: Any, **options: Any) -> AsyncIterator[Together]:
    """Both, running; closed in the application's order."""
    made = Together(on, model, tools, **options)
    made.runtime.on_commit(made.delivery.committed)
    await made.delivery.recover()
    on._task = asyncio.create_task(made.delivery.run())
    await made.runtime.start()
    try:
        yield made
    finally:
        await made.runtime.aclose()
        await on.crash()


async def test_message_in_answer_out(tmp_path: Path) -> None:
    """The answer of the model is the one message of a quick turn."""
    async with bench(tmp_path, started=False) as on, together(on, ScriptedModel(["Hello."])) as made:
        await made.say("hi")
        await on.until(lambda: on.adapter.messages)
        await on.rest()
        assert on.adapter.sent() == [Answer(markdown="Hello.")]


async def test_an_approval_from_request_to_answer(tmp_path: Path) -> None:
    """Asked with the whole action, decided, shown as decided, and the tool ran once."""
    tool = ApprovalTool("gated")
    call = ToolCall(call_id="c1", name="gated", arguments={})
    async with bench(tmp_path, started=False) as on, together(on, ScriptedModel([[call], "Done."]), tool) as made:
        await made.say("do it")
        await on.until(lambda: [view for view in on.adapter.messages.values() if is_open_card(view)])
        await on.rest()
        [card] = on.adapter.sent(ApprovalCard)
        assert "tool: gated" in card.body
        status = await made.runtime.status("s")
        assert status is not None
        assert status.request_id is not None
        await made.runtime.submit(
            "s", ops.ResolveApproval(request_id=status.request_id, decision=Approve(), decided_by="rec:1")
        )
        await on.until(lambda: on.adapter.sent(Answer))
        await on.rest()
        assert len(tool.runs) == 1
        outcome = next(view for view in on.adapter.messages.values() if isinstance(view, ApprovalCard))
        assert (outcome.outcome or "").startswith("✅ Approved by Ann")
        kinds = [row[0] for row in await on.rows("SELECT kind FROM audit ORDER BY id")]
        assert kinds == ["asked", "decided", "started", "ended"]
        digests = await on.rows("SELECT json_extract(detail, '$.digests') FROM audit WHERE request_id IS NOT NULL")
        assert digests[0] == digests[1] != (None,)
        [last] = [view for view in on.adapter.messages.values() if isinstance(view, TurnCard)]
        assert last.headline.startswith("Done")


async def test_a_request_that_cannot_be_shown_ends_its_wait(tmp_path: Path) -> None:
    """The runtime closes it, nothing runs, and the turn goes on to its answer."""
    tool = ApprovalTool("gated")
    call = ToolCall(call_id="c1", name="gated", arguments={"text": "x" * 20_000})
    async with bench(tmp_path, started=False) as on, together(on, ScriptedModel([[call], "I see."]), tool) as made:
        await made.say("do it")
        await on.until(lambda: on.adapter.sent(Answer))
        await on.rest()
        assert not tool.runs
        assert not on.adapter.sent(ApprovalCard)
        assert [view.text for view in on.adapter.sent(Notice)] == [
            "An action was not asked for: it is longer than 16 KiB. Nothing was run."
        ]


async def test_a_failing_model_is_told(tmp_path: Path) -> None:
    """One sentence and a reference, never the cause."""
    broken = FailingModel(ModelError("secret detail", retryable=False))
    async with bench(tmp_path, started=False) as on, together(on, broken) as made:
        await made.say("hi")
        await on.until(lambda: on.adapter.sent(Notice))
        await on.rest()
        [notice] = on.adapter.sent(Notice)
        assert notice.text.startswith("✖ ")
        assert "Reference: " in notice.text
        assert "secret detail" not in notice.text


async def test_stop_of_a_running_turn(tmp_path: Path) -> None:
    """The card says "Stopping…" when the stop was taken, and "Stopped" only once it is."""
    model = BlockingModel()
    async with bench(tmp_path, started=False) as on, together(on, model) as made:
        await made.say("hi")
        await made.pass_time(1.5)
        await on.until(lambda: on.adapter.sent(TurnCard))
        await on.rest()
        status = await made.runtime.status("s")
        assert status is not None
        assert status.turn_id is not None
        made.delivery.stopping("s", status.turn_id)
        await on.until(on.adapter.edits)
        [edit] = on.adapter.edits()
        assert isinstance(edit, TurnCard)
        assert edit.phase.value == "stopping"
        await made.runtime.submit("s", ops.Interrupt(turn_id=status.turn_id, by="rec:1"))
        await on.until(lambda: len(on.adapter.edits()) == 2)
        await on.rest()
        [card] = on.adapter.messages.values()
        assert isinstance(card, TurnCard)
        assert card.headline.startswith("Stopped by Ann")
        assert controls_of(card) == ["Continue"]


async def test_a_restart_answers_what_was_accepted(tmp_path: Path) -> None:
    """Killed while the model works: the turn goes on, and its answer comes once."""
    async with bench(tmp_path, started=False) as on:
        async with together(on, BlockingModel()) as made:
            await made.say("hi")
            await made.pass_time(1.5)
            await on.until(lambda: on.adapter.sent(TurnCard))
            await on.rest()
        on.clock.advance(30)
        async with together(on, ScriptedModel(["Back again."])):
            await on.until(lambda: on.adapter.sent(Answer))
            await on.rest()
        assert on.adapter.sent(Answer) == [Answer(markdown="Back again.")]
        [card] = [view for view in on.adapter.messages.values() if isinstance(view, TurnCard)]
        assert card.headline.startswith("Done")
