"""The card of a turn at every moment that exists: whole views compared."""

from __future__ import annotations

import pytest

from adapters.contract import Control, Notice, Phase, Row, RowState, Style, TurnCard
from gateway.views.card import turn_card
from gateway.views.messages import end_notice
from gateway.views.turn import SessionState, fold_all, recovered, stalled, stopping
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.context import ToolCall, Usage
from runtime.protocol.events import Event, EventMsg
from runtime.session.recovery import RESTARTED

T = "t1"
TOKEN = "A" * 22
STOP = Control(label="Stop", token=f"apv:{TOKEN}:x", style=Style.DANGER)
START = 1_800_000_000_000


def after(*msgs: EventMsg, seconds_each: int = 1) -> SessionState:
    """The state after these events, one a second."""
    happened = [
        Event(sequence=n, submission_id=None, recorded_at_ms=START + (n - 1) * seconds_each * 1000, msg=msg)
        for n, msg in enumerate(msgs, 1)
    ]
    return fold_all(SessionState(), happened)


def card(state: SessionState, seconds: int = 42, **options: object) -> TurnCard:
    """The card some seconds after the start."""
    return turn_card(state, START + seconds * 1000, token=TOKEN, **options)  # type: ignore[arg-type]


STARTED = events.TurnStarted(turn_id=T, message_id="in:1")
STEP = events.ModelStepStarted(turn_id=T, model_step_id="m1", step_index=0)


def step_done(outcome: str = "completed", tokens: int = 0) -> events.ModelStepCompleted:
    return events.ModelStepCompleted(
        turn_id=T, model_step_id="m1", step_index=0, outcome=outcome, usage=Usage(input_tokens=tokens)  # type: ignore[arg-type]
    )  # fmt: skip


def begin(call: str, summary: str = "", name: str = "shell") -> events.ToolCallBegin:
    return events.ToolCallBegin(turn_id=T, call_id=call, name=name, summary=summary)


def end(call: str, outcome: str = "completed", *, is_error: bool = False, name: str = "shell") -> events.ToolCallEnd:
    return events.ToolCallEnd(
        turn_id=T, call_id=call, name=name, output="secret output", outcome=outcome, is_error=is_error
    )


REQUESTED = events.ApprovalRequested(request_id="r", turn_id=T, calls=(ToolCall(call_id="c1", name="shell"),))


def test_accepted() -> None:
    """A turn that began: starting, with both labels in the first card and a Stop."""
    assert card(after(STARTED), 0, labels=("Workspace: Shop", "From: telegram")) == TurnCard(
        phase=Phase.STARTING,
        headline="Starting · 0:00",
        labels=("Workspace: Shop", "From: telegram"),
        controls=(STOP,),
    )


def test_running() -> None:
    """The model is asked."""
    assert card(after(STARTED, STEP)) == TurnCard(phase=Phase.THINKING, headline="Thinking · 0:42", controls=(STOP,))


def test_tool_call() -> None:
    """One line a tool, by its summary; words before it are progress; the output is never shown."""
    words = events.AssistantMessage(turn_id=T, model_step_id="m1", text="Let me look.")
    state = after(STARTED, STEP, step_done(tokens=1200), words, begin("c1", "ls"), end("c1"), begin("c2", "make test"))
    assert card(state, 65) == TurnCard(
        phase=Phase.WORKING,
        headline="Working · 1:05",
        rows=(
            Row(state=RowState.NOTE, text="Let me look."),
            Row(state=RowState.DONE, text="shell: ls"),
            Row(state=RowState.RUNNING, text="shell: make test"),
        ),
        footer="2 tools · 1.2k tokens",
        controls=(STOP,),
    )


def test_words_of_the_last_step_are_no_row() -> None:
    """They are the answer, which comes as a message of its own."""
    words = events.AssistantMessage(turn_id=T, model_step_id="m1", text="The answer.")
    assert card(after(STARTED, STEP, step_done(), words)).rows == ()


def test_only_the_last_rows_are_shown() -> None:
    """Older rows that are over are counted; one that still runs stays."""
    calls = [msg for n in range(7) for msg in (begin(f"c{n}", f"step {n}"), end(f"c{n}"))]
    shown = card(after(STARTED, begin("long", "deploy"), *calls))
    assert shown.earlier_rows == 3
    assert [row.text for row in shown.rows] == ["shell: deploy", *(f"shell: step {n}" for n in (3, 4, 5, 6))]


def test_failed_skipped_and_unknown_calls() -> None:
    """Each end of a call looks different, in words too."""
    state = after(
        STARTED,
        begin("a", "one"), end("a", "failed", is_error=True),
        begin("b", "two"), end("b", "skipped", is_error=True),
        begin("c", "three"), end("c", "unknown", is_error=True),
        end("d", "denied", is_error=True, name="write_file"),
    )  # fmt: skip
    assert card(state).rows == (
        Row(state=RowState.FAILED, text="shell: one"),
        Row(state=RowState.SKIPPED, text="shell: two: skipped"),
        Row(state=RowState.FAILED, text="shell: three: a restart came between, so the result is unknown"),
        Row(state=RowState.SKIPPED, text="write_file"),
    )


def test_approval_needed() -> None:
    """The card says what it waits for, without a clock that would stand still; the request is a message of its own."""
    assert card(after(STARTED, REQUESTED)) == TurnCard(
        phase=Phase.WAITING, headline="Waiting for approval", controls=(STOP,)
    )


@pytest.mark.parametrize("decision", list(Resolution))
def test_after_any_decision_it_goes_on(decision: Resolution) -> None:
    """Approved, denied or expired: the turn works on."""
    resolved = events.ApprovalResolved(request_id="r", turn_id=T, decision=decision)
    assert card(after(STARTED, REQUESTED, resolved)).phase is Phase.WORKING


def test_steered() -> None:
    """A message that entered the running turn is a row with its author; of several lines it is the first."""
    steer = events.Message(message_id="in:2", author="Ann", delivery="steer", text="also\ncheck logout", turn_id=T)
    assert card(after(STARTED, STEP, steer)).rows == (Row(state=RowState.NOTE, text="Ann: also …"),)


def test_progress_after_an_overtaken_answer_stays_progress() -> None:
    """The words before the steer have their answer already, so the next words beside a call are a row."""
    steer = events.Message(message_id="in:2", author="Ann", delivery="steer", text="b", turn_id=T)
    answered = events.AssistantMessage(turn_id=T, model_step_id="m1", text="a is done.", overtaken=True)
    progress = events.AssistantMessage(turn_id=T, model_step_id="m2", text="Now b.")
    for first in ((answered, steer), (steer, answered)):
        state = after(STARTED, STEP, *first, STEP, progress, begin("c1"))
        assert state.turn
        assert state.turn.said == ""
        assert "Now b." in [row.text for row in card(state).rows]


def test_words_of_several_lines_are_not_joined() -> None:
    """Progress in several lines: its first one, and a sign that there is more."""
    words = events.AssistantMessage(turn_id=T, model_step_id="m1", text="\n# Plan\n\n- look\n- mend")
    assert card(after(STARTED, STEP, words, begin("c1"))).rows[0] == Row(state=RowState.NOTE, text="# Plan …")


def test_queued() -> None:
    """Messages that wait are counted, until they enter or are removed."""

    def queued(message: str) -> events.MessageQueued:
        return events.MessageQueued(message_id=message, disposition="queue", position=1, text="x", author="Ann")

    state = after(STARTED, queued("a"), queued("b"), queued("a"), events.MessageRemoved(message_id="b"), queued("c"))
    assert card(state).queue == 2
    entered = events.Message(message_id="a", author="Ann", delivery="queue", text="x", turn_id="t2")
    assert card(after(STARTED, queued("a"), entered)).queue == 0


def test_a_steer_does_not_count_as_queued() -> None:
    """It enters this turn."""
    steer = events.MessageQueued(message_id="a", disposition="steer", position=1, text="x", author="Ann")
    assert card(after(STARTED, steer)).queue == 0


def test_stopping() -> None:
    """Said at once, without a second Stop; a step that ends meanwhile does not take it back."""
    state = after(STARTED, STEP)
    assert state.turn
    state = SessionState(turn=stopping(state.turn))
    state = fold_all(state, [Event(sequence=9, submission_id=None, recorded_at_ms=START, msg=STEP)])
    assert card(state) == TurnCard(phase=Phase.STOPPING, headline="Stopping… · 0:42")


def test_stopped() -> None:
    """One line, with the name of who did it."""
    aborted = events.TurnAborted(turn_id=T, reason="stopped", by="rec:1", tool_calls=3)
    state = after(STARTED, STEP, aborted)
    assert card(state, who="Ann") == TurnCard(phase=Phase.STOPPED, headline="Stopped by Ann · 0:02 · 3 tools")


def test_a_stopped_turn_can_be_continued() -> None:
    """The notice says who stopped it and offers to go on; one that ended with its session does not."""
    for reason, labels in (("stopped", ["Continue"]), ("retired", [])):
        aborted = events.TurnAborted(turn_id=T, reason=reason, by="rec:1")
        state = after(STARTED, aborted)
        assert state.turn
        notice, choices = end_notice(state.turn, aborted, "Ann", TOKEN, None)
        assert notice.text == "⏹ Stopped by Ann."
        assert not notice.notify
        assert [control.label for control in notice.controls] == labels
        assert choices == "k"[: len(labels)]


def test_failed() -> None:
    """One line, and a message of its own with the reference."""
    error = events.Error(kind="provider", message="No answer.", reference="E7K2", turn_id=T)
    aborted = events.TurnAborted(turn_id=T, reason="No answer.", outcome="failed")
    state = after(STARTED, STEP, error, aborted)
    assert card(state) == TurnCard(phase=Phase.FAILED, headline="Failed · 0:03")
    assert state.turn
    notice, choices = end_notice(state.turn, aborted, None, TOKEN, None)
    assert choices == "rd"
    assert notice == Notice(
        text="✖ No answer.\nReference: E7K2",
        level="error",
        notify=True,
        controls=(
            Control(label="Retry", token=f"apv:{TOKEN}:r"),
            Control(label="Details", token=f"apv:{TOKEN}:d"),
        ),
    )


def test_recovered_after_a_restart() -> None:
    """The card says that it goes on; one that waits for a decision does not care."""
    state = after(STARTED, STEP, begin("c1", "make"))
    assert state.turn
    assert card(SessionState(turn=recovered(state.turn))).rows[-1] == Row(
        state=RowState.NOTE, text="↻ Restarted, going on by itself"
    )
    waiting = after(STARTED, REQUESTED).turn
    assert waiting
    assert recovered(waiting) == waiting


def test_a_step_that_a_restart_cut_is_told() -> None:
    """The stored event alone shows it."""
    assert card(after(STARTED, STEP, step_done("interrupted"), STEP)).rows == (
        Row(state=RowState.NOTE, text="↻ Restarted, going on by itself"),
    )


def test_interrupted_by_a_restart() -> None:
    """A turn that a restart ended says so, and offers another try."""
    aborted = events.TurnAborted(turn_id=T, reason=RESTARTED)
    state = after(STARTED, STEP, step_done("interrupted"), aborted)
    assert card(state).headline == "Interrupted by a restart · 0:03"
    assert state.turn
    notice, choices = end_notice(state.turn, aborted, None, TOKEN, None)
    assert (notice.level, choices, [control.label for control in notice.controls]) == ("warning", "r", ["Retry"])


def test_rejected_by_policy() -> None:
    """A turn that a policy ended names the reason, without anybody who stopped it."""
    aborted = events.TurnAborted(turn_id=T, reason="rejected by policy: no work on Sundays")
    state = after(STARTED, aborted)
    assert state.turn
    notice, choices = end_notice(state.turn, aborted, None, TOKEN, None)
    assert (notice.text, choices) == (
        "The turn ended without an answer: rejected by policy: no work on Sundays", ""
    )  # fmt: skip


def test_retrying() -> None:
    """A model that is slow to answer is not a failure."""
    assert card(after(STARTED, STEP, step_done("retrying"))).rows == (
        Row(state=RowState.NOTE, text="The model service did not answer, trying again"),
    )


def test_stalled() -> None:
    """Nothing for long: which tool it is, and for how long."""
    state = after(STARTED, begin("c1", "make"))
    assert state.turn
    shown = card(SessionState(turn=stalled(state.turn)), 1 + 5 * 60)
    assert shown.rows[-1].text == "No output for 5 min, still running shell: make"


def test_finished_with_usage() -> None:
    """One line with duration, tools, tokens, and the cost where it may be seen."""
    done = events.TurnComplete(
        turn_id=T, last_assistant_message="x", usage=Usage(input_tokens=17_000, output_tokens=1_200, cost_usd=0.091)
    )
    state = after(STARTED, begin("c1"), end("c1"), done, seconds_each=24)
    assert card(state, with_cost=True) == TurnCard(
        phase=Phase.DONE, headline="Done · 1:12 · 1 tool · 18k tokens · $0.09"
    )
    assert card(state).headline == "Done · 1:12 · 1 tool · 18k tokens"


def test_events_of_another_turn_change_nothing() -> None:
    """A late event never touches a later turn."""
    state = after(STARTED, STEP)
    late = events.ToolCallBegin(turn_id="t0", call_id="c", name="shell")
    assert fold_all(state, [Event(sequence=9, submission_id=None, recorded_at_ms=START, msg=late)]) == state
