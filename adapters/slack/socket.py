"""Socket Mode: Slack's own client keeps the socket, and we watch that something comes through it.

The client reconnects when it is told to, when the socket closes and when its pings stay unanswered. What it cannot get
out of, such as an address that has become invalid, ends after three silent windows with a new client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from slack_bolt.adapter.socket_mode.async_base_handler import AsyncBaseSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app, send_async_response
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from adapters.errors import BadCredentials, NotConnected, Refused
from adapters.payload import Payload, a_text
from adapters.slack.connection import goes_direct, web_client
from adapters.slack.outbound import Request
from adapters.slack.settings import Settings

PING_SECONDS = 5.0
CONNECT_SECONDS = 15.0
FINISH_SECONDS = 10.0


class _Client(SocketModeClient):
    """Slack's client, with tasks that can be waited for."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            settings.app_token,
            web_client=web_client(settings, None),
            ping_interval=PING_SECONDS,
            on_message_listeners=[self._note],
        )
        if goes_direct(settings):
            self.proxy = None
        self.frames = 0
        self._handling: set[asyncio.Task[None]] = set()

    async def _note(self, message: object) -> None:
        self.frames += 1

    async def process_message(self) -> None:
        """Handle one message in a task that we know of."""
        raw = str(await cast("asyncio.Queue[object]", self.message_queue).get())
        message: dict[str, Any] = json.loads(raw) if raw.startswith("{") else {}
        task = asyncio.create_task(self.run_message_listeners(message, raw))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    async def finish(self) -> None:
        """Close the socket; what is being handled is waited for, so that it can still be acknowledged."""
        self.auto_reconnect_enabled = False
        if self._handling:
            await asyncio.wait(list(self._handling), timeout=FINISH_SECONDS)
        left = list(self._handling)
        for task in left:
            task.cancel()
        await self.close()
        theirs: list[Any] = [self.message_processor, self.current_session_monitor, self.message_receiver]
        tasks = [*cast("list[asyncio.Future[None] | None]", theirs), *left]
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)


class _Handler(AsyncBaseSocketModeHandler):
    """Bolt's way from a socket to an app, around a client of ours."""

    def __init__(self, app: AsyncApp, client: _Client) -> None:
        self.app = self._bolt = app
        self.client = client
        client.socket_mode_request_listeners.append(self.handle)

    async def handle(self, client: Any, req: SocketModeRequest) -> None:
        """Have the app take it, and acknowledge it if the app did."""
        answer = await run_async_bolt_app(self._bolt, req)
        if answer.status == 200:
            await send_async_response(client, req, answer, 0.0)


class Socket:
    """One way in. `open` it, ask `contact`, `close` it."""

    def __init__(self, settings: Settings, app: AsyncApp, call: Callable[[Request], Awaitable[Payload]]) -> None:
        self._settings = settings
        self._app = app
        self._call = call
        self._client: _Client | None = None

    async def open(self) -> None:
        """Connect. BadCredentials: the app-level token is wrong. NotConnected: nothing is reached within seconds."""
        address = await self._address()
        client = self._client = _Client(self._settings)
        client.wss_uri = address
        _Handler(self._app, client)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.connect()
        except TimeoutError:
            await self.close()
            raise NotConnected("no socket to Slack could be opened") from None
        except BaseException:
            await self.close()
            raise

    async def _address(self) -> str:
        """An address for one socket. This also proves the token, which the client would try for ever."""
        asked = Request(method="apps.connections.open", fields={"app_token": self._settings.app_token})
        try:
            return a_text((await self._call(asked)).get("url"))
        except BadCredentials as error:
            raise BadCredentials(f"Slack does not take slack.app_token ({error})") from None
        except Refused as error:
            raise BadCredentials(
                f"Slack gives this app no socket ({error}): switch Socket Mode on, and give the app-level token the "
                "scope connections:write"
            ) from None

    def contact(self) -> tuple[int, float | None]:
        """A value that changes whenever something came from Slack, the answer to a ping included."""
        client = self._client
        return (0, None) if client is None else (client.frames, client.last_ping_pong_time)

    async def is_up(self) -> bool:
        """Whether the socket is open."""
        return self._client is not None and await self._client.is_connected()

    async def close(self) -> None:
        """End it; on return no task of it runs."""
        client, self._client = self._client, None
        if client is not None:
            await client.finish()
