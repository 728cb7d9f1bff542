"""The model asks a person something over real sockets; the gateway is killed while the question waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_files import MODELS
from tests.support.model_server import ModelServer, calls, text
from tests.support.world import CONFIG, OWNER, STRANGER, World, buttons, content

QUESTION = calls(("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]}))


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """The model: it asks, and then says what it was told."""
    async with ModelServer([QUESTION], default=text("I heard: {last}")) as server:
        yield server


@pytest.fixture
async def world(tmp_path: Path, server: ModelServer) -> AsyncIterator[World]:
    """A gateway with that model."""
    config = CONFIG.partition("[[models]]")[0] + MODELS.replace("{model_url}", server.base_url)
    async with World(tmp_path, config) as world:
        yield world


async def asked(world: World) -> dict[str, Any]:
    """The question, once it is there."""
    return await world.find("Which colour?", button="blue")


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_button_answers_after_a_kill(world: World, server: ModelServer) -> None:
    """The old button answers the same turn after a restart; the card shows the answer and loses its buttons."""
    await world.start()
    await world.say("paint it")
    card = await asked(world)
    await world.kill()
    await world.start()
    await world.platform.press(OWNER, card["message_id"], button="blue")
    await world.find("I heard: The answer: blue")
    await world.quiet()
    assert len(server.requests) == 2
    [closed] = [one for one in await world.seen() if one["message_id"] == card["message_id"]]
    assert "blue" in content(closed)
    assert "Ann" in content(closed)
    assert buttons(closed) == []
    assert world.rows("SELECT outcome FROM execution_journal") == [("completed",)]


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_words_answer_too_and_a_stranger_does_not(world: World, server: ModelServer) -> None:
    """Plain words while the question waits are its answer, once; the words after it are a message of their own."""
    await world.start()
    await world.say("paint it")
    await asked(world)
    await world.say("green", user=STRANGER)
    await world.say("violet, with stripes")
    await world.find("I heard: The answer: violet, with stripes")
    await world.say("thanks")
    await world.find("I heard: thanks")
    await world.quiet()
    assert len(server.requests) == 3
    assert sorted(row[0] for row in world.rows("SELECT outcome FROM inbound WHERE state = 'done'")) == [
        "answered", "turn", "turn",
    ]  # fmt: skip
