"""What people can do, what Slack would not let them do, and files in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.slack import SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, BOB, OUTSIDE, SECRET, TEAM, RawApp, buttons


async def test_impossible_deeds(emulator: SlackEmulator, app: RawApp) -> None:
    """People act where they are members, on what they see and own."""
    said = (await emulator.say(ALICE, "mine", chat=TEAM))["ts"]
    hidden = await app.result("chat.postEphemeral", channel=TEAM, user=ALICE, text="x", blocks=[buttons("b")])
    impossible: list[Any] = [
        emulator.say(BOB, "x", chat=SECRET),
        emulator.say(BOB, "x", chat=TEAM, broadcast=True),
        emulator.edit(BOB, said, "x", chat=TEAM),
        emulator.delete(BOB, said, chat=TEAM),
        emulator.press(BOB, hidden["message_ts"], button="b", chat=TEAM),
        emulator.join(BOB, TEAM),
        emulator.leave(BOB, SECRET),
        emulator.rename(ALICE, emulator.direct_chat(ALICE), "x"),
        emulator.upload(ALICE, content_base64="%"),
    ]
    for deed in impossible:
        with pytest.raises(NotPossible):
            await deed
    unknown: list[Any] = [
        emulator.say("U0NONE", "x"),
        emulator.say(ALICE, "x", chat="C0NONE"),
        emulator.say(ALICE, "x", thread="1.000001"),
        emulator.react(ALICE, "1.000001", "eyes", chat=TEAM),
        emulator.press(ALICE, said, button="b", chat=TEAM),
        emulator.answer("Q0"),
    ]
    for deed in unknown:
        with pytest.raises(NotKnown):
            await deed
    await emulator.deactivate(BOB)
    with pytest.raises(NotPossible, match="closed"):
        await emulator.say(BOB, "x", chat=TEAM)


async def test_forged_press(emulator: SlackEmulator, app: RawApp) -> None:
    """A modified client presses what it does not see, with a value of its own."""
    socket = await app.connect()
    ts = await app.post(SECRET, text="x", blocks=[buttons("yes")])
    await socket.take()
    await emulator.press(BOB, ts, data="anything", chat=SECRET, forged=True)
    payload = (await socket.take())["payload"]
    assert (payload["user"]["id"], payload["actions"][0]["value"]) == (BOB, "anything")


async def test_guest_of_a_shared_channel(emulator: SlackEmulator, app: RawApp) -> None:
    """Events and presses of somebody of another organisation carry their own team."""
    emulator.add_user("U0GUEST", "Guest", team="T0OTHER")
    emulator.add_chat("C0SHARED", "shared", members=["U0GUEST"], shared=True)
    socket = await app.connect()
    await emulator.say("U0GUEST", "hi", chat="C0SHARED")
    payload = (await socket.take())["payload"]
    assert payload["is_ext_shared_channel"]
    event = payload["event"]
    assert (event["team"], event["user_team"], payload["team_id"]) == ("T0OTHER", "T0OTHER", emulator.app.team)
    ts = await app.post("C0SHARED", text="x", blocks=[buttons("yes")])
    await socket.take()
    await emulator.press("U0GUEST", ts, button="yes", chat="C0SHARED")
    assert (await socket.take())["payload"]["user"]["team_id"] == "T0OTHER"


async def test_thread_broadcast_and_other_bots(emulator: SlackEmulator, app: RawApp) -> None:
    """A reply that is sent to the channel too, and another app's message, have their subtypes."""
    socket = await app.connect()
    root = (await emulator.say(ALICE, "x", chat=TEAM))["ts"]
    await socket.take()
    await emulator.say(ALICE, "all", chat=TEAM, thread=root, broadcast=True)
    event = await socket.event()
    assert (event["subtype"], event["thread_ts"]) == ("thread_broadcast", root)
    await emulator.bot_says("beep", chat=TEAM)
    event = await socket.event()
    assert (event["subtype"], event["bot_id"], "user" in event) == ("bot_message", "B0OTHER", False)


async def test_edits_and_deletions(emulator: SlackEmulator, app: RawApp) -> None:
    """A change carries both texts; a deletion the old one; the root of a thread becomes a tombstone."""
    socket = await app.connect()
    said = (await emulator.say(ALICE, "one", chat=TEAM))["ts"]
    await socket.take()
    await emulator.edit(ALICE, said, "two", chat=TEAM)
    changed = await socket.event()
    assert (changed["subtype"], changed["hidden"], changed["channel"]) == ("message_changed", True, TEAM)
    assert (changed["message"]["text"], changed["previous_message"]["text"]) == ("two", "one")
    assert (changed["message"]["ts"], changed["ts"] == said) == (said, False)
    await emulator.delete(ALICE, said, chat=TEAM)
    deleted = await socket.event()
    assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", said)
    root = (await emulator.say(ALICE, "root", chat=TEAM))["ts"]
    await socket.take()
    await emulator.say(BOB, "reply", chat=TEAM, thread=root)
    await socket.take()
    await emulator.delete(ALICE, root, chat=TEAM)
    buried = await socket.event()
    assert (buried["subtype"], buried["message"]["subtype"]) == ("message_changed", "tombstone")


async def test_coming_and_going(emulator: SlackEmulator, app: RawApp) -> None:
    """Members, names and archives are told to the app; its own removal ends what it hears."""
    socket = await app.connect()
    await emulator.join(BOB, OUTSIDE)
    await emulator.join(emulator.app.bot_user, OUTSIDE, by=ALICE)
    joined = await socket.event()
    assert (joined["type"], joined["user"], joined["inviter"]) == (
        "member_joined_channel",
        emulator.app.bot_user,
        ALICE,
    )
    # Not a mention, though the text names the bot.
    assert (await socket.event())["subtype"] == "channel_join"
    await emulator.rename(ALICE, OUTSIDE, "inside")
    assert (await socket.event())["channel"]["name"] == "inside"
    note = await socket.event()
    assert (note["subtype"], note["old_name"], note["name"]) == ("channel_name", "outside", "inside")
    await emulator.leave(BOB, OUTSIDE)
    assert [(await socket.event())["type"], (await socket.event())["subtype"]] == [
        "member_left_channel",
        "channel_leave",
    ]
    await emulator.archive(ALICE, OUTSIDE)
    assert [(await socket.event())["type"], (await socket.event())["subtype"]] == ["channel_archive", "channel_archive"]
    with pytest.raises(NotPossible, match="archived"):
        await emulator.say(ALICE, "x", chat=OUTSIDE)
    await emulator.archive(ALICE, OUTSIDE, undo=True)
    assert (await socket.event())["type"] == "channel_unarchive"
    assert (await socket.event())["subtype"] == "channel_unarchive"
    await emulator.leave(emulator.app.bot_user, OUTSIDE, by=ALICE)
    assert (await socket.event())["type"] == "channel_left"
    await emulator.say(ALICE, "alone", chat=OUTSIDE)
    assert [one.name for one in emulator.journal if one.data.get("why") == "not in channel"][-1] == "message.channels"


async def test_files(emulator: SlackEmulator, app: RawApp) -> None:
    """A file exists once it was asked for, uploaded in full and completed; its page needs the token."""
    asked = await app.result("files.getUploadURLExternal", filename="a.txt", length=5)
    files = [{"id": asked["file_id"], "title": "A"}]
    assert await app.error("files.completeUploadExternal", files=files) == "file_not_found"
    await app.session.post(asked["upload_url"], data=b"abc")
    assert await app.error("files.completeUploadExternal", files=files) == "file_update_failed"
    await app.session.post(asked["upload_url"], data=b"abcde")
    await app.result("files.completeUploadExternal", files=files, channel_id=TEAM, initial_comment="look")
    shown = emulator.messages(TEAM)[0]
    assert (shown["text"], shown["files"][0]["title"], shown["files"][0]["size"]) == ("look", "A", 5)
    async with app.session.post(asked["upload_url"], data=b"again") as response:
        assert response.status == 404
    info = (await app.result("files.info", file=asked["file_id"]))["file"]
    assert info["channels"] == [TEAM]
    async with app.session.get(info["url_private"]) as stranger:
        assert (stranger.status, stranger.content_type) == (200, "text/html")
    await app.result("files.delete", file=asked["file_id"])
    assert await app.error("files.info", file=asked["file_id"]) == "file_deleted"
    assert await app.error("files.getUploadURLExternal", filename="a.txt", length=0) == "invalid_arguments"


async def test_files_of_people(emulator: SlackEmulator, app: RawApp) -> None:
    """A person's file arrives as `file_share` and is read with the bot's token."""
    socket = await app.connect()
    kinds = {"mime_type": "application/octet-stream", "text": "see"}
    second = {"file_name": "y.txt", "mime_type": "text/plain", "content_base64": "YWJj"}
    await emulator.upload(ALICE, b"\x00\x01", file_name="x.bin", more=[second], **kinds)
    event = await socket.event()
    assert [(one["name"], one["size"]) for one in event["files"]] == [("x.bin", 2), ("y.txt", 3)]
    file = event["files"][0]
    assert (event["subtype"], event["text"], file["size"]) == ("file_share", "see", 2)
    headers = {"Authorization": f"Bearer {app.token}"}
    async with app.session.get(file["url_private_download"], headers=headers) as response:
        assert await response.read() == b"\x00\x01"
    assert await app.error("files.delete", file=file["id"]) == "cant_delete_file"


async def test_inject(emulator: SlackEmulator, app: RawApp) -> None:
    """Any event can be sent as it is."""
    socket = await app.connect()
    await emulator.inject({"type": "app_context_changed", "entities": [None]})
    assert await socket.event() == {"type": "app_context_changed", "entities": [None]}
