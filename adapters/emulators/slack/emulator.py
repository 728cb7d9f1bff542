"""The emulated Slack as one object: start it, point an app at `api_base`, act as the people, read the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adapters.emulators.clock import Clock, FlowingClock, wall_time
from adapters.emulators.control import PREFIX, ControlFace, Verb
from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.faults import Fault, FaultKind, FaultQueue
from adapters.emulators.journal import Exchange, Journal
from adapters.emulators.server import EmulatorServer
from adapters.emulators.slack.app import App
from adapters.emulators.slack.knobs import Knobs
from adapters.emulators.slack.people import People
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.posting import Posting
from adapters.emulators.slack.rendering import channel_object, session_object, user_object, view_object
from adapters.emulators.slack.sockets import REFRESHES, Sockets
from adapters.emulators.slack.wire import Wire
from adapters.emulators.slack.world import Channel, ChannelKind, User
from adapters.emulators.watched import Watched
from adapters.emulators.wire_json import JsonObject

SENDS = frozenset(
    {
        "chat.postMessage",
        "chat.postEphemeral",
        "chat.update",
        "chat.startStream",
        "chat.appendStream",
        "chat.stopStream",
        "files.completeUploadExternal",
    }
)
"""Methods that put something before people's eyes."""

BOT_TOKEN = "xoxb-1-emulated"  # noqa: S105 - opens nothing but this emulator
APP_TOKEN = "xapp-1-A0EMULATED-1-emulated"  # noqa: S105
SIGNING_SECRET = "emulated-signing-secret"  # noqa: S105


class SlackEmulator(People, Watched):
    """A workspace with one installed app, on loopback, and the people on the other side of it.

    Deeds of people are inherited from `People`. State lives in memory and outlives the app's restarts. With a
    `ManualClock` nothing times out until `advance` is called. `wall` is the time in signatures of HTTP mode, which the
    app checks with the machine's clock. `journal_limit` bounds the record.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        knobs: Knobs | None = None,
        journal_limit: int | None = None,
        bot_token: str = BOT_TOKEN,
        app_token: str = APP_TOKEN,
        signing_secret: str = SIGNING_SECRET,
        team: str = "T0EMULATED",
        app_id: str = "A0EMULATED",
        bot_user: str = "U0BOT",
        bot_id: str = "B0BOT",
        bot_name: str = "Pilot",
        enterprise: str | None = None,
        agent: bool = True,
        commands: Sequence[str] | None = None,
        wall: Callable[[], float] = wall_time,
    ) -> None:
        self.clock: Clock = clock if clock is not None else FlowingClock()
        self.journal = Journal(now=self.clock.now, limit=journal_limit)
        self.faults = FaultQueue()
        self.app = App(
            team=team,
            team_name="Emulated",
            team_domain="emulated",
            app_id=app_id,
            bot_user=bot_user,
            bot_id=bot_id,
            name=bot_name,
            bot_token=bot_token,
            app_token=app_token,
            signing_secret=signing_secret,
            verification_token="emulated-verification",  # noqa: S106
            enterprise=enterprise,
            agent=agent,
            commands=None if commands is None else set(commands),
        )
        self._server = EmulatorServer()
        kept = knobs if knobs is not None else Knobs()
        platform = Platform(
            app=self.app,
            clock=self.clock,
            journal=self.journal,
            faults=self.faults,
            knobs=kept,
            spawn=self._server.spawn,
            url=lambda: self._server.url,
        )
        super().__init__(platform)
        self._connect(platform, kept, wall)
        bot = User(id=bot_user, name=bot_name.lower(), real_name=bot_name, team=team, is_bot=True, bot_id=bot_id)
        platform.world.users[bot_user] = bot

    def _connect(self, platform: Platform, knobs: Knobs, wall: Callable[[], float]) -> None:
        self._sockets = Sockets(
            app=self.app,
            clock=self.clock,
            journal=self.journal,
            knobs=knobs,
            server=self._server,
            delivery=platform.delivery,
            new_id=platform.new_uuid,
        )
        self._posting = Posting(app=self.app, clock=self.clock, knobs=knobs, delivery=platform.delivery, wall=wall)
        platform.delivery.sockets, platform.delivery.http = self._sockets, self._posting
        self._sockets.mount()
        Wire(platform, self._server, self._sockets).mount()
        ControlFace(journal=self.journal, verbs=self._verbs()).mount(self._server.app)

    # -- life

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> SlackEmulator:
        """Listen on a loopback address; returns itself. Port 0 takes a free one."""
        await self._server.start(host=host, port=port)
        return self

    async def stop(self) -> None:
        """End sockets, deliveries and the listener."""
        await self._server.stop()

    @property
    def url(self) -> str:
        """Base address of everything."""
        return self._server.url

    @property
    def api_base(self) -> str:
        """Base address of the Web API, with the slash at its end that clients need."""
        return f"{self._server.url}/api/"

    @property
    def control_url(self) -> str:
        """Base address of the control API."""
        return f"{self._server.url}{PREFIX}"

    # -- who is there

    def add_user(
        self,
        user: str,
        name: str,
        *,
        team: str | None = None,
        locale: str = "en-US",
        is_bot: bool = False,
        is_admin: bool = False,
    ) -> JsonObject:
        """Make a person. A `team` of their own makes them a guest of shared channels."""
        if user[:1] not in ("U", "W"):
            raise NotPossible(f"ids of people begin with U or W, not {user!r}")
        person = User(
            id=user,
            name=name.lower(),
            real_name=name,
            team=team or self.app.team,
            locale=locale,
            is_bot=is_bot,
            is_admin=is_admin,
        )
        self._platform.world.users[user] = person
        return user_object(person)

    def add_chat(
        self,
        chat: str,
        name: str,
        *,
        kind: str = "channel",
        members: Sequence[str] = (),
        bot: bool = True,
        shared: bool = False,
    ) -> JsonObject:
        """Make a channel (`channel`, `group` for private ones, `mpim`), with the app in it unless `bot` is false."""
        made = ChannelKind(kind)
        if made is ChannelKind.DIRECT:
            raise NotPossible("direct messages open by themselves")
        everybody = [self._platform.world.user(one).id for one in members]
        if bot:
            everybody.append(self.app.bot_user)
        channel = Channel(
            id=chat,
            kind=made,
            name=name,
            created=int(self.clock.now()),
            creator=everybody[0] if everybody else None,
            members=dict.fromkeys(everybody),
            shared=shared,
        )
        self._platform.world.channels[chat] = channel
        return channel_object(channel, self.app)

    def direct_chat(self, user: str) -> str:
        """Id of a person's direct message channel with the app."""
        return self._platform.direct(self._platform.world.user(user).id).id

    async def use_http(self, url: str) -> None:
        """Post events to `url` from now on, after the handshake that proves who answers there."""
        await self._posting.verify(url, self._platform.new_uuid())
        self.app.request_url = url

    def use_sockets(self) -> None:
        """Back to Socket Mode."""
        self.app.request_url = None

    def sign_badly(self, *, forged: bool = False, age: float = 0.0) -> None:
        """HTTP mode: sign with another secret, or as of `age` seconds ago; without arguments properly again."""
        self._posting.forged_signatures, self._posting.signature_age = forged, age

    def grant(self, scopes: Sequence[str]) -> None:
        """Give the app exactly these scopes."""
        self.app.scopes = set(scopes)

    def subscribe(self, events: Sequence[str]) -> None:
        """Let the app be told of exactly these events; messages are `message.channels`, `message.im`, …"""
        self.app.events = set(events)

    # -- what is there

    def messages(self, chat: str, thread: str | None = None, *, user: str | None = None) -> list[JsonObject]:
        """What people see in a channel now, oldest first, or in one thread. `user` sees ephemeral ones as well."""
        place = self._chat(chat)
        everything = [*place.messages.values(), *(one for one in place.ephemeral.values() if one.only == user)]
        return [
            self._platform.message_object(one, place, metadata=True)
            for one in sorted(everything, key=lambda one: float(one.ts))
            if thread is None or thread in (one.ts, one.thread_ts)
        ]

    def sessions(self) -> list[JsonObject]:
        """Agent sessions with their status now."""
        found = self._platform.world.sessions.values()
        return [session_object(one, self._platform.status_of(one)) for one in found]

    def status(self, chat: str, thread: str) -> str:
        """The line under a thread; empty if there is none."""
        text, until = self._platform.world.statuses.get((self._chat(chat).id, thread), ("", 0.0))
        return text if self.clock.now() < until else ""

    def connections(self) -> list[int]:
        """Numbers of the sockets that take events, oldest first."""
        return self._sockets.numbers

    def pending(self) -> int:
        """How many envelopes are on their way, or wait to be sent again."""
        return self._platform.delivery.pending

    @property
    def sends(self) -> list[Exchange]:
        """Every call that put something before people's eyes."""
        return self.journal.exchanges(*SENDS)

    def _chat(self, chat: str) -> Channel:
        world = self._platform.world
        return self._platform.direct(chat) if chat in world.users else world.channel(chat)

    # -- what goes wrong

    def fault(
        self,
        target: str,
        kind: FaultKind,
        *,
        event: bool = False,
        times: int = 1,
        skip: int = 0,
        applied: bool = False,
        status: int = 503,
        retry_after: int = 1,
        seconds: float = 0.0,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> None:
        """Arm a fault for a method, `file`, `upload`, `response_url`, `*`, or with `event` for a kind of event.

        For REFUSE, `description` is the error's code. See `Fault`.
        """
        self.faults.add(
            Fault(
                target=target,
                kind=kind,
                event=event,
                times=times,
                skip=skip,
                applied=applied,
                status=status,
                retry_after=retry_after,
                seconds=seconds,
                description=description,
                parameters=parameters or {},
                where=where or {},
            )
        )

    async def disconnect(self, how: str = "abort", *, socket: int | None = None) -> int:
        """End or disturb the open sockets, or one of them; returns how many.

        `abort` cuts them (and with no `socket` every open request), `close` closes them properly, `half_open` lets
        them be open and dead, `refresh_requested`, `warning` and `link_disabled` ask the app to come back.
        """
        if how in REFRESHES:
            return await self._sockets.refresh(how, socket)
        match how:
            case "abort":
                return self._server.disconnect() if socket is None else self._sockets.abort(socket)
            case "close":
                return self._sockets.close(socket)
            case "half_open":
                return self._sockets.half_open(socket)
            case _:
                raise NotKnown(f"no way {how} to disconnect; there are abort, close, half_open, {', '.join(REFRESHES)}")

    # -- as a whole

    def snapshot(self) -> JsonObject:
        """The whole state as JSON, without tokens."""
        world = self._platform.world
        return {
            "now": self.clock.now(),
            "app": {"app_id": self.app.app_id, "team": self.app.team, "bot_user": self.app.bot_user},
            "users": [user_object(user) for user in world.users.values()],
            "chats": [self._chat_state(channel) for channel in world.channels.values()],
            "views": [{"user": one.user, **view_object(one, self.app)} for one in world.views.values()],
            "sessions": self.sessions(),
            "connections": self.connections(),
            "pending": self.pending(),
            "faults": [f"{fault.kind} on {fault.target}" for fault in self.faults.pending],
            "violations": [entry.to_json() for entry in self.violations],
        }

    def _chat_state(self, channel: Channel) -> JsonObject:
        everything = [*channel.messages.values(), *channel.ephemeral.values()]
        return {
            "chat": channel_object(channel, self.app),
            "members": list(channel.members),
            "messages": [self._platform.message_object(one, channel, metadata=True) for one in everything],
        }

    def reset(self) -> None:
        """Forget all traffic: messages, files, views, sessions, envelopes, faults and the journal.

        People, channels, memberships, open sockets and the app's settings stay.
        """
        self._platform.world.forget_traffic()
        self._platform.delivery.forget()
        self._platform.rates.clear()
        self._asked.clear()
        self.faults.clear()
        self.journal.clear()

    def _verbs(self) -> Mapping[str, Verb]:
        return {name: getattr(self, name) for name in VERBS}


VERBS = (
    "add_user",
    "add_chat",
    "direct_chat",
    "use_http",
    "use_sockets",
    "sign_badly",
    "grant",
    "subscribe",
    "say",
    "bot_says",
    "command",
    "edit",
    "delete",
    "upload",
    "press",
    "answer",
    "react",
    "views",
    "submit",
    "press_in_view",
    "close",
    "stop_generation",
    "rename_session",
    "open_home",
    "inject",
    "join",
    "leave",
    "rename",
    "archive",
    "deactivate",
    "uninstall",
    "messages",
    "sessions",
    "status",
    "connections",
    "pending",
    "fault",
    "advance",
    "disconnect",
    "snapshot",
    "reset",
)
"""What the control API can do; the verbs of other platforms' emulators have the same names where they can."""
