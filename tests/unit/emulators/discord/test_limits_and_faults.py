"""Rate buckets with their headers, and the faults that a test can arm."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from adapters.emulators import EntryKind, FaultKind
from adapters.emulators.discord import DiscordEmulator, Knobs
from tests.unit.emulators.discord.conftest import ALICE, GENERAL
from tests.unit.emulators.discord.raw_client import Line, RawBot


class TestBuckets:
    """With two messages in five seconds and three calls in one."""

    @pytest.fixture
    def knobs(self) -> Knobs:
        """Small limits."""
        return Knobs(buckets={"create_message": (2, 5.0)}, global_per_second=3)

    async def test_a_bucket_is_told_and_kept(self, bot: RawBot, emulator: DiscordEmulator) -> None:
        """Every answer says what is left; one too many is 429 until the window ends; other channels are not hit."""
        first = await bot.try_send(GENERAL, content="1")
        assert {name: first.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset-After")} == {
            "Limit": "2",
            "Remaining": "1",
            "Reset-After": "5.000",
        }
        await emulator.advance(2)
        second = await bot.try_send(GENERAL, content="2")
        assert (second.headers["X-RateLimit-Remaining"], second.headers["X-RateLimit-Reset-After"]) == ("0", "3.000")
        refused = await bot.try_send(GENERAL, content="3")
        assert (refused.status, refused.body) == (
            429,
            {"message": "You are being rate limited.", "code": 0, "retry_after": 3.0, "global": False},
        )
        assert (refused.headers["Retry-After"], refused.headers["X-RateLimit-Scope"]) == ("3", "user")
        assert refused.headers["X-RateLimit-Bucket"] == first.headers["X-RateLimit-Bucket"]
        channel = emulator.direct(ALICE)["id"]
        assert (await bot.try_send(channel, content="elsewhere")).status == 200
        await emulator.advance(3)
        assert (await bot.try_send(GENERAL, content="3")).status == 200

    async def test_all_calls_of_a_bot_are_counted(self, bot: RawBot, emulator: DiscordEmulator) -> None:
        """The global limit hits every operation but those that answer interactions."""
        for _ in range(3):
            await bot.ok("GET", "/users/@me")
        refused = await bot.call("GET", "/users/@me")
        assert (refused.status, refused.body["global"], refused.headers["X-RateLimit-Global"]) == (429, True, "true")
        assert refused.headers["X-RateLimit-Scope"] == "global"
        unhindered = await bot.call("POST", "/interactions/1/none/callback", {"type": 6})
        assert unhindered.code == 10062
        await emulator.advance(1)
        await bot.ok("GET", "/users/@me")


async def test_without_limits_no_header_speaks_of_any(bot: RawBot) -> None:
    """Tests send as fast as they like, and clients find nothing to obey."""
    reply = await bot.try_send(GENERAL, content="x")
    assert not [name for name in reply.headers if name.startswith("X-RateLimit")]


@pytest.mark.parametrize("applied", [False, True])
async def test_a_server_error_before_or_after(bot: RawBot, emulator: DiscordEmulator, applied: bool) -> None:
    """5xx says nothing of whether the message was accepted."""
    emulator.fault("create_message", FaultKind.SERVER_ERROR, status=503, applied=applied)
    reply = await bot.try_send(GENERAL, content="x")
    assert (reply.status, reply.body) == (503, {"message": "Service Unavailable", "code": 0})
    assert len(emulator.messages(GENERAL)) == int(applied)


@pytest.mark.parametrize("applied", [False, True])
async def test_a_cut_connection(bot: RawBot, emulator: DiscordEmulator, applied: bool) -> None:
    """No answer comes, whether the message was accepted or not."""
    emulator.fault("create_message", FaultKind.DROP, applied=applied)
    with pytest.raises(aiohttp.ClientError):
        await bot.try_send(GENERAL, content="x")
    assert len(emulator.messages(GENERAL)) == int(applied)
    assert emulator.calls("create_message")[0].answer is None


async def test_refusals_and_limits_look_like_the_platforms(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A refusal has its code and tree, a limit its scope; both fire as often as told, on what they are meant for."""
    emulator.fault(
        "create_message",
        FaultKind.REFUSE,
        status=400,
        description="Invalid Form Body",
        parameters={"code": 50035, "errors": {"content": {"_errors": [{"code": "X", "message": "x"}]}}},
        where={"content": "bad"},
        times=2,
    )
    emulator.fault("*", FaultKind.RATE_LIMIT, parameters={"scope": "shared", "retry_after": 1.5}, skip=2)
    assert (await bot.try_send(GENERAL, content="good")).status == 200
    assert (await bot.try_send(GENERAL, content="bad")).errors == {"content": "X"}
    assert (await bot.try_send(GENERAL, content="bad")).code == 50035
    assert (await bot.try_send(GENERAL, content="bad")).status == 200
    limited = await bot.try_send(GENERAL, content="good")
    assert (limited.status, limited.body["retry_after"], limited.headers["Retry-After"]) == (429, 1.5, "2")
    assert emulator.faults.pending == []


async def test_slow_and_half_open(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A delayed call is answered when its time has come; a half-open one when somebody cuts it."""
    emulator.fault("get_my_user", FaultKind.DELAY, seconds=30)
    slow = asyncio.create_task(bot.call("GET", "/users/@me"))
    await emulator.wait_for(lambda: emulator.journal.of(EntryKind.FAULT))
    await emulator.advance(29)
    assert not slow.done()
    await emulator.advance(1)
    assert (await slow).status == 200
    emulator.fault("trigger_typing_indicator", FaultKind.HALF_OPEN)
    hanging = asyncio.create_task(bot.call("POST", f"/channels/{GENERAL}/typing"))
    await emulator.wait_for(lambda: len(emulator.journal.of(EntryKind.FAULT)) == 2)
    assert emulator.disconnect() == 1
    with pytest.raises(aiohttp.ClientError):
        await hanging


async def test_a_download_fails(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Faults reach the file server as well; an unknown file is 404."""
    sent = await emulator.upload(ALICE, b"abc", chat=GENERAL)
    url = sent["attachments"][0]["url"]
    emulator.fault("file", FaultKind.SERVER_ERROR)
    statuses: list[Any] = []
    for address in (url, url, url.replace("file.txt", "other.txt")):
        async with bot.http.get(address) as response:
            statuses.append(response.status)
    assert statuses == [502, 200, 404]


async def test_twice_and_out_of_order(line: Line, emulator: DiscordEmulator) -> None:
    """An event comes twice under two numbers; a held one comes behind the next."""
    emulator.fault("MESSAGE_CREATE", FaultKind.DUPLICATE, event=True)
    await emulator.say(ALICE, "twice", chat=GENERAL)
    first, second = await line.until("MESSAGE_CREATE"), await line.until("MESSAGE_CREATE")
    assert first == second
    emulator.fault("MESSAGE_CREATE", FaultKind.REORDER, event=True, where={"content": "a"})
    for text in ("a", "b", "c"):
        await emulator.say(ALICE, text, chat=GENERAL)
    heard = [(await line.until("MESSAGE_CREATE"))["content"] for _ in range(3)]
    assert heard == ["b", "a", "c"]
