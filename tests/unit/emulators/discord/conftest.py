"""An emulated Discord whose clock stands still, with a bot, two people and a guild."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from adapters.emulators import ManualClock
from adapters.emulators.discord import DiscordEmulator, Knobs
from tests.support.discord_schema import malformed_answers, malformed_events
from tests.unit.emulators.discord.raw_client import Line, RawBot

TOKEN = "NDI.raw.token"
BOT = 42
ALICE = 7
BOB = 8
GUILD = 100
GENERAL = 101
FORUM = 102
SECRET = 103
NEWS = 104


def build(knobs: Knobs | None = None) -> DiscordEmulator:
    """Alice owns the guild; the bot does not see the channel `secret`."""
    made = DiscordEmulator(clock=ManualClock(), knobs=knobs)
    made.add_bot(TOKEN, name="pilot")
    made.add_user(ALICE, "Alice")
    made.add_user(BOB, "Bob")
    made.add_guild(GUILD, "Crew", members=[ALICE, BOB])
    made.add_channel(GUILD, "general", channel=GENERAL)
    made.add_channel(GUILD, "sessions", channel=FORUM, type="forum", tags=["running", "done"])
    made.add_channel(GUILD, "secret", channel=SECRET, deny={str(BOT): ["view_channel"]})
    made.add_channel(GUILD, "news", channel=NEWS, deny={str(GUILD): ["send_messages"], str(BOT): ["send_messages"]})
    return made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """One HTTP session per test."""
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def knobs() -> Knobs:
    """The numbers of the platform; a test module may have its own."""
    return Knobs()


@pytest.fixture
async def emulator(knobs: Knobs) -> AsyncIterator[DiscordEmulator]:
    """The emulator; what it answers must look as published."""
    made = build(knobs)
    await made.start()
    yield made
    await made.stop()
    assert malformed_answers(made) == []


@pytest.fixture
def bot(emulator: DiscordEmulator, session: aiohttp.ClientSession) -> RawBot:
    """The bot's side of the wire."""
    return RawBot(emulator.url, TOKEN, session)


@pytest.fixture
async def line(bot: RawBot) -> AsyncIterator[Line]:
    """The bot's session on the gateway, after its guild was told."""
    opened = await bot.ready()
    await opened.until("GUILD_CREATE")
    yield opened
    await opened.socket.close()
    assert malformed_events(opened.got) == []
