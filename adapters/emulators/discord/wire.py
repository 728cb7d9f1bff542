"""The wire face: the REST API and the file server, with their order of checks, and the prepared faults."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web

from adapters.emulators.discord.bots import REAL_HOSTS, Bot
from adapters.emulators.discord.buckets import with_headers
from adapters.emulators.discord.call import Arguments, Call, file_summary, read_request
from adapters.emulators.discord.errors import (
    ApiError,
    invalid_form,
    method_not_allowed,
    no_such_route,
    too_many_requests,
    unauthorized,
    unknown,
)
from adapters.emulators.discord.methods import BY_TOKEN, HANDLERS
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.schema import Findings, Operation, discord_api
from adapters.emulators.faults import Fault, FaultKind
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.server import EmulatorServer, abort, is_connected
from adapters.emulators.wire_json import JsonObject, is_object

DOWNLOAD: Final = "file"
"""Name of a file download in the journal and in faults; it is not an operation of the API."""
VIA: Final = {"Via": "1.1 google"}
"""What stands between the world and the API. A 429 without it looks like a ban of the network in front."""
REASONS: Final = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}


NOT_EMULATED: Final = ("poll", "sticker_ids", "shared_client_theme", "thread_name", "username", "avatar_url")
"""Official fields whose effect the emulator does not have; ignoring them silently would prove nothing."""


class Cut(Exception):
    """The connection was cut on purpose: there is nobody to answer."""


class Wire:
    """Routes of the REST API and of the file server on an EmulatorServer."""

    def __init__(self, platform: Platform, server: EmulatorServer) -> None:
        self._platform = platform
        self._server = server

    def mount(self) -> None:
        """Add the routes."""
        router = self._server.app.router
        router.add_route("*", "/api/v{version}/{path:.*}", self._serve)
        for folder in ("attachments", "ephemeral-attachments"):
            router.add_get(f"/{folder}/{{channel}}/{{id}}/{{name}}", self._download)

    # -- transport

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        found = discord_api().operation(request.method, _path(request))
        bot = self._caller(request, found)
        try:
            arguments = await read_request(request)
        except ApiError as error:
            return self._unreadable(request, bot, found, error)
        entry = self._record(request, bot, found, arguments)
        with self._server.tracked(request, entry.account):
            try:
                result, headers = await self._under_faults(request, bot, found, arguments, entry)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                told = {"ok": False, "status": error.status, "error": f"{error.code} {error.message}"}
                self._answered(request, entry, told | {"body": error.body})
                return _respond(error.body, error.status, error.headers)
            status = 204 if result is None else 200
            self._answered(request, entry, {"ok": True, "status": status, "result": result})
            return _respond(result, status, headers)

    def _caller(self, request: web.Request, found: tuple[Operation, dict[str, str]] | None) -> Bot | None:
        if found is not None and found[0].id in BY_TOKEN:
            path = found[1]
            token = path.get("interaction_token") or path.get("webhook_token") or ""
            interaction = self._platform.world.interactions.get(token)
            bot = self._platform.bot_of(interaction.bot) if interaction is not None else None
        else:
            bot = self._platform.bots.get(request.headers.get("Authorization", "").removeprefix("Bot "))
        if bot is not None and request.url.host in REAL_HOSTS:
            bot.real_names = True
        return bot

    def _unreadable(
        self, request: web.Request, bot: Bot | None, found: tuple[Operation, dict[str, str]] | None, error: ApiError
    ) -> web.Response:
        name = found[0].id if found is not None else f"{request.method} {request.path}"
        account = bot.account if bot is not None else ""
        entry = self._platform.journal.record(EntryKind.REQUEST, name, {"params": {}}, account=account)
        self._platform.violate(bot, "unreadable_request", {"method": name, "what": error.message}, entry.number)
        told = {"ok": False, "status": error.status, "error": f"{error.code} {error.message}", "body": error.body}
        self._answered(request, entry, told)
        return _respond(error.body, error.status, error.headers)

    def _record(
        self,
        request: web.Request,
        bot: Bot | None,
        found: tuple[Operation, dict[str, str]] | None,
        arguments: Arguments,
    ) -> Entry:
        name = found[0].id if found is not None else f"{request.method} {request.path}"
        path = {} if found is None else {key: unquote(value) for key, value in found[1].items()}
        # A token in an address is as good as a key: the record does not keep it.
        params: JsonObject = {key: value for key, value in path.items() if not key.endswith("_token")}
        params |= dict(arguments.query)
        params |= arguments.body if is_object(arguments.body) else {}
        if isinstance(arguments.body, list):
            params["items"] = arguments.body
        data: JsonObject = {"params": params}
        if arguments.uploads:
            data["files"] = file_summary(arguments.uploads)
        account = bot.account if bot is not None else ""
        return self._platform.journal.record(EntryKind.REQUEST, name, data, account=account)

    def _answered(self, request: web.Request, entry: Entry, data: JsonObject) -> None:
        # A client that died meanwhile never got it: the record must not claim that it did.
        if not is_connected(request):
            data["delivered"] = False
        self._platform.journal.record(EntryKind.RESPONSE, entry.name, data, account=entry.account, request=entry.number)

    # -- faults

    async def _under_faults(
        self,
        request: web.Request,
        bot: Bot | None,
        found: tuple[Operation, dict[str, str]] | None,
        arguments: Arguments,
        entry: Entry,
    ) -> tuple[Any, Mapping[str, str]]:
        fault = self._platform.faults.take(entry.name, account=entry.account, params=entry.data["params"])
        if fault is not None:
            fired = {"method": entry.name, "applied": fault.applied}
            self._platform.journal.record(
                EntryKind.FAULT, fault.kind, fired, account=entry.account, request=entry.number
            )
        if fault is not None and not fault.applied:
            await self._suffer(fault)
        result = self._execute(request, bot, found, arguments, entry)
        if fault is not None and fault.applied:
            await self._suffer(fault)
        return result

    async def _suffer(self, fault: Fault) -> None:
        """Do what the fault says; returning means that the request goes on."""
        match fault.kind:
            case FaultKind.RATE_LIMIT:
                scope = str(fault.parameters.get("scope", "user"))
                seconds = float(fault.parameters.get("retry_after", fault.retry_after))
                raise too_many_requests(seconds, scope=scope)
            case FaultKind.SERVER_ERROR:
                raise ApiError(fault.status, 0, fault.description or REASONS.get(fault.status, REASONS[500]))
            case FaultKind.REFUSE:
                code = int(fault.parameters.get("code", 0))
                raise ApiError(fault.status, code, fault.description, errors=fault.parameters.get("errors"))
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

    # -- dispatch

    def _execute(
        self,
        request: web.Request,
        bot: Bot | None,
        found: tuple[Operation, dict[str, str]] | None,
        arguments: Arguments,
        entry: Entry,
    ) -> tuple[Any, Mapping[str, str]]:
        if found is None:
            raise self._no_route(request, bot, entry)
        operation, path = found
        if bot is None:
            if operation.id in BY_TOKEN:
                raise unknown(10062 if operation.id == "create_interaction_response" else 10015)
            raise unauthorized()
        if operation.id not in HANDLERS:
            self._platform.violate(bot, "not_emulated", {"method": operation.id}, entry.number)
            raise no_such_route()
        place = path.get("channel_id") or path.get("guild_id") or path.get("webhook_token") or ""
        now = self._platform.clock.now()
        headers = self._platform.buckets.spend(bot.account, operation.id, place, now)
        try:
            call = self._call(bot, operation, path, arguments, entry)
            return HANDLERS[operation.id](self._platform, call), headers
        except ApiError as error:
            raise with_headers(error, headers) from None

    def _no_route(self, request: web.Request, bot: Bot | None, entry: Entry) -> ApiError:
        self._platform.violate(bot, "unknown_route", {"method": entry.name}, entry.number)
        others = [one for one in discord_api().operations if one.pattern.fullmatch(_path(request)) is not None]
        return method_not_allowed() if others else no_such_route()

    def _call(
        self, bot: Bot, operation: Operation, path: Mapping[str, str], arguments: Arguments, entry: Entry
    ) -> Call:
        query, found = _read_query(operation, arguments.query)
        if operation.body is not None:
            body: Any = arguments.body if arguments.body is not None else {}
            found.take(discord_api().check(operation.body, body))
        for name in NOT_EMULATED:
            if is_object(arguments.body) and arguments.body.get(name):
                found_here = {"method": operation.id, "where": name}
                self._platform.violate(bot, "not_emulated", found_here, entry.number)
        unknown_fields = [".".join(one) for one in found.unknown]
        for where in [*unknown_fields, *arguments.strangers]:
            self._platform.violate(bot, "unknown_field", {"method": operation.id, "where": where}, entry.number)
        if found.problems:
            raise invalid_form(found.problems)
        return Call(
            bot=bot,
            operation=operation,
            path=path,
            query=query,
            body=arguments.body,
            uploads=arguments.uploads,
            number=entry.number,
        )

    # -- files

    async def _download(self, request: web.Request) -> web.StreamResponse:
        path = unquote(request.path)
        entry = self._platform.journal.record(EntryKind.REQUEST, DOWNLOAD, {"params": {"path": path}})
        with self._server.tracked(request, ""):
            fault = self._platform.faults.take(DOWNLOAD, params=entry.data["params"])
            try:
                if fault is not None:
                    self._platform.journal.record(EntryKind.FAULT, fault.kind, {"method": DOWNLOAD})
                    await self._suffer(fault)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                self._answered(request, entry, {"ok": False, "status": error.status, "error": error.message})
                return web.Response(status=error.status, text=error.message)
            file = self._platform.world.files.get(path)
            if file is None:
                self._answered(request, entry, {"ok": False, "status": 404, "error": "not found"})
                return web.Response(status=404, text="This content is no longer available.")
            self._answered(request, entry, {"ok": True, "status": 200, "result": {"size": len(file.content)}})
            headers = {"Content-Type": file.content_type or "application/octet-stream"}
            return web.Response(body=file.content, headers=headers)


def _path(request: web.Request) -> str:
    """The path below the version, with emoji still encoded; `@me` and `@original` may come encoded or not."""
    below = request.raw_path.partition("?")[0].partition("/api/v")[2].partition("/")[2]
    return f"/{below}".replace("%40", "@")


def _read_query(operation: Operation, given: Mapping[str, str]) -> tuple[JsonObject, Findings]:
    found = Findings()
    read: JsonObject = {}
    for name, text in given.items():
        if name not in operation.query:
            found.unknown.append((name,))
            continue
        read[name] = _from_text(operation.query[name], text)
        for problem in discord_api().check(operation.query[name], read[name]).problems:
            found.add((name, *problem.path), problem.code, problem.message)
    return read, found


def _from_text(schema: JsonObject, text: str) -> Any:
    match schema.get("type"):
        case "integer" if text.lstrip("-").isdecimal():
            return int(text)
        case "boolean" if text.lower() in ("true", "1"):
            return True
        case "boolean" if text.lower() in ("false", "0"):
            return False
        case _:
            return text


def _respond(result: Any, status: int, headers: Mapping[str, str]) -> web.Response:
    if result is None:
        return web.Response(status=status, headers={**VIA, **headers})
    # Without a charset: this is how Discord spells it, and clients compare.
    body = json.dumps(result, ensure_ascii=False).encode()
    return web.Response(body=body, status=status, headers={**VIA, **headers, "Content-Type": "application/json"})
