"""Socket Mode: WebSockets that an app opened, of which each envelope takes one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import WSMsgType, web

from adapters.emulators.clock import Clock
from adapters.emulators.errors import NotKnown
from adapters.emulators.journal import EntryKind, Journal
from adapters.emulators.server import EmulatorServer, abort
from adapters.emulators.slack.app import App
from adapters.emulators.slack.delivery import Delivery, Envelope, Outcome
from adapters.emulators.slack.knobs import Knobs
from adapters.emulators.wire_json import JsonObject, is_object

PATH: Final = "/link/"
HOST: Final = "applink-emulated"
REFRESHES: Final = ("warning", "refresh_requested", "link_disabled")
"""Reasons of a `disconnect` message that ask the app to come back."""
CLOSED_BY_US: Final = 1000
CLOSE_SECONDS: Final = 2.0
"""Real time for the answer to a close frame."""


@dataclass(slots=True, kw_only=True)
class Socket:
    """One connection. `leaving`: was told to go, gets nothing new. `silent`: open but dead."""

    number: int
    request: web.Request
    wire: web.WebSocketResponse
    leaving: bool = False
    silent: bool = False
    waiting: dict[str, Envelope] = field(default_factory=dict[str, Envelope])
    closing: asyncio.Task[None] | None = None
    """Says goodbye; the connection must stay until the other side has heard it."""


class Sockets:
    """The open connections of the app."""

    def __init__(
        self,
        *,
        app: App,
        clock: Clock,
        journal: Journal,
        knobs: Knobs,
        server: EmulatorServer,
        delivery: Delivery,
        new_id: Callable[[], str],
    ) -> None:
        self._app = app
        self._clock = clock
        self._journal = journal
        self._knobs = knobs
        self._server = server
        self._delivery = delivery
        self._new_id = new_id
        self._tickets: dict[str, float] = {}
        self._open: list[Socket] = []
        self._late: set[str] = set()
        self._last = 0
        self._next = 0

    def mount(self) -> None:
        """Add the route."""
        self._server.app.router.add_get(PATH, self._serve)

    # -- connecting

    def address(self) -> str:
        """A fresh address for one connection."""
        ticket = self._new_id()
        self._tickets[ticket] = self._clock.now() + self._knobs.ticket_life
        base = self._server.url.replace("http://", "ws://", 1)
        return f"{base}{PATH}?ticket={ticket}&app_id={self._app.app_id}"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        valid_until = self._tickets.pop(request.query.get("ticket", ""), 0.0)
        if self._clock.now() > valid_until:
            return web.Response(status=408, text="this ticket is unknown, used or too old")
        wire = web.WebSocketResponse(autoping=False, timeout=CLOSE_SECONDS)
        await wire.prepare(request)
        self._last += 1
        socket = Socket(number=self._last, request=request, wire=wire)
        if len(self._open) >= self._knobs.max_sockets:
            await self._say_goodbye(socket, "too_many_websockets")
            await wire.close()
            return wire
        self._open.append(socket)
        pinging = self._server.spawn(self._ping(socket))
        try:
            # The tracked request is what `disconnect` cuts.
            with self._server.tracked(request, self._app.account):
                await self._greet(socket)
                await self._listen(socket)
                if socket.closing is not None:
                    await asyncio.wait({socket.closing})
        finally:
            pinging.cancel()
            self._open.remove(socket)
            self._note(socket, "closed")
        return wire

    async def _greet(self, socket: Socket) -> None:
        hello: JsonObject = {
            "type": "hello",
            "num_connections": len(self._open),
            "debug_info": {"host": HOST, "build_number": 1, "approximate_connection_time": 18_060},
            "connection_info": {"app_id": self._app.app_id},
        }
        self._note(socket, "hello")
        await self._send(socket, hello)

    async def _ping(self, socket: Socket) -> None:
        while not socket.wire.closed:
            await self._clock.sleep(self._knobs.ping_interval)
            if not (socket.silent or socket.leaving or socket.wire.closed):
                try:
                    await socket.wire.ping(f"Ping from {HOST}".encode())
                except ConnectionError:
                    return

    async def _listen(self, socket: Socket) -> None:
        while True:
            message = await socket.wire.receive()
            if socket.silent:
                await self._play_dead(socket)
                return
            match message.type:
                case WSMsgType.TEXT:
                    self._heard(socket, message.data)
                case WSMsgType.PING:
                    await socket.wire.pong(message.data)
                case WSMsgType.PONG:
                    continue
                case _:
                    return

    async def _play_dead(self, socket: Socket) -> None:
        transport = socket.request.transport
        while transport is not None and not transport.is_closing() and not socket.wire.closed:
            if not await self._clock.wait(self._server.cut, self._knobs.ping_interval):
                continue
            abort(socket.request)

    # -- envelopes

    async def carry(self, envelope: Envelope) -> Outcome:
        """Hand it to one of the sockets and wait for the acknowledgement on that one."""
        socket = self._choose()
        if socket is not None:
            socket.waiting[envelope.id] = envelope
            self._delivery.trace(envelope, "handed", socket=socket.number)
            await self._send(socket, _frame(envelope))
        # Without a socket Slack's dispatcher has to wait all the same.
        answered = await self._clock.wait(envelope.answered, self._knobs.ack_seconds)
        if socket is not None:
            socket.waiting.pop(envelope.id, None)
        if answered:
            return Outcome(acknowledged=True, answer=envelope.answer)
        self._late.add(envelope.id)
        return Outcome(acknowledged=False, reason="timeout")

    def _choose(self) -> Socket | None:
        usable = [one for one in self._open if not one.leaving and not one.wire.closed]
        if not usable:
            return None
        self._next += 1
        return usable[self._next % len(usable)]

    def _heard(self, socket: Socket, text: str) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            self._violate("unreadable_frame", {"frame": text[:200]})
            return
        number = frame.get("envelope_id") if is_object(frame) else None
        if not is_object(frame) or not isinstance(number, str):
            self._violate("unreadable_frame", {"frame": text[:200]})
            return
        envelope = socket.waiting.get(number)
        if envelope is None:
            if number not in self._late:
                self._violate("unknown_envelope", {"envelope_id": number})
            return
        payload = frame.get("payload")
        if payload and not envelope.wants_answer:
            self._violate("payload_not_accepted", {"envelope_id": number, "event": envelope.name})
        envelope.answer = payload if is_object(payload) else None
        envelope.answered.set()

    def _violate(self, rule: str, data: JsonObject) -> None:
        self._journal.record(EntryKind.VIOLATION, rule, data, account=self._app.account)

    async def _send(self, socket: Socket, frame: JsonObject) -> None:
        if socket.silent:
            return
        try:
            await socket.wire.send_str(json.dumps(frame))
        except ConnectionError:
            # The peer died meanwhile: for Slack that is an acknowledgement that does not come.
            return

    # -- going

    async def refresh(self, reason: str, number: int | None = None) -> int:
        """Tell sockets to come back over a new connection; they are closed after a grace if they stay."""
        if reason not in REFRESHES:
            raise NotKnown(f"no reason {reason}; there are {', '.join(REFRESHES)}")
        chosen = self.chosen(number)
        for socket in chosen:
            await self._say_goodbye(socket, reason)
            self._server.spawn(self._close_later(socket))
        return len(chosen)

    async def _say_goodbye(self, socket: Socket, reason: str) -> None:
        # A warning comes while the socket still works.
        socket.leaving = reason != "warning"
        self._note(socket, reason)
        await self._send(socket, {"type": "disconnect", "reason": reason, "debug_info": {"host": HOST}})

    async def _close_later(self, socket: Socket) -> None:
        await self._clock.sleep(self._knobs.refresh_grace)
        self._start_closing(socket)

    def close(self, number: int | None = None) -> int:
        """Close sockets with a proper close frame."""
        chosen = self.chosen(number)
        for socket in chosen:
            self._start_closing(socket)
        return len(chosen)

    def _start_closing(self, socket: Socket) -> None:
        socket.leaving = True
        if socket.closing is None and not socket.wire.closed:
            socket.closing = self._server.spawn(self._close(socket))

    async def _close(self, socket: Socket) -> None:
        await socket.wire.close(code=CLOSED_BY_US)

    def abort(self, number: int | None = None) -> int:
        """Cut sockets without a word."""
        return sum(abort(socket.request) for socket in self.chosen(number))

    def half_open(self, number: int | None = None) -> int:
        """Let sockets stay open and dead: nothing is sent, nothing answered, nothing read."""
        chosen = self.chosen(number)
        for socket in chosen:
            socket.silent = True
            self._note(socket, "half_open")
        return len(chosen)

    def chosen(self, number: int | None) -> list[Socket]:
        """Open sockets, or the one with that number. Raises NotKnown."""
        if number is None:
            return list(self._open)
        found = [one for one in self._open if one.number == number]
        if not found:
            raise NotKnown(f"no open socket {number}; open are {self.numbers or 'none'}")
        return found

    @property
    def numbers(self) -> list[int]:
        """Sockets that take events, oldest first."""
        return [one.number for one in self._open if not one.leaving and not one.wire.closed]

    def _note(self, socket: Socket, state: str) -> None:
        data: JsonObject = {"state": state, "socket": socket.number}
        self._journal.record(EntryKind.EVENT, "socket", data, account=self._app.account)


def _frame(envelope: Envelope) -> JsonObject:
    frame: JsonObject = {
        "envelope_id": envelope.id,
        "type": envelope.kind.value,
        "payload": envelope.payload,
        "accepts_response_payload": envelope.wants_answer,
    }
    if not envelope.wants_answer:
        frame |= {"retry_attempt": envelope.attempt, "retry_reason": envelope.reason}
    return frame
