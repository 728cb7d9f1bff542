"""How many messages one person may send in a minute."""

from __future__ import annotations

from pathlib import Path

from gateway.pace import Pace, TooFast
from tests.support.intake import stage


def test_more_than_a_minute_takes_are_refused_until_the_first_is_a_minute_old() -> None:
    """The refusal names when messages are taken again, and that is when they are."""
    pace = Pace(lambda: 3)
    assert [pace.take("telegram:1", at) for at in (0, 1000, 2000)] == [None] * 3
    assert pace.take("telegram:1", 3000) == TooFast(until_ms=60_000, first=True)
    assert pace.take("telegram:1", 59_999) == TooFast(until_ms=60_000, first=False)
    assert pace.take("telegram:1", 60_000) is None
    assert pace.take("telegram:1", 60_001) == TooFast(until_ms=61_000, first=True)


def test_people_do_not_use_up_each_others_minute() -> None:
    """Each person has a minute of his own."""
    pace = Pace(lambda: 1)
    assert pace.take("telegram:1", 0) is None
    assert pace.take("telegram:2", 0) is None
    assert pace.take("telegram:1", 0) is not None


def test_memory_is_bounded() -> None:
    """Whoever said nothing for longest is forgotten."""
    pace = Pace(lambda: 1)
    for number in range(10_000):
        pace.take(f"telegram:{number}", 0)
    assert len(pace._people) == 4096


async def test_flood_is_told_once_and_commands_go_through(tmp_path: Path) -> None:
    """Words beyond the limit reach no session and are told once; /status is answered meanwhile."""
    async with stage(tmp_path) as s:
        s.messages_per_minute = 2
        for number in range(5):
            await s.say(f"message {number}")
        await s.say("/queue more")
        await s.say("/status")
        assert s.sessions.texts() == ["message 0", "message 1"]
        told = await s.told()
        assert sum("more messages than one person may send" in line for line in told) == 1
        assert (await s.outcomes())[2:6] == ["too_fast"] * 4
        assert any("demo" in line or "Workspace" in line for line in told)
        s.clock.advance(60)
        await s.say("later")
        assert s.sessions.texts()[-1] == "later"
