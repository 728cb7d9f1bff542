"""Native streams against the emulator: one text in as many streams as it takes, each piece of it shown once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import Control, Document, Phase, Row, RowState, Stream, ThreadStatus, TurnCard
from adapters.emulators.faults import FaultKind
from adapters.errors import Refused
from adapters.slack.segments import BUDGET_BYTES, Segment, closing, reopening, settled, step
from tests.support.sides import slack_buttons
from tests.support.slack_side import Side, slack_side

pytestmark = pytest.mark.xdist_group("bolt")


def words(count: int) -> str:
    """Words that tell their number."""
    return " ".join(f"w{number:05d}" for number in range(count))


def numbers(text: str) -> list[str]:
    """The words of `words` in a text, in order."""
    return re.findall(r"w\d{5}", text)


def statuses(side: Side) -> list[str]:
    """The states of the sessions now."""
    return [str(one["status"]) for one in side.emulator.sessions()]


async def test_long_run_goes_on_in_new_streams_and_stays_processing() -> None:
    """Twelve minutes take at least three streams; titles and open rows are repeated, and the state never drops."""
    async with slack_side() as side:
        place = await side.thread()
        await side.adapter.send(place, ThreadStatus(state="processing"), "status", 1)
        rows = [Row(state=RowState.RUNNING, text="run the tests")]
        view = Stream(stream_id="s", markdown="w00000", title="Working", rows=tuple(rows))
        ref = (await side.adapter.send(place, view, "key", 1)).refs[0]
        for minute in range(1, 13):
            await side.emulator.advance(60)
            view = Stream(stream_id="s", markdown=words(minute + 1), title="Working", rows=tuple(rows))
            await side.adapter.edit(ref, view)
            assert statuses(side) == ["processing"]
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(14), rows=tuple(rows), closed=True))
        segments = side.ours(place)
        assert len(segments) >= 3
        assert numbers(side.shown(place)) == numbers(words(14))
        assert all("run the tests" in str(one) for one in segments), "an open row is in every stream"


async def test_text_beyond_the_budget_rolls_over() -> None:
    """A text of 40 KB takes several streams, none of them heavier than the budget, and no word is lost or doubled."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(10)), "key", 1)).refs[0]
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(3000)))
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(6000), closed=True))
        assert numbers(side.shown(place)) == numbers(words(6000))
        assert len(side.ours(place)) >= 5


async def test_code_is_closed_and_opened_again_where_a_stream_ends() -> None:
    """A fence that is open where a stream ends is closed there, and opened again in the next one."""
    async with slack_side() as side:
        place = await side.thread()
        code = "```py\n" + "\n".join(f"w{number:05d} = 1" for number in range(1500))
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown="code:\n\n"), "key", 1)).refs[0]
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=f"code:\n\n{code}\n```\n", closed=True))
        assert numbers(side.shown(place)) == [f"w{number:05d}" for number in range(1500)]
        for message in side.ours(place):
            assert str(message["text"]).count("```") == 2, "each stream is whole for itself"


@pytest.mark.parametrize("applied", [True, False])
async def test_append_of_unknown_outcome_is_shown_once(applied: bool) -> None:
    """Whether or not an append without an answer took effect: its text is there once, and what follows comes after."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(5)), "key", 1)).refs[0]
        side.emulator.fault("chat.appendStream", FaultKind.DROP, applied=applied)
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(10)))
        assert numbers(side.shown(place)) == numbers(words(10))
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(15), closed=True))
        assert numbers(side.shown(place)) == numbers(words(15))


async def test_stream_that_slack_closed_under_us_goes_on_in_another() -> None:
    """Slack closes a stream when it likes: nothing is lost, nothing is doubled."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(5)), "key", 1)).refs[0]
        for name in ("chat.appendStream", "chat.stopStream"):
            side.emulator.fault(name, FaultKind.REFUSE, status=200, description="message_not_in_streaming_state")
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(10)))
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(15), closed=True))
        assert numbers(side.shown(place)) == numbers(words(15))


@pytest.mark.parametrize("said", [5, 3000])
async def test_stream_of_an_earlier_process_is_made_to_show_everything(said: int) -> None:
    """After a restart the streams that were left open are closed and show the text, however many there were."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(said)), "key", 1)).refs[0]
        await side.restart()
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(said + 5)))
        assert numbers(side.shown(place)) == numbers(words(said + 5))
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(said + 9), closed=True))
        assert numbers(side.shown(place)) == numbers(words(said + 9))


async def test_second_attempt_takes_up_what_the_first_began() -> None:
    """A start without an answer began a stream: it is found, and there is one text."""
    async with slack_side() as side:
        place = await side.thread()
        side.emulator.fault("chat.startStream", FaultKind.DROP, applied=True)
        with pytest.raises(Exception, match="no answer"):
            await side.adapter.send(place, Stream(stream_id="s", markdown=words(3)), "key", 1)
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(6)), "key", 2)).refs[0]
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(9), closed=True))
        assert numbers(side.shown(place)) == numbers(words(9))


async def test_stop_of_slacks_own_ends_the_writing() -> None:
    """Slack's Stop is told with its streams, and nothing is written to them any more."""
    async with slack_side() as side:
        place = await side.thread()
        await side.adapter.send(place, ThreadStatus(state="processing"), "status", 1)
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(3)), "key", 1)).refs[0]
        await side.emulator.stop_generation("U0ANN", str(place.thread))
        stop = await side.intake.until(lambda taken: next((one for one in taken if one.kind == "stop"), None))
        assert (stop.place, stop.stopped) == (place, (ref.id,))
        before = side.shown(place)
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(30), closed=True))
        assert side.shown(place) == before


async def test_end_of_an_earlier_processs_stream_keeps_head_and_buttons() -> None:
    """Made to show everything after a restart, a text still has its title, its rows and its buttons."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(3)), "key", 1)).refs[0]
        await side.restart()
        rows = (Row(state=RowState.DONE, text="run the tests"),)
        controls = (Control(label="Retry", token="run:x"),)
        last = Stream(stream_id="s", markdown=words(6), title="Done", rows=rows, controls=controls, closed=True)
        for _ in range(2):
            await side.adapter.edit(ref, last)
        assert numbers(side.shown(place)) == numbers(words(6))
        assert slack_buttons(side.ours(place)[-1]) == ["Retry"]
        assert "run the tests" in side.shown(place)


async def test_files_that_we_sent_are_no_streams() -> None:
    """A file has no key, as a stream has none while it is open: it is neither taken for one nor taken away."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(3)), "key", 1)).refs[0]
        await side.adapter.send(place, Document(name="a.md", text="long"), "file", 1)
        await side.restart()
        await side.adapter.edit(ref, Stream(stream_id="s", markdown=words(6), closed=True))
        assert numbers(side.shown(place)) == numbers(words(6))
        assert [one["files"][0]["name"] for one in side.ours(place) if one.get("files")] == ["a.md"]


async def test_stream_can_become_another_view() -> None:
    """A message that streams is ended before it shows a card."""
    async with slack_side() as side:
        place = await side.thread()
        ref = (await side.adapter.send(place, Stream(stream_id="s", markdown=words(3)), "key", 1)).refs[0]
        await side.adapter.edit(ref, TurnCard(phase=Phase.DONE, headline="Done"))
        assert side.shown(place) == "☑ Done"


async def test_stream_outside_of_a_thread_is_refused() -> None:
    """Slack streams into threads only."""
    async with slack_side() as side:
        with pytest.raises(Refused):
            await side.adapter.send(side.place("C0TEAM", None), Stream(stream_id="s", markdown="x"), "key", 1)


# ------------------------------------------------------------------------------------------------------------- pure

LIVE = ("<!channel>", "<@U1>", "<#C1>", "<https://evil.example|here>", "<!subteam^S1|@ops>")
TEXT = st.lists(st.sampled_from([*LIVE, "a", " ", "<", ">", "\n", "<b>", "x < y"]), max_size=30).map("".join)


@given(TEXT, st.integers(0, 200))
def test_what_was_settled_is_a_beginning_of_all_that_follows(text: str, end: int) -> None:
    """Text that was sent cannot be taken back: what is settled of a beginning begins what is settled of the whole."""
    whole = settled(text, closed=True)
    assert whole.startswith(settled(text[:end], closed=False))
    assert not any(live in whole for live in LIVE), "a mention or a disguised link is live"
    assert whole.replace("\u2060", "") == text


@given(st.text(max_size=30_000), st.integers(0, BUDGET_BYTES))
def test_no_step_goes_beyond_the_budget(rest: str, already: int) -> None:
    """Whatever is to be said, a stream never gets heavier than its budget."""
    segment = Segment(ts="1.1", opened_at_ms=0, text="x" * already)
    rows = tuple(Row(state=RowState.DONE, text=f"row {number}") for number in range(5))
    taken = step(segment, Stream(stream_id="s", markdown="", rows=rows, title="Working"), rest)
    taken.applied_to(segment)
    assert segment.weight <= max(BUDGET_BYTES, already + 1000)
    assert rest.startswith(taken.text)


def test_what_is_open_is_closed_and_opened_again() -> None:
    """A fence with its language, and nothing where nothing is open."""
    assert (closing("```py\nx"), reopening("```py\nx")) == ("\n```", "```py\n")
    assert (closing("done."), reopening("done.")) == ("", "")
