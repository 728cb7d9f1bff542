"""An emulator whose clock stands still, with a bot, two people and a group."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from adapters.emulators import ManualClock
from adapters.emulators.telegram import TelegramEmulator
from tests.support.telegram_schema import malformed_results
from tests.unit.emulators.raw_client import RawBot

TOKEN = "42:TEST"
ALICE = 7
BOB = 8
GROUP = -100123
FORUM = -100456


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """One HTTP session per test."""
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def emulator() -> AsyncIterator[TelegramEmulator]:
    """Alice and Bob, a group, and a forum where the bot is administrator."""
    made = TelegramEmulator(clock=ManualClock())
    made.add_bot(TOKEN)
    made.add_user(ALICE, "Alice", username="alice", started=True)
    made.add_user(BOB, "Bob")
    made.add_chat(GROUP, title="Team", members=[ALICE, BOB])
    made.add_chat(FORUM, title="Forum", is_forum=True, members=[ALICE], bot_rights=["can_manage_topics"])
    await made.start()
    yield made
    await made.stop()
    assert malformed_results(made) == []


@pytest.fixture
def bot(emulator: TelegramEmulator, session: aiohttp.ClientSession) -> RawBot:
    """The bot's side of the wire."""
    return RawBot(emulator.url, TOKEN, session)
