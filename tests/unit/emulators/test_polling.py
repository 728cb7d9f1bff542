"""getUpdates over the wire, with the clock in the test's hand."""

from __future__ import annotations

import asyncio

import pytest

from adapters.emulators import EntryKind
from adapters.emulators.telegram import TelegramEmulator
from tests.unit.emulators.conftest import ALICE
from tests.unit.emulators.raw_client import RawBot


async def waiting(emulator: TelegramEmulator) -> None:
    """Return once a poll waits."""
    async with asyncio.timeout(30):
        while not emulator.polls():
            await asyncio.sleep(0)


async def test_long_poll_ends_with_the_first_update(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A waiting poll returns as soon as a person writes, without the clock moving."""
    poll = bot.poll()
    await waiting(emulator)
    await emulator.say(ALICE, "hello")
    (update,) = (await poll)["result"]
    assert update == {
        "update_id": 1000,
        "message": {
            "message_id": 1,
            "from": {"id": 7, "is_bot": False, "first_name": "Alice", "username": "alice", "language_code": "en"},
            "date": 1_800_000_000,
            "chat": {"id": 7, "type": "private", "first_name": "Alice", "username": "alice"},
            "text": "hello",
        },
    }


async def test_long_poll_ends_empty_after_its_timeout(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A poll of 30 s returns nothing once 30 s have passed on the emulator's clock."""
    poll = bot.poll(timeout=30)
    await waiting(emulator)
    await emulator.advance(29.9)
    assert not poll.done()
    await emulator.advance(0.1)
    assert await poll == {"ok": True, "result": []}


async def test_timeout_is_at_most_fifty_seconds(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A longer timeout is cut to 50 s."""
    poll = bot.poll(timeout=3600)
    await waiting(emulator)
    await emulator.advance(50)
    assert (await poll)["result"] == []


async def test_updates_are_redelivered_until_confirmed(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An update comes again until a higher offset is asked for, also for another client of the same bot."""
    await emulator.say(ALICE, "a")
    await emulator.advance(10)
    assert [one["update_id"] for one in await bot.updates()] == [1000]
    await emulator.advance(10)
    assert [one["update_id"] for one in await bot.updates()] == [1000]
    poll = bot.poll(offset=1001)
    await waiting(emulator)
    assert emulator.pending_updates() == []
    states = [(entry.data["state"], entry.data["update_id"]) for entry in emulator.journal.of(EntryKind.EVENT)]
    assert states == [("queued", 1000), ("handed", 1000), ("handed", 1000), ("confirmed", 1000)]
    await emulator.advance(30)
    await poll


async def test_second_poller_ends_the_first(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Of two polls that wait, the earlier one is told of the conflict and the later one goes on."""
    first = bot.poll()
    await waiting(emulator)
    second = bot.poll(offset=1)
    assert await first == {
        "ok": False,
        "error_code": 409,
        "description": "Conflict: terminated by other getUpdates request; "
        "make sure that only one bot instance is running",
    }
    await emulator.say(ALICE, "for the second")
    assert [one["message"]["text"] for one in (await second)["result"]] == ["for the second"]


async def test_further_conflicts_are_told_late(emulator: TelegramEmulator, bot: RawBot) -> None:
    """One conflict in three seconds is told at once, the next one three seconds later."""
    first = bot.poll()
    await waiting(emulator)
    second = bot.poll(offset=1)
    assert (await first)["error_code"] == 409
    await waiting(emulator)
    third = bot.poll(offset=2)
    await emulator.wait_for(lambda: len(emulator.calls("getUpdates")) == 3)
    await emulator.advance(2.9)
    assert not second.done()
    await emulator.advance(0.2)
    assert (await second)["error_code"] == 409
    await emulator.advance(60)
    assert (await third)["ok"]


async def test_another_instance_can_be_pretended(emulator: TelegramEmulator, bot: RawBot) -> None:
    """`conflict` ends the waiting poll with 409 and says whether there was one."""
    assert emulator.conflict() is False
    poll = bot.poll()
    await waiting(emulator)
    assert emulator.conflict() is True
    assert (await poll)["error_code"] == 409


async def test_same_offset_over_and_over_is_braked(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Asking for the same offset again within 3 s waits 3 s even with timeout 0, and returns one update at a time."""
    assert await bot.updates() == []
    poll = bot.poll(timeout=0)
    await waiting(emulator)
    await emulator.advance(2.9)
    assert not poll.done()
    await emulator.advance(0.1)
    assert (await poll)["result"] == []
    await emulator.say(ALICE, "a")
    await emulator.say(ALICE, "b")
    assert len(await bot.updates(5)) == 2
    assert len(await bot.updates(5)) == 1


async def test_allowed_updates_are_remembered(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The kinds given once hold for later calls, for updates made after that; an empty list means the default."""
    await bot.updates(allowed_updates=["callback_query"])
    await emulator.say(ALICE, "not wanted")
    await emulator.advance(10)
    assert await bot.updates() == []
    await emulator.advance(10)
    await bot.updates(allowed_updates=[])
    await emulator.say(ALICE, "wanted")
    await emulator.advance(10)
    assert [one["message"]["text"] for one in await bot.updates()] == ["wanted"]


async def test_reactions_must_be_asked_for(emulator: TelegramEmulator, bot: RawBot) -> None:
    """message_reaction does not come by default."""
    said = await emulator.say(ALICE, "a")
    await emulator.react(ALICE, said["message_id"], ["👍"])
    assert [list(one)[1] for one in await bot.updates()] == ["message"]
    await emulator.advance(10)
    await bot.updates(allowed_updates=["message_reaction"])
    await emulator.react(ALICE, said["message_id"], "🔥")
    await emulator.advance(10)
    reaction = (await bot.updates(1001))[0]["message_reaction"]
    assert reaction["old_reaction"] == [{"type": "emoji", "emoji": "👍"}]
    assert reaction["new_reaction"] == [{"type": "emoji", "emoji": "🔥"}]


async def test_updates_end_after_a_day(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An update that was not fetched for 24 hours is gone."""
    await emulator.say(ALICE, "a")
    await emulator.advance(86_400)
    assert await bot.updates() == []


async def test_dead_poller_loses_nothing(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A client that dies in a poll gets its updates when it comes back."""
    poll = bot.poll()
    await waiting(emulator)
    assert emulator.disconnect() == 1
    with pytest.raises(Exception, match="disconnected"):
        await poll
    await emulator.say(ALICE, "while it was dead")
    assert [one["message"]["text"] for one in await bot.updates(1)] == ["while it was dead"]


async def test_confirmed_updates_can_come_again(emulator: TelegramEmulator, bot: RawBot) -> None:
    """`redeliver` brings confirmed updates back once, under their own ids."""
    for text in "abc":
        await emulator.say(ALICE, text)
    poll = bot.poll(offset=1003)
    await waiting(emulator)
    assert emulator.redeliver(2) == 2
    assert [one["update_id"] for one in (await poll)["result"]] == [1001, 1002]
    await emulator.advance(10)
    assert await bot.updates(1003) == []


async def test_stop_ends_a_waiting_poll(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Stopping the emulator answers the waiting poll like a restart of the real server, or cuts it."""
    poll = bot.poll()
    await waiting(emulator)
    await emulator.stop()
    answers = await asyncio.gather(poll, return_exceptions=True)
    assert isinstance(answers[0], Exception) or answers[0]["error_code"] == 500
