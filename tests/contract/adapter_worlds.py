"""Our platforms as worlds for the contract: emulated ones, and a terminal made of a queue and a string."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from adapters.contract import Adapter, Environment, Place
from adapters.discord import create as create_discord
from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.discord.knobs import Knobs as DiscordKnobs
from adapters.emulators.faults import FaultKind
from adapters.emulators.slack import Knobs as SlackKnobs
from adapters.emulators.slack import SlackEmulator
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.knobs import Knobs
from adapters.slack import create as create_slack
from adapters.telegram import create
from adapters.terminal import TerminalAdapter
from adapters.testing import Failure, content
from tests.support.discord_reader import buttons_of, shown_in
from tests.support.slack_blocks import objections

TOKEN = "900:TEST"
ANN = 42


POLL_SECONDS = 2


async def hasty_sleep(seconds: float) -> None:
    """Pauses after failures are over at once; the alarm for a silent connection, three polls long, takes its time."""
    await asyncio.sleep(seconds if seconds == 3 * POLL_SECONDS else 0.01)


ENVIRONMENT = Environment(
    now_ms=lambda: time.time_ns() // 1_000_000,
    sleep=hasty_sleep,
    random_bytes=secrets.token_bytes,
    content=content,
)


class TelegramWorld:
    """Ann's private chat with the bot."""

    def __init__(self, emulator: TelegramEmulator) -> None:
        self.emulator = emulator
        self.place = Place(platform="telegram", account="900", chat=str(ANN))
        self.person = str(ANN)

    def adapter(self) -> Adapter:
        settings = {"token": TOKEN, "api_base": self.emulator.url, "poll_seconds": POLL_SECONDS}
        return create(settings, ENVIRONMENT)

    async def say(self, text: str) -> None:
        await self.emulator.say(ANN, text)

    async def press(self, token: str) -> None:
        for message in reversed(self.emulator.messages(ANN)):
            rows = message.get("reply_markup", {}).get("inline_keyboard", [])
            if any(button.get("callback_data") == token for row in rows for button in row):
                await self.emulator.press(ANN, message["message_id"], data=token)
                return
        raise AssertionError(f"nobody sees a button {token}")

    async def shown(self) -> Sequence[str]:
        return [await self._text(one) for one in self.emulator.messages(ANN) if one["from"]["id"] == 900]

    async def _text(self, message: dict[str, Any]) -> str:
        if "document" not in message:
            return str(message["text"])
        return await download(self.emulator.url, TOKEN, message["document"]["file_id"])

    async def fail_next(self, failure: Failure) -> bool:
        match failure:
            case Failure.RATE_LIMITED:
                self.emulator.fault("sendMessage", FaultKind.RATE_LIMIT, retry_after=7)
            case Failure.GONE:
                await self.emulator.block(ANN)
            case Failure.UNKNOWN:
                self.emulator.fault("sendMessage", FaultKind.DROP, applied=True)
        return True


async def download(url: str, token: str, file_id: str) -> str:
    """A file as the server has it."""
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/bot{token}/getFile", params={"file_id": file_id}) as response:
            path = (await response.json())["result"]["file_path"]
        async with session.get(f"{url}/file/bot{token}/{path}") as response:
            return await response.text()


@asynccontextmanager
async def telegram_world() -> AsyncGenerator[TelegramWorld]:
    """An emulated Telegram that tolerates no broken rule."""
    emulator = await TelegramEmulator(knobs=Knobs(repeated_poll_hold=0, repeated_poll_single=0)).start()
    emulator.add_bot(TOKEN, username="PilotBot", first_name="Pilot")
    emulator.add_user(ANN, "Ann", username="ann", started=True)
    try:
        yield TelegramWorld(emulator)
        emulator.assert_clean()
    finally:
        await emulator.stop()


DISCORD_TOKEN = "MTEwMDAwMDAwMDAwMDAwMDkwMA.Gabcde.TEST"
PILOT, BEN, GUILD, CHANNEL = "1100000000000000900", "1100000000000000042", "1100000000000000001", "1100000000000000010"
PATIENT = DiscordKnobs(interaction_deadline=60)
"""On a busy machine three seconds are over before a press is answered."""

SLOW_DOWN_SECONDS = 31
"""More than the client waits by itself."""


class DiscordWorld:
    """A thread in which Ben talks to the bot."""

    def __init__(self, emulator: DiscordEmulator, thread: str) -> None:
        self.emulator = emulator
        self.place = Place(platform="discord", account=PILOT, chat=CHANNEL, thread=thread)
        self.person = BEN
        self.thread = thread

    def adapter(self) -> Adapter:
        return create_discord({"token": DISCORD_TOKEN, "api_base": self.emulator.url}, ENVIRONMENT)

    async def say(self, text: str) -> None:
        await self.emulator.say(BEN, f"<@{PILOT}> {text}", chat=self.thread)

    async def press(self, token: str) -> None:
        for message in reversed(self.emulator.messages(self.thread)):
            if token in buttons_of(message).values():
                await self.emulator.press(BEN, message["id"], data=token)
                return
        raise AssertionError(f"nobody sees a button {token}")

    async def shown(self) -> Sequence[str]:
        seen = self.emulator.messages(self.thread) + self.emulator.messages(CHANNEL)
        return [self._text(message) for message in seen if message["author"]["id"] == PILOT]

    def _text(self, message: dict[str, Any]) -> str:
        files = [base64.b64decode(self.emulator.download(message["id"])).decode()] if message["attachments"] else []
        return "\n".join([shown_in(message), *files])

    async def fail_next(self, failure: Failure) -> bool:
        match failure:
            case Failure.RATE_LIMITED:
                self.emulator.fault("create_message", FaultKind.RATE_LIMIT, retry_after=SLOW_DOWN_SECONDS)
            case Failure.GONE:
                await self.emulator.leave(PILOT, GUILD)
            case Failure.UNKNOWN:
                self.emulator.fault("create_message", FaultKind.DROP, applied=True)
        return True


@asynccontextmanager
async def discord_world() -> AsyncGenerator[DiscordWorld]:
    """An emulated Discord that tolerates no broken rule."""
    emulator = await DiscordEmulator(knobs=PATIENT).start()
    emulator.add_bot(DISCORD_TOKEN, name="Pilot")
    emulator.add_user(BEN, "Ben")
    emulator.add_guild(GUILD, "Team", members=[BEN])
    emulator.add_channel(GUILD, "general", channel=CHANNEL)
    thread = await emulator.create_thread(BEN, "Work", chat=CHANNEL)
    try:
        yield DiscordWorld(emulator, thread["id"])
        emulator.assert_clean()
    finally:
        await emulator.stop()


class TerminalWorld:
    """Somebody at a keyboard."""

    def __init__(self) -> None:
        self.place = Place(platform="terminal", account="local", chat="terminal")
        self.person = "local"
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._screen = io.StringIO()

    def adapter(self) -> Adapter:
        return TerminalAdapter(ENVIRONMENT, self._lines(), self._screen)

    async def _lines(self) -> AsyncIterator[str]:
        while True:
            yield await self._typed.get()

    async def say(self, text: str) -> None:
        self._typed.put_nowait(text)

    async def press(self, token: str) -> None:
        label = {"y": "Approve", "n": "Deny"}[token[-1]]
        buttons = re.findall(rf"\[!(\d+) {label}\]", self._screen.getvalue())
        assert buttons, f"nobody sees a button {label}"
        self._typed.put_nowait(f"!{buttons[-1]}")

    async def shown(self) -> Sequence[str]:
        return [self._screen.getvalue()]

    async def fail_next(self, failure: Failure) -> bool:
        return False


@asynccontextmanager
async def terminal_world() -> AsyncGenerator[TerminalWorld]:
    """A terminal without a terminal."""
    yield TerminalWorld()


SLACK_ANN = "U0ANN"
LOOK_SECONDS = 5.0


async def slack_sleep(seconds: float) -> None:
    """Pauses after failures are over at once; looking at the socket takes its time."""
    await asyncio.sleep(seconds if seconds == LOOK_SECONDS else 0.01)


SLACK_ENVIRONMENT = Environment(
    now_ms=lambda: time.time_ns() // 1_000_000,
    sleep=slack_sleep,
    random_bytes=secrets.token_bytes,
    content=content,
)


class SlackWorld:
    """Ann's thread in her conversation with the app."""

    def __init__(self, emulator: SlackEmulator, chat: str, root: str) -> None:
        self.emulator = emulator
        app = emulator.app
        self.place = Place(platform="slack", account=f"{app.app_id}:{app.team}", chat=chat, thread=root)
        self.person = SLACK_ANN

    def adapter(self) -> Adapter:
        app = self.emulator.app
        tokens = {"bot_token": app.bot_token, "app_token": app.app_token}
        return create_slack({**tokens, "api_base": self.emulator.api_base}, SLACK_ENVIRONMENT)

    async def say(self, text: str) -> None:
        await self.emulator.say(SLACK_ANN, text, thread=self.place.thread)

    def _messages(self) -> list[dict[str, Any]]:
        messages = self.emulator.messages(self.place.chat, user=SLACK_ANN)
        return [one for one in messages if one.get("user") != SLACK_ANN]

    async def press(self, token: str) -> None:
        for message in reversed(self._messages()):
            if f"'value': '{token}'" in str(message.get("blocks", [])):
                await self.emulator.press(SLACK_ANN, message["ts"], data=token)
                return
        raise AssertionError(f"nobody sees a button {token}")

    async def shown(self) -> Sequence[str]:
        return [await self._text(one) for one in self._messages()]

    async def _text(self, message: dict[str, Any]) -> str:
        if files := message.get("files"):
            return await download_from_slack(files[0]["url_private"], self.emulator.app.bot_token)
        return "\n".join(words_in(message["blocks"])) if message.get("blocks") else str(message["text"])

    async def fail_next(self, failure: Failure) -> bool:
        match failure:
            case Failure.RATE_LIMITED:
                self.emulator.fault("chat.postMessage", FaultKind.RATE_LIMIT, retry_after=7)
            case Failure.GONE:
                self.emulator.fault("chat.postMessage", FaultKind.REFUSE, status=200, description="channel_not_found")
            case Failure.UNKNOWN:
                self.emulator.fault("chat.postMessage", FaultKind.DROP, applied=True)
        return True


def words_in(blocks: object) -> list[str]:
    """Everything that is to be read in blocks, in order."""
    if isinstance(blocks, list):
        return [word for one in blocks for word in words_in(one)]
    if not isinstance(blocks, dict):
        return []
    own = [value for name, value in blocks.items() if name in ("text", "title") and isinstance(value, str)]
    inner = [value for value in blocks.values() if isinstance(value, dict | list)]
    return [*own, *(word for one in inner for word in words_in(one))]


async def download_from_slack(url: str, token: str) -> str:
    """A file as the server has it."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return await response.text()


@asynccontextmanager
async def slack_world() -> AsyncGenerator[SlackWorld]:
    """An emulated Slack that tolerates no broken rule."""
    # Three seconds, as Slack gives, may pass unused on a machine that has other things to do.
    emulator = await SlackEmulator(knobs=SlackKnobs(ack_seconds=60.0, trigger_life=60.0)).start()
    emulator.add_user(SLACK_ANN, "Ann")
    events = emulator.app.events
    emulator.subscribe([])  # the thread is older than every adapter
    root = await emulator.say(SLACK_ANN, "the thread begins")
    emulator.subscribe(sorted(events))
    try:
        yield SlackWorld(emulator, emulator.direct_chat(SLACK_ANN), root["ts"])
        emulator.assert_clean()
        assert objections(emulator) == []
    finally:
        await emulator.stop()
