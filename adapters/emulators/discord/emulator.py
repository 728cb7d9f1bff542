"""The emulated Discord as one object: start it, lead a client to `url`, act as the people, read the journal.

A client that takes no other address is led here by its connector, which sends what is meant for Discord's own hosts to
`url`; one that does takes `url` + "/api" for the API and finds the gateway from there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from adapters.emulators.clock import Clock, FlowingClock
from adapters.emulators.control import PREFIX, ControlFace, Verb
from adapters.emulators.discord.bots import Bot
from adapters.emulators.discord.gateway import Gateway
from adapters.emulators.discord.intents import PRIVILEGED, Intent
from adapters.emulators.discord.knobs import Knobs
from adapters.emulators.discord.people import BotChoice, Id, People
from adapters.emulators.discord.permissions import EVERYONE, INVITED, named
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.rendering import guild_object, user_object
from adapters.emulators.discord.wire import Wire
from adapters.emulators.discord.world import (
    Channel,
    ChannelType,
    Guild,
    Member,
    Overwrite,
    Role,
    Tag,
    User,
)
from adapters.emulators.errors import NotPossible
from adapters.emulators.faults import Fault, FaultKind, FaultQueue
from adapters.emulators.journal import Exchange, Journal
from adapters.emulators.server import EmulatorServer
from adapters.emulators.watched import Watched
from adapters.emulators.wire_json import JsonObject

SENDS = frozenset(
    {
        "create_message",
        "update_message",
        "create_thread",
        "create_interaction_response",
        "execute_webhook",
        "update_original_webhook_message",
        "update_webhook_message",
    }
)
"""Operations that put something before people's eyes."""
Ending = Literal["abort", "close", "freeze", "reconnect", "invalid", "invalid_resumable"]


class DiscordEmulator(People, Watched):
    """Discord on loopback, and the people on the other side of it.

    Deeds of people are inherited from `People`. State lives in memory and outlives the bot's restarts. With a
    `ManualClock` nothing times out until `advance` is called. `journal_limit` bounds the record.
    """

    def __init__(
        self, *, clock: Clock | None = None, knobs: Knobs | None = None, journal_limit: int | None = None
    ) -> None:
        self.clock: Clock = clock if clock is not None else FlowingClock()
        self.journal = Journal(now=self.clock.now, limit=journal_limit)
        self.faults = FaultQueue()
        self._server = EmulatorServer()
        platform = Platform(
            clock=self.clock,
            journal=self.journal,
            faults=self.faults,
            knobs=knobs if knobs is not None else Knobs(),
            spawn=self._server.spawn,
            address=lambda: self._server.url,
        )
        super().__init__(platform)
        self._gateway = Gateway(platform)
        Wire(platform, self._server).mount()
        ControlFace(journal=self.journal, verbs=self._verbs()).mount(self._server.app)
        self._gateway.mount(self._server.app)

    # -- life

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> DiscordEmulator:
        """Listen on a loopback address; returns itself. Port 0 takes a free one."""
        await self._server.start(host=host, port=port)
        return self

    async def stop(self) -> None:
        """End open connections and the listener."""
        await self._gateway.end()
        await self._server.stop()

    @property
    def url(self) -> str:
        """Base address: what stands for all of Discord's hosts."""
        return self._server.url

    @property
    def control_url(self) -> str:
        """Base address of the control API."""
        return f"{self._server.url}{PREFIX}"

    # -- who is there

    def add_bot(
        self,
        token: str,
        *,
        bot: Id | None = None,
        name: str = "emulated_bot",
        intents: int = int(PRIVILEGED),
        endpoint: str | None = None,
    ) -> JsonObject:
        """Register an application with its bot user.

        Its id is the one written in the token's first part, as in real tokens, or else `bot`. `intents` are the
        privileged ones that are switched on for it. With an `endpoint` its interactions do not come by the gateway; the
        emulator calls nobody.
        """
        number = str(bot) if bot is not None else _id_in(token)
        if number is None or not number.isdecimal():
            raise NotPossible("a token begins with the bot's id in base64 and a dot; or pass the id as bot=")
        user = User(id=number, username=name, bot=True)
        self._platform.world.users[user.id] = user
        self._platform.bots[token] = Bot(
            token=token, user=user, granted=Intent(intents) & PRIVILEGED, endpoint=endpoint
        )
        return user_object(user)

    def add_user(self, user: Id, name: str, *, username: str | None = None, is_bot: bool = False) -> JsonObject:
        """Make a person, or a foreign bot."""
        made = User(id=str(user), username=username or name.lower(), global_name=name, bot=is_bot)
        self._platform.world.users[made.id] = made
        return user_object(made)

    def add_guild(
        self,
        guild: Id,
        name: str = "Guild",
        *,
        members: Sequence[Id] = (),
        owner: Id | None = None,
        bots: Sequence[Id] | None = None,
        bot_permissions: Sequence[str] | None = None,
        everyone: Sequence[str] | None = None,
    ) -> JsonObject:
        """Make a guild without channels. All bots are in it unless `bots` names some; permissions go by name."""
        now = self.clock.now()
        people = [self._platform.world.user(str(one)).id for one in members]
        chosen = [bot.id for bot in self._platform.bots.values()] if bots is None else [str(one) for one in bots]
        head = str(owner) if owner is not None else (people[0] if people else str(guild))
        if head not in self._platform.world.users:
            self.add_user(head, "Owner")
        made = Guild(id=str(guild), name=name, owner=head, created_at=now)
        bits = EVERYONE if everyone is None else named(list(everyone))
        made.roles[made.id] = Role(id=made.id, name="@everyone", permissions=bits)
        for one in dict.fromkeys([head, *people]):
            made.members[one] = Member(user=one, joined_at=now)
        self._platform.world.guilds[made.id] = made
        for one in chosen:
            self._admit(made, one, bot_permissions)
        return guild_object(made)

    def _admit(self, guild: Guild, bot: str, permissions: Sequence[str] | None) -> None:
        bits = INVITED if permissions is None else named(list(permissions))
        name = self._platform.world.user(bot).username
        role = Role(
            id=self._platform.ids.next(), name=name, permissions=bits, position=len(guild.roles), managed_by=bot
        )
        guild.roles[role.id] = role
        guild.members[bot] = Member(user=bot, joined_at=self.clock.now(), roles=[role.id])

    def add_role(
        self,
        guild: Id,
        name: str,
        *,
        permissions: Sequence[str] = (),
        members: Sequence[Id] = (),
        role: Id | None = None,
    ) -> str:
        """Make a role and give it to members; returns its id."""
        place = self._platform.world.guild(str(guild))
        number = str(role) if role is not None else self._platform.ids.next()
        place.roles[number] = Role(
            id=number, name=name, permissions=named(list(permissions)), position=len(place.roles), mentionable=True
        )
        for member in members:
            place.members[str(member)].roles.append(number)
        return number

    def add_channel(
        self,
        guild: Id,
        name: str,
        *,
        channel: Id | None = None,
        type: str = "text",
        parent: Id | None = None,
        topic: str | None = None,
        tags: Sequence[str] = (),
        auto_archive: int = 1440,
        deny: Mapping[str, Sequence[str]] | None = None,
        allow: Mapping[str, Sequence[str]] | None = None,
    ) -> JsonObject:
        """Make a channel: text, voice, category, announcement or forum (with the names of its `tags`).

        `deny` and `allow` are permissions by name, for a role's or a member's id. `auto_archive` is in minutes.
        """
        place = self._platform.world.guild(str(guild))
        made = Channel(
            id=str(channel) if channel is not None else self._platform.ids.next(),
            type=ChannelType[type.upper()],
            name=name,
            guild=place.id,
            parent=None if parent is None else str(parent),
            topic=topic,
            position=sum(one.guild == place.id for one in self._platform.world.channels.values()),
            tags=[Tag(id=self._platform.ids.next(), name=tag) for tag in tags],
            default_auto_archive=auto_archive,
            overwrites=_overwrites(place, allow or {}, deny or {}),
        )
        self._platform.world.channels[made.id] = made
        body = self._platform.render.channel(made)
        self._platform.tell("CHANNEL_CREATE", made, body)
        return body

    # -- what is there

    def messages(
        self, chat: Id, thread: Id | None = None, *, user: Id | None = None, bot: BotChoice = None
    ) -> list[JsonObject]:
        """What people see in a channel or thread now, oldest first. A person's id stands for their direct message.

        Ephemeral messages are shown to `user` only, or to nobody in particular if it is left out: then all are listed.
        """
        place = self._find(chat if thread is None else thread, bot)
        if place is None:
            return []
        seen = [one for one in place.messages.values() if user is None or one.visible_to in (None, str(user))]
        return [self._shown(message) for message in seen]

    def threads(self, chat: Id) -> list[JsonObject]:
        """Threads of a channel, oldest first, archived ones too."""
        found = self._platform.world.threads_of(str(chat))
        return [self._platform.render.channel(thread) for thread in found]

    def direct(self, user: Id, *, bot: BotChoice = None) -> JsonObject:
        """The direct message channel of a person with a bot, opened if there is none."""
        return self._platform.render.channel(self._place(user, None, bot))

    def typing(self, chat: Id, *, bot: BotChoice = None) -> bool:
        """Whether people see the bot type."""
        place = self._find(chat, bot)
        until = self._platform.bot(bot).typing.get(place.id, 0.0) if place is not None else 0.0
        return until > self.clock.now()

    def commands(self, guild: Id | None = None, *, bot: BotChoice = None) -> list[JsonObject]:
        """Commands of a guild, or the global ones."""
        scope = "" if guild is None else str(guild)
        return list(self._platform.bot(bot).commands.get(scope, {}).values())

    def download(self, message: Id, number: int = 0) -> str:
        """A file of a message, in base64."""
        found = self._platform.world.message(str(message))
        return base64.b64encode(found.attachments[number].content).decode()

    def connections(self, *, bot: BotChoice = None) -> int:
        """How many identified connections the bot, or all bots have."""
        chosen = self._choice(bot)
        return sum(one.bot is not None and chosen(one.bot) for one in self._gateway.connections)

    @property
    def sends(self) -> list[Exchange]:
        """Every call that put something before people's eyes."""
        return self.journal.exchanges(*SENDS)

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
        status: int = 502,
        retry_after: int = 1,
        seconds: float = 0.0,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        bot: BotChoice = None,
    ) -> None:
        """Arm a fault for an operation, a download (`file`), `*`, or with `event` for a kind of event; see `Fault`.

        `parameters` of a rate limit: `scope` (user, global, shared) and `retry_after` with a fraction; of a refusal:
        `code` and `errors`.
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
                account=None if bot is None else self._platform.bot(bot).account,
            )
        )

    def disconnect(self, *, how: Ending = "abort", code: int = 4000, bot: BotChoice = None) -> int:
        """Do something to the gateway connections of a bot, or of all; returns to how many.

        `abort` cuts them, and open requests, without a word; `close` ends them with `code`; `freeze` leaves them open
        and silent; `reconnect` is op 7; `invalid` is op 9 and forgets the session, `invalid_resumable` does not.
        """
        chosen = self._choice(bot)
        match how:
            case "abort":
                account = None if bot is None else self._platform.bot(bot).account
                cut = self._server.disconnect(lambda one: account in (None, one))
                return cut + self._gateway.abort(chosen)
            case "close":
                return self._gateway.close(chosen, code=code, reason="")
            case "freeze":
                return self._gateway.freeze(chosen)
            case "reconnect":
                return self._gateway.reconnect(chosen)
            case "invalid" | "invalid_resumable":
                return self._gateway.invalidate(chosen, resumable=how == "invalid_resumable")

    # -- as a whole

    def snapshot(self) -> JsonObject:
        """The whole state as JSON, without tokens."""
        world = self._platform.world
        return {
            "now": self.clock.now(),
            "bots": [self._bot_state(bot) for bot in self._platform.bots.values()],
            "users": [user_object(user) for user in world.users.values()],
            "guilds": [guild_object(guild) | {"members": list(guild.members)} for guild in world.guilds.values()],
            "channels": [self._channel_state(channel) for channel in world.channels.values()],
            "faults": [f"{fault.kind} on {fault.target}" for fault in self.faults.pending],
            "violations": [entry.to_json() for entry in self.violations],
        }

    def reset(self) -> None:
        """Forget all traffic: messages, threads, files, interactions, sessions, buckets, faults and the journal.

        Bots, people, guilds, channels and commands stay; connected clients stay connected.
        """
        self._platform.world.forget_traffic()
        self._platform.buckets.clear()
        self.faults.clear()
        for bot in self._platform.bots.values():
            bot.sessions = {key: one for key, one in bot.sessions.items() if one.line is not None}
            for session in bot.sessions.values():
                session.held.clear()
            bot.nonces.clear()
            bot.typing.clear()
        self.journal.clear()

    def _find(self, chat: Id, bot: BotChoice) -> Channel | None:
        world = self._platform.world
        if str(chat) in world.users:
            return world.direct(self._platform.bot(bot).id, str(chat))
        return world.channel(str(chat))

    def _choice(self, bot: BotChoice) -> Callable[[Bot], bool]:
        if bot is None:
            return lambda _: True
        wanted = self._platform.bot(bot)
        return lambda one: one is wanted

    def _bot_state(self, bot: Bot) -> JsonObject:
        return {
            "user": user_object(bot.user),
            "sessions": [
                {"id": one.id, "sequence": one.sequence, "intents": int(one.intents), "open": one.line is not None}
                for one in bot.sessions.values()
            ],
            "commands": {scope: list(commands.values()) for scope, commands in bot.commands.items()},
        }

    def _channel_state(self, channel: Channel) -> JsonObject:
        return {
            "channel": self._platform.render.channel(channel),
            "messages": [self._shown(message) for message in channel.messages.values()],
        }

    def _verbs(self) -> Mapping[str, Verb]:
        return {name: getattr(self, name) for name in VERBS}


def _overwrites(
    guild: Guild, allow: Mapping[str, Sequence[str]], deny: Mapping[str, Sequence[str]]
) -> dict[str, Overwrite]:
    return {
        who: Overwrite(
            id=who,
            is_member=who not in guild.roles,
            allow=named(list(allow.get(who, ()))),
            deny=named(list(deny.get(who, ()))),
        )
        for who in {**deny, **allow}
    }


def _id_in(token: str) -> str | None:
    """The id in a token's first part; None if there is none."""
    first, dot, _ = token.partition(".")
    try:
        number = base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return number if dot and number.isdecimal() else None


VERBS = (
    "add_bot",
    "add_user",
    "add_guild",
    "add_role",
    "add_channel",
    "say",
    "command",
    "autocomplete",
    "submit",
    "answer",
    "edit",
    "delete",
    "upload",
    "press",
    "react",
    "type",
    "join",
    "leave",
    "block",
    "unblock",
    "permit",
    "create_thread",
    "rename_thread",
    "archive_thread",
    "delete_thread",
    "messages",
    "threads",
    "direct",
    "typing",
    "commands",
    "download",
    "connections",
    "fault",
    "advance",
    "disconnect",
    "snapshot",
    "reset",
)
"""What the control API can do; the verbs of other platforms' emulators have the same names where they can."""
