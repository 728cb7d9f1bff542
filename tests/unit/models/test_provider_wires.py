"""Models behind Anthropic's and Google's protocols: what goes over the wire, what comes back, what each failure is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.config.checks import obstacles
from gateway.config.model import Config, ModelSection
from runtime.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelAuthentication,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelUnavailable,
)
from runtime.models import Prices, anthropic, google
from runtime.models.base import ModelReply, ModelRequest
from runtime.models.provider import ProviderModel
from runtime.protocol.context import (
    AssistantMessage,
    Context,
    ContextItem,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from runtime.tools.base import ToolSpec
from tests.support.model_server import ModelServer, Reply, calls, failure, text
from tests.support.provider_servers import AnthropicServer, GoogleServer

HELLO = UserMessage(id="m1", author="Ann", text="hello")
KEY = "sk-secret-0123456789abcdef0123456789"
READ = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
SERVERS = {"anthropic": (AnthropicServer, anthropic), "google": (GoogleServer, google)}


class Wire:
    """A server with a script, and the model that speaks to it."""

    def __init__(self, server: ModelServer, model: ProviderModel) -> None:
        self.server, self.model = server, model
        self.pieces: list[str] = []

    async def step(self, request: ModelRequest) -> ModelReply:
        """Ask; the streamed pieces are kept."""
        return await self.model.step(request, lambda delta: self.pieces.append(delta.text))


@pytest.fixture(params=SERVERS)
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    """Each provider in turn; it says `ok` to whatever the test has not scripted."""
    kind, make = SERVERS[request.param]
    async with kind(default=text("ok")) as server:
        prices = Prices(input=3, output=15, cached_input=0.3)
        model = make(KEY, "big", base_url=server.base_url, name="Big", context_window=9000, prices=prices)
        yield Wire(server, model)
        await model.aclose()


def asked(*items: ContextItem, **more: Any) -> ModelRequest:
    """A request of session s1."""
    return ModelRequest(context=Context(items or [HELLO]), session_id="s1", **more)


FAILURES: list[tuple[Reply, type[ModelError], float | None, str]] = [
    (failure(401), ModelAuthentication, None, "does not accept the key (HTTP 401)"),
    (failure(403, f"bad key {KEY}"), ModelAuthentication, None, "does not accept the key (HTTP 403)"),
    (failure(429, retry_after="7"), ModelRateLimited, 7.0, "asks for patience"),
    (failure(429), ModelRateLimited, None, "asks for patience"),
    (failure(500), ModelUnavailable, None, "failed (HTTP 500)"),
    (failure(503, retry_after="3"), ModelUnavailable, 3.0, "failed (HTTP 503)"),
    (failure(529, "Overloaded", "overloaded_error"), ModelUnavailable, None, "failed (HTTP 529)"),
    (failure(404, "no model big"), ModelRefused, None, "refuses the request (HTTP 404): no model big"),
    (failure(400, f"odd {KEY} here"), ModelRefused, None, "refuses the request (HTTP 400): odd […] here"),
    (failure(400, "prompt is too long: 9 > 8", "invalid_request_error"), ContextTooLong, None, "does not fit"),
    (failure(400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "INVALID_ARGUMENT"),
     ContextTooLong, None, "does not fit"),
    (failure(413, "request_too_large: too large", "request_too_large"), ContextTooLong, None, "does not fit"),
    (text("half an answer", finish=None), ModelUnavailable, None, "broke off"),
    (calls(("read_file", {"path": "a"}), finish=None), ModelUnavailable, None, "broke off"),
    (text("half an answer", break_after=2), ModelUnavailable, None, "connection to Big failed"),
    (text("half", stream_error={"type": "overloaded_error", "message": "busy", "code": 503, "status": "UNAVAILABLE"}),
     ModelUnavailable, None, "Big failed"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "kind", "retry_after", "words"), FAILURES)
async def test_failures_have_their_kind(
    wire: Wire, reply: Reply, kind: type[ModelError], retry_after: float | None, words: str
) -> None:
    """Each failure is one of the runtime's kinds, says when to try again, holds no key, and was one request."""
    wire.server.replies.append(reply)
    with pytest.raises(ModelError) as caught:
        await wire.step(asked())
    error = caught.value
    assert (type(error), error.retry_after) == (kind, retry_after)
    assert words in str(error)
    assert KEY not in str(error)
    assert len(wire.server.requests) == 1, "the library tried again by itself, unseen"


async def test_cancelling_closes_the_connection(wire: Wire) -> None:
    """A cancelled request is ended at the server too, at once."""
    wire.server.replies.append(text("some words", hold=True))
    task = asyncio.create_task(wire.step(asked()))
    await wire.server.held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await wire.server.until_ended(1) == ["disconnected"]


async def test_a_silent_server_is_given_up() -> None:
    """A server that stops in the middle of its answer is given up after the silence that was configured."""
    for kind, make in SERVERS.values():
        async with kind([text("some words", hold=True)]) as server:
            model = make("key", "big", base_url=server.base_url, timeout_seconds=0.3)
            with pytest.raises(ModelUnavailable, match="did not answer in time"):
                await model.step(asked(), lambda delta: None)
            await model.aclose()


async def test_calls_and_results_go_round(wire: Wire) -> None:
    """Two calls come whole out of their pieces, and go back with their results and the thoughts that led to them."""
    wanted = (("read_file", {"path": "a.txt"}), ("read_file", {"path": "ü/b.txt"}))
    wire.server.replies.append(calls(*wanted, text="I look.", thinking="first a, then b"))
    reply = await wire.step(asked(tools=[READ], instructions="Be brief."))
    thought, words, *found = reply.parts
    assert (thought, words) == (ThinkingPart(text="first a, then b"), TextPart(text="I look."))
    assert [(call.name, call.arguments) for call in found if isinstance(call, ToolCall)] == list(wanted)
    assert not reply.end_turn
    assert "".join(wire.pieces) == "I look."

    results = [
        ToolResult(call_id=call.call_id, name=call.name, output=f"content {n}", is_error=n == 1)
        for n, call in enumerate(found)
        if isinstance(call, ToolCall)
    ]
    stored = AssistantMessage(parts=reply.parts, native=json.loads(json.dumps(reply.native)))
    last = await wire.step(asked(HELLO, stored, *results, tools=[READ], instructions="Be brief."))
    assert last.parts == (TextPart(text="ok"),)
    first, second = (json.dumps(body, ensure_ascii=False) for body in wire.server.requests)
    assert "Be brief." in first
    assert "read_file" in first
    assert "hello" in first
    for part in ("I look.", "ü/b.txt", "content 0", "content 1", "c2lnbmVk"):
        assert part in second
    if isinstance(wire.server, AnthropicServer):
        blocks = wire.server.requests[1]["messages"][-1]["content"]
        assert [block["tool_use_id"] for block in blocks] == ["call_0", "call_1"]
        assert [block.get("is_error", False) for block in blocks] == [False, True]


async def test_usage_has_its_price(wire: Wire) -> None:
    """Tokens are those of the provider, whose cache is a part of the input; the price is the configured one."""
    anthropic_usage = {"input_tokens": 11, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0}
    google_usage = {"promptTokenCount": 1011, "cachedContentTokenCount": 1000}
    is_google = isinstance(wire.server, GoogleServer)
    wire.server.replies.append(text("fine", usage=google_usage if is_google else anthropic_usage))
    usage = (await wire.step(asked())).usage
    cost = (11 * 3 + 1000 * 0.3 + 7 * 15) / 1_000_000
    assert usage == Usage(input_tokens=1011, output_tokens=7, cache_read_tokens=1000, cost_usd=pytest.approx(cost))


async def test_the_list_of_prices_counts_where_none_is_configured() -> None:
    """A model that the library's list knows has a price with no network and no configuration."""
    async with AnthropicServer([text("fine")]) as server:
        model = anthropic("key", "claude-opus-4-8", base_url=server.base_url)
        usage = (await model.step(asked(), lambda delta: None)).usage
        await model.aclose()
    assert 0 < usage.cost_usd < 0.01


async def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a proxy nor an account, set for other programs, is used for a local server without a key."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/from-the-environment")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-from-the-environment: 1")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    for kind, make in SERVERS.values():
        async with kind([text("fine")]) as server:
            model = make("", "big", base_url=server.base_url)
            assert (await model.step(asked(), lambda delta: None)).parts == (TextPart(text="fine"),)
            await model.aclose()
            assert "from-the-environment" not in json.dumps(server.headers)


async def test_it_can_be_closed_and_used_again(wire: Wire) -> None:
    """Closing ends the connections; a later request opens new ones."""
    await wire.step(asked())
    await wire.model.aclose()
    await wire.model.aclose()
    assert (await wire.step(asked())).parts == (TextPart(text="ok"),)
    assert KEY not in repr(wire.model)


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """Naming a model loads neither its library nor pydantic."""
    program = (
        "import sys, runtime.models as models\n"
        "models.anthropic('key', 'm'), models.google('key', 'm')\n"
        "print([name for name in ('pydantic', 'pydantic_ai', 'anthropic', 'google', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("provider", SERVERS)
async def test_a_missing_library_is_named_with_its_remedy(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the configuration check and the model both say what to install."""
    library = {"anthropic": "anthropic", "google": "google.genai.types"}[provider]
    monkeypatch.delitem(sys.modules, f"runtime.models.{provider}_client", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    model = SERVERS[provider][1]("key", "big", base_url="http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match=rf"pip install 'pilothouse\[{provider}\]'"):
        await model.warm_up()
    monkeypatch.delitem(sys.modules, library)
    monkeypatch.setattr("gateway.config.checks.find_spec", lambda name: None)
    section = ModelSection.model_validate({"name": "m", "provider": provider, "model": "m", "base_url": "http://x"})
    found = [one for one in obstacles(Config(models=(section,))) if one.key == ("models", 0, "provider")]
    assert [one.remedy for one in found] == [f"install it with `pip install 'pilothouse[{provider}]'`"]
