"""A Slack app without a library: what goes over the wire, as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from adapters.emulators.slack import SlackEmulator

ALICE, BOB = "U0ALICE", "U0BOB"
TEAM, SECRET, OUTSIDE = "C0TEAM", "G0SECRET", "C0OUTSIDE"


class RawApp:
    """Calls methods of the emulator and opens sockets."""

    def __init__(self, emulator: SlackEmulator, session: aiohttp.ClientSession) -> None:
        self.emulator = emulator
        self.session = session
        self.token = emulator.app.bot_token

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One call with a JSON body; its answer."""
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.emulator.api_base}{method}"
        async with self.session.post(url, json=params, headers=headers) as response:
            return await response.json()

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of a call that must succeed."""
        body = await self.call(method, **params)
        assert body["ok"], body
        return body

    async def error(self, method: str, **params: Any) -> str:
        """The code of a call that must fail."""
        body = await self.call(method, **params)
        assert not body["ok"], body
        return body["error"]

    async def post(self, channel: str = TEAM, **content: Any) -> str:
        """Post a message; its ts."""
        content = content or {"text": "hello"}
        return (await self.result("chat.postMessage", channel=channel, **content))["ts"]

    async def address(self) -> str:
        """A fresh address of a socket."""
        token, self.token = self.token, self.emulator.app.app_token
        try:
            return (await self.result("apps.connections.open"))["url"]
        finally:
            self.token = token

    async def connect(self) -> RawSocket:
        """Open a socket and read its hello."""
        wire = await self.session.ws_connect(await self.address())
        socket = RawSocket(wire)
        socket.hello = await socket.read()
        assert socket.hello["type"] == "hello"
        return socket


class RawSocket:
    """One Socket Mode connection."""

    def __init__(self, wire: aiohttp.ClientWebSocketResponse) -> None:
        self.wire = wire
        self.hello: dict[str, Any] = {}

    async def read(self) -> dict[str, Any]:
        """The next frame."""
        return await asyncio.wait_for(self.wire.receive_json(), 30)

    async def acknowledge(self, envelope: dict[str, Any], payload: dict[str, Any] | None = None) -> None:
        """Say that an envelope arrived."""
        frame: dict[str, Any] = {"envelope_id": envelope["envelope_id"]}
        await self.wire.send_json(frame if payload is None else {**frame, "payload": payload})

    async def take(self, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read an envelope and acknowledge it."""
        envelope = await self.read()
        await self.acknowledge(envelope, payload)
        return envelope

    async def event(self) -> dict[str, Any]:
        """The event of the next envelope, which is acknowledged."""
        return (await self.take())["payload"]["event"]


def plain(text: str) -> dict[str, Any]:
    """A text object."""
    return {"type": "plain_text", "text": text}


def section(text: str) -> dict[str, Any]:
    """A block with text."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def buttons(*values: str) -> dict[str, Any]:
    """A row of buttons with these labels, values and action ids."""
    elements = [{"type": "button", "text": plain(one), "value": one, "action_id": one} for one in values]
    return {"type": "actions", "elements": elements}
