"""What people do arrives at the bot in the platform's own shape, and only what the bot may read."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators import EntryKind, FaultKind, NotKnown, NotPossible
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.schema import bot_api
from tests.unit.emulators.conftest import ALICE, BOB, FORUM, GROUP
from tests.unit.emulators.raw_client import RawBot

ALL = sorted(bot_api().update_types)


async def fetch(emulator: TelegramEmulator, bot: RawBot) -> list[dict[str, Any]]:
    """Everything pending, checked against the published shape of an update."""
    await emulator.advance(10)
    updates = await bot.updates()
    for update in updates:
        assert bot_api().check(("Update",), update, "update") == []
    return updates


async def test_privacy_mode_hides_group_talk(emulator: TelegramEmulator, bot: RawBot) -> None:
    """In a group the bot reads commands, mentions and replies to it, not what people say to each other."""
    own = await bot.result("sendMessage", chat_id=GROUP, text="hi")
    await emulator.say(ALICE, "between us", chat=GROUP)
    await emulator.say(ALICE, "/status", chat=GROUP)
    await emulator.say(ALICE, "/status@other_bot", chat=GROUP)
    await emulator.say(ALICE, "hey @Emulated_Bot, look", chat=GROUP)
    await emulator.say(ALICE, "yes", chat=GROUP, reply_to=own["message_id"])
    texts = [update["message"]["text"] for update in await fetch(emulator, bot)]
    assert texts == ["/status", "hey @Emulated_Bot, look", "yes"]


async def test_administrator_reads_everything(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Where the bot is administrator privacy mode does not hold."""
    await emulator.say(ALICE, "between us", chat=FORUM)
    assert [update["message"]["text"] for update in await fetch(emulator, bot)] == ["between us"]


async def test_outsiders_cannot_write_or_press(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A person who is not a member can neither write nor press, but can forge a press with a modified app."""
    markup = {"inline_keyboard": [[{"text": "Go", "callback_data": "go"}]]}
    sent = await bot.result("sendMessage", chat_id=FORUM, text="x", reply_markup=markup)
    with pytest.raises(NotPossible, match="not a member"):
        await emulator.say(BOB, "x", chat=FORUM)
    with pytest.raises(NotPossible, match="not a member"):
        await emulator.press(BOB, sent["message_id"], button="Go", chat=FORUM)
    await emulator.press(BOB, sent["message_id"], data="anything", forged=True, chat=FORUM)
    (update,) = await fetch(emulator, bot)
    assert (update["callback_query"]["from"]["id"], update["callback_query"]["data"]) == (BOB, "anything")


async def test_press_is_answered_once_and_in_time(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The press carries its message; the first answer is shown, a second and a late one are refused."""
    markup = {"inline_keyboard": [[{"text": "Go", "callback_data": "go"}, {"text": "Off", "disabled": {}}]]}
    sent = await bot.result("sendMessage", chat_id=ALICE, text="x", reply_markup=markup)
    pressed = await emulator.press(ALICE, sent["message_id"], button="Go")
    (update,) = await fetch(emulator, bot)
    assert update["callback_query"] == pressed
    assert pressed["message"] == sent
    assert await emulator.answer(pressed["id"]) is None
    answer = {"callback_query_id": pressed["id"], "text": "Done", "show_alert": True}
    assert await bot.result("answerCallbackQuery", **answer) is True
    assert await emulator.answer(pressed["id"]) == {"text": "Done", "show_alert": True, "url": ""}
    too_old = "400 Bad Request: query is too old and response timeout expired or query ID is invalid"
    assert await bot.error("answerCallbackQuery", **answer) == too_old
    late = await emulator.press(ALICE, sent["message_id"], data="go")
    await emulator.advance(16)
    assert await bot.error("answerCallbackQuery", callback_query_id=late["id"]) == too_old
    assert await bot.error("answerCallbackQuery", callback_query_id="1") == too_old
    with pytest.raises(NotKnown, match="no button"):
        await emulator.press(ALICE, sent["message_id"], button="Stop")
    with pytest.raises(NotPossible, match="sends nothing"):
        await emulator.press(ALICE, sent["message_id"], button="Off")


async def test_press_on_a_vanished_message(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A press may come for a message that is gone: then it carries neither text nor thread."""
    await emulator.press(ALICE, 77, data="go", forged=True)
    (update,) = await fetch(emulator, bot)
    chat = {"id": 7, "type": "private", "first_name": "Alice", "username": "alice"}
    assert update["callback_query"]["message"] == {"chat": chat, "message_id": 77, "date": 0}


async def test_senders_that_are_not_people(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Anonymous administrators, channels, automatic forwards, bots, inline bots: each as the platform marks it."""
    emulator.add_chat(-100900, type="channel", title="News", bot_rights=["can_post_messages"])
    emulator.add_user(99, "Otto", username="otto_bot", is_bot=True)
    await emulator.join(99, FORUM)
    await emulator.anonymous_admin(FORUM, "do it", title="Boss")
    await emulator.as_channel(FORUM, -100900, "do it")
    await emulator.automatic_forward(FORUM, -100900, "do it")
    await emulator.channel_post(-100900, "do it", signature="Ed")
    await emulator.say(99, "do it", chat=FORUM)
    await emulator.say(ALICE, "do it", chat=FORUM, via_bot=99)
    updates = [update for update in await fetch(emulator, bot) if "do it" in str(update)]
    marks = []
    for update in updates:
        kind, message = next((k, v) for k, v in update.items() if k != "update_id")
        sender = message.get("from", {})
        marks.append(
            (
                kind,
                sender.get("id"),
                sender.get("is_bot"),
                message.get("sender_chat", {}).get("id"),
                message.get("via_bot", {}).get("id"),
                message.get("is_automatic_forward"),
            )
        )
    assert marks == [
        ("message", 1087968824, True, FORUM, None, None),
        ("message", 136817688, True, -100900, None, None),
        ("message", 777000, False, -100900, None, True),
        ("channel_post", None, None, -100900, None, None),
        ("message", 99, True, None, None, None),
        ("message", ALICE, False, None, 99, None),
    ]


async def test_forwards_name_their_origin(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A forward is the sender's message with somebody else's words: person, hidden person or channel."""
    emulator.add_chat(-100900, type="channel", title="News", bots=[])
    await emulator.forward(ALICE, "/approve 1", from_user=BOB)
    await emulator.forward(ALICE, "x", from_name="Hidden")
    await emulator.forward(ALICE, "y", from_chat=-100900)
    messages = [update["message"] for update in await fetch(emulator, bot)]
    assert {one["from"]["id"] for one in messages} == {ALICE}
    assert [one["forward_origin"]["type"] for one in messages] == ["user", "hidden_user", "channel"]
    assert messages[0]["forward_origin"]["sender_user"]["id"] == BOB


async def test_edits_are_told_and_deletions_are_not(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An edit comes as its own kind of update; a deletion is only seen by people."""
    said = await emulator.say(ALICE, "a")
    await emulator.advance(5)
    await emulator.edit(ALICE, said["message_id"], "/run")
    await emulator.delete(ALICE, said["message_id"])
    first, second = await fetch(emulator, bot)
    assert list(first) == ["update_id", "message"]
    assert (second["edited_message"]["text"], second["edited_message"]["edit_date"]) == ("/run", 1_800_000_005)
    assert emulator.messages(ALICE) == []


async def test_membership_changes(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The bot hears of its own coming and going always, of others' if it administers and asked."""
    await bot.updates(allowed_updates=ALL)
    emulator.add_chat(-100700, title="New", members=[ALICE], bots=[])
    await emulator.add_bot_to_group(-100700, by=ALICE)
    await emulator.join(BOB, FORUM)
    await emulator.leave(BOB, FORUM, by=ALICE)
    seen = []
    for update in await fetch(emulator, bot):
        kind, body = next((k, v) for k, v in update.items() if k != "update_id")
        change = body.get("new_chat_member", {}).get("status") if "chat_member" in kind else None
        seen.append((kind, body["chat"]["id"], change))
    assert seen == [
        ("my_chat_member", -100700, "member"),
        ("message", -100700, None),
        ("chat_member", FORUM, "member"),
        ("message", FORUM, None),
        ("message", FORUM, None),
        ("chat_member", FORUM, "kicked"),
    ]


async def test_topics_in_a_forum(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A topic's messages carry its id and answer its first message; General has no thread; a deleted topic is gone."""
    topic = await emulator.create_topic(ALICE, "Plans", chat=FORUM)
    thread = topic["message_thread_id"]
    said = await emulator.say(ALICE, "in it", chat=FORUM, thread=thread)
    general = await emulator.say(ALICE, "outside", chat=FORUM)
    assert (said["message_thread_id"], said["is_topic_message"]) == (thread, True)
    assert said["reply_to_message"]["forum_topic_created"]["name"] == "Plans"
    assert not {"message_thread_id", "is_topic_message", "reply_to_message"} & general.keys()
    sent = await bot.result("sendMessage", chat_id=FORUM, text="x", message_thread_id=thread)
    assert sent["message_thread_id"] == thread
    followed = await bot.result(
        "sendMessage", chat_id=FORUM, text="y", reply_parameters={"message_id": said["message_id"]}
    )
    assert followed["message_thread_id"] == thread
    assert [one.get("text") for one in emulator.messages(FORUM, thread)] == [None, "in it", "x", "y"]
    assert [one["text"] for one in emulator.messages(FORUM, 0)] == ["outside"]
    await emulator.delete_topic(ALICE, thread, chat=FORUM)
    assert [one["text"] for one in emulator.messages(FORUM)] == ["outside"]
    assert await bot.error("sendMessage", chat_id=FORUM, text="x", message_thread_id=thread) == (
        "400 Bad Request: message thread not found"
    )
    await fetch(emulator, bot)


async def test_bot_manages_topics(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A bot with the right creates, renames, closes, opens and removes topics; the same name again is refused."""
    topic = await bot.result("createForumTopic", chat_id=FORUM, name="Run 1")
    where = {"chat_id": FORUM, "message_thread_id": topic["message_thread_id"]}
    assert topic["name"] == "Run 1"
    assert await bot.result("editForumTopic", **where, name="Run 1 ✓") is True
    assert await bot.error("editForumTopic", **where, name="Run 1 ✓") == "400 Bad Request: TOPIC_NOT_MODIFIED"
    assert await bot.result("closeForumTopic", **where) is True
    with pytest.raises(NotPossible, match="closed"):
        await emulator.say(ALICE, "x", chat=FORUM, thread=topic["message_thread_id"])
    assert await bot.result("reopenForumTopic", **where) is True
    assert await bot.error("deleteForumTopic", **where) == "400 Bad Request: not enough rights to manage topics"
    await emulator.promote(42, FORUM, ["can_manage_topics", "can_delete_messages"], by=ALICE)
    assert await bot.result("deleteForumTopic", **where) is True
    assert await bot.error("editForumTopic", **where, name="x") == "400 Bad Request: TOPIC_ID_INVALID"
    assert await bot.error("createForumTopic", chat_id=GROUP, name="x") == "400 Bad Request: the chat is not a forum"
    assert await bot.error("createForumTopic", chat_id=FORUM, name=" ") == "400 Bad Request: title must be non-empty"


async def test_topic_needs_the_right(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A bot without can_manage_topics cannot create topics and cannot write into closed ones."""
    topic = await emulator.create_topic(ALICE, "Plans", chat=FORUM)
    await emulator.promote(42, FORUM, [], by=ALICE)
    assert await bot.error("createForumTopic", chat_id=FORUM, name="x") == (
        "400 Bad Request: not enough rights to create a topic"
    )
    await emulator.close_topic(ALICE, topic["message_thread_id"], chat=FORUM)
    assert (
        await bot.error("sendMessage", chat_id=FORUM, text="x", message_thread_id=topic["message_thread_id"])
        == "400 Bad Request: TOPIC_CLOSED"
    )


async def test_long_topic_names_are_cut_and_recorded(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The server cuts a name after 128 characters without a word; the record does not keep silent about it."""
    topic = await bot.result("createForumTopic", chat_id=FORUM, name="x" * 129)
    assert topic["name"] == "x" * 128
    assert [entry.name for entry in emulator.violations] == ["limit"]


async def test_replies_in_a_plain_supergroup_look_like_threads(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A chain of replies has a thread id but is no topic: a trap for session keys."""
    own = await bot.result("sendMessage", chat_id=GROUP, text="root")
    said = await emulator.say(ALICE, "reply", chat=GROUP, reply_to=own["message_id"])
    assert said["message_thread_id"] == own["message_id"]
    assert "is_topic_message" not in said


async def test_drafts_live_half_a_minute(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A draft is shown, replaced, and gone after 30 s or with the real message; empty text means thinking."""
    assert await bot.result("sendMessageDraft", chat_id=ALICE, draft_id=1) is True
    await bot.result("sendMessageDraft", chat_id=ALICE, draft_id=1, text="<b>Hel</b>", parse_mode="HTML", can_stop=True)
    bold = [{"type": "bold", "offset": 0, "length": 3}]
    assert emulator.drafts(ALICE) == [{"draft_id": 1, "text": "Hel", "entities": bold, "can_stop": True}]
    await emulator.advance(30)
    assert emulator.drafts(ALICE) == []
    await bot.result("sendMessageDraft", chat_id=ALICE, draft_id=2, text="x")
    await bot.result("sendMessage", chat_id=ALICE, text="final")
    assert emulator.drafts(ALICE) == []
    assert await bot.error("sendMessageDraft", chat_id=GROUP, draft_id=1) == "400 Bad Request: TEXTDRAFT_PEER_INVALID"


async def test_stop_under_a_draft(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The app's own Stop tells the bot the draft's number as text, and the draft is not shown again."""
    await bot.result("sendMessageDraft", chat_id=ALICE, draft_id=5, text="a")
    with pytest.raises(NotPossible, match="not stoppable"):
        await emulator.stop_generation(ALICE, 5)
    await bot.result("sendMessageDraft", chat_id=ALICE, draft_id=5, text="ab", can_stop=True)
    await emulator.stop_generation(ALICE, 5)
    (update,) = await fetch(emulator, bot)
    assert update["stopped_message_generation"]["draft_id"] == "5"
    assert await bot.result("sendMessageDraft", chat_id=ALICE, draft_id=5, text="abc") is True
    assert emulator.drafts(ALICE) == []


async def test_duplicated_and_reordered_events(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An event fault delivers one update twice under one id, or a message after the one that followed it."""
    emulator.fault("message", FaultKind.DUPLICATE, event=True)
    await emulator.say(ALICE, "twice")
    emulator.fault("message", FaultKind.REORDER, event=True)
    await emulator.say(ALICE, "second")
    await emulator.say(ALICE, "first")
    got = [(update["update_id"], update["message"]["text"]) for update in await fetch(emulator, bot)]
    assert got == [(1000, "twice"), (1000, "twice"), (1001, "first"), (1002, "second")]


async def test_delayed_event(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A delayed event reaches the queue when its time has come."""
    emulator.fault("message", FaultKind.DELAY, event=True, seconds=60)
    await emulator.say(ALICE, "late")
    assert await fetch(emulator, bot) == []
    await emulator.advance(60)
    assert [update["message"]["text"] for update in await fetch(emulator, bot)] == ["late"]


async def test_two_bots_have_their_own_private_chats(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The same person talks with each bot apart; a deed must say which bot it means."""
    emulator.add_bot("43:OTHER", username="other_bot")
    await emulator.say(ALICE, "to the first", bot=42)
    await emulator.say(ALICE, "to the second", bot="other_bot")
    assert [one["text"] for one in emulator.messages(ALICE, bot=43)] == ["to the second"]
    assert [update["message"]["text"] for update in await fetch(emulator, bot)] == ["to the first"]
    with pytest.raises(NotKnown, match="which bot"):
        await emulator.say(ALICE, "to whom?")


async def test_chat_look_ups(emulator: TelegramEmulator, bot: RawBot) -> None:
    """getChat, getChatMember and their neighbours agree with the memberships and with the published shapes."""
    await emulator.promote(ALICE, FORUM, ["can_manage_topics"], by=ALICE)
    chat = await bot.result("getChat", chat_id=FORUM)
    alice = await bot.result("getChatMember", chat_id=FORUM, user_id=ALICE)
    bob = await bot.result("getChatMember", chat_id=FORUM, user_id=BOB)
    admins = await bot.result("getChatAdministrators", chat_id=FORUM)
    assert (chat["title"], chat["is_forum"], alice["status"], bob["status"]) == ("Forum", True, "administrator", "left")
    assert {one["user"]["id"] for one in admins} == {42, ALICE}
    assert await bot.result("getChatMemberCount", chat_id=FORUM) == 2
    assert await bot.error("getChatMember", chat_id=FORUM, user_id=12345) == "400 Bad Request: PARTICIPANT_ID_INVALID"
    for kind, value in (("ChatFullInfo", chat), ("ChatMember", alice), ("ChatMember", bob)):
        assert bot_api().check((kind,), value, kind) == []
    assert await bot.result("leaveChat", chat_id=FORUM) is True
    assert await bot.error("getChat", chat_id=FORUM) == "403 Forbidden: bot is not a member of the supergroup chat"


async def test_reset_forgets_traffic_only(emulator: TelegramEmulator, bot: RawBot) -> None:
    """After a reset people and chats are there, messages, updates, faults and the journal are not."""
    await emulator.say(ALICE, "a")
    emulator.fault("sendMessage", FaultKind.DROP)
    emulator.reset()
    assert (emulator.messages(ALICE), emulator.pending_updates(), list(emulator.journal)) == ([], [], [])
    await bot.result("sendMessage", chat_id=ALICE, text="x")
    await emulator.say(ALICE, "b")
    assert emulator.pending_updates()[0]["update_id"] == 1001


async def test_wait_for_tells_what_it_saw(emulator: TelegramEmulator) -> None:
    """Waiting in vain raises TimeoutError with the newest entries, whatever the emulator's clock does."""
    await emulator.say(ALICE, "a")
    with pytest.raises(TimeoutError, match="screen message"):
        await emulator.wait_for(lambda: emulator.sends, timeout=0.01)


async def test_screen_shows_chat_actions(emulator: TelegramEmulator, bot: RawBot) -> None:
    """sendChatAction is seen in its thread; an unknown action is refused."""
    assert await bot.result("sendChatAction", chat_id=ALICE, action="typing") is True
    assert await bot.error("sendChatAction", chat_id=ALICE, action="dancing") == (
        "400 Bad Request: wrong parameter action in request"
    )
    (shown,) = emulator.journal.of(EntryKind.SCREEN, "action")
    assert shown.data == {"chat_id": ALICE, "action": "typing", "thread": None}


async def test_any_update_can_be_injected(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Kinds that no deed makes arrive as given; what the platform would never send is refused with its places."""
    await bot.updates(allowed_updates=ALL)
    alice = {"id": ALICE, "is_bot": False, "first_name": "Alice"}
    query = {"id": "1", "from": alice, "query": "x", "offset": ""}
    pressed = {"id": "2", "from": alice, "inline_message_id": "m", "chat_instance": "c", "data": "go"}
    await emulator.inject("inline_query", query)
    await emulator.inject("callback_query", pressed)
    first, second = await fetch(emulator, bot)
    assert (first["inline_query"], second["callback_query"]) == (query, pressed)
    with pytest.raises(NotPossible, match=r"missing_field at update\.inline_query\.offset"):
        await emulator.inject("inline_query", {"id": "1", "from": alice, "query": "x"})
    with pytest.raises(NotPossible, match=r"unknown_field at update\.telepathy"):
        await emulator.inject("telepathy", {})


async def test_open_link_previews_are_found(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Of all sends and edits, those that left a preview open are listed; other methods have no such flag."""
    off = {"link_preview_options": {"is_disabled": True, "prefer_small_media": True}}
    sent = await bot.result("sendMessage", chat_id=ALICE, text="a", **off)
    await bot.result("sendChatAction", chat_id=ALICE, action="typing")
    disabled = {"is_disabled": True}
    assert emulator.lacking("link_preview_options", disabled) == []
    await bot.result("editMessageText", chat_id=ALICE, message_id=sent["message_id"], text="b")
    await bot.result("sendMessage", chat_id=ALICE, text="c", link_preview_options={"is_disabled": False})
    found = emulator.lacking("link_preview_options", disabled)
    assert [(call.method, call.params["text"]) for call in found] == [("editMessageText", "b"), ("sendMessage", "c")]
