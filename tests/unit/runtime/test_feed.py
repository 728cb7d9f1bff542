"""Readers of events: slow, absent, late; none of them stops a turn, none loses what is stored."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import events
from runtime.protocol import Event
from runtime.session.feed import BUFFER, Feed, Reader
from runtime.store.base import EventPage


def stored(sequence: int) -> Event:
    return Event(sequence=sequence, submission_id=None, recorded_at_ms=0, msg=events.Warning(message=str(sequence)))


def delta(text: str = "x") -> Event:
    msg = events.AssistantDelta(turn_id="t", model_step_id="m", text=text)
    return Event(sequence=None, submission_id=None, recorded_at_ms=0, msg=msg)


def live(text: str) -> Event:
    msg = events.MessageQueued(message_id=text, disposition="queue", position=1, text=text, author="ann")
    return Event(sequence=None, submission_id=None, recorded_at_ms=0, msg=msg)


class Journal:
    """A journal in memory; `while_reading` happens between the read of a page and its arrival."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.pages = 0
        self.while_reading: list[int] = []
        self.feed = Feed(self.page)

    async def page(self, after: int, limit: int) -> EventPage:
        self.pages += 1
        found = [event for event in self.events if (event.sequence or 0) > after][:limit]
        page = EventPage(events=tuple(found), next_before=None, latest_sequence=len(self.events))
        for _ in range(self.while_reading.pop(0) if self.while_reading else 0):
            self.append()
        await asyncio.sleep(0)
        return page

    def append(self, number: int = 1) -> None:
        for _ in range(number):
            self.events.append(stored(len(self.events) + 1))
            self.feed.publish([self.events[-1]])


async def sequences(reader: Reader) -> list[int]:
    read: list[int] = []
    while (event := await reader.next()) is not None:
        if event.sequence is not None:
            read.append(event.sequence)
    return read


async def test_a_reader_that_keeps_up_never_reads_the_journal() -> None:
    """What is published is handed on; the disk is not asked."""
    journal = Journal()
    reader = journal.feed.reader(0, behind=False)
    for number in range(1, 2000):
        journal.append()
        event = await reader.next()
        assert event is not None
        assert event.sequence == number
    assert journal.pages == 0


async def test_a_reader_that_never_reads_costs_a_bounded_buffer() -> None:
    """However much is published, the buffer of an absent reader stays small, and publishing never waits."""
    journal = Journal()
    reader = journal.feed.reader(0, behind=False)
    for _ in range(10 * BUFFER):
        journal.append()
        journal.feed.publish([delta()])
    assert len(reader.buffer) <= BUFFER
    journal.feed.end()
    assert await sequences(reader) == list(range(1, 10 * BUFFER + 1))


async def test_a_late_reader_has_everything_once_and_in_order() -> None:
    """From the cursor on: first what is stored, then what comes."""
    journal = Journal()
    journal.append(2000)
    reader = journal.feed.reader(500, behind=True)
    journal.append(10)
    journal.feed.end()
    assert await sequences(reader) == list(range(501, 2011))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 400), max_size=8), st.integers(0, 600))
def test_nothing_is_lost_that_is_published_while_a_page_is_read(while_reading: list[int], before: int) -> None:
    """Whatever falls between the read of a page and its arrival is read from the next page."""

    async def run() -> None:
        journal = Journal()
        journal.append(before)
        journal.while_reading = list(while_reading)
        reader = journal.feed.reader(0, behind=True)
        first: list[int] = []
        for _ in range(before):
            event = await reader.next()
            assert event is not None
            first.append(event.sequence or 0)
        journal.append(3)
        journal.feed.end()
        assert first + await sequences(reader) == list(range(1, len(journal.events) + 1))

    asyncio.run(run())


async def test_falling_behind_costs_deltas_and_nothing_else() -> None:
    """Live events that are no text deltas are kept for a reader that is behind."""
    journal = Journal()
    reader = journal.feed.reader(0, behind=False)
    journal.feed.publish([live("kept")])
    journal.append(BUFFER)
    journal.feed.publish([delta("lost"), live("kept too")])
    journal.feed.end()
    texts = []
    while (event := await reader.next()) is not None:
        if isinstance(event.msg, events.MessageQueued | events.AssistantDelta):
            texts.append(event.msg.text)
    assert texts == ["kept", "kept too"]


async def test_the_stream_of_a_deleted_session_ends() -> None:
    """A reader that is behind a journal that is gone is not behind for ever."""
    journal = Journal()
    reader = journal.feed.reader(0, behind=False)
    journal.append(BUFFER + 1)
    journal.events.clear()
    journal.feed.end()
    assert await sequences(reader) == []


async def test_a_reader_that_comes_after_the_end_still_reads_the_journal() -> None:
    """An ended stream is read to its end, then ends."""
    journal = Journal()
    journal.append(3)
    journal.feed.end()
    assert await sequences(journal.feed.reader(0, behind=True)) == [1, 2, 3]


async def test_a_cancelled_read_loses_nothing() -> None:
    """A caller with a deadline may ask again."""
    journal = Journal()
    reader = journal.feed.reader(0, behind=False)
    waiting = asyncio.ensure_future(reader.next())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    journal.append()
    event = await reader.next()
    assert event is not None
    assert event.sequence == 1


async def test_a_dropped_reader_is_forgotten() -> None:
    """Nothing is collected for somebody who has gone."""
    journal = Journal()
    reader = journal.feed.reader(0, behind=False)
    journal.feed.drop(reader)
    journal.append()
    assert not reader.buffer
