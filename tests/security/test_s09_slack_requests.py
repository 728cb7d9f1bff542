"""S-09: over HTTP only what Slack signed just now, for our app in our workspace, has an effect; all else is 401."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from adapters.contract import Environment, Inbound
from adapters.emulators.journal import EntryKind
from adapters.emulators.slack import SlackEmulator
from adapters.slack.bolt import bolt_app
from adapters.slack.door import Door
from adapters.slack.http_events import HttpEvents
from adapters.slack.identity import Me
from adapters.slack.manifest import PATH
from adapters.slack.settings import Settings
from adapters.slack.tenants import is_for_us
from adapters.testing import Intake, said

pytestmark = pytest.mark.xdist_group("bolt")

SECRET = "0123456789abcdef0123456789abcdef"
NOW = 1_796_000_000
ME = Me(app="A1", team="T1", user="UBOT", bot="B1")
EVENT = {
    "type": "message",
    "channel": "D1",
    "channel_type": "im",
    "user": "U1",
    "text": "canary-words",
    "ts": "1.000100",
}
BODY = {"type": "event_callback", "api_app_id": "A1", "team_id": "T1", "event_id": "Ev1", "event": EVENT}


async def named(inbound: Inbound) -> Inbound:
    return inbound


async def no_sleep(seconds: float) -> None:
    return None


@asynccontextmanager
async def listener(me: Me = ME, secret: str = SECRET, now: int = NOW) -> AsyncGenerator[tuple[str, Intake]]:
    """The listener as the adapter makes it; its address, and what it takes in."""
    intake = Intake()
    environment = Environment(now_ms=lambda: now * 1000, sleep=no_sleep, random_bytes=bytes)
    settings = Settings.read(
        {"bot_token": "xoxb-1", "signing_secret": secret, "mode": "http", "http_listen": "127.0.0.1:0"}
    )
    door = Door(me, intake, named, lambda inbound: None, environment)
    events = HttpEvents(settings, bolt_app(settings, me, door.take), environment.now_ms)
    await events.open()
    try:
        yield f"http://127.0.0.1:{events.port}{PATH}", intake
    finally:
        await events.close()


def signed(body: bytes, *, at: object = NOW, secret: str = SECRET) -> dict[str, str]:
    """Headers as Slack gives them."""
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "X-Slack-Request-Timestamp": str(at),
        "X-Slack-Signature": f"v0={digest}",
        "Content-Type": "application/json",
    }


async def posted(url: str, body: bytes, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        return response.status


def with_other(**more: Any) -> bytes:
    return json.dumps({**BODY, **more}).encode()


FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}
PRESS = urlencode({"payload": json.dumps({"type": "block_actions", "api_app_id": "A1", "team": {"id": "T1"}})}).encode()
GOOD = json.dumps(BODY).encode()
TWICE = PRESS + b"&" + PRESS
REFUSED = {
    "a byte was changed": (GOOD.replace(b"canary", b"canarx"), signed(GOOD)),
    "too old": (GOOD, signed(GOOD, at=NOW - 301)),
    "from the future": (GOOD, signed(GOOD, at=NOW + 301)),
    "a time that is no number": (GOOD, signed(GOOD, at="NaN")),
    "a time with a sign": (GOOD, signed(GOOD, at=f"+{NOW}")),
    "no time": (GOOD, {key: value for key, value in signed(GOOD).items() if "Timestamp" not in key}),
    "no signature": (GOOD, {key: value for key, value in signed(GOOD).items() if "Signature" not in key}),
    "a signature that is none": (GOOD, {**signed(GOOD), "X-Slack-Signature": "\u00ff\u00fe"}),
    "another secret": (GOOD, signed(GOOD, secret="f" * 32)),
    "an empty secret": (GOOD, signed(GOOD, secret="")),
    "another app": (with_other(api_app_id="A2"), signed(with_other(api_app_id="A2"))),
    "no app": (with_other(api_app_id=None), signed(with_other(api_app_id=None))),
    "another team": (with_other(team_id="T2"), signed(with_other(team_id="T2"))),
    "a payload twice": (TWICE, signed(TWICE) | FORM_TYPE),
    "bytes that are no text": (b"\xff\xfe", signed(b"\xff\xfe")),
    "no JSON": (b"{", signed(b"{")),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_is_refused_without_a_trace(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """401, nothing is taken in, and nothing of the body is in the log; never a 500."""
    caplog.set_level(logging.DEBUG)
    body, headers = REFUSED[name]
    async with listener() as (url, intake):
        assert await posted(url, body, headers) == HTTPStatus.UNAUTHORIZED
        assert intake.offered == []
    assert "canar" not in caplog.text


@pytest.mark.parametrize("at", [NOW, NOW - 299, NOW + 299])
async def test_what_slack_signed_just_now_is_taken_in(at: int) -> None:
    """The one that passes: it is stored before Slack is told so."""
    async with listener() as (url, intake):
        assert await posted(url, GOOD, signed(GOOD, at=at)) == HTTPStatus.OK
        assert [one.text for one in intake.taken] == ["canary-words"]


async def test_what_is_not_stored_is_tried_again_before_slack_is_told() -> None:
    """While intake fails there is no answer; with the answer it is stored."""
    async with listener() as (url, intake):
        intake._refuse = 2
        assert await posted(url, GOOD, signed(GOOD)) == HTTPStatus.OK
        assert (len(intake.offered), len(intake.taken)) == (3, 1)


def test_a_secret_that_is_none_is_refused_at_start() -> None:
    """Without a secret, or with a blank or short one, nothing starts: whoever knows an empty secret can sign (S-08)."""
    for secret in (None, "", "   ", "short"):
        with pytest.raises(ValueError, match=r"slack\.signing_secret"):
            Settings.read({"bot_token": "xoxb-1", "mode": "http", "signing_secret": secret})


def test_installation_counts_and_not_the_team_of_an_event() -> None:
    """In a shared channel the event's team is the stranger's: for whom Slack sent it, its authorizations say."""
    shared = {**BODY, "team_id": "T9", "authorizations": [{"team_id": "T1", "enterprise_id": None}]}
    assert is_for_us(shared, ME)
    assert not is_for_us({**shared, "authorizations": [{"team_id": "T9", "enterprise_id": None}]}, ME)
    org = Me(app="A1", team="T1", user="U", bot="B", enterprise="E1", org_wide=True)
    assert is_for_us({**BODY, "team_id": "T7", "enterprise_id": "E1"}, org)
    assert not is_for_us({**BODY, "team_id": "T1", "enterprise_id": "E2"}, org)
    assert org.account == "A1:E1"


def refusals(emulator: SlackEmulator) -> int:
    """How many deliveries we have refused."""
    return sum(entry.data.get("state") == "refused" for entry in emulator.journal.of(EntryKind.EVENT))


async def test_emulated_slack_calls_us() -> None:
    """The whole way with a Slack that signs by itself: handshake, events, forged and late ones."""
    emulator = await SlackEmulator(signing_secret=SECRET, wall=lambda: float(NOW)).start()
    app = emulator.app
    me = Me(app=app.app_id, team=app.team, user=app.bot_user, bot=app.bot_id)
    emulator.add_user("U1", "Ann")
    try:
        async with listener(me) as (url, intake):
            await emulator.use_http(url)
            await emulator.say("U1", "over http")
            await intake.until(said("over http"))
            for text, wrong in (("forged", {"forged": True}), ("late", {"age": 400.0})):
                before = refusals(emulator)
                emulator.sign_badly(**wrong)  # type: ignore[arg-type]
                await emulator.say("U1", text)
                # It comes again at once, and then only after a minute.
                await emulator.wait_for(lambda before=before: refusals(emulator) >= before + 2, 90)
            emulator.sign_badly()
            await emulator.say("U1", "good again")
            await intake.until(said("good again"))
            assert [one.text for one in intake.offered] == ["over http", "good again"]
    finally:
        await emulator.stop()
