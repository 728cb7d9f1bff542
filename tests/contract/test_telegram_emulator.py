"""Real client libraries against the Telegram emulator, unmodified.

Two vendors' clients run the same scenario: what the emulator says must be understood by both, and neither may cause a
violation. aiogram alone runs the rest, because the product speaks through it.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiogram.methods
import pytest
from aiogram import Bot, Dispatcher, F, types
from aiogram.client.default import DefaultBotProperties
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.filters import Command
from aiogram.methods import TelegramMethod
from aiogram.utils.backoff import BackoffConfig
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web
from telegram import InlineKeyboardButton as PeerButton
from telegram import InlineKeyboardMarkup as PeerKeyboard
from telegram import Update
from telegram.ext import (
    Application,
    CallbackQueryHandler,
    CommandHandler,
    MessageHandler,
    MessageReactionHandler,
    filters,
)
from telegram.request import HTTPXRequest

from adapters.emulators import FaultKind
from adapters.emulators.telegram import Knobs, TelegramEmulator
from adapters.emulators.telegram.methods import HANDLERS
from adapters.emulators.telegram.schema import bot_api
from tests.support.telegram_schema import malformed_results

# Importing aiogram takes seconds: one worker does it once.
pytestmark = pytest.mark.xdist_group("aiogram")

TOKEN = "42:AAEmulatedTokenForTests-0123456789ab"
ALICE = 7
BOB = 8
FORUM = -100456
QUICK = BackoffConfig(min_delay=0.01, max_delay=0.02, factor=1.1, jitter=0.01)


@pytest.fixture
async def emulator() -> AsyncIterator[TelegramEmulator]:
    """Alice, Bob and a forum on a clock that flows; no client may break a rule."""
    # python-telegram-bot asks once more for the offset it has when it stops, and would be held for it each time.
    made = TelegramEmulator(knobs=Knobs(repeated_poll_hold=0.0))
    made.add_bot(TOKEN, topics=True)
    made.add_user(ALICE, "Alice", username="alice", started=True)
    made.add_user(BOB, "Bob", started=True)
    made.add_chat(
        FORUM,
        title="Forum",
        is_forum=True,
        members=[ALICE, BOB],
        bot_rights=["can_manage_topics", "can_delete_messages"],
    )
    await made.start()
    yield made
    await made.stop()
    assert malformed_results(made) == []


def connect(emulator: TelegramEmulator, token: str = TOKEN, **defaults: Any) -> Bot:
    """An aiogram bot whose server is the emulator."""
    session = AiohttpSession(api=TelegramAPIServer.from_base(emulator.url))
    return Bot(token, session=session, default=DefaultBotProperties(**defaults))


@pytest.fixture
async def bot(emulator: TelegramEmulator) -> AsyncIterator[Bot]:
    """A bot that only calls methods."""
    made = connect(emulator)
    yield made
    await made.session.close()


# -- one scenario, two vendors


@dataclass
class Seen:
    """What a peer's handlers got."""

    texts: list[str] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)
    albums: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)


class Peer(Protocol):
    """A bot that greets with a button, edits on press, notes what it gets and returns files."""

    seen: Seen

    async def start(self, url: str) -> None: ...

    async def stop(self) -> None: ...


class AiogramPeer:
    """The bot in aiogram."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.dispatcher = Dispatcher()
        self.dispatcher.message.register(self.greet, Command("start"))
        self.dispatcher.message.register(self.take_document, F.document)
        self.dispatcher.message.register(self.take_photo, F.photo)
        self.dispatcher.message.register(self.note, F.text)
        self.dispatcher.edited_message.register(self.note_edit)
        self.dispatcher.callback_query.register(self.pressed)
        self.dispatcher.message_reaction.register(self.reacted)

    async def start(self, url: str) -> None:
        session = AiohttpSession(api=TelegramAPIServer.from_base(url))
        self.bot = Bot(TOKEN, session=session, default=DefaultBotProperties(parse_mode="HTML"))
        self.polling = asyncio.create_task(
            self.dispatcher.start_polling(
                self.bot, handle_signals=False, close_bot_session=True, polling_timeout=20, backoff_config=QUICK
            )
        )

    async def stop(self) -> None:
        await self.dispatcher.stop_polling()
        await self.polling

    async def greet(self, message: types.Message) -> None:
        button = types.InlineKeyboardButton(text="Go", callback_data="go:1", style="success")
        keyboard = types.InlineKeyboardMarkup(inline_keyboard=[[button]])
        await message.reply("<b>Hi</b> &amp; welcome", reply_markup=keyboard)

    async def pressed(self, query: types.CallbackQuery) -> None:
        await query.answer("ok")
        assert isinstance(query.message, types.Message)
        await query.message.edit_text(f"<i>{query.data} by {query.from_user.id}</i>")

    async def take_document(self, message: types.Message) -> None:
        assert message.document is not None
        content = await self.bot.download(message.document)
        assert content is not None
        self.seen.files.append(content.read())
        await message.answer_document(types.BufferedInputFile(self.seen.files[-1], "back.bin"), caption="<u>back</u>")

    async def take_photo(self, message: types.Message) -> None:
        self.seen.albums.append(message.media_group_id or "")

    async def note(self, message: types.Message) -> None:
        self.seen.texts.append(f"{message.message_thread_id}:{message.text}")

    async def note_edit(self, message: types.Message) -> None:
        self.seen.edits.append(message.text or "")

    async def reacted(self, event: types.MessageReactionUpdated) -> None:
        self.seen.reactions += [one.emoji for one in event.new_reaction if isinstance(one, types.ReactionTypeEmoji)]


class PtbPeer:
    """The bot in python-telegram-bot."""

    def __init__(self) -> None:
        self.seen = Seen()

    async def start(self, url: str) -> None:
        def request() -> HTTPXRequest:
            return HTTPXRequest(httpx_kwargs={"trust_env": False})

        builder = Application.builder().token(TOKEN).base_url(f"{url}/bot").base_file_url(f"{url}/file/bot")
        self.app = builder.request(request()).get_updates_request(request()).build()
        self.app.add_handler(CommandHandler("start", self.greet))
        self.app.add_handler(CallbackQueryHandler(self.pressed))
        self.app.add_handler(MessageHandler(filters.Document.ALL, self.take_document))
        self.app.add_handler(MessageHandler(filters.PHOTO, self.take_photo))
        self.app.add_handler(MessageHandler(filters.UpdateType.EDITED_MESSAGE, self.note_edit))
        self.app.add_handler(MessageHandler(filters.TEXT, self.note))
        self.app.add_handler(MessageReactionHandler(self.reacted))
        await self.app.initialize()
        await self.app.start()
        assert self.app.updater is not None
        await self.app.updater.start_polling(timeout=20, allowed_updates=Update.ALL_TYPES)

    async def stop(self) -> None:
        assert self.app.updater is not None
        await self.app.updater.stop()
        await self.app.stop()
        await self.app.shutdown()

    async def greet(self, update: Update, _: Any) -> None:
        keyboard = PeerKeyboard([[PeerButton("Go", callback_data="go:1")]])
        message = update.effective_message
        assert message is not None
        await message.reply_html("<b>Hi</b> &amp; welcome", reply_markup=keyboard, do_quote=True)

    async def pressed(self, update: Update, _: Any) -> None:
        query = update.callback_query
        assert query is not None
        await query.answer("ok")
        await query.edit_message_text(f"<i>{query.data} by {query.from_user.id}</i>", parse_mode="HTML")

    async def take_document(self, update: Update, _: Any) -> None:
        message = update.effective_message
        assert message is not None
        assert message.document is not None
        file = await message.document.get_file()
        self.seen.files.append(bytes(await file.download_as_bytearray()))
        await message.reply_document(self.seen.files[-1], filename="back.bin", caption="<u>back</u>", parse_mode="HTML")

    async def take_photo(self, update: Update, _: Any) -> None:
        assert update.message is not None
        self.seen.albums.append(update.message.media_group_id or "")

    async def note(self, update: Update, _: Any) -> None:
        assert update.message is not None
        self.seen.texts.append(f"{update.message.message_thread_id}:{update.message.text}")

    async def note_edit(self, update: Update, _: Any) -> None:
        assert update.edited_message is not None
        self.seen.edits.append(update.edited_message.text or "")

    async def reacted(self, update: Update, _: Any) -> None:
        assert update.message_reaction is not None
        self.seen.reactions += [one.emoji for one in update.message_reaction.new_reaction]  # type: ignore[attr-defined]


@pytest.fixture(params=[AiogramPeer, PtbPeer], ids=["aiogram", "python-telegram-bot"])
async def peer(request: pytest.FixtureRequest, emulator: TelegramEmulator) -> AsyncIterator[Peer]:
    """A running bot of either vendor, polling."""
    made = request.param()
    await made.start(emulator.url)
    await emulator.wait_for(emulator.polls)
    yield made
    await made.stop()
    emulator.assert_clean()


def last_of_bot(emulator: TelegramEmulator, chat: int, count: int) -> Any:
    """The newest message of the bot once it has written that many."""
    own = [one for one in emulator.messages(chat) if one.get("from", {}).get("id") == 42]
    return own[-1] if len(own) >= count else None


async def test_greeting_button_and_edit(emulator: TelegramEmulator, peer: Peer) -> None:
    """A command is answered as a reply with entities and a button; the press is answered and the message edited."""
    said = await emulator.start_bot(ALICE)
    greeting = await emulator.wait_for(lambda: last_of_bot(emulator, ALICE, 1))
    assert (greeting["text"], greeting["entities"]) == ("Hi & welcome", [{"type": "bold", "offset": 0, "length": 2}])
    assert greeting["reply_to_message"]["message_id"] == said["message_id"]
    pressed = await emulator.press(ALICE, greeting["message_id"], button="Go")
    await emulator.wait_for(lambda: "edit_date" in emulator.messages(ALICE)[-1])
    edited = emulator.messages(ALICE)[-1]
    assert (edited["text"], "reply_markup" in edited) == ("go:1 by 7", False)
    answer = await emulator.answer(pressed["id"])
    assert answer is not None
    assert answer["text"] == "ok"


async def test_topics_edits_and_reactions_are_understood(emulator: TelegramEmulator, peer: Peer) -> None:
    """Messages of a topic carry its id, edits and reactions come as their own kinds."""
    topic = await emulator.create_topic(ALICE, "Plans", chat=FORUM)
    thread = topic["message_thread_id"]
    said = await emulator.say(ALICE, "in it", chat=FORUM, thread=thread)
    await emulator.say(ALICE, "outside", chat=FORUM)
    await emulator.edit(ALICE, said["message_id"], "changed", chat=FORUM)
    await emulator.react(ALICE, said["message_id"], "👍", chat=FORUM)
    expected = Seen(texts=[f"{thread}:in it", "None:outside"], edits=["changed"], reactions=["👍"])
    await emulator.wait_for(lambda: peer.seen == expected)


async def test_files_go_both_ways(emulator: TelegramEmulator, peer: Peer) -> None:
    """A document is downloaded and comes back byte for byte; an album arrives as two messages of one group."""
    content = bytes(range(256)) * 64
    await emulator.upload(ALICE, content, file_name="a.bin")
    returned = await emulator.wait_for(lambda: last_of_bot(emulator, ALICE, 1))
    assert peer.seen.files == [content]
    assert (returned["document"]["file_size"], returned["caption"]) == (len(content), "back")
    await emulator.album(ALICE, [("photo", b"1"), ("photo", b"2")])
    await emulator.wait_for(lambda: len(peer.seen.albums) == 2)
    assert len(set(peer.seen.albums)) == 1


async def test_peer_survives_what_goes_wrong(emulator: TelegramEmulator, peer: Peer) -> None:
    """After a broken poll, a cut connection and a conflict the peer polls on and has lost nothing."""
    emulator.fault("getUpdates", FaultKind.SERVER_ERROR, status=500)
    emulator.disconnect()
    await emulator.say(ALICE, "one")
    await emulator.wait_for(lambda: peer.seen.texts == ["None:one"])
    await emulator.wait_for(emulator.polls)
    emulator.conflict()
    await emulator.say(ALICE, "two")
    await emulator.wait_for(lambda: peer.seen.texts == ["None:one", "None:two"], timeout=20)


# -- aiogram: methods and errors


async def test_send_and_edit_with_everything(emulator: TelegramEmulator, bot: Bot) -> None:
    """Entities, previews, replies, styles, disabled buttons and topics pass through aiogram without a violation."""
    topic = await bot.create_forum_topic(FORUM, "Run")
    said = await emulator.say(ALICE, "ask", chat=FORUM, thread=topic.message_thread_id)
    keyboard = types.InlineKeyboardMarkup(
        inline_keyboard=[
            [types.InlineKeyboardButton(text="Approve", callback_data="a", style="success")],
            [types.InlineKeyboardButton(text="Old", disabled=types.DisabledButton())],
        ]
    )
    sent = await bot.send_message(
        FORUM,
        "😀 code https://a.example",
        entities=[types.MessageEntity(type="code", offset=3, length=4)],
        message_thread_id=topic.message_thread_id,
        reply_parameters=types.ReplyParameters(message_id=said["message_id"], allow_sending_without_reply=True),
        link_preview_options=types.LinkPreviewOptions(is_disabled=True),
        disable_notification=True,
        reply_markup=keyboard,
    )
    assert [(one.type, one.offset, one.length) for one in sent.entities or []] == [("code", 3, 4), ("url", 8, 17)]
    assert sent.message_thread_id == topic.message_thread_id
    edited = await bot.edit_message_text(
        "done",
        chat_id=FORUM,
        message_id=sent.message_id,
        link_preview_options=types.LinkPreviewOptions(is_disabled=True),
    )
    assert isinstance(edited, types.Message)
    assert all(call.params["link_preview_options"] == {"is_disabled": True} for call in emulator.sends)
    await bot.edit_message_reply_markup(chat_id=FORUM, message_id=sent.message_id, reply_markup=keyboard)
    await bot.set_message_reaction(FORUM, said["message_id"], [types.ReactionTypeEmoji(emoji="👀")])
    await bot.send_chat_action(FORUM, "typing", message_thread_id=topic.message_thread_id)
    await bot.edit_forum_topic(FORUM, topic.message_thread_id, name="Run ✓")
    await bot.close_forum_topic(FORUM, topic.message_thread_id)
    await bot.delete_message(FORUM, sent.message_id)
    await bot.delete_forum_topic(FORUM, topic.message_thread_id)
    emulator.assert_clean()


async def test_account_methods(emulator: TelegramEmulator, bot: Bot) -> None:
    """getMe, commands, chat look-ups and files parse into aiogram's own types."""
    me = await bot.get_me()
    assert (me.id, me.has_topics_enabled, me.can_read_all_group_messages) == (42, True, False)
    commands = [types.BotCommand(command="stop", description="Stop")]
    scope = types.BotCommandScopeAllPrivateChats()
    await bot.set_my_commands(commands, scope=scope, language_code="de")
    assert [one.command for one in await bot.get_my_commands(scope=scope, language_code="de")] == ["stop"]
    await bot.delete_my_commands(scope=scope, language_code="de")
    chat = await bot.get_chat(FORUM)
    member = await bot.get_chat_member(FORUM, 42)
    assert (chat.is_forum, member.status) == (True, "administrator")
    sent = await bot.send_document(ALICE, types.BufferedInputFile(b"x" * 5000, "r.txt"), caption="c")
    assert sent.document is not None
    buffer = io.BytesIO()
    await bot.download(sent.document, buffer)
    assert buffer.getvalue() == b"x" * 5000
    album = await bot.send_media_group(
        ALICE,
        [types.InputMediaDocument(media=types.BufferedInputFile(name.encode(), f"{name}.txt")) for name in "ab"],
    )
    assert len({one.media_group_id for one in album}) == 1
    emulator.assert_clean()


async def test_drafts_and_native_stop(emulator: TelegramEmulator, bot: Bot) -> None:
    """Drafts grow, the app's Stop reaches the bot with the draft's number, the final message ends the draft."""
    for text in ("", "Hel", "Hello <b>w</b>"):
        await bot.send_message_draft(ALICE, 5, text=text, parse_mode="HTML", can_stop=True, keep_on_stop=True)
    (draft,) = emulator.drafts(ALICE)
    assert (draft["draft_id"], draft["text"]) == (5, "Hello w")
    await emulator.stop_generation(ALICE, 5)
    (update,) = await bot.get_updates(allowed_updates=["stopped_message_generation"])
    assert update.stopped_message_generation is not None
    assert update.stopped_message_generation.draft_id == 5
    await bot.send_message_draft(ALICE, 6, text="x")
    await bot.send_message(ALICE, "final")
    assert emulator.drafts(ALICE) == []
    emulator.assert_clean()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": FaultKind.RATE_LIMIT, "retry_after": 3}, TelegramRetryAfter),
        ({"kind": FaultKind.SERVER_ERROR, "status": 502}, TelegramServerError),
        ({"kind": FaultKind.SERVER_ERROR, "status": 502, "applied": True}, TelegramServerError),
        ({"kind": FaultKind.DROP}, TelegramNetworkError),
        ({"kind": FaultKind.DROP, "applied": True}, TelegramNetworkError),
        (
            {
                "kind": FaultKind.REFUSE,
                "status": 400,
                "description": "Bad Request: group chat was upgraded to a supergroup chat",
                "parameters": {"migrate_to_chat_id": -100999},
            },
            TelegramMigrateToChat,
        ),
        (
            {"kind": FaultKind.REFUSE, "status": 403, "description": "Forbidden: bot was blocked by the user"},
            TelegramForbiddenError,
        ),
    ],
)
async def test_faults_become_the_clients_errors(
    emulator: TelegramEmulator, bot: Bot, fault: dict[str, Any], error: type[Exception]
) -> None:
    """Each fault is the exception that aiogram has for it; what was applied is in the chat although the call failed."""
    emulator.fault("sendMessage", **fault)
    with pytest.raises(error) as caught:
        await bot.send_message(ALICE, "x")
    assert len(emulator.messages(ALICE)) == int(fault.get("applied", False))
    if isinstance(caught.value, TelegramRetryAfter):
        assert caught.value.retry_after == 3
    if isinstance(caught.value, TelegramMigrateToChat):
        assert caught.value.migrate_to_chat_id == -100999
    await bot.send_message(ALICE, "y")
    assert emulator.messages(ALICE)[-1]["text"] == "y"


async def test_refusals_become_the_clients_errors(emulator: TelegramEmulator, bot: Bot) -> None:
    """The platform's refusals arrive with their words."""
    for text, message in (
        ("<b>bad", "Can't find end tag"),
        ("x" * 4097, "message is too long"),
    ):
        with pytest.raises(TelegramBadRequest, match=message):
            await bot.send_message(ALICE, text, parse_mode="HTML")
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await bot.send_message(99, "x")
    with pytest.raises(TelegramBadRequest, match="query is too old"):
        await bot.answer_callback_query("1")
    stranger = connect(emulator, "43:AAOtherTokenForTests-0123456789abcde")
    with pytest.raises(TelegramUnauthorizedError):
        await stranger.get_me()
    await stranger.session.close()


async def test_second_poller_is_a_conflict(emulator: TelegramEmulator, bot: Bot) -> None:
    """Of two bots that poll with one token the earlier gets TelegramConflictError, the later the updates."""
    other = connect(emulator)
    first = asyncio.create_task(bot.get_updates(timeout=20))
    await emulator.wait_for(emulator.polls)
    second = asyncio.create_task(other.get_updates(offset=1, timeout=20))
    with pytest.raises(TelegramConflictError, match="terminated by other getUpdates"):
        await first
    await emulator.say(ALICE, "for the second")
    assert [one.message.text for one in await second if one.message] == ["for the second"]
    await other.session.close()


async def test_backlog_waits_for_the_bot_to_come_back(emulator: TelegramEmulator) -> None:
    """Messages written while no bot runs, and those that a dead bot had not confirmed, reach the next one."""
    first = connect(emulator)
    await emulator.say(ALICE, "before")
    (seen,) = await first.get_updates()
    await first.session.close()
    await emulator.say(ALICE, "meanwhile")
    second = connect(emulator)
    updates = await second.get_updates(offset=seen.update_id)
    assert [one.message.text for one in updates if one.message] == ["before", "meanwhile"]
    await second.session.close()


@pytest.fixture
async def webhook(emulator: TelegramEmulator, bot: Bot) -> AsyncIterator[tuple[str, list[str]]]:
    """aiogram's own webhook handler with a secret, and the texts that it handled."""
    texts: list[str] = []
    dispatcher = Dispatcher()

    @dispatcher.message()
    async def note(message: types.Message) -> TelegramMethod[Any]:
        texts.append(message.text or "")
        return message.answer(f"got {message.text}")

    app = web.Application()
    SimpleRequestHandler(dispatcher, bot, secret_token="s3cret", handle_in_background=False).register(app, path="/hook")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", texts
    await runner.cleanup()


async def test_webhook_with_secret(emulator: TelegramEmulator, bot: Bot, webhook: tuple[str, list[str]]) -> None:
    """aiogram's webhook handler gets updates, and its multipart answer is executed as a call."""
    url, texts = webhook
    await bot.set_webhook(url, secret_token="s3cret", allowed_updates=["message"])
    await emulator.say(ALICE, "hi")
    await emulator.wait_for(lambda: last_of_bot(emulator, ALICE, 1))
    assert texts == ["hi"]
    assert emulator.messages(ALICE)[-1]["text"] == "got hi"
    assert (await bot.get_webhook_info()).pending_update_count == 0
    with pytest.raises(TelegramConflictError, match="webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    emulator.assert_clean()


async def test_webhook_with_the_wrong_secret(
    emulator: TelegramEmulator, bot: Bot, webhook: tuple[str, list[str]]
) -> None:
    """A handler that expects another secret refuses; the update stays pending and comes when the secret is right."""
    url, texts = webhook
    await bot.set_webhook(url, secret_token="wrong", allowed_updates=["message"])
    await emulator.say(ALICE, "hi")
    refused = "Wrong response from the webhook: 401 Unauthorized"
    async with asyncio.timeout(30):
        while (await bot.get_webhook_info()).last_error_message != refused:
            await asyncio.sleep(0)
    assert texts == []
    await emulator.advance(1)
    await bot.set_webhook(url, secret_token="s3cret")
    await emulator.wait_for(lambda: last_of_bot(emulator, ALICE, 1))
    assert texts == ["hi"]


def test_table_knows_what_aiogram_sends() -> None:
    """Every parameter that aiogram has for a method of the emulator is in the table, but for those it marks as old."""
    models = {name.lower(): model for name, model in vars(aiogram.methods).items()}
    unknown: list[str] = []
    for name in HANDLERS:
        method = bot_api().method(name)
        assert method is not None
        for parameter, model_field in models[name].model_fields.items():
            extra = model_field.json_schema_extra
            old = isinstance(extra, dict) and extra.get("deprecated")
            if parameter not in method.fields and not old:
                unknown.append(f"{method.name}.{parameter}")
    assert unknown == []
