"""A schedule on the real gateway over real sockets: due while it lives and while it dies, and posted exactly once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import World, content

POINTS = [
    "schedule.claim.after:1",  # its row is there, and nothing began
    "schedule.submit.after:1",  # it runs, and its process is gone
    "delivery.plan.before:1",  # its turn is over, and its result is not planned
]
"""Claim, run, deliver; every point of a run is swept below the gateway as well."""


@pytest.fixture
async def world(tmp_path: Path):
    async with World(tmp_path) as made:
        yield made


async def said(world: World, text: str) -> list[dict[str, Any]]:
    """Messages of the bot with this text in them."""
    return [message for message in await world.seen() if text in content(message)]


def soon() -> str:
    """A few seconds from now, in UTC."""
    return (datetime.now(UTC) + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.e2e
@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at(world: World, point: str) -> None:
    """Whatever the instant: one row, one turn, one post with its labels; and an answer to it goes on with the run."""
    await world.start(kill_at=point)
    asked = 0

    async def posted() -> bool:
        nonlocal asked
        if not world.alive:
            world.kills += 1
            await world.start()
        if len(await said(world, "it would never be due")) == asked:  # a busy machine took longer to read it
            asked += 1
            await world.say(f"/cron add at {soon()} tz=UTC name=Report think for 1 seconds")
        return bool(await said(world, "⏰ cron · Report · run 1"))

    await world.until(posted)
    await world.quiet()
    assert world.kills == 1, f"the gateway never passed {point}"
    [post] = await said(world, "⏰ cron · Report · run 1")
    assert "Workspace: Notes" in content(post)
    [(state, number, label, origin, session)] = world.rows(
        "SELECT state, number, workspace_label, origin_label, session_id FROM schedule_runs"
    )
    assert (number, label, origin) == (1, "Notes", "cron · Report")
    assert state in ("running", "succeeded")
    assert world.rows("SELECT count(*) FROM execution_journal WHERE session_id = ?", session) == [(1,)]
    if point == POINTS[1]:
        await world.say("and now?", reply_to=post["message_id"])
        await world.until(lambda: _answered(world, session))
        assert world.rows("SELECT count(*) FROM execution_journal WHERE session_id = ?", session) == [(2,)]
    if point == POINTS[0]:
        await world.say("/cron run 1")
        await world.find("⏰ cron · Report · run 2")
        assert world.rows("SELECT by_hand, number FROM schedule_runs ORDER BY id") == [(0, 1), (1, 2)]
    await world.platform.assert_clean()


async def _answered(world: World, session: str) -> bool:
    return world.rows("SELECT count(*) FROM execution_journal WHERE session_id = ?", session) == [(2,)]
