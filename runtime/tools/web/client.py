"""Asks the public web for one page at a time, and nothing else, whatever the name resolves to and wherever it leads.

A name is looked up once per request; all its addresses must be public, and the connection goes to one of exactly
these, under the name that was asked for. Each redirect is a new request that passes the same checks. No proxy, cookie,
password or header of ours goes along. Size, expanded size and time are limited while reading, whatever the answer says
of itself.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from runtime.errors import ToolError
from runtime.tools.paths import printable
from runtime.tools.web.addresses import is_public
from runtime.tools.web.targets import WEB_PORTS, checked_target, is_address

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> its addresses; OSError if there are none."""

Permitted: TypeAlias = Callable[[str], bool]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": "pilothouse",
    "Accept": "text/html,application/xhtml+xml,application/json,text/plain;q=0.9,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """What one page may take: bytes on the wire, bytes after expansion, seconds with all redirects, redirects."""

    wire_bytes: int = 4 * 1024 * 1024
    body_bytes: int = 4 * 1024 * 1024
    seconds: float = 30.0
    redirects: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer. `url` is where it came from in the end; `cut` says that there was more than the limits admit."""

    url: str
    status: int
    content_type: str
    charset: str | None
    body: bytes
    cut: bool = False


class WebClient:
    """Reads pages of the public web. Holds nothing between two of them.

    `resolve`, `ports`, `permitted` and `tls` are replaced by tests only, and only here.
    """

    def __init__(
        self,
        limits: WebLimits | None = None,
        *,
        resolve: Resolve | None = None,
        ports: Collection[int] = WEB_PORTS,
        permitted: Permitted = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits or WebLimits()
        self._resolver = _GuardedResolver(resolve or _looked_up, permitted)
        self._ports = ports
        self._permitted = permitted
        self._tls = tls

    def checked(self, url: str) -> URL:
        """The URL, if it may be asked for at all; ToolError says why not. Nothing is looked up."""
        return checked_target(url, ports=self._ports, permitted=self._permitted)

    async def get(self, url: str) -> Page:
        """What a GET of the URL comes to, redirects followed. ToolError says what was refused or failed."""
        target = self.checked(url)
        try:
            async with asyncio.timeout(self._limits.seconds), self._session() as session:
                return await self._followed(session, target)
        except TimeoutError:
            raise ToolError(f"{_host(target)} did not answer completely within {self._limits.seconds:g} s.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolError(f"{_host(target)} could not be read: {_reason(error)}.") from None

    async def _followed(self, session: aiohttp.ClientSession, target: URL) -> Page:
        for _ in range(self._limits.redirects + 1):
            async with session.get(target, allow_redirects=False, max_redirects=0) as response:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    return await self._page(response)
            target = self.checked(_joined(target, location))
        raise ToolError(f"The page redirects more than {self._limits.redirects} times.")

    async def _page(self, response: aiohttp.ClientResponse) -> Page:
        body, cut = await self._body(response)
        return Page(
            url=str(response.url),
            status=response.status,
            content_type=response.content_type.lower(),
            charset=response.charset,
            body=body,
            cut=cut,
        )

    async def _body(self, response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        expander = _Expander(response.headers.get("Content-Encoding", ""), self._limits.body_bytes)
        left = self._limits.wire_bytes
        while piece := await response.content.read(_PIECE):
            if not expander.add(piece[:left]) or len(piece) > left:
                return bytes(expander.body), True
            left -= len(piece)
        return bytes(expander.body), False

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            use_dns_cache=False,
            force_close=True,
            socket_factory=self._socket,
            ssl=self._tls or True,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            requote_redirect_url=False,
            timeout=aiohttp.ClientTimeout(total=None),  # ours covers the redirects too
        ) as session:
            yield session

    def _socket(self, address: tuple[Any, Any, int, str, tuple[Any, ...]]) -> socket.socket:
        """The last look, at the very address that is connected to, whatever the library did before."""
        family, kind, protocol, _, place = address
        if not self._permitted(str(place[0])) or place[1] not in self._ports:
            raise PermissionError(errno.EACCES, "not an address of the public internet")
        return socket.socket(family, kind, protocol)


class _GuardedResolver(AbstractResolver):
    """Looks a name up, and hands on its addresses only if every one of them is permitted."""

    def __init__(self, resolve: Resolve, permitted: Permitted) -> None:
        self._resolve = resolve
        self._permitted = permitted

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses; ToolError if one of them is not public: a name that has both kinds is not trusted at all."""
        addresses = await self._resolve(host, port)
        for address in addresses:
            if not is_address(address) or not self._permitted(address):
                # Which address it is stays here: it would draw a map of the inner network.
                raise ToolError(f"{printable(host)} leads to an address that is not on the public internet.")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """There is nothing to give back."""


async def _looked_up(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


class _Expander:
    """Takes a body piece by piece, and never holds more of it than the limit, however small it was packed."""

    def __init__(self, encoding: str, limit: int) -> None:
        self.body = bytearray()
        self._limit = limit
        match encoding.strip().lower():
            case "" | "identity":
                self._expand = None
            case "gzip" | "x-gzip" | "deflate":
                self._expand = zlib.decompressobj(zlib.MAX_WBITS | 32)
            case other:
                raise ToolError(f"The page is packed as {printable(other, 20)}, which was not asked for.")

    def add(self, piece: bytes) -> bool:
        """Whether the piece fitted."""
        room = self._limit - len(self.body)
        if self._expand is None:
            self.body += piece[:room]
            return len(piece) <= room
        try:
            self.body += self._expand.decompress(piece, room + 1)
        except zlib.error:
            raise ToolError("The page is packed wrongly.") from None
        fits = len(self.body) <= self._limit
        del self.body[self._limit :]
        return fits


def _joined(base: URL, location: str) -> str:
    try:
        return str(base.join(URL(location)))
    except ValueError:
        raise ToolError(f"The page redirects to {printable(location)}, which is no URL.") from None


def _host(url: URL) -> str:
    return printable(url.host or "")


def _reason(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "there is no such host"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not valid for it"
        case aiohttp.ClientConnectorError():
            return "no connection"
        case _:
            return printable(str(error) or type(error).__name__, 120)
