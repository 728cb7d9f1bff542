"""A web server on the loopback interface that says exactly what it is told to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("page_test.pem")
"""Self-signed, for the name `page.test`."""


def answer(body: bytes = b"", *, status: str = "200 OK", length: bool = True, **headers: str) -> bytes:
    """A whole HTTP answer; a header `content_type` is written `content-type`."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if length:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return answer(status=status, location=location)


@dataclass(kw_only=True)
class Pages:
    """What is asked under a path is answered by its pieces, one after the other; `hang` leaves the connection open."""

    answers: Mapping[str, Iterable[bytes] | bytes]
    hang: bool = False
    port: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    connections: int = 0
    sent: int = 0
    serving: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on one connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            await self._answer(reader, writer)
        finally:
            writer.transport.abort() if self.hang else writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.serving.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            self.asked.append({"method": method, "path": path, **headers})
            pieces = self.answers.get(path, answer(status="404 Not Found"))
            for piece in [pieces] if isinstance(pieces, bytes) else pieces:
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
            if self.hang:
                await reader.read()

    async def end(self) -> None:
        """End what is still served."""
        for task in list(self.serving):
            task.cancel()
        await asyncio.gather(*self.serving, return_exceptions=True)


@asynccontextmanager
async def served(pages: Pages, *, tls: bool = False, host: str = "127.0.0.1") -> AsyncGenerator[Pages]:
    """The pages, at `pages.port` of the loopback interface."""
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        context.sni_callback = lambda _connection, name, _context: pages.names.append(name)
    server = await asyncio.start_server(pages.serve, host, 0, ssl=context)
    try:
        pages.port = server.sockets[0].getsockname()[1]
        yield pages
    finally:
        server.close()
        await pages.end()
        await server.wait_closed()
