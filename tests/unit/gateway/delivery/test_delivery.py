"""From stored events to messages: what is sent, where, in which order, and how often."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import (
    Answer,
    ApprovalCard,
    Document,
    MessageRef,
    Notice,
    Reaction,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
)
from adapters.errors import OutcomeUnknown, RateLimited
from gateway.delivery import Asking, Destination
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.context import Usage
from tests.support.delivering import FAST, PLACE, Bench, PlainMarkup, bench, controls_of, pending


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery that runs."""
    async with bench(tmp_path) as made:
        yield made


def started(turn: str = "t1", message: str = "in:1") -> events.TurnStarted:
    return events.TurnStarted(turn_id=turn, message_id=message)


def complete(text: str | None = "Hello.", turn: str = "t1") -> events.TurnComplete:
    return events.TurnComplete(turn_id=turn, last_assistant_message=text, usage=Usage(input_tokens=10))


async def test_a_quick_turn_is_one_answer_and_nothing_else(on: Bench) -> None:
    """No card, no typing, one message, sent once under one key."""
    await on.happen(started(), complete())
    await on.rest()
    assert on.adapter.sent() == [Answer(markdown="Hello.")]
    assert await on.states() == [("answer", 0, "sent", 1)]
    assert await on.rows("SELECT count(*) FROM surfaces") == [(0,)]


async def test_a_turn_without_words_still_gets_its_reply(on: Bench) -> None:
    """Every turn ends in something that a person sees."""
    await on.happen(started(), complete(None))
    await on.rest()
    assert [type(view) for view in on.adapter.sent()] == [Notice]


async def test_the_card_comes_after_a_second_and_a_half_and_collapses(on: Bench) -> None:
    """A turn that lasts shows one card with Stop; once over, it is one line without controls."""
    await on.happen(started())
    await on.rest()
    on.clock.advance(1.49)
    await on.rest()
    assert not on.adapter.sent(TurnCard)
    on.clock.advance(0.01)
    await on.until(lambda: on.adapter.messages)
    await on.rest()
    [card] = on.adapter.sent()
    assert controls_of(card) == ["Stop"]
    assert card.labels == ("Workspace: Shop", "From: telegram")
    await on.happen(complete())
    await on.rest()
    last = on.adapter.messages["1"]
    assert isinstance(last, TurnCard)
    assert (last.headline, last.rows, last.controls) == ("Done · 0:01 · 10 tokens", (), ())


async def test_the_clock_of_a_card_goes_on_while_its_turn_runs(on: Bench) -> None:
    """Nothing happens for long: the time is brought up to date all the same; not while a person has to decide."""
    await on.happen(started(), events.ToolCallBegin(turn_id="t1", call_id="c", name="shell"))
    await on.until(lambda: on.adapter.messages)
    await on.rest()
    for ticks in (1, 2, 3):
        on.clock.advance(5)
        await on.until(lambda edits=ticks: len(on.adapter.edits()) == edits)
        await on.rest()
    assert [view.headline for view in on.adapter.edits()] == [f"Working · 0:{n:02}" for n in (5, 10, 15)]
    await on.happen(requested(), pending=pending())
    await on.rest()
    edits = len(on.adapter.edits())
    on.clock.advance(290)
    await on.rest()
    assert len(on.adapter.edits()) == edits
    assert on.adapter.messages["1"].headline == "Waiting for approval"  # type: ignore[union-attr]


async def test_only_the_first_card_of_a_session_has_the_labels(on: Bench) -> None:
    """Labels are said once."""
    for number, turn in enumerate(("t1", "t2"), 1):
        await on.happen(started(turn), events.ToolCallBegin(turn_id=turn, call_id="c", name="shell"))
        await on.until(lambda cards=number: len(on.adapter.sent(TurnCard)) == cards)
        await on.happen(complete(turn=turn))
        await on.rest()
    first, second = on.adapter.sent(TurnCard)
    assert first.labels
    assert not second.labels


async def test_typing_is_owned_by_the_turn(on: Bench) -> None:
    """A sign of life after half a second, none once the card is there, and none after the end."""
    await on.happen(started())
    await on.rest()
    on.clock.advance(0.5)
    await on.until(lambda: on.adapter.sent(Typing))
    await on.happen(complete())
    await on.rest()
    on.clock.advance(60)
    await on.rest()
    assert len(on.adapter.sent(Typing)) == 1


ASKED = MessageRef(platform="rec", account="bot", chat="42", id="7")


async def test_a_message_that_is_not_answered_within_a_second_gets_its_mark(tmp_path: Path) -> None:
    """Once, before the card; it is no row, and the turn's end does not wait for it."""
    async with bench(tmp_path, replace(FAST, reactions=True)) as on:
        on.people.asked["in:1"] = Asking(ref=ASKED, private=True)
        await on.happen(started())
        await on.rest()
        on.clock.advance(0.99)
        await on.rest()
        assert not on.adapter.sent(Reaction)
        await on.pass_until(lambda: on.adapter.sent(Reaction), 0.01)
        await on.pass_until(lambda: on.adapter.sent(TurnCard))
        await on.happen(complete())
        await on.rest()
        assert on.adapter.sent(Reaction) == [Reaction(ref=ASKED, mark="accepted")]
        assert [row[0] for row in await on.states()] == ["card", "answer"]


@pytest.mark.parametrize("spoken", [True, False])
async def test_what_shows_itself_or_was_pressed_gets_no_mark(tmp_path: Path, spoken: bool) -> None:
    """Neither a message whose card is there already, nor one of ours that somebody pressed."""
    async with bench(tmp_path, replace(FAST, reactions=True)) as on:
        on.people.asked["in:1"] = Asking(ref=ASKED, spoken=spoken)
        calls = [events.ToolCallBegin(turn_id="t1", call_id="c", name="shell")] if spoken else []
        await on.happen(started(), *calls)
        await on.rest()
        for _ in range(3):
            on.clock.advance(1)
            await on.rest()
        await on.happen(complete())
        await on.rest()
        assert on.adapter.sent(TurnCard)
        assert not on.adapter.sent(Reaction)


@pytest.mark.parametrize("answered", [True, False])
async def test_a_mark_that_was_put_off_is_given_later_or_not_at_all(tmp_path: Path, answered: bool) -> None:
    """A ban counts for the whole chat; after it the answer is first, and then there is nothing left to mark."""
    async with bench(tmp_path, replace(FAST, reactions=True, can_edit=False)) as on:
        on.people.asked["in:1"] = Asking(ref=ASKED)
        on.adapter.fail_when = lambda view: RateLimited("slow", retry_after=9) if isinstance(view, Reaction) else None
        await on.happen(started())
        await on.rest()
        await on.pass_until(lambda: on.adapter.sent(Reaction))
        on.adapter.fail_when = lambda view: None
        if answered:
            await on.happen(complete())
            await on.until(lambda: on.delivery._reader.resting)
        before = len(on.adapter.requests)
        await on.pass_until(lambda: len(on.adapter.requests) > before)
        await on.rest()
        after = {type(request.view) for request in on.adapter.requests[before:]}
        assert after == {Answer} if answered else Reaction in after, after


class SlowMarkup(PlainMarkup):
    """Cuts a text only when it is told to."""

    def __init__(self) -> None:
        super().__init__(4000)
        self.begun, self.go_on, self.told = threading.Event(), threading.Event(), False

    def split(self, markdown: str) -> tuple[str, ...]:
        """Wait, as a dense text of many pages lets one wait."""
        self.begun.set()
        self.told = self.go_on.wait(20)
        return super().split(markdown)


async def test_a_long_answer_is_cut_while_others_are_served(on: Bench) -> None:
    """The loop goes on while it is cut: another chat gets its answer before."""
    on.adapter.markup = slow = SlowMarkup()
    other = replace(PLACE, chat="77")
    on.people.destinations["other"] = Destination(place=other)
    await on.happen(started(), complete("word " * 2000))
    await on.until(slow.begun.is_set)
    on.adapter.markup = PlainMarkup()
    await on.happen(started("t9"), complete("Short.", "t9"), session="other")
    await on.until(lambda: on.adapter.chats.get("77") == [Answer(markdown="Short.")])
    assert "42" not in on.adapter.chats
    slow.go_on.set()
    await on.rest()
    assert slow.told
    assert len(on.adapter.chats["42"]) == 3


async def test_in_a_group_the_answer_points_at_its_question(on: Bench) -> None:
    """The first part replies to the asking message; later parts follow it."""
    ref = MessageRef(platform="rec", account="bot", chat="42", id="7")
    on.people.asked["in:1"] = Asking(ref=ref)
    on.adapter.markup.limit = 10
    await on.happen(started(), complete("0123456789abc"))
    await on.rest()
    assert on.adapter.sent() == [Answer(markdown="0123456789", reply_to=ref), Answer(markdown="abc")]


async def test_a_long_answer_comes_whole_and_also_as_a_file(on: Bench) -> None:
    """Nothing is cut; beyond three parts the whole text is attached as well."""
    on.adapter.markup.limit = 10
    text = "0123456789" * 4
    await on.happen(started(), complete(text))
    await on.rest()
    *parts, file = on.adapter.sent()
    assert "".join(part.markdown for part in parts) == text
    assert isinstance(file, Document)
    assert file.text == text


async def test_an_ending_that_a_steer_overtook_is_a_message_of_its_own(on: Bench) -> None:
    """Words that were meant as an answer are not lost."""
    overtaken = events.AssistantMessage(turn_id="t1", model_step_id="m", text="First.", overtaken=True)
    await on.happen(started(), overtaken, complete("Second."))
    await on.rest()
    assert [view.markdown for view in on.adapter.sent(Answer)] == ["First.", "Second."]


async def test_words_beside_calls_are_a_message_where_somebody_spoke_in_between(on: Bench) -> None:
    """The reply that takes up a steer may be the only answer to the words before it; later progress is a row."""
    steer = events.Message(message_id="in:2", author="Ann", delivery="steer", text="and b", turn_id="t1")

    def step(text: str, call: str) -> tuple[events.AssistantMessage, events.ToolCallBegin]:
        said = events.AssistantMessage(turn_id="t1", model_step_id="m", text=text)
        return said, events.ToolCallBegin(turn_id="t1", call_id=call, name="write_file")

    await on.happen(started(), *step("Let me see.", "c1"))
    await on.happen(steer, events.AssistantMessage(turn_id="t1", model_step_id="m", text="Noted a. Now b."))
    await on.restart()
    await on.happen(step("", "c2")[1], *step("Nearly there.", "c3"), complete("Noted b."))
    await on.rest()
    assert [view.markdown for view in on.adapter.sent(Answer)] == ["Noted a. Now b.", "Noted b."]


async def test_a_failure_is_told_with_reference_and_controls(on: Bench) -> None:
    """It notifies, offers what can be done, and its controls have a row of their own."""
    error = events.Error(kind="provider", message="The model service did not answer.", reference="E7K2", turn_id="t1")
    aborted = events.TurnAborted(turn_id="t1", reason="x", outcome="failed")
    await on.happen(started(), error, aborted)
    await on.rest()
    [notice] = on.adapter.sent()
    assert (notice.level, notice.notify, controls_of(notice)) == ("error", True, ["Retry", "Details"])
    assert notice.text == "✖ The model service did not answer.\nReference: E7K2"
    assert await on.rows("SELECT kind, choices, state, message_id, turn_id FROM surfaces") == [
        ("notice", "rd", "open", "1", "t1")
    ]


async def test_a_stop_is_told_with_the_name_and_what_was_done(on: Bench) -> None:
    """Stopped by whom, and which tools had finished."""
    await on.happen(
        started(),
        events.ToolCallBegin(turn_id="t1", call_id="c", name="shell", summary="ls"),
        events.ToolCallEnd(turn_id="t1", call_id="c", name="shell", output=""),
        events.TurnAborted(turn_id="t1", reason="stopped", by="rec:1", tool_calls=1),
    )
    await on.rest()
    assert [view.text for view in on.adapter.sent(Notice)] == [
        "⏹ Stopped by Ann.\nFinished before that: 1 tool (shell)."
    ]


async def test_a_stop_is_told_once(on: Bench) -> None:
    """Where the turn has a card, that says it and offers to go on: under controls of its own, which count after a
    restart; Stop counts no more."""
    call = events.ToolCallBegin(turn_id="t1", call_id="c", name="shell", summary="ls")
    await on.happen(started(), call, events.ToolCallEnd(turn_id="t1", call_id="c", name="shell", output=""))
    await on.until(lambda: on.adapter.messages)
    await on.rest()
    await on.happen(events.TurnAborted(turn_id="t1", reason="stopped", by="rec:1", tool_calls=1))
    await on.rest()
    [(message, card)] = on.adapter.messages.items()
    assert isinstance(card, TurnCard)
    assert card.headline == "Stopped by Ann · 0:00 · 1 tool"
    assert [row.text for row in card.rows] == ["Finished before that: 1 tool (shell)."]
    assert controls_of(card) == ["Continue"]
    token = card.controls[0].token.split(":")[1]
    rows = await on.rows("SELECT kind, state, choices, turn_id, message_id FROM surfaces WHERE token = ?", token)
    assert rows == [("notice", "open", "k", "t1", message)]
    assert await on.rows("SELECT state, choices FROM surfaces WHERE kind = 'card'") == [("closed", "x")]
    await on.restart()
    await on.rest()
    assert len(on.adapter.messages) == 1


async def test_a_stop_is_told_by_a_message_where_no_card_can_say_it(tmp_path: Path) -> None:
    """A platform that edits nothing, or a card of which nobody knows whether it is there."""
    async with bench(tmp_path, replace(FAST, can_edit=False)) as on:
        await on.happen(started(), events.ToolCallBegin(turn_id="t1", call_id="c", name="shell"))
        await on.happen(events.TurnAborted(turn_id="t1", reason="stopped", by="rec:1", tool_calls=1))
        await on.rest()
        assert [controls_of(view) for view in on.adapter.sent(Notice)] == [["Continue"]]


def requested() -> events.ApprovalRequested:
    asked = pending()
    return events.ApprovalRequested(
        request_id="r1", turn_id="t1", calls=asked.calls, requester="rec:2", summaries=("rm -rf build",)
    )


async def test_an_approval_is_asked_and_every_copy_shows_the_outcome(on: Bench) -> None:
    """The card notifies with the whole action; after the decision it is one line with the decider's name."""
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: len(on.adapter.messages) == 2)
    [card] = on.adapter.sent(ApprovalCard)
    assert controls_of(card) == ["Approve", "Deny", "Allow for this session", "Details"]
    assert "argument command: rm -rf build" in card.body
    assert card.lines[:2] == ("Workspace: Shop", "From: telegram")
    assert card.title == "Approval needed · shell rm -rf build"
    await on.happen(
        events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.APPROVED, decided_by="rec:1")
    )
    await on.rest()
    outcome = next(view for view in on.adapter.messages.values() if isinstance(view, ApprovalCard))
    assert (outcome.outcome or "").startswith("✅ Approved by Ann · ")
    assert (outcome.title, outcome.controls) == ("shell rm -rf build", ())
    assert await on.rows("SELECT state, desired FROM surfaces WHERE kind = 'approval'") == [("closed", None)]
    assert [row[0] for row in await on.rows("SELECT kind FROM audit ORDER BY id")] == ["asked", "decided"]


async def test_a_request_that_was_decided_before_it_was_read_is_never_shown(on: Bench) -> None:
    """Nobody is asked what is decided already."""
    resolved = events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.EXPIRED)
    await on.happen(started(), requested(), resolved)
    await on.rest()
    assert not on.adapter.sent(ApprovalCard)


async def test_a_decision_before_the_card_went_out_shows_only_the_outcome(on: Bench) -> None:
    """What waits in a slow chat is not asked any more; the outcome is told instead."""
    on.adapter.markup.limit = 1000
    long = pending(*[pending().actions["c1"].__class__(tool="shell", schema_hash="h", arguments={"c": "x" * 5000})])
    on.adapter.hold()
    await on.happen(started(), requested(), pending=long)
    await on.until(lambda: on.adapter.waiting == 1)
    await on.happen(events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.EXPIRED))
    await on.until(lambda: on.delivery._reader.resting)
    on.adapter.release()
    await on.rest()
    assert [type(view) for view in on.adapter.sent() if not isinstance(view, TurnCard)] == [Verbatim, ApprovalCard]
    [card] = on.adapter.sent(ApprovalCard)
    assert (card.outcome or "").startswith("⌛ Expired, not run")
    assert not on.undeliverable


async def test_several_commits_make_nothing_twice(on: Bench) -> None:
    """A journal that is read again from its cursor plans nothing again."""
    await on.happen(started(), complete())
    await on.rest()
    await on.restart()
    await on.rest()
    assert len(on.adapter.sent()) == 1
    assert PLACE.chat in on.adapter.chats


async def test_a_quick_answer_costs_two_commits(on: Bench) -> None:
    """One that plans it, already marked as going out, and one that says that it is there."""
    commits: list[int] = []
    write = on.store.database.write

    async def counted(unit: Any) -> Any:
        commits.append(len(unit))
        return await write(unit)

    on.store.database.write = counted  # type: ignore[method-assign]
    await on.happen(started(), complete())
    await on.rest()
    assert on.adapter.sent() == [Answer(markdown="Hello.")]
    assert len(commits) == 2


async def test_events_at_hand_are_not_read_again(on: Bench) -> None:
    """What was handed in with the commit is used; where something is missing, the journal is read."""
    reads: list[int] = []
    page = on.store.event_page

    async def counted(*args: Any, **options: Any) -> Any:
        reads.append(1)
        return await page(*args, **options)

    await on.happen(started(), quietly=True)
    await on.happen(complete(), quietly=True)
    stored = (await page("s", after=0)).events
    on.store.event_page = counted  # type: ignore[method-assign]
    on.delivery.committed("s", 2, stored)
    await on.rest()
    assert on.adapter.sent() == [Answer(markdown="Hello.")]
    assert not reads
    await on.happen(started("t2"), quietly=True)
    await on.happen(complete("Again.", "t2"), quietly=True)
    on.delivery.committed("s", 4, (await page("s", after=3)).events)
    await on.rest()
    assert on.adapter.sent(Answer)[-1] == Answer(markdown="Again.")
    assert reads


async def test_an_approval_names_everybody_who_asked(on: Bench) -> None:
    """In a shared thread whoever spoke last may have brought it about: all whose words entered the turn are named."""
    await on.happen(started(), requested(), pending=pending(), principals=("rec:1", "rec:2", "rec:3"))
    await on.rest()
    [card] = on.adapter.sent(ApprovalCard)
    assert "Asked by Bob, Ann, rec:3" in card.lines


async def test_the_outcome_of_a_card_that_nobody_knows_is_a_line(on: Bench) -> None:
    """Its message cannot be edited, so that what became of the request is said."""
    on.adapter.accept_first = True
    on.adapter.fail_when = lambda view: OutcomeUnknown("?") if isinstance(view, ApprovalCard) else None
    await on.happen(started(), requested(), pending=pending())
    await on.pass_until(lambda: len(on.adapter.sent(ApprovalCard)) == 2)
    await on.rest()
    resolved = events.ApprovalResolved(
        request_id="r1", turn_id="t1", decision=Resolution.APPROVED, decided_by="rec:1"
    )  # fmt: skip
    await on.happen(resolved)
    await on.rest()
    [notice] = on.adapter.sent(Notice)
    assert "Approved by Ann" in notice.text


async def test_a_thread_is_named_by_the_first_words_of_its_session(tmp_path: Path) -> None:
    """In sixty characters, while the first turn runs; later turns name nothing."""
    async with bench(tmp_path, replace(FAST, native_stop=True, can_rename_thread=True)) as on:
        for number, text in enumerate(("\nFix the   login " + "x" * 80, "And now?"), 1):
            on.people.asked[f"in:{number}"] = Asking(ref=ASKED, text=text)
            await on.happen(started(f"t{number}", f"in:{number}"))
            await on.until(lambda n=number: len(on.adapter.sent(ThreadStatus)) == 2 * n - 1)
            await on.happen(complete(turn=f"t{number}"))
            await on.rest()
        states = [(view.state, view.title) for view in on.adapter.sent(ThreadStatus)]
        assert states == [
            ("processing", "Fix the login " + "x" * 45 + "…"), ("active", None), ("processing", None), ("active", None)
        ]  # fmt: skip
