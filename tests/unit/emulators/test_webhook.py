"""Webhooks: delivery, order, secret, retry, and answers that are calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from adapters.emulators.telegram import TelegramEmulator
from tests.unit.emulators.conftest import ALICE, BOB
from tests.unit.emulators.raw_client import RawBot


class Receiver:
    """A webhook of a bot whose answers a test decides."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.secrets: list[str | None] = []
        self.answers: list[Callable[[], Awaitable[web.Response]]] = []
        self.arrived = asyncio.Event()
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Note the update and answer what was prepared, 200 otherwise."""
        self.got.append(await request.json())
        self.secrets.append(request.headers.get("X-Telegram-Bot-Api-Secret-Token"))
        self.arrived.set()
        return await self.answers.pop(0)() if self.answers else web.Response()

    async def count(self, number: int) -> None:
        """Return once that many posts have come."""
        async with asyncio.timeout(30):
            while len(self.got) < number:
                self.arrived.clear()
                await self.arrived.wait()

    def answer(self, status: int, headers: dict[str, str] | None = None) -> None:
        """Prepare the answer to the next post."""

        async def made() -> web.Response:
            return web.Response(status=status, headers=headers)

        self.answers.append(made)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver on loopback."""
    made = Receiver()
    app = web.Application()
    app.router.add_post("/hook", made.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield made
    await runner.cleanup()


async def refused(emulator: TelegramEmulator, count: int) -> None:
    """Return once that many refusals are known to the sender, which then pauses."""

    def states() -> list[Any]:
        return [entry for entry in emulator.journal if entry.data.get("state") == "refused"]

    await emulator.wait_for(lambda: len(states()) >= count)


async def confirmed(emulator: TelegramEmulator, count: int) -> None:
    """Return once that many updates are confirmed."""

    def states() -> list[Any]:
        return [entry for entry in emulator.journal if entry.data.get("state") == "confirmed"]

    await emulator.wait_for(lambda: len(states()) >= count)


async def test_updates_are_posted_with_the_secret(emulator: TelegramEmulator, bot: RawBot, receiver: Receiver) -> None:
    """Pending and new updates are posted in order with the secret in its header; 200 confirms them."""
    await emulator.say(ALICE, "before")
    await bot.result("setWebhook", url=receiver.url, secret_token="s3cret", allowed_updates=["message"])
    await emulator.say(ALICE, "after")
    await confirmed(emulator, 2)
    assert [update["message"]["text"] for update in receiver.got] == ["before", "after"]
    assert receiver.secrets == ["s3cret", "s3cret"]
    info = await bot.result("getWebhookInfo")
    assert (info["url"], info["pending_update_count"], info["allowed_updates"]) == (receiver.url, 0, ["message"])


async def test_failed_post_is_tried_again(emulator: TelegramEmulator, bot: RawBot, receiver: Receiver) -> None:
    """A failed update is tried again at once, then after 2, 4, 8 s; later updates of the chat wait for it."""
    for _ in range(4):
        receiver.answer(500)
    await bot.result("setWebhook", url=receiver.url)
    await emulator.say(ALICE, "a")
    await emulator.say(ALICE, "b")
    await receiver.count(2)
    for attempts, pause in ((3, 2), (4, 4), (5, 8)):
        await refused(emulator, attempts - 1)
        await emulator.advance(pause - 0.1)
        assert len(receiver.got) == attempts - 1
        await emulator.advance(0.1)
        await receiver.count(attempts)
    await confirmed(emulator, 2)
    assert [update["message"]["text"] for update in receiver.got] == ["a", "a", "a", "a", "a", "b"]
    info = await bot.result("getWebhookInfo")
    assert info["last_error_message"] == "Wrong response from the webhook: 500 Internal Server Error"


async def test_retry_after_of_the_webhook_is_respected(
    emulator: TelegramEmulator, bot: RawBot, receiver: Receiver
) -> None:
    """A webhook that asks for a pause gets it, also on the first failure."""
    receiver.answer(503, {"Retry-After": "100"})
    await bot.result("setWebhook", url=receiver.url)
    await emulator.say(ALICE, "a")
    await receiver.count(1)
    await refused(emulator, 1)
    await emulator.advance(99)
    assert len(receiver.got) == 1
    await emulator.advance(1)
    await receiver.count(2)


async def test_other_chats_do_not_wait(emulator: TelegramEmulator, bot: RawBot, receiver: Receiver) -> None:
    """While one chat's update hangs, another chat's is delivered."""
    release = asyncio.Event()

    async def slow() -> web.Response:
        await release.wait()
        return web.Response()

    receiver.answers.append(slow)
    await bot.result("setWebhook", url=receiver.url)
    await emulator.say(ALICE, "hangs")
    await receiver.count(1)
    await emulator.say(ALICE, "waits")
    await emulator.say(BOB, "passes")
    await receiver.count(2)
    assert [update["message"]["text"] for update in receiver.got] == ["hangs", "passes"]
    release.set()
    await receiver.count(3)


@pytest.mark.parametrize("transport", ["json", "form", "multipart"])
async def test_answer_can_be_a_call(
    emulator: TelegramEmulator, bot: RawBot, receiver: Receiver, transport: str
) -> None:
    """An answer that names a method is executed, whichever way it is written; its result goes nowhere."""
    values = {"method": "sendMessage", "chat_id": "7", "text": "answered"}

    async def call() -> web.Response:
        if transport == "json":
            return web.json_response(values)
        if transport == "form":
            return web.Response(
                text="&".join(f"{k}={v}" for k, v in values.items()), content_type="application/x-www-form-urlencoded"
            )
        body = aiohttp.MultipartWriter("form-data")
        for name, value in values.items():
            body.append(value).set_content_disposition("form-data", name=name)
        return web.Response(body=body)

    receiver.answers.append(call)
    await bot.result("setWebhook", url=receiver.url)
    await emulator.say(ALICE, "question")
    await confirmed(emulator, 1)
    assert [one["text"] for one in emulator.messages(ALICE)] == ["question", "answered"]
    assert emulator.sends[0].answer.data["delivered"] is False


@pytest.mark.parametrize("method", ["deleteWebhook", "getMe"])
async def test_answer_cannot_be_a_reading_call(
    emulator: TelegramEmulator, bot: RawBot, receiver: Receiver, method: str
) -> None:
    """Methods that only read, or manage the webhook, are not executed from an answer."""

    async def call() -> web.Response:
        return web.json_response({"method": method})

    receiver.answers.append(call)
    await bot.result("setWebhook", url=receiver.url)
    await emulator.say(ALICE, "a")
    await confirmed(emulator, 1)
    assert emulator.calls(method) == []
    assert (await bot.result("getWebhookInfo"))["url"] == receiver.url


async def test_webhook_and_polling_exclude_each_other(
    emulator: TelegramEmulator, bot: RawBot, receiver: Receiver
) -> None:
    """Setting a webhook ends the waiting poll; polling is refused until it is deleted; nothing pending is lost."""
    poll = bot.poll()
    async with asyncio.timeout(30):
        while not emulator.polls():
            await asyncio.sleep(0)
    await bot.result("setWebhook", url=receiver.url)
    assert (await poll)["description"] == "Conflict: terminated by setWebhook request"
    await emulator.advance(10)
    assert await bot.error("getUpdates") == (
        "409 Conflict: can't use getUpdates method while webhook is active; "
        "use deleteWebhook to delete the webhook first"
    )
    receiver.answer(500, {"Retry-After": "3600"})
    await emulator.say(ALICE, "a")
    await receiver.count(1)
    await bot.result("deleteWebhook")
    assert [update["message"]["text"] for update in await bot.updates()] == ["a"]


async def test_pending_updates_can_be_dropped(emulator: TelegramEmulator, bot: RawBot) -> None:
    """deleteWebhook with drop_pending_updates forgets what was not delivered, and the record shows it."""
    await emulator.say(ALICE, "a")
    await bot.result("deleteWebhook", drop_pending_updates=True)
    assert emulator.pending_updates() == []
    assert [entry.data["state"] for entry in emulator.journal if "state" in entry.data] == ["queued", "dropped"]


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"secret_token": "x" * 257}, "secret token is too long"),
        ({"secret_token": "a b"}, "secret token contains unallowed characters"),
        ({"url": "ftp://127.0.0.1/"}, "invalid webhook URL specified"),
        ({"url": "https://bot.example.com/hook"}, "bad webhook: the emulator posts to this machine only"),
    ],
)
async def test_bad_webhooks_are_refused(bot: RawBot, params: dict[str, Any], error: str) -> None:
    """Secret and address are checked, and nothing is ever posted to another machine."""
    base = {"url": "http://127.0.0.1:9/hook"}
    assert await bot.error("setWebhook", **(base | params)) == f"400 Bad Request: {error}"


async def test_webhook_is_set_at_most_once_a_second(
    emulator: TelegramEmulator, bot: RawBot, receiver: Receiver
) -> None:
    """A second setWebhook within a second is refused with a pause of one."""
    await bot.result("setWebhook", url=receiver.url)
    assert await bot.error("setWebhook", url=receiver.url) == "429 Too Many Requests: retry after 1"
    await emulator.advance(1)
    assert await bot.result("setWebhook", url=receiver.url) is True


async def test_webhook_that_says_gone_for_a_day_is_removed(
    emulator: TelegramEmulator, bot: RawBot, receiver: Receiver
) -> None:
    """410 for 23 hours ends the webhook; the updates stay for polling."""
    for _ in range(500):
        receiver.answer(410, {"Retry-After": "3600"})
    await bot.result("setWebhook", url=receiver.url)
    await emulator.say(ALICE, "a")
    for hour in range(23):
        await refused(emulator, hour + 1)
        assert emulator.snapshot()["bots"][0]["webhook"] == receiver.url
        await emulator.advance(3601)
    await emulator.say(BOB, "still wanted")
    await emulator.wait_for(lambda: emulator.snapshot()["bots"][0]["webhook"] == "")
    assert "still wanted" in str(await bot.updates())
