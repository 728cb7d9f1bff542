"""The card of a loop and its end at every moment that exists: whole views compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import Answer, Control, Document, MessageRef, Notice, Phase, Row, RowState, Style, TurnCard
from gateway.views.loop import of_state
from gateway.views.loop_card import LOOP_CHOICES, LOST_CHOICES, loop_card, loop_end
from gateway.views.turn import SessionState, fold_all
from runtime.protocol import events
from runtime.protocol.context import ToolCall, Usage
from runtime.protocol.events import Event, EventMsg
from runtime.protocol.loops import LoopState, LoopStatus
from tests.support.delivering import PlainMarkup

LOOP = "in:1"
TOKEN = "A" * 22
START = 1_800_000_000_000
AFTER = Control(label="Stop after this iteration", token=f"apv:{TOKEN}:e")
NOW = Control(label="Stop now", token=f"apv:{TOKEN}:h", style=Style.DANGER)
ASKED = MessageRef(platform="rec", account="bot", chat="42", id="7")

STARTED = events.LoopStarted(loop_id=LOOP, generation=1, max_iterations=3, max_rounds=60)


def after(*happened: EventMsg | list[EventMsg]) -> SessionState:
    """The state after these events, one a second."""
    msgs: list[EventMsg] = []
    for one in happened:
        msgs += one if isinstance(one, list) else [one]
    return fold_all(
        SessionState(),
        [
            Event(sequence=n, submission_id=LOOP, recorded_at_ms=START + (n - 1) * 1000, msg=msg)
            for n, msg in enumerate(msgs, 1)
        ],
    )


def begun(n: int) -> list[EventMsg]:
    """Iteration `n` runs."""
    return [
        events.LoopIterationStarted(index=n),
        events.TurnStarted(turn_id=f"t{n}", message_id=f"{LOOP}:{n}"),
        events.ModelStepStarted(turn_id=f"t{n}", model_step_id="m", step_index=0),
    ]


def tool(n: int, call: str = "c", *, over: bool = True) -> list[EventMsg]:
    """A call within iteration `n`."""
    ended = events.ToolCallEnd(turn_id=f"t{n}", call_id=call, name="shell", output="secret output")
    begin = events.ToolCallBegin(turn_id=f"t{n}", call_id=call, name="shell", summary="make test")
    return [begin, *([ended] if over else [])]


def done(n: int, words: str | None, tools: int = 1) -> list[EventMsg]:
    """Iteration `n` ends with its answer."""
    usage = Usage(input_tokens=1000, cost_usd=0.01)
    return [
        events.TurnComplete(turn_id=f"t{n}", last_assistant_message=words, usage=usage, tool_calls=tools),
        events.LoopIterationCompleted(index=n),
    ]


def ended(status: LoopStatus, done: int, **fields: Any) -> events.LoopEnded:
    return events.LoopEnded(
        loop_id=LOOP, status=status.value, iterations_completed=done, rounds_started=7, **fields
    )  # fmt: skip


def card(state: SessionState, seconds: int = 42, **options: Any) -> TurnCard:
    """The card some seconds after the start."""
    return loop_card(state, START + seconds * 1000, token=TOKEN, **options)


FIRST = [STARTED, *begun(1), *tool(1), *done(1, "14 tests fail\nmore words")]


def test_before_the_first_iteration() -> None:
    """A loop that waits for its turn."""
    assert card(after(STARTED), 0, labels=("Workspace: Shop",)) == TurnCard(
        phase=Phase.STARTING,
        headline="Starting · iteration 1 of 3 · 0:00",
        labels=("Workspace: Shop",),
        controls=(AFTER, NOW),
    )


def test_within_an_iteration() -> None:
    """One line for each finished iteration, then what runs; the counters are the loop's."""
    state = after(*FIRST, *begun(2), *tool(2, over=False))
    assert card(state, 250) == TurnCard(
        phase=Phase.WORKING,
        headline="Working · iteration 2 of 3 · 4:10",
        rows=(
            Row(state=RowState.DONE, text="1: 14 tests fail"),
            Row(state=RowState.RUNNING, text="shell: make test"),
        ),
        footer="2 tools · 1.0k tokens",
        controls=(AFTER, NOW),
    )


def test_between_two_iterations() -> None:
    """It is the turn of a message that waited; the loop goes on behind it."""
    state = after(
        *FIRST, events.MessageQueued(message_id="in:2", disposition="queue", position=1, text="x", author="a")
    )
    shown = card(state)
    assert (shown.phase, shown.headline, shown.queue) == (Phase.WORKING, "Working · iteration 2 of 3 · 0:42", 1)


def test_waiting_for_approval() -> None:
    """The card says what it waits for; the request is a message of its own."""
    asked = events.ApprovalRequested(request_id="r", turn_id="t1", calls=(ToolCall(call_id="c", name="shell"),))
    assert card(after(STARTED, *begun(1), asked)).headline == "Waiting for approval · iteration 1 of 3"


def test_only_the_last_iterations_are_shown() -> None:
    """Older ones are counted, and the line of what runs has its room."""
    many = events.LoopStarted(loop_id=LOOP, generation=1, max_iterations=9, max_rounds=60)
    finished = [msg for n in range(1, 8) for msg in (*begun(n), *done(n, f"step {n}"))]
    state = after(many, finished, begun(8), tool(8, over=False))
    shown = card(state)
    assert [row.text for row in shown.rows] == ["4: step 4", "5: step 5", "6: step 6", "7: step 7", "shell: make test"]
    assert shown.earlier_rows == 3


def test_an_iteration_without_words_is_a_line_too() -> None:
    """It is done, and that is all there is to say."""
    assert card(after(STARTED, *begun(1), *done(1, None))).rows == (Row(state=RowState.DONE, text="1: done"),)


def test_stopping_after_the_iteration() -> None:
    """The wish is shown, and what is left is to stop at once."""
    state = after(*FIRST, *begun(2))
    assert state.loop is not None
    shown = card(replace(state, loop=replace(state.loop, stopping=True)))
    assert shown.rows[-1] == Row(state=RowState.NOTE, text="Stops after this iteration")
    assert shown.controls == (NOW,)


def test_going_on_after_a_restart() -> None:
    """A new generation of the same loop keeps what was shown."""
    again = events.LoopStarted(loop_id=LOOP, generation=2, max_iterations=3, max_rounds=60)
    state = after(*FIRST, again, *begun(2))
    assert card(state, 100).headline == "Thinking · iteration 2 of 3 · 1:40"
    assert card(state).rows == (Row(state=RowState.DONE, text="1: 14 tests fail"),)


# ------------------------------------------------------------------------------------------- the end


END = [*FIRST, *begun(2), *done(2, "all tests pass")]
LINES = (Row(state=RowState.DONE, text="1: 14 tests fail"), Row(state=RowState.DONE, text="2: all tests pass"))
IN_ORDER = [
    (S, reason, phase, head, footer)
    for S, reason, phase, head, footer in (
        (
            LoopStatus.COMPLETED,
            None,
            Phase.DONE,
            "Done · 2 of 3 iterations",
            "↻ The loop is done: all 3 iterations.",
        ),
        (
            LoopStatus.STOPPED,
            "stop",
            Phase.STOPPED,
            "Stopped · 2 of 3 iterations",
            "↻ The loop was stopped: 2 of 3 iterations.",
        ),
        (
            LoopStatus.STOPPED,
            "no_progress",
            Phase.STOPPED,
            "Stopped · no progress · 2 of 3 iterations",
            "↻ The loop was stopped: 2 of 3 iterations. The last one did and said the same as the one before.",
        ),
        (
            LoopStatus.BUDGET_EXHAUSTED,
            "rounds",
            Phase.STOPPED,
            "Stopped · rounds used up · 2 of 3 iterations",
            "↻ The loop has used up its 7 rounds: 2 of 3 iterations.",
        ),
        (
            LoopStatus.BUDGET_EXHAUSTED,
            "tokens",
            Phase.STOPPED,
            "Stopped · tokens used up · 2 of 3 iterations",
            "↻ The loop has used up its tokens: 2 of 3 iterations.",
        ),
        (
            LoopStatus.BUDGET_EXHAUSTED,
            "time",
            Phase.STOPPED,
            "Stopped · time used up · 2 of 3 iterations",
            "↻ The loop has used up its time: 2 of 3 iterations.",
        ),
    )
]


def end_of(state: SessionState, who: str | None = None) -> tuple[Any, str]:
    assert state.loop is not None
    return loop_end(state.loop, PlainMarkup(), TOKEN, who, ASKED)


@pytest.mark.parametrize(("status", "reason", "phase", "headline", "footer"), IN_ORDER)
def test_an_end_in_order(status: LoopStatus, reason: str | None, phase: Phase, headline: str, footer: str) -> None:
    """The card collapses; the last answer is a message, which notifies and says how the loop ended."""
    state = after(*END, ended(status, 2, reason=reason))
    assert card(state) == TurnCard(phase=phase, headline=f"{headline} · 0:13 · 2 tools · 2.0k tokens", rows=LINES)
    assert end_of(state) == ((Answer(markdown="all tests pass", reply_to=ASKED, footer=footer),), "")


def test_the_cost_is_shown_where_it_may_be() -> None:
    """As in the card of a turn."""
    state = after(*END, ended(LoopStatus.COMPLETED, 2))
    assert card(state, with_cost=True).headline.endswith("2.0k tokens · $0.02")


def test_an_end_within_an_iteration_says_so() -> None:
    """The answer of the last iteration that was finished comes along."""
    state = after(*FIRST, *begun(2), ended(LoopStatus.BUDGET_EXHAUSTED, 1, reason="rounds"))
    [answer], _ = end_of(state)
    assert answer.footer == "↻ The loop has used up its 7 rounds: in iteration 2 of 3."
    assert card(state).headline.startswith("Stopped · rounds used up · in iteration 2 of 3 · ")


def test_an_end_without_an_answer() -> None:
    """Words of ours alone, and they notify."""
    state = after(STARTED, *begun(1), ended(LoopStatus.STOPPED, 0, reason="stop"))
    notice = Notice(text="↻ The loop was stopped: in iteration 1 of 3.", reply_to=ASKED, notify=True)
    assert end_of(state) == ((notice,), "")


def test_a_long_answer_has_its_footer_last() -> None:
    """In parts, and as a file; how it ended stands under the last part."""
    state = after(STARTED, *begun(1), *done(1, "x" * 14_000), ended(LoopStatus.COMPLETED, 1))
    views, _ = end_of(state)
    assert [type(view) for view in views] == [Answer, Answer, Answer, Answer, Document]
    assert [view.footer for view in views[:4]] == ["", "", "", "↻ The loop is done: all 3 iterations."]


def test_stopped_at_once() -> None:
    """By whom, and where; the turn of the iteration has no message of its own."""
    aborted = events.TurnAborted(turn_id="t2", reason="stopped", by="rec:1")
    state = after(*FIRST, *begun(2), aborted, ended(LoopStatus.CANCELLED, 1))
    assert state.loop is not None
    assert state.loop.by == "rec:1"
    notice = Notice(text="⏹ The loop was stopped by Ann: in iteration 2 of 3.", reply_to=ASKED, notify=True)
    assert end_of(state, "Ann") == ((notice,), "")
    assert card(state, who="Ann").headline.startswith("Stopped by Ann · in iteration 2 of 3 · ")


def test_failed() -> None:
    """One sentence with the cause in words for people."""
    state = after(*FIRST, *begun(2), ended(LoopStatus.FAILED, 1, error="The model service refused the request."))
    text = "The loop failed in iteration 2 of 3: The model service refused the request."
    assert end_of(state) == ((Notice(text=text, level="error", reply_to=ASKED, notify=True),), "")
    assert card(state).phase is Phase.FAILED


def test_lost_in_a_restart() -> None:
    """A person decides: from the iteration that was lost, or not at all."""
    state = after(*FIRST, *begun(2), ended(LoopStatus.RECOVERY_UNSUPPORTED, 1, reason="restart"))
    notice = Notice(
        text="A restart interrupted the loop in iteration 2 of 3. What it did until then stays.",
        level="warning",
        reply_to=ASKED,
        controls=(
            Control(label="Continue from iteration 2", token=f"apv:{TOKEN}:c", style=Style.PRIMARY),
            Control(label="Leave it", token=f"apv:{TOKEN}:l"),
        ),
        notify=True,
    )
    assert end_of(state) == ((notice,), LOST_CHOICES)
    assert card(state).headline.startswith("Interrupted by a restart · in iteration 2 of 3 · ")


def test_an_answer_that_people_have_is_not_repeated() -> None:
    """Somebody steered into the last iteration, so its answer was sent as an answer to that."""
    steer = events.Message(message_id="in:2", author="Ann", delivery="steer", text="and this", turn_id="t1")
    state = after(STARTED, *begun(1), steer, *done(1, "both are done"), ended(LoopStatus.COMPLETED, 1))
    assert state.turn is not None
    assert state.turn.steered
    [notice], _ = end_of(state)
    assert notice == Notice(text="↻ The loop is done: all 3 iterations.", reply_to=ASKED, notify=True)
    assert card(state).rows == (Row(state=RowState.DONE, text="1: both are done"),)


def test_what_the_stored_state_alone_tells() -> None:
    """Where the journal was shortened, the numbers are still true."""
    stored = LoopState(
        status=LoopStatus.RUNNING,
        loop_id=LOOP,
        iterations_started=4,
        iterations_completed=3,
        max_iterations=9,
        max_rounds=60,
        started_at_ms=START,
    )
    shown = card(SessionState(loop=of_state(stored)))
    assert (shown.headline, shown.earlier_rows) == ("Working · iteration 4 of 9 · 0:42", 3)
    assert LOOP_CHOICES == "eh"
