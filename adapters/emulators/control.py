"""The control API: drive an emulator from another process, and watch its journal.

    POST /_emulator/<verb>           JSON object of arguments -> {"ok": true, "result": ...}
    GET  /_emulator/verbs            the verbs and their arguments
    GET  /_emulator/journal?after=N  entries newer than N, at once
    GET  /_emulator/events?after=N   entries newer than N, waiting up to `wait` seconds for the first;
                                     a stream of server-sent events with `Accept: text/event-stream`

A web page in somebody's browser must not reach it: peers off this machine, foreign Host headers (rebinding) and
foreign Origins are refused with 403, and a POST must be `application/json`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import ipaddress
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from pydantic import ValidationError, validate_call

from adapters.emulators.errors import EmulatorError
from adapters.emulators.journal import EntryKind, Journal
from adapters.emulators.wire_json import JsonObject, is_object

PREFIX = "/_emulator"
MAX_WAIT_SECONDS = 60.0
LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

Verb = Callable[..., Any]
"""Plain or async; takes and returns JSON values."""


class ControlFace:
    """Routes under `/_emulator/` for the given verbs. Arguments are checked against the verbs' signatures."""

    def __init__(self, *, journal: Journal, verbs: Mapping[str, Verb]) -> None:
        self._journal = journal
        self._verbs = verbs
        # Made on first use: a checker takes milliseconds to build, and most emulators are driven from Python.
        self._checked: dict[str, Verb] = {}

    def mount(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get(f"{PREFIX}/verbs", self._guarded(self._list_verbs))
        app.router.add_get(f"{PREFIX}/journal", self._guarded(self._read_journal))
        app.router.add_get(f"{PREFIX}/events", self._guarded(self._events))
        app.router.add_post(f"{PREFIX}/{{verb}}", self._guarded(self._run))

    def _guarded(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        @functools.wraps(handler)
        async def guarded(request: web.Request) -> web.StreamResponse:
            if reason := foreign(request):
                return _refused(403, reason)
            return await handler(request)

        return guarded

    async def _list_verbs(self, request: web.Request) -> web.Response:
        signatures = {name: str(inspect.signature(verb)) for name, verb in self._verbs.items()}
        return web.json_response({"ok": True, "result": signatures})

    async def _read_journal(self, request: web.Request) -> web.Response:
        entries = self._journal.after(_number(request, "after"))
        return web.json_response({"ok": True, "result": [entry.to_json() for entry in entries]})

    async def _run(self, request: web.Request) -> web.Response:
        name = request.match_info["verb"]
        if name not in self._verbs:
            return _refused(404, f"no verb {name!r}; there are {', '.join(sorted(self._verbs))}")
        if request.content_type != "application/json":
            return _refused(415, f"send application/json, not {request.content_type}")
        try:
            arguments = await request.json()
        except ValueError as error:
            return _refused(400, f"the body is not JSON: {error}")
        if not is_object(arguments):
            return _refused(400, "the body must be a JSON object of arguments")
        return await self._answer(name, arguments)

    async def _answer(self, name: str, arguments: JsonObject) -> web.Response:
        if name not in self._checked:
            self._checked[name] = validate_call(self._verbs[name])
        verb = self._checked[name]
        self._journal.record(EntryKind.CONTROL, name, {"arguments": _summary(arguments)})
        try:
            result = verb(**arguments)
            result = await result if inspect.isawaitable(result) else result
        except ValidationError as error:
            return _refused(400, f"{name}: {_problems(error)}")
        except (EmulatorError, ValueError) as error:
            return _refused(409, str(error))
        return web.json_response({"ok": True, "result": result})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        after = _number(request, "after")
        if "text/event-stream" in request.headers.get("Accept", ""):
            return await self._stream(request, after)
        wait = min(float(request.query.get("wait", "20")), MAX_WAIT_SECONDS)
        try:
            async with asyncio.timeout(wait):
                await self._journal.grown(after)
        except TimeoutError:
            pass
        entries = [entry.to_json() for entry in self._journal.after(after)]
        return web.json_response({"ok": True, "result": entries})

    async def _stream(self, request: web.Request, after: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        async for chunk in self._chunks(after):
            try:
                await response.write(chunk)
            except ConnectionError:
                break
        return response

    async def _chunks(self, after: int) -> AsyncIterator[bytes]:
        while True:
            await self._journal.grown(after)
            for entry in self._journal.after(after):
                after = entry.number
                body = json.dumps(entry.to_json(), ensure_ascii=False)
                yield f"id: {entry.number}\nevent: {entry.kind}\ndata: {body}\n\n".encode()


def foreign(request: web.Request) -> str | None:
    """Why this request may not touch the control API; None if it may."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if peer is None or not ipaddress.ip_address(peer[0]).is_loopback:
        return "only this machine may drive the emulator"
    if not _is_own_name(request.host, _own_port(request)):
        return f"foreign Host header {request.host!r}: use 127.0.0.1 or localhost"
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        return f"foreign Origin header {origin!r}: another site's page may not drive the emulator"
    return None


def _is_own_name(host: str, port: int | None) -> bool:
    name, _, stated = host.rpartition(":") if ":" in host.removesuffix("]").rpartition("]")[2] else (host, "", "80")
    return name.lower() in LOCAL_NAMES and stated == str(port)


def _own_port(request: web.Request) -> int | None:
    own = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return None if own is None else own[1]


def _number(request: web.Request, name: str) -> int:
    value = request.query.get(name, "0")
    if not value.isdecimal():
        raise web.HTTPBadRequest(text=json.dumps({"ok": False, "error": f"{name} must be a number"}))
    return int(value)


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())


def _refused(status: int, reason: str) -> web.Response:
    return web.json_response({"ok": False, "error": reason}, status=status)


def _summary(arguments: JsonObject) -> JsonObject:
    """File contents are journalled by length: the record is for reading."""
    return {
        name: f"{value[:40]}… ({len(value)} characters)" if isinstance(value, str) and len(value) > 4096 else value
        for name, value in arguments.items()
    }
