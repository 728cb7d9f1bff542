"""The journal: order, bounds, pairs of calls and answers, and waiting for it to grow."""

from __future__ import annotations

import asyncio
from itertools import count

from adapters.emulators import Entry, EntryKind, Journal


def journal(limit: int | None = None) -> Journal:
    """A journal whose time counts entries."""
    ticks = count(1)
    return Journal(now=lambda: float(next(ticks)), limit=limit)


def test_entries_are_numbered_in_order() -> None:
    """Each entry has the next number and the time at which it was recorded."""
    record = journal()
    first = record.record(EntryKind.REQUEST, "sendMessage", {"params": {}}, account="42")
    second = record.record(EntryKind.RESPONSE, "sendMessage", {"ok": True}, account="42", request=first.number)
    assert list(record) == [
        Entry(number=1, at=1.0, kind=EntryKind.REQUEST, name="sendMessage", account="42", data={"params": {}}),
        Entry(
            number=2, at=2.0, kind=EntryKind.RESPONSE, name="sendMessage", account="42", data={"ok": True}, request=1
        ),
    ]
    assert record.after(1) == [second]


def test_limit_drops_the_oldest() -> None:
    """A bounded journal keeps the newest entries under their own numbers."""
    record = journal(limit=2)
    for name in "abc":
        record.record(EntryKind.EVENT, name)
    assert [(entry.number, entry.name) for entry in record] == [(2, "b"), (3, "c")]
    assert [entry.name for entry in record.after(0)] == ["b", "c"]


def test_clear_keeps_the_numbering() -> None:
    """A reader's position stays valid over a reset."""
    record = journal()
    record.record(EntryKind.EVENT, "a")
    record.clear()
    assert record.after(0) == []
    assert record.record(EntryKind.EVENT, "b").number == 2


def test_exchanges_pair_calls_with_answers() -> None:
    """An exchange shows parameters and outcome; a cut connection leaves it without an answer."""
    record = journal()
    told = record.record(EntryKind.REQUEST, "sendMessage", {"params": {"text": "a"}})
    record.record(EntryKind.REQUEST, "sendMessage", {"params": {"text": "b"}})
    record.record(EntryKind.REQUEST, "getMe", {"params": {}})
    record.record(EntryKind.RESPONSE, "sendMessage", {"ok": True, "status": 200, "result": 5}, request=told.number)
    answered, cut = record.exchanges("sendMessage")
    assert (answered.params, answered.ok, answered.status, answered.result) == ({"text": "a"}, True, 200, 5)
    assert (cut.params, cut.ok, cut.status, cut.answer) == ({"text": "b"}, False, None, None)


async def test_grown_wakes_on_the_next_entry() -> None:
    """Waiting for growth ends with the first entry that is newer than the given number."""
    record = journal()
    record.record(EntryKind.EVENT, "old")
    waiting = asyncio.create_task(record.grown(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    record.record(EntryKind.EVENT, "new")
    async with asyncio.timeout(30):
        await waiting


def test_entries_survive_json() -> None:
    """An entry read back from its JSON is the same entry."""
    record = journal()
    entry = record.record(EntryKind.VIOLATION, "limit", {"a": 1}, account="42", request=9)
    assert Entry.from_json(entry.to_json()) == entry
