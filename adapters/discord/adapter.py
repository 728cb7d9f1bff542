"""The Discord adapter: life cycle and the contract's methods. What requests look like is `outbound`'s business."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from adapters.contract import (
    Acknowledgement,
    Answer,
    ApprovalCard,
    Capabilities,
    Diagnosis,
    Document,
    Environment,
    File,
    Health,
    Inbound,
    InboundFile,
    Intake,
    MessageRef,
    Notice,
    Place,
    Private,
    Reaction,
    Sent,
    Stream,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
)
from adapters.discord import attachments, commands, interactions, outbound
from adapters.discord.connection import Connection
from adapters.discord.diagnosis import diagnose
from adapters.discord.inbound import PLATFORM
from adapters.discord.limits import MAX_FILE_BYTES, MAX_TEXT
from adapters.discord.listening import Listening
from adapters.discord.markup import DiscordMarkup
from adapters.discord.outbound import Message, Request
from adapters.discord.payload import an_id, an_object, objects
from adapters.discord.posting import already_there
from adapters.discord.refusals import UNKNOWN_CHANNEL, code_of, is_about_components, is_too_late
from adapters.discord.settings import Settings
from adapters.discord.threads import Threads
from adapters.discord.words import Me
from adapters.errors import AdapterError, NotConnected, OutcomeUnknown, Refused, TargetGone

log = logging.getLogger("pilothouse.discord")

REMEMBERED = 1000


class DiscordAdapter:
    """One bot. Nothing is opened before `start` or `diagnose`, so it can be made outside of an event loop."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._markup = DiscordMarkup()
        self._me = Me(id="")
        self._connection: Connection | None = None
        self._listening: Listening | None = None
        self._task: asyncio.Task[None] | None = None
        self._threads = Threads(self._call, environment.now_ms)
        self._marks: OrderedDict[str, str] = OrderedDict()
        self._sent: OrderedDict[str, str] = OrderedDict()

    @property
    def platform(self) -> str:
        """`discord`."""
        return PLATFORM

    @property
    def account(self) -> str:
        """The bot's user id."""
        return self._me.id

    @property
    def capabilities(self) -> Capabilities:
        """What Discord can do, as far as this adapter uses it.

        About five messages and edits in five seconds are taken in a channel; the exact numbers come with each answer,
        and the client keeps to them. There is no stream: a card is edited instead.
        """
        return Capabilities(
            edit_interval=1.2,
            threads="thread",
            can_create_thread=True,
            can_rename_thread=True,
            ephemeral="press",
            forms=True,
            button_styles=True,
            max_text=MAX_TEXT,
            text_unit="utf16",
            reactions=True,
            idempotent_send="nonce",
            history_backfill=True,
            file_limits=(MAX_FILE_BYTES, MAX_FILE_BYTES),
            sends_per_second=1.0,
            sends_per_minute=60,
        )

    @property
    def markup(self) -> DiscordMarkup:
        """Discord's text."""
        return self._markup

    @property
    def health(self) -> Health:
        """Whether events arrive."""
        return Health(state="stopped") if self._listening is None or self._task is None else self._listening.health

    # ----------------------------------------------------------------------------------------------------- life cycle

    async def start(self, intake: Intake) -> None:
        """Check the token, set the menu of commands if it changed, and listen; see the contract."""
        if self._task is not None:
            raise RuntimeError("the adapter runs already")
        connection = Connection(self._settings, self._environment.sleep)
        listening = Listening(connection, intake, self._environment)
        try:
            self._me = await _opened(listening)
            self._connection = connection
            await self._set_commands(self._environment.commands)
            self._task = asyncio.create_task(listening.run(), name=f"discord {self.account}")
            await self._until_ready(listening)
        except BaseException:
            self._listening = listening
            await self.stop()
            raise
        self._listening = listening

    async def _until_ready(self, listening: Listening) -> None:
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                await listening.ready.wait()
        except TimeoutError:
            detail = listening.health.detail or "it says nothing"
            raise NotConnected(f"the gateway of Discord gives us no messages: {detail}") from None

    async def stop(self) -> None:
        """Take nothing in any more. What was received and not stored is in the history of its channel."""
        task, self._task = self._task, None
        listening, self._listening = self._listening, None
        connection, self._connection = self._connection, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if listening is not None:
            await listening.stop()
        if connection is not None:
            await connection.close()

    async def diagnose(self) -> Sequence[Diagnosis]:
        """What stands in the way of this bot; takes up to a few seconds. BadCredentials, NotConnected."""
        connection = Connection(self._settings, self._environment.sleep)
        listening = Listening(connection, _nothing, self._environment)
        try:
            return await diagnose(connection, await _opened(listening))
        finally:
            await connection.close()

    async def _set_commands(self, menu: Mapping[str, str]) -> None:
        """Set the menu if it differs. The bot works without it, so a failure is no reason not to start."""
        if not menu:
            return
        path, ids = "/applications/{application_id}/commands", {"application_id": self._me.application}
        wanted = commands.wanted(menu)
        try:
            there = objects(await self._call(Request(verb="GET", path=path, ids=ids)))
            if not commands.are_as(there, wanted):
                await self._call(Request(verb="PUT", path=path, ids=ids, body=wanted))
        except AdapterError as error:
            log.warning("the menu of commands could not be set: %s", error)

    # ------------------------------------------------------------------------------------------------------------ out

    async def send(self, place: Place, view: View, key: str, attempt: int) -> Sent:
        """Show a view; under one key once, also if it is sent again much later."""
        outbound.snowflake(place.chat, "channel")
        match view:
            case Stream():
                raise Refused("streams are not offered (native_stream is none): send an Answer")
            case Private():
                raise Refused("Discord shows words to one person only in answer to a press")
            case ThreadStatus():
                await self._threads.rename(place, view.title)
                return Sent()
            case Reaction():
                await self._mark(view)
                return Sent()
            case Typing():
                await self._threads.within(place, lambda channel: self._call(outbound.typing(channel)))
                return Sent()
            case File():
                made = outbound.upload(view, await self._environment.content(view.sha256))
            case TurnCard() | Verbatim() | ApprovalCard() | Answer() | Notice() | Document():
                made = outbound.message(view)
        number = await self._threads.within(place, lambda channel: self._post(place, channel, made, key, attempt))
        return Sent(refs=(self._ref(place, number),))

    def _ref(self, place: Place, number: str) -> MessageRef:
        return MessageRef(platform=self.platform, account=self.account, chat=place.chat, id=number, thread=place.thread)

    async def _post(self, place: Place, channel: str, made: Message, key: str, attempt: int) -> str:
        reply_to = await self._reply_to(place, channel, made.reply_to)
        request = outbound.create(channel, made, key, reply_to=reply_to)
        if attempt > 1:
            history = objects(await self._call(outbound.history(channel)))
            if there := already_there(history, request, self._me.id, key, self._sent):
                return there
        number = an_id(an_object(await self._call(request)).get("id"))
        if not number:
            raise OutcomeUnknown("a message was made, and Discord did not say which")
        self._sent[number] = key
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        return number

    async def _reply_to(self, place: Place, channel: str, ref: MessageRef | None) -> str | None:
        """The message that is answered, if it stands in this channel: replies do not reach into another one."""
        if ref is not None and await self._home(ref) == channel:
            return ref.id
        is_beside_its_thread = place.thread is not None and channel == place.chat
        return place.thread if is_beside_its_thread else None

    async def _home(self, ref: MessageRef) -> str:
        """The channel in which a message stands. The one on which a thread was opened stands in the parent."""
        if ref.thread is None:
            return ref.chat
        if ref.id != ref.thread or self._listening is None:
            return self._threads.channel_of(ref.chat, ref.thread)
        parent = await self._listening.channel(ref.chat)
        return ref.thread if parent.kind == "forum" else ref.chat

    async def edit(self, ref: MessageRef, view: View) -> None:
        """Make a message show a view; doing it again does no harm."""
        made = outbound.changed(view)
        try:
            await self._edit(ref, made)
        except Refused as error:
            if not (is_about_components(error) and isinstance(view, Answer | Notice)):
                raise
            await self._edit(ref, outbound.changed_card(view))

    async def _edit(self, ref: MessageRef, made: Message) -> None:
        """Where a thread could not be opened, our messages stand in its parent."""
        home = await self._home(ref)
        try:
            await self._threads.awake(home, lambda: self._call(outbound.edit(home, ref.id, made)))
        except TargetGone as error:
            if code_of(error) != UNKNOWN_CHANNEL or home == ref.chat:
                raise
            await self._call(outbound.edit(ref.chat, ref.id, made))

    async def _mark(self, view: Reaction) -> None:
        """Set the one mark that a message has of ours, and take the former ones away."""
        channel, wanted = await self._home(view.ref), outbound.MARKS[view.mark]
        former = outbound.marks_to_remove(view, self._marks.get(view.ref.id))
        try:
            if wanted:
                await self._call(outbound.mark(channel, view.ref.id, wanted, there=True))
            for emoji in former:
                with suppress(Refused):
                    await self._call(outbound.mark(channel, view.ref.id, emoji, there=False))
        except TargetGone as error:
            raise Refused(str(error)) from None  # the message may be gone without the chat being so
        self._marks[view.ref.id] = wanted
        while len(self._marks) > REMEMBERED:
            self._marks.popitem(last=False)

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Give the one answer to a press, a form or a command of the menu, within three seconds of it."""
        parts = interactions.parts_of(press.handle or "")
        if parts is None:
            return
        kind, number, token = parts
        try:
            await self._call(outbound.callback(number, token, interactions.callback(kind, answer)))
        except AdapterError as error:
            if not is_too_late(error):
                raise

    # ---------------------------------------------------------------------------------------------- threads, history

    async def open_thread(self, place: Place, title: str, key: str, root: MessageRef | None = None) -> Place:
        """A thread in the place's channel: on `root`, or on a message of ours that is made once under the key."""
        outbound.snowflake(place.chat, "channel")
        number = root.id if root is not None else None
        if number is None:
            made = outbound.message(Notice(text=title.strip() or "Conversation"))
            number = await self._post(place, place.chat, made, key, 1)
        await self._threads.open(place.chat, number, title)
        return Place(platform=self.platform, account=self.account, chat=place.chat, thread=number, person=place.person)

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """What people said in a thread or channel after a message, oldest first, also in an archived one.

        Without `since` the last 100 messages. A thread that is not opened yet has none.
        """
        listening = self._running()
        channel = place.thread or place.chat
        outbound.snowflake(channel, "channel")
        if since is not None:
            listening.stored_up_to(channel, since.id)
        try:
            return await listening.history(channel, since.id if since else None)
        except TargetGone as error:
            if code_of(error) == UNKNOWN_CHANNEL and place.thread is not None:
                return ()
            raise

    async def open_file(self, file: InboundFile) -> AsyncGenerator[bytes]:
        """The content of a file that came, in pieces. Count them: the size that was told need not be true."""
        connection = self._open()
        parts = attachments.parts_of(file.id)
        if parts is None:
            raise Refused("this is no file of Discord's")
        channel, number, attachment = parts
        try:
            message = an_object(await self._call(outbound.fetch(channel, number)))
        except TargetGone as error:
            raise Refused(str(error)) from None
        address = attachments.address_of(message, attachment)
        if not address:
            raise Refused("the file is gone from its message")
        async for piece in connection.download(address):
            yield piece

    async def _call(self, request: Request) -> Any:
        return await self._open().call(request)

    def _open(self) -> Connection:
        if self._connection is None:
            raise NotConnected("the Discord adapter is not started")
        return self._connection

    def _running(self) -> Listening:
        if self._listening is None:
            raise NotConnected("the Discord adapter is not started")
        return self._listening


async def _nothing(inbound: Inbound) -> None:
    """Takes nothing: nobody listens while an account is examined."""


async def _opened(listening: Listening) -> Me:
    try:
        return await listening.open()
    except OutcomeUnknown as error:
        raise NotConnected(str(error)) from None
