"""What people see of a loop behind real sessions: one card, and one message at its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Answer, ApprovalCard, Notice, Phase, TurnCard
from runtime import events, ops
from runtime.loop_moves import as_json
from runtime.models.base import ModelReply, ModelRequest
from runtime.protocol import Approve, Checkpoint, Delivery, TextPart, ToolCall, ToolResult, Usage, UserMessage
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.store.writer import Statement
from runtime.testing import ApprovalTool, BlockingModel, CountingModel, ScriptedModel
from tests.support.delivering import FAST, Bench, bench, controls_of, is_open_card
from tests.support.sessions import Work
from tests.unit.gateway.delivery.test_with_sessions import Together, together


class Numbering:
    """Calls the tool in every turn, then answers with the number of the prompt."""

    name = "numbering"
    context_window = 100_000

    def __init__(self, tool: str) -> None:
        self.tool = tool

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        """One step."""
        asked = sum(isinstance(item, UserMessage) for item in request.context)
        if not isinstance(request.context[-1], ToolResult):
            called = ToolCall(call_id=f"c{asked}", name=self.tool, arguments={})
            return ModelReply(parts=(called,), usage=Usage(input_tokens=10), end_turn=False)
        return ModelReply(parts=(TextPart(text=f"answer {asked}\nin full"),), usage=Usage(input_tokens=10))


async def start(made: Together, iterations: int, rounds: int = 60, **fields: Any) -> None:
    """As intake submits it."""
    op = ops.StartLoop(prompt="go on", max_iterations=iterations, max_rounds=rounds, principal="rec:2", **fields)
    await made.runtime.submit("s", op, "in:1")


def card_of(on: Bench) -> TurnCard:
    """The one card that is there."""
    [card] = [view for view in on.adapter.messages.values() if isinstance(view, TurnCard)]
    return card


async def test_a_loop_is_one_card_and_one_message(tmp_path: Path) -> None:
    """A line for each iteration in the card, no message for any, and the last answer at the end."""
    async with bench(tmp_path, started=False) as on, together(on, Numbering("work"), tool := Work(hold=True)) as made:
        tool.approval = "never"
        await start(made, 3)
        await on.until(lambda: on.adapter.sent(TurnCard))
        await on.rest()
        first = card_of(on)
        assert first.headline.startswith("Working · iteration 1 of 3")
        assert controls_of(first) == ["Stop after this iteration", "Stop now"]
        tool.release.set()
        await on.until(lambda: on.adapter.sent(Answer))
        await on.rest()
        footer = "↻ The loop is done: all 3 iterations."
        assert on.adapter.sent() == [first, Answer(markdown="answer 3\nin full", footer=footer)]
        last = card_of(on)
        assert (last.phase, last.controls) == (Phase.DONE, ())
        assert [row.text for row in last.rows] == ["1: answer 1", "2: answer 2", "3: answer 3"]
        assert last.headline.startswith("Done · 3 of 3 iterations")
        assert await on.rows("SELECT state FROM surfaces") == [("closed",)]


async def test_a_quick_loop_needs_no_card(tmp_path: Path) -> None:
    """What is over at once is one message."""
    async with bench(tmp_path, started=False) as on, together(on, CountingModel("done")) as made:
        await start(made, 1)
        await on.until(lambda: on.adapter.sent(Answer))
        await on.rest()
        assert [view.footer for view in on.adapter.sent(Answer)] == ["↻ The loop is done: all 1 iterations."]


async def test_a_message_between_two_iterations_is_answered(tmp_path: Path) -> None:
    """It has an answer of its own; the loop's card stays one."""
    async with bench(tmp_path, started=False) as on, together(on, Numbering("work"), tool := Work(hold=True)) as made:
        tool.approval = "never"
        await start(made, 2)
        await on.until(tool.started.is_set)
        await made.runtime.submit("s", ops.Message(text="and?", delivery=Delivery.QUEUE), "in:2")
        tool.release.set()
        await on.until(lambda: len(on.adapter.sent(Answer)) == 2)
        await on.rest()
        assert [view.markdown.splitlines()[0] for view in on.adapter.sent(Answer)] == ["answer 2", "answer 3"]
        cards = [view.headline for view in on.adapter.messages.values() if isinstance(view, TurnCard)]
        assert sum("iterations" in headline for headline in cards) == 1


async def test_a_steer_into_an_iteration_is_answered(tmp_path: Path) -> None:
    """The iteration's answer is that to the person; the end does not repeat it."""
    async with bench(tmp_path, started=False) as on, together(on, Numbering("work"), tool := Work(hold=True)) as made:
        tool.approval = "never"
        await start(made, 1)
        await on.until(tool.started.is_set)
        await made.runtime.submit("s", ops.Message(text="and this", delivery=Delivery.STEER), "in:2")
        tool.release.set()
        await on.until(lambda: on.adapter.sent(Notice))
        await on.rest()
        assert [view.footer for view in on.adapter.sent(Answer)] == [""]
        assert [view.text for view in on.adapter.sent(Notice)] == ["↻ The loop is done: all 1 iterations."]


async def test_an_approval_within_an_iteration(tmp_path: Path) -> None:
    """It is asked as ever, and the loop's card says what it waits for."""
    async with bench(tmp_path, started=False) as on, together(on, Numbering("gated"), ApprovalTool()) as made:
        await start(made, 1)
        await on.until(lambda: [view for view in on.adapter.messages.values() if is_open_card(view)])
        await on.until(lambda: on.adapter.sent(TurnCard))
        await on.rest()
        assert card_of(on).headline.startswith("Waiting for approval · iteration 1 of 1")
        status = await made.runtime.status("s")
        assert status is not None
        assert status.request_id is not None
        await made.runtime.submit("s", ops.ResolveApproval(request_id=status.request_id, decision=Approve()))
        await on.until(lambda: on.adapter.sent(Answer))
        await on.rest()
        assert len(on.adapter.sent(ApprovalCard)) == 1


@pytest.mark.parametrize("now", [False, True])
async def test_a_stop_is_shown_at_once(tmp_path: Path, now: bool) -> None:
    """The card says so when the stop was taken, and how it ended once it has."""
    model = BlockingModel("so far")
    async with bench(tmp_path, started=False) as on, together(on, model) as made:
        await start(made, 3)
        await on.until(model.started.is_set)
        await on.rest()
        await made.pass_time(1.5)
        await on.until(lambda: on.adapter.sent(TurnCard))
        await on.rest()
        made.delivery.stopping_loop("s", "in:1", now)
        await on.until(lambda: card_of(on).rows)
        stops = card_of(on)
        assert stops.rows[-1].text == "Stops after this iteration"
        assert controls_of(stops) == ([] if now else ["Stop now"])
        await made.runtime.submit("s", ops.StopLoop(now=now, by="rec:1", loop_id="in:1"))
        model.release.set()
        await on.until(lambda: on.adapter.sent(Notice if now else Answer))
        await on.rest()
        if now:
            assert [view.text for view in on.adapter.sent(Notice)] == [
                "⏹ The loop was stopped by Ann: in iteration 1 of 3."
            ]
        else:
            assert [view.footer for view in on.adapter.sent(Answer)] == ["↻ The loop was stopped: 1 of 3 iterations."]


@pytest.mark.parametrize("seconds", [1, 30])
async def test_a_restart_within_an_iteration(tmp_path: Path, seconds: int) -> None:
    """One card, also across the restart, with every line; one end."""
    async with bench(tmp_path, started=False) as on:
        tool = Work(hold=True, approval="never")
        async with together(on, Numbering("work"), tool) as made:
            tool.release.set()
            await start(made, 3)
            await on.until(lambda: len(tool.runs) >= 1)
            tool.release.clear()
            await on.until(lambda: on.adapter.sent(TurnCard))
        on.clock.advance(seconds)
        async with together(on, Numbering("work"), Work(approval="never")):
            await on.until(lambda: on.adapter.sent(Answer))
            await on.rest()
        assert len(on.adapter.sent(TurnCard)) == len(on.adapter.sent(Answer)) == 1
        assert [row.text for row in card_of(on).rows] == ["1: answer 1", "2: answer 2", "3: answer 3"]


async def test_delivery_alone_starts_again(tmp_path: Path) -> None:
    """Read from where it was, with or without a card: the loop is the same one, and ends once."""
    async with bench(tmp_path, started=False) as on:
        tool = Work(hold=True, approval="never")
        async with together(on, Numbering("work"), tool) as made:
            await start(made, 2)
            await on.until(tool.started.is_set)
            await made.runtime.submit("s", ops.Message(text="queued", delivery=Delivery.QUEUE), "in:2")
            await on.crash()
            tool.release.set()
            await (await made.runtime.open("s")).idle()
        async with together(on, CountingModel("unused")):
            await on.until(lambda: len(on.adapter.sent(Answer)) == 2)
            await on.rest()
        footers = [view.footer for view in on.adapter.sent(Answer)]
        assert footers == ["", "↻ The loop is done: all 2 iterations."]


async def test_a_lost_loop_asks_what_to_do(tmp_path: Path) -> None:
    """By cautious options a restart within an iteration ends it: two buttons, and going on has a card of its own."""
    async with bench(tmp_path, started=False) as on:
        async with together(on, BlockingModel()) as made:
            await start(made, 2)
            await made.pass_time(1.5)
            await on.until(lambda: on.adapter.sent(TurnCard))
            await on.rest()
        cautious = {"on_interrupted_step": "abort", "on_uncertain_tools": "abort"}
        async with together(on, ScriptedModel(["one", "two"]), **cautious) as made:
            await on.until(lambda: on.adapter.sent(Notice))
            await on.rest()
            [notice] = on.adapter.sent(Notice)
            assert notice.text == "A restart interrupted the loop in iteration 1 of 2. What it did until then stays."
            assert controls_of(notice) == ["Continue from iteration 1", "Leave it"]
            rows = await on.rows("SELECT kind, choices, turn_id FROM surfaces WHERE state <> 'closed'")
            assert rows == [("notice", "cl", "in:1")]
            await made.runtime.submit("s", ops.ContinueLoop(loop_id="in:1"))
            await on.until(lambda: on.adapter.sent(Answer))
            await on.rest()
            assert [view.footer for view in on.adapter.sent(Answer)] == ["↻ The loop is done: all 2 iterations."]


def iteration(n: int, answer: str) -> tuple[events.EventMsg, ...]:
    """A whole iteration."""
    return (
        events.LoopIterationStarted(index=n),
        events.TurnStarted(turn_id=f"t{n}", message_id=f"in:1:{n}"),
        events.TurnComplete(turn_id=f"t{n}", last_assistant_message=answer),
        events.LoopIterationCompleted(index=n),
    )


@pytest.mark.parametrize("pruned", [False, True])
async def test_a_loop_is_known_again_from_its_journal(tmp_path: Path, pruned: bool) -> None:
    """Where no card could be shown, the loop is read again from its beginning; without that, its end is told still."""
    async with bench(tmp_path, replace(FAST, can_edit=False)) as on:
        begun = events.LoopStarted(loop_id="in:1", generation=1, max_iterations=2, max_rounds=9)
        await on.happen(begun, *iteration(1, "one"), submission_id="in:1")
        between = (
            events.TurnStarted(turn_id="u", message_id="in:2"),
            events.TurnComplete(turn_id="u", last_assistant_message="between"),
        )
        await on.happen(*between, submission_id="in:2")
        await on.rest()
        if pruned:
            await on.store.database.write([Statement("DELETE FROM event_journal")])
        await on.restart()
        ended = events.LoopEnded(loop_id="in:1", status="Completed", iterations_completed=2, rounds_started=2)
        state = LoopState(status=LoopStatus.COMPLETED, loop_id="in:1", max_iterations=2)
        checkpoint = replace(Checkpoint.empty("s"), sequence=9, model_route="main", loop_state=as_json(state))
        last = (*iteration(2, "two"), ended)
        saved = await on.store.save(checkpoint, events=last, submission_id="in:1")
        on.delivery.committed("s", saved.first_event + len(last) - 1)
        await on.rest()
        answers = [(view.markdown, view.footer) for view in on.adapter.sent(Answer)]
        assert answers == [("between", ""), ("two", "↻ The loop is done: all 2 iterations.")]
