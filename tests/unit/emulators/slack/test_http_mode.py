"""Events over HTTP: signatures, retries with their headers, and when Slack gives up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from adapters.emulators import AddressRefused, NotPossible
from adapters.emulators.slack import SlackEmulator
from adapters.emulators.slack.posting import signature
from tests.unit.emulators.slack.raw_app import ALICE, RawApp


class Endpoint:
    """A request URL that answers as it is told."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.answer = ""
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.honest = True

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append((dict(request.headers), body))
        if request.content_type == "application/json" and (parsed := json.loads(body))["type"] == "url_verification":
            return web.json_response({"challenge": parsed["challenge"] if self.honest else "guess"})
        return web.Response(status=self.status, headers=self.headers, text=self.answer)


@pytest.fixture
async def endpoint(emulator: SlackEmulator) -> AsyncIterator[Endpoint]:
    """The endpoint, known to the emulator."""
    made = Endpoint()
    application = web.Application()
    application.router.add_post("/events", made.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await emulator.use_http(f"http://127.0.0.1:{runner.addresses[0][1]}/events")
    made.requests.clear()
    yield made
    await runner.cleanup()


async def test_signed_event(emulator: SlackEmulator, endpoint: Endpoint) -> None:
    """The body is signed with the secret and the time."""
    await emulator.say(ALICE, "hi")
    await emulator.wait_for(lambda: not emulator.pending())
    headers, body = endpoint.requests[0]
    expected = signature(emulator.app.signing_secret, headers["X-Slack-Request-Timestamp"], body)
    assert headers["X-Slack-Signature"] == expected
    assert json.loads(body)["event"]["text"] == "hi"
    assert "X-Slack-Retry-Num" not in headers


async def test_retries_tell_number_and_reason(emulator: SlackEmulator, endpoint: Endpoint) -> None:
    """A refused event comes again under its id until it is taken."""
    endpoint.status = 500
    await emulator.say(ALICE, "hi")
    # Only when the emulator knows of the refusal it waits for the next attempt.
    await emulator.wait_for(lambda: [one.data.get("state") for one in emulator.journal].count("refused") == 2)
    endpoint.status = 200
    await emulator.advance(60)
    await emulator.wait_for(lambda: not emulator.pending())
    tried = [(one.get("X-Slack-Retry-Num"), one.get("X-Slack-Retry-Reason")) for one, _ in endpoint.requests]
    assert tried == [(None, None), ("1", "http_error"), ("2", "http_error")]
    assert len({json.loads(body)["event_id"] for _, body in endpoint.requests}) == 1


async def test_app_may_refuse_retries(emulator: SlackEmulator, endpoint: Endpoint) -> None:
    """X-Slack-No-Retry ends it."""
    endpoint.status, endpoint.headers = 500, {"X-Slack-No-Retry": "1"}
    await emulator.say(ALICE, "hi")
    await emulator.wait_for(lambda: not emulator.pending())
    assert len(endpoint.requests) == 1


async def test_command_is_a_form(emulator: SlackEmulator, endpoint: Endpoint) -> None:
    """A command comes as a form; a bare text answers it."""
    endpoint.answer = "right away"
    await emulator.command(ALICE, "go", "now")
    await emulator.wait_for(lambda: emulator.messages(ALICE, user=ALICE))
    assert parse_qs(endpoint.requests[0][1].decode())["command"] == ["/go"]
    assert emulator.messages(ALICE, user=ALICE)[0]["text"] == "right away"


async def test_handshake(emulator: SlackEmulator, endpoint: Endpoint, app: RawApp) -> None:
    """An address that does not give the challenge back, or is not on this machine, is not used."""
    assert emulator.app.request_url is not None
    endpoint.honest = False
    with pytest.raises(NotPossible, match="challenge"):
        await emulator.use_http(emulator.app.request_url)
    with pytest.raises(AddressRefused):
        await emulator.use_http("https://example.org/events")
    emulator.use_sockets()
    socket = await app.connect()
    await emulator.say(ALICE, "hi")
    assert (await socket.event())["text"] == "hi"
