"""Posting updates to a webhook: order, retries, and answers that are calls themselves.

Follows WebhookActor of the official server: one update at a time per chat or person, several of those at once up to
`max_connections`; a failed update is tried again at once, then after 2, 4, 8 … s up to a random 60 to 120 s, or after
the Retry-After it was told; for 24 hours. 410 for 23 hours removes the webhook.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

import aiohttp

from adapters.emulators.telegram.bots import Bot, Webhook
from adapters.emulators.telegram.call import Arguments, read_json, read_multipart
from adapters.emulators.telegram.errors import ApiError
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.update_queue import Update

SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the header's name, not a secret
MAX_RETRY_AFTER: Final = 3600
GONE: Final = 410
GONE_SECONDS: Final = 23 * 3600.0
NOT_BY_ANSWER: Final = frozenset({"deletewebhook", "setwebhook", "close", "logout"})

Execute = Callable[[Bot, str, Arguments], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How one post went; `retry_after` is 0 unless the other side asked for a pause."""

    ok: bool
    error: str = ""
    retry_after: int = 0


class WebhookSender:
    """Posts a bot's updates until it is cancelled or the webhook is gone."""

    def __init__(self, platform: Platform, bot: Bot, webhook: Webhook, execute: Execute) -> None:
        self._platform = platform
        self._bot = bot
        self._webhook = webhook
        self._execute = execute
        self._busy: set[int] = set()
        self._slots = asyncio.Semaphore(webhook.max_connections)
        # Delays are random on the real server; the seed makes a test's delays the same each time.
        self._random = random.Random(platform.knobs.seed)  # noqa: S311

    async def run(self) -> None:
        """Send whatever is pending, and go on as more arrives."""
        timeout = aiohttp.ClientTimeout(total=self._platform.knobs.webhook_timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            asyncio.TaskGroup() as lanes,
        ):
            while self._bot.webhook is self._webhook:
                self._bot.arrived.clear()
                for lane in self._bot.queue.lanes() - self._busy:
                    self._busy.add(lane)
                    lanes.create_task(self._drain(lane, session))
                await self._bot.arrived.wait()

    async def _drain(self, lane: int, session: aiohttp.ClientSession) -> None:
        queue = self._bot.queue
        try:
            while self._bot.webhook is self._webhook and (update := queue.first_in(lane)) is not None:
                async with self._slots:
                    await self._deliver(update, session)
        finally:
            self._busy.discard(lane)
            # An update may have come after the last look and before the lane was free.
            self._bot.arrived.set()

    async def _deliver(self, update: Update, session: aiohttp.ClientSession) -> None:
        delay, failures = 1.0, 0
        while self._bot.webhook is self._webhook:
            self._platform.trace(self._bot, "handed", [update])
            attempt = await self._post(update, session)
            if attempt.ok:
                self._finish(update, "confirmed")
                return
            self._platform.trace(self._bot, "refused", [update])
            delay = self._next_delay(delay, failures, attempt)
            pause = attempt.retry_after or (delay if failures else 0.0)
            failures += 1
            if self._platform.clock.now() + pause > update.expires_at:
                self._finish(update, "expired")
                return
            await self._platform.clock.sleep(pause)

    def _next_delay(self, delay: float, failures: int, attempt: Attempt) -> float:
        if attempt.retry_after or not failures:
            return delay
        return min(self._random.uniform(*self._platform.knobs.webhook_retry_cap), delay * 2)

    def _finish(self, update: Update, state: str) -> None:
        if update in self._bot.queue.pending or update in self._bot.queue.again:
            self._bot.queue.finish(update)
            self._platform.trace(self._bot, state, [update])

    async def _post(self, update: Update, session: aiohttp.ClientSession) -> Attempt:
        headers = {SECRET_HEADER: self._webhook.secret} if self._webhook.secret else {}
        try:
            async with session.post(
                self._webhook.url, json=update.to_wire(), headers=headers, allow_redirects=False
            ) as response:
                if 200 <= response.status <= 299:
                    self._webhook.gone_since = None
                    await self._obey(response)
                    return Attempt(ok=True)
                return self._failed(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            return self._noted(Attempt(ok=False, error=f"Connection failed: {type(error).__name__}"))

    def _failed(self, response: aiohttp.ClientResponse) -> Attempt:
        self._watch_gone(response.status)
        asked = response.headers.get("Retry-After", "")
        retry_after = min(int(asked), MAX_RETRY_AFTER) if asked.isdecimal() else 0
        error = f"Wrong response from the webhook: {response.status} {response.reason}"
        return self._noted(Attempt(ok=False, error=error, retry_after=retry_after))

    def _noted(self, attempt: Attempt) -> Attempt:
        self._webhook.last_error = attempt.error
        self._webhook.last_error_at = self._platform.clock.now()
        return attempt

    def _watch_gone(self, status: int) -> None:
        now = self._platform.clock.now()
        if status != GONE:
            self._webhook.gone_since = None
        elif self._webhook.gone_since is None:
            self._webhook.gone_since = now
        elif now > self._webhook.gone_since + GONE_SECONDS:
            self._bot.webhook = None
            self._bot.arrived.set()

    async def _obey(self, response: aiohttp.ClientResponse) -> None:
        """Run the call that the answer may carry. Its own failure is not the webhook's."""
        arguments = await _read_answer(response)
        method = arguments.values.get("method", "").lower()
        if not method or method in NOT_BY_ANSWER or method.startswith("get"):
            return
        values = {name: value for name, value in arguments.values.items() if name != "method"}
        await self._execute(self._bot, method, Arguments(values=values, uploads=arguments.uploads))


async def _read_answer(response: aiohttp.ClientResponse) -> Arguments:
    try:
        if response.content_type == "application/json":
            return read_json(await response.text())
        if response.content_type == "multipart/form-data":
            return await read_multipart(aiohttp.MultipartReader(response.headers, response.content))
        if response.content_type == "application/x-www-form-urlencoded":
            return Arguments(values=dict(parse_qsl(await response.text(), keep_blank_values=True)))
    except (ApiError, ValueError):
        return Arguments()
    return Arguments()
