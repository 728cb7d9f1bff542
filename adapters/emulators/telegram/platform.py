"""The running platform: the world, the bots, the clock, and the record of what happens.

Methods of the Bot API and the hands of the people both act through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from adapters.emulators.clock import Clock
from adapters.emulators.errors import NotKnown
from adapters.emulators.faults import FaultKind, FaultQueue
from adapters.emulators.journal import EntryKind, Journal
from adapters.emulators.telegram.audience import reads
from adapters.emulators.telegram.bots import Bot
from adapters.emulators.telegram.flood import FloodGate
from adapters.emulators.telegram.knobs import Knobs
from adapters.emulators.telegram.rendering import chat_object, message_object
from adapters.emulators.telegram.update_queue import Update, UpdateQueue
from adapters.emulators.telegram.world import Chat, ChatType, Counter, Message, User, World
from adapters.emulators.wire_json import JsonObject

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Platform:
    """Everything that the wire face, the people and the control API share."""

    def __init__(self, *, clock: Clock, journal: Journal, faults: FaultQueue, knobs: Knobs, spawn: Spawn) -> None:
        self.clock = clock
        self.journal = journal
        self.faults = faults
        self.knobs = knobs
        self.spawn = spawn
        self.world = World()
        self.bots: dict[str, Bot] = {}
        self.gates: dict[int, FloodGate] = {}
        self.file_links: dict[str, float] = {}
        """Path of a file -> when its link ends."""
        self.callback_ids = Counter(last=10**15)
        self.album_ids = Counter(last=10**10)

    # -- bots

    def add_bot(self, token: str, user: User, **settings: Any) -> Bot:
        """Register a bot under its token."""
        bot = Bot(token=token, user=user, queue=UpdateQueue(next_id=self.knobs.first_update_id), **settings)
        self.bots[token] = bot
        self.world.users[user.id] = user
        if self.knobs.flood is not None:
            self.gates[user.id] = FloodGate(self.knobs.flood)
        return bot

    def bot(self, chosen: int | str | None) -> Bot:
        """The bot with that id, token or username; the only one if None. Raises NotKnown."""
        bots = list(self.bots.values())
        if chosen is None and len(bots) == 1:
            return bots[0]
        for bot in bots:
            if chosen in (bot.id, bot.token, bot.user.username):
                return bot
        known = [bot.id for bot in bots]
        raise NotKnown(f"which bot? asked for {_without_secret(chosen)}, there are {known or 'none'}")

    # -- time

    def date(self) -> int:
        """Now as the platform writes it."""
        return int(self.clock.now())

    # -- the record

    def show(self, name: str, chat: Chat, data: Mapping[str, Any], *, account: str = "") -> None:
        """Record that people in `chat` now see something else."""
        self.journal.record(EntryKind.SCREEN, name, {"chat_id": chat.id, **data}, account=account)

    def show_message(self, name: str, message: Message, chat: Chat) -> None:
        """Record a message that appeared or changed."""
        account = str(chat.bot) if chat.bot is not None else ""
        body = message_object(message, chat, self.world)
        self.show(name, chat, {"thread": message.thread, "message": body}, account=account)

    def violate(self, bot: Bot | None, rule: str, data: Mapping[str, Any], request: int | None = None) -> None:
        """Record that a client broke a rule."""
        account = bot.account if bot is not None else ""
        self.journal.record(EntryKind.VIOLATION, rule, data, account=account, request=request)

    # -- messages

    def post(self, chat: Chat, message: Message) -> Message:
        """Put a message into its chat and on the screens."""
        chat.messages[message.id] = message
        self.show_message("message", message, chat)
        return message

    def publish_message(self, kind: str, message: Message, chat: Chat, *, only: Bot | None = None) -> None:
        """Tell every bot that may read it."""
        kind = kind.replace("message", "channel_post") if chat.type is ChatType.CHANNEL else kind
        body = message_object(message, chat, self.world)
        for bot in self.bots.values():
            if only in (None, bot) and reads(bot, message, chat):
                self.publish(bot, kind, body, lane=chat.id)

    # -- updates

    def publish(self, bot: Bot, kind: str, body: JsonObject, *, lane: int) -> None:
        """Give an update to a bot, through whatever event fault is armed for it."""
        if not bot.wants(kind):
            self._event(bot, kind, "unwanted", None)
            return
        fault = self.faults.take(kind, event=True, account=bot.account)
        if fault is None:
            self._queue(bot, kind, body, lane)
            self._release(bot)
            return
        self.journal.record(EntryKind.FAULT, fault.kind, {"event": kind}, account=bot.account)
        match fault.kind:
            case FaultKind.REORDER:
                bot.held.append((kind, body, lane))
            case FaultKind.DUPLICATE:
                update = self._queue(bot, kind, body, lane)
                bot.queue.repeat(update)
                bot.wake()
            case _:
                self.spawn(self._queue_later(bot, kind, body, lane, fault.seconds))

    def _queue(self, bot: Bot, kind: str, body: JsonObject, lane: int) -> Update:
        expires_at = self.clock.now() + self.knobs.update_life
        update = bot.queue.push(kind, body, lane=lane, expires_at=expires_at)
        self._event(bot, kind, "queued", update)
        bot.wake()
        return update

    async def _queue_later(self, bot: Bot, kind: str, body: JsonObject, lane: int, seconds: float) -> None:
        await self.clock.sleep(seconds)
        self._queue(bot, kind, body, lane)

    def _release(self, bot: Bot) -> None:
        held, bot.held = bot.held, []
        for kind, body, lane in held:
            self._queue(bot, kind, body, lane)

    def trace(self, bot: Bot, state: str, updates: list[Update]) -> None:
        """Record where updates are on their way: handed, refused, confirmed, expired, dropped."""
        for update in updates:
            self._event(bot, update.type, state, update)

    def _event(self, bot: Bot, kind: str, state: str, update: Update | None) -> None:
        data: JsonObject = {"state": state}
        if update is not None:
            data["update_id"] = update.id
        self.journal.record(EntryKind.EVENT, kind, data, account=bot.account)

    # -- common objects

    def chat_object(self, chat: Chat) -> JsonObject:
        return chat_object(chat, self.world)

    def message_object(self, message: Message, chat: Chat) -> JsonObject:
        return message_object(message, chat, self.world)


def _without_secret(chosen: int | str | None) -> str:
    text = str(chosen)
    return f"{text.partition(':')[0]}:…" if ":" in text else text
