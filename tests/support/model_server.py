"""A loopback server that speaks OpenAI's chat completions and says what a script tells it.

In a test:

    async with ModelServer([text("hello"), calls(("read_file", {"path": "a"}))]) as server:
        model = openai_compatible(server.base_url, "key", "any-name")

As a process of its own, whose log is a witness outside of the program under test:

    python tests/support/model_server.py --port 0 --script FILE --log FILE

It prints its base URL on the first line. The script is JSON: `{"replies": [REPLY, …], "rules": [RULE, …],
"default": REPLY}`. Rules are asked first, in order: `{"contains": "words", "role": "user", "times": 1, "reply": REPLY}`
fits while its count lasts if the last message has these words (and this role). Then the next of `replies`, then
`default`; without any, the request is answered with HTTP 400. A REPLY is an object with the fields of `Reply`.
`{n}` in a text is the number of the request, `{last}` the text of its last message.

The log has one JSON line when a request has arrived, before anything is answered, and one when its answer has ended:
`done`, `broken` (by the script) or `disconnected` (by the client).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

from aiohttp import web


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a request is answered with. Times are in seconds.

    `finish` is the finish reason, None for a stream that ends without one, "" for the fitting one. `break_after` closes
    the connection after that many pieces. `stream_error` is sent as an error event after the text. `usage` None sends
    none. `hold` waits after the first piece until the test releases it (`ModelServer.release`).
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    stream_error: Mapping[str, Any] | None = None
    finish: str | None = ""
    usage: Mapping[str, Any] | None = field(
        default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    )
    piece: int = 5
    delay: float = 0
    pace: float = 0
    hold: bool = False
    break_after: int | None = None


ReplySource: TypeAlias = "Reply | Callable[[dict[str, Any]], Reply]"


def text(words: str, **options: Any) -> Reply:
    """A final answer."""
    return Reply(text=words, **options)


def calls(*wanted: tuple[str, Any], text: str = "", **options: Any) -> Reply:
    """A request for tools: (name, arguments) each; arguments that are a string are sent as they are."""
    listed = [{"id": f"call_{n}", "name": name, "arguments": arguments} for n, (name, arguments) in enumerate(wanted)]
    return Reply(text=text, calls=listed, **options)


def failure(status: int, message: str = "failed", code: str | None = None, **headers: str) -> Reply:
    """An HTTP error; headers are given with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, headers=named, error={"message": message, "type": "error", "code": code})


class ModelServer:
    """Serves a script on a loopback port. `requests` are the bodies, `headers` their headers, `ended` what became.

    `replies` and `default` may be changed while it runs. Servers of other providers have the same scripts and a wire of
    their own: see `provider_servers`.
    """

    path = "/v1"
    first_words = 1  # index of the event that brings them

    def __init__(
        self,
        replies: Sequence[ReplySource] = (),
        *,
        rules: Sequence[Mapping[str, Any]] = (),
        default: ReplySource | None = None,
        log: Path | None = None,
        port: int = 0,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.ended: list[str] = []
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self._some_ended = asyncio.Condition()
        self.replies = list(replies)
        self._rules = [dict(rule) for rule in rules]
        self.default = default
        self._log = log.open("a", encoding="utf-8") if log else None
        self._port = port
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Where this provider is asked."""
        router.add_post("/v1/chat/completions", self._chat)
        router.add_get("/v1/models", self._models)

    def last_message(self, body: dict[str, Any]) -> tuple[str, str]:
        """Role and words of a request's last message."""
        return body["messages"][-1]["role"], words_of(body["messages"][-1].get("content"))

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        """Whether the answer is to stream."""
        return bool(body.get("stream"))

    def events(self, body: dict[str, Any], reply: Reply) -> list[bytes]:
        """The answer as it streams."""
        return _events(body, reply)

    def error(self, reply: Reply) -> Any:
        """The body of a refusal."""
        return {"error": reply.error}

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 30)
        self.add_routes(app.router)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{self.path}"
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        if self._log:
            self._log.close()

    async def until_ended(self, count: int) -> list[str]:
        """Wait until `count` answers have ended, one way or the other."""
        async with self._some_ended:
            await self._some_ended.wait_for(lambda: len(self.ended) >= count)
        return self.ended

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        number = len(self.requests)
        self._write({"event": "request", "n": number, "body": body})
        outcome = "disconnected"
        try:
            response = await self._answered(request, body, self._reply_to(body, number))
            outcome = "broken" if response is None else "done"
            return response if response is not None else web.Response()
        finally:
            self._write({"event": outcome, "n": number})
            self.ended.append(outcome)
            async with self._some_ended:
                self._some_ended.notify_all()

    def _write(self, line: dict[str, Any]) -> None:
        if self._log:
            self._log.write(json.dumps({"at": time.time(), **line}) + "\n")
            self._log.flush()

    def _reply_to(self, body: dict[str, Any], number: int) -> Reply:
        role, last = self.last_message(body)
        source = self._by_rule(role, last)
        if source is None:
            source = self.replies.pop(0) if self.replies else self.default
        if source is None:
            return failure(400, f"the script has no reply for request {number}")
        reply = source(body) if callable(source) else source
        return replace(reply, text=reply.text.replace("{n}", str(number)).replace("{last}", last))

    def _by_rule(self, role: str, last: str) -> Reply | None:
        for rule in self._rules:
            fits = rule.get("contains", "") in last and rule.get("role", role) == role and rule.get("times", 1) > 0
            if fits:
                if "times" in rule:
                    rule["times"] -= 1
                return rule["reply"] if isinstance(rule["reply"], Reply) else Reply(**rule["reply"])
        return None

    async def _answered(self, request: web.Request, body: dict[str, Any], reply: Reply) -> web.StreamResponse | None:
        await asyncio.sleep(reply.delay)
        if reply.status != 200 or reply.error is not None:
            return web.json_response(self.error(reply), status=reply.status, headers=reply.headers)
        if not self.streams(request, body):
            return web.json_response(_whole(body, reply), headers=reply.headers)
        headers = {"Content-Type": "text/event-stream", **reply.headers}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        events = self.events(body, reply)
        for index, event in enumerate(events):
            if index == reply.break_after:
                assert request.transport is not None
                request.transport.abort()
                return None
            await response.write(event)
            await self._paused(reply, index)
        await response.write_eof()
        return response

    async def _paused(self, reply: Reply, index: int) -> None:
        if reply.hold and index == self.first_words:
            self.held.set()
            await self.release.wait()
        if reply.pace:
            await asyncio.sleep(reply.pace)


def words_of(content: Any) -> str:
    """The text of a message, however its parts are cut."""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or ())


def _events(body: dict[str, Any], reply: Reply) -> list[bytes]:
    chunks = [{"role": "assistant", "content": ""}]
    chunks += [{"reasoning_content": piece} for piece in pieces(reply.thinking, reply.piece)]
    chunks += [{"content": piece} for piece in pieces(reply.text, reply.piece)]
    for index, call in enumerate(reply.calls):
        chunks += _call_chunks(index, call, reply.piece)
    events = [_event(_chunk(body, [{"index": 0, "delta": chunk, "finish_reason": None}])) for chunk in chunks]
    if reply.stream_error is not None:
        return [*events, _event({"error": dict(reply.stream_error)})]
    if reply.finish is not None:
        reason = reply.finish or ("tool_calls" if reply.calls else "stop")
        events.append(_event(_chunk(body, [{"index": 0, "delta": {}, "finish_reason": reason}])))
    if reply.usage is not None:
        events.append(_event(_chunk(body, [], usage=dict(reply.usage))))
    return [*events, b"data: [DONE]\n\n"]


def _call_chunks(index: int, call: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    arguments = call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"])
    named = {"index": index, "id": call.get("id", f"call_{index}"), "type": "function"}
    first = {**named, "function": {"name": call["name"], "arguments": ""}}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in pieces(arguments, size)]
    return [{"tool_calls": [delta]} for delta in (first, *rest)]


def pieces(words: str, size: int) -> list[str]:
    """The words, cut."""
    return [words[start : start + size] for start in range(0, len(words), size)]


def _chunk(body: dict[str, Any], choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    named = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    return {**named, "choices": choices, **more}


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _whole(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.get("id", f"call_{index}"),
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for index, call in enumerate(reply.calls)
        ]
    reason = reply.finish or ("tool_calls" if reply.calls else "stop")
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    whole = _chunk(body, choices, usage=dict(reply.usage or {}))
    return {**whole, "object": "chat.completion"}


async def serve(script: Mapping[str, Any], port: int, log: Path | None) -> None:
    """Serve until SIGTERM or SIGINT; the base URL is printed once connections are accepted."""
    default = script.get("default")
    server = ModelServer(
        [Reply(**reply) for reply in script.get("replies", [])],
        rules=script.get("rules", []),
        default=Reply(**default) if default else None,
        log=log,
        port=port,
    )
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with server:
        print(server.base_url, flush=True)
        await stop.wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    asyncio.run(serve(json.loads(arguments.script.read_text()), arguments.port, arguments.log))


if __name__ == "__main__":
    sys.exit(main())
