"""S-52: a flood costs its sender his own place and nobody else's: rows, words and turns are bounded."""

from __future__ import annotations

from pathlib import Path

from gateway.access import Policy
from tests.support.intake import BOB, EVE, GROUP, OWNER, person, stage, words

FLOOD = 1_000


async def test_a_stranger_leaves_one_row(tmp_path: Path) -> None:
    """A thousand messages of one stranger: one row of audit, at most one refusal, and no turn; the owner is served."""
    async with stage(tmp_path) as s:
        for number in range(FLOOD):
            await s.intake(words("let me in", GROUP, person(EVE, "Eve"), key=f"e{number}"))
        await s.say("hello")
        assert s.sessions.texts() == ["hello"]
        assert len(await s.audit("refused")) == 1
        assert len(await s.planned()) <= 2
        assert len(await s.rows("SELECT 1 FROM inbound")) <= 2


async def test_strangers_under_many_names_start_nothing(tmp_path: Path) -> None:
    """Each of three hundred strangers is refused for himself: no session, no person and no place is kept of them."""
    async with stage(tmp_path) as s:
        for number in range(300):
            stranger = person(str(10_000 + number), f"Eve {number}")
            await s.intake(words("let me in", GROUP, stranger, key=f"e{number}"))
        await s.settled()
        assert s.sessions.submitted == []
        assert await s.bound() == {}
        assert await s.rows("SELECT 1 FROM people WHERE principal LIKE 'telegram:10%'") == []
        assert len(await s.audit("refused")) == 300


async def test_a_listed_person_takes_a_minutes_worth(tmp_path: Path) -> None:
    """Beyond his pace his words reach no session and he is told once; another person's go through at once."""
    policy = Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{BOB}"}))
    async with stage(tmp_path, policy) as s:
        s.messages_per_minute = 5
        bob = person(BOB, "Bob")
        for number in range(100):
            await s.intake(words(f"message {number}", GROUP, bob, key=f"b{number}"))
        await s.settled()
        assert len(s.sessions.texts()) <= 5
        assert sum("more messages than one person may send" in line for line in await s.told()) == 1
        await s.say("hello")
        assert s.sessions.texts()[-1] == "hello"
