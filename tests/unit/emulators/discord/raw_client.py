"""A Discord client without a library: what goes over the wire, as it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

PATIENCE = 30.0
ALL_INTENTS = 0b1111111 << 9 | 0b11


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer of the API."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> int:
        """Discord's code of an error."""
        assert self.status >= 400, self.body
        return self.body["code"]

    @property
    def errors(self) -> dict[str, str]:
        """The tree of what is wrong as `place -> code`."""
        return dict(_flat(self.body.get("errors", {}), ()))


def _flat(node: Any, path: tuple[str, ...]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, inside in node.items():
        if name == "_errors":
            found += [(".".join(path), one["code"]) for one in inside]
        else:
            found += _flat(inside, (*path, name))
    return found


@dataclass
class Line:
    """An open connection to the gateway."""

    socket: aiohttp.ClientWebSocketResponse
    session: str = ""
    sequence: int | None = None
    inflate: Any = None
    got: list[dict[str, Any]] = field(default_factory=list)

    async def next(self) -> dict[str, Any]:
        """The next payload; a close comes as `{"close": code}`."""
        message = await self.socket.receive(timeout=PATIENCE)
        if message.type is aiohttp.WSMsgType.BINARY:
            assert message.data.endswith(b"\x00\x00\xff\xff")
            payload = json.loads(self.inflate.decompress(message.data))
        elif message.type is aiohttp.WSMsgType.TEXT:
            payload = json.loads(message.data)
        else:
            return {"close": self.socket.close_code, "op": None, "t": None}
        self.sequence = payload["s"] if payload["s"] is not None else self.sequence
        if payload["t"] == "READY":
            self.session = payload["d"]["session_id"]
        self.got.append(payload)
        return payload

    async def until(self, event: str) -> Any:
        """The body of the next event of that type."""
        while True:
            payload = await self.next()
            assert "close" not in payload, payload
            if payload["t"] == event:
                return payload["d"]

    async def op(self, op: int) -> Any:
        """The body of the next payload with that number."""
        while (payload := await self.next())["op"] != op:
            assert "close" not in payload, payload
        return payload["d"]

    async def closed(self) -> int:
        """The code with which the platform ends the connection."""
        while "close" not in (payload := await self.next()):
            pass
        return payload["close"]

    async def send(self, op: int, data: Any) -> None:
        """Say something."""
        await self.socket.send_str(json.dumps({"op": op, "d": data}))

    async def identify(self, token: str, intents: int = ALL_INTENTS, **more: Any) -> None:
        """Begin a session."""
        properties = {"os": "linux", "browser": "raw", "device": "raw"}
        await self.send(2, {"token": token, "intents": intents, "properties": properties, **more})

    async def resume(self, token: str, session: str, sequence: int | None) -> None:
        """Go on with a session."""
        await self.send(6, {"token": token, "session_id": session, "seq": sequence})

    async def gone(self) -> None:
        """Cut the connection without a word."""
        transport = self.socket._response.connection.transport  # type: ignore[union-attr]
        transport.abort()


class RawBot:
    """Calls operations of the emulator and opens lines to its gateway."""

    def __init__(self, url: str, token: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.token = token
        self.http = session

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: aiohttp.FormData | bytes | None = None,
        token: str | None = None,
        **query: Any,
    ) -> Reply:
        """One call; `token` is another than the own."""
        headers = {"Authorization": f"Bot {self.token if token is None else token}"}
        given: dict[str, Any] = {"json": body} if body is not None else {"data": data} if data is not None else {}
        if isinstance(data, bytes):
            headers["Content-Type"] = "application/json"
        address = f"{self.url}/api/v10{path}"
        params = {name: str(value) for name, value in query.items()}
        async with self.http.request(method, address, headers=headers, params=params, **given) as response:
            text = await response.text()
            return Reply(status=response.status, body=json.loads(text) if text else None, headers=response.headers)

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The result of a call that must succeed."""
        reply = await self.call(method, path, body, **more)
        assert reply.status < 300, reply.body
        return reply.body

    async def send(self, channel: int | str, content: str = "x", **more: Any) -> Any:
        """A message that must be accepted."""
        return await self.ok("POST", f"/channels/{channel}/messages", {"content": content, **more})

    async def try_send(self, channel: int | str, **body: Any) -> Reply:
        """A message that may be refused."""
        return await self.call("POST", f"/channels/{channel}/messages", body)

    async def line(self, **query: str) -> Line:
        """An open connection that has heard HELLO."""
        params = {"v": "10", "encoding": "json", **query}
        socket = await self.http.ws_connect(f"{self.url}/", params=params)
        line = Line(socket=socket, inflate=zlib.decompressobj())
        assert (await line.next())["op"] == 10
        return line

    async def ready(self, intents: int = ALL_INTENTS) -> Line:
        """An open connection with a session."""
        line = await self.line()
        await line.identify(self.token, intents)
        await line.until("READY")
        return line
