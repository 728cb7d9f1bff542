"""The process dies at every named point of intake, and comes back: each thing takes effect exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Inbound, InboundKind
from gateway.faults import POINTS
from gateway.ledger.surfaces import Letter
from runtime.protocol import ops
from tests.support.intake import ANN_PRIVATE, OWNER, Crash, CrashAt, Stage, person, stage

SWEPT = sorted(point for point in POINTS if point.startswith("intake."))
REQUEST = "aaaa11112222"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`prepare` makes what is there before, and returns what arrives; `check` looks at what came of it."""

    prepare: Callable[[Stage], Awaitable[Inbound]]
    check: Callable[[Stage], Awaitable[None]]


async def a_message(s: Stage) -> Inbound:
    """First words in a new place."""
    return s.message("hello")


async def one_session_with_the_message(s: Stage) -> None:
    """One session, the words once."""
    assert s.sessions.texts() == ["hello"]
    assert len(await s.bound()) == 1
    assert s.sessions.session(await s.session_of()).turns == 1


async def a_new(s: Stage) -> Inbound:
    """/new while a turn runs."""
    await s.say("one")
    return s.message("/new")


async def one_new_session(s: Stage) -> None:
    """One session more, the old one ended, said once."""
    states = [row[0] for row in await s.rows("SELECT state FROM place_sessions ORDER BY generation")]
    assert states == ["retired", "active"]
    assert await s.told() == ["A new conversation begins here. Workspace: Notes"]
    assert [row[0] for row in await s.audit()] == ["session_renewed"]
    await s.say("two")
    assert s.sessions.session(await s.session_of()).turns == 1


async def a_stop(s: Stage) -> Inbound:
    """/stop while a turn runs."""
    await s.say("one")
    return s.message("/stop")


async def one_turn_stopped(s: Stage) -> None:
    """The turn was interrupted once."""
    session = await s.session_of()
    interrupts = {op for _, op, _ in s.sessions.submitted if isinstance(op, ops.Interrupt)}
    assert interrupts == {ops.Interrupt(turn_id=f"{session}.t1", by=OWNER)}
    assert await s.marks() == ["accepted"]


async def a_press(s: Stage) -> Inbound:
    """Approve, on a card."""
    await s.say("one")
    session = await s.session_of()
    pending = s.sessions.ask(session, REQUEST)
    card = await s.card(session_id=session, turn_id=pending.turn_id, request_id=REQUEST)
    return s.press_on(card, Letter.APPROVE, ANN_PRIVATE, "card", person())


async def one_decision(s: Stage) -> None:
    """The request was approved once, and that was written down once."""
    assert [request for request, _ in s.sessions.executed] == [REQUEST]
    assert [row[:2] for row in await s.audit("pressed")] == [("pressed", OWNER)]


async def a_status(s: Stage) -> Inbound:
    """A command that only says something."""
    return s.message("", kind=InboundKind.COMMAND, command="usage")


async def one_reply(s: Stage) -> None:
    """It was said once."""
    assert await s.told() == ["No conversation has begun here yet."]


SCENARIOS = {
    "message": Scenario(prepare=a_message, check=one_session_with_the_message),
    "new": Scenario(prepare=a_new, check=one_new_session),
    "stop": Scenario(prepare=a_stop, check=one_turn_stopped),
    "press": Scenario(prepare=a_press, check=one_decision),
    "usage": Scenario(prepare=a_status, check=one_reply),
}
REACHES = {
    name: set(SWEPT) - ({p for p in SWEPT if "route" in p or "submit" in p} if name == "usage" else set())
    for name in SCENARIOS
}


async def died(s: Stage, arriving: Inbound) -> bool:
    """Whether the process died while this was taken in and handled."""
    try:
        await s.intake(arriving)
    except Crash:
        await s.stop()
        return True
    assert s._task is not None
    settling = asyncio.ensure_future(s.settled())
    await asyncio.wait({settling, s._task}, return_when=asyncio.FIRST_COMPLETED)
    if not s._task.done():
        await settling
        return False
    settling.cancel()
    with suppress(asyncio.CancelledError, BaseExceptionGroup):
        await settling
    await s.crashed()
    return True


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("point", SWEPT)
async def test_effect_is_exactly_once(point: str, name: str, tmp_path: Path) -> None:
    """Death at the point, a restart, and the platform sending it again: one effect, told once."""
    scenario = SCENARIOS[name]
    async with stage(tmp_path) as s:
        arriving = await scenario.prepare(s)
        await s.stop()
        s.faults = CrashAt(point)
        s.build()
        await s.start()
        assert await died(s, arriving) == (point in REACHES[name])
        s.faults = CrashAt()
        await s.restart()
        await s.intake(arriving)
        await s.settled()
        await scenario.check(s)
        before = await everything(s)
        await s.restart()
        await s.intake(arriving)
        await s.settled()
        assert await everything(s) == before


async def everything(s: Stage) -> list[Any]:
    """Every row of every table of intake, and every op."""
    tables = ("inbound", "inbound_keys", "places", "place_sessions", "deliveries", "audit")
    return [s.sessions.submitted[:], *[await s.rows(f"SELECT * FROM {table}") for table in tables]]


def test_every_point_is_swept() -> None:
    """A point that no scenario reaches would prove nothing."""
    assert set(SWEPT) == set().union(*REACHES.values())
    assert SWEPT


async def test_retiring_session_is_ended_at_start(tmp_path: Path) -> None:
    """A session that was left between the two commits of /new is ended by the next start, with no input."""
    async with stage(tmp_path) as s:
        await s.say("one")
        old = await s.session_of()
        await s.stop()
        s.faults = CrashAt("intake.submit.before")
        s.build()
        await s.start()
        await s.intake(s.message("/new"))
        await s.crashed()
        assert await s.rows("SELECT state FROM place_sessions WHERE session_id = ?", old) == [("retiring",)]
        s.faults = CrashAt()
        await s.restart()
        await s.settled()
        assert s.sessions.session(old).retiring
        assert await s.rows("SELECT state FROM place_sessions WHERE session_id = ?", old) == [("retired",)]
