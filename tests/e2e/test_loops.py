"""A loop over real sockets, from the command to its end, with the gateway killed inside an iteration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.world import CONFIG, OWNER, World, buttons, content

WORDS = "note in todo.txt that the release is on Friday"


@pytest.fixture
async def world(tmp_path: Path):
    async with World(tmp_path, f'{CONFIG}\n[approvals.tools]\nwrite_file = "allow"\n') as made:
        yield made


async def said(world: World, text: str) -> list[dict[str, Any]]:
    """Messages of the bot with this text in them."""
    return [message for message in await world.seen() if text in content(message)]


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_a_loop_survives_a_kill_and_obeys_a_press(world: World) -> None:
    """Each iteration has its effect once, also the one that was killed in; one card, one answer; then a press stops."""
    await world.start(kill_at="tool.run.after:2")
    await world.say(f"/loop 3 {WORDS}")

    async def ended() -> bool:
        if not world.alive:
            world.kills += 1
            await world.start()
        return bool(await said(world, "The loop is done: all 3 iterations."))

    await world.until(ended)
    await world.quiet()
    assert world.kills == 1, "the gateway was not killed inside an iteration"
    assert (world.workspace / "todo.txt").read_text().count("release is on Friday") == 3
    assert len(await said(world, "The loop is done")) == 1
    [card] = await said(world, "3 of 3 iterations")
    assert "Done" in content(card)
    assert not [message for message in await world.seen() if buttons(message)]
    assert world.rows("SELECT status, runtime_status FROM loops") == [("completed", "completed")]
    assert world.rows("SELECT count(*), count(DISTINCT turn_id) FROM execution_journal") == [(3, 3)]
    [(generation,)] = world.rows("SELECT json_extract(loop_state, '$.generation') FROM loops")
    assert generation == 2, "it went on under the generation that was killed"

    await world.say("/loop 9 think for 5 seconds")
    card = await world.find("iteration 1 of 9", button="Stop after this iteration")
    await world.platform.press(OWNER, card["message_id"], button="Stop after this iteration")
    await world.find("The loop was stopped: 1 of 9 iterations.")
    await world.quiet()
    assert world.rows("SELECT status FROM loops") == [("stopped",)]
    kinds = "SELECT event_kind, count(*) FROM event_journal WHERE event_kind LIKE 'loop%' GROUP BY 1 ORDER BY 1"
    assert world.rows(kinds) == [
        ("loop_ended", 2),
        ("loop_iteration_completed", 4),
        ("loop_iteration_started", 4),
        ("loop_started", 3),
    ]
    await world.platform.assert_clean()
    assert await world.terminate() == 0
