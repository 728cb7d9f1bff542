"""A file comes in over real sockets, and one goes out, once, also if the gateway is killed on the way."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, calls, text
from tests.support.world import CONFIG, OWNER, World, buttons

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
MODELS = """
[[models]]
name = "main"
provider = "openai"
model = "scripted"
base_url = "{model_url}"
files = true

[limits]
live_turns = 8
"""


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """The model: it sends its report back, and then says so."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def world(tmp_path: Path, server: ModelServer) -> AsyncIterator[World]:
    """A gateway with that model."""
    config = CONFIG.partition("[[models]]")[0] + MODELS.replace("{model_url}", server.base_url)
    async with World(tmp_path, config) as world:
        yield world


def shown_to(body: dict[str, Any]) -> list[str]:
    """The pictures of a request, as data URLs."""
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_picture_in_and_report_out(world: World, server: ModelServer) -> None:
    """The model sees the picture that was sent and finds it in the workspace; a file comes back once, over a kill."""
    server.replies += [calls(("send_file", {"path": "report.txt", "caption": "the report"})), text("Sent.")]
    (world.workspace / "report.txt").write_text("all is well")
    await world.start(kill_at="tool.run.after:1")
    await world.platform.upload(OWNER, PNG, kind="photo", caption="what is this?")
    card = await world.find("", button="Approve")
    await world.platform.press(OWNER, card["message_id"], button="Approve")

    async def restarted() -> bool:
        return not world.alive

    await world.until(restarted)
    world.kills += 1
    server.default = text("Sent.")
    await world.start()
    await world.find("Sent.")
    await world.quiet()

    [picture] = shown_to(server.requests[0])
    assert base64.b64decode(picture.partition(",")[2]) == PNG
    [laid] = (world.workspace / "inbox").iterdir()
    assert laid.read_bytes() == PNG
    documents = [message["document"] for message in await world.seen() if "document" in message]
    assert [document["file_name"] for document in documents] == ["report.txt"]
    assert {file.name for file in (world.folder / "state" / "blobs").iterdir()} == {
        hashlib.sha256(content).hexdigest() for content in (PNG, b"all is well")
    }
    assert not any(buttons(message) for message in await world.seen() if "document" in message)


@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_voice_is_refused_in_a_sentence(world: World, server: ModelServer) -> None:
    """Nobody is asked, nothing is fetched, and the person is told what to do instead."""
    await world.start()
    await world.platform.upload(OWNER, b"OggS" + bytes(50), kind="voice")
    await world.find("cannot listen to voice messages")
    assert server.requests == []
