"""The main job over real sockets, with the gateway killed at each point on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.world import OWNER, World, buttons, content

REQUEST = "note in todo.txt that the release is on Friday"

POINTS = [
    "intake.store.after:1",  # stored, not acknowledged
    "intake.route.before:1",  # acknowledged, not routed
    "intake.submit.after:1",  # submitted, its outcome not stored
    "model.call.before:1",  # during the model call
    "model.call.after:1",  # the model has answered, nothing of it is stored
    "agent.approval.after:1",  # the approval is stored, nobody was asked
    "delivery.sent.before:1",  # something was shown, and that is not recorded
    "intake.store.after:2",  # the press is stored
    "intake.submit.before:2",  # the press is not carried out
    "agent.decision.after:1",  # decided, nothing has run
    "tool.run.before:1",  # the tool has not run
    "tool.run.after:1",  # it has had its effect, its result is not stored
    "agent.result.after:1",  # its result is stored
    "agent.terminal.after:1",  # the answer is stored, not planned
    "delivery.sending.after:2",  # a part is marked as being sent
    "delivery.sent.before:2",  # it is sent, and that is not recorded
    "delivery.sent.after:2",
]


RESTARTED_TWICE = {"agent.decision.after:1", "tool.run.after:1", "delivery.sent.before:2"}
"""A second restart, with nothing to do, costs seconds: the other points are swept below the gateway as well."""


@pytest.fixture
async def world(tmp_path: Path):
    async with World(tmp_path) as made:
        yield made


async def drive(world: World) -> None:
    """Be the person: write, press whatever Approve button is there, and start the gateway again whenever it died."""
    await world.say(REQUEST)
    pressed: set[int] = set()

    async def answered() -> bool:
        if not world.alive:
            world.kills += 1
            await world.start()
        for message in await world.seen():
            if "Approve" in buttons(message) and message["message_id"] not in pressed:
                pressed.add(message["message_id"])
                await world.platform.press(OWNER, message["message_id"], button="Approve")
        return bool(answers(await world.seen())) and world.alive

    await world.until(answered)
    await world.quiet()


def answers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that answer the request: the first answer of a session says who answers."""
    return [m for m in messages if not buttons(m) and "built-in demo model" in content(m)]


@pytest.mark.e2e
@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at(world: World, point: str) -> None:
    """Whatever the instant: the tool ran once at most, the turn went on, and the message was answered once."""
    await world.start(kill_at=point)
    await drive(world)
    assert world.kills == 1, f"the gateway never passed {point}"
    todo = world.workspace / "todo.txt"
    runs = todo.read_text().count("release is on Friday") if todo.exists() else 0
    assert runs <= 1, "the tool ran twice"
    assert runs == 1 or point.startswith(("agent.tool.after", "tool.run.before")), "the tool did not run"
    found = answers(await world.seen())
    marked = [m for m in found if "sent again" in content(m)]
    assert 1 <= len(found) <= 2, "not answered once, or more than one repeat"
    assert len(found) - len(marked) <= 1, "a repeat that is not marked"
    if marked:
        assert point.startswith(("delivery.sending.after", "delivery.sent.before")), "a repeat without a send in flight"
    check_database(world)
    await world.platform.assert_clean()
    if point in RESTARTED_TWICE:
        await check_second_restart(world)


def check_database(world: World) -> None:
    """The invariants that the database shows."""
    assert world.rows("PRAGMA integrity_check") == [("ok",)]
    turns = world.rows("SELECT turn_id, count(*) FROM execution_journal GROUP BY turn_id")
    assert [count for _, count in turns] == [1], "a turn has not exactly one record"
    endings = world.rows("SELECT count(*) FROM event_journal WHERE event_kind IN ('turn_complete', 'turn_aborted')")
    assert endings == [(1,)], "a turn has not exactly one ending"
    assert world.rows("SELECT decision FROM approvals") == [("approved",)], "the approval was not decided once"


async def check_second_restart(world: World) -> None:
    """A restart with nothing to do shows nothing, and ends in order."""
    before = [content(m) for m in await world.seen()]
    assert await world.terminate() == 0
    await world.start()
    await world.quiet()
    assert await world.terminate() == 0
    assert [content(m) for m in await world.seen()] == before, "a restart with nothing to do showed something"
