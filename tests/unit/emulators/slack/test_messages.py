"""Posting, changing and removing messages, and reading them back."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators import EntryKind
from adapters.emulators.slack import SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, BOB, OUTSIDE, SECRET, TEAM, RawApp, buttons, section

METADATA = {"event_type": "key", "event_payload": {"id": "7"}}


async def test_post_in_a_thread(emulator: SlackEmulator, app: RawApp) -> None:
    """A reply counts at its root, is not in the history, and is in the thread."""
    root = (await emulator.say(ALICE, "question", chat=TEAM))["ts"]
    reply = await app.post(text="answer", thread_ts=root, metadata=METADATA)
    assert [one["ts"] for one in (await app.result("conversations.history", channel=TEAM))["messages"]] == [root]
    thread = (await app.result("conversations.replies", channel=TEAM, ts=root))["messages"]
    assert [one["ts"] for one in thread] == [root, reply]
    assert (thread[0]["reply_count"], thread[0]["reply_users"]) == (1, [emulator.app.bot_user])
    assert (thread[1]["parent_user_id"], thread[1]["bot_id"]) == (ALICE, emulator.app.bot_id)
    assert "metadata" not in thread[1]
    found = await app.result("conversations.replies", channel=TEAM, ts=reply, include_all_metadata=True)
    assert found["messages"][1]["metadata"] == METADATA
    emulator.assert_clean()


@pytest.mark.parametrize(
    ("channel", "error"),
    [("C0NONE", "channel_not_found"), (OUTSIDE, "not_in_channel"), ("U0NONE", "channel_not_found")],
)
async def test_places_that_take_nothing(emulator: SlackEmulator, app: RawApp, channel: str, error: str) -> None:
    """Unknown channels, and those without the app, refuse messages."""
    assert await app.error("chat.postMessage", channel=channel, text="x") == error


async def test_archived_and_left_channels(emulator: SlackEmulator, app: RawApp) -> None:
    """An archived channel takes no message and no edit; a private one that the app left is not there any more."""
    ts = await app.post()
    await emulator.archive(ALICE, TEAM)
    assert await app.error("chat.postMessage", channel=TEAM, text="x") == "is_archived"
    assert await app.error("chat.update", channel=TEAM, ts=ts, text="x") == "is_inactive"
    await emulator.leave(emulator.app.bot_user, SECRET, by=ALICE)
    assert await app.error("chat.postMessage", channel=SECRET, text="x") == "channel_not_found"
    await emulator.deactivate(BOB)
    assert await app.error("chat.postMessage", channel=BOB, text="x") == "channel_not_found"


CONTENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "no_text"),
    ({"text": ""}, "no_text"),
    ({"text": "x" * 40_001}, "msg_too_long"),
    ({"markdown_text": "x" * 12_001}, "msg_too_long"),
    ({"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
    ({"blocks": [section("x" * 3001)]}, "invalid_blocks"),
    ({"blocks": [section("x")] * 51}, "invalid_blocks"),
    ({"blocks": [section("x" * 3000)] * 5}, "msg_blocks_too_long"),
    ({"blocks": {"type": "divider"}}, "invalid_blocks_format"),
    ({"text": "x", "metadata": {"event_type": "x"}}, "invalid_metadata_schema"),
    ({"text": "x", "metadata": {"event_type": "x", "event_payload": {"a": "b" * 20_000}}}, "metadata_too_large"),
    ({"text": "x", "thread_ts": "yesterday"}, "invalid_thread_ts"),
    ({"text": "x", "thread_ts": "1.000001"}, "thread_not_found"),
    ({"text": "x", "username": "Somebody"}, "missing_scope"),
    ({"text": "x", "attachments": ["y"]}, "invalid_attachments"),
]


@pytest.mark.parametrize(("content", "error"), CONTENTS, ids=[f"{one[1]}-{n}" for n, one in enumerate(CONTENTS)])
async def test_content_that_is_refused(
    emulator: SlackEmulator, app: RawApp, content: dict[str, Any], error: str
) -> None:
    """Every rule of a message's content has its own error, and nothing appears."""
    assert await app.error("chat.postMessage", channel=TEAM, **content) == error
    assert emulator.messages(TEAM) == []


async def test_invalid_blocks_name_the_place(emulator: SlackEmulator, app: RawApp) -> None:
    """The refusal points at what is wrong."""
    body = await app.call("chat.postMessage", channel=TEAM, text="x", blocks=[section("x"), buttons("y" * 76)])
    assert body["errors"] == ["must be less than 76 characters [json-pointer:/blocks/1/elements/0/text/text]"]
    assert body["response_metadata"]["messages"] == [f"[ERROR] {body['errors'][0]}"]


async def test_doubtful_texts_are_violations(emulator: SlackEmulator, app: RawApp) -> None:
    """What Slack advises against, and answers differently at different times, passes and is told."""
    root = await app.post(text="x" * 4001)
    reply = await app.post(text="x", thread_ts=root)
    await app.post(text="x", thread_ts=reply)
    assert [entry.name for entry in emulator.violations] == ["text_too_long", "thread_ts_of_a_reply"]
    assert all(one["thread_ts"] == root for one in emulator.messages(TEAM))


async def test_update(emulator: SlackEmulator, app: RawApp) -> None:
    """Text alone takes the blocks away; blocks alone leave the text and mark no edit; metadata stays unless given."""
    ts = await app.post(text="one", blocks=[section("one")], metadata=METADATA)
    await app.result("chat.update", channel=TEAM, ts=ts, blocks=[section("two")])
    shown = emulator.messages(TEAM)[0]
    assert (shown["text"], shown["blocks"][0]["text"]["text"], "edited" in shown) == ("one", "two", False)
    await app.result("chat.update", channel=TEAM, ts=ts, text="three")
    shown = emulator.messages(TEAM)[0]
    assert (shown["text"], "blocks" in shown, "edited" in shown) == ("three", False, True)
    assert shown["metadata"] == METADATA
    await app.result("chat.update", channel=TEAM, ts=ts, text="four", metadata={})
    assert "metadata" not in emulator.messages(TEAM)[0]


async def test_update_is_refused(emulator: SlackEmulator, app: RawApp) -> None:
    """Messages of others, missing ones, too long texts and empty changes are refused."""
    ts = await app.post()
    other = (await emulator.say(ALICE, "mine", chat=TEAM))["ts"]
    assert await app.error("chat.update", channel=TEAM, ts=other, text="x") == "cant_update_message"
    assert await app.error("chat.update", channel=TEAM, ts="1.000001", text="x") == "message_not_found"
    assert await app.error("chat.update", channel=TEAM, ts=ts, text="x" * 4001) == "msg_too_long"
    assert await app.error("chat.update", channel=TEAM, ts=ts) == "no_text"
    assert await app.error("chat.delete", channel=TEAM, ts=other) == "cant_delete_message"


async def test_delete(emulator: SlackEmulator, app: RawApp) -> None:
    """A message goes; the root of a thread stays as a tombstone."""
    root, alone = await app.post(), await app.post()
    await app.post(text="reply", thread_ts=root)
    await app.result("chat.delete", channel=TEAM, ts=alone)
    await app.result("chat.delete", channel=TEAM, ts=root)
    assert [one.get("subtype") for one in emulator.messages(TEAM)] == ["tombstone", None]
    assert await app.error("chat.update", channel=TEAM, ts=root, text="x") == "cant_update_message"


async def test_ephemeral(emulator: SlackEmulator, app: RawApp) -> None:
    """Only its reader sees it, nothing reads it back, and it cannot be changed by its ts."""
    ts = (await app.result("chat.postEphemeral", channel=TEAM, user=BOB, text="psst"))["message_ts"]
    assert emulator.messages(TEAM, user=ALICE) == []
    assert [one["text"] for one in emulator.messages(TEAM, user=BOB)] == ["psst"]
    assert (await app.result("conversations.history", channel=TEAM))["messages"] == []
    assert await app.error("chat.update", channel=TEAM, ts=ts, text="x") == "message_not_found"
    assert await app.error("chat.postEphemeral", channel=SECRET, user=BOB, text="x") == "user_not_in_channel"


async def test_previews_need_to_be_refused(emulator: SlackEmulator, app: RawApp) -> None:
    """A link is fetched by Slack unless media previews are switched off and text previews are not asked for."""
    await app.post(text="see <https://example.org/a>")
    await app.post(text="see <https://example.org/b>", unfurl_links=False, unfurl_media=False)
    previews = emulator.journal.of(EntryKind.SCREEN, "preview")
    assert [entry.data["urls"] for entry in previews] == [["https://example.org/a"]]


async def test_pages(emulator: SlackEmulator, app: RawApp) -> None:
    """A long thread is read page by page, its root first, each message once."""
    root = await app.post()
    all_ts = [root, *[await app.post(text=str(n), thread_ts=root) for n in range(5)]]
    read: list[str] = []
    cursor = ""
    while True:
        page = await app.result("conversations.replies", channel=TEAM, ts=root, limit=2, cursor=cursor)
        read += [one["ts"] for one in page["messages"]]
        cursor = page["response_metadata"]["next_cursor"]
        assert page["has_more"] == bool(cursor)
        if not cursor:
            break
    assert read == all_ts
    assert await app.error("conversations.replies", channel=TEAM, ts=root, cursor="nonsense") == "invalid_cursor"
    assert await app.error("conversations.replies", channel=TEAM, ts="1.000001") == "thread_not_found"


async def test_history_between_two_instants(emulator: SlackEmulator, app: RawApp) -> None:
    """Bounds are exclusive unless asked otherwise, newest first."""
    first, second, third = await app.post(), await app.post(), await app.post()

    async def between(**bounds: Any) -> list[str]:
        page = await app.result("conversations.history", channel=TEAM, **bounds)
        return [one["ts"] for one in page["messages"]]

    assert await between(oldest=first) == [third, second]
    assert await between(oldest=first, latest=third) == [second]
    assert await between(oldest=first, latest=third, inclusive=True) == [third, second, first]
    assert await app.error("conversations.history", channel=TEAM, oldest="then") == "invalid_ts_oldest"


async def test_channels(emulator: SlackEmulator, app: RawApp) -> None:
    """The app sees public channels and those that it is in; it may join a public one once."""
    listed = (await app.result("conversations.list", types="public_channel,private_channel"))["channels"]
    assert [one["id"] for one in listed] == [TEAM, SECRET, OUTSIDE]
    assert await app.error("conversations.history", channel=OUTSIDE) == "not_in_channel"
    await app.result("conversations.join", channel=OUTSIDE)
    assert (await app.result("conversations.join", channel=OUTSIDE))["warning"] == "already_in_channel"
    assert (await app.result("conversations.members", channel=TEAM))["members"] == [ALICE, BOB, emulator.app.bot_user]
    assert (await app.result("conversations.info", channel=SECRET))["channel"]["is_private"]
    opened = (await app.result("conversations.open", users=BOB))["channel"]["id"]
    assert (await app.result("conversations.info", channel=opened))["channel"]["user"] == BOB
    assert await app.error("conversations.open", users="U0NONE") == "user_not_found"
    await app.result("conversations.leave", channel=OUTSIDE)
    assert (await app.result("conversations.leave", channel=OUTSIDE))["not_in_channel"]


async def test_reactions(emulator: SlackEmulator, app: RawApp) -> None:
    """A reaction is put once and taken away once."""
    ts = (await emulator.say(ALICE, "x", chat=TEAM))["ts"]
    target = {"channel": TEAM, "timestamp": ts}
    await app.result("reactions.add", **target, name="eyes")
    assert await app.error("reactions.add", **target, name="eyes") == "already_reacted"
    assert await app.error("reactions.add", **target, name="No Emoji") == "invalid_name"
    assert await app.error("reactions.add", channel=TEAM, timestamp="1.000001", name="eyes") == "message_not_found"
    await emulator.react(BOB, ts, ["eyes"], chat=TEAM)
    message = (await app.result("reactions.get", **target))["message"]
    assert message["reactions"] == [{"name": "eyes", "users": [emulator.app.bot_user, BOB], "count": 2}]
    await app.result("reactions.remove", **target, name="eyes")
    assert await app.error("reactions.remove", **target, name="eyes") == "no_reaction"
    assert emulator.messages(TEAM)[0]["reactions"][0]["users"] == [BOB]


async def test_permalink(emulator: SlackEmulator, app: RawApp) -> None:
    """The address of a reply names its thread."""
    root = await app.post()
    reply = await app.post(text="x", thread_ts=root)
    link = (await app.result("chat.getPermalink", channel=TEAM, message_ts=reply))["permalink"]
    assert link.endswith(f"/archives/{TEAM}/p{reply.replace('.', '')}?thread_ts={root}&cid={TEAM}")
