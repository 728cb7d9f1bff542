"""The rate budget: limits that hold for every span of time, bans, and reserves by priority."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import Capabilities
from gateway.budget import MAX_CHATS, Budget, Priority
from tests.support.delivering import PLACE

SLOW = Capabilities(sends_per_second=1, sends_per_minute=20, edit_interval=3)


class Time:
    """Milliseconds, set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


def budget(capabilities: Capabilities = SLOW) -> tuple[Budget, Time]:
    time = Time()
    return Budget(capabilities, time), time


def send_all(made: Budget, time: Time, priority: Priority, seconds: float) -> list[int]:
    """Send as often as is allowed for that long; the instants."""
    instants: list[int] = []
    end = time.now + round(seconds * 1000)
    while time.now < end:
        wait = made.wait_ms(PLACE, priority)
        if wait:
            time.now += wait
        else:
            made.take(PLACE)
            instants.append(time.now)
    return instants


@given(st.lists(st.tuples(st.sampled_from(Priority), st.integers(0, 5000)), max_size=120))
def test_no_minute_ever_has_more_than_the_limit(tries: list[tuple[Priority, int]]) -> None:
    """Whatever is asked for and when: at most 20 in 60 s, and at most 3 in 3 s."""
    made, time = budget()
    sent: list[int] = []
    for priority, pause in tries:
        time.now += pause
        if made.wait_ms(PLACE, priority) == 0:
            made.take(PLACE)
            sent.append(time.now)
    for instant in sent:
        assert sum(instant - 60_000 < other <= instant for other in sent) <= 20
        assert sum(instant - 3000 < other <= instant for other in sent) <= 3


def test_waiting_as_told_is_enough() -> None:
    """After the wait that was named, one more may go out."""
    made, time = budget()
    instants = send_all(made, time, Priority.CONTROL, 300)
    assert len(instants) >= 5 * 20 - 3


def test_progress_leaves_room_for_answers_and_answers_for_control() -> None:
    """A chat that is busy with progress takes an answer at once, and an approval after that."""
    made, time = budget()
    send_all(made, time, Priority.PROGRESS, 120)
    assert made.wait_ms(PLACE, Priority.PROGRESS) > 0 or made.wait_ms(PLACE, Priority.ANSWER) == 0
    assert made.wait_ms(PLACE, Priority.ANSWER) == 0
    while made.wait_ms(PLACE, Priority.ANSWER) == 0:
        made.take(PLACE)
        time.now += 1000
    assert made.wait_ms(PLACE, Priority.CONTROL) == 0


def test_during_a_ban_nothing_may_go_out() -> None:
    """Not even control; other chats are not concerned."""
    made, time = budget()
    made.ban(PLACE, time.now + 5000)
    assert made.wait_ms(PLACE, Priority.CONTROL) == 5000
    assert made.wait_ms(replace(PLACE, chat="other"), Priority.PROGRESS) == 0
    made.ban(PLACE, time.now + 100)
    assert made.wait_ms(PLACE, Priority.CONTROL) == 5000


def test_a_platform_that_is_out_stops_every_chat() -> None:
    """Until it is reached again."""
    made, time = budget()
    made.out_of_order(time.now + 2000)
    assert made.wait_ms(replace(PLACE, chat="other"), Priority.CONTROL) == 2000
    made.in_order()
    assert made.wait_ms(PLACE, Priority.CONTROL) == 0


def test_live_edits_keep_the_interval() -> None:
    """An edit of progress waits for the platform's interval; a closing edit or an answer does not."""
    made, _ = budget()
    made.take(PLACE, live_edit=True)
    assert made.wait_ms(PLACE, Priority.PROGRESS, live_edit=True) == 3000
    assert made.wait_ms(PLACE, Priority.ANSWER) == 0


def test_all_chats_share_the_platforms_limit() -> None:
    """Thirty at once over all chats, then as they come back."""
    made, _ = budget()
    for n in range(30):
        place = replace(PLACE, chat=str(n))
        assert made.wait_ms(place, Priority.CONTROL) == 0
        made.take(place)
    assert made.wait_ms(replace(PLACE, chat="new"), Priority.CONTROL) > 0


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    """Corrections of the machine's clock make no room, and no wait that is longer than the span."""
    made, time = budget()
    for _ in range(3):
        made.take(PLACE)
    time.now -= 3_600_000
    assert 0 < made.wait_ms(PLACE, Priority.CONTROL) <= 3000


def test_chats_with_nothing_to_remember_are_forgotten() -> None:
    """Memory is bounded by what is going on."""
    made, time = budget()
    for n in range(2 * MAX_CHATS):
        made.wait_ms(replace(PLACE, chat=str(n)), Priority.ANSWER)
    assert len(made._chats) <= MAX_CHATS + 1
    made.ban(replace(PLACE, chat="banned"), time.now + 60_000)
    for n in range(2 * MAX_CHATS):
        made.wait_ms(replace(PLACE, chat=f"x{n}"), Priority.ANSWER)
    assert made.wait_ms(replace(PLACE, chat="banned"), Priority.CONTROL) == 60_000


def test_a_private_chat_has_no_limit_per_minute_of_its_own() -> None:
    """The limit of 20 a minute is one of groups; one a second holds everywhere."""
    made, time = budget()
    made.of_one_person(PLACE)
    instants = send_all(made, time, Priority.CONTROL, 60)
    assert 55 <= len(instants) <= 60
