"""S-54: no web page reaches the playground, and nobody who does can name himself."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from gateway.trial.stage import make_stage
from gateway.trial.web.door import CSRF_HEADER, MAX_WRONG, WRONG_SECONDS, Door
from gateway.trial.web.room import Room
from gateway.trial.web.site import Site, serving

ASSETS = Path(__file__).parents[2] / "gateway" / "trial" / "web" / "assets"
ROUTES = (
    ("GET", "/"),
    ("GET", "/assets/page.js"),
    ("GET", "/events"),
    ("GET", "/log"),
    ("POST", "/panes/telegram/begin"),
    ("POST", "/gateway/kill"),
)


class Visitor:
    """Asks the site with exactly the headers that it is told to send."""

    def __init__(self, room: Room, door: Door, session: aiohttp.ClientSession, cookie: str) -> None:
        self.room, self.door, self._session, self.cookie = room, door, session, cookie

    def proper(self, method: str) -> dict[str, str]:
        """What the page itself sends."""
        headers = {"Host": f"127.0.0.1:{self.door.port}", "Cookie": self.cookie}
        if method == "POST":
            headers["Origin"] = f"http://127.0.0.1:{self.door.port}"
            headers |= {CSRF_HEADER: self.door.csrf, "Content-Type": "application/json"}
        return headers

    async def ask(self, method: str, path: str, headers: dict[str, str], body: str = "{}") -> aiohttp.ClientResponse:
        """The answer, of which only the head was read."""
        data = body if method == "POST" else None
        address = f"http://127.0.0.1:{self.door.port}{path}"
        return await self._session.request(method, address, headers=headers, data=data, allow_redirects=False)


@pytest.fixture
async def visitor(tmp_path: Path) -> AsyncGenerator[Visitor]:
    """A site whose room has no gateway: what gets in shows in what the room remembers."""
    room, door = Room(make_stage(tmp_path / "trial", {}), {}), Door()
    room.client = lambda name: None  # type: ignore[assignment,method-assign]
    async with serving(room, door, 0) as address, aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        async with session.get(address, allow_redirects=False) as entered:
            cookie = entered.headers["Set-Cookie"]
        yield Visitor(room, door, session, cookie.partition(";")[0])


def foreign(visitor: Visitor, method: str) -> dict[str, dict[str, str]]:
    """Everything that must stay outside, by what is wrong with it."""
    proper, port = visitor.proper(method), visitor.door.port
    changed = {
        "foreign host": {"Host": f"evil.test:{port}"},
        "rebinding": {"Host": f"evil.test:{port}", "Origin": f"http://evil.test:{port}"},
        "a name that begins like ours": {"Host": f"localhost.evil.test:{port}"},
        "no port": {"Host": "127.0.0.1"},
        "another port": {"Host": "127.0.0.1:1"},
        "any address": {"Host": f"0.0.0.0:{port}"},
        "null origin": {"Origin": "null"},
        "foreign origin": {"Origin": "http://evil.test"},
        "origin with another scheme": {"Origin": f"https://127.0.0.1:{port}"},
        "origin of another port": {"Origin": "http://127.0.0.1:1"},
        "another site's frame": {"Sec-Fetch-Site": "cross-site"},
        "another port's page": {"Sec-Fetch-Site": "same-site"},
        "no cookie": {"Cookie": ""},
        "a cookie of another run": {"Cookie": f"{visitor.door.cookie_name}={'A' * 43}"},
        "the entrance's token as cookie": {"Cookie": f"{visitor.door.cookie_name}={visitor.door.entrance}"},
    }
    if method == "POST":
        changed["no token of the page"] = {CSRF_HEADER: ""}
        changed["a wrong token of the page"] = {CSRF_HEADER: "A" * 43}
        changed["a token that is no ASCII"] = {CSRF_HEADER: "ü"}
    cases = {what: proper | change for what, change in changed.items()}
    if method == "POST":
        cases["no origin"] = {name: value for name, value in proper.items() if name != "Origin"}
    return cases


async def test_every_route_is_guarded_against_every_stranger(visitor: Visitor) -> None:
    """The matrix: each route refuses each stranger with 403, and nothing has happened."""
    telegram = visitor.room.sides["telegram"]
    telegram.talk.thread = "kept"
    let_in: list[tuple[str, str, int]] = []
    for method, path in ROUTES:
        for what, headers in foreign(visitor, method).items():
            async with await visitor.ask(method, path, headers) as answer:
                if answer.status != 403:
                    let_in.append((path, what, answer.status))
    assert let_in == []
    assert telegram.talk.thread == "kept"


async def test_page_itself_comes_in_everywhere(visitor: Visitor) -> None:
    """The counterpart, without which a door that is always shut would pass: proper headers are answered."""
    visitor.room.sides["telegram"].talk.thread = "old"
    for method, path in ROUTES:
        async with await visitor.ask(method, path, visitor.proper(method)) as answer:
            assert answer.status == 200, (path, await answer.text())
    assert visitor.room.sides["telegram"].talk.thread == ""


def test_matrix_knows_every_route(tmp_path: Path) -> None:
    """A new route has to be written into the matrix."""
    site = Site(Room(make_stage(tmp_path / "trial", {}), {}), Door())
    paths = {(route.method, route.resource.canonical) for route in site.app.router.routes() if route.resource}
    expected = {
        ("GET", "/enter"), ("GET", "/"), ("GET", "/assets/{name}"), ("GET", "/events"), ("GET", "/log"),
        ("POST", "/panes/{platform}/{deed}"), ("POST", "/gateway/{deed}"),
    }  # fmt: skip
    assert {one for one in paths if one[0] != "HEAD"} == expected


async def test_answers_carry_the_protective_headers(visitor: Visitor) -> None:
    """The page, its script, the stream and a refusal forbid foreign resources, frames, sniffing and keeping."""
    refused = {"Host": "evil.test"}
    asked = [("/", None), ("/assets/page.js", None), ("/events", None), ("/", refused), ("/nothing", None)]
    for path, headers in asked:
        async with await visitor.ask("GET", path, headers or visitor.proper("GET")) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'self';")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_caller_cannot_say_who_he_is(visitor: Visitor) -> None:
    """A field too many is refused, and so is what is not JSON: the person is the room's, whatever is sent."""
    bodies = ('{"text": "hi", "user": 8}', '{"text": "hi", "chat": -1}', '{"text": 5}', '{"text": ""}', "text=hi", "[]")
    for body in bodies:
        async with await visitor.ask("POST", "/panes/telegram/say", visitor.proper("POST"), body) as answer:
            assert answer.status == 400, body
    plain = visitor.proper("POST") | {"Content-Type": "text/plain"}
    async with await visitor.ask("POST", "/panes/telegram/say", plain, '{"text": "hi"}') as answer:
        assert answer.status == 415
    for path in ("/panes/telegram/snapshot", "/panes/nowhere/say", "/gateway/fault", "/assets/../site.py"):
        method = "GET" if path.startswith("/assets") else "POST"
        async with await visitor.ask(method, path, visitor.proper(method)) as answer:
            assert answer.status == 404, path


async def test_cookie_is_strict_and_closed_to_scripts(visitor: Visitor) -> None:
    """The entrance gives a cookie that scripts do not read and other sites do not send, and hides the token again."""
    address = f"/enter?token={visitor.door.entrance}"
    async with await visitor.ask("GET", address, {"Host": f"127.0.0.1:{visitor.door.port}"}) as answer:
        cookie = answer.headers["Set-Cookie"]
        assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert visitor.door.entrance not in cookie


def test_wrong_tokens_are_limited() -> None:
    """After some wrong tokens even the right one has to wait, so that nobody tries them all."""
    door = Door()
    assert [door.enter("wrong", 0.0) for _ in range(MAX_WRONG)] == [False] * MAX_WRONG
    assert door.enter(door.entrance, 1.0) is None
    assert door.enter(door.entrance, WRONG_SECONDS + 1.0) is True


def test_secrets_are_new_and_different_each_time() -> None:
    """No two runs, and no two uses within one, share a secret."""
    secrets = [secret for door in (Door(), Door()) for secret in (door.entrance, door.csrf, door._cookie)]
    assert all(len(secret) >= 43 for secret in secrets)
    assert all(one != other for one, other in itertools.combinations(secrets, 2))


def test_page_has_nothing_inline_and_makes_no_markup_of_text() -> None:
    """What the policy forbids is not there, and no way by which words could become elements is used."""
    page, script, style = (ASSETS / name for name in ("page.html", "page.js", "page.css"))
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=|javascript:|https?://", page.read_text()) == []
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|setHTML"
    assert re.findall(ways, script.read_text()) == []
    assert re.findall(r"@import|url\(", style.read_text()) == []
