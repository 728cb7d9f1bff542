"""A workspace whose clock stands still, with the app, two people and three channels."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from adapters.emulators import ManualClock
from adapters.emulators.slack import SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, BOB, OUTSIDE, SECRET, TEAM, RawApp


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """One HTTP session per test."""
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def emulator() -> AsyncIterator[SlackEmulator]:
    """Alice and Bob, a channel, a private channel, and a channel without the app."""
    made = SlackEmulator(clock=ManualClock())
    made.add_user(ALICE, "Alice")
    made.add_user(BOB, "Bob")
    made.add_chat(TEAM, "team", members=[ALICE, BOB])
    made.add_chat(SECRET, "secret", kind="group", members=[ALICE])
    made.add_chat(OUTSIDE, "outside", members=[ALICE], bot=False)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def app(emulator: SlackEmulator, session: aiohttp.ClientSession) -> RawApp:
    """The app's side of the wire."""
    return RawApp(emulator, session)
