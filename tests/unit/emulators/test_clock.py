"""Both clocks: what waiting and jumping mean."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from adapters.emulators import Clock, FlowingClock, ManualClock


async def test_manual_clock_stands_until_advanced() -> None:
    """A sleeper on the manual clock wakes only when the clock has passed its instant."""
    clock = ManualClock(start=100.0)
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.advance(9.9)
    assert not sleeper.done()
    await clock.advance(0.1)
    assert sleeper.done()
    assert clock.now() == 110.0


async def test_manual_clock_visits_instants_in_order() -> None:
    """A jump over several instants wakes each sleeper at its own instant, also those that sleep again."""
    clock = ManualClock(start=0.0)
    seen: list[tuple[str, float]] = []

    async def tick(name: str, period: float) -> None:
        for _ in range(3):
            await clock.sleep(period)
            seen.append((name, clock.now()))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tick("slow", 3))
        tasks.create_task(tick("fast", 2))
        await clock.advance(10)
    assert seen == [("fast", 2), ("slow", 3), ("fast", 4), ("slow", 6), ("fast", 6), ("slow", 9)]


@pytest.mark.parametrize("make", [ManualClock, FlowingClock])
async def test_wait_ends_with_the_event(make: Callable[[], Clock]) -> None:
    """Waiting returns True as soon as the event is set, without the clock moving on."""
    clock = make()
    event = asyncio.Event()
    waiting = asyncio.create_task(clock.wait(event, 3600))
    await asyncio.sleep(0)
    event.set()
    assert await waiting is True


@pytest.mark.parametrize("make", [ManualClock, FlowingClock])
async def test_wait_ends_with_the_time(make: Callable[[], Clock]) -> None:
    """Waiting returns False once the time has passed; advancing is enough, whichever the clock."""
    clock = make()
    waiting = asyncio.create_task(clock.wait(asyncio.Event(), 3600))
    await asyncio.sleep(0)
    await clock.advance(3601)
    assert await waiting is False


async def test_flowing_clock_flows_and_jumps() -> None:
    """The flowing clock shows the date of today and can be moved ahead."""
    clock = FlowingClock()
    assert abs(clock.now() - time.time()) < 5
    await clock.advance(1000)
    assert clock.now() - time.time() > 990


async def test_flowing_clock_ends_a_wait_by_itself() -> None:
    """A short wait ends without anybody advancing the clock."""
    assert await FlowingClock().wait(asyncio.Event(), 0.01) is False


async def test_clock_refuses_to_run_backwards() -> None:
    """Time can only be moved ahead."""
    with pytest.raises(ValueError, match="only goes forward"):
        await ManualClock().advance(-1)


async def test_cancelled_wait_leaves_no_task() -> None:
    """Cancelling a wait ends the tasks behind it."""
    clock = ManualClock()
    waiting = asyncio.create_task(clock.wait(asyncio.Event(), 10))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}
