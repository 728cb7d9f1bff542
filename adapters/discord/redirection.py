"""Taking a client of Discord to another server, through the connector that aiohttp lets everybody pass in.

The client goes on to ask for Discord's hosts; where they are reached is this connector's business. Paths and the Host
header stay as they are. It stands on one thing of aiohttp that is not promised: that `connect` is given the request,
and takes the address from it. A test fails loudly if that changes.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import yarl

HOSTS = frozenset({"discord.com", "gateway.discord.gg", "cdn.discordapp.com", "media.discordapp.net"})


class RedirectingConnector(aiohttp.TCPConnector):
    """Reaches one server for all of Discord's hosts, and refuses every other. Make it inside of a running loop."""

    def __init__(self, base: str) -> None:
        super().__init__(limit=0)
        self._to = yarl.URL(base)

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout) -> Any:
        """A connection for the request; ClientConnectionError if it is for somebody else."""
        if req.url.host in HOSTS:
            req.url = self._here(req.url)
        elif req.url.host != self._to.host:
            raise aiohttp.ClientConnectionError(f"{req.url.host} is not reached from here: discord.api_base is set")
        return await super().connect(req, traces, timeout)

    def _here(self, url: yarl.URL) -> yarl.URL:
        secure = self._to.scheme == "https"
        scheme = ("wss" if secure else "ws") if url.scheme.startswith("ws") else self._to.scheme
        return url.with_scheme(scheme).with_host(str(self._to.host)).with_port(self._to.port)


def connector(base: str | None) -> aiohttp.TCPConnector:
    """A connector to Discord itself, or to the server that stands in for it."""
    return aiohttp.TCPConnector(limit=0) if base is None else RedirectingConnector(base)
