"""The wire face: the Bot API over HTTP, with its envelope, its order of checks, and the prepared faults."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from adapters.emulators.faults import Fault, FaultKind
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.server import EmulatorServer, abort, is_connected, is_loopback
from adapters.emulators.telegram import polling
from adapters.emulators.telegram.bots import Bot, Webhook
from adapters.emulators.telegram.call import Arguments, Call, file_summary, read_request
from adapters.emulators.telegram.errors import ApiError, bad_request, too_many_requests
from adapters.emulators.telegram.methods import HANDLERS, Handler
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.schema import Method, bot_api
from adapters.emulators.telegram.webhook import WebhookSender
from adapters.emulators.telegram.world import without_none
from adapters.emulators.wire_json import JsonObject

MAX_TOKEN: Final = 80
MAX_SECRET: Final = 256
DOWNLOAD: Final = "file"
"""Name of a file download in the journal and in faults; it is not a method of the Bot API."""
UNSUPPORTED: Final = frozenset(
    {
        "business_connection_id",
        "direct_messages_topic_id",
        "ephemeral_message_parameters",
        "suggested_post_parameters",
        "inline_message_id",
        "rich_message",
    }
)
"""Official parameters whose effect the emulator does not have; ignoring them silently would prove nothing."""
REASONS: Final = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}
_SECRET = re.compile(r"[A-Za-z0-9_-]*")


class Cut(Exception):
    """The connection was cut on purpose: there is nobody to answer."""


class Wire:
    """Routes of the Bot API on an EmulatorServer."""

    def __init__(self, platform: Platform, server: EmulatorServer) -> None:
        self._platform = platform
        self._server = server
        self._handlers: dict[str, Handler] = {
            **HANDLERS,
            "setwebhook": self._set_webhook,
            "deletewebhook": self._delete_webhook,
            "getwebhookinfo": self._get_webhook_info,
        }

    def mount(self) -> None:
        """Add the routes."""
        router = self._server.app.router
        router.add_route("*", "/bot{token}/{method}", self._serve)
        router.add_get("/file/bot{token}/{path:.+}", self._download)

    # -- transport

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        token, name = request.match_info["token"], request.match_info["method"]
        try:
            arguments = await read_request(request)
        except ApiError as error:
            return self._unreadable(request, token, name, error)
        bot = self._platform.bots.get(token)
        method = bot_api().method(name)
        spelled = method.name if method is not None else name
        entry = self._record(bot, method, spelled, arguments)
        with self._server.tracked(request, entry.account):
            try:
                result = await self._under_faults(request, token, bot, method, arguments, entry)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                self._answered(request, entry, {"ok": False, "status": error.status, "error": error.description})
                return _error(error)
            self._answered(request, entry, {"ok": True, "status": 200, "result": result})
            return _success(result)

    def _unreadable(self, request: web.Request, token: str, name: str, error: ApiError) -> web.Response:
        bot = self._platform.bots.get(token)
        account = bot.account if bot is not None else ""
        entry = self._platform.journal.record(EntryKind.REQUEST, name, {"params": {}}, account=account)
        self._platform.violate(bot, "unreadable_request", {"method": name, "what": error.description}, entry.number)
        self._answered(request, entry, {"ok": False, "status": error.status, "error": error.description})
        return _error(error)

    def _record(self, bot: Bot | None, method: Method | None, spelled: str, arguments: Arguments) -> Entry:
        account = bot.account if bot is not None else ""
        if method is None:
            params: JsonObject = dict(arguments.values)
            problems = []
        else:
            params, problems = bot_api().decode(method, arguments.values, frozenset(arguments.uploads))
        data: JsonObject = {"params": params}
        if arguments.uploads:
            data["files"] = file_summary(arguments.uploads)
        entry = self._platform.journal.record(EntryKind.REQUEST, spelled, data, account=account)
        for problem in problems:
            found = {"method": spelled, "where": problem.where, "what": problem.what}
            self._platform.violate(bot, problem.rule, found, entry.number)
        for name in params.keys() & UNSUPPORTED:
            self._platform.violate(bot, "not_emulated", {"method": spelled, "where": name}, entry.number)
        return entry

    def _answered(self, request: web.Request, entry: Entry, data: JsonObject) -> None:
        # A client that died meanwhile never got it: the record must not claim that it did.
        if not is_connected(request):
            data["delivered"] = False
        self._platform.journal.record(EntryKind.RESPONSE, entry.name, data, account=entry.account, request=entry.number)

    # -- faults

    async def _under_faults(
        self,
        request: web.Request,
        token: str,
        bot: Bot | None,
        method: Method | None,
        arguments: Arguments,
        entry: Entry,
    ) -> Any:
        params = entry.data["params"]
        fault = self._platform.faults.take(entry.name, account=entry.account, params=params)
        if fault is not None:
            fired = {"method": entry.name, "applied": fault.applied}
            self._platform.journal.record(
                EntryKind.FAULT, fault.kind, fired, account=entry.account, request=entry.number
            )
        if fault is not None and not fault.applied:
            await self._suffer(fault)
        result = await self._execute(token, bot, method, arguments, entry)
        if fault is not None and fault.applied:
            await self._suffer(fault)
        return result

    async def _suffer(self, fault: Fault) -> None:
        """Do what the fault says; returning means that the request goes on."""
        match fault.kind:
            case FaultKind.RATE_LIMIT:
                raise too_many_requests(fault.retry_after)
            case FaultKind.SERVER_ERROR:
                reason = fault.description or REASONS.get(fault.status, "Internal Server Error")
                raise ApiError(fault.status, reason)
            case FaultKind.REFUSE:
                raise ApiError(fault.status, fault.description, fault.parameters)
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

    async def _execute(
        self, token: str, bot: Bot | None, method: Method | None, arguments: Arguments, entry: Entry
    ) -> Any:
        if ":" not in token or token.startswith("0") or len(token) > MAX_TOKEN:
            raise ApiError(401, "Unauthorized: invalid token specified")
        if bot is None:
            raise ApiError(401, "Unauthorized")
        if self._platform.clock.now() < bot.logged_out_until:
            raise ApiError(400, "Logged out")
        if method is None:
            self._platform.violate(bot, "unknown_method", {"method": entry.name}, entry.number)
            raise ApiError(404, "Not Found: method not found")
        handler = self._handlers.get(method.name.lower())
        if handler is None:
            self._platform.violate(bot, "not_emulated", {"method": method.name}, entry.number)
            raise ApiError(501, f"Not Implemented: the emulator does not have {method.name}")
        call = Call(bot=bot, method=method.name, arguments=arguments, number=entry.number)
        return await handler(self._platform, call)

    async def execute_answer(self, bot: Bot, name: str, arguments: Arguments) -> None:
        """Run a call that came as the answer of a webhook; nobody hears its result."""
        method = bot_api().method(name)
        entry = self._record(bot, method, method.name if method is not None else name, arguments)
        data: JsonObject
        try:
            result = await self._execute(bot.token, bot, method, arguments, entry)
            data = {"ok": True, "status": 200, "result": result}
        except ApiError as error:
            data = {"ok": False, "status": error.status, "error": error.description}
        data["delivered"] = False
        self._platform.journal.record(EntryKind.RESPONSE, entry.name, data, account=bot.account, request=entry.number)

    # -- files

    async def _download(self, request: web.Request) -> web.StreamResponse:
        bot = self._platform.bots.get(request.match_info["token"])
        path = request.match_info["path"]
        account = bot.account if bot is not None else ""
        entry = self._platform.journal.record(
            EntryKind.REQUEST, DOWNLOAD, {"params": {"file_path": path}}, account=account
        )
        with self._server.tracked(request, account):
            try:
                fault = self._platform.faults.take(DOWNLOAD, account=account)
                if fault is not None:
                    self._platform.journal.record(EntryKind.FAULT, fault.kind, {"method": DOWNLOAD}, account=account)
                    await self._suffer(fault)
                content = self._file_content(bot, path)
            except Cut:
                abort(request)
                return web.Response()
            except ApiError as error:
                self._answered(request, entry, {"ok": False, "status": error.status, "error": error.description})
                return _error(error)
            self._answered(request, entry, {"ok": True, "status": 200, "result": {"size": len(content)}})
            return web.Response(body=content, content_type="application/octet-stream")

    def _file_content(self, bot: Bot | None, path: str) -> bytes:
        if bot is None:
            raise ApiError(401, "Unauthorized")
        valid_until = self._platform.file_links.get(path, 0.0)
        file = next((file for file in self._platform.world.files.values() if file.path == path), None)
        if file is None or self._platform.clock.now() > valid_until:
            raise ApiError(404, "Not Found")
        return file.content

    # -- webhooks

    async def _set_webhook(self, platform: Platform, call: Call) -> bool:
        """Post updates to an address from now on. Only this machine's addresses are taken, and plain http is fine."""
        bot, url = call.bot, call.text("url")
        if not url:
            return await self._delete_webhook(platform, call)
        now = platform.clock.now()
        if now < bot.next_webhook_at:
            raise too_many_requests(1)
        bot.next_webhook_at = now + platform.knobs.set_webhook_interval
        webhook = self._read_webhook(call, url)
        if call.flag("drop_pending_updates"):
            self._drop_pending(call)
        if bot.poll is not None:
            bot.poll.abort(polling.WEBHOOK_SET)
        polling.remember_allowed(platform, call)
        self._end_webhook(bot)
        bot.webhook = webhook
        bot.webhook_sender = platform.spawn(WebhookSender(platform, bot, webhook, self.execute_answer).run())
        return True

    def _read_webhook(self, call: Call, url: str) -> Webhook:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise bad_request("invalid webhook URL specified")
        secret = call.text("secret_token")
        if len(secret) > MAX_SECRET:
            raise bad_request("secret token is too long")
        if not _SECRET.fullmatch(secret):
            raise bad_request("secret token contains unallowed characters")
        if not is_loopback(parts.hostname):
            raise bad_request("bad webhook: the emulator posts to this machine only")
        return Webhook(url=url, secret=secret, max_connections=call.integer("max_connections", 40, 1, 100))

    async def _delete_webhook(self, platform: Platform, call: Call) -> bool:
        """Back to polling; pending updates stay unless asked otherwise."""
        if call.flag("drop_pending_updates"):
            self._drop_pending(call)
        self._end_webhook(call.bot)
        return True

    async def _get_webhook_info(self, platform: Platform, call: Call) -> JsonObject:
        """Address, backlog and the last error."""
        bot, webhook = call.bot, call.bot.webhook
        return without_none(
            url=webhook.url if webhook is not None else "",
            has_custom_certificate=False,
            pending_update_count=len(bot.queue.pending),
            max_connections=webhook.max_connections if webhook is not None else None,
            last_error_date=int(webhook.last_error_at) if webhook and webhook.last_error_at is not None else None,
            last_error_message=webhook.last_error if webhook is not None else None,
            allowed_updates=sorted(bot.allowed) if bot.allowed is not None else None,
        )

    def _end_webhook(self, bot: Bot) -> None:
        sender, bot.webhook_sender, bot.webhook = bot.webhook_sender, None, None
        if sender is not None:
            sender.cancel()

    def _drop_pending(self, call: Call) -> None:
        self._platform.trace(call.bot, "dropped", call.bot.queue.clear())


def _success(result: Any) -> web.Response:
    return _json({"ok": True, "result": result}, 200)


def _error(error: ApiError) -> web.Response:
    body: JsonObject = {"ok": False, "error_code": error.status, "description": error.description}
    if error.parameters:
        body["parameters"] = error.parameters
    retry_after = error.parameters.get("retry_after")
    return _json(body, error.status, {} if retry_after is None else {"Retry-After": str(retry_after)})


def _json(body: JsonObject, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")
