"""The wire face: the Web API over HTTP with its checks in their order, response URLs, uploads, downloads, faults."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from adapters.emulators.faults import Fault, FaultKind
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.server import EmulatorServer, abort, is_connected
from adapters.emulators.slack.call import BEARER, Arguments, Call, read_json, read_request
from adapters.emulators.slack.catalogue import METHODS, Method, decode
from adapters.emulators.slack.errors import ApiError, invalid_arguments, rate_limited
from adapters.emulators.slack.methods import HANDLERS
from adapters.emulators.slack.methods.files import UPLOAD_PATH
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.replies import Replies
from adapters.emulators.slack.sockets import Sockets
from adapters.emulators.slack.world import File
from adapters.emulators.wire_json import JsonObject

DOWNLOAD: Final = "file"
UPLOAD: Final = "upload"
RESPONSE: Final = "response_url"
"""Names of what is no method, in the journal and in faults."""
LOGIN_PAGE: Final = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in</body></html>"


class Cut(Exception):
    """The connection was cut on purpose: there is nobody to answer."""


class Wire:
    """Routes of the Web API on an EmulatorServer."""

    def __init__(self, platform: Platform, server: EmulatorServer, sockets: Sockets) -> None:
        self._platform = platform
        self._server = server
        self._sockets = sockets
        self._replies = Replies(platform)

    def mount(self) -> None:
        """Add the routes."""
        router = self._server.app.router
        router.add_route("*", "/api/{method}", self._serve)
        router.add_post("/response/{team}/{id}", self._respond)
        router.add_post(f"{UPLOAD_PATH}{{id}}", self._upload)
        router.add_get("/files-pri/{key}/{name:.+}", self._download)

    # -- methods

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        method = METHODS.get(name)
        try:
            arguments = await read_request(request)
        except ApiError as error:
            entry = self._record(name, method, Arguments())
            self._platform.violate("unreadable_request", {"method": name, "what": error.error}, entry.number)
            return self._answer(request, entry, method, error.body(), error)
        entry = self._record(name, method, arguments)
        return await self._guarded(
            request, entry, method, lambda: self._execute(method, arguments, entry), arguments.token
        )

    def _record(self, name: str, method: Method | None, arguments: Arguments) -> Entry:
        params, problems = (arguments.values, []) if method is None else decode(method, arguments.values)
        readable = {key: value for key, value in params.items() if key not in arguments.unreadable}
        entry = self._platform.journal.record(
            EntryKind.REQUEST, name, {"params": readable}, account=self._platform.app.account
        )
        for problem in problems:
            found = {"method": name, "where": problem.where, "what": problem.what}
            self._platform.violate(problem.rule, found, entry.number)
        if method is None:
            self._platform.violate("unknown_method", {"method": name}, entry.number)
        return entry

    async def _guarded(
        self,
        request: web.Request,
        entry: Entry,
        method: Method | None,
        execute: Callable[[], JsonObject],
        token: str,
    ) -> web.StreamResponse:
        """Run it under the faults that are armed for it, and answer."""
        with self._server.tracked(request, entry.account):
            try:
                result = await self._under_faults(entry, execute)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                return self._answer(request, entry, method, error.body(), error)
            return self._answer(request, entry, method, {"ok": True, **result}, None)

    def _answer(
        self, request: web.Request, entry: Entry, method: Method | None, body: JsonObject, error: ApiError | None
    ) -> web.Response:
        data: JsonObject = {"ok": error is None, "status": 200 if error is None else error.status}
        data |= {"result": body} if error is None else {"error": error.error}
        self._answered(request, entry, data)
        headers = {"X-Slack-Req-Id": self._platform.new_uuid().replace("-", "")}
        if method is not None and not (method.app_token or method.config_token):
            headers["X-OAuth-Scopes"] = self._platform.app.provided
            headers["X-Accepted-OAuth-Scopes"] = ",".join(method.scopes)
        if error is not None:
            headers |= error.headers
        return _json(body, 200 if error is None else error.status, headers)

    def _answered(self, request: web.Request, entry: Entry, data: JsonObject) -> None:
        # A client that died meanwhile never got it: the record must not claim that it did.
        if not is_connected(request):
            data["delivered"] = False
        self._platform.journal.record(EntryKind.RESPONSE, entry.name, data, account=entry.account, request=entry.number)

    def _execute(self, method: Method | None, arguments: Arguments, entry: Entry) -> JsonObject:
        if method is None:
            raise ApiError("unknown_method", req_method=entry.name)
        self._check_token(method, arguments.token)
        params = dict(entry.data["params"])
        if arguments.unreadable:
            raise _unreadable(arguments.unreadable[0])
        if missing := [name for name in method.required if params.get(name) in (None, "")]:
            raise _missing(method, missing)
        self._check_rate(method, params)
        if method.name == "apps.connections.open":
            return {"url": self._sockets.address()}
        call = Call(method=method.name, params=params, number=entry.number, platform=self._platform)
        return HANDLERS[method.name](call)

    def _check_token(self, method: Method, token: str) -> None:
        app = self._platform.app
        if not token:
            raise ApiError("not_authed")
        if method.config_token or token == app.config_token:
            if not method.config_token:
                raise ApiError("not_allowed_token_type")
            if token != app.config_token:
                raise ApiError("invalid_auth")
            return
        if token not in (app.bot_token, app.app_token):
            raise ApiError("invalid_auth")
        if app.revoked is not None:
            raise ApiError(app.revoked)
        if method.app_token != (token == app.app_token):
            raise ApiError("not_allowed_token_type")
        if not method.app_token and method.scopes and not app.scopes & set(method.scopes):
            raise ApiError("missing_scope", needed=",".join(method.scopes), provided=app.provided)

    def _check_rate(self, method: Method, params: Mapping[str, Any]) -> None:
        if not self._platform.knobs.rates:
            return
        channel = str(params.get("channel", ""))
        if wait := self._platform.rates.wait(method, channel, self._platform.clock.now()):
            raise rate_limited(wait)

    # -- faults

    async def _under_faults(self, entry: Entry, execute: Callable[[], JsonObject]) -> JsonObject:
        fault = self._platform.faults.take(entry.name, account=entry.account, params=entry.data["params"])
        if fault is not None:
            fired = {"method": entry.name, "applied": fault.applied}
            self._platform.journal.record(
                EntryKind.FAULT, fault.kind, fired, account=entry.account, request=entry.number
            )
        if fault is not None and not fault.applied:
            await self._suffer(fault)
        result = execute()
        if fault is not None and fault.applied:
            await self._suffer(fault)
        return result

    async def _suffer(self, fault: Fault) -> None:
        """Do what the fault says; returning means that the request goes on."""
        match fault.kind:
            case FaultKind.RATE_LIMIT:
                raise rate_limited(fault.retry_after)
            case FaultKind.SERVER_ERROR:
                raise ApiError(fault.description or "internal_error", status=fault.status)
            case FaultKind.REFUSE:
                # Slack refuses with status 200 whatever the fault's default is.
                raise ApiError(fault.description or "fatal_error", **dict(fault.parameters))
            case FaultKind.DROP:
                raise Cut
            case FaultKind.HALF_OPEN:
                seconds = fault.seconds or math.inf
                await self._platform.clock.wait(self._server.cut, min(seconds, 86_400.0))
                raise Cut
            case FaultKind.DELAY:
                await self._platform.clock.sleep(fault.seconds)
            case FaultKind.DUPLICATE | FaultKind.REORDER:
                raise AssertionError("event faults are never taken for requests")

    # -- response URLs

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        try:
            params = read_json(await request.text())
        except (ApiError, UnicodeDecodeError, LookupError):
            params = {}
        entry = self._platform.journal.record(
            EntryKind.REQUEST, RESPONSE, {"params": params}, account=self._platform.app.account
        )
        identity = request.match_info["id"]
        with self._server.tracked(request, entry.account):
            try:
                await self._under_faults(entry, lambda: self._replies.take(identity, params, entry.number))
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                self._answered(request, entry, {"ok": False, "status": error.status, "error": error.error})
                return _json(error.body(), error.status, error.headers)
            self._answered(request, entry, {"ok": True, "status": 200, "result": "ok"})
            return web.Response(text="ok")

    # -- files

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        content = await _content(request)
        identity = request.match_info["id"]
        params = {"file": identity, "size": len(content)}
        entry = self._platform.journal.record(
            EntryKind.REQUEST, UPLOAD, {"params": params}, account=self._platform.app.account
        )

        def keep() -> JsonObject:
            file = self._platform.world.files.get(identity)
            if file is None or file.complete:
                raise ApiError("upload_url_not_valid", status=404)
            file.content = content
            return {}

        with self._server.tracked(request, entry.account):
            try:
                await self._under_faults(entry, keep)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                self._answered(request, entry, {"ok": False, "status": error.status, "error": error.error})
                return web.Response(status=error.status, text=error.error, headers=error.headers)
            self._answered(request, entry, {"ok": True, "status": 200, "result": {"size": len(content)}})
            return web.Response(text=f"OK - {len(content)}")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        identity = request.match_info["key"].rpartition("-")[2]
        entry = self._platform.journal.record(
            EntryKind.REQUEST, DOWNLOAD, {"params": {"file": identity}}, account=self._platform.app.account
        )
        token = request.headers.get("Authorization", "").removeprefix(BEARER)
        with self._server.tracked(request, entry.account):
            try:
                await self._under_faults(entry, dict)
                file = self._file(identity)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                self._answered(request, entry, {"ok": False, "status": error.status, "error": error.error})
                return web.Response(status=error.status, text=error.error, headers=error.headers)
            if token != self._platform.app.bot_token or "files:read" not in self._platform.app.scopes:
                # Slack sends whoever may not read a file to its login page, with status 200.
                self._answered(request, entry, {"ok": False, "status": 200, "error": "login page"})
                return web.Response(text=LOGIN_PAGE, content_type="text/html")
            content = file.content or b""
            self._answered(request, entry, {"ok": True, "status": 200, "result": {"size": len(content)}})
            return web.Response(body=content, content_type=file.mimetype)

    def _file(self, identity: str) -> File:
        file = self._platform.world.files.get(identity)
        if file is None or not file.complete or file.deleted:
            raise ApiError("file_not_found", status=404)
        return file


async def _content(request: web.Request) -> bytes:
    """The body, or the first file of a multipart body: Slack takes both."""
    if request.content_type != "multipart/form-data":
        return await request.read()
    for part in (await request.post()).values():
        if isinstance(part, web.FileField):
            return part.file.read()
    return b""


def _unreadable(name: str) -> ApiError:
    match name:
        case "blocks":
            return ApiError("invalid_blocks_format")
        case "metadata":
            return ApiError("invalid_metadata_format")
        case "attachments":
            return ApiError("invalid_attachments")
        case "chunks":
            return ApiError("invalid_chunks")
        case _:
            return invalid_arguments(f"must be valid JSON [json-pointer:/{name}]")


def _missing(method: Method, names: list[str]) -> ApiError:
    if "channel" in names:
        return ApiError("channel_not_found")
    return invalid_arguments(*(f"missing required field: {name}" for name in names))


def _json(body: JsonObject, status: int, headers: Mapping[str, str]) -> web.Response:
    text = json.dumps(body, separators=(",", ":"))
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")
