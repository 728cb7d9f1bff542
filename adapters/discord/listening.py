"""What runs while the adapter does: the gateway, again and again, and what it tells to the lanes of its channels."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from adapters.contract import Environment, Health, Inbound, InboundKind, Intake, Sender, SenderKind
from adapters.discord import outbound
from adapters.discord.channels import Channel, channel_of
from adapters.discord.connection import Connection
from adapters.discord.inbound import EVENTS, Event, read
from adapters.discord.lanes import FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, REMEMBERED, Job, Lanes
from adapters.discord.outbound import Request
from adapters.discord.payload import Payload, a_text, an_id, an_object, objects
from adapters.discord.words import Me
from adapters.errors import AdapterError, BadCredentials, Refused, TargetGone

log = logging.getLogger("pilothouse.discord")

PAGE = 100
MOST_PAGES = 10
_SPOKEN = (InboundKind.MESSAGE, InboundKind.COMMAND)


class Listening:
    """Feeds one intake. `run` it in a task; `ready` is set whenever the gateway gives us events."""

    def __init__(self, connection: Connection, intake: Intake, environment: Environment) -> None:
        self._connection = connection
        self._intake = intake
        self._environment = environment
        self._lanes = Lanes(environment, self._filling)
        self._authors: OrderedDict[str, Sender] = OrderedDict()
        self._channels: OrderedDict[str, Channel] = OrderedDict()
        self._guilds: set[str] = set()
        self._me = Me(id="")
        self._session = ""
        self._was_ready = False
        self._state: Health = Health(state="connecting")
        self.ready = asyncio.Event()

    @property
    def health(self) -> Health:
        """Whether events arrive and are stored."""
        trouble = next(iter(self._lanes.trouble.values()), "")
        if trouble and self._state.state == "ready":
            return Health(state="failing", last_contact_ms=self._state.last_contact_ms, detail=trouble)
        return self._state

    # ---------------------------------------------------------------------------------------------------- life cycle

    async def open(self) -> Me:
        """Check the token; see `Connection.open`."""
        self._me = await self._connection.open(self._frame, self._lost)
        if not self._connection.sees_content:
            log.warning("the Message Content Intent is off: in servers only what mentions the bot is read")
        return self._me

    async def run(self) -> None:
        """Keep the gateway until cancelled. The client resumes sessions by itself: here it is made anew."""
        failures = 0
        while True:
            try:
                await self._connection.listen()
            except Exception as error:  # noqa: BLE001 - whatever it is, inbound must not end; health shows it
                failures = 0 if self._state.state == "ready" else failures + 1
                self._failed(error)
            await self._pause(failures)
            while not await self._is_open_again():
                failures += 1
                await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        await self._environment.sleep(min(FIRST_PAUSE_SECONDS * 2 ** min(failures, 10), LAST_PAUSE_SECONDS))

    async def _is_open_again(self) -> bool:
        await self._connection.close()
        try:
            await self.open()
        except AdapterError as error:
            self._failed(error)
            return False
        return True

    async def stop(self) -> None:
        """Feed nothing any more."""
        await self._lanes.stop()
        self._state = Health(state="stopped", last_contact_ms=self._state.last_contact_ms)

    def _failed(self, error: Exception) -> None:
        self.ready.clear()
        if not isinstance(error, AdapterError):
            log.error("the gateway failed in a way that it should not", exc_info=error)
        state = "failed" if isinstance(error, BadCredentials) else "failing"
        log.warning("no messages from Discord: %s", error)
        self._state = Health(state=state, last_contact_ms=self._state.last_contact_ms, detail=str(error))

    def _lost(self) -> None:
        self.ready.clear()
        if self._state.state == "ready":
            detail = "the gateway was lost and is being taken up again"
            self._state = Health(state="connecting", last_contact_ms=self._state.last_contact_ms, detail=detail)

    # --------------------------------------------------------------------------------------------------------- frames

    def _frame(self, frame: Payload) -> None:
        """Any frame shows that the gateway lives, also the answer to a heartbeat."""
        name, data = a_text(frame.get("t")), an_object(frame.get("d"))
        if name in ("READY", "RESUMED"):
            self._begin(name, data)
        now = self._environment.now_ms()
        self._state = Health(state=self._state.state, last_contact_ms=now, detail=self._state.detail)
        mark = f"{self._session}:{frame.get('s')}"
        if name == "MESSAGE_DELETE_BULK":
            for number in _ids(data.get("ids")):
                self._event("MESSAGE_DELETE", {**data, "id": number}, f"{mark}:{number}")
        elif name in EVENTS:
            self._event(name, data, mark)
        elif name == "GUILD_ROLE_CREATE":
            self._learn_roles([an_object(data.get("role"))])

    def _begin(self, name: str, data: Payload) -> None:
        self._state = Health(state="ready")
        self.ready.set()
        if name == "RESUMED":
            return  # what was missed is sent again
        self._session = a_text(data.get("session_id"))
        self._guilds = {an_id(guild.get("id")) for guild in objects(data.get("guilds"))}
        if self._was_ready:
            self._lanes.fill_gaps()
        self._was_ready = True
        log.info("Discord gives us messages")

    def _event(self, name: str, data: Payload, mark: str) -> None:
        if name.startswith("GUILD_"):
            self._guild(name, data, mark)
            return
        channel = an_id(data.get("channel_id")) or an_id(an_object(data.get("channel")).get("id"))
        if channel and not self._is_ours(name, data):
            event = Event(name=name, data=data, mark=mark)
            self._lanes.put(channel, self._taking(channel, event))

    def _is_ours(self, name: str, data: Payload) -> bool:
        """Whether we said or did it: Discord tells that too."""
        author = an_object(data.get("author")).get("id") if name.startswith("MESSAGE_") else None
        actor = data.get("user_id") if name.startswith("MESSAGE_REACTION") else None
        return self._me.id in (author, actor)

    def _guild(self, name: str, data: Payload, mark: str) -> None:
        """Servers that we are in are told of at the beginning as well, and after they could not be reached."""
        number = an_id(data.get("id"))
        self._learn_roles(objects(data.get("roles")))
        came = name == "GUILD_CREATE" and number not in self._guilds
        went = name == "GUILD_DELETE" and data.get("unavailable") is not True
        if not number or not (came or went):
            return
        (self._guilds.add if came else self._guilds.discard)(number)
        where = Channel(id=number, kind="other", name=a_text(data.get("name")))
        event = Event(name=name, data=data, mark=mark)
        self._lanes.put(number, lambda: self._intake(read(event, where, self._me)))

    def _learn_roles(self, roles: Sequence[Payload]) -> None:
        ours = {an_id(role.get("id")) for role in roles if an_object(role.get("tags")).get("bot_id") == self._me.id}
        if ours - self._me.roles:
            self._me = replace(self._me, roles=self._me.roles | ours)

    # ---------------------------------------------------------------------------------------------------------- intake

    def _taking(self, channel: str, event: Event) -> Job:
        async def take() -> None:
            inbound = await self.inbound(channel, event)
            await self._intake(inbound)
            self._stored(channel, inbound)

        return take

    async def inbound(self, channel: str, event: Event) -> Inbound:
        """What an event tells."""
        if event.name == "MESSAGE_DELETE":
            author = self._authors.get(an_id(event.data.get("id")))
            event = Event(name=event.name, data=event.data, mark=event.mark, author=author)
        return read(event, await self.where(channel, event.data), self._me)

    def _stored(self, channel: str, inbound: Inbound) -> None:
        if inbound.ref is None or inbound.kind not in _SPOKEN or inbound.handle is not None:
            return
        if inbound.addressed or inbound.place.thread == channel or inbound.chat_kind == "private":
            self._lanes.saw(channel, inbound.ref.id)
        if inbound.sender.kind is SenderKind.PERSON:
            _remember(self._authors, inbound.ref.id, inbound.sender)

    async def where(self, number: str, data: Payload) -> Channel:
        """The channel in which an event happened; outside of a server it is a direct message."""
        told = channel_of(an_object(data.get("channel")))
        if told is not None and told.id == number:
            return told
        if "guild_id" not in data:
            return Channel(id=number, kind="dm")
        return await self.channel(number)

    async def channel(self, number: str) -> Channel:
        """The channel, as the gateway told us of it, or else as it is asked for."""
        return self._connection.channel(number) or self._channels.get(number) or await self._looked_up(number)

    async def _looked_up(self, number: str) -> Channel:
        try:
            path = "/channels/{channel_id}"
            found = await self._connection.call(Request(verb="GET", path=path, ids={"channel_id": number}))
        except (TargetGone, Refused) as error:
            log.info("channel %s is not told to us: %s", number, error)
            return Channel(id=number, kind="other")
        channel = channel_of(an_object(found)) or Channel(id=number, kind="other")
        _remember(self._channels, number, channel)
        return channel

    # --------------------------------------------------------------------------------------------------------- history

    def stored_up_to(self, channel: str, message: str) -> None:
        """The message is stored, as is all that was said in the channel before it."""
        self._lanes.saw(channel, message)

    def _filling(self, channel: str) -> Job:
        async def fill() -> None:
            since = self._lanes.seen(channel)
            if since is None:
                return
            try:
                missed = await self.history(channel, since)
            except (TargetGone, Refused) as error:
                log.warning("what was missed in channel %s cannot be read: %s", channel, error)
                return
            for inbound in missed:
                await self._intake(inbound)
                self._stored(channel, inbound)

        return fill

    async def history(self, channel: str, since: str | None) -> tuple[Inbound, ...]:
        """What people said in a channel after a message, or last; oldest first."""
        found: list[Payload] = []
        for _ in range(MOST_PAGES):
            page = objects(await self._connection.call(outbound.history(channel, after=since, limit=PAGE)))
            page = sorted(page, key=lambda one: int(an_id(one.get("id")) or 0))
            found += page
            if since is None or len(page) < PAGE:
                break
            since = an_id(page[-1].get("id"))
        where = await self.channel(channel)  # history does not say of which server it is
        told = [
            read(Event(name="MESSAGE_CREATE", data={"channel_id": channel, **message}, mark="history"), where, self._me)
            for message in found
            if an_object(message.get("author")).get("id") != self._me.id
        ]
        return tuple(one for one in told if one.kind in _SPOKEN)


def _ids(value: object) -> list[str]:
    several = cast("list[object]", value) if isinstance(value, list) else []
    return [number for one in several if (number := an_id(one))]


def _remember(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
