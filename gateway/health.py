"""Whether the gateway lives and whether inbound really works, over HTTP on this machine only.

GET /healthz  200 while the store answers: restart the process otherwise
GET /readyz   200 while messages come in and go on; 503 with every reason otherwise
GET /metrics  numbers for Prometheus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs, web

from gateway.metrics import CONTENT_TYPE, Metrics
from gateway.secrets import redact
from runtime.errors import ConfigurationError

SILENT_MS = 180_000
"""A platform that was not heard for so long does not work, whatever its adapter says: no poll lasts longer."""

STUCK_MS = 60_000
"""What arrived and is not processed after so long is stuck."""

PROBE_SECONDS = 2.0
"""How long the store may take to answer."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformVitals:
    """One adapter, as its own `health` says."""

    platform: str
    state: str
    last_contact_ms: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What is known at `now_ms`. `oldest_…` are the instants of what waits longest, or None for nothing."""

    now_ms: int
    platforms: tuple[PlatformVitals, ...]
    oldest_inbound_ms: int | None
    oldest_delivery_ms: int | None
    store_latency_seconds: float
    stopping: bool = False


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Probe = Callable[[], Awaitable[Vitals]]
"""Takes the vitals; it asks the store, and may fail with it."""


def reasons_not_ready(vitals: Vitals) -> tuple[str, ...]:
    """Why messages do not come in or go on, in words; nothing if they do."""
    reasons = ["the gateway is stopping"] if vitals.stopping else []
    reasons += [reason for one in vitals.platforms if (reason := _trouble(one, vitals.now_ms))]
    if not vitals.platforms:
        reasons.append("no platform is connected")
    if vitals.oldest_inbound_ms is not None and vitals.now_ms - vitals.oldest_inbound_ms > STUCK_MS:
        reasons.append(f"a message waits unprocessed for {_seconds(vitals.now_ms, vitals.oldest_inbound_ms):.0f} s")
    return tuple(reasons)


def _trouble(one: PlatformVitals, now_ms: int) -> str | None:
    if one.state != "ready":
        return f"{one.platform} is {one.state}" + (f": {one.detail}" if one.detail else "")
    if one.last_contact_ms is None:
        return f"{one.platform} was not heard yet"
    if now_ms - one.last_contact_ms > SILENT_MS:
        return f"{one.platform} was not heard for {_seconds(now_ms, one.last_contact_ms):.0f} s"
    return None


def _seconds(now_ms: int, then_ms: int | None) -> float:
    return 0.0 if then_ms is None else max(0.0, (now_ms - then_ms) / 1000)


class HealthSite:
    """The three pages. A web page in somebody's browser cannot read them: foreign Host headers are refused."""

    def __init__(self, probe: Probe, metrics: Metrics) -> None:
        self._probe = probe
        self._metrics = metrics
        self._port = 0

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncGenerator[int]:
        """Serve for the time of the block, and tell the port (0 takes a free one). ConfigurationError: it is taken."""
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await _listen(runner, host, port)
            self._port = int(runner.addresses[0][1])
            yield self._port
        finally:
            await runner.cleanup()

    def application(self) -> web.Application:
        """The pages as an application, for a server of one's own."""
        application = web.Application(middlewares=[self._guard], client_max_size=1024)
        application.router.add_get("/healthz", self._healthz, allow_head=False)
        application.router.add_get("/readyz", self._readyz, allow_head=False)
        application.router.add_get("/metrics", self._metrics_page, allow_head=False)
        return application

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Any:
        if not self._is_own_name(request.headers.getall(hdrs.HOST, [])):
            return web.json_response({"error": "foreign Host header"}, status=421, headers=HEADERS)
        if request.method != hdrs.METH_GET:
            return web.json_response({"error": "only GET"}, status=405, headers={**HEADERS, "Allow": "GET"})
        return await handler(request)

    def _is_own_name(self, hosts: list[str]) -> bool:
        """Browsers send the name they looked up: a name that was rebound to loopback shows here."""
        own = {f"{name}:{self._port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        return len(hosts) == 1 and hosts[0].lower() in own

    async def _healthz(self, request: web.Request) -> web.Response:
        vitals = await self._take()
        if vitals is None:
            return _page(503, {"status": "failing", "reasons": ["the store does not answer"]})
        return _page(200, {"status": "ok", "store_latency_seconds": round(vitals.store_latency_seconds, 6)})

    async def _readyz(self, request: web.Request) -> web.Response:
        vitals = await self._take()
        if vitals is None:
            return _page(503, {"status": "failing", "reasons": ["the store does not answer"]})
        reasons = reasons_not_ready(vitals)
        return _page(503 if reasons else 200, _readiness(vitals, reasons))

    async def _metrics_page(self, request: web.Request) -> web.Response:
        vitals = await self._take()
        if vitals is not None:
            self._gauge(vitals)
        return web.Response(body=self._metrics.render(), headers={**HEADERS, "Content-Type": CONTENT_TYPE})

    async def _take(self) -> Vitals | None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await self._probe()
        except Exception:  # noqa: BLE001 - a probe that fails is the answer "not well", whatever the reason
            return None

    def _gauge(self, vitals: Vitals) -> None:
        for one in vitals.platforms:
            age = None if one.last_contact_ms is None else _seconds(vitals.now_ms, one.last_contact_ms)
            self._metrics.adapter(one.platform, ready=_trouble(one, vitals.now_ms) is None, contact_age_seconds=age)
        self._metrics.waiting(
            inbound_age_seconds=_seconds(vitals.now_ms, vitals.oldest_inbound_ms),
            delivery_age_seconds=_seconds(vitals.now_ms, vitals.oldest_delivery_ms),
        )
        self._metrics.store(vitals.store_latency_seconds)


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise ConfigurationError(
            f"gateway.http: {host}:{port} cannot be used ({reason}); choose another port, or leave it empty"
        ) from error


def _readiness(vitals: Vitals, reasons: tuple[str, ...]) -> dict[str, Any]:
    return {
        "status": "failing" if reasons else "ready",
        "reasons": [redact(reason) for reason in reasons],
        "platforms": [
            {
                "platform": one.platform,
                "state": one.state,
                "last_contact_age_seconds": None
                if one.last_contact_ms is None
                else _seconds(vitals.now_ms, one.last_contact_ms),
            }
            for one in vitals.platforms
        ],
        "oldest_inbound_age_seconds": _seconds(vitals.now_ms, vitals.oldest_inbound_ms),
        "oldest_delivery_age_seconds": _seconds(vitals.now_ms, vitals.oldest_delivery_ms),
        "store_latency_seconds": round(vitals.store_latency_seconds, 6),
    }


def _page(status: int, content: dict[str, Any]) -> web.Response:
    return web.json_response(content, status=status, headers=HEADERS)
