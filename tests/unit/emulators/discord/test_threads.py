"""Threads and forums: how they open, sleep, wake, are listed and renamed."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators import NotPossible
from adapters.emulators.discord import DiscordEmulator
from tests.unit.emulators.discord.conftest import ALICE, BOB, BOT, FORUM, GENERAL, GUILD
from tests.unit.emulators.discord.raw_client import Line, RawBot

HOUR = 3600.0


async def opened(bot: RawBot, **more: Any) -> dict[str, Any]:
    """A thread on a message of the bot."""
    sent = await bot.send(GENERAL, "root")
    path = f"/channels/{GENERAL}/messages/{sent['id']}/threads"
    return await bot.ok("POST", path, {"name": "Talk", **more})


async def test_a_thread_has_its_messages_id(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """It opens once, the message shows it, the bot is in it, and its first entry points back."""
    thread = await opened(bot)
    assert (thread["type"], thread["parent_id"], thread["owner_id"]) == (11, str(GENERAL), str(BOT))
    assert thread["member"]["user_id"] == str(BOT)
    told = await line.until("THREAD_CREATE")
    assert (told["id"], told["newly_created"]) == (thread["id"], True)
    root = emulator.messages(GENERAL)[0]
    assert (root["id"], root["thread"]["id"], root["flags"] & 1 << 5) == (thread["id"], thread["id"], 1 << 5)
    starter = emulator.messages(thread["id"])[0]
    assert (starter["type"], starter["referenced_message"]["content"]) == (21, "root")
    again = await bot.call("POST", f"/channels/{GENERAL}/messages/{thread['id']}/threads", {"name": "Again"})
    assert (again.status, again.code) == (400, 160004)


async def test_threads_do_not_nest(bot: RawBot) -> None:
    """A message in a thread, or in a direct message, can have none."""
    thread = await opened(bot)
    inside = await bot.send(thread["id"])
    path = f"/channels/{thread['id']}/messages/{inside['id']}/threads"
    assert (await bot.call("POST", path, {"name": "x"})).code == 50024
    channel = await bot.ok("POST", "/users/@me/channels", {"recipient_id": str(ALICE)})
    direct = await bot.send(channel["id"])
    path = f"/channels/{channel['id']}/messages/{direct['id']}/threads"
    assert (await bot.call("POST", path, {"name": "x"})).code == 50024


async def test_a_thread_without_a_message_is_private_unless_said(bot: RawBot, emulator: DiscordEmulator) -> None:
    """The type has a default that surprises; a public one leaves a note in its channel."""
    emulator.add_role(GUILD, "privy", permissions=["create_private_threads"], members=[BOT])
    private = await bot.ok("POST", f"/channels/{GENERAL}/threads", {"name": "x"})
    assert (private["type"], emulator.messages(GENERAL)) == (12, [])
    public = await bot.ok("POST", f"/channels/{GENERAL}/threads", {"name": "y", "type": 11})
    note = emulator.messages(GENERAL)[0]
    assert (public["type"], note["type"], note["message_reference"]["channel_id"]) == (11, 18, public["id"])


async def test_a_private_thread_is_for_its_members(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Who is not in it does not see it; adding somebody lets him in."""
    emulator.add_guild(200, "Other", members=[ALICE, BOB], bot_permissions=["view_channel"])
    emulator.add_channel(200, "talk", channel=201)
    hidden = await emulator.create_thread(ALICE, "hidden", chat=201, private=True)
    assert (await bot.call("GET", f"/channels/{hidden['id']}")).code == 50001


async def test_silence_archives_and_a_message_wakes(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """After its hour without activity a thread sleeps; editing in it is 50083, writing wakes it."""
    thread = await opened(bot, auto_archive_duration=60)
    sent = await bot.send(thread["id"], "inside")
    await emulator.advance(HOUR - 1)
    await emulator.say(ALICE, "still here", chat=thread["id"])
    await emulator.advance(HOUR - 1)
    assert not emulator.threads(GENERAL)[0]["thread_metadata"]["archived"]
    await emulator.advance(1)
    while not (told := await line.until("THREAD_UPDATE"))["thread_metadata"]["archived"]:
        pass
    assert told["id"] == thread["id"]
    path = f"/channels/{thread['id']}/messages/{sent['id']}"
    assert (await bot.call("PATCH", path, {"content": "x"})).code == 50083
    assert (await bot.call("PUT", f"{path}/reactions/%F0%9F%91%80/@me")).code == 50083
    await bot.send(thread["id"], "awake")
    assert (await line.until("THREAD_UPDATE"))["thread_metadata"]["archived"] is False
    await emulator.advance(HOUR)
    assert emulator.threads(GENERAL)[0]["thread_metadata"]["archived"]


async def test_a_locked_thread_wakes_for_moderators_only(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Without the permission to manage threads writing into a locked one is 50083."""
    emulator.add_guild(200, "Other", members=[ALICE, BOB], bot_permissions=["view_channel"])
    emulator.add_channel(200, "talk", channel=201)
    thread = await emulator.create_thread(ALICE, "x", chat=201)
    await emulator.archive_thread(ALICE, thread["id"], locked=True)
    assert (await bot.try_send(thread["id"], content="x")).code == 50083
    with pytest.raises(NotPossible):
        await emulator.say(BOB, "x", chat=thread["id"])
    emulator.add_role(200, "mods", permissions=["manage_threads"], members=[BOT])
    await bot.send(thread["id"])


async def test_renaming_is_rare(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Two names in ten minutes; the third is told how long it must wait."""
    thread = await opened(bot)
    path = f"/channels/{thread['id']}"
    assert (await bot.ok("PATCH", path, {"name": "One"}))["name"] == "One"
    await emulator.advance(100)
    await bot.ok("PATCH", path, {"name": "Two"})
    await bot.ok("PATCH", path, {"name": "Two", "auto_archive_duration": 60})
    refused = await bot.call("PATCH", path, {"name": "Three"})
    assert (refused.status, refused.body["retry_after"], refused.headers["X-RateLimit-Scope"]) == (429, 500, "shared")
    await emulator.advance(500)
    await bot.ok("PATCH", path, {"name": "Three"})


async def test_archiving_by_hand(bot: RawBot) -> None:
    """An archived thread takes only the change that wakes it."""
    thread = await opened(bot)
    path = f"/channels/{thread['id']}"
    await bot.ok("PATCH", path, {"archived": True})
    assert (await bot.call("PATCH", path, {"name": "x"})).code == 50083
    await bot.ok("PATCH", path, {"archived": False, "name": "Awake"})


async def test_lists_of_threads(bot: RawBot) -> None:
    """Active ones by guild, archived ones by channel, the last archived first, in pages."""
    ids = [(await opened(bot))["id"] for _ in range(4)]
    for thread in ids[:3]:
        await bot.ok("PATCH", f"/channels/{thread}", {"archived": True})
    active = await bot.ok("GET", f"/guilds/{GUILD}/threads/active")
    assert [one["id"] for one in active["threads"]] == [ids[3]]
    assert [one["user_id"] for one in active["members"]] == [str(BOT)]
    archived = await bot.ok("GET", f"/channels/{GENERAL}/threads/archived/public", limit=2)
    assert archived["has_more"]
    assert len(archived["threads"]) == 2
    before = archived["threads"][-1]["thread_metadata"]["archive_timestamp"]
    rest = await bot.ok("GET", f"/channels/{GENERAL}/threads/archived/public", before=before)
    assert rest["threads"] == []  # the clock stood still: all were archived at the same instant


async def test_members_of_a_thread(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Who writes is in it; others are added and removed, and that is told."""
    thread = await opened(bot)
    path = f"/channels/{thread['id']}/thread-members"
    await emulator.say(ALICE, "x", chat=thread["id"])
    await bot.ok("PUT", f"{path}/{BOB}")
    assert [one["user_id"] for one in await bot.ok("GET", path)] == [str(BOT), str(ALICE), str(BOB)]
    assert (await line.until("THREAD_MEMBERS_UPDATE"))["added_members"][0]["user_id"] == str(ALICE)
    await bot.ok("DELETE", f"{path}/@me")
    assert (await bot.call("GET", f"{path}/{BOT}")).code == 10007
    await bot.ok("PUT", f"{path}/@me")


async def test_a_forum_has_posts(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A post needs a message and known tags; its first message has its id; a bare message is refused."""
    tags = (await bot.ok("GET", f"/channels/{FORUM}"))["available_tags"]
    path = f"/channels/{FORUM}/threads"
    assert (await bot.call("POST", path, {"name": "x"})).errors == {"message": "BASE_TYPE_REQUIRED"}
    assert (await bot.call("POST", path, {"name": "x", "message": {"content": ""}})).code == 50006
    wrong = {"name": "x", "message": {"content": "x"}, "applied_tags": ["1"]}
    assert (await bot.call("POST", path, wrong)).code == 10087
    assert emulator.threads(FORUM) == []
    made = await bot.ok("POST", path, {**wrong, "applied_tags": [tags[0]["id"]]})
    assert (made["id"], made["applied_tags"]) == (made["message"]["id"], [tags[0]["id"]])
    assert (await bot.try_send(FORUM, content="x")).code == 50008
    opened_by_person = await emulator.create_thread(ALICE, "Ours", chat=FORUM, text="hello", tags=[tags[1]["id"]])
    assert emulator.messages(opened_by_person["id"])[0]["id"] == opened_by_person["id"]


async def test_a_deleted_thread_is_gone(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Deletion is told, and whatever is done there afterwards is 10003."""
    thread = await opened(bot)
    await emulator.delete_thread(ALICE, thread["id"])
    assert (await line.until("THREAD_DELETE"))["id"] == thread["id"]
    assert (await bot.try_send(thread["id"], content="x")).code == 10003
    other = await opened(bot)
    await bot.ok("DELETE", f"/channels/{other['id']}")
    assert emulator.threads(GENERAL) == []


async def test_people_rename_threads(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """A new name given by a person is told; who may not manage threads cannot."""
    thread = await opened(bot)
    with pytest.raises(NotPossible):
        await emulator.rename_thread(BOB, thread["id"], "Bob's")
    await emulator.rename_thread(ALICE, thread["id"], "Alice's")
    assert (await line.until("THREAD_UPDATE"))["name"] == "Alice's"
