"""The gateway: how a session begins, is resumed, is forgotten, and what closes a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.emulators import FaultKind
from adapters.emulators.discord import DiscordEmulator, Knobs
from tests.unit.emulators.discord.conftest import ALICE, BOB, BOT, GENERAL, GUILD, SECRET, TOKEN
from tests.unit.emulators.discord.raw_client import ALL_INTENTS, Line, RawBot


async def test_a_session_begins_with_what_there_is(bot: RawBot) -> None:
    """READY names guilds as unavailable, and each comes with channels, members and permissions."""
    line = await bot.line()
    await line.identify(TOKEN, shard=[0, 1])
    ready = await line.until("READY")
    assert ready["guilds"] == [{"id": str(GUILD), "unavailable": True}]
    assert (ready["user"]["id"], ready["application"]["id"], ready["shard"]) == (str(BOT), str(BOT), [0, 1])
    guild = await line.until("GUILD_CREATE")
    assert [one["name"] for one in guild["channels"]] == ["general", "sessions", "secret", "news"]
    assert {one["user"]["id"] for one in guild["members"]} == {str(ALICE), str(BOB), str(BOT)}
    assert [one["name"] for one in guild["roles"]] == ["@everyone", "pilot"]


async def test_payloads_come_in_one_compressed_stream(bot: RawBot, emulator: DiscordEmulator) -> None:
    """With zlib-stream every payload ends with a flush, and one context inflates all of them."""
    line = await bot.line(compress="zlib-stream")
    await line.identify(TOKEN)
    await line.until("GUILD_CREATE")
    await emulator.say(ALICE, "compressed", chat=GENERAL)
    assert (await line.until("MESSAGE_CREATE"))["content"] == "compressed"


async def test_heartbeats_are_acknowledged(line: Line) -> None:
    """Op 1 is answered with op 11."""
    await line.send(1, line.sequence)
    assert await line.op(11) is None


async def test_what_was_missed_is_replayed_once(bot: RawBot, line: Line, emulator: DiscordEmulator) -> None:
    """RESUME sends every event after the given number, in order, and then RESUMED."""
    await emulator.say(ALICE, "heard", chat=GENERAL)
    await line.until("MESSAGE_CREATE")
    await line.gone()
    await emulator.wait_for(lambda: emulator.connections() == 0)
    for text in ("a", "b"):
        await emulator.say(ALICE, text, chat=GENERAL)
    again = await bot.line()
    await again.resume(TOKEN, line.session, line.sequence)
    await again.until("RESUMED")
    assert [one["d"]["content"] for one in again.got if one["t"] == "MESSAGE_CREATE"] == ["a", "b"]
    assert [one["s"] for one in again.got if one["s"]] == [line.sequence + number for number in (1, 2, 3)]  # type: ignore[operator]


@pytest.mark.parametrize("seconds", [0, 179])
async def test_a_session_can_be_resumed_in_time(
    bot: RawBot, line: Line, emulator: DiscordEmulator, seconds: float
) -> None:
    """A session without a connection lives for the resume window."""
    await line.gone()
    await emulator.wait_for(lambda: emulator.connections() == 0)
    await emulator.advance(seconds)
    again = await bot.line()
    await again.resume(TOKEN, line.session, line.sequence)
    await again.until("RESUMED")


async def test_a_session_ends_after_its_window(bot: RawBot, line: Line, emulator: DiscordEmulator) -> None:
    """After the resume window the session is invalid: op 9 with false."""
    await line.gone()
    await emulator.wait_for(lambda: emulator.connections() == 0)
    await emulator.advance(180)
    again = await bot.line()
    await again.resume(TOKEN, line.session, line.sequence)
    assert await again.op(9) is False
    await again.identify(TOKEN)
    await again.until("READY")


@pytest.mark.parametrize("code", [1000, 1001])
async def test_who_closes_for_good_cannot_resume(bot: RawBot, line: Line, emulator: DiscordEmulator, code: int) -> None:
    """A client that closes with 1000 or 1001 ends its session."""
    await line.socket.close(code=code)
    await emulator.wait_for(lambda: emulator.connections() == 0)
    again = await bot.line()
    await again.resume(TOKEN, line.session, line.sequence)
    assert await again.op(9) is False


async def test_a_number_from_the_future_is_no_resume(bot: RawBot, line: Line) -> None:
    """A sequence that the session never had makes it invalid."""
    again = await bot.line()
    await again.resume(TOKEN, line.session, 999)
    assert await again.op(9) is False


async def test_op_9_forgets_or_does_not(bot: RawBot, line: Line, emulator: DiscordEmulator) -> None:
    """Resumable, the session can be resumed; otherwise what happens meanwhile is lost."""
    emulator.disconnect(how="invalid_resumable")
    assert await line.op(9) is True
    await emulator.say(ALICE, "kept", chat=GENERAL)
    await line.resume(TOKEN, line.session, line.sequence)
    assert (await line.until("MESSAGE_CREATE"))["content"] == "kept"
    emulator.disconnect(how="invalid")
    assert await line.op(9) is False
    await emulator.say(ALICE, "lost", chat=GENERAL)
    await line.resume(TOKEN, line.session, line.sequence)
    assert await line.op(9) is False


async def test_op_7_asks_to_come_back(line: Line, emulator: DiscordEmulator) -> None:
    """Reconnect is a payload; the client ends the connection itself."""
    assert emulator.disconnect(how="reconnect") == 1
    await line.op(7)


async def test_a_second_resume_takes_the_session_over(bot: RawBot, line: Line, emulator: DiscordEmulator) -> None:
    """A session has one connection: the older one is cut."""
    again = await bot.line()
    await again.resume(TOKEN, line.session, line.sequence)
    await again.until("RESUMED")
    assert "close" in await line.next()
    await emulator.say(ALICE, "x", chat=GENERAL)
    await again.until("MESSAGE_CREATE")


PROPERTIES = {"os": "x", "browser": "x", "device": "x"}
REFUSED = [
    (2, {"token": "wrong", "intents": 1, "properties": PROPERTIES}, 4004),
    (2, {"token": TOKEN, "intents": 1 << 40, "properties": PROPERTIES}, 4013),
    (2, {"token": TOKEN, "properties": PROPERTIES}, 4013),
    (2, {"token": TOKEN, "intents": 1}, 4002),
    (2, "no object", 4002),
    (6, {"token": "wrong", "session_id": "x", "seq": 1}, 4004),
    (3, {}, 4003),
    (99, None, 4003),
]


@pytest.mark.parametrize(("op", "data", "code"), REFUSED)
async def test_a_wrong_beginning_closes(bot: RawBot, emulator: DiscordEmulator, op: int, data: Any, code: int) -> None:
    """Each mistake has its close code and is a violation."""
    line = await bot.line()
    await line.send(op, data)
    assert await line.closed() == code
    assert [entry.data["code"] for entry in emulator.violations] == [code]


async def test_a_wrong_continuation_closes(bot: RawBot, line: Line) -> None:
    """A second IDENTIFY is 4005, an unknown number 4001, what is not JSON 4002."""
    await line.identify(TOKEN)
    assert await line.closed() == 4005
    second = await bot.ready()
    await second.send(99, None)
    assert await second.closed() == 4001
    third = await bot.ready()
    await third.socket.send_str("{")
    assert await third.closed() == 4002


async def test_too_much_talk_closes(bot: RawBot, emulator: DiscordEmulator) -> None:
    """120 payloads in a minute are allowed, one more is 4008; a long one is 4002."""
    line = await bot.ready()
    for _ in range(119):
        await line.send(1, None)
    for _ in range(119):
        await line.op(11)
    await line.send(1, None)
    assert await line.closed() == 4008
    other = await bot.ready()
    await other.socket.send_str(json.dumps({"op": 1, "d": "x" * 4096}))
    assert await other.closed() == 4002


async def test_forbidden_intents_close(emulator: DiscordEmulator, bot: RawBot) -> None:
    """A privileged intent that is not switched on is 4014."""
    emulator.add_bot("NDM.other", name="other", intents=0)
    line = await bot.line()
    await line.identify("NDM.other", intents=1 << 15)
    assert await line.closed() == 4014


async def test_members_are_told_when_asked_for(line: Line) -> None:
    """Op 8 returns those who are there and names those who are not."""
    await line.send(8, {"guild_id": str(GUILD), "user_ids": [str(ALICE), "999"], "nonce": "n"})
    chunk = await line.until("GUILD_MEMBERS_CHUNK")
    assert [one["user"]["id"] for one in chunk["members"]] == [str(ALICE)]
    assert (chunk["not_found"], chunk["nonce"]) == (["999"], "n")


async def test_a_bot_hears_only_where_it_sees(line: Line, emulator: DiscordEmulator) -> None:
    """What happens in a channel that the bot may not see is not told."""
    await emulator.say(ALICE, "hidden", chat=SECRET)
    await emulator.say(ALICE, "open", chat=GENERAL)
    assert (await line.until("MESSAGE_CREATE"))["content"] == "open"


async def test_a_frozen_connection_says_nothing(bot: RawBot, line: Line, emulator: DiscordEmulator) -> None:
    """Half-open: events are not lost, but only a resumed session gets them."""
    assert emulator.disconnect(how="freeze") == 1
    await line.send(1, None)
    await emulator.say(ALICE, "unheard", chat=GENERAL)
    again = await bot.line()
    await again.resume(TOKEN, line.session, line.sequence)
    assert (await again.until("MESSAGE_CREATE"))["content"] == "unheard"


@pytest.mark.parametrize("event", ["MESSAGE_CREATE", "*"])
async def test_an_event_comes_late(line: Line, emulator: DiscordEmulator, event: str) -> None:
    """A delayed event is delivered once its time has come, behind those that came after it."""
    emulator.fault(event, FaultKind.DELAY, event=True, seconds=5)
    await emulator.say(ALICE, "late", chat=GENERAL)
    await emulator.say(ALICE, "early", chat=GENERAL)
    assert (await line.until("MESSAGE_CREATE"))["content"] == "early"
    await emulator.advance(5)
    assert (await line.until("MESSAGE_CREATE"))["content"] == "late"


async def test_two_sessions_hear_the_same(bot: RawBot, line: Line, emulator: DiscordEmulator) -> None:
    """A bot with two connections gets every event on both, numbered for each."""
    second = await bot.ready(intents=ALL_INTENTS)
    await emulator.say(ALICE, "both", chat=GENERAL)
    assert (await line.until("MESSAGE_CREATE"))["content"] == "both"
    assert (await second.until("MESSAGE_CREATE"))["content"] == "both"
    assert emulator.connections() == 2


class TestHeartbeats:
    """With a patience for heartbeats."""

    @pytest.fixture
    def knobs(self) -> Knobs:
        """A minute of patience."""
        return Knobs(heartbeat_patience=60.0)

    async def test_silence_is_cut(self, line: Line, emulator: DiscordEmulator) -> None:
        """A connection without heartbeats is cut when the patience ends, not before, and each heartbeat renews it."""
        await emulator.advance(59)
        await line.send(1, None)
        await line.op(11)
        await emulator.advance(59)
        assert emulator.connections() == 1
        await emulator.advance(1)
        assert "close" in await line.next()
