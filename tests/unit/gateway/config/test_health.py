"""Health: whether inbound really works, told to this machine only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from gateway.health import HealthSite, PlatformVitals, Vitals, reasons_not_ready
from gateway.metrics import Metrics
from gateway.secrets import Secret
from runtime.errors import ConfigurationError
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.context import Usage
from runtime.protocol.session import SessionContext

NOW = 1_000_000_000
TELEGRAM = PlatformVitals(platform="telegram", state="ready", last_contact_ms=NOW - 5_000)
WELL = Vitals(
    now_ms=NOW, platforms=(TELEGRAM,), oldest_inbound_ms=None, oldest_delivery_ms=None, store_latency_seconds=0.002
)


@pytest.mark.parametrize(
    ("vitals", "reasons"),
    [
        (WELL, ()),
        (replace(WELL, stopping=True), ("the gateway is stopping",)),
        (replace(WELL, platforms=()), ("no platform is connected",)),
        (
            replace(WELL, platforms=(replace(TELEGRAM, state="failing", detail="409, a second poller"),)),
            ("telegram is failing: 409, a second poller",),
        ),
        (
            replace(WELL, platforms=(replace(TELEGRAM, last_contact_ms=NOW - 200_000),)),
            ("telegram was not heard for 200 s",),
        ),
        (replace(WELL, platforms=(replace(TELEGRAM, last_contact_ms=None),)), ("telegram was not heard yet",)),
        (replace(WELL, oldest_inbound_ms=NOW - 61_000), ("a message waits unprocessed for 61 s",)),
        (replace(WELL, oldest_inbound_ms=NOW - 59_000, oldest_delivery_ms=NOW - 900_000), ()),
    ],
)
def test_ready_means_that_inbound_works(vitals: Vitals, reasons: tuple[str, ...]) -> None:
    """Each thing that keeps messages from coming in or going on is a reason, in words; a slow platform is none."""
    assert reasons_not_ready(vitals) == reasons


class Probed:
    """A probe whose answer a test sets."""

    def __init__(self) -> None:
        self.vitals: Vitals | Exception = WELL

    async def __call__(self) -> Vitals:
        if isinstance(self.vitals, Exception):
            raise self.vitals
        return self.vitals


class Pages:
    """A client of a site that is served."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.port = port

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
        """Status and body."""
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, headers=headers) as response:
            json = response.content_type == "application/json"
            return response.status, await response.json() if json else await response.text()


@pytest.fixture
def probe() -> Probed:
    """A probe that finds everything well."""
    return Probed()


@pytest.fixture
def metrics() -> Metrics:
    """Numbers of a gateway with one tool."""
    return Metrics(tools=["read_file"])


@pytest.fixture
async def pages(probe: Probed, metrics: Metrics) -> AsyncIterator[Pages]:
    """The site, served on a free port."""
    site = HealthSite(probe, metrics)
    async with site.serving("127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        yield Pages(session, port)


async def test_pages_of_a_healthy_gateway(pages: Pages) -> None:
    """Everything well: both pages say so with 200 and with the numbers behind it."""
    assert await pages.get("/healthz") == (200, {"status": "ok", "store_latency_seconds": 0.002})
    assert await pages.get("/readyz") == (
        200,
        {
            "status": "ready",
            "reasons": [],
            "platforms": [{"platform": "telegram", "state": "ready", "last_contact_age_seconds": 5.0}],
            "oldest_inbound_age_seconds": 0.0,
            "oldest_delivery_age_seconds": 0.0,
            "store_latency_seconds": 0.002,
        },
    )


async def test_deaf_gateway_lives_and_is_not_ready(pages: Pages, probe: Probed) -> None:
    """A platform that is gone makes us not ready; it is no reason to restart the process."""
    probe.vitals = replace(WELL, platforms=(replace(TELEGRAM, state="connecting"),))
    assert (await pages.get("/healthz"))[0] == 200
    status, body = await pages.get("/readyz")
    assert (status, body["reasons"]) == (503, ["telegram is connecting"])


async def test_dead_store_is_unhealthy(pages: Pages, probe: Probed) -> None:
    """A store that fails makes both pages say 503, and not 500 with a traceback; numbers are served on."""
    probe.vitals = RuntimeError("disk")
    expected = (503, {"status": "failing", "reasons": ["the store does not answer"]})
    assert await pages.get("/healthz") == expected
    assert await pages.get("/readyz") == expected
    assert (await pages.get("/metrics"))[0] == 200


async def test_hanging_store_is_unhealthy(monkeypatch: pytest.MonkeyPatch, metrics: Metrics) -> None:
    """A probe that never answers is cut off."""
    monkeypatch.setattr("gateway.health.PROBE_SECONDS", 0.01)

    async def hang() -> Vitals:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with HealthSite(hang, metrics).serving("127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        assert (await Pages(session, port).get("/healthz"))[0] == 503


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/nothing"])
@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:{port}", "localhost.evil:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", ""]
)
async def test_foreign_host_is_refused(pages: Pages, path: str, host: str) -> None:
    """A page in a browser that rebound its name to this machine learns nothing, on any path."""
    status, body = await pages.get(path, Host=host.format(port=pages.port))
    assert (status, body) == (421, {"error": "foreign Host header"})


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
async def test_own_names_are_served(pages: Pages, host: str) -> None:
    """Loopback in each of its spellings is us."""
    assert (await pages.get("/healthz", Host=host.format(port=pages.port)))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
async def test_only_get(pages: Pages, method: str) -> None:
    """Nothing can be changed over these pages."""
    for path in ("/healthz", "/metrics", "/nothing"):
        assert (await pages.get(path, method))[0] == 405


async def test_other_paths_do_not_exist(pages: Pages) -> None:
    """There are three pages."""
    assert [(await pages.get(path))[0] for path in ("/", "/admin", "/healthz/", "/metrics/x")] == [404] * 4


async def test_address_that_is_taken(pages: Pages, probe: Probed, metrics: Metrics) -> None:
    """A second gateway on the port is told which key to change."""
    with pytest.raises(ConfigurationError, match=rf"gateway\.http: 127\.0\.0\.1:{pages.port} cannot be used"):
        async with HealthSite(probe, metrics).serving("127.0.0.1", pages.port):
            pass


async def test_detail_of_an_adapter_is_redacted(pages: Pages, probe: Probed) -> None:
    """An error text with a token in it does not show the token."""
    token = Secret("13579:canary-of-the-health-page").reveal()
    probe.vitals = replace(WELL, platforms=(replace(TELEGRAM, state="failing", detail=f"GET /bot{token}/x"),))
    status, body = await pages.get("/readyz")
    assert (status, body["reasons"]) == (503, ["telegram is failing: GET /bot***/x"])


async def test_numbers_carry_labels(pages: Pages, metrics: Metrics) -> None:
    """Counters carry platform, workspace and origin; gauges tell the age of what waits."""
    context = SessionContext(workspace_label="Main", origin_label="telegram")
    turn = {"turn_id": "t"}
    metrics.arrived("telegram", "message", "stored")
    metrics.delivered("telegram", "sent")
    for message in (
        events.TurnComplete(**turn, duration_ms=1500),
        events.TurnAborted(**turn, reason="x", outcome="failed"),
        events.ModelStepCompleted(
            **turn, model_step_id="m", step_index=0, outcome="completed", usage=Usage(input_tokens=7, output_tokens=3)
        ),
        events.ToolCallEnd(**turn, call_id="c", name="read_file", output="", is_error=True),
        events.ToolCallEnd(**turn, call_id="c", name="made up by the model", output=""),
        events.ApprovalResolved(**turn, request_id="r", decision=Resolution.DENIED),
        events.TurnStarted(**turn),
    ):
        metrics.observe(context, message)
    status, body = await pages.get("/metrics")
    place = 'origin="telegram",workspace="Main"'
    assert status == 200
    for line in (
        'pilothouse_inbound_total{kind="message",outcome="stored",platform="telegram"} 1.0',
        'pilothouse_deliveries_total{outcome="sent",platform="telegram"} 1.0',
        'pilothouse_turns_total{origin="telegram",outcome="completed",workspace="Main"} 1.0',
        'pilothouse_turns_total{origin="telegram",outcome="failed",workspace="Main"} 1.0',
        f'pilothouse_turn_seconds_bucket{{le="2.0",{place}}} 2.0',
        f'pilothouse_tokens_total{{direction="input",{place}}} 7.0',
        f'pilothouse_tokens_total{{direction="output",{place}}} 3.0',
        'pilothouse_tool_calls_total{origin="telegram",outcome="failed",tool="read_file",workspace="Main"} 1.0',
        'pilothouse_tool_calls_total{origin="telegram",outcome="completed",tool="other",workspace="Main"} 1.0',
        f'pilothouse_approvals_total{{decision="denied",{place}}} 1.0',
        'pilothouse_adapter_ready{platform="telegram"} 1.0',
        'pilothouse_adapter_contact_age_seconds{platform="telegram"} 5.0',
        "pilothouse_oldest_inbound_age_seconds 0.0",
        "pilothouse_store_latency_seconds 0.002",
    ):
        assert line in body.splitlines(), line
    assert "made up" not in body
