"""Polling against a source that the test holds in its hand: what is confirmed, what is repeated, when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import pytest

from adapters.contract import Environment, Inbound
from adapters.errors import AdapterError, BadCredentials, NotConnected, OutcomeUnknown, RateLimited
from adapters.telegram.inbound import ALLOWED_UPDATES, read
from adapters.telegram.polling import Polling
from adapters.telegram.refusals import refusal
from adapters.telegram.words import Me

SECONDS = 25
ME = Me(id=900, username="PilotBot")
CONFLICT = refusal(409, "Conflict: terminated by other getUpdates request", {})


def update(number: int, chat: int = 42, text: str = "x") -> dict[str, Any]:
    user = {"id": 42, "is_bot": False, "first_name": "Ann"}
    message = {"message_id": number, "date": 1, "from": user, "chat": {"id": chat, "type": "private"}, "text": text}
    return {"update_id": number, "message": message}


class Source:
    """What the server does, one answer per poll: updates, an error, or silence for ever."""

    def __init__(self) -> None:
        self.polls: list[tuple[int | None, int]] = []
        self.closed = 0
        self.asked = asyncio.Queue[int | None]()
        self._answers = asyncio.Queue[list[dict[str, Any]] | AdapterError | None]()

    def will_answer(self, *answers: list[dict[str, Any]] | AdapterError | None) -> None:
        for answer in answers:
            self._answers.put_nowait(answer)

    async def updates(self, offset: int | None, seconds: int, kinds: Sequence[str] | None) -> list[dict[str, Any]]:
        assert kinds == ALLOWED_UPDATES
        self.polls.append((offset, seconds))
        self.asked.put_nowait(offset)
        match await self._answers.get():
            case None:
                await asyncio.Event().wait()
                raise AssertionError("unreachable")
            case AdapterError() as error:
                raise error
            case updates:
                return updates

    async def close(self) -> None:
        self.closed += 1


class Clock:
    """Pauses end at once and are written down; the alarm for a silent connection rings when the test says so."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.alarm = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == 3 * SECONDS:
            await self.alarm.wait()
            self.alarm.clear()
        else:
            self.pauses.append(seconds)
            await asyncio.sleep(0)

    @property
    def environment(self) -> Environment:
        return Environment(now_ms=lambda: 1000, sleep=self.sleep, random_bytes=bytes)


class Taken:
    """An intake that keeps texts, and refuses those that the test names."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.refused: dict[str, int] = {}

    async def __call__(self, inbound: Inbound) -> None:
        if self.refused.get(inbound.text, 0) > 0:
            self.refused[inbound.text] -= 1
            raise OSError("disk full")
        self.texts.append(inbound.text)


class Slow(Taken):
    """An intake that is not done before the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def __call__(self, inbound: Inbound) -> None:
        self.begun.set()
        await self.may_end.wait()
        await super().__call__(inbound)


IntakeOfBench = TypeVar("IntakeOfBench", bound=Taken)


class Bench(Generic[IntakeOfBench]):
    """A polling with everything around it."""

    def __init__(self, taken: IntakeOfBench) -> None:
        self.source, self.clock, self.taken = Source(), Clock(), taken
        self.connects = 0
        self.polling = Polling(self._connect, self._read, taken, self.clock.environment, SECONDS)

    def _connect(self) -> Source:
        self.connects += 1
        return self.source

    def _read(self, payload: dict[str, Any]) -> Inbound:
        return read(payload, ME)

    async def next_offset(self) -> int | None:
        """The offset of the next poll."""
        async with asyncio.timeout(30):
            return await self.source.asked.get()


@asynccontextmanager
async def polling() -> AsyncGenerator[Bench[Taken]]:
    bench = Bench(Taken())
    task = asyncio.create_task(bench.polling.run())
    try:
        yield bench
    finally:
        bench.polling.stop()
        await task
        assert bench.polling.health.state == "stopped"


async def test_offset_moves_when_all_is_taken() -> None:
    """What came is confirmed by the next poll, once every one of it was taken in."""
    async with polling() as bench:
        bench.source.will_answer([update(7, text="a"), update(8, text="b")])
        assert [await bench.next_offset(), await bench.next_offset()] == [None, 9]
        assert bench.taken.texts == ["a", "b"]
        assert bench.polling.health.state == "ready"
        assert bench.polling.health.last_contact_ms == 1000


async def test_offset_does_not_pass_what_was_not_taken() -> None:
    """After a failed intake the same update is asked for again, and the chat's later ones wait for it."""
    async with polling() as bench:
        bench.taken.refused = {"b": 1}
        batch = [update(7, text="a"), update(8, text="b"), update(9, text="c")]
        bench.source.will_answer(batch)
        assert [await bench.next_offset(), await bench.next_offset()] == [None, 8]
        assert bench.taken.texts == ["a"]
        assert bench.polling.health.state == "failing"
        assert "could not be stored" in bench.polling.health.detail
        bench.source.will_answer(batch[1:])
        assert await bench.next_offset() == 10
        assert bench.taken.texts == ["a", "b", "c"]


async def test_chats_do_not_wait_for_each_other() -> None:
    """A chat whose message cannot be taken does not hold up another; both come again from the first that failed."""
    async with polling() as bench:
        bench.taken.refused = {"a": 1}
        bench.source.will_answer([update(7, 1, "a"), update(8, 2, "b"), update(9, 1, "c")])
        assert [await bench.next_offset(), await bench.next_offset()] == [None, 7]
        assert bench.taken.texts == ["b"]


async def test_first_poll_and_those_after_a_failure_do_not_wait() -> None:
    """Health is right at once: only a healthy poll waits for news."""
    async with polling() as bench:
        bench.source.will_answer([], OutcomeUnknown("cut"), [])
        for _ in range(4):
            await bench.next_offset()
        assert [seconds for _, seconds in bench.source.polls] == [0, SECONDS, 0, SECONDS]


async def test_pauses_grow_and_end() -> None:
    """Failures in a row are met with growing pauses up to half a minute; a success starts over."""
    async with polling() as bench:
        bench.source.will_answer(*[OutcomeUnknown("cut")] * 7, [], OutcomeUnknown("cut"))
        for _ in range(10):
            await bench.next_offset()
        assert bench.clock.pauses == [1, 2, 4, 8, 16, 30, 30, 1]


async def test_server_may_ask_for_more_patience() -> None:
    """`retry_after` is honoured."""
    async with polling() as bench:
        bench.source.will_answer(RateLimited("slow down", retry_after=120))
        assert [await bench.next_offset(), await bench.next_offset()] == [None, None]
        assert bench.clock.pauses == [120]


FAILURES: list[tuple[AdapterError, str, Callable[[str], bool]]] = [
    (CONFLICT, "failing", lambda detail: "Another program" in detail),
    (BadCredentials("401"), "failed", lambda detail: "401" in detail),
    (NotConnected("refused"), "failing", lambda detail: "refused" in detail),
]


@pytest.mark.parametrize(("error", "state", "tells"), FAILURES)
async def test_health_tells_the_cause_and_polling_goes_on(
    error: AdapterError, state: str, tells: Callable[[str], bool]
) -> None:
    """A second poller, a revoked token and a lost network are told apart, and tried again."""
    async with polling() as bench:
        bench.source.will_answer(error)
        await bench.next_offset()
        await bench.next_offset()
        assert bench.polling.health.state == state
        assert tells(bench.polling.health.detail)
        bench.source.will_answer([update(7)])
        assert await bench.next_offset() == 8
        assert bench.polling.health.state == "ready"


async def test_silent_connection_is_made_anew() -> None:
    """A poll that says nothing for three windows is given up, with its session: it may be half open for ever."""
    async with polling() as bench:
        bench.source.will_answer([], None)
        await bench.next_offset()
        await bench.next_offset()
        bench.clock.alarm.set()
        await bench.next_offset()
        assert (bench.connects, bench.source.closed) == (2, 1)
        assert "nothing came for 75 s" in bench.polling.health.detail


async def test_conflict_keeps_the_connection() -> None:
    """A refusal is an answer: the connection is alive."""
    async with polling() as bench:
        bench.source.will_answer(CONFLICT)
        await bench.next_offset()
        await bench.next_offset()
        assert bench.connects == 1


async def test_fault_of_our_own_does_not_end_inbound() -> None:
    """Even an error that should not exist is only a failure of one round, and told."""
    async with polling() as bench:
        bench.source.will_answer([{"update_id": "nonsense"}, 5], [update(7, text="a")])  # type: ignore[list-item]
        for _ in range(3):
            await bench.next_offset()
        assert bench.taken.texts[-1] == "a"


async def test_stop_finishes_what_is_being_taken() -> None:
    """An intake that has begun is not torn off, and nothing is polled after it."""
    bench = Bench(Slow())
    task = asyncio.create_task(bench.polling.run())
    bench.source.will_answer([update(7, text="a")])
    await bench.taken.begun.wait()
    bench.polling.stop()
    bench.taken.may_end.set()
    await task
    assert bench.taken.texts == ["a"]
    assert len(bench.source.polls) == 1
    assert bench.source.closed == 1


async def test_stop_ends_a_waiting_poll_and_a_pause() -> None:
    """Neither a poll that waits for news nor a pause after a failure holds up the end."""
    async with polling() as bench:
        bench.source.will_answer([], None)
        await bench.next_offset()
        await bench.next_offset()
    assert bench.source.closed == 1


async def test_cancelling_ends_it_at_once() -> None:
    """Whoever cancels does not wait: no task and no connection is left."""
    bench = Bench(Taken())
    task = asyncio.create_task(bench.polling.run())
    bench.source.will_answer(None)
    await bench.next_offset()
    before = asyncio.all_tasks()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert bench.source.closed == 1
    assert not {one for one in before if not one.done()} - {asyncio.current_task()}
