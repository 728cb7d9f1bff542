"""discord.js against the Discord emulator, unmodified: another client than the one that the product uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.emulators.discord import DiscordEmulator, Knobs
from tests.support.discord_schema import malformed_answers
from tests.support.node_peer import PATIENCE, node_peer

TOKEN = "NDI.emulated.token-for-tests"
BOT = 42
ALICE = 7
GUILD = 100
GENERAL = 101


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    """Alice and the bot in a guild. Slow machines may take their time."""
    made = DiscordEmulator(knobs=Knobs(interaction_deadline=PATIENCE))
    made.add_bot(TOKEN, name="pilot")
    made.add_user(ALICE, "Alice")
    made.add_guild(GUILD, "Crew", members=[ALICE])
    made.add_channel(GUILD, "general", channel=GENERAL)
    await made.start()
    yield made
    await made.stop()


async def shown(emulator: DiscordEmulator, text: str, chat: int | str = GENERAL) -> dict[str, Any]:
    """The bot's message with this text, once it is there."""

    def look() -> list[dict[str, Any]]:
        return [one for one in emulator.messages(chat) if one["content"] == text and one["author"]["id"] == str(BOT)]

    return (await emulator.wait_for(look, PATIENCE))[0]


async def test_other_client_runs_its_scenario(emulator: DiscordEmulator) -> None:
    """Mention, press, form, commands, thread, card, file, errors, nonce and a resumed connection; no rule is broken."""
    async with node_peer("discord.mjs", emulator.url, TOKEN) as peer:
        started = await peer.said("started")
        assert (started["bot"], started["guild"], started["channels"]) == (str(BOT), "Crew", ["general"])

        await emulator.say(ALICE, f"<@{BOT}> hi", chat=GENERAL)
        greeting = await shown(emulator, "Hello")
        asked = await emulator.press(ALICE, greeting["id"], button="Why")
        await emulator.wait_for(lambda: any(one.name == "answer" for one in emulator.journal), PATIENCE)
        await emulator.submit(ALICE, asked["id"], {"text": "because"})
        assert (await peer.said("reason"))["value"] == "because"
        await shown(emulator, "noted")
        await emulator.press(ALICE, greeting["id"], button="Go")
        assert (await shown(emulator, "pressed"))["components"] == []

        await emulator.command(ALICE, "echo", "this", chat=GENERAL)
        await shown(emulator, "late this")
        await shown(emulator, "later")
        said = await emulator.say(ALICE, "work", chat=GENERAL)
        await emulator.command(ALICE, "Stop agent", target=said["id"])
        await shown(emulator, "stopped work")

        rooted = await emulator.say(ALICE, "thread", chat=GENERAL)
        await emulator.wait_for(lambda: [t for t in emulator.threads(GENERAL) if t["name"] == "Another name"], PATIENCE)
        await shown(emulator, "in thread", rooted["id"])
        await emulator.say(ALICE, "card", chat=GENERAL)
        await emulator.wait_for(lambda: emulator.messages(GENERAL)[-1]["flags"] & (1 << 15), PATIENCE)
        await emulator.upload(ALICE, b"contents", file_name="a.txt", chat=GENERAL)
        assert (await shown(emulator, "contents"))["attachments"][0]["filename"] == "r.txt"

        edited = await emulator.say(ALICE, "history", chat=GENERAL)
        assert (await peer.said("history"))["texts"] == ["history", "contents"]
        await emulator.edit(ALICE, edited["id"], "changed")
        await peer.hear(lambda one: one.get("text") == "changed")
        await emulator.react(ALICE, edited["id"], ["👍"])
        assert (await peer.said("reaction"))["name"] == "👍"
        await emulator.delete(ALICE, edited["id"])
        assert (await peer.said("delete"))["id"] == edited["id"]
        await emulator.say(ALICE, "errors", chat=GENERAL)
        assert (await peer.said("refused"))["refused"] == [50035, 10008, 50006, 160004]
        await emulator.say(ALICE, "nonce")
        assert (await peer.said("nonce"))["same"]

        assert emulator.disconnect(how="reconnect") == 1
        await emulator.say(ALICE, "still there?", chat=GENERAL)
        await peer.hear(lambda one: one.get("text") == "still there?")
        await peer.said("resumed")
        assert [one for one in peer.told if one["what"] == "error"] == []
    assert malformed_answers(emulator) == []
    emulator.assert_clean()
