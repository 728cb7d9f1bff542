"""What stands between discord.py and us: refusals, lanes, settings, and the connector that leads it elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.contract import Inbound
from adapters.discord.channels import Channel
from adapters.discord.inbound import EVENTS
from adapters.discord.lanes import MOST_WAITING, Lanes
from adapters.discord.listening import Listening
from adapters.discord.redirection import HOSTS, connector
from adapters.discord.refusals import code_of, is_about_components, is_too_late, refusal
from adapters.discord.settings import Settings
from adapters.discord.words import Me
from adapters.errors import AdapterError, BadCredentials, OutcomeUnknown, RateLimited, Refused, TargetGone
from tests.contract.adapter_worlds import ENVIRONMENT
from tests.unit.adapters.test_discord_inbound import NAMES, VALUES

# Codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json
MEANING: dict[tuple[int, int], type[AdapterError]] = {
    (400, 50035): Refused,
    (400, 50006): Refused,
    (400, 50083): TargetGone,
    (400, 160004): Refused,
    (400, 40060): Refused,
    (401, 0): BadCredentials,
    (401, 50027): Refused,
    (403, 50001): TargetGone,
    (403, 50007): TargetGone,
    (403, 50013): TargetGone,
    (403, 90001): Refused,
    (404, 10003): TargetGone,
    (404, 10008): TargetGone,
    (404, 10014): Refused,
    (404, 10062): Refused,
    (413, 40005): Refused,
    (429, 0): RateLimited,
    (400, 20016): RateLimited,
    (400, 30046): RateLimited,
    (500, 0): OutcomeUnknown,
    (502, 0): OutcomeUnknown,
}


@pytest.mark.parametrize(("status", "code"), MEANING)
def test_each_refusal_has_its_meaning(status: int, code: int) -> None:
    """Status and code give that error, and its text says what Discord said, but for the token."""
    error = refusal(status, code, "some words")
    assert isinstance(error, MEANING[status, code])
    assert isinstance(error, TargetGone) == (MEANING[status, code] is TargetGone)
    assert status == 401 or "some words" in str(error)
    assert code_of(error) in (code, 0)


def test_too_late_and_of_components_are_told_apart() -> None:
    """Only these are swallowed, or tried in another way."""
    assert [is_too_late(refusal(400, code, "x")) for code in (10062, 40060, 50035)] == [True, True, False]
    legacy = "In content: MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"
    assert is_about_components(refusal(400, 50035, legacy))
    assert not is_about_components(refusal(400, 50035, "In content: BASE_TYPE_MAX_LENGTH"))


def test_patience_is_asked_for_in_seconds() -> None:
    """Without a time it is a minute: who sends none is no server of the API, but what shields it."""
    assert [error.retry_after for error in (refusal(429, 0, "", 1.5), refusal(429, 0, ""))] == [1.5, 60.0]  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------- settings


GOOD = {"token": "MTIz.abc.d-e_f"}

BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "discord.token"),
    ({"token": "Bot MTIz.abc.def"}, "discord.token"),
    ({"token": "MTIz.abc"}, "discord.token"),
    ({"token": "MTIz.abc.def", "token_file": "x"}, "both set"),
    ({"token_file": "/does/not/exist"}, "discord.token_file"),
    ({**GOOD, "api_base": "discord.com"}, "discord.api_base"),
    ({**GOOD, "api_base": "https://x.example/?a=1"}, "discord.api_base"),
    ({**GOOD, "request_seconds": 0}, "discord.request_seconds"),
    ({**GOOD, "request_seconds": True}, "discord.request_seconds"),
    ({**GOOD, "intents": 1}, "discord.intents: no such key"),
]


@pytest.mark.parametrize(("given_settings", "told"), BAD)
def test_bad_settings_are_named(given_settings: dict[str, Any], told: str) -> None:
    """The error names the key, and never shows the token."""
    with pytest.raises(ValueError, match=told) as caught:
        Settings.read(given_settings)
    assert "MTIz.abc" not in str(caught.value)


def test_discord_s_own_address_is_left_to_the_client() -> None:
    """Another address is where everything goes, whatever its path."""
    assert Settings.read(GOOD).api_base is None
    assert Settings.read({**GOOD, "api_base": "https://discord.com/api"}).api_base is None
    assert Settings.read({**GOOD, "api_base": "http://127.0.0.1:81/api"}).api_base == "http://127.0.0.1:81"
    assert "MTIz" not in repr(Settings.read(GOOD))


# -------------------------------------------------------------------------------------------------------- redirection


async def test_aiohttp_still_lets_a_connector_choose_where_a_host_is_reached() -> None:
    """Everything about an emulated Discord stands on this: if it fails, aiohttp has changed, and `redirection` must."""

    async def told(request: web.Request) -> web.StreamResponse:
        if request.path == "/socket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str(f"{request.host} {request.path_qs}")
            await socket.close()
            return socket
        return web.Response(text=f"{request.host} {request.path_qs}")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", told)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(connector=connector(f"http://127.0.0.1:{port}")) as session:
            for host in HOSTS:
                async with session.get(f"https://{host}/api/v10/x?a=1") as response:
                    assert await response.text() == f"{host} /api/v10/x?a=1"
            async with session.ws_connect("wss://gateway.discord.gg/socket?v=10") as socket:
                assert (await socket.receive()).data == "gateway.discord.gg /socket?v=10"
            with pytest.raises(aiohttp.ClientConnectionError, match="is not reached from here"):
                await session.get("https://elsewhere.example/")
    finally:
        await runner.cleanup()


# -------------------------------------------------------------------------------------------------------------- lanes


class _Work:
    """Jobs that say when they ran, and fail as often as told."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.news = asyncio.Event()

    def job(self, name: str, failures: int = 0) -> Callable[[], Awaitable[None]]:
        left = [failures]

        async def run() -> None:
            if left[0]:
                left[0] -= 1
                raise RuntimeError("not stored, on purpose")
            self.done.append(name)
            self.news.set()

        return run

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.done) < count:
                self.news.clear()
                await self.news.wait()


async def test_what_fails_holds_up_its_channel_and_no_other() -> None:
    """Order is kept where it matters, and a channel that cannot be stored does not stop the others."""
    work = _Work()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await work.until(2)

    lanes = Lanes(replace(ENVIRONMENT, sleep=sleep), lambda channel: work.job(f"filled {channel}"))
    lanes.put("1", work.job("a", failures=1))
    lanes.put("1", work.job("b"))
    for name in ("c", "d"):
        lanes.put("2", work.job(name))
    await work.until(4)
    assert work.done == ["c", "d", "a", "b"]
    assert pauses == [1.0]
    await lanes.stop()


async def test_channel_that_is_full_is_read_from_its_history() -> None:
    """Memory is bounded: beyond it one job reads what was not kept, after all that was."""
    work = _Work()
    lanes = Lanes(ENVIRONMENT, lambda channel: work.job(f"filled {channel}"))
    for number in range(MOST_WAITING + 500):
        lanes.put("1", work.job(str(number)))
    await work.until(MOST_WAITING + 1)
    await lanes.stop()
    assert work.done[-1] == "filled 1"
    assert len(work.done) == MOST_WAITING + 1


async def test_seen_is_the_newest_that_was_stored() -> None:
    """Ids are compared as numbers, and never go back."""
    lanes = Lanes(ENVIRONMENT, lambda channel: _Work().job(channel))
    for number in ("99", "100", "98"):
        lanes.saw("1", number)
    assert lanes.seen("1") == "100"
    assert lanes.seen("2") is None


async def test_nothing_runs_after_stop() -> None:
    """A job that waits to be tried again is ended."""
    work = _Work()

    async def never(seconds: float) -> None:
        await asyncio.Event().wait()

    lanes = Lanes(replace(ENVIRONMENT, sleep=never), lambda channel: work.job(channel))
    lanes.put("1", work.job("a", failures=9))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "not stored, on purpose" in lanes.trouble["1"]
    await lanes.stop()
    assert (work.done, lanes.trouble) == ([], {})


# -------------------------------------------------------------------------------------------------------------- frames


class _Gateway:
    """As much of a connection as listening needs, with no Discord behind it."""

    sees_content = True

    def __init__(self) -> None:
        self.frame: Callable[[dict[str, Any]], None] = lambda frame: None

    async def open(self, frame: Callable[[dict[str, Any]], None], lost: Callable[[], None]) -> Me:
        self.frame = frame
        return Me(id="900")

    def channel(self, number: str) -> Channel:
        return Channel(id=number, kind="text")


FRAMES = st.fixed_dictionaries(
    {},
    optional={
        "t": st.sampled_from([*EVENTS, "READY", "RESUMED", "MESSAGE_DELETE_BULK", "GUILD_ROLE_CREATE", "X"]) | VALUES,
        "d": st.dictionaries(
            NAMES | st.sampled_from(["ids", "roles", "role", "tags", "guilds", "unavailable"]), VALUES
        ),
        "s": st.integers() | VALUES,
    },
)


@settings(max_examples=30)  # each of them has an event loop of its own
@given(st.lists(FRAMES, max_size=4))
def test_no_frame_stops_us_from_listening(frames: list[dict[str, Any]]) -> None:
    """Whatever the gateway sends, the next message is taken in."""
    heard: list[str] = []
    said = {"id": "7", "channel_id": "10", "guild_id": "1", "content": "still here", "author": {"id": "42"}}

    async def intake(inbound: Inbound) -> None:
        heard.append(inbound.text)

    async def listen() -> None:
        gateway = _Gateway()
        listening = Listening(gateway, intake, ENVIRONMENT)  # type: ignore[arg-type]
        await listening.open()
        for frame in [*frames, {"t": "MESSAGE_CREATE", "d": said, "s": 1}]:
            gateway.frame(frame)
        async with asyncio.timeout(20):
            while "still here" not in heard:
                await asyncio.sleep(0)
        await listening.stop()

    asyncio.run(listen())
