"""The running platform: the world, the bots, the clock, and the record of what happens.

Operations of the API, the gateway and the hands of the people all act through it.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from adapters.emulators.clock import Clock
from adapters.emulators.discord.bots import REAL_CDN, REAL_GATEWAY, Bot, Session
from adapters.emulators.discord.buckets import Buckets
from adapters.emulators.discord.intents import Intent, blanked, needed
from adapters.emulators.discord.knobs import Knobs
from adapters.emulators.discord.permissions import Permission
from adapters.emulators.discord.rendering import Rendering
from adapters.emulators.discord.snowflakes import Snowflakes
from adapters.emulators.discord.world import Channel, ChannelType, Message, World
from adapters.emulators.errors import NotKnown
from adapters.emulators.faults import FaultKind, FaultQueue
from adapters.emulators.journal import EntryKind, Journal
from adapters.emulators.wire_json import JsonObject

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
BodyFor = Callable[[Bot], JsonObject]


class Platform:
    """Everything that the wire face, the gateway, the people and the control API share."""

    def __init__(
        self,
        *,
        clock: Clock,
        journal: Journal,
        faults: FaultQueue,
        knobs: Knobs,
        spawn: Spawn,
        address: Callable[[], str],
    ) -> None:
        self.clock = clock
        self.journal = journal
        self.faults = faults
        self.knobs = knobs
        self.spawn = spawn
        self.address = address
        self.world = World()
        self.render = Rendering(self.world)
        self.ids = Snowflakes(clock.now)
        self.bots: dict[str, Bot] = {}
        """By token."""
        self.buckets = Buckets(knobs)
        self._secrets = itertools.count()

    # -- bots

    def bot(self, chosen: int | str | None) -> Bot:
        """The bot with that id, token or username; the only one if None. Raises NotKnown."""
        bots = list(self.bots.values())
        if chosen is None and len(bots) == 1:
            return bots[0]
        for bot in bots:
            if str(chosen) in (bot.id, bot.token, bot.user.username):
                return bot
        known = [bot.id for bot in bots]
        raise NotKnown(f"which bot? asked for {_without_secret(chosen)}, there are {known or 'none'}")

    def bot_of(self, user: str) -> Bot | None:
        """The bot with that user id."""
        return next((bot for bot in self.bots.values() if bot.id == user), None)

    def secret(self) -> str:
        """A token that nobody guesses but the next run of the same test."""
        seed = f"{self.knobs.seed}:{next(self._secrets)}"
        return hashlib.sha256(seed.encode()).hexdigest()

    # -- addresses

    def cdn(self, bot: Bot | None) -> str:
        """Base of the addresses of files, as this bot's client reaches it; None is for people."""
        return REAL_CDN if bot is not None and bot.real_names else self.address()

    def gateway_url(self, bot: Bot) -> str:
        """Where this bot's client opens its connection."""
        return REAL_GATEWAY if bot.real_names else self.address().replace("http", "ws", 1)

    # -- the record

    def show(self, name: str, channel: str, data: Mapping[str, Any], *, account: str = "") -> None:
        """Record that people in a channel now see something else."""
        self.journal.record(EntryKind.SCREEN, name, {"channel_id": channel, **data}, account=account)

    def show_message(self, name: str, message: Message) -> None:
        """Record a message that appeared or changed."""
        data: JsonObject = {"message": self.render.message(message, self.address(), fresh=True)}
        if message.visible_to is not None:
            data["visible_to"] = message.visible_to
        self.show(name, message.channel, data)

    def violate(self, bot: Bot | None, rule: str, data: Mapping[str, Any], request: int | None = None) -> None:
        """Record that a client broke a rule."""
        account = bot.account if bot is not None else ""
        self.journal.record(EntryKind.VIOLATION, rule, data, account=account, request=request)

    # -- who sees what

    def sees(self, bot: Bot, place: Channel) -> bool:
        """Whether a bot is told of what happens in a place."""
        bits = self.render.permissions(place, bot.id)
        if not bits & Permission.VIEW_CHANNEL:
            return False
        if place.type is not ChannelType.PRIVATE_THREAD or place.thread is None:
            return True
        return bot.id in place.thread.members or bool(bits & Permission.MANAGE_THREADS)

    # -- events

    def tell(self, event: str, place: Channel, body: BodyFor | JsonObject) -> None:
        """Tell every bot that sees the place."""
        for bot in self.bots.values():
            if self.sees(bot, place):
                self.tell_bot(bot, event, body(bot) if callable(body) else body, place)

    def tell_guild(self, event: str, guild: str, body: BodyFor | JsonObject) -> None:
        """Tell every bot of a guild."""
        for bot in self.bots.values():
            if bot.id in self.world.guilds[guild].members:
                self.tell_bot(bot, event, body(bot) if callable(body) else body)

    def tell_message(self, event: str, message: Message) -> None:
        """Tell of a message that appeared or changed; an ephemeral one is told to nobody."""
        if not message.ephemeral:
            place = self.world.channels[message.channel]
            fresh = event == "MESSAGE_CREATE"
            self.tell(event, place, lambda bot: self.render.message_event(message, self.cdn(bot), bot.id, fresh=fresh))

    def forget_old(self, bot: Bot) -> None:
        """Drop sessions that nobody came back to in time."""
        limit = self.clock.now() - self.knobs.resume_window
        for session in list(bot.sessions.values()):
            if session.line is None and session.left_at <= limit:
                del bot.sessions[session.id]

    def tell_bot(self, bot: Bot, event: str, body: JsonObject, place: Channel | None = None) -> None:
        """Tell one bot, on each of its sessions that asked for such events."""
        self.forget_old(bot)
        for session in bot.sessions.values():
            intent = needed(event, place)
            if intent and not session.intents & intent:
                self._event(bot, session, event, "unwanted")
                continue
            reads = event not in ("MESSAGE_CREATE", "MESSAGE_UPDATE") or session.intents & Intent.MESSAGE_CONTENT
            self._under_fault(bot, session, event, body if reads else blanked(body, bot.id))

    def _under_fault(self, bot: Bot, session: Session, event: str, body: JsonObject) -> None:
        fault = self.faults.take(event, event=True, account=bot.account, params=body)
        if fault is None:
            self.send(bot, session, event, body)
            held, session.held = session.held, []
            for late, late_body in held:
                self.send(bot, session, late, late_body)
            return
        self.journal.record(EntryKind.FAULT, fault.kind, {"event": event}, account=bot.account)
        match fault.kind:
            case FaultKind.REORDER:
                session.held.append((event, body))
            case FaultKind.DUPLICATE:
                self.send(bot, session, event, body)
                self.send(bot, session, event, body)
            case _:
                self.spawn(self._send_later(bot, session, event, body, fault.seconds))

    async def _send_later(self, bot: Bot, session: Session, event: str, body: JsonObject, seconds: float) -> None:
        await self.clock.sleep(seconds)
        self.send(bot, session, event, body)

    def send(self, bot: Bot, session: Session, event: str, body: JsonObject) -> None:
        """Number an event in a session and send it, or keep it until the client resumes."""
        payload = session.next(event, body)
        while len(session.log) > self.knobs.replay_limit:
            session.log.popleft()
        state = "queued" if session.line is None else "handed"
        self._event(bot, session, event, state, payload["s"])
        if session.line is not None:
            session.line.send(payload)

    def _event(self, bot: Bot, session: Session, event: str, state: str, sequence: int | None = None) -> None:
        data: JsonObject = {"state": state, "session": session.id}
        if sequence is not None:
            data["sequence"] = sequence
        self.journal.record(EntryKind.EVENT, event, data, account=bot.account)


def _without_secret(chosen: int | str | None) -> str:
    text = str(chosen)
    return text if text.isdecimal() or "." not in text else f"{text.partition('.')[0]}.…"
