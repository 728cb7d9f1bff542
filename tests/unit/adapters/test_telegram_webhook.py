"""Telegram calls us: what is durable is confirmed, everything else comes again, and strangers get nothing."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from adapters.contract import Environment, Inbound, Notice, Place
from adapters.emulators.telegram import TelegramEmulator
from adapters.errors import NotConnected
from adapters.telegram import create, diagnose
from adapters.telegram.webhook import SECRET_HEADER

pytestmark = pytest.mark.xdist_group("aiogram")

TOKEN = "900:TEST"
ANN = 42


async def no_pause(seconds: float) -> None:
    """Pauses after failures and between looks are short."""
    await asyncio.sleep(0.02)


ENVIRONMENT = Environment(now_ms=lambda: time.time_ns() // 1_000_000, sleep=no_pause, random_bytes=secrets.token_bytes)


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Hooked:
    """An adapter in webhook mode, with what it has taken in."""

    def __init__(self, emulator: TelegramEmulator) -> None:
        self.emulator = emulator
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/hook"
        self.settings: dict[str, Any] = {
            "token": TOKEN,
            "api_base": emulator.url,
            "mode": "webhook",
            "webhook_url": self.url,
            "webhook_listen": f"127.0.0.1:{port}",
        }
        self.adapter = create(self.settings, ENVIRONMENT)
        self.taken: list[str] = []
        self.refusals = 0

    async def intake(self, inbound: Inbound) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("the disk is full")
        self.taken.append(inbound.text)

    async def post(self, body: bytes, *given: bytes) -> int:
        """What a POST with these secrets is answered, by raw bytes, since a client refuses to send some of them."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.settings["webhook_listen"].split(":")[1]))
        head = b"".join(b"%s: %s\r\n" % (SECRET_HEADER.encode(), one) for one in given)
        writer.write(b"POST /hook HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s" % head)
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        status = int((await reader.readline()).split()[1])
        writer.close()
        return status


@pytest.fixture
async def hooked() -> AsyncIterator[Hooked]:
    """Ann has started the bot; nothing is connected yet."""
    emulator = await TelegramEmulator().start()
    emulator.add_bot(TOKEN, username="PilotBot", first_name="Pilot")
    emulator.add_user(ANN, "Ann", started=True)
    one = Hooked(emulator)
    yield one
    await one.adapter.stop()
    await emulator.stop()


async def until(emulator: TelegramEmulator, condition: Callable[[], object]) -> None:
    """Return once it holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_messages_come_in_and_answers_go_out(hooked: Hooked) -> None:
    """What people write is taken in once and confirmed; sending works as with polling; health is ready."""
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    for number in range(3):
        await hooked.emulator.say(ANN, f"message {number}")
    await until(hooked.emulator, lambda: len(hooked.taken) == 3)
    assert hooked.taken == ["message 0", "message 1", "message 2"]
    place = Place(platform="telegram", account="900", chat=str(ANN))
    await hooked.adapter.send(place, Notice(text="hello"), "k", 1)
    assert hooked.emulator.messages(ANN)[-1]["text"] == "hello"
    assert hooked.adapter.health.last_contact_ms is not None
    hooked.emulator.assert_clean()


async def test_what_cannot_be_stored_comes_again(hooked: Hooked) -> None:
    """A failed store is no confirmation: Telegram posts it once more, in order, and health says why meanwhile."""
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    hooked.refusals = 1
    await hooked.emulator.say(ANN, "first")
    await hooked.emulator.say(ANN, "second")
    await until(hooked.emulator, lambda: len(hooked.taken) == 2)
    assert (hooked.taken, hooked.refusals) == (["first", "second"], 0)


async def test_what_came_while_it_was_down_comes_after_the_start(hooked: Hooked) -> None:
    """The webhook outlives the process: Telegram keeps what it could not deliver, also under the next secret."""
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    await hooked.adapter.stop()
    assert hooked.adapter.health.state == "stopped"
    await hooked.emulator.say(ANN, "anybody there?")
    hooked.adapter = create(hooked.settings, ENVIRONMENT)
    await hooked.adapter.start(hooked.intake)
    await hooked.emulator.advance(5)
    await until(hooked.emulator, lambda: hooked.taken == ["anybody there?"])


async def test_a_webhook_of_somebody_else_is_told(hooked: Hooked) -> None:
    """Who took the updates away is named by health and by doctor; it is not fought over."""
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    await hooked.emulator.advance(2)  # a webhook may be set once a second
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{hooked.emulator.url}/bot{TOKEN}/setWebhook", json={"url": f"http://localhost:{free_port()}/"}
        ) as told,
    ):
        assert (await told.json())["ok"] is True
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "failing")
    assert "localhost" in hooked.adapter.health.detail
    found = {one.id: one for one in await diagnose(hooked.settings, ENVIRONMENT)}
    assert "localhost" in found["telegram.webhook"].message


async def test_a_taken_port_is_named(hooked: Hooked) -> None:
    """Where somebody else listens already, the start fails with the key to change, and nothing is left open."""
    port = int(hooked.settings["webhook_listen"].split(":")[1])
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(NotConnected, match=r"telegram\.webhook_listen"):
            await hooked.adapter.start(hooked.intake)
