"""Native streams: what a model writes is shown while it comes, and the answer is there exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Answer, Document, MessageRef, Notice, RowState, Stream, TurnCard
from adapters.errors import OutcomeUnknown, RateLimited, Refused, TargetGone
from gateway.delivery import CONSUMER, Asking
from gateway.secrets import redact, register, without_begun_secret
from runtime.protocol import events
from runtime.protocol.events import Event
from runtime.store.writer import Statement
from tests.support.delivering import FAST, SESSION, Bench, bench, controls_of

CHUNKS = replace(FAST, native_stream="chunks", idempotent_send="lookup")
DRAFTS = replace(FAST, native_stream="draft")
ASKED = Asking(ref=MessageRef(platform="rec", account="bot", chat="42", id="7"), private=True)


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery to a private chat with streams."""
    async with bench(tmp_path, CHUNKS) as made:
        made.people.asked["in:1"] = ASKED
        yield made


def started(turn: str = "t1") -> events.TurnStarted:
    return events.TurnStarted(turn_id=turn, message_id="in:1")


def complete(text: str = "Hello, world.") -> events.TurnComplete:
    return events.TurnComplete(turn_id="t1", last_assistant_message=text)


def write(on: Bench, text: str, step: str = "s1") -> None:
    """The model writes a piece; its last character is held back, since it may belong to what follows."""
    msg = events.AssistantDelta(turn_id="t1", model_step_id=step, text=text)
    on.delivery.showed(SESSION, Event(sequence=None, submission_id=None, msg=msg, recorded_at_ms=on.clock.now_ms()))


async def streaming(on: Bench, *pieces: str) -> None:
    """A turn whose stream shows the pieces."""
    await on.happen(started())
    for piece in pieces:
        write(on, piece)
    await on.pass_until(lambda: on.adapter.messages)
    await settle(on)


async def settle(on: Bench) -> None:
    """Let time pass until nothing is left to do."""
    resting = asyncio.ensure_future(on.delivery.at_rest())
    async with asyncio.timeout(30):
        while not resting.done():
            on.clock.advance(1)
            await asyncio.sleep(0.001)


async def pass_time(on: Bench, seconds: float = 1.0) -> None:
    on.clock.advance(seconds)
    await settle(on)


def shown(on: Bench) -> list[str]:
    """The text of every message that is there."""
    return [getattr(view, "markdown", None) or getattr(view, "text", "") for view in on.adapter.messages.values()]


async def test_the_end_of_a_stream_is_the_answer(on: Bench) -> None:
    """Nothing for a second and a half; then one message that grows, once a second, and ends as the answer."""
    await on.happen(started())
    write(on, "Hel")
    await on.until(lambda: on.delivery._reader.resting)
    on.clock.advance(1.4)
    await on.rest()
    assert not on.adapter.messages
    await on.pass_until(lambda: on.adapter.messages)
    for piece in ("lo", ", ", "wor"):
        write(on, piece)
    await on.pass_until(on.adapter.edits)
    await on.happen(complete())
    await settle(on)
    assert [view.markdown for view in on.adapter.edits() if isinstance(view, Stream)] == ["Hello, wo", "Hello, world."]
    [last] = on.adapter.messages.values()
    assert isinstance(last, Stream)
    assert (last.closed, last.title.startswith("Done")) == (True, True)
    assert not on.adapter.sent(Answer)


async def test_a_quick_turn_is_one_answer(on: Bench) -> None:
    """Over within a second and a half, it is a message like any other."""
    await on.happen(started())
    write(on, "Hello")
    await on.happen(complete())
    await on.rest()
    assert on.adapter.sent() == [Answer(markdown="Hello, world.")]


async def test_calls_are_rows_and_words_beside_them_stay(on: Bench) -> None:
    """What was said beside a call is text of the stream, not a row; rows keep their order, however many there are."""
    await streaming(on, "I look.")
    await on.happen(events.AssistantMessage(turn_id="t1", model_step_id="s1", text="I look."))
    for number in range(8):
        call = f"c{number}"
        await on.happen(
            events.ToolCallBegin(turn_id="t1", call_id=call, name="read", summary=str(number)),
            events.ToolCallEnd(turn_id="t1", call_id=call, name="read", output=""),
        )
    await on.happen(complete("It is there."))
    await settle(on)
    [last] = on.adapter.messages.values()
    assert isinstance(last, Stream)
    assert last.markdown == "I look.\n\nIt is there."
    rows = [row for row in last.rows if row.state is not RowState.NOTE]
    assert [row.text for row in rows] == [f"read: {number}" for number in range(8)]


async def test_what_was_taken_back_is_not_answered_with(on: Bench) -> None:
    """A model call that failed has written something; the stream ends with that, and the answer is a message."""
    await streaming(on, "Once upon.")
    await on.happen(
        events.ModelStepCompleted(turn_id="t1", model_step_id="s1", step_index=0, outcome="retrying"),
        complete("Something else."),
    )
    await on.rest()
    assert shown(on) == ["Once upon", "Something else."]
    assert [view.closed for view in on.adapter.messages.values() if isinstance(view, Stream)] == [True]


async def test_a_steered_turn_answers_with_a_message(on: Bench) -> None:
    """Each person's words have an answer of their own; the stream stays as it was."""
    await streaming(on, "Hello.")
    steer = events.Message(message_id="in:2", turn_id="t1", delivery="steer", author="Bob", text="and?")
    await on.happen(steer)
    write(on, " and more", "s2")
    await settle(on)
    await on.happen(complete())
    await settle(on)
    assert shown(on) == ["Hello", "Hello, world."]


async def test_in_a_group_there_is_a_card(tmp_path: Path) -> None:
    """A stream would be live for one person only."""
    async with bench(tmp_path, CHUNKS) as on:
        on.people.asked["in:1"] = replace(ASKED, private=False)
        await streaming(on, "Hello")
        await on.happen(complete())
        await on.rest()
        assert [type(view) for view in on.adapter.sent()] == [TurnCard, Answer]


@pytest.mark.parametrize("error", [Refused("streams are off"), TargetGone("no such message"), OutcomeUnknown("?")])
async def test_a_stream_that_cannot_be_ended_loses_no_answer(on: Bench, error: Exception) -> None:
    """The answer is a message then, after as many tries as an edit gets."""
    await streaming(on, "Hello")
    on.adapter.edit_failures.extend([error] * 20)
    await on.happen(complete())
    while not on.adapter.sent(Answer):
        on.clock.advance(60)
        await asyncio.sleep(0.001)
    on.adapter.edit_failures.clear()
    await on.rest()
    assert on.adapter.sent(Answer) == [Answer(markdown="Hello, world.")]
    assert await on.rows("SELECT count(*) FROM surfaces WHERE desired IS NOT NULL") == [(0,)]


async def test_a_stream_that_is_refused_is_no_loss(on: Bench) -> None:
    """The workspace takes none: the answer is a message."""
    on.adapter.fail_when = lambda view: Refused("not allowed") if isinstance(view, Stream) else None
    await on.happen(started())
    await on.pass_until(lambda: on.adapter.sent(Stream))
    await on.happen(complete())
    await settle(on)
    assert shown(on) == ["Hello, world."]


@pytest.mark.parametrize("held", [False, True])
async def test_a_crash_in_a_stream(on: Bench, held: bool) -> None:
    """Before or after the end was on its way: the message that is there becomes the answer, and there is no other."""
    await streaming(on, "Hello")
    if held:
        on.adapter.hold()
        await on.happen(complete())
        await on.until(lambda: on.adapter.waiting)
        await on.crash()
        on.adapter.release()
    else:
        await on.crash()
        await on.happen(complete(), quietly=True)
    await on.restart()
    await settle(on)
    assert shown(on) == ["Hello, world."]
    [last] = on.adapter.messages.values()
    assert isinstance(last, Stream)
    assert last.closed


async def test_a_turn_that_goes_on_after_a_restart_goes_on_in_its_stream(on: Bench) -> None:
    """What was being written is written anew; nothing is there twice."""
    await streaming(on, "Hel")
    await on.restart()
    write(on, "Hey.", "s2")
    await settle(on)
    await on.until(lambda: shown(on) == ["Hey"])
    await on.happen(complete("Hey you."))
    await settle(on)
    assert shown(on) == ["Hey you."]


async def test_a_stream_of_a_turn_that_is_lost_is_closed(on: Bench) -> None:
    """A start finds a stream whose turn is not in the journal any more."""
    await streaming(on, "Hello")
    await on.crash()
    cursor = on.store.cursor_statement(CONSUMER, SESSION, 1)
    await on.store.database.write([Statement("DELETE FROM event_journal"), cursor])
    await on.restart()
    await settle(on)
    [last] = on.adapter.messages.values()
    assert isinstance(last, Stream)
    assert (last.closed, last.title) == (True, "Interrupted by a restart")


async def test_a_stream_keeps_what_was_written_when_it_is_stopped(on: Bench) -> None:
    """The words stay, the end says who stopped it, and it can be gone on from."""
    await streaming(on, "Once upon a")
    await on.happen(
        events.AssistantMessage(turn_id="t1", model_step_id="s1", text="Once upon a time"),
        events.TurnAborted(turn_id="t1", reason="stopped", by="rec:1"),
    )
    await on.rest()
    [last] = on.adapter.messages.values()
    assert isinstance(last, Stream)
    assert (last.closed, last.markdown, controls_of(last)) == (True, "Once upon a time", ["Continue"])
    assert last.title.startswith("Stopped by Ann")


async def test_words_of_a_stopped_turn_are_kept_where_nothing_is_streamed(tmp_path: Path) -> None:
    """As a message that says that it is not all."""
    async with bench(tmp_path) as on:
        await on.happen(
            started(),
            events.AssistantMessage(turn_id="t1", model_step_id="s1", text="Once upon"),
            events.TurnAborted(turn_id="t1", reason="stopped", by="rec:1"),
        )
        await on.rest()
        partial, end = on.adapter.sent()
        assert partial == Answer(markdown="Once upon", footer="(stopped)", notify=False)
        assert isinstance(end, Notice)


async def test_a_very_long_answer_comes_as_a_file_too(on: Bench) -> None:
    """As it does where it is messages."""
    on.adapter.markup.limit = 10
    await streaming(on, "Hello")
    await on.happen(complete("Hello " * 20))
    await on.rest()
    assert [type(view) for view in on.adapter.messages.values()] == [Stream, Document]


async def test_half_a_secret_is_never_streamed(on: Bench) -> None:
    """What may yet become one waits; the whole is masked."""
    register("hunter2-hunter2")
    await streaming(on, "The password is hunter2-hun")
    write(on, "ter2, they say.")
    await pass_time(on)
    await on.happen(complete("The password is hunter2-hunter2, they say."))
    await on.rest()
    texts = [request.view.markdown for request in on.adapter.requests if isinstance(request.view, Stream)]
    assert not any("hunter2-h" in text for text in texts)
    assert texts[-1] == "The password is ***, they say."
    assert len(on.adapter.messages) == 1


@pytest.mark.parametrize(
    "text", ["plain words", "see bot", "bot123456:AAbb", "aHVudGVyMi1o", "hunter2-hunter2 ", "b", "the bots are here"]
)
def test_a_beginning_is_what_it_will_be(text: str) -> None:
    """Masked, what is shown of a beginning is the beginning of the masked whole, at every length."""
    register("hunter2-hunter2")
    whole = text + "hunter2-hunter2 and bot123456:" + "x" * 35 + " aHVudGVyMi1odW50ZXIy end"
    for length in range(len(whole)):
        assert redact(whole).startswith(redact(without_begun_secret(whole[:length])))


async def test_drafts_are_signs_beside_the_card(tmp_path: Path) -> None:
    """Once a second while it is written; never after the end, and the answer is a message."""
    async with bench(tmp_path, DRAFTS) as on:
        on.people.asked["in:1"] = ASKED
        await on.happen(started())
        await on.rest()
        for piece in ("Hel", "lo", ", world."):
            write(on, piece)
        await on.pass_until(lambda: on.adapter.sent(Stream))
        write(on, "..")
        await on.happen(complete())
        await on.rest()
        await pass_time(on, 30)
        drafts = on.adapter.sent(Stream)
        assert [draft.markdown for draft in drafts] == ["Hello, world"]
        assert on.adapter.sent()[-1] == Answer(markdown="Hello, world.")
        assert await on.rows("SELECT surface FROM deliveries WHERE surface <> 'card'") == [("answer",)]


async def test_drafts_that_fail_are_left(tmp_path: Path) -> None:
    """Three failures, and the turn goes on without; a ban only skips a frame."""
    async with bench(tmp_path, DRAFTS) as on:
        on.people.asked["in:1"] = ASKED
        errors = [RateLimited("slow", retry_after=1), *[Refused("TEXTDRAFT_PEER_INVALID")] * 9]
        on.adapter.fail_when = lambda view: errors.pop(0) if isinstance(view, Stream) else None
        await on.happen(started())
        await on.rest()
        for number in range(8):
            write(on, f"{number} ")
            await on.pass_until(lambda tries=number + 1: len(on.adapter.sent(Stream)) == min(tries, 4))
            await settle(on)
        assert len(on.adapter.sent(Stream)) == 4
        await on.happen(complete())
        await on.rest()
        assert on.adapter.sent(Answer) == [Answer(markdown="Hello, world.")]
