"""The page's site: its files, what the room shows as a stream, and what the person may do. Nothing else is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from adapters.emulators.errors import EmulatorError
from gateway.trial.web.door import ENTRANCE, Door, dress
from gateway.trial.web.room import Room
from gateway.trial.web.side import Side

ASSETS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
MAX_BODY = 3 << 20
PING_SECONDS = 15.0
SHUTDOWN_SECONDS = 0.5

Id = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=4000)]


class Deed(BaseModel):
    """What a person does. Who that is, nobody can say: a field too many is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Say(Deed):
    """Write."""

    text: Words


class Press(Deed):
    """Press a button."""

    message: Id
    data: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class Edit(Deed):
    """Change an own message."""

    message: Id
    text: Words


class Delete(Deed):
    """Take an own message away."""

    message: Id


class Like(Deed):
    """A thumb, or none."""

    message: Id
    on: bool


class Upload(Deed):
    """A file, with words."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    content: Annotated[str, StringConstraints(max_length=2 << 20)]
    text: Annotated[str, StringConstraints(max_length=1000)] = ""


class Submit(Deed):
    """The form, filled in."""

    values: dict[Id, Annotated[str, StringConstraints(max_length=4000)]]


class Nothing(Deed):
    """No arguments."""


class Refuse(Deed):
    """Seconds that a 429 asks for."""

    seconds: Annotated[int, Field(ge=1, le=60)] = 3


class Advance(Deed):
    """Seconds by which the platforms' clocks jump."""

    seconds: Annotated[int, Field(ge=1, le=86_400)]


D = TypeVar("D", bound=Deed)


class Site:
    """The application, made for one room and one door."""

    def __init__(self, room: Room, door: Door) -> None:
        self._room = room
        self._door = door
        self.app = web.Application(client_max_size=MAX_BODY, middlewares=[door.guard])
        self.app.on_response_prepare.append(dress)
        routes = self.app.router
        routes.add_get(ENTRANCE, self._enter)
        routes.add_get("/", self._page)
        routes.add_get("/assets/{name}", self._asset)
        routes.add_get("/events", self._events)
        routes.add_get("/log", self._log)
        routes.add_post("/panes/{platform}/{deed}", self._do)
        routes.add_post("/gateway/{deed}", self._drive)

    # -- the page

    async def _enter(self, request: web.Request) -> web.Response:
        opened = self._door.enter(request.query.get("token", ""), time.monotonic())
        if opened is None:
            return web.Response(status=429, text="Too many wrong tokens: wait a minute.\n")
        if not opened:
            return web.Response(status=403, text="Not the token of this run.\n")
        # Not answered with the page itself: the address bar and the history would keep the token.
        response = web.Response(status=303, headers={"Location": "/"})
        self._door.admit(response)
        return response

    async def _page(self, request: web.Request) -> web.Response:
        return _file("page.html", "text/html")

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return _file(name, ASSETS[name]) if name in ASSETS else web.Response(status=404, text="no such file\n")

    async def _log(self, request: web.Request) -> web.Response:
        return web.Response(text=self._room.log())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(_event("token", self._door.csrf))
            async for update in _with_pings(self._room):
                await response.write(update)
        except ConnectionError:
            pass
        return response

    # -- what the person does

    async def _do(self, request: web.Request) -> web.Response:
        name, deed = request.match_info["platform"], request.match_info["deed"]
        side = self._room.sides.get(name)
        if side is None or deed not in self._deeds(side):
            return _answer(404, f"no deed {deed} on {name}")
        refused = await _attempt(request, self._deeds(side)[deed])
        self._room.look_again(name)
        return refused or _answer(200)

    def _deeds(self, side: Side) -> dict[str, Callable[[str], Awaitable[object]]]:
        client = self._room.client(side.name)
        return {
            "say": _taking(Say, lambda deed: side.say(client, deed.text)),
            "press": _taking(Press, lambda deed: side.press(client, deed.message, deed.data)),
            "edit": _taking(Edit, lambda deed: side.edit(client, deed.message, deed.text)),
            "delete": _taking(Delete, lambda deed: side.delete(client, deed.message)),
            "like": _taking(Like, lambda deed: side.like(client, deed.message, deed.on)),
            "upload": _taking(Upload, lambda deed: side.upload(client, deed.name, deed.content, deed.text)),
            "submit": _taking(Submit, lambda deed: side.submit(client, deed.values)),
            "dismiss": _taking(Nothing, lambda _: side.dismiss(client)),
            "begin": _taking(Nothing, lambda _: _at_once(side.begin_anew)),
        }

    async def _drive(self, request: web.Request) -> web.Response:
        room, deed = self._room, request.match_info["deed"]
        deeds = {
            "kill": _taking(Nothing, lambda _: _at_once(room.kill)),
            "start": _taking(Nothing, lambda _: room.start()),
            "refuse": _taking(Refuse, lambda given: room.refuse(given.seconds)),
            "disconnect": _taking(Nothing, lambda _: room.disconnect()),
            "advance": _taking(Advance, lambda given: room.advance(given.seconds)),
        }
        if deed not in deeds:
            return _answer(404, f"no deed {deed}")
        return await _attempt(request, deeds[deed]) or _answer(200)


@asynccontextmanager
async def serving(room: Room, door: Door, port: int) -> AsyncGenerator[str]:
    """The site on loopback while inside; the value is the address to open. Port 0 takes a free one."""
    runner = web.AppRunner(Site(room, door).app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        door.port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{door.port}{ENTRANCE}?token={door.entrance}"
    finally:
        await runner.cleanup()


async def _with_pings(room: Room) -> AsyncGenerator[bytes]:
    """The room's updates, and a comment now and then, so that a page that went away is noticed."""
    updates = room.updates()
    following = asyncio.ensure_future(anext(updates))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=PING_SECONDS)
            if not done:
                yield b": still here\n\n"
                continue
            update = following.result()
            following = asyncio.ensure_future(anext(updates))
            yield _event(update.name, update.body)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await updates.aclose()


def _event(name: str, body: str) -> bytes:
    return f"event: {name}\ndata: {body}\n\n".encode()


def _file(name: str, kind: str) -> web.Response:
    body = (resources.files("gateway.trial.web") / "assets" / name).read_bytes()
    return web.Response(body=body, content_type=kind, charset="utf-8")


def _taking(shape: type[D], do: Callable[[D], Awaitable[object]]) -> Callable[[str], Awaitable[object]]:
    """A deed that takes its arguments as JSON. Raises ValidationError."""

    def run(body: str) -> Awaitable[object]:
        return do(shape.model_validate_json(body))

    return run


async def _at_once(do: Callable[[], object]) -> object:
    return do()


async def _attempt(request: web.Request, deed: Callable[[str], Awaitable[object]]) -> web.Response | None:
    """None if it was done; otherwise why not."""
    if request.content_type != "application/json":
        return _answer(415, "send application/json")
    try:
        await deed(await request.text())
    except ValidationError as error:
        first = error.errors()[0]
        return _answer(400, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}")
    except (EmulatorError, ValueError) as error:
        return _answer(409, str(error))
    return None


def _answer(status: int, problem: str = "") -> web.Response:
    return web.json_response({"problem": problem}, status=status)
