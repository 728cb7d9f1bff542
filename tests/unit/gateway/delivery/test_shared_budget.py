"""One chat's budget as people feel it: progress never costs them an answer, and nobody has it all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from adapters.contract import Answer, ApprovalCard, Capabilities, TurnCard
from adapters.errors import RateLimited
from gateway.delivery import Destination
from runtime.protocol import events
from tests.support.delivering import CHAT, PLACE, bench, pending

GROUP = Capabilities(edit_interval=1.1, sends_per_second=1.0, sends_per_minute=20)
BAN_SECONDS = 7
SESSIONS = 10


def started(turn: str = "t1") -> events.TurnStarted:
    return events.TurnStarted(turn_id=turn, message_id="in:1")


def begin(number: int, turn: str = "t1") -> events.ToolCallBegin:
    return events.ToolCallBegin(turn_id=turn, call_id=f"c{number}", name="shell", summary=str(number))


def complete(text: str, turn: str = "t1") -> events.TurnComplete:
    return events.TurnComplete(turn_id=turn, last_assistant_message=text)


async def test_bans_on_progress_cost_no_answer_and_no_approval(tmp_path: Path) -> None:
    """Every edit is answered with a ban: no other follows while it lasts; what people wait for is first after it."""
    async with bench(tmp_path) as on:
        await on.happen(started(), begin(0))
        await on.until(lambda: on.adapter.messages)
        await on.rest()
        on.adapter.edit_failures.extend([RateLimited("slow", retry_after=BAN_SECONDS)] * 50)
        await on.happen(begin(1))
        await on.until(on.adapter.edits)
        asked = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=pending().calls)
        await on.happen(asked, pending=pending())
        await on.until(lambda: on.delivery._reader.resting)
        before = len(on.adapter.requests)
        await on.pass_until(lambda: on.adapter.sent(ApprovalCard), 0.5)
        assert isinstance(on.adapter.requests[before].view, ApprovalCard)
        await on.happen(complete("Done."))
        await on.until(lambda: on.delivery._reader.resting)
        await on.pass_until(lambda: on.adapter.sent(Answer), 0.5)
        on.adapter.edit_failures.clear()
        await on.pass_until(lambda: on.delivery._outbox.resting, 0.5)
        first = next(n for n, request in enumerate(on.adapter.requests) if request.what == "edit")
        banned, after = on.adapter.requests[first : first + 2]
        assert after.at_ms - banned.at_ms >= BAN_SECONDS * 1000


async def test_ten_sessions_of_one_chat_take_turns(tmp_path: Path) -> None:
    """Each has long words to say at the same time: everybody's first part comes before anybody's second."""
    async with bench(tmp_path, replace(GROUP, sends_per_minute=60), started=False) as on:
        on.adapter.markup.limit = 4
        for number in range(SESSIONS):
            session, thread = f"s{number}", replace(PLACE, thread=f"th{number}")
            on.people.destinations[session] = Destination(place=thread)
            turn = f"t{number}"
            await on.happen(started(turn), complete("onetwo", turn), session=session)
        on.adapter.hold()
        await on.start()
        await on.until(lambda: on.delivery._reader.resting)
        on.adapter.release()
        await on.pass_until(lambda: len(on.adapter.sent(Answer)) == 2 * SESSIONS, 0.5)
        order = [request.place.thread for request in on.adapter.requests if request.place is not None]
        assert len(set(order[:SESSIONS])) == SESSIONS
        assert len(order) == 2 * SESSIONS


async def test_a_minute_of_work_stays_within_a_groups_budget(tmp_path: Path) -> None:
    """A call every second for a minute: never more than twenty requests in any minute, and the answer does not wait."""
    async with bench(tmp_path, GROUP) as on:
        await on.happen(started())
        for number in range(60):
            await on.happen(begin(number))
            on.clock.advance(1)
            await on.until(lambda: on.delivery._reader.resting)
        ended = on.clock.now_ms()
        await on.happen(complete("Done."))
        await on.pass_until(lambda: on.adapter.sent(Answer), 0.5)
        [answer] = [request for request in on.adapter.requests if isinstance(request.view, Answer)]
        assert answer.at_ms - ended <= 5000
        times = [request.at_ms for request in on.adapter.requests]
        assert all(sum(at <= other < at + 60_000 for other in times) <= 20 for at in times)
        assert on.adapter.sent(TurnCard)


async def test_a_turn_of_another_chat_is_not_held_up(tmp_path: Path) -> None:
    """While one chat is banned, another is answered at once."""
    async with bench(tmp_path) as on:
        other = replace(PLACE, chat="77")
        on.people.destinations["other"] = Destination(place=other)
        on.adapter.failures.append(RateLimited("slow", retry_after=60))
        await on.happen(started(), complete("banned"))
        await on.until(lambda: not on.adapter.failures)
        await on.happen(started("t2"), complete("free", "t2"), session="other")
        await on.until(lambda: on.adapter.chats.get("77") == [Answer(markdown="free")])
        assert CHAT not in on.adapter.chats
        await on.pass_until(lambda: CHAT in on.adapter.chats)
