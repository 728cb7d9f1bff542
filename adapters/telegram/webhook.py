"""Webhook: Telegram posts each update to us, behind a reverse proxy, and repeats it until we say that it is durable.

The secret is compared before anything of the body is read, as bytes, since a header need not be text
(https://core.telegram.org/bots/api#setwebhook). What is refused is never logged.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from adapters.contract import Environment, Health, Inbound, Intake
from adapters.errors import AdapterError, BadCredentials, NotConnected
from adapters.telegram.connection import Connection
from adapters.telegram.inbound import ALLOWED_UPDATES
from adapters.telegram.outbound import Request
from adapters.telegram.payload import Payload, a_number, a_text, an_object
from adapters.telegram.settings import Settings

log = logging.getLogger("pilothouse.telegram")

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the header's name
BODY_LIMIT = 1 << 20
WATCH_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 30.0
FINISH_SECONDS = 10.0


class Webhook:
    """Takes updates in until it is stopped. One at a time of it may run for a bot."""

    def __init__(
        self,
        connection: Connection,
        read: Callable[[Payload], Inbound],
        intake: Intake,
        environment: Environment,
        settings: Settings,
    ) -> None:
        self._connection = connection
        self._read = read
        self._intake = intake
        self._environment = environment
        self._settings = settings
        # One for this run alone is as good: what is posted under the last one is repeated under the new one.
        random = base64.urlsafe_b64encode(environment.random_bytes(32)).decode().rstrip("=")
        self._secret = settings.webhook_secret or random
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()
        self._trouble = ""
        self.health = Health(state="connecting")

    async def open(self) -> None:
        """Listen. NotConnected if the address is taken."""
        server = web.Application(client_max_size=BODY_LIMIT)
        server.router.add_post(urlsplit(self._settings.webhook_url).path or "/", self._handle)
        runner = self._runner = web.AppRunner(server, access_log=None, shutdown_timeout=FINISH_SECONDS)
        await runner.setup()
        host, port = self._settings.listen
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await self._close()
            raise NotConnected(f"telegram.webhook_listen: {host}:{port} cannot be used ({error.strerror})") from None

    async def run(self) -> None:
        """Tell Telegram where we are, and look after it, until stopped; on return no update is being taken in.

        The webhook stays set: what is posted meanwhile is kept by Telegram for a day and posted again.
        """
        pause = FIRST_PAUSE_SECONDS
        is_set = False
        try:
            while not self._stopping.is_set():
                try:
                    is_set = is_set or await self._set()
                    await self._look()
                    pause = FIRST_PAUSE_SECONDS
                except AdapterError as error:
                    self._failed("failed" if isinstance(error, BadCredentials) else "failing", str(error))
                    pause = min(2 * pause, LAST_PAUSE_SECONDS)
                await self._wait(WATCH_SECONDS if self.health.state == "ready" else pause)
        finally:
            await self._close()
            self.health = Health(state="stopped", last_contact_ms=self.health.last_contact_ms)

    def stop(self) -> None:
        """Take nothing in any more; what is being stored is finished."""
        self._stopping.set()

    async def _set(self) -> bool:
        fields: dict[str, Any] = {
            "url": self._settings.webhook_url,
            "secret_token": self._secret,
            "allowed_updates": list(ALLOWED_UPDATES),
        }
        await self._connection.call(Request(method="setWebhook", fields=fields))
        return True

    async def _look(self) -> None:
        """Ask Telegram how it goes: a webhook that nobody calls looks just like one that does not work."""
        told = an_object(await self._connection.call(Request(method="getWebhookInfo", fields={})))
        if (url := a_text(told.get("url"))) != self._settings.webhook_url:
            where = f"to {urlsplit(url).hostname}" if url else "nowhere"
            self._failed(
                "failing", f"somebody else has set the webhook: updates go {where}; stop that, and start again"
            )
        elif self._trouble:
            self._failed("failing", self._trouble)
        elif a_number(told.get("pending_update_count")) and 1000 * a_number(told.get("last_error_date")) > (
            self.health.last_contact_ms or 0
        ):
            self._failed("failing", f"Telegram does not get through: {a_text(told.get('last_error_message'))}")
        else:
            self._reached()

    def _reached(self) -> None:
        if self.health.state != "ready":
            log.info("Telegram calls us")
        self.health = Health(state="ready", last_contact_ms=self._environment.now_ms())

    def _failed(self, state: Any, detail: str) -> None:
        log.warning("no messages from Telegram: %s", detail)
        self.health = Health(state=state, last_contact_ms=self.health.last_contact_ms, detail=detail)

    async def _handle(self, request: web.Request) -> web.Response:
        given = request.headers.getall(SECRET_HEADER, [])
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "replace"), self._secret.encode()):
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        try:
            update = an_object(json.loads(await request.read()))
        except (ValueError, RecursionError):
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        return web.Response(status=await self._take(update))

    async def _take(self, update: Payload) -> HTTPStatus:
        """OK once it is durable, or refused for good. Telegram posts a chat's next update only after that."""
        try:
            await self._intake(self._read(update))
        except Exception as error:  # noqa: BLE001 - it was not taken in, for whatever reason, and is posted again
            self._trouble = f"what came could not be stored ({type(error).__name__}: {error})"
            self._failed("failing", self._trouble)
            return HTTPStatus.SERVICE_UNAVAILABLE
        self._trouble = ""
        self._reached()
        return HTTPStatus.OK

    async def _wait(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        sleeps = asyncio.ensure_future(self._environment.sleep(seconds))
        ends = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((sleeps, ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeps.cancel()
            ends.cancel()
            await asyncio.gather(sleeps, ends, return_exceptions=True)

    async def _close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
