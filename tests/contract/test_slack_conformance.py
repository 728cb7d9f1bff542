"""Slack's Node client against the Slack emulator, unmodified: another program than the one that the product uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.emulators.slack import Knobs, SlackEmulator
from tests.support.node_peer import PATIENCE, node_peer
from tests.support.slack_blocks import objections

ALICE = "U0ALICE"
TEAM = "C0TEAM"


@pytest.fixture
async def emulator() -> AsyncIterator[SlackEmulator]:
    """Alice and the app in a channel. Slow machines may take their time."""
    made = SlackEmulator(knobs=Knobs(ack_seconds=PATIENCE, trigger_life=PATIENCE))
    made.add_user(ALICE, "Alice")
    made.add_chat(TEAM, "team", members=[ALICE])
    await made.start()
    yield made
    await made.stop()
    assert objections(made) == []


async def shown(emulator: SlackEmulator, text: str, chat: str = TEAM) -> dict[str, Any]:
    """The message with this text, once it is there."""
    found = await emulator.wait_for(
        lambda: [one for one in emulator.messages(chat, user=ALICE) if one["text"] == text], PATIENCE
    )
    return found[0]


async def test_node_client_runs_its_scenario(emulator: SlackEmulator) -> None:
    """Mention, press, form, command, stream, file, errors and a refreshed socket work, and no rule is broken."""
    peer_process = node_peer("slack.mjs", emulator.api_base, emulator.app.bot_token, emulator.app.app_token)
    async with peer_process as peer:
        started = await peer.said("started")
        assert started["bot"] == emulator.app.bot_user
        assert started["scopes"] == len(emulator.app.scopes)

        asked = await emulator.say(ALICE, f"<@{emulator.app.bot_user}> hi", chat=TEAM)
        answer = await shown(emulator, "Hello")
        assert answer["metadata"]["event_payload"] == {"of": asked["ts"]}

        await emulator.press(ALICE, answer["ts"], button="Why", chat=TEAM)
        await emulator.wait_for(lambda: emulator.snapshot()["views"], PATIENCE)
        await emulator.submit(ALICE, {"why": "x"})
        await emulator.wait_for(lambda: any(one.name == "view_errors" for one in emulator.journal), PATIENCE)
        await emulator.submit(ALICE, {"why": "because"})
        assert (await peer.said("reason"))["value"] == "because"
        await emulator.press(ALICE, answer["ts"], button="Go", chat=TEAM)
        await shown(emulator, "pressed")

        await emulator.command(ALICE, "echo", "this", chat=TEAM)
        await shown(emulator, "at once this")
        await shown(emulator, "later")
        await emulator.react(ALICE, asked["ts"], "eyes", chat=TEAM)
        assert (await peer.said("reaction"))["name"] == "eyes"

        await emulator.say(ALICE, "stream")
        await shown(emulator, "Once upon a time", ALICE)
        await emulator.say(ALICE, "file")
        await emulator.wait_for(lambda: [one for one in emulator.messages(ALICE) if one.get("files")], PATIENCE)
        await emulator.say(ALICE, "errors")
        refused = (await peer.said("refused"))["refused"]
        assert refused == ["channel_not_found", "no_text", "message_not_found"]

        first = emulator.connections()
        await emulator.disconnect("refresh_requested")
        await emulator.wait_for(lambda: emulator.connections() not in ([], first), PATIENCE)
        await emulator.say(ALICE, "still there?")
        await peer.hear(lambda one: one.get("text") == "still there?")
        assert [one for one in peer.told if one["what"] == "error"] == []
    emulator.assert_clean()
