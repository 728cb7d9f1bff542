"""A Bot API client without a library: what goes over the wire, as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp


class RawBot:
    """Calls methods of the emulator and returns the answer's body."""

    def __init__(self, url: str, token: str, session: aiohttp.ClientSession) -> None:
        self.base = f"{url}/bot{token}"
        self.files = f"{url}/file/bot{token}"
        self.session = session

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One call with a JSON body."""
        async with self.session.post(f"{self.base}/{method}", json=params) as response:
            body = await response.json()
            assert response.status == body.get("error_code", 200)
            return body

    async def result(self, method: str, **params: Any) -> Any:
        """The result of a call that must succeed."""
        body = await self.call(method, **params)
        assert body["ok"], body
        return body["result"]

    async def error(self, method: str, **params: Any) -> str:
        """`<code> <description>` of a call that must fail."""
        body = await self.call(method, **params)
        assert not body["ok"], body
        return f"{body['error_code']} {body['description']}"

    async def form(self, method: str, data: aiohttp.FormData) -> dict[str, Any]:
        """One call with a form or multipart body."""
        async with self.session.post(f"{self.base}/{method}", data=data) as response:
            return await response.json()

    async def updates(self, offset: int = 0, **params: Any) -> list[dict[str, Any]]:
        """getUpdates that must succeed."""
        return await self.result("getUpdates", offset=offset, **params)

    def poll(self, offset: int = 0, timeout: int = 30, **params: Any) -> asyncio.Task[dict[str, Any]]:
        """A long poll in the background."""
        return asyncio.create_task(self.call("getUpdates", offset=offset, timeout=timeout, **params))
