"""The outbox's contract with any platform: what it sends, how often, in which order, and what it never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import (
    Answer,
    ApprovalCard,
    Capabilities,
    Control,
    Document,
    MessageRef,
    Notice,
    Place,
    Reaction,
    ThreadStatus,
    TurnCard,
    View,
)
from adapters.errors import (
    BadCredentials,
    MarkupRefused,
    NotConnected,
    OutcomeUnknown,
    RateLimited,
    Refused,
    TargetGone,
)
from gateway.budget import Priority
from gateway.delivery import Destination
from gateway.ledger import deliveries, surfaces
from gateway.ledger.surfaces import NewSurface
from runtime.errors import CommitUnknown
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.store.writer import Result, Statement
from tests.support.delivering import FAST, PLACE, Bench, bench, is_open_card, pending

THREAD = replace(PLACE, thread="9")
OTHER_CHAT = replace(PLACE, chat="77")


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery that runs, to a platform where a send may be made twice."""
    async with bench(tmp_path) as made:
        yield made


async def plan(
    on: Bench, *views: View, source: str = "in:1", place: Place = PLACE, priority: Priority = Priority.ANSWER
) -> None:
    """Plan some parts, as whoever causes them does."""
    unit = deliveries.plan(
        source=source, surface="answer", place=place, views=views, priority=priority, now_ms=on.clock.now_ms()
    )
    await on.store.database.write(unit)
    on.delivery.wake(place)


def texts(views: list[View]) -> list[str]:
    return [view.markdown if isinstance(view, Answer) else getattr(view, "text", "") for view in views]


# ----------------------------------------------------------------------------------------------------- once, in order


async def test_planning_twice_is_planning_once(on: Bench) -> None:
    """Source, surface and part are the row's name."""
    await plan(on, Notice(text="a"))
    await plan(on, Notice(text="b"))
    await on.rest()
    assert texts(on.adapter.sent()) == ["a"]


async def test_planning_again_makes_no_second_surface(on: Bench) -> None:
    """A token that nothing was sent with is not stored."""
    for token in ("A" * 22, "B" * 22):
        new = NewSurface(token=token, kind="notice", choices="r")
        await on.store.database.write(
            deliveries.plan(
                source="in:1", surface="x", place=PLACE, views=[Notice(text="a")], priority=Priority.CONTROL,
                now_ms=1, new_surface=new,
            )
        )  # fmt: skip
    assert await on.rows("SELECT token FROM surfaces") == [("A" * 22,)]


async def test_parts_go_out_in_order_and_go_on_where_they_stopped(on: Bench) -> None:
    """A part that has to wait holds back those behind it; what was sent is not sent again."""
    on.adapter.failures.extend([None, RateLimited("slow", retry_after=5), None, None])
    await plan(on, *(Answer(markdown=part) for part in "abc"))
    await on.pass_until(lambda: len(on.adapter.requests) == 4)
    await on.rest()
    assert texts(on.adapter.chats["42"]) == ["a", "b", "c"]


async def test_every_attempt_has_the_same_key(on: Bench) -> None:
    """A platform that knows keys can tell that it is the same part."""
    on.adapter.capabilities = replace(FAST, idempotent_send="nonce")
    on.adapter.failures.extend([OutcomeUnknown("?"), None])
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.adapter.requests)
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(1)
    await on.rest()
    first, second = on.adapter.requests
    assert first.key == second.key
    assert (first.attempt, second.attempt) == (1, 2)
    assert len(first.key) <= 25


# ------------------------------------------------------------------------------------------------- unknown outcomes


async def test_an_unknown_outcome_is_repeated_once_with_a_mark(on: Bench) -> None:
    """Where the platform knows no keys, silence would be worse than a marked copy."""
    on.adapter.accept_first = True
    on.adapter.failures.append(OutcomeUnknown("timed out"))
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(1)
    await on.rest()
    assert on.adapter.sent() == [Answer(markdown="a"), Answer(markdown="a", repeat=True)]
    assert await on.states() == [("answer", 0, "sent", 2)]


async def test_a_second_unknown_outcome_is_never_tried_again(on: Bench) -> None:
    """It is listed for /status, and neither time nor a restart sends it again."""
    on.adapter.failures.extend([OutcomeUnknown("?"), OutcomeUnknown("?")])
    await plan(on, Answer(markdown="a"), Answer(markdown="b"))
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(1)
    await on.rest()
    assert await on.states() == [("answer", 0, "unknown", 2), ("answer", 1, "sent", 1)]
    [unknown] = await on.delivery.unknown_deliveries(PLACE)
    assert (unknown.view, unknown.attempt) == (Answer(markdown="a", repeat=True), 2)
    on.clock.advance(3600)
    await on.restart()
    await on.rest()
    assert len(on.adapter.sent()) == 3


async def test_progress_is_never_repeated(on: Bench) -> None:
    """A mark or card whose fate is not known is left alone."""
    on.adapter.failures.append(OutcomeUnknown("?"))
    await plan(on, Notice(text="mark"), priority=Priority.PROGRESS)
    await on.rest()
    assert await on.states() == [("answer", 0, "unknown", 1)]
    assert not await on.delivery.unknown_deliveries(PLACE)


async def test_with_keys_the_same_send_is_made_until_it_is_known(on: Bench) -> None:
    """No mark, no copy: the platform makes nothing twice."""
    on.adapter.capabilities = replace(FAST, idempotent_send="lookup")
    on.adapter.accept_first = True
    on.adapter.failures.extend([OutcomeUnknown("?")] * 3)
    await plan(on, Answer(markdown="a"))
    for _ in range(3):
        await on.until(lambda: on.clock.sleeping)
        on.clock.advance(10)
    await on.rest()
    assert set(on.adapter.sent()) == {Answer(markdown="a")}
    assert on.adapter.chats["42"] == [Answer(markdown="a")]
    assert await on.states() == [("answer", 0, "sent", 4)]


async def test_a_fault_of_the_adapter_says_nothing_about_the_platform(on: Bench) -> None:
    """An error that nobody meant to raise is treated as an unknown outcome, and ends no lane."""
    on.adapter.failures.append(ZeroDivisionError())
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(1)
    await on.rest()
    assert on.adapter.sent()[-1] == Answer(markdown="a", repeat=True)


# -------------------------------------------------------------------------------------------------- patience


async def test_a_ban_counts_for_the_whole_chat_and_for_no_other(on: Bench) -> None:
    """No call to the chat before its time, whatever its urgency; other chats go on."""
    on.adapter.failures.append(RateLimited("flood", retry_after=60))
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.clock.sleeping)
    await plan(on, Notice(text="urgent"), source="in:2", priority=Priority.CONTROL, place=THREAD)
    await plan(on, Answer(markdown="other"), source="in:3", place=OTHER_CHAT)
    await on.until(lambda: on.adapter.chats.get("77"))
    on.clock.advance(59.9)
    await on.until(lambda: on.clock.sleeping)
    assert not on.adapter.chats.get("42")
    on.clock.advance(0.1)
    await on.rest()
    assert texts(on.adapter.chats["42"]) == ["urgent", "a"]
    assert {row[3] for row in await on.states()} == {1}


async def test_a_ban_outlives_a_restart(on: Bench) -> None:
    """The platform's wish is stored with the row."""
    on.adapter.failures.append(RateLimited("flood", retry_after=60))
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.clock.sleeping)
    await on.restart()
    await on.until(lambda: on.clock.sleeping)
    assert len(on.adapter.requests) == 1
    on.clock.advance(60)
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="a")]


async def test_not_being_connected_loses_nothing(on: Bench) -> None:
    """Ever longer pauses, no mark, and at once when the adapter says that it runs."""
    on.adapter.failures.extend([NotConnected("no"), NotConnected("no")])
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(1)
    await on.until(lambda: len(on.adapter.requests) == 2)
    await on.until(lambda: on.clock.sleeping)
    on.delivery.connected("rec", "bot")
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="a")]
    assert await on.states() == [("answer", 0, "sent", 1)]


async def test_an_adapter_that_is_not_there_yet_loses_nothing(on: Bench) -> None:
    """Rows wait until it is."""
    adapter = on.adapters.adapters.pop(("rec", "bot"))
    await plan(on, Answer(markdown="a"))
    await on.until(lambda: on.clock.sleeping)
    assert await on.states() == [("answer", 0, "planned", 0)]
    on.adapters.adapters[("rec", "bot")] = adapter
    on.delivery.connected("rec", "bot")
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="a")]


async def test_refused_credentials_lose_nothing_and_are_told_once(on: Bench) -> None:
    """What waits is kept; an owner hears of it elsewhere, once."""
    on.adapter.failures.extend([BadCredentials("revoked"), BadCredentials("revoked"), None])
    await plan(on, Answer(markdown="a"))
    for _ in range(2):
        await on.until(lambda: on.clock.sleeping)
        on.clock.advance(60)
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="a")]
    assert len(on.told) == 1


# ------------------------------------------------------------------------------------------------ refusals


async def test_refused_markup_goes_as_plain_text(on: Bench) -> None:
    """The words arrive, without their looks."""
    on.adapter.failures.append(MarkupRefused("can't parse"))
    await plan(on, Answer(markdown="**a**"))
    await on.rest()
    assert on.adapter.chats["42"] == [Notice(text="**a**", notify=True)]
    assert await on.states() == [("answer", 0, "sent", 1)]


async def test_a_refused_answer_goes_as_a_file(on: Bench) -> None:
    """A refusal does not lose the words of an answer."""
    on.adapter.failures.append(Refused("message is too long"))
    await plan(on, Answer(markdown="a"), Answer(markdown="b"))
    await on.rest()
    assert on.adapter.chats["42"] == [Document(name="answer.md", text="a"), Answer(markdown="b")]


async def test_a_definite_no_is_tried_once(on: Bench) -> None:
    """It becomes a dead letter, and what is behind it goes on."""
    on.adapter.failures.append(Refused("no"))
    await plan(on, Notice(text="a"), Notice(text="b"), priority=Priority.CONTROL)
    await on.rest()
    assert await on.states() == [("answer", 0, "failed", 1), ("answer", 1, "sent", 1)]


async def test_a_dead_chat_is_given_up_and_its_owner_told_once(on: Bench) -> None:
    """Nothing is retried for ever; a chat that takes something again is alive again."""
    on.adapter.failures.append(TargetGone("bot was blocked by the user"))
    await plan(on, Answer(markdown="a"), Answer(markdown="b"))
    await on.rest()
    on.adapter.failures.append(TargetGone("bot was blocked by the user"))
    await plan(on, Answer(markdown="c"), source="in:2")
    await on.rest()
    assert [state for _, _, state, _ in await on.states()] == ["failed"] * 3
    assert len(on.told) == 1
    assert "blocked" in on.told[0]
    await plan(on, Answer(markdown="d"), source="in:3")
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="d")]
    assert await on.rows("SELECT * FROM dead_chats") == []


async def test_a_thread_that_is_gone_falls_back_to_its_chat_once(on: Bench) -> None:
    """All parts, in order, the first with a note; what comes later tries the thread again."""
    gone = TargetGone("message thread not found", thread_only=True)

    on.adapter.failures.append(gone)
    await plan(on, Answer(markdown="a"), Answer(markdown="b"), place=THREAD)
    await on.rest()
    first, second = on.adapter.chats["42"]
    assert isinstance(first, Answer)
    assert first.footer
    assert second == Answer(markdown="b")
    assert [request.place for request in on.adapter.requests] == [THREAD, PLACE, PLACE]
    await plan(on, Answer(markdown="c"), source="in:2", place=THREAD)
    await on.rest()
    assert on.adapter.requests[-1].place == THREAD


async def test_the_parent_chat_is_tried_only_once(on: Bench) -> None:
    """If that is gone too, the chat is dead."""
    gone = TargetGone("gone", thread_only=True)
    on.adapter.failures.extend([gone, gone])
    await plan(on, Answer(markdown="a"), place=THREAD)
    await on.rest()
    assert await on.states() == [("answer", 0, "failed", 1)]
    assert len(on.adapter.requests) == 2


async def test_a_chat_that_moved_is_followed(on: Bench) -> None:
    """What waits goes to the new id, in order; the sessions of the chat move with it."""
    on.adapter.failures.append(TargetGone("upgraded", moved_to="-100"))
    await plan(on, Answer(markdown="a"), Answer(markdown="b"))
    await on.rest()
    assert texts(on.adapter.chats["-100"]) == ["a", "b"]
    assert on.people.destinations["s"].place.chat == "-100"
    assert await on.states() == [("answer", 0, "sent", 1), ("answer", 1, "sent", 1)]


# ------------------------------------------------------------------------------------------- urgency and fairness


async def test_control_overtakes_answers_of_other_threads(on: Bench) -> None:
    """Approvals, stops and failures first; within a thread the order stays."""
    on.adapter.hold()
    await plan(on, *(Answer(markdown=part) for part in "abc"))
    await on.until(lambda: on.adapter.waiting)
    await plan(on, Notice(text="stop"), source="in:2", place=THREAD, priority=Priority.CONTROL)
    on.adapter.release()
    await on.rest()
    assert texts(on.adapter.chats["42"]) == ["a", "stop", "b", "c"]


async def test_threads_of_one_chat_take_turns(on: Bench) -> None:
    """A long answer in one thread does not hold up the answer in another."""
    on.adapter.hold()
    await plan(on, *(Answer(markdown=part) for part in "abcd"))
    await on.until(lambda: on.adapter.waiting)
    await plan(on, *(Answer(markdown=part) for part in "xy"), source="in:2", place=THREAD)
    on.adapter.release()
    await on.rest()
    assert texts(on.adapter.chats["42"]) == ["a", "x", "b", "y", "c", "d"]


async def test_a_slow_chat_slows_no_other(on: Bench) -> None:
    """Each chat has a lane of its own."""
    on.adapter.hold()
    await plan(on, Answer(markdown="slow"))
    await on.until(lambda: on.adapter.waiting == 1)
    await plan(on, Answer(markdown="fast"), source="in:2", place=OTHER_CHAT)
    await on.until(lambda: on.adapter.waiting == 2)
    on.adapter.release()
    await on.rest()


# ------------------------------------------------------------------------------------------------ live cards


def started(turn: str = "t1") -> events.TurnStarted:
    return events.TurnStarted(turn_id=turn)


def begin(call: str) -> events.ToolCallBegin:
    return events.ToolCallBegin(turn_id="t1", call_id=call, name="shell", summary=call)


async def test_of_many_states_only_the_newest_is_shown(tmp_path: Path) -> None:
    """Between two edits the platform's interval passes, and then the latest state wins."""
    async with bench(tmp_path, replace(FAST, edit_interval=3.0)) as on:
        await on.happen(started(), begin("c0"))
        await on.until(lambda: on.adapter.messages)
        for n in range(1, 5):
            await on.happen(begin(f"c{n}"))
        await on.until(lambda: on.delivery._reader.resting and on.clock.sleeping >= 2)
        assert not on.adapter.edits()
        on.clock.advance(3)
        await on.until(lambda: on.adapter.edits())
        await on.rest()
        [edit] = on.adapter.edits()
        assert isinstance(edit, TurnCard)
        assert edit.rows[-1].text == "shell: c4"


async def test_a_card_whose_fate_is_not_known_gets_no_second_one(on: Bench) -> None:
    """The turn goes on without a card, and its answer comes all the same."""
    on.adapter.failures.append(OutcomeUnknown("?"))
    await on.happen(started(), begin("c0"))
    await on.until(lambda: on.adapter.sent(TurnCard))
    await on.happen(begin("c1"), events.TurnComplete(turn_id="t1", last_assistant_message="Done."))
    await on.rest()
    assert len(on.adapter.sent(TurnCard)) == 1
    assert on.adapter.sent(Answer) == [Answer(markdown="Done.")]


async def test_a_card_that_was_put_off_is_dropped_with_its_turn(on: Bench) -> None:
    """Nothing says "working" for a turn that is over."""
    on.adapter.failures.append(RateLimited("slow", retry_after=10))
    await on.happen(started(), begin("c0"))
    await on.until(lambda: not on.adapter.failures)
    await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="Done."))
    await on.until(lambda: on.delivery._reader.resting)
    await on.pass_until(lambda: on.adapter.sent(Answer))
    await on.rest()
    assert on.adapter.chats["42"] == [Answer(markdown="Done.")]


async def test_lost_frames_are_tolerated_but_not_for_ever(on: Bench) -> None:
    """An edit that fails is made again with a newer state; after three in a row the card is left alone."""
    on.adapter.edit_failures.extend([OutcomeUnknown("?")] * 5)
    await on.happen(started(), begin("c0"))
    await on.until(lambda: on.adapter.messages)
    await on.happen(begin("c1"))
    await on.rest()
    assert len(on.adapter.edits()) == 3
    await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="Done."))
    await on.until(lambda: len(on.adapter.edits()) == 4)
    assert on.adapter.chats["42"][-1] == Answer(markdown="Done.")


async def test_where_nothing_can_be_edited_there_is_no_card(tmp_path: Path) -> None:
    """A card that cannot change would soon say what is not so; an outcome is a message then."""
    async with bench(tmp_path, replace(FAST, can_edit=False)) as on:
        asked = pending()
        requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=asked.calls)
        await on.happen(started(), requested, pending=asked)
        await on.rest()
        resolved = events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.EXPIRED)
        await on.happen(resolved)
        await on.rest()
        assert not on.adapter.sent(TurnCard)
        assert not on.adapter.edits()
        [notice] = on.adapter.sent(Notice)
        assert "Expired, not run" in notice.text


async def test_progress_leaves_a_reserve(tmp_path: Path) -> None:
    """However much a turn has to show, an answer of another thread goes out at once."""
    slow = Capabilities(sends_per_second=1, sends_per_minute=20, edit_interval=0)
    async with bench(tmp_path, slow) as on:
        await on.happen(started(), begin("c0"))
        await on.until(lambda: on.adapter.messages)
        for n in range(1, 40):
            await on.happen(begin(f"c{n}"))
            on.clock.advance(1)
        await on.until(lambda: on.delivery._reader.resting)
        before = on.clock.now_ms()
        await plan(on, Answer(markdown="a"), place=THREAD)
        await on.until(lambda: on.adapter.sent(Answer))
        assert on.clock.now_ms() == before
        per_minute = [request for request in on.adapter.requests if request.at_ms > before - 60_000]
        assert len(per_minute) <= 20


# ------------------------------------------------------------------------------------------------ approvals


def requested() -> events.ApprovalRequested:
    return events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)


def only_cards(fail: Exception) -> Callable[[View], Exception | None]:
    return lambda view: fail if isinstance(view, ApprovalCard) else None


async def test_a_card_that_is_refused_closes_its_request(on: Bench) -> None:
    """Nobody can press what nobody sees, so nothing waits for it."""
    on.adapter.fail_when = only_cards(Refused("no"))
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: on.undeliverable)
    await on.rest()
    assert [(session, request) for session, request, _ in on.undeliverable] == [("s", "r1")]


async def test_a_card_that_may_be_there_keeps_its_request_open(on: Bench) -> None:
    """Twice unknown: it may have been seen, so it is not closed; each copy has controls of its own."""
    on.adapter.fail_when = only_cards(OutcomeUnknown("?"))
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: len(on.adapter.sent(ApprovalCard)) == 1 and on.clock.sleeping >= 2)
    on.clock.advance(1)
    await on.until(lambda: len(on.adapter.sent(ApprovalCard)) == 2)
    await on.rest()
    assert not on.undeliverable
    first, second = on.adapter.sent(ApprovalCard)
    assert second.repeat
    assert first.controls[0].token != second.controls[0].token
    copies = await surfaces.of_request(on.store.database, "r1")
    assert [(copy.state, copy.adoptable, copy.choices) for copy in copies] == [("open", True, "ynsd")] * 2


async def test_a_press_brings_the_id_of_a_lost_card(on: Bench) -> None:
    """The message that was pressed is adopted, and gets the outcome like every other copy."""
    on.adapter.accept_first = True
    on.adapter.fail_when = only_cards(OutcomeUnknown("?"))
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: on.clock.sleeping >= 2)
    on.clock.advance(1)
    await on.until(lambda: len(on.adapter.sent(ApprovalCard)) == 2)
    await on.rest()
    lost = [message for message, view in on.adapter.messages.items() if isinstance(view, ApprovalCard)]
    for copy, message in zip(await surfaces.of_request(on.store.database, "r1"), lost, strict=True):
        await on.store.database.write(surfaces.adopt(copy.id, message, on.clock.now_ms()))
    assert await on.rows("SELECT count(*) FROM surfaces WHERE desired IS NOT NULL") == [(0,)]
    resolved = events.ApprovalResolved(
        request_id="r1", turn_id="t1", decision=Resolution.DENIED, decided_by="rec:2", reason="too risky"
    )
    await on.happen(resolved)
    await on.rest()
    for message in lost:
        view = on.adapter.messages[message]
        assert isinstance(view, ApprovalCard)
        assert (view.outcome or "").endswith("too risky")
        assert "Bob" in (view.outcome or "")
    assert not await on.delivery.unknown_deliveries(PLACE)


async def test_a_lost_card_that_is_found_late_gets_its_outcome(on: Bench) -> None:
    """Nothing waits for it meanwhile; a press on it brings its id, and then it says how it ended."""
    on.adapter.accept_first = True
    on.adapter.failures.extend([OutcomeUnknown("?")])
    await on.happen(requested(), pending=pending())
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(1)
    await on.rest()
    await on.happen(events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.EXPIRED))
    await on.rest()
    assert await on.rows("SELECT count(*) FROM surfaces WHERE desired IS NOT NULL") == [(0,)]
    first, _ = await surfaces.of_request(on.store.database, "r1")
    lost, _ = [message for message, view in on.adapter.messages.items() if isinstance(view, ApprovalCard)]
    await on.store.database.write(surfaces.adopt(first.id, lost, on.clock.now_ms()))
    on.delivery.wake(PLACE, repairs=True)
    await on.rest()
    view = on.adapter.messages[lost]
    assert isinstance(view, ApprovalCard)
    assert view.outcome


async def test_a_dead_chat_closes_its_requests(on: Bench) -> None:
    """The request is closed as undeliverable, not left to wait for ever."""
    on.adapter.fail_when = only_cards(TargetGone("kicked"))
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: on.undeliverable)
    await on.rest()
    assert on.undeliverable[0][:2] == ("s", "r1")


async def test_a_session_without_a_place_asks_nobody(on: Bench) -> None:
    """No approver can be reached, so the request is closed."""
    on.people.destinations.clear()
    await on.happen(started(), requested(), pending=pending())
    await on.rest()
    assert on.undeliverable[0][:2] == ("s", "r1")
    assert not on.adapter.requests


async def test_an_edit_that_is_refused_is_not_repeated(on: Bench) -> None:
    """A message that is gone needs no outcome."""
    on.adapter.edit_failures.append(TargetGone("message to edit not found"))
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: [view for view in on.adapter.messages.values() if is_open_card(view)])
    await on.rest()
    await on.happen(events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.APPROVED))
    await on.rest()
    assert await on.rows("SELECT count(*) FROM surfaces WHERE desired IS NOT NULL") == [(0,)]


async def test_an_edit_with_an_unknown_outcome_is_made_again(on: Bench) -> None:
    """Edits are idempotent, so the outcome gets there."""
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: len(on.adapter.messages) == 2)
    await on.rest()
    on.adapter.edit_failures.extend([OutcomeUnknown("?"), RateLimited("slow", retry_after=7)])
    await on.happen(events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.APPROVED))

    def outcome_shown() -> bool:
        cards = [view for view in on.adapter.messages.values() if isinstance(view, ApprovalCard)]
        return cards[0].outcome is not None

    for seconds in (1, 7):
        await on.until(lambda: on.clock.sleeping >= 2)
        on.clock.advance(seconds)
    await on.until(outcome_shown)
    await on.rest()


async def test_two_sessions_of_one_chat_have_a_card_each(on: Bench) -> None:
    """Cards belong to their turns, whatever the chat."""
    on.people.destinations["s2"] = Destination(place=THREAD)
    await on.happen(started(), begin("c0"))
    await on.happen(
        events.TurnStarted(turn_id="t2"),
        events.ToolCallBegin(turn_id="t2", call_id="c", name="read_file"),
        session="s2",
    )
    await on.until(lambda: len(on.adapter.sent(TurnCard)) == 2)
    await on.happen(events.TurnComplete(turn_id="t2", last_assistant_message="x"), session="s2")
    await on.rest()
    by_phase = {view.phase.value for view in on.adapter.messages.values() if isinstance(view, TurnCard)}
    assert by_phase == {"working", "done"}


async def test_the_platforms_own_state_of_a_thread_follows_the_turn(tmp_path: Path) -> None:
    """Processing, suspended while it waits, active at the end; the end survives a crash, since it is a row."""
    async with bench(tmp_path, replace(FAST, native_stop=True)) as on:
        await on.happen(started(), begin("c0"))
        await on.until(lambda: on.adapter.sent(ThreadStatus))
        await on.happen(requested(), pending=pending())
        await on.until(lambda: len(on.adapter.sent(ThreadStatus)) == 2)
        await on.happen(events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.APPROVED))
        await on.until(lambda: len(on.adapter.sent(ThreadStatus)) == 3)
        await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="Done."))
        await on.rest()
        states = [view.state for view in on.adapter.sent(ThreadStatus)]
        assert states == ["processing", "suspended", "processing", "active"]
        assert ("status", 0, "sent", 0) in await on.states()


async def test_a_repeat_that_is_put_off_makes_no_further_copy(on: Bench) -> None:
    """Nothing was done by a platform that asks for patience, so there is one second surface and no third."""
    on.adapter.failures.extend([OutcomeUnknown("?"), RateLimited("slow", retry_after=3), None])
    new = NewSurface(token="A" * 22, kind="notice", choices="r")
    view = Notice(text="a", controls=(Control(label="Retry", token=surfaces.payload("A" * 22, surfaces.Letter.RETRY)),))
    unit = deliveries.plan(
        source="in:1", surface="x", place=PLACE, views=[view], priority=Priority.CONTROL, now_ms=1, new_surface=new
    )
    await on.store.database.write(unit)
    on.delivery.wake(PLACE)
    for seconds in (1, 3):
        await on.until(lambda: on.clock.sleeping)
        on.clock.advance(seconds)
    await on.rest()
    assert await on.states() == [("x", 0, "sent", 2)]
    assert await on.rows("SELECT message_id, adoptable, choices FROM surfaces ORDER BY id") == [
        (None, 1, "r"),
        ("1", 0, "r"),
    ]


async def test_a_mark_on_a_message_that_is_gone_says_nothing_about_the_chat(on: Bench) -> None:
    """The mark is given up, the chat lives, and what is said does not wait for marks."""
    ref = MessageRef(platform="rec", account="bot", chat="42", id="7")
    on.adapter.fail_when = lambda view: TargetGone("message not found") if isinstance(view, Reaction) else None
    on.adapter.hold()
    await plan(on, Notice(text="first"))
    await on.until(lambda: on.adapter.waiting)
    await plan(on, Reaction(ref=ref, mark="accepted"), source="in:2", priority=Priority.PROGRESS)
    await plan(on, Answer(markdown="second"), source="in:3")
    on.adapter.release()
    await on.rest()
    assert texts(on.adapter.chats["42"]) == ["first", "second"]
    assert [type(view) for view in on.adapter.sent()] == [Notice, Answer, Reaction]
    assert not on.told


async def test_what_is_settled_is_forgotten_in_time(on: Bench) -> None:
    """Old rows and closed messages go; an open request stays, however old."""
    await on.happen(started(), requested(), pending=pending())
    await on.until(lambda: len(on.adapter.messages) == 2)
    await on.happen(events.TurnComplete(turn_id="t1", last_assistant_message="x"), session="other")
    await plan(on, Answer(markdown="a"))
    await on.rest()
    await on.delivery.forget(on.clock.now_ms() + 1)
    assert {row[0] for row in await on.states()} == {"approval", "card"}
    await on.happen(
        events.ApprovalResolved(request_id="r1", turn_id="t1", decision=Resolution.EXPIRED),
        events.TurnComplete(turn_id="t1", last_assistant_message="x"),
    )
    await on.rest()
    await on.delivery.forget(on.clock.now_ms() + 1)
    assert await on.states() == []
    assert await on.rows("SELECT count(*) FROM surfaces") == [(0,)]


async def test_a_mark_costs_one_commit_and_is_sent_once(on: Bench) -> None:
    """Setting a mark twice is setting it once, so nothing is written before it."""
    ref = MessageRef(platform="rec", account="bot", chat="42", id="7")
    commits: list[int] = []
    write = on.store.database.write

    async def counted(unit: Sequence[Statement]) -> list[Result]:
        commits.append(len(unit))
        return await write(unit)

    await plan(on, Reaction(ref=ref, mark="accepted"), priority=Priority.PROGRESS)
    on.store.database.write = counted  # type: ignore[method-assign]
    await on.rest()
    assert len(commits) == 1
    await on.restart()
    await on.rest()
    assert on.adapter.sent() == [Reaction(ref=ref, mark="accepted")]
    assert await on.states() == [("answer", 0, "sent", 0)]


@pytest.mark.parametrize(
    ("error", "state"),
    [(OutcomeUnknown("?"), "failed"), (Refused("REACTION_INVALID"), "failed"), (ZeroDivisionError(), "failed")],
)
async def test_a_mark_that_fails_is_not_tried_again(on: Bench, error: Exception, state: str) -> None:
    """A platform that refuses it is not asked again."""
    ref = MessageRef(platform="rec", account="bot", chat="42", id="7")
    on.adapter.failures.append(error)
    await plan(on, Reaction(ref=ref, mark="accepted"), priority=Priority.PROGRESS)
    await on.rest()
    assert [row[2] for row in await on.states()] == [state]


async def test_a_mark_waits_out_a_ban(on: Bench) -> None:
    """The ban counts for the whole chat, and the mark comes after it."""
    ref = MessageRef(platform="rec", account="bot", chat="42", id="7")
    on.adapter.failures.append(RateLimited("slow", retry_after=4))
    await plan(on, Reaction(ref=ref, mark="accepted"), priority=Priority.PROGRESS)
    await on.until(lambda: on.clock.sleeping)
    on.clock.advance(4)
    await on.rest()
    assert [row[2] for row in await on.states()] == ["sent"]


async def test_an_answer_that_is_being_planned_is_sent_by_nobody_else(on: Bench) -> None:
    """A lane that wakes while an answer is stored as going out neither repeats it nor sends it twice."""
    stored, go_on = asyncio.Event(), asyncio.Event()
    write = on.store.database.write

    async def slow(unit: Sequence[Statement]) -> list[Result]:
        results = await write(unit)
        if any("INSERT OR IGNORE INTO deliveries" in statement.sql for statement in unit) and not stored.is_set():
            stored.set()
            await go_on.wait()
        return results

    on.store.database.write = slow  # type: ignore[method-assign]
    await on.happen(started(), events.TurnComplete(turn_id="t1", last_assistant_message="Done."))
    await stored.wait()
    await plan(on, Notice(text="receipt"), source="in:2", place=THREAD)
    await on.until(lambda: on.adapter.sent(Notice))
    assert not on.adapter.sent(Answer)
    go_on.set()
    await on.rest()
    assert on.adapter.sent(Answer) == [Answer(markdown="Done.")]
    assert await on.states() == [("answer", 0, "sent", 1)] * 2


async def test_a_card_whose_commit_was_unknown_is_found_again(on: Bench) -> None:
    """The row is there although its commit reported an error: it is that card, and no second one is made."""
    write = on.store.database.write
    lost: list[int] = []

    async def forgetful(unit: Sequence[Statement]) -> list[Result]:
        results = await write(unit)
        if not lost and any("'sending'" in repr(statement.params) for statement in unit):
            lost.append(1)
            raise CommitUnknown("it may have been kept")
        return results

    on.store.database.write = forgetful  # type: ignore[method-assign]
    await on.happen(started(), begin("c0"))
    await on.until(lambda: lost)
    await on.until(lambda: on.clock.sleeping >= 2)
    on.clock.advance(1)
    await on.rest()
    assert await on.rows("SELECT count(*) FROM surfaces") == [(1,)]
    assert await on.rows("SELECT state FROM deliveries") == [("unknown",)]
    assert not on.adapter.sent(TurnCard)
