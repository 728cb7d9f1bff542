"""sendMessage, edits, deletions, reactions: what is accepted, what is refused, and in which order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from adapters.emulators import EntryKind, FaultKind, ManualClock
from adapters.emulators.telegram import FloodLimits, Knobs, TelegramEmulator
from tests.unit.emulators.conftest import ALICE, BOB, FORUM, GROUP
from tests.unit.emulators.raw_client import RawBot

BUTTON = {"text": "Go", "callback_data": "go:1"}


def keyboard(*rows: list[dict[str, Any]]) -> dict[str, Any]:
    """An inline keyboard."""
    return {"inline_keyboard": list(rows)}


async def test_sent_message_is_returned_and_seen(emulator: TelegramEmulator, bot: RawBot) -> None:
    """The result is the message as people see it, with parsed entities and the inline keyboard."""
    sent = await bot.result(
        "sendMessage",
        chat_id=ALICE,
        text="<b>Hi</b> @alice",
        parse_mode="HTML",
        reply_markup=keyboard([BUTTON]),
        link_preview_options={"is_disabled": True},
    )
    assert sent == {
        "message_id": 1,
        "from": {"id": 42, "is_bot": True, "first_name": "Emulated Bot", "username": "emulated_bot"},
        "chat": {"id": 7, "type": "private", "first_name": "Alice", "username": "alice"},
        "date": 1_800_000_000,
        "text": "Hi @alice",
        "entities": [
            {"type": "bold", "offset": 0, "length": 2},
            {"type": "mention", "offset": 3, "length": 6},
        ],
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {"inline_keyboard": [[BUTTON]]},
    }
    assert emulator.messages(ALICE) == [sent]
    (call,) = emulator.sends
    assert call.params["link_preview_options"] == {"is_disabled": True}
    assert (call.ok, call.status, call.result) == (True, 200, sent)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"chat_id": ALICE, "text": ""}, "400 Bad Request: message text is empty"),
        ({"chat_id": ALICE}, "400 Bad Request: message text is empty"),
        ({"chat_id": ALICE, "text": "x" * 32769}, "400 Bad Request: text is too long"),
        ({"chat_id": ALICE, "text": "x", "parse_mode": "bbcode"}, "400 Bad Request: unsupported parse_mode"),
        (
            {"chat_id": ALICE, "text": "<b>x", "parse_mode": "HTML"},
            "400 Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"b\"",
        ),
        ({"chat_id": ALICE, "text": " \n"}, "400 Bad Request: text must be non-empty"),
        ({"chat_id": ALICE, "text": "x" * 4097}, "400 Bad Request: message is too long"),
        ({"text": "x"}, "400 Bad Request: chat_id is empty"),
        ({"chat_id": 99, "text": "x"}, "400 Bad Request: chat not found"),
        ({"chat_id": "@nobody", "text": "x"}, "400 Bad Request: chat not found"),
        ({"chat_id": BOB, "text": "x"}, "403 Forbidden: bot can't initiate conversation with a user"),
        ({"chat_id": ALICE, "text": "x", "message_thread_id": 5}, "400 Bad Request: message thread not found"),
        ({"chat_id": FORUM, "text": "x", "message_thread_id": 1}, "400 Bad Request: message thread not found"),
        (
            {"chat_id": ALICE, "text": "x", "reply_parameters": {"message_id": 5}},
            "400 Bad Request: message to be replied not found",
        ),
        (
            {"chat_id": ALICE, "text": "x", "reply_markup": "{"},
            "400 Bad Request: can't parse reply keyboard markup JSON object",
        ),
        ({"chat_id": ALICE, "text": "x", "reply_markup": []}, "400 Bad Request: object expected as reply markup"),
        # In which order the checks come: text before chat, chat before blank text.
        ({"chat_id": 99, "text": "x", "parse_mode": "bbcode"}, "400 Bad Request: unsupported parse_mode"),
        ({"chat_id": 99, "text": " "}, "400 Bad Request: chat not found"),
        ({"chat_id": 99, "text": "x" * 4097}, "400 Bad Request: chat not found"),
    ],
)
async def test_refusals_have_the_servers_words(bot: RawBot, params: dict[str, Any], error: str) -> None:
    """Each refusal has the official server's status, words and place in the order of checks."""
    assert await bot.error("sendMessage", **params) == error


@pytest.mark.parametrize(
    ("markup", "error"),
    [
        (
            keyboard([{"text": "a"}]),
            "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        ),
        (
            keyboard([{"text": "a", "callback_data": ""}]),
            "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        ),
        (keyboard([{"callback_data": "a"}]), "can't parse inline keyboard button: Can't find field \"text\""),
        (keyboard([{"text": "a", "callback_data": "é" * 33}]), "BUTTON_DATA_INVALID"),
        (keyboard([BUTTON] * 9), "REPLY_MARKUP_TOO_LONG"),
        (keyboard(*[[BUTTON] * 8] * 12, [BUTTON] * 5), "REPLY_MARKUP_TOO_LONG"),
        (
            {"inline_keyboard": [BUTTON]},
            'field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays',
        ),
        (keyboard([BUTTON | {"style": 5}]), 'field "style" must be of type String'),
        (keyboard([{"text": "a", "copy_text": {}}]), 'can\'t find field "text"'),
        (keyboard([BUTTON | {"style": "loud"}]), "can't parse inline keyboard button: Invalid button style specified"),
    ],
)
async def test_keyboards_are_limited(bot: RawBot, markup: dict[str, Any], error: str) -> None:
    """Data is 1 to 64 bytes, a row has at most 8 buttons, a keyboard at most 100."""
    assert await bot.error("sendMessage", chat_id=ALICE, text="x", reply_markup=markup) == f"400 Bad Request: {error}"


async def test_largest_keyboard_fits(bot: RawBot) -> None:
    """64 bytes of data, 8 in a row and 100 in all are accepted, styles and disabled buttons too."""
    full = {"text": "a", "callback_data": "é" * 32, "style": "danger"}
    rows = [[full] * 8] * 12 + [[{"text": "off", "disabled": {}}] * 4]
    sent = await bot.result("sendMessage", chat_id=ALICE, text="x", reply_markup=keyboard(*rows))
    assert len(sent["reply_markup"]["inline_keyboard"]) == 13


async def test_every_transport_of_parameters_is_read(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Query, JSON, urlencoded and multipart bodies mean the same; nested objects may be text or JSON."""
    markup = keyboard([BUTTON])
    async with bot.session.get(
        f"{bot.base}/SENDmessage", params={"chat_id": ALICE, "text": "q", "reply_markup": json.dumps(markup)}
    ) as response:
        assert (await response.json())["ok"]
    await bot.result("sendMessage", chat_id=str(ALICE), text="j", reply_markup=json.dumps(markup))
    assert (await bot.form("sendMessage", aiohttp.FormData({"chat_id": "7", "text": "u"})))["ok"]
    parts = aiohttp.FormData({"chat_id": "7", "text": "m", "reply_markup": json.dumps(markup)})
    parts._is_multipart = True
    assert (await bot.form("sendMessage", parts))["ok"]
    assert [one["text"] for one in emulator.messages(ALICE)] == ["q", "j", "u", "m"]
    assert [call.params["chat_id"] for call in emulator.calls("sendMessage")] == [7, 7, 7, 7]
    emulator.assert_clean()


async def test_replies_and_quotes(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A reply carries the message it answers, once; a quote must be in it; a missing one may be allowed."""
    said = await emulator.say(ALICE, "one two")
    reply = {"message_id": said["message_id"], "quote": "two"}
    sent = await bot.result("sendMessage", chat_id=ALICE, text="x", reply_parameters=reply)
    assert sent["reply_to_message"] == said
    assert sent["quote"] == {"text": "two", "position": 4, "is_manual": True}
    wrong = {"message_id": said["message_id"], "quote": "three"}
    assert await bot.error("sendMessage", chat_id=ALICE, text="x", reply_parameters=wrong) == (
        "400 Bad Request: QUOTE_TEXT_INVALID"
    )
    lost = {"message_id": 99, "allow_sending_without_reply": True}
    assert "reply_to_message" not in await bot.result("sendMessage", chat_id=ALICE, text="x", reply_parameters=lost)


async def test_people_can_shut_the_bot_out(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Blocked, removed, never a member: each has its own 403."""
    await emulator.block(ALICE)
    assert await bot.error("sendMessage", chat_id=ALICE, text="x") == "403 Forbidden: bot was blocked by the user"
    await emulator.unblock(ALICE)
    await bot.result("sendMessage", chat_id=ALICE, text="x")
    await emulator.remove_bot_from_group(GROUP, by=ALICE)
    assert await bot.error("sendMessage", chat_id=GROUP, text="x") == (
        "403 Forbidden: bot was kicked from the supergroup chat"
    )
    emulator.add_chat(-100777, title="Elsewhere", members=[ALICE], bots=[])
    assert await bot.error("sendMessage", chat_id=-100777, text="x") == (
        "403 Forbidden: bot is not a member of the supergroup chat"
    )
    emulator.add_chat(-100778, type="channel", title="News")
    assert await bot.error("sendMessage", chat_id=-100778, text="x") == (
        "400 Bad Request: need administrator rights in the channel chat"
    )


async def test_migrated_group_names_its_heir(emulator: TelegramEmulator, bot: RawBot) -> None:
    """After the upgrade the old id refuses with the new id, and both chats tell of it."""
    emulator.add_chat(-55, type="group", title="Old", members=[ALICE], creator=BOB)
    heir = await emulator.migrate(-55)
    body = await bot.call("sendMessage", chat_id=-55, text="x")
    assert (body["error_code"], body["description"], body["parameters"]) == (
        400,
        "Bad Request: group chat was upgraded to a supergroup chat",
        {"migrate_to_chat_id": heir},
    )
    await bot.result("sendMessage", chat_id=heir, text="x")
    told = [update["message"] for update in await bot.updates()]
    assert [(one["chat"]["id"], one.get("migrate_to_chat_id"), one.get("migrate_from_chat_id")) for one in told] == [
        (-55, heir, None),
        (heir, None, -55),
    ]


async def test_edit_replaces_text_and_keyboard(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An edit without markup takes the keyboard away; the same again is refused."""
    sent = await bot.result("sendMessage", chat_id=ALICE, text="a", reply_markup=keyboard([BUTTON]))
    where = {"chat_id": ALICE, "message_id": sent["message_id"]}
    await emulator.advance(5)
    edited = await bot.result("editMessageText", **where, text="b")
    assert (edited["text"], edited["edit_date"], "reply_markup" in edited) == ("b", 1_800_000_005, False)
    assert await bot.error("editMessageText", **where, text="b") == (
        "400 Bad Request: message is not modified: specified new message content and reply markup are exactly the "
        "same as a current content and reply markup of the message"
    )
    marked = await bot.result("editMessageReplyMarkup", **where, reply_markup=keyboard([BUTTON]))
    assert marked["reply_markup"] == keyboard([BUTTON])
    assert emulator.messages(ALICE) == [marked]


async def test_what_cannot_be_edited(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Other people's messages, missing ones, and those sent with a forced reply."""
    said = await emulator.say(ALICE, "mine")
    asked = await bot.result("sendMessage", chat_id=ALICE, text="why?", reply_markup={"force_reply": True})
    for message, error in (
        (said["message_id"], "message can't be edited"),
        (asked["message_id"], "message can't be edited"),
        (99, "message to edit not found"),
    ):
        assert await bot.error("editMessageText", chat_id=ALICE, message_id=message, text="x") == (
            f"400 Bad Request: {error}"
        )
    assert await bot.error("editMessageText", text="x") == "400 Bad Request: message identifier is not specified"


async def test_deletion_follows_the_rules(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Own messages go for 48 hours, other people's in a private chat too, in a group only with the right."""
    own = await bot.result("sendMessage", chat_id=GROUP, text="a")
    said = await emulator.say(ALICE, "b", chat=GROUP)
    assert await bot.result("deleteMessage", chat_id=GROUP, message_id=own["message_id"]) is True
    assert await bot.error("deleteMessage", chat_id=GROUP, message_id=said["message_id"]) == (
        "400 Bad Request: message can't be deleted"
    )
    assert await bot.error("deleteMessage", chat_id=GROUP, message_id=99) == (
        "400 Bad Request: message to delete not found"
    )
    private = await emulator.say(ALICE, "c")
    assert await bot.result("deleteMessage", chat_id=ALICE, message_id=private["message_id"]) is True
    old = await bot.result("sendMessage", chat_id=GROUP, text="d")
    await emulator.advance(48 * 3600 + 1)
    assert await bot.error("deleteMessage", chat_id=GROUP, message_id=old["message_id"]) == (
        "400 Bad Request: message can't be deleted for everyone"
    )
    assert [one["text"] for one in emulator.messages(GROUP)] == ["b", "d"]


async def test_reactions_come_from_the_list(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A bot sets one reaction of the official list, and only where the chat allows it."""
    said = await emulator.say(ALICE, "a", chat=GROUP)
    where = {"chat_id": GROUP, "message_id": said["message_id"]}
    assert await bot.result("setMessageReaction", **where, reaction=[{"type": "emoji", "emoji": "👀"}]) is True
    for wrong in (
        [{"type": "emoji", "emoji": "✅"}],
        [{"type": "paid"}],
    ):
        assert await bot.error("setMessageReaction", **where, reaction=wrong) == "400 Bad Request: REACTION_INVALID"
    two = [{"type": "emoji", "emoji": "👀"}, {"type": "emoji", "emoji": "👍"}]
    assert await bot.error("setMessageReaction", **where, reaction=two) == "400 Bad Request: REACTIONS_TOO_MANY"
    assert await bot.result("setMessageReaction", **where) is True
    shown = [entry.data["reaction"] for entry in emulator.journal.of(EntryKind.SCREEN, "reaction")]
    assert shown == [[{"type": "emoji", "emoji": "👀"}], []]


async def test_numbers_of_messages_belong_to_the_chat(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Two supergroups give the same number to different messages."""
    first = await bot.result("sendMessage", chat_id=GROUP, text="a")
    second = await bot.result("sendMessage", chat_id=FORUM, text="b")
    assert first["message_id"] == second["message_id"] == 1


async def test_flood_limits_can_be_switched_on(session: aiohttp.ClientSession) -> None:
    """With limits on, the fourth message within a second to one person is refused with the time to wait."""
    emulator = TelegramEmulator(clock=ManualClock(), knobs=Knobs(flood=FloodLimits()))
    emulator.add_bot("42:TEST")
    emulator.add_user(ALICE, "Alice", started=True)
    await emulator.start()
    bot = RawBot(emulator.url, "42:TEST", session)
    for number in range(3):
        await bot.result("sendMessage", chat_id=ALICE, text=str(number))
    body = await bot.call("sendMessage", chat_id=ALICE, text="too fast")
    assert (body["error_code"], body["parameters"]) == (429, {"retry_after": 3})
    await emulator.advance(3)
    await bot.result("sendMessage", chat_id=ALICE, text="now")
    await emulator.stop()


async def test_bad_tokens(emulator: TelegramEmulator, session: aiohttp.ClientSession) -> None:
    """A token that cannot be one, and one that belongs to nobody."""
    for token, error in (
        ("nonsense", "401 Unauthorized: invalid token specified"),
        ("0:x", "401 Unauthorized: invalid token specified"),
        ("43:OTHER", "401 Unauthorized"),
    ):
        assert await RawBot(emulator.url, token, session).error("getMe") == error


async def test_get_me_says_what_the_bot_may(emulator: TelegramEmulator, bot: RawBot) -> None:
    """getMe shows privacy mode and topics, which the gateway reads at start."""
    me = await bot.result("getMe")
    assert (me["id"], me["is_bot"], me["can_read_all_group_messages"], me["has_topics_enabled"]) == (
        42,
        True,
        False,
        False,
    )


async def test_log_out_drops_everything(emulator: TelegramEmulator, bot: RawBot) -> None:
    """After logOut pending updates are gone and calls fail for ten minutes."""
    await emulator.say(ALICE, "a")
    assert await bot.result("logOut") is True
    assert await bot.error("getMe") == "400 Logged out"
    await emulator.advance(600)
    assert await bot.updates() == []
    assert await bot.result("close") is True


async def test_commands_are_kept_by_scope_and_language(bot: RawBot) -> None:
    """Lists are set, read and removed for exactly one scope and language, and names are checked."""
    commands = [{"command": "stop", "description": "Stop the turn"}]
    scope = {"type": "all_private_chats"}
    await bot.result("setMyCommands", commands=commands, scope=scope, language_code="de")
    assert await bot.result("getMyCommands", scope=scope, language_code="de") == commands
    assert await bot.result("getMyCommands") == []
    await bot.result("deleteMyCommands", scope=scope, language_code="de")
    assert await bot.result("getMyCommands", scope=scope, language_code="de") == []
    for wrong, error in (
        ([{"command": "Stop", "description": "x"}], "BOT_COMMAND_INVALID"),
        ([{"command": "stop", "description": ""}], "command description must be non-empty"),
        ([{"command": "s" * 33, "description": "x"}], "command length must not exceed 32"),
        (commands * 101, "BOT_COMMANDS_TOO_MUCH"),
    ):
        assert await bot.error("setMyCommands", commands=wrong) == f"400 Bad Request: {error}"


@pytest.mark.parametrize(
    ("kind", "applied", "status"),
    [
        (FaultKind.SERVER_ERROR, False, 502),
        (FaultKind.SERVER_ERROR, True, 502),
        (FaultKind.DROP, False, None),
        (FaultKind.DROP, True, None),
    ],
)
async def test_faults_say_whether_the_message_got_through(
    emulator: TelegramEmulator, bot: RawBot, kind: FaultKind, applied: bool, status: int | None
) -> None:
    """A broken answer or a cut connection leaves the message sent or unsent, as the fault says."""
    emulator.fault("sendMessage", kind, applied=applied)
    if status is None:
        with pytest.raises(aiohttp.ClientError):
            await bot.call("sendMessage", chat_id=ALICE, text="x")
    else:
        assert await bot.error("sendMessage", chat_id=ALICE, text="x") == f"{status} Bad Gateway"
    assert len(emulator.messages(ALICE)) == int(applied)
    (call,) = emulator.sends
    assert call.status == status
    await bot.result("sendMessage", chat_id=ALICE, text="y")


async def test_rate_limit_fault_names_the_pause(emulator: TelegramEmulator, bot: RawBot) -> None:
    """429 comes with the pause in the body and in the header, and nothing is sent."""
    emulator.fault("sendMessage", FaultKind.RATE_LIMIT, retry_after=7)
    async with bot.session.post(f"{bot.base}/sendMessage", json={"chat_id": ALICE, "text": "x"}) as response:
        assert response.status == 429
        assert response.headers["Retry-After"] == "7"
        assert await response.json() == {
            "ok": False,
            "error_code": 429,
            "description": "Too Many Requests: retry after 7",
            "parameters": {"retry_after": 7},
        }
    assert emulator.messages(ALICE) == []


async def test_refuse_fault_says_anything(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Any error of the platform can be prepared, for a chosen chat only."""
    emulator.fault(
        "sendMessage",
        FaultKind.REFUSE,
        status=403,
        description="Forbidden: user is deactivated",
        where={"chat_id": ALICE},
    )
    await bot.result("sendMessage", chat_id=GROUP, text="x")
    assert await bot.error("sendMessage", chat_id=ALICE, text="x") == "403 Forbidden: user is deactivated"


async def test_delayed_request_waits_on_the_clock(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A delay before applying holds the request back until the clock has moved."""
    emulator.fault("sendMessage", FaultKind.DELAY, seconds=10)
    sending = asyncio.create_task(bot.call("sendMessage", chat_id=ALICE, text="x"))
    await emulator.wait_for(lambda: emulator.journal.of(EntryKind.FAULT))
    assert emulator.messages(ALICE) == []
    await emulator.advance(10)
    assert (await sending)["ok"]
    assert len(emulator.messages(ALICE)) == 1


async def test_half_open_connection_never_answers(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A half-open connection stays silent although the message was sent, until somebody cuts it."""
    emulator.fault("sendMessage", FaultKind.HALF_OPEN, applied=True)
    sending = asyncio.create_task(bot.call("sendMessage", chat_id=ALICE, text="x"))
    await emulator.wait_for(lambda: emulator.messages(ALICE))
    await emulator.advance(3600)
    assert not sending.done()
    assert emulator.disconnect() == 1
    with pytest.raises(aiohttp.ClientError):
        await sending
