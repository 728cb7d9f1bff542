"""The Telegram adapter: life cycle and the contract's methods. What requests look like is `outbound`'s business."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from adapters.contract import (
    Acknowledgement,
    Capabilities,
    Diagnosis,
    Environment,
    File,
    Form,
    Health,
    Inbound,
    InboundFile,
    InboundKind,
    Intake,
    MessageRef,
    Notice,
    Place,
    Reaction,
    Sent,
    Stream,
    Text,
    View,
)
from adapters.errors import (
    AdapterError,
    BadCredentials,
    MarkupRefused,
    NotConnected,
    OutcomeUnknown,
    Refused,
    TargetGone,
)
from adapters.telegram import inbound, outbound
from adapters.telegram.connection import DOWNLOAD_LIMIT, UPLOAD_LIMIT, Connection
from adapters.telegram.diagnosis import diagnose
from adapters.telegram.forms import question, question_of
from adapters.telegram.markup import MESSAGE_UNITS, TelegramMarkup
from adapters.telegram.outbound import Request
from adapters.telegram.payload import Payload, a_text, an_id, an_object, objects
from adapters.telegram.polling import Polling
from adapters.telegram.refusals import is_shown_already, is_too_late
from adapters.telegram.settings import Settings
from adapters.telegram.texts import number
from adapters.telegram.webhook import Webhook
from adapters.telegram.words import Me

TOPIC_NAME_LENGTH = 128


class TelegramAdapter:
    """One bot. Nothing is opened before `start` or `diagnose`, so it can be made outside of an event loop."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._markup = TelegramMarkup()
        self._me = Me(id=int(settings.token.partition(":")[0]), username="")
        self._connection: Connection | None = None
        self._way_in: Polling | Webhook | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def platform(self) -> str:
        """`telegram`."""
        return inbound.PLATFORM

    @property
    def account(self) -> str:
        """The bot's id."""
        return self._me.account

    @property
    def capabilities(self) -> Capabilities:
        """What Telegram can do, as far as this adapter uses it.

        One message a second and twenty a minute to a group are the server's guidance; edits count
        (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
        """
        return Capabilities(
            edit_interval=1.1,
            native_stream="draft" if self._settings.drafts else "none",
            threads="topic",
            can_create_thread=self._settings.create_topics,
            ephemeral="press",
            forms=True,
            button_styles=True,
            max_text=MESSAGE_UNITS,
            text_unit="utf16",
            reactions=True,
            file_limits=(DOWNLOAD_LIMIT, UPLOAD_LIMIT),
            sends_per_second=1.0,
            sends_per_minute=20,
        )

    @property
    def markup(self) -> TelegramMarkup:
        """Telegram's text."""
        return self._markup

    @property
    def health(self) -> Health:
        """Whether updates arrive."""
        return Health(state="stopped") if self._way_in is None else self._way_in.health

    # ----------------------------------------------------------------------------------------------------- life cycle

    async def start(self, intake: Intake) -> None:
        """Check the token, set the menu of commands if it changed, and poll or be called; see the contract."""
        if self._task is not None:
            raise RuntimeError("the adapter runs already")
        connection = Connection(self._settings)
        try:
            self._me = await _identity(connection)
            commands = self._settings.commands
            await _set_commands(connection, (self._environment.commands or None) if commands is None else commands)
            way_in = await self._way(connection, intake)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self._way_in = way_in
        self._task = asyncio.create_task(way_in.run(), name=f"telegram {self.account}")

    async def _way(self, connection: Connection, intake: Intake) -> Polling | Webhook:
        if self._settings.mode == "webhook":
            webhook = Webhook(connection, self._read, intake, self._environment, self._settings)
            await webhook.open()
            return webhook
        return Polling(
            connect=lambda: Connection(self._settings),
            read=self._read,
            intake=intake,
            environment=self._environment,
            seconds=self._settings.poll_seconds,
        )

    def _read(self, update: Payload) -> Inbound:
        return inbound.read(update, self._me)

    async def stop(self) -> None:
        """Take nothing in any more; what is being stored is finished first. If cancelled, it is not."""
        task, self._task = self._task, None
        connection, self._connection = self._connection, None
        try:
            if task is not None and self._way_in is not None:
                self._way_in.stop()
                await _ended(task)
        finally:
            if connection is not None:
                await connection.close()

    async def diagnose(self) -> Sequence[Diagnosis]:
        """What stands in the way of this bot; takes up to a few seconds. BadCredentials, NotConnected."""
        connection = Connection(self._settings)
        try:
            return await diagnose(connection, await _who(connection), self._settings)
        finally:
            await connection.close()

    # ------------------------------------------------------------------------------------------------------------ out

    async def send(self, place: Place, view: View, key: str, attempt: int) -> Sent:
        """Show a view. Telegram has no keys for sends: after OutcomeUnknown it may be there."""
        request = await self._request(place, view)
        try:
            result = await self._call(request)
        except MarkupRefused:
            simple = outbound.plain(request, view)
            if simple is None:
                raise
            result = await self._call(simple)
        except TargetGone as error:
            if isinstance(view, Reaction) and error.moved_to is None:
                raise Refused(str(error)) from None  # the message may be gone without the chat being so
            raise
        number = an_id(an_object(result).get("message_id"))
        return Sent(refs=(self._ref(place, number),)) if number else Sent()

    async def _request(self, place: Place, view: View) -> Request:
        if isinstance(view, File):
            return outbound.file(place, view, await self._environment.content(view.sha256))
        if isinstance(view, Stream) and not self._settings.drafts:
            raise Refused("drafts are not shown (telegram.drafts is false): send an Answer")
        return outbound.send(place, view)

    def _ref(self, place: Place, number: str) -> MessageRef:
        return MessageRef(platform=self.platform, account=self.account, chat=place.chat, id=number, thread=place.thread)

    async def edit(self, ref: MessageRef, view: View) -> None:
        """Make a message show a view; doing it again does no harm."""
        request = outbound.edit(ref, view)
        try:
            await self._call(request)
        except MarkupRefused:
            simple = outbound.plain(request, view)
            if simple is None:
                raise
            await self._call(simple)
        except Refused as error:
            if not is_shown_already(error):
                raise

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Answer a press. What was filled in by a message has no press to answer: words go into the chat."""
        if press.handle is not None:
            words = (answer.text, answer.alert) if isinstance(answer, Text) else ("", False)
            await self._answer(outbound.alert(press.handle, words[0], is_alert=words[1]))
        elif isinstance(answer, Text) and press.place.chat:
            await self._call(outbound.send(press.place, Notice(text=answer.text, reply_to=press.ref)))
        if isinstance(answer, Form) and press.place.chat:
            await self._call(question(press, answer, self._me))
        elif isinstance(answer, Text) and not answer.alert:
            await self._tidy(press)

    async def _tidy(self, form: Inbound) -> None:
        """Take a question that was answered away. That it stays does no harm, so nothing depends on it."""
        asked = question_of(form) if form.kind is InboundKind.FORM else None
        if asked is not None:
            with suppress(AdapterError):
                await self._call(outbound.delete(asked))

    async def _answer(self, request: Request) -> None:
        try:
            await self._call(request)
        except AdapterError as error:
            if not is_too_late(error):
                raise

    async def open_thread(self, place: Place, title: str, key: str, root: MessageRef | None = None) -> Place:
        """A topic, where the settings allow it. Telegram has no keys: after OutcomeUnknown it may be there."""
        if not self._settings.create_topics:
            raise Refused("topics are not opened; telegram.create_topics = true allows it")
        name = " ".join(title.split())[:TOPIC_NAME_LENGTH] or "Topic"
        fields = {"chat_id": number(place.chat, "chat"), "name": name}
        made = an_object(await self._call(Request(method="createForumTopic", fields=fields)))
        thread = an_id(made.get("message_thread_id"))
        if not thread:
            raise OutcomeUnknown("a topic was opened, and Telegram did not say which")
        return Place(platform=self.platform, account=self.account, chat=place.chat, thread=thread, person=place.person)

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """Nothing: bots cannot read history, and what was missed is in the server's queue for a day."""
        return ()

    def open_file(self, file: InboundFile) -> AsyncGenerator[bytes]:
        """The content of a file that came, in pieces. Count them: the size that was told need not be true."""
        return self._open().download(file.id)

    async def _call(self, request: Request) -> Any:
        return await self._open().call(request)

    def _open(self) -> Connection:
        if self._connection is None:
            raise NotConnected("the Telegram adapter is not started")
        return self._connection


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for the task; if nobody wants to wait any more, end it first."""
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


async def _who(connection: Connection) -> Payload:
    try:
        return an_object(await connection.call(Request(method="getMe", fields={})))
    except OutcomeUnknown as error:
        raise NotConnected(str(error)) from None
    except BadCredentials:
        raise BadCredentials("Telegram does not know this token: ask @BotFather for it (/token)") from None
    except Refused as error:
        raise BadCredentials(f"no bot answers under this token and api_base: {error}") from None


async def _identity(connection: Connection) -> Me:
    user = await _who(connection)
    return Me(id=int(an_id(user.get("id")) or 0), username=a_text(user.get("username")))


async def _set_commands(connection: Connection, wanted: Mapping[str, str] | None) -> None:
    """Set the menu if it differs. The bot works without it, so a failure is no reason not to start."""
    if wanted is None:
        return
    commands = [{"command": name, "description": text} for name, text in wanted.items()]
    try:
        now = objects(await connection.call(Request(method="getMyCommands", fields={})))
        if [(one.get("command"), one.get("description")) for one in now] != list(wanted.items()):
            await connection.call(Request(method="setMyCommands", fields={"commands": commands}))
    except AdapterError:
        return
