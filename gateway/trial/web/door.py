"""Who may reach the playground: this machine's own browser, with the token of this run, from the page itself.

Order of checks: Host, Origin, credential, CSRF. They hold for every route, the stream of events included.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler

LOCAL_NAMES = ("127.0.0.1", "localhost")
MAX_WRONG = 10
WRONG_SECONDS = 60.0
CSRF_HEADER = "X-Pilothouse-Token"

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(slots=True)
class Door:
    """Made anew for each run: nothing that opened an earlier one opens this one. `now` is in seconds."""

    entrance: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """In the address that the terminal shows; gives the cookie."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    port: int = 0
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _wrong: deque[float] = field(default_factory=deque[float])

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host, so that the port is in the name."""
        return f"pilothouse_try_{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The only Host headers that are ours."""
        return tuple(f"{name}:{self.port}" for name in LOCAL_NAMES)

    def foreign(self, request: web.Request) -> str | None:
        """Why this request does not come from our own page or the address bar; None if it does."""
        if request.headers.getall("Host", []) not in [[host] for host in self.hosts]:
            return "foreign Host header: open the address that `pilothouse try --web` has printed"
        origins = request.headers.getall("Origin", [])
        if origins and origins != [f"http://{request.host}"]:
            return "foreign Origin header: only the page itself may ask"
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return "another site's page may not ask"
        if not origins and request.method != "GET":
            return "no Origin header: only the page itself may ask"
        return None

    def known(self, request: web.Request) -> bool:
        """Whether the request has this run's cookie."""
        return _equal(request.cookies.get(self.cookie_name, ""), self._cookie)

    def meant(self, request: web.Request) -> bool:
        """Whether the page itself sent it: no other page can know this token, nor set a header here."""
        return _equal(request.headers.get(CSRF_HEADER, ""), self.csrf)

    def enter(self, token: str, now: float) -> bool | None:
        """Whether the token opens the door; None if too many wrong ones were tried."""
        while self._wrong and self._wrong[0] <= now - WRONG_SECONDS:
            self._wrong.popleft()
        if len(self._wrong) >= MAX_WRONG:
            return None
        if _equal(token, self.entrance):
            return True
        self._wrong.append(now)
        return False

    def admit(self, response: web.StreamResponse) -> None:
        """Give the cookie."""
        response.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="Strict", path="/")

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what may not come in. Headers are added to every answer by `dress`, to streams before they begin."""
        if reason := self.foreign(request):
            return web.Response(status=403, text=f"{reason}\n")
        if request.path != ENTRANCE and not self.known(request):
            return web.Response(status=403, text="Open the address that `pilothouse try --web` has printed.\n")
        if request.method != "GET" and not self.meant(request):
            return web.Response(status=403, text="The page's token is missing: load the page again.\n")
        return await handler(request)


ENTRANCE = "/enter"


async def dress(request: web.Request, response: web.StreamResponse) -> None:
    """Put the protective headers on an answer, whatever made it; for `on_response_prepare`."""
    response.headers.update(HEADERS)


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
