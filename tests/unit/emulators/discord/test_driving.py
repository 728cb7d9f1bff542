"""The control side: people and what they may do, the verbs over HTTP, the record, and starting anew."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.emulators import ControlRefused, EmulatorClient, NotKnown, NotPossible, ViolationsFound
from adapters.emulators.discord import DiscordEmulator
from tests.unit.emulators.discord.conftest import ALICE, BOB, BOT, FORUM, GENERAL, GUILD, NEWS
from tests.unit.emulators.discord.raw_client import Line, RawBot

ROOT = Path(__file__).parents[4]
ROW = {"type": 1, "components": [{"type": 2, "style": 1, "label": "Go", "custom_id": "go"}]}


@pytest.fixture
async def client(emulator: DiscordEmulator) -> AsyncIterator[EmulatorClient]:
    """A client as another process would use it."""
    async with EmulatorClient(emulator.url) as opened:
        yield opened


async def test_a_conversation_over_http(emulator: DiscordEmulator, bot: RawBot, client: EmulatorClient) -> None:
    """Say, press, answer, submit, command, edit, react, upload, threads and messages from another process."""
    said = await client.say(ALICE, "hello", chat=GENERAL)
    sent = await bot.send(GENERAL, components=[ROW])
    await client.call("say", user=str(ALICE), text="by text", chat=str(GENERAL))
    line = await bot.ready()
    pressed = await client.press(ALICE, sent["id"], button="Go")
    got = await line.until("INTERACTION_CREATE")
    form = {"title": "T", "custom_id": "f", "components": [{"type": 18, "label": "L", "component": FIELD}]}
    await bot.ok("POST", f"/interactions/{got['id']}/{got['token']}/callback", {"type": 9, "data": form})
    assert (await client.call("answer", interaction=pressed["id"]))["data"]["custom_id"] == "f"
    await client.call("submit", user=ALICE, interaction=pressed["id"], values={"a": "b"})
    assert (await line.until("INTERACTION_CREATE"))["type"] == 5
    await client.edit(ALICE, said["id"], "hello again")
    await client.react(ALICE, sent["id"], "👍")
    uploaded = await client.upload(ALICE, b"\x00\xff", file_name="b.bin", chat=GENERAL)
    assert uploaded["attachments"][0]["size"] == 2
    assert await client.call("download", message=uploaded["id"]) == "AP8="
    thread = await client.call("create_thread", user=ALICE, name="T", message=said["id"])
    await client.say(ALICE, "inside", thread=thread["id"])
    assert [one["content"] for one in await client.messages(GENERAL, thread["id"])] == ["inside"]
    shown = [one["content"] for one in await client.messages(GENERAL)]
    assert shown == ["hello again", "x", "by text", ""]
    await bot.ok("PUT", f"/applications/{BOT}/commands", [{"name": "stop", "description": "Stops"}])
    await client.command(ALICE, "stop", chat=GENERAL)
    assert (await line.until("INTERACTION_CREATE"))["data"]["name"] == "stop"


FIELD = {"type": 4, "style": 1, "custom_id": "a"}


async def test_the_world_is_built_and_broken_over_http(
    emulator: DiscordEmulator, bot: RawBot, client: EmulatorClient
) -> None:
    """People, guilds, channels, faults, time, disconnection, snapshot and reset can be reached from outside."""
    await client.call("add_user", user=9, name="Carol")
    await client.call("add_guild", guild=300, name="New", members=[9])
    await client.call("add_channel", guild=300, name="talk", channel=301, type="text")
    await client.say(9, "hi", chat=301)
    await client.fault("create_message", "server_error", status=500)
    assert (await bot.try_send(GENERAL, content="x")).status == 500
    line = await bot.ready()
    assert await client.call("connections") == 1
    assert await client.disconnect(how="close", code=4000) == 1
    assert await line.closed() == 4000
    before = (await client.snapshot())["now"]
    await client.advance(100)
    snapshot = await client.snapshot()
    assert snapshot["now"] == before + 100
    assert "raw.token" not in json.dumps(snapshot)
    await client.reset()
    assert await client.messages(301) == []
    with pytest.raises(ControlRefused, match="no channel 999"):
        await client.say(ALICE, "x", chat=999)


async def test_the_record_names_operations_and_hides_keys(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Calls stand under Discord's own names with their parameters; neither token is in the record."""
    sent = await bot.send(GENERAL, components=[ROW])
    await emulator.press(ALICE, sent["id"], button="Go")
    got = await line.until("INTERACTION_CREATE")
    await bot.ok("POST", f"/interactions/{got['id']}/{got['token']}/callback", {"type": 6})
    call = emulator.calls("create_message")[0]
    assert (call.account, call.params["channel_id"], call.params["content"]) == (str(BOT), str(GENERAL), "x")
    assert [one.method for one in emulator.sends] == ["create_message", "create_interaction_response"]
    assert [entry.name for entry in emulator.journal if entry.name == "identify"] == ["identify"]
    record = json.dumps([entry.to_json() for entry in emulator.journal])
    assert got["token"] not in record
    assert bot.token not in record


async def test_violations_fail(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A broken rule is told by name and place."""
    emulator.assert_clean()
    await bot.try_send(GENERAL, content="x", colour="red")
    with pytest.raises(ViolationsFound, match="colour"):
        emulator.assert_clean()


async def test_people_are_bound_by_permissions(emulator: DiscordEmulator) -> None:
    """A person can only do what the real client lets him do."""
    with pytest.raises(NotPossible, match="SEND_MESSAGES"):
        await emulator.say(BOB, "x", chat=NEWS)
    with pytest.raises(NotPossible, match="forum"):
        await emulator.say(BOB, "x", chat=FORUM)
    with pytest.raises(NotPossible, match="characters"):
        await emulator.say(BOB, "x" * 2001, chat=GENERAL)
    said = await emulator.say(ALICE, "mine", chat=GENERAL)
    with pytest.raises(NotPossible, match="by user 7"):
        await emulator.edit(BOB, said["id"], "stolen")
    with pytest.raises(NotPossible, match="MANAGE_MESSAGES"):
        await emulator.delete(BOB, said["id"])
    await emulator.delete(ALICE, said["id"])
    with pytest.raises(NotKnown, match="no user 999"):
        await emulator.say(999, "x", chat=GENERAL)


async def test_coming_and_going(emulator: DiscordEmulator, bot: RawBot, line: Line) -> None:
    """Who leaves is told to the bot and cannot write; a bot that is removed has no access any more."""
    await emulator.leave(BOB, GUILD)
    assert (await line.until("GUILD_MEMBER_REMOVE"))["user"]["id"] == str(BOB)
    with pytest.raises(NotPossible):
        await emulator.say(BOB, "x", chat=GENERAL)
    await emulator.join(BOB, GUILD)
    assert (await line.until("GUILD_MEMBER_ADD"))["user"]["id"] == str(BOB)
    await emulator.leave(BOT, GUILD)
    assert (await line.until("GUILD_DELETE")) == {"id": str(GUILD)}
    assert (await bot.try_send(GENERAL, content="x")).code == 50001


async def test_who_blocks_a_bot_gets_nothing_from_it(emulator: DiscordEmulator, bot: RawBot) -> None:
    """A direct message to somebody who has blocked the bot is 50007, until he takes that back."""
    channel = emulator.direct(ALICE)["id"]
    await emulator.block(ALICE)
    refused = await bot.try_send(channel, content="x")
    assert (refused.status, refused.code) == (403, 50007)
    await emulator.unblock(ALICE)
    await bot.send(channel)


async def test_permissions_change(emulator: DiscordEmulator, bot: RawBot, line: Line) -> None:
    """What an administrator says for a channel holds at once and is told to the bots of the guild."""
    await emulator.permit(GENERAL, BOT, deny=["send_messages"])
    assert (await bot.try_send(GENERAL, content="x")).code == 50013
    await emulator.permit(GENERAL, BOT, deny=["view_channel"])
    assert (await bot.try_send(GENERAL, content="x")).code == 50001
    told = await line.until("CHANNEL_UPDATE")
    assert told["permission_overwrites"] == [{"id": str(BOT), "type": 1, "allow": "0", "deny": str(1 << 11)}]
    await emulator.permit(GENERAL, BOT, allow=["view_channel", "send_messages"])
    await bot.send(GENERAL)
    with pytest.raises(NotKnown, match="no permission 'fly'"):
        await emulator.permit(GENERAL, BOT, allow=["fly"])


async def test_a_bot_is_known_by_its_token(emulator: DiscordEmulator) -> None:
    """The id stands in the token's first part; a token without one needs an id."""
    assert emulator.add_bot("MTIzNDU2.x.y", name="other")["id"] == "123456"
    assert emulator.add_bot("plain", bot=5)["id"] == "5"
    with pytest.raises(NotPossible, match="base64"):
        emulator.add_bot("nonsense")
    with pytest.raises(NotKnown, match="which bot"):
        await emulator.say(ALICE, "x")


async def test_reset_keeps_who_is_there(emulator: DiscordEmulator, bot: RawBot, line: Line) -> None:
    """Traffic is gone, people, channels, commands and connections stay."""
    await bot.ok("PUT", f"/applications/{BOT}/commands", [{"name": "stop", "description": "Stops"}])
    said = await emulator.say(ALICE, "x", chat=GENERAL)
    await emulator.create_thread(ALICE, "T", message=said["id"])
    emulator.reset()
    assert (emulator.messages(GENERAL), emulator.threads(GENERAL), len(emulator.journal)) == ([], [], 0)
    assert [one["name"] for one in emulator.commands()] == ["stop"]
    await emulator.say(ALICE, "anew", chat=GENERAL)
    while (await line.until("MESSAGE_CREATE"))["content"] != "anew":
        pass


async def test_direct_messages_need_a_person(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A direct channel opens once per person; bots and strangers have none."""
    first = await bot.ok("POST", "/users/@me/channels", {"recipient_id": ALICE})
    again = await bot.ok("POST", "/users/@me/channels", {"recipient_id": str(ALICE)})
    assert (first["id"], first["type"]) == (again["id"], 1)
    assert (await bot.call("POST", "/users/@me/channels", {"recipient_id": str(BOT)})).code == 50007
    assert (await bot.call("POST", "/users/@me/channels", {"recipient_id": "999"})).code == 10013


async def test_what_a_bot_can_look_up(bot: RawBot) -> None:
    """Itself, its application with its switches, users, guilds, members, roles and channels."""
    assert (await bot.ok("GET", "/applications/@me"))["flags"] == 1 << 13 | 1 << 15 | 1 << 19
    assert (await bot.ok("GET", f"/users/{ALICE}"))["global_name"] == "Alice"
    assert (await bot.call("GET", "/users/999")).code == 10013
    assert [one["name"] for one in await bot.ok("GET", "/users/@me/guilds")] == ["Crew"]
    assert (await bot.ok("GET", f"/guilds/{GUILD}", with_counts="true"))["approximate_member_count"] == 3
    assert (await bot.call("GET", "/guilds/999")).code == 10004
    assert len(await bot.ok("GET", f"/guilds/{GUILD}/channels")) == 4
    assert (await bot.ok("GET", f"/guilds/{GUILD}/members/{BOB}"))["user"]["id"] == str(BOB)
    assert (await bot.call("GET", f"/guilds/{GUILD}/members/999")).code == 10013
    assert len(await bot.ok("GET", f"/guilds/{GUILD}/members", limit=10)) == 3
    assert len(await bot.ok("GET", f"/guilds/{GUILD}/roles")) == 2
    assert (await bot.ok("GET", "/gateway/bot"))["session_start_limit"]["remaining"] == 1000


async def test_it_runs_as_a_process_of_its_own() -> None:
    """The command line makes bots, people and guilds, says where it is, and ends with its input."""
    import asyncio

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters.emulators", "--platform", "discord", "--token", "NDI.x.y"),
        *("--user", "7:Ann", "--group", "100:Crew", "--until-stdin-closes"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        ready: dict[str, Any] = json.loads(await process.stdout.readline())
        async with EmulatorClient(ready["url"]) as outside:
            said = await outside.say(7, "hello", chat=101)
            assert said["author"]["global_name"] == "Ann"
        process.stdin.close()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
