"""The room of the playground without its gateway: what the person does, and what the panes show of it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.trial.stage import make_stage
from gateway.trial.web.room import Phase, Room

PLATFORMS = ("telegram", "slack", "discord")
PATIENCE = 60.0


class NoGateway:
    """In the place of the gateway's process: none is ever started."""

    pid = None
    living = False
    ending = "it was never started"

    async def start(self) -> None:
        """Nothing."""

    async def stop(self) -> None:
        """Nothing."""

    def kill(self) -> None:
        """Nobody is there."""


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    """Emulators, a person, and nobody who listens."""
    made = Room(make_stage(tmp_path / "trial", {}), {"USER": "Ann"})
    made._child = NoGateway()  # type: ignore[assignment]
    async with made:
        yield made


async def until(room: Room, name: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The first state of a pane (or of the gateway) of which this holds."""
    async with asyncio.timeout(PATIENCE):
        async for update in room.updates():
            if update.name == name and holds(state := json.loads(update.body)):
                return state
    raise AssertionError("updates have no end")


def words(message: dict[str, Any]) -> str:
    """What a message says."""
    return "".join(span["text"] for block in message["blocks"] for span in block["spans"])


def last(state: dict[str, Any], text: str, **flags: object) -> bool:
    """Whether the newest message says this and has these flags."""
    shown = state["messages"][-1] if state["messages"] else {"blocks": ()}
    return text in words(shown) and all(shown[name] == value for name, value in flags.items())


@pytest.mark.parametrize("name", PLATFORMS)
async def test_person_writes_corrects_marks_and_deletes(room: Room, name: str) -> None:
    """Each deed is done on the platform and shows in the pane, although no gateway runs."""
    side, client = room.sides[name], room.client(name)
    await side.say(client, "a wrod")
    state = await until(room, name, lambda state: last(state, "a wrod", mine=True, edited=False))
    assert state["connected"] is False
    mention = "" if name == "telegram" else "@pilothouse "
    number = state["messages"][-1]["id"]
    assert words(state["messages"][-1]) == f"{mention}a wrod"
    await side.edit(client, number, f"{mention}a word")
    edited = await until(room, name, lambda state: last(state, "a word", edited=True))
    spans = [span for block in edited["messages"][-1]["blocks"] for span in block["spans"]]
    assert any("mention" in span["styles"] for span in spans) is bool(mention), "the mention was lost by the edit"
    await side.like(client, number, True)
    await until(room, name, lambda state: last(state, "a word", liked=True, reactions=["👍"]))
    await side.like(client, number, False)
    await until(room, name, lambda state: last(state, "a word", liked=False, reactions=[]))
    content = base64.b64encode(b"12345").decode()
    await side.upload(client, "notes.txt", content, "see this")
    await until(room, name, lambda state: last(state, "see this", files=["notes.txt (5 bytes)"]))
    await side.delete(client, number)
    await until(room, name, lambda state: all("a word" not in words(one) for one in state["messages"]))


async def test_panel_prepares_faults_for_all(room: Room) -> None:
    """A prepared 429 is to be seen in each pane until it fires; clocks move; there is nothing to cut or to kill."""
    await room.refuse(3)
    for name in PLATFORMS:
        state = await until(room, name, lambda state: state["armed"])
        assert all(one.startswith("rate_limit on ") for one in state["armed"])
    before = [(await room.client(name).snapshot())["now"] for name in PLATFORMS]
    await room.advance(3600)
    after = [(await room.client(name).snapshot())["now"] for name in PLATFORMS]
    assert all(3600 <= late - early < 3600 + PATIENCE for early, late in zip(before, after, strict=True))
    assert await room.disconnect() == 0
    assert room.kill() is None


async def test_room_tells_that_the_gateway_is_down(room: Room) -> None:
    """A gateway that did not start is down, with the reason, and can be started again."""
    state = await until(room, "gateway", lambda state: state["phase"] == Phase.DOWN)
    assert state["ending"] == "it was never started"
    assert await room.start()


async def test_new_thread_begins_with_a_mention_again(room: Room) -> None:
    """In Slack and Discord what follows goes into the thread; after "New thread" it opens another."""
    side, client = room.sides["slack"], room.client("slack")
    await side.say(client, "first")
    await side.say(client, "second")
    side.begin_anew()
    await side.say(client, "third")
    state = await until(room, "slack", lambda state: len(state["messages"]) == 3)
    shown = [(words(one), one["inside"]) for one in state["messages"]]
    assert shown == [("@pilothouse first", False), ("second", True), ("@pilothouse third", False)]
