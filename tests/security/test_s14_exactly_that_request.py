"""S-14: a press decides the request that it shows, and a typed decision the one that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Text
from gateway.ledger.surfaces import Letter
from runtime.protocol.approvals import Resolution
from tests.support.intake import BOB, GROUP, CrashAt, Stage, person, stage

A, B = "aaaa11112222", "bbbb11112222"


async def two_waiting(s: Stage) -> tuple[str, str]:
    """Two requests in one thread, of two people's sessions."""
    s.fields = {"scope": "per_person"}
    await s.say("go", GROUP)
    await s.say("go", GROUP, person(BOB, "Bob"))
    one, two = (await s.bound()).values()
    s.sessions.ask(one, A)
    s.sessions.ask(two, B)
    return one, two


async def test_press_on_one_leaves_the_other(tmp_path: Path) -> None:
    """Pressing B's card decides B, while A waits on, although A was asked first."""
    async with stage(tmp_path) as s:
        one, two = await two_waiting(s)
        await s.card(GROUP, "card A", session_id=one, request_id=A)
        card = await s.card(GROUP, "card B", session_id=two, request_id=B)
        assert await s.press(card, Letter.APPROVE, GROUP, "card B") == Text(text="Approved.")
        assert s.sessions.executed == [(B, Resolution.APPROVED)]
        assert s.sessions.session(one).approval is not None


@pytest.mark.parametrize(
    "text", ["/approve", "/deny", "/approve a", "/approve yes", "/approve cccc", "/deny too risky"]
)
async def test_unclear_words_decide_nothing(text: str, tmp_path: Path) -> None:
    """With two waiting, a bare command lists them, and one that names neither decides nothing."""
    async with stage(tmp_path) as s:
        await two_waiting(s)
        await s.say(text, GROUP)
        assert s.sessions.executed == []
        if " " not in text:
            assert (await s.told())[-1] == (
                "Several requests wait. Name one by its id:\n"
                "Waits for approval: aaaa11 (write_file)\nWaits for approval: bbbb11 (write_file)"
            )


async def test_named_request_is_decided(tmp_path: Path) -> None:
    """The beginning of an id names exactly its request."""
    async with stage(tmp_path) as s:
        _, two = await two_waiting(s)
        await s.card(GROUP, session_id=two, request_id=B)
        await s.say("/approve bbbb11", GROUP)
        assert s.sessions.executed == [(B, Resolution.APPROVED)]


async def test_beginning_that_two_share_names_neither(tmp_path: Path) -> None:
    """An id that could mean both decides nothing and lists them."""
    async with stage(tmp_path) as s:
        one, two = await two_waiting(s)
        s.sessions.ask(one, "abcd1111")
        s.sessions.ask(two, "abcd2222")
        await s.say("/approve abcd", GROUP)
        assert s.sessions.executed == []


async def test_bare_command_decides_the_only_one(tmp_path: Path) -> None:
    """With a single request waiting there is nothing to confuse."""
    async with stage(tmp_path) as s:
        await s.say("go")
        s.sessions.ask(await s.session_of(), A)
        await s.say("/deny")
        assert s.sessions.executed == [(A, Resolution.DENIED)]


async def test_request_that_comes_between_is_not_decided(tmp_path: Path) -> None:
    """Which request a typed decision means is fixed before it is made: a later one is never hit, also after a crash."""
    async with stage(tmp_path) as s:
        await s.say("go")
        session = await s.session_of()
        s.sessions.ask(session, A)
        await s.card(session_id=session, request_id=A)
        await s.stop()
        s.faults = CrashAt("intake.route.after")
        s.build()
        await s.start()
        await s.intake(s.message("/approve"))
        await s.crashed()
        s.sessions.session(session).closed[A] = replace(
            s.sessions.session(session).approval, decision=Resolution.EXPIRED
        )
        s.sessions.ask(session, B)
        s.faults = CrashAt()
        await s.restart()
        await s.settled()
        assert s.sessions.executed == []
        assert s.sessions.session(session).approval.request_id == B


@pytest.mark.parametrize("text", ["/approve", "/approve aaaa11"])
async def test_request_that_nobody_was_shown_is_not_approved(text: str, tmp_path: Path) -> None:
    """While the card is not known to be on the platform, words cannot approve what it says; they may deny it."""
    async with stage(tmp_path) as s:
        await s.say("go")
        session = await s.session_of()
        s.sessions.ask(session, A)
        await s.say(text)
        await s.card(message_id=None, session_id=session, request_id=A)
        await s.say(text)
        assert s.sessions.executed == []
        assert await s.told() == ["That request has not been shown yet. Wait for its card, or deny it."] * 2
        await s.say(text.replace("approve", "deny"))
        assert s.sessions.executed == [(A, Resolution.DENIED)]
