"""grammY against the Telegram emulator, unmodified: another program than the one that the product uses."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.emulators.faults import FaultKind
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.knobs import Knobs
from tests.support.node_peer import PATIENCE, node_peer

TOKEN = "42:TEST"
ALICE = 7
FORUM = -100456


@pytest.fixture
async def emulator() -> AsyncIterator[TelegramEmulator]:
    """Alice, the bot, and a forum with both."""
    made = TelegramEmulator(knobs=Knobs(repeated_poll_hold=0, repeated_poll_single=0))
    made.add_bot(TOKEN, username="PeerBot", first_name="Peer")
    made.add_user(ALICE, "Alice", username="alice", started=True)
    made.add_chat(FORUM, title="Forum", is_forum=True, members=[ALICE], bot_rights=["can_manage_topics"])
    await made.start()
    yield made
    await made.stop()


async def written(emulator: TelegramEmulator, chat: int, count: int) -> dict[str, Any]:
    """The newest message of the bot, once it has written that many."""

    def newest() -> Any:
        own = [one for one in emulator.messages(chat) if one.get("from", {}).get("id") == 42]
        return own[-1] if len(own) >= count else None

    return await emulator.wait_for(newest, timeout=PATIENCE)


async def test_grammy_runs_its_scenario(emulator: TelegramEmulator) -> None:
    """Greeting, button, topics, edits, reactions, files, albums, errors and a broken poll work; no rule is broken."""
    async with node_peer("telegram.mjs", emulator.url, TOKEN) as peer:
        assert await peer.said("started") == {"what": "started", "bot": 42, "name": "PeerBot"}

        said = await emulator.start_bot(ALICE)
        greeting = await written(emulator, ALICE, 1)
        assert greeting["text"] == "Hi & welcome"
        assert greeting["entities"] == [{"type": "bold", "offset": 0, "length": 2}]
        assert greeting["reply_to_message"]["message_id"] == said["message_id"]
        pressed = await emulator.press(ALICE, greeting["message_id"], button="Go")
        await emulator.wait_for(lambda: "edit_date" in emulator.messages(ALICE)[-1], timeout=PATIENCE)
        assert emulator.messages(ALICE)[-1]["text"] == "go:1 by 7"
        answer = await emulator.answer(pressed["id"])
        assert answer is not None
        assert answer["text"] == "ok"

        topic = (await emulator.create_topic(ALICE, "Plans", chat=FORUM))["message_thread_id"]
        inside = await emulator.say(ALICE, "in it", chat=FORUM, thread=topic)
        await emulator.edit(ALICE, inside["message_id"], "changed", chat=FORUM)
        await emulator.react(ALICE, inside["message_id"], "👍", chat=FORUM)
        assert await peer.said("text") == {"what": "text", "thread": topic, "text": "in it"}
        assert (await peer.said("edit"))["text"] == "changed"
        assert (await peer.said("reaction"))["emoji"] == ["👍"]

        content = bytes(range(256)) * 64
        await emulator.upload(ALICE, content, file_name="a.bin")
        assert base64.b64decode((await peer.said("document"))["content"]) == content
        assert (await written(emulator, ALICE, 2))["caption"] == "back"
        await emulator.album(ALICE, [("photo", b"1"), ("photo", b"2")])
        album = (await peer.said("photo"))["album"]
        await peer.hear(lambda one: len([two for two in peer.told if two.get("album") == album]) == 2)

        await emulator.say(ALICE, "errors")
        unclosed, nobody, too_long = (await peer.said("refused"))["refused"]
        assert unclosed.startswith("Bad Request: can't parse entities: Can't find end tag corresponding to start tag")
        assert nobody == "Bad Request: chat not found"
        assert too_long == "Bad Request: message is too long"

        emulator.fault("getUpdates", FaultKind.SERVER_ERROR, status=500)
        emulator.disconnect()
        await emulator.say(ALICE, "still there?")
        await peer.hear(lambda one: one.get("text") == "still there?")
        assert [one for one in peer.told if one["what"] == "error"] == []
    emulator.assert_clean()
