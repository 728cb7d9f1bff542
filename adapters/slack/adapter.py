"""The Slack adapter: life cycle and the contract's methods. What requests look like is `outbound`'s business."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from adapters.contract import (
    Acknowledgement,
    Capabilities,
    Diagnosis,
    Document,
    Environment,
    File,
    Form,
    Health,
    Inbound,
    InboundFile,
    InboundKind,
    Intake,
    MessageRef,
    Place,
    Private,
    Reaction,
    SenderKind,
    Sent,
    Stream,
    Text,
    ThreadStatus,
    TurnCard,
    Typing,
    View,
)
from adapters.errors import AdapterError, MarkupRefused, NotConnected, OutcomeUnknown, Refused, TargetGone
from adapters.payload import Payload, a_text, an_object
from adapters.slack import outbound
from adapters.slack.bolt import bolt_app
from adapters.slack.connection import FILE_LIMIT, Connection
from adapters.slack.diagnosis import diagnose
from adapters.slack.door import Door
from adapters.slack.forms import view_of
from adapters.slack.history import History
from adapters.slack.http_events import HttpEvents
from adapters.slack.identity import NOBODY, PLATFORM
from adapters.slack.markup import PART_UNITS, SlackMarkup
from adapters.slack.names import Names
from adapters.slack.outbound import Request
from adapters.slack.refusals import LATE_TRIGGER, NOT_AN_AGENT, STREAMING, code_of
from adapters.slack.segments import BUDGET_BYTES, LIFE_MS
from adapters.slack.sessions import Sessions
from adapters.slack.settings import Settings
from adapters.slack.socket import Socket
from adapters.slack.streaming import Streams
from adapters.slack.texts import Spoken, short
from adapters.slack.watch import Watch
from adapters.slack.whoami import who_we_are
from adapters.slack.words import escaped, unlinked

log = logging.getLogger("pilothouse.slack")

REMEMBERED = 1000
DEGRADED_MS = 86_400_000
"""How long something that a workspace refused is not tried again."""
MAX_ROOT = 200
TITLE_CHANGED = "agent_session_title_changed"
Key = TypeVar("Key")
Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(kw_only=True)
class _Open:
    """What exists between `start` and `stop`."""

    connection: Connection
    door: Door
    watch: Watch
    sessions: Sessions
    streams: Streams
    history: History
    task: asyncio.Task[None] | None = None


class SlackAdapter:
    """One app in one workspace or organisation. Nothing is opened before `start` or `diagnose`."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._markup = SlackMarkup()
        self._me = NOBODY
        self._open: _Open | None = None
        self._former = Health(state="stopped")
        self._refused_at_ms: dict[str, int] = {}
        self._marks: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._last_said: OrderedDict[str, Inbound] = OrderedDict()

    @property
    def platform(self) -> str:
        """`slack`."""
        return PLATFORM

    @property
    def account(self) -> str:
        """App and workspace, or app and organisation; empty before the first start."""
        return self._me.account if self._me.app else ""

    @property
    def capabilities(self) -> Capabilities:
        """What Slack can do. What this workspace refused lately is left out.

        One message a second to a channel, and about fifty edits a minute to all
        (https://docs.slack.dev/apis/web-api/rate-limits).
        """
        agent = not self._is_refused("sessions")
        return Capabilities(
            edit_interval=3.0,
            native_stream="none" if self._is_refused("streams") else "chunks",
            stream_max_seconds=LIFE_MS / 1000,  # of one message: the text goes on in another
            stream_budget=BUDGET_BYTES,
            native_stop=agent,
            threads="thread",
            can_create_thread=True,
            can_rename_thread=agent,
            ephemeral="any",
            forms=True,
            button_styles=True,
            max_text=PART_UNITS,
            text_unit="utf16",
            reactions=not self._is_refused("reactions"),
            idempotent_send="lookup",
            history_backfill=True,
            file_limits=(FILE_LIMIT, FILE_LIMIT),
            sends_per_second=1.0,
            sends_per_minute=60,
        )

    @property
    def markup(self) -> SlackMarkup:
        """Slack's text."""
        return self._markup

    @property
    def health(self) -> Health:
        """Whether anything arrives."""
        return self._former if self._open is None else self._open.watch.health

    # ----------------------------------------------------------------------------------------------------- life cycle

    async def start(self, intake: Intake) -> None:
        """Check the tokens and open the way in; see the contract."""
        if self._open is not None:
            raise RuntimeError("the adapter runs already")
        connection = Connection(self._settings)
        try:
            self._me = (await who_we_are(connection, self._settings)).me
            opened = self._opened(connection, intake)
            await opened.watch.open()
        except BaseException:
            await connection.close()
            raise
        self._open = opened
        opened.task = asyncio.create_task(opened.watch.run(opened.sessions.keep_alive), name=f"slack {self.account}")

    def _opened(self, connection: Connection, intake: Intake) -> _Open:
        me, now_ms = self._me, self._environment.now_ms
        names = Names(connection.call, now_ms)
        door = Door(me, intake, names.named, self._note, self._environment)
        app = bolt_app(self._settings, me, door.take)
        if self._settings.mode == "http":
            way = HttpEvents(self._settings, app, now_ms)
            probe = Request(method="auth.test", fields={})
            watch = Watch(way, self._environment, lambda: door.trouble, lambda: connection.call(probe))
        else:
            watch = Watch(Socket(self._settings, app, connection.call), self._environment, lambda: door.trouble)
        return _Open(
            connection=connection,
            door=door,
            watch=watch,
            sessions=Sessions(connection.call, now_ms),
            streams=Streams(me, connection.call, self._recipient, now_ms),
            history=History(me, connection.call),
        )

    def _note(self, inbound: Inbound) -> None:
        """Keep who spoke last in each chat: whom to tell that we cannot answer there, and for whom a stream is live."""
        opened = self._open
        if inbound.kind is InboundKind.STOP and opened is not None:
            opened.streams.mark_stopped(inbound.stopped)
        if inbound.what == TITLE_CHANGED and inbound.sender.kind is SenderKind.PERSON and opened is not None:
            opened.sessions.keep_title(inbound.place)
        if inbound.kind in (InboundKind.MESSAGE, InboundKind.COMMAND):
            _remember(self._last_said, inbound.place.chat, inbound)

    async def stop(self) -> None:
        """Take nothing in any more; what is being stored is finished first."""
        opened, self._open = self._open, None
        if opened is None:
            return
        opened.door.close()
        try:
            if opened.task is not None:
                opened.task.cancel()
                await asyncio.gather(opened.task, return_exceptions=True)
            await opened.watch.close()
        finally:
            self._former = replace(opened.watch.health, state="stopped")
            await opened.connection.close()

    async def diagnose(self) -> Sequence[Diagnosis]:
        """What stands in the way of this app; takes up to a few seconds. BadCredentials, NotConnected."""
        connection = Connection(self._settings)
        try:
            return await diagnose(connection, self._settings)
        finally:
            await connection.close()

    # ------------------------------------------------------------------------------------------------------------ out

    async def send(self, place: Place, view: View, key: str, attempt: int) -> Sent:
        """Show a view. From the second attempt on, what the first may have made is looked for before."""
        opened = self._opened_now()
        match view:
            case Typing():
                return Sent()  # apps cannot type; the state of the session is Slack's sign of life
            case Reaction():
                await self._react(view)
                return Sent()
            case ThreadStatus():
                await self._or_without("sessions", opened.sessions.set(place, view))
                return Sent()
            case Stream():
                begun = opened.streams.begin(place, view, key, attempt)
                return Sent(refs=(await self._or_without("streams", begun),))
            case Private(person=person, text=text):
                return await self._whisper(place, person, text)
            case Document():
                return await self._upload(place, view, view.text.encode("utf-8", "replace"), attempt)
            case File():
                return await self._upload(place, view, await self._environment.content(view.sha256), attempt)
            case _:
                return await self._say(place, view, key, attempt)

    async def _say(self, place: Place, view: Spoken, key: str, attempt: int) -> Sent:
        opened = self._opened_now()
        if attempt > 1 and (found := await opened.history.with_key(place, key)):
            return Sent(refs=(self._ref(place, found),))
        plans = not self._is_refused("plans")
        try:
            made = await self._call(outbound.post(place, view, key, plans=plans))
        except MarkupRefused:
            self._note_refused_plan(view)
            made = await self._call(outbound.post(place, view, key, plain=True))
        except TargetGone as error:
            if code_of(error) == "not_in_channel":
                await self._tell_outside(place)
            raise
        return Sent(refs=(self._ref(place, a_text(made.get("ts"))),))

    def _ref(self, place: Place, ts: str) -> MessageRef:
        if not ts:
            raise OutcomeUnknown("a message was taken, and Slack did not say which it is")
        return MessageRef(platform=self.platform, account=self.account, chat=place.chat, id=ts, thread=place.thread)

    async def _whisper(self, place: Place, person: str, text: str) -> Sent:
        made = await self._call(outbound.private(place, person, text))
        return Sent(refs=(self._ref(place, a_text(made.get("message_ts"))),))

    async def _tell_outside(self, place: Place) -> None:
        """Tell whoever spoke to us in a channel that we cannot answer there: in our own conversation with him."""
        said = self._last_said.pop(place.chat, None)
        if said is None:
            return
        words = (
            f"I am not a member of <#{place.chat}>, so I cannot answer there. Write `/invite @{self._me.name}` in it."
        )
        fields = {"channel": said.sender.id, "text": words, "unfurl_links": False, "unfurl_media": False}
        with suppress(AdapterError):  # he may not want messages of apps; the gateway tells its owner as well
            await self._call(Request(method="chat.postMessage", fields=fields))

    async def _upload(self, place: Place, view: Document | File, content: bytes, attempt: int) -> Sent:
        opened = self._opened_now()
        if not content:
            raise Refused(f"the file {view.name!r} is empty, which Slack does not take")
        if attempt > 1 and (found := await opened.history.with_file(place, view.name, len(content))):
            return Sent(refs=(self._ref(place, found),))
        file_id = await opened.connection.upload(view.name, content)
        to: Payload = {"channel_id": place.chat, **({"thread_ts": place.thread} if place.thread else {})}
        said = {"initial_comment": unlinked(escaped(view.caption))} if view.caption else {}
        fields = {**to, **said, "files": [{"id": file_id, "title": view.name}]}
        await self._call(Request(method="files.completeUploadExternal", fields=fields))
        return Sent(refs=(self._ref(place, await opened.history.share_of(place, file_id) or file_id),))

    async def _react(self, view: Reaction) -> None:
        known = (view.ref.chat, view.ref.id)
        for request in outbound.reactions(view, self._marks.get(known)):
            try:
                await self._or_without("reactions", self._call(request), codes=frozenset({"missing_scope"}))
            except Refused as error:
                if code_of(error) not in ("already_reacted", "no_reaction"):
                    raise
        _remember(self._marks, known, outbound.MARKS.get(view.mark, ""))

    async def edit(self, ref: MessageRef, view: View) -> None:
        """Make a message show a view; doing it again does no harm."""
        if isinstance(view, Stream):
            await self._opened_now().streams.go_on(ref, view)
            return
        try:
            await self._change(ref, outbound.edit(ref, view, plans=not self._is_refused("plans")))
        except MarkupRefused:
            self._note_refused_plan(view)
            await self._call(outbound.edit(ref, view, plain=True))

    async def _change(self, ref: MessageRef, request: Request) -> None:
        """Edit a message; one that is still a stream is ended first."""
        try:
            await self._call(request)
        except Refused as error:
            if code_of(error) != STREAMING:
                raise
            await self._opened_now().streams.end(ref)
            await self._call(request)

    def _note_refused_plan(self, view: View) -> None:
        if isinstance(view, TurnCard):
            self._refused_at_ms["plans"] = self._environment.now_ms()

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Answer a press: Slack was told that it came when it was stored, so only the content is left."""
        match answer:
            case Form():
                await self._ask(press, answer)
            case Text() if press.place.chat:
                await self._whisper(press.place, press.sender.id, answer.text)
            case _:
                self._opened_now()

    async def _ask(self, press: Inbound, form: Form) -> None:
        fields = {"trigger_id": press.handle or "", "view": view_of(press, form)}
        try:
            await self._call(Request(method="views.open", fields=fields))
        except Refused as error:
            if code_of(error) not in LATE_TRIGGER:
                raise
            await self._whisper(press.place, press.sender.id, "That took too long. Press the button once more.")

    async def open_thread(self, place: Place, title: str, key: str, root: MessageRef | None = None) -> Place:
        """A thread on `root`, or on a new message with the title; the same one for the same key."""
        channel = replace(place, thread=None)
        if root is not None:
            return replace(channel, thread=root.thread or root.id)
        found = await self._opened_now().history.with_key(channel, key)
        if found is None:
            words = [{"type": "section", "text": {"type": "plain_text", "text": short(title, MAX_ROOT) or "Thread"}}]
            found = a_text((await self._call(outbound.message(channel, words, key))).get("ts"))
        return replace(channel, thread=self._ref(channel, found).id)

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """What people said in a thread after `since`, oldest first; in a direct conversation also what they said
        beside its threads."""
        return await self._opened_now().history.said_in(place, since)

    def open_file(self, file: InboundFile) -> AsyncGenerator[bytes]:
        """The content of a file that came, in pieces. Count them: the size that was told need not be true."""
        return self._opened_now().connection.download(file.id)

    # -------------------------------------------------------------------------------------------------------- degrading

    async def _or_without(self, what: str, work: Awaitable[Result], codes: frozenset[str] = NOT_AN_AGENT) -> Result:
        """The result. If this workspace does not let us do such things, we do without them for a day."""
        try:
            return await work
        except Refused as error:
            if code_of(error) in codes:
                log.warning("Slack does not let us use %s in this workspace, going on without: %s", what, error)
                self._refused_at_ms[what] = self._environment.now_ms()
            raise

    def _is_refused(self, what: str) -> bool:
        at_ms = self._refused_at_ms.get(what)
        return at_ms is not None and self._environment.now_ms() - at_ms < DEGRADED_MS

    async def _recipient(self, place: Place) -> tuple[str, str] | None:
        said = self._last_said.get(place.chat)
        if said is not None:
            return said.sender.id, said.sender.tenant or self._me.team
        if not place.chat.startswith("D"):
            return None
        info = await self._call(Request(method="conversations.info", fields={"channel": place.chat}))
        user = a_text(an_object(info.get("channel")).get("user"))
        return (user, self._me.team) if user else None

    async def _call(self, request: Request) -> Payload:
        return await self._opened_now().connection.call(request)

    def _opened_now(self) -> _Open:
        if self._open is None:
            raise NotConnected("the Slack adapter is not started")
        return self._open


def _remember(memory: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
