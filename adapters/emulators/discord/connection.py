"""One open websocket of a client: what is written to it goes out in order, compressed if the client asked for that."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections import deque
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from adapters.emulators.discord.bots import Bot, Session
from adapters.emulators.server import abort
from adapters.emulators.wire_json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """End the connection with one of Discord's codes."""

    code: int
    reason: str


ZLIB_STREAM: Final = "zlib-stream"


class Connection:
    """A client that is connected; `session` and `bot` are known once it has identified itself."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self.bot: Bot | None = None
        self.session: Session | None = None
        self.commands: deque[float] = deque()
        """When the client sent something, in the last minute."""
        self.beats = asyncio.Event()
        self.closed_here = False
        """It was the platform that closed it: the session can be resumed."""
        self.frozen = False
        """Half-open: nothing goes out and nothing is heard."""
        self._request = request
        self._zlib = zlib.compressobj() if request.query.get("compress") == ZLIB_STREAM else None
        self._waiting: asyncio.Queue[JsonObject | Close] = asyncio.Queue()

    def send(self, payload: JsonObject) -> None:
        """Write behind whatever is being written."""
        self._waiting.put_nowait(payload)

    def close(self, code: int, reason: str) -> None:
        """End the connection behind whatever is being written."""
        self.closed_here = True
        self._waiting.put_nowait(Close(code=code, reason=reason))

    def abort(self) -> bool:
        """Cut the connection without a word; False if it was gone already."""
        return abort(self._request)

    async def write(self) -> None:
        """Write until the connection ends."""
        while True:
            match await self._waiting.get():
                case Close(code=code, reason=reason):
                    await self.socket.close(code=code, message=reason.encode())
                    return
                case payload:
                    if not self.frozen:
                        # A client that is gone learns what it missed when it resumes.
                        with contextlib.suppress(ConnectionResetError):
                            await self._frame(payload)

    async def _frame(self, payload: JsonObject) -> None:
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        if self._zlib is None:
            await self.socket.send_str(text)
            return
        # One stream for the whole connection, flushed at every payload: its end is 00 00 FF FF.
        await self.socket.send_bytes(self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH))
