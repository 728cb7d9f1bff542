"""The gateway: identify, heartbeat, resume, and what a client may send. Source: docs.discord.com, "Gateway"."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, Final

from aiohttp import WSMsgType, web

from adapters.emulators.discord.bots import REAL_HOSTS, Bot, Session
from adapters.emulators.discord.connection import Connection
from adapters.emulators.discord.intents import KNOWN_BITS, PRIVILEGED, Intent
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.rendering import member_object, own_user_object
from adapters.emulators.journal import EntryKind
from adapters.emulators.wire_json import JsonObject, is_array, is_integer, is_object

HEARTBEAT: Final = 1
IDENTIFY: Final = 2
RESUME: Final = 6
RECONNECT: Final = 7
REQUEST_MEMBERS: Final = 8
INVALID_SESSION: Final = 9
HELLO: Final = 10
HEARTBEAT_ACK: Final = 11
UNANSWERED: Final = {3: "presence_update", 4: "voice_state_update", 31: "request_soundboard_sounds"}
"""What a client may send that changes nothing here."""
FORGETS: Final = frozenset({1000, 1001})
"""A client that closes with one of these ends its session; with any other it can resume."""
CLOSE_SECONDS: Final = 2.0
"""Real seconds that a client has to answer a close, before it is cut."""
MINUTE: Final = 60.0
DAY: Final = 86_400.0


class Refused(Exception):
    """The connection ends with one of Discord's close codes."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Gateway:
    """All open connections."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.connections: list[Connection] = []

    def mount(self, app: web.Application) -> None:
        """Add the route: the gateway lives at the root of its host."""
        for path in ("/", "/gateway", "/gateway/"):
            app.router.add_get(path, self._serve)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=1 << 20, timeout=CLOSE_SECONDS)
        if not socket.can_prepare(request):
            return web.Response(status=400, text="this is a websocket")
        await socket.prepare(request)
        connection = Connection(request, socket)
        self.connections.append(connection)
        workers = [asyncio.ensure_future(connection.write()), asyncio.ensure_future(self._guard(connection))]
        try:
            self._hello(connection, request)
            await self._listen(connection)
        finally:
            self.connections.remove(connection)
            self._leave(connection)
            await _end(workers)
        return socket

    def _hello(self, connection: Connection, request: web.Request) -> None:
        real_names = request.url.host in REAL_HOSTS
        for bot in self._platform.bots.values():
            bot.real_names = bot.real_names or real_names
        if request.query.get("v", "10") != "10" or request.query.get("encoding", "json") != "json":
            self._platform.violate(None, "gateway_address", {"query": dict(request.query)})
            connection.close(4012, "Invalid API version")
            return
        interval = int(self._platform.knobs.heartbeat_interval * 1000)
        connection.send(_payload(HELLO, {"heartbeat_interval": interval, "_trace": []}))

    async def _guard(self, connection: Connection) -> None:
        """Cut a connection that has stopped to send heartbeats."""
        patience = self._platform.knobs.heartbeat_patience
        while patience is not None:
            if not await self._platform.clock.wait(connection.beats, patience):
                connection.abort()
                return
            connection.beats = asyncio.Event()

    def _leave(self, connection: Connection) -> None:
        session, bot = connection.session, connection.bot
        if session is None or bot is None or session.line is not connection:
            return
        session.line = None
        session.left_at = self._platform.clock.now()
        code = connection.socket.close_code
        if code in FORGETS and not connection.closed_here:
            bot.sessions.pop(session.id, None)
        data = {"session": session.id, "code": code, "resumable": session.id in bot.sessions}
        self._platform.journal.record(EntryKind.EVENT, "disconnected", {"state": "left", **data}, account=bot.account)

    # -- what the client says

    async def _listen(self, connection: Connection) -> None:
        async for message in connection.socket:
            if connection.frozen:
                continue
            try:
                self._hear(connection, message.type, message.data)
            except Refused as refused:
                found = {"code": refused.code, "what": refused.reason}
                self._platform.violate(connection.bot, "gateway_close", found)
                connection.close(refused.code, refused.reason)

    def _hear(self, connection: Connection, kind: WSMsgType, data: Any) -> None:
        raw = data.encode() if isinstance(data, str) else bytes(data)
        if len(raw) > self._platform.knobs.gateway_payload or kind not in (WSMsgType.TEXT, WSMsgType.BINARY):
            raise Refused(4002, "Error while decoding payload.")
        try:
            payload = json.loads(raw)
        except ValueError as error:
            raise Refused(4002, "Error while decoding payload.") from error
        if not is_object(payload) or not is_integer(payload.get("op")):
            raise Refused(4002, "Error while decoding payload.")
        self._count(connection)
        self._obey(connection, payload["op"], payload.get("d"))

    def _count(self, connection: Connection) -> None:
        now = self._platform.clock.now()
        connection.commands.append(now)
        while connection.commands[0] <= now - MINUTE:
            connection.commands.popleft()
        if len(connection.commands) > self._platform.knobs.commands_per_minute:
            raise Refused(4008, "Rate limited.")

    def _obey(self, connection: Connection, op: int, data: Any) -> None:
        match op:
            case 1:
                connection.beats.set()
                connection.send(_payload(HEARTBEAT_ACK, None))
            case 2:
                self._identify(connection, data)
            case 6:
                self._resume(connection, data)
            case _ if connection.session is None:
                raise Refused(4003, "Not authenticated.")
            case 8:
                self._members(connection.bot, connection.session, data)
            case _ if op in UNANSWERED:
                self._record(connection.bot, UNANSWERED[op], data)
            case _:
                raise Refused(4001, "Unknown opcode.")

    def _record(self, bot: Bot | None, name: str, data: Any) -> None:
        given: JsonObject = data if is_object(data) else {}
        params = {key: value for key, value in given.items() if key != "token"}
        account = bot.account if bot is not None else ""
        self._platform.journal.record(EntryKind.REQUEST, name, {"params": params}, account=account)

    # -- sessions

    def _authenticated(self, data: Any) -> tuple[Bot, JsonObject]:
        if not is_object(data):
            raise Refused(4002, "Error while decoding payload.")
        bot = self._platform.bots.get(str(data.get("token", "")).removeprefix("Bot "))
        if bot is None:
            raise Refused(4004, "Authentication failed.")
        return bot, data

    def _identify(self, connection: Connection, data: Any) -> None:
        if connection.session is not None:
            raise Refused(4005, "Already authenticated.")
        bot, given = self._authenticated(data)
        self._record(bot, "identify", given)
        intents = _intents(given, bot)
        self._count_identify(bot)
        session = Session(id=self._platform.secret()[:32], bot=bot.id, intents=intents)
        bot.sessions[session.id] = session
        self._attach(connection, bot, session)
        self._platform.send(bot, session, "READY", self._ready(bot, session, given))
        if intents & Intent.GUILDS:
            for guild in self._platform.world.guilds.values():
                if bot.id in guild.members:
                    body = self._platform.render.guild_create(guild, bot.id)
                    self._platform.send(bot, session, "GUILD_CREATE", body)

    def _count_identify(self, bot: Bot) -> None:
        now = self._platform.clock.now()
        bot.identified = [at for at in bot.identified if at > now - DAY] + [now]
        if len(bot.identified) > self._platform.knobs.identify_limit:
            raise Refused(4004, "Authentication failed.")  # the real platform resets the token

    def _ready(self, bot: Bot, session: Session, given: JsonObject) -> JsonObject:
        guilds = [guild.id for guild in self._platform.world.guilds.values() if bot.id in guild.members]
        body: JsonObject = {
            "v": 10,
            "user_settings": {},
            "user": own_user_object(bot.user),
            "session_type": "normal",
            "session_id": session.id,
            "resume_gateway_url": self._platform.gateway_url(bot),
            "relationships": [],
            "private_channels": [],
            "presences": [],
            "guilds": [{"id": guild, "unavailable": True} for guild in guilds],
            "guild_join_requests": [],
            "geo_ordered_rtc_regions": [],
            "auth": {},
            "application": {"id": bot.id, "flags": bot.flags},
            "_trace": [],
        }
        return body | ({"shard": given["shard"]} if "shard" in given else {})

    def _attach(self, connection: Connection, bot: Bot, session: Session) -> None:
        old = session.line
        connection.bot, connection.session, session.line = bot, session, connection
        if isinstance(old, Connection) and old is not connection:
            old.abort()

    def _resume(self, connection: Connection, data: Any) -> None:
        if connection.session is not None:
            raise Refused(4005, "Already authenticated.")
        bot, given = self._authenticated(data)
        self._record(bot, "resume", given)
        self._platform.forget_old(bot)
        session = bot.sessions.get(str(given.get("session_id")))
        sequence = given.get("seq")
        missed = session.missed(sequence) if session is not None and is_integer(sequence) else None
        if session is None or missed is None:
            connection.send(_payload(INVALID_SESSION, False))
            return
        self._attach(connection, bot, session)
        for payload in missed:
            connection.send(payload)
        self._platform.send(bot, session, "RESUMED", {"_trace": []})

    def _members(self, bot: Bot | None, session: Session | None, data: Any) -> None:
        self._record(bot, "request_guild_members", data)
        guild = self._platform.world.guilds.get(str(data.get("guild_id"))) if is_object(data) else None
        if bot is None or session is None or guild is None or bot.id not in guild.members:
            return
        wanted = data.get("user_ids")
        ids = [str(one) for one in wanted] if is_array(wanted) else [str(wanted)] if wanted else list(guild.members)
        found = [guild.members[user] for user in ids if user in guild.members]
        chunk: JsonObject = {
            "guild_id": guild.id,
            "members": [member_object(one, self._platform.world.users[one.user]) for one in found],
            "chunk_index": 0,
            "chunk_count": 1,
            "not_found": [user for user in ids if user not in guild.members],
        }
        chunk |= {"nonce": data["nonce"]} if "nonce" in data else {}
        self._platform.send(bot, session, "GUILD_MEMBERS_CHUNK", chunk)

    # -- what happens to connections

    def reconnect(self, chosen: Callable[[Bot], bool]) -> int:
        """Op 7: ask clients to come back and resume; returns how many were asked."""
        asked = self._chosen(chosen)
        for connection in asked:
            connection.send(_payload(RECONNECT, None))
        return len(asked)

    def invalidate(self, chosen: Callable[[Bot], bool], *, resumable: bool) -> int:
        """Op 9: the session is invalid. Unless it is resumable, what happened meanwhile is forgotten."""
        asked = self._chosen(chosen)
        for connection in asked:
            session, bot = connection.session, connection.bot
            if session is not None and bot is not None and not resumable:
                bot.sessions.pop(session.id, None)
                session.line = None
            connection.send(_payload(INVALID_SESSION, resumable))
            # The client may identify or resume on this very connection.
            if session is not None and session.line is connection:
                session.line = None
                session.left_at = self._platform.clock.now()
            connection.session = None
        return len(asked)

    def close(self, chosen: Callable[[Bot], bool], *, code: int, reason: str) -> int:
        """Close connections with a code; returns how many."""
        asked = self._chosen(chosen)
        for connection in asked:
            connection.close(code, reason)
        return len(asked)

    def abort(self, chosen: Callable[[Bot], bool]) -> int:
        """Cut connections without a word; returns how many."""
        return sum(connection.abort() for connection in self._chosen(chosen))

    def freeze(self, chosen: Callable[[Bot], bool]) -> int:
        """Leave connections open but deaf and dumb; returns how many."""
        asked = self._chosen(chosen)
        for connection in asked:
            connection.frozen = True
        return len(asked)

    async def end(self) -> None:
        """Close everything because the server stops."""
        for connection in list(self.connections):
            connection.closed_here = True
            with contextlib.suppress(ConnectionResetError):
                await connection.socket.close(code=1001, message=b"going away")

    def _chosen(self, chosen: Callable[[Bot], bool]) -> list[Connection]:
        return [one for one in self.connections if one.bot is not None and chosen(one.bot)]


async def _end(workers: list[asyncio.Task[None]]) -> None:
    """End what ran beside a connection. Raises what it failed with, so that the emulator's owner learns of it."""
    for worker in workers:
        worker.cancel()
    for ended in await asyncio.gather(*workers, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


def _payload(op: int, data: Any) -> JsonObject:
    return {"op": op, "d": data, "s": None, "t": None}


def _intents(given: JsonObject, bot: Bot) -> Intent:
    bits = given.get("intents")
    if not is_integer(bits) or bits < 0 or bits & ~KNOWN_BITS:
        raise Refused(4013, "Invalid intent(s).")
    if not is_object(given.get("properties")):
        raise Refused(4002, "Error while decoding payload.")
    if bits & PRIVILEGED & ~bot.granted:
        raise Refused(4014, "Disallowed intent(s).")
    return Intent(bits)
