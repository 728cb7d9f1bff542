"""Offsets: what confirms an update, what brings it back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adapters.emulators.telegram.update_queue import UpdateQueue


def queue(count: int) -> UpdateQueue:
    """A queue with updates 100, 101, …"""
    made = UpdateQueue(next_id=100)
    for _ in range(count):
        made.push("message", {}, lane=7, expires_at=1000.0)
    return made


def ids(updates: list) -> list[int]:
    """Ids of updates."""
    return [update.id for update in updates]


def test_updates_come_again_until_confirmed() -> None:
    """Asking without an offset confirms nothing; asking with the next offset does."""
    made = queue(2)
    assert ids(made.take(0, 100, 0).updates) == [100, 101]
    assert ids(made.take(0, 100, 0).updates) == [100, 101]
    batch = made.take(101, 100, 0)
    assert (ids(batch.updates), ids(batch.confirmed)) == ([101], [100])
    assert ids(made.take(100, 100, 0).updates) == [101]


def test_negative_offset_keeps_the_newest() -> None:
    """Offset -1 returns the last update and forgets the earlier ones."""
    made = queue(3)
    batch = made.take(-1, 100, 0)
    assert (ids(batch.updates), ids(batch.confirmed)) == ([102], [100, 101])


def test_offset_from_the_future_confirms_nothing() -> None:
    """An offset far ahead of the queue is ignored, one just ahead confirms everything."""
    made = queue(2)
    assert ids(made.take(5000, 100, 0).updates) == [100, 101]
    assert made.take(102, 100, 0).updates == []


def test_limit_returns_the_oldest() -> None:
    """With a limit the oldest come first."""
    assert ids(queue(5).take(0, 2, 0).updates) == [100, 101]


def test_old_updates_expire() -> None:
    """An update that nobody took in its time is gone."""
    made = queue(1)
    batch = made.take(0, 100, 1000.0)
    assert (batch.updates, ids(batch.expired)) == ([], [100])


def test_redelivery_ignores_the_offset() -> None:
    """Confirmed updates can be delivered once more, before the pending ones, and then are gone again."""
    made = queue(3)
    made.take(102, 100, 0)
    made.redeliver(2)
    assert ids(made.take(102, 100, 0).updates) == [100, 101, 102]
    assert ids(made.take(102, 100, 0).updates) == [102]


@given(st.lists(st.one_of(st.just("push"), st.integers(0, 12)), max_size=40))
def test_nothing_is_lost_or_confirmed_twice(steps: list[str | int]) -> None:
    """Whatever the order of arrivals and offsets: every update is pending or confirmed, exactly once, in order."""
    made = UpdateQueue(next_id=1)
    confirmed: list[int] = []
    for step in steps:
        if isinstance(step, str):
            made.push("message", {}, lane=7, expires_at=1e9)
        else:
            confirmed += ids(made.take(step, 100, 0).confirmed)
    assert confirmed + ids(list(made.pending)) == list(range(1, made.next_id))
