"""HTTP mode: signed posts to the app's request URL."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode, urlsplit

import aiohttp

from adapters.emulators.clock import Clock
from adapters.emulators.errors import AddressRefused, NotPossible
from adapters.emulators.server import is_loopback
from adapters.emulators.slack.app import App
from adapters.emulators.slack.delivery import Delivery, Envelope, EnvelopeKind, Outcome
from adapters.emulators.slack.knobs import Knobs
from adapters.emulators.wire_json import JsonObject, is_object

AGENT: Final = "Slackbot 1.0 (+https://api.slack.com/robots)"
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Slack's signature, version 0."""
    base = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


class Posting:
    """Posts envelopes and reads what comes back.

    `wall` is the clock of signatures: whoever checks one has the machine's time, however far the emulator's was moved.
    """

    def __init__(self, *, app: App, clock: Clock, knobs: Knobs, delivery: Delivery, wall: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._knobs = knobs
        self._delivery = delivery
        self._wall = wall
        self.signature_age: float = 0.0
        """How old signatures claim to be."""
        self.forged_signatures = False

    async def verify(self, url: str, challenge: str) -> None:
        """The handshake of a new request URL. Raises NotPossible if the app does not give the challenge back."""
        if not is_loopback(urlsplit(url).hostname or ""):
            raise AddressRefused(f"{url!r} is not on this machine: the emulator posts to loopback only")
        payload: JsonObject = {
            "token": self._app.verification_token,
            "challenge": challenge,
            "type": "url_verification",
        }
        body = json.dumps(payload).encode()
        async with _session() as session, session.post(url, data=body, headers=self._headers(body, JSON)) as response:
            text = await response.text()
        if response.status != 200 or challenge not in text:
            raise NotPossible(f"{url} did not give the challenge back: {response.status} {text[:200]!r}")

    async def carry(self, envelope: Envelope) -> Outcome:
        """Post it; over by the deadline of the acknowledgement."""
        self._delivery.trace(envelope, "handed", socket=None)
        answered = asyncio.Event()
        posting = asyncio.create_task(self._post(envelope))
        posting.add_done_callback(lambda _: answered.set())
        try:
            if not await self._clock.wait(answered, self._knobs.ack_seconds):
                return Outcome(acknowledged=False, reason="http_timeout")
            return posting.result()
        finally:
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)

    async def _post(self, envelope: Envelope) -> Outcome:
        body, content_type = _encoded(envelope)
        headers = self._headers(body, content_type)
        if envelope.attempt:
            headers |= {"X-Slack-Retry-Num": str(envelope.attempt), "X-Slack-Retry-Reason": envelope.reason}
        try:
            async with (
                _session() as session,
                session.post(self._app.request_url or "", data=body, headers=headers, allow_redirects=False) as answer,
            ):
                return _read(answer.status, answer.headers.get("X-Slack-No-Retry"), await answer.text())
        except (aiohttp.ClientError, TimeoutError):
            return Outcome(acknowledged=False, reason="connection_failed")

    def _headers(self, body: bytes, content_type: str) -> dict[str, str]:
        stamp = str(int(self._wall() - self.signature_age))
        signed = signature("forged" if self.forged_signatures else self._app.signing_secret, stamp, body)
        return {
            "Content-Type": content_type,
            "User-Agent": AGENT,
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": signed,
        }


def _session() -> aiohttp.ClientSession:
    # Proxy settings of the environment are not for loopback.
    return aiohttp.ClientSession(trust_env=False)


def _encoded(envelope: Envelope) -> tuple[bytes, str]:
    match envelope.kind:
        case EnvelopeKind.EVENT:
            return json.dumps(envelope.payload).encode(), JSON
        case EnvelopeKind.INTERACTIVE:
            return urlencode({"payload": json.dumps(envelope.payload)}).encode(), FORM
        case EnvelopeKind.COMMAND:
            return urlencode(envelope.payload).encode(), FORM


def _read(status: int, no_retry: str | None, text: str) -> Outcome:
    if not 200 <= status <= 299:
        return Outcome(acknowledged=False, reason="http_error", final=no_retry == "1")
    try:
        answer = json.loads(text) if text else None
    except ValueError:
        # A command may be answered with a bare text.
        answer = {"text": text}
    return Outcome(acknowledged=True, answer=answer if is_object(answer) else None)
