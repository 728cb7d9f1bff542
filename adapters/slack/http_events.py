"""HTTP events: our own listener on loopback, behind a reverse proxy.

Signature and time are checked on the bytes that came, before anything is parsed, and whatever is wrong is a 401: Slack
signs `v0:<time>:<body>` with the app's secret (https://docs.slack.dev/authentication/verifying-requests-from-slack).
What is refused is never logged.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from aiohttp import web
from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest

from adapters.errors import NotConnected
from adapters.slack.manifest import PATH
from adapters.slack.settings import Settings

log = logging.getLogger("pilothouse.slack")

WINDOW_SECONDS = 300
BODY_LIMIT = 2 << 20


def is_genuine(secret: str, timestamp: str, signature: str, body: bytes, now_ms: int) -> bool:
    """Whether Slack sent these bytes, within five minutes of our clock."""
    if not (timestamp.isascii() and timestamp.isdecimal()) or len(timestamp) > 12:
        return False
    if abs(now_ms / 1000 - int(timestamp)) > WINDOW_SECONDS:
        return False
    ours = hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={ours}".encode(), signature.encode("utf-8", "replace"))


def is_readable(content_type: str, body: str) -> bool:
    """Whether a form says nothing twice: of two payloads the one that was checked need not be the one that is read."""
    if not content_type.startswith("application/x-www-form-urlencoded"):
        return True
    names = [name for name, _ in parse_qsl(body, keep_blank_values=True)]
    return len(names) == len(set(names))


class HttpEvents:
    """One way in. `open` it, ask `contact`, `close` it."""

    def __init__(self, settings: Settings, app: AsyncApp, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._app = app
        self._now_ms = now_ms
        self._runner: web.AppRunner | None = None
        self._requests = 0

    async def open(self) -> None:
        """Listen. NotConnected if the address is taken."""
        server = web.Application(client_max_size=BODY_LIMIT)
        server.router.add_post(PATH, self._handle)
        runner = self._runner = web.AppRunner(server, access_log=None)
        await runner.setup()
        host, port = self._settings.listen
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await self.close()
            raise NotConnected(f"slack.http_listen: {host}:{port} cannot be used ({error.strerror})") from None

    @property
    def port(self) -> int:
        """The port that is listened at; the one of the settings, unless that is 0."""
        addresses = self._runner.addresses if self._runner is not None else []
        return int(addresses[0][1]) if addresses else 0

    async def _handle(self, request: web.Request) -> web.Response:
        headers = request.headers
        times, signatures = headers.getall("X-Slack-Request-Timestamp", []), headers.getall("X-Slack-Signature", [])
        body = await request.read()
        if len(times) != 1 or len(signatures) != 1:
            return _refused()
        if not is_genuine(self._settings.signing_secret, times[0], signatures[0], body, self._now_ms()):
            return _refused()
        self._requests += 1
        return await self._take(body, headers)

    async def _take(self, body: bytes, headers: Mapping[str, str]) -> web.Response:
        try:
            text = body.decode()
            if not is_readable(headers.get("Content-Type", ""), text):
                return _refused()
            request = AsyncBoltRequest(body=text, headers={name: [value] for name, value in headers.items()})
        except Exception as error:  # noqa: BLE001 - it is signed and cannot be read, whatever is wrong with it
            log.warning("a signed request from Slack could not be read (%s)", type(error).__name__)
            return _refused()
        answer = await self._app.async_dispatch(request)
        kind = answer.headers.get("content-type", ["text/plain"])[0]
        return web.Response(status=answer.status, body=(answer.body or "").encode(), headers={"Content-Type": kind})

    def contact(self) -> tuple[int, float | None]:
        """A value that changes whenever something came from Slack."""
        return self._requests, None

    async def is_up(self) -> bool:
        """Whether we listen."""
        return self._runner is not None and bool(self._runner.addresses)

    async def close(self) -> None:
        """Listen no more; on return no request is being handled."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def _refused() -> web.Response:
    return web.Response(status=HTTPStatus.UNAUTHORIZED)
