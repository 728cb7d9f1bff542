"""What every model promises the runtime, whichever stands behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from runtime.models import anthropic, from_pydantic_ai, google, openai_compatible
from runtime.models.base import Model, ModelReply, ModelRequest
from runtime.models.demo import DemoModel
from runtime.models.provider import ProviderModel
from runtime.models.scripted import ScriptedModel
from runtime.protocol.context import (
    AssistantMessage,
    Context,
    ContextItem,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from runtime.store.codec import decode_item, encode_item
from runtime.tools.files import workspace_tools
from tests.support.model_server import ModelServer, calls, text
from tests.support.provider_servers import AnthropicServer, GoogleServer

ASKED = "note in todo.txt that the release is on Friday"
ARGUMENTS = {"path": "todo.txt", "content": "the release is on Friday\n", "mode": "append"}
OUTPUT = "Appended 1 line to todo.txt: the release is on Friday"
NOTED = "Noted in todo.txt: the release is on Friday"
LONG = "write a long story"
SPECS = tuple(tool.spec() for tool in workspace_tools())


@dataclass(kw_only=True)
class Subject:
    """A model that answers ASKED with a call, its result with NOTED, and LONG with a stream that takes a while."""

    model: Model


def decide(last_role: str, last_text: str) -> str:
    """What the scripted subjects do with the last message of a request."""
    if last_role == "tool":
        return "noted"
    return "long" if last_text == LONG else "call"


@asynccontextmanager
async def demo() -> AsyncIterator[Subject]:
    """The built-in one."""
    yield Subject(model=DemoModel(word_seconds=0))


@asynccontextmanager
async def scripted() -> AsyncIterator[Subject]:
    """The one for tests."""

    def answer(request: ModelRequest) -> Any:
        last = request.context[-1]
        match decide("tool" if isinstance(last, ToolResult) else "user", getattr(last, "text", "")):
            case "noted":
                return NOTED
            case "long":
                return "word " * 100_000
            case _:
                return [ToolCall(call_id="c1", name="write_file", arguments=ARGUMENTS)]

    yield Subject(model=ScriptedModel([answer] * 20))


@asynccontextmanager
async def served(server: ModelServer, make: Callable[[str], ProviderModel]) -> AsyncIterator[Subject]:
    """A server on the loopback, over real HTTP, and the model that speaks to it."""

    def answer(body: dict[str, Any]) -> Any:
        match decide(*server.last_message(body)):
            case "noted":
                return text(NOTED)
            case "long":
                return text("word " * 10, hold=True)
            case _:
                return calls(("write_file", ARGUMENTS))

    server.default = answer
    async with server:
        model = make(server.base_url)
        try:
            yield Subject(model=model)
        finally:
            await model.aclose()


def openai_chat() -> AbstractAsyncContextManager[Subject]:
    """OpenAI's chat completions."""
    return served(ModelServer(), lambda url: openai_compatible(url, "key", "scripted"))


def anthropic_messages() -> AbstractAsyncContextManager[Subject]:
    """Anthropic's messages."""
    return served(AnthropicServer(), lambda url: anthropic("key", "scripted", base_url=url))


def google_gemini() -> AbstractAsyncContextManager[Subject]:
    """Google's Gemini API."""
    return served(GoogleServer(), lambda url: google("key", "scripted", base_url=url))


@asynccontextmanager
async def pydantic() -> AsyncIterator[Subject]:
    """Any other model of pydantic-ai, here one made from a function."""
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        last = messages[-1].parts[-1]
        match decide("tool" if last.part_kind == "tool-return" else "user", str(getattr(last, "content", ""))):
            case "noted":
                for word in NOTED.split(" "):
                    yield word if word == "Noted" else f" {word}"
            case "long":
                yield "word "
                await asyncio.Event().wait()
            case _:
                arguments = msgspec.json.encode(ARGUMENTS).decode()
                yield {0: DeltaToolCall(name="write_file", json_args=arguments, tool_call_id="c1")}

    yield Subject(model=from_pydantic_ai(FunctionModel(stream_function=answer), name="function"))


@pytest.fixture(
    params=[demo, scripted, openai_chat, anthropic_messages, google_gemini, pydantic], ids=lambda make: make.__name__
)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """Each model in turn."""
    async with request.param() as made:
        yield made


def asked(*more: ContextItem, words: str = ASKED) -> ModelRequest:
    """A request whose conversation begins with a person's words."""
    items: list[ContextItem] = [UserMessage(id="m1", author="Ann", text=words), *more]
    return ModelRequest(context=Context(items), tools=SPECS, instructions="Be brief.", session_id="s1")


def answered(reply: ModelReply, output: str = OUTPUT) -> list[ContextItem]:
    """The reply as it is stored, and a result for each of its calls."""
    message = AssistantMessage(parts=reply.parts, native=reply.native)
    called = [part for part in reply.parts if isinstance(part, ToolCall)]
    return [message, *(ToolResult(call_id=call.call_id, name=call.name, output=output) for call in called)]


def words_of(reply: ModelReply) -> str:
    """The text of a reply."""
    return "".join(part.text for part in reply.parts if isinstance(part, TextPart))


async def test_it_has_a_name_and_a_window(subject: Subject) -> None:
    """People see the name, and compaction needs the window."""
    assert subject.model.name
    assert subject.model.context_window > 1000


async def test_it_asks_for_a_tool(subject: Subject) -> None:
    """A call has the tool's name, whole arguments and an id, and leaves the turn open."""
    reply = await subject.model.step(asked(), lambda delta: None)
    (call,) = [part for part in reply.parts if isinstance(part, ToolCall)]
    assert (call.name, dict(call.arguments), bool(call.call_id)) == ("write_file", ARGUMENTS, True)
    assert not reply.end_turn


async def test_it_answers_with_what_it_streamed(subject: Subject) -> None:
    """After the result it ends the turn, and the streamed pieces are the answer, in order and complete."""
    first = await subject.model.step(asked(), lambda delta: None)
    pieces: list[str] = []
    reply = await subject.model.step(asked(*answered(first)), lambda delta: pieces.append(delta.text))
    assert words_of(reply).startswith(NOTED)
    assert "".join(pieces) == words_of(reply)
    assert len(pieces) > 1
    assert reply.end_turn


async def test_it_leaves_the_request_alone(subject: Subject) -> None:
    """The conversation that was handed in is the same afterwards, so that it can be stored and asked again."""
    request = asked()
    before = list(request.context)
    await subject.model.step(request, lambda delta: None)
    assert list(request.context) == before
    assert len(request.context) == 1


async def test_a_stored_conversation_goes_on_elsewhere(subject: Subject) -> None:
    """A reply survives storage as JSON, and another process can go on from what was stored."""
    first = await subject.model.step(asked(), lambda delta: None)
    message, result = answered(first)
    restored = decode_item(*encode_item(message))
    assert restored == message
    reply = await subject.model.step(asked(restored, decode_item(*encode_item(result))), lambda delta: None)
    assert words_of(reply).startswith(NOTED)


async def test_every_kind_of_item_is_taken(subject: Subject) -> None:
    """A conversation with notes, refusals, thoughts and steering is understood as one."""
    call = ToolCall(call_id="old", name="write_file", arguments=ARGUMENTS)
    past: list[ContextItem] = [
        AssistantMessage(parts=(ThinkingPart(text="hm"), TextPart(text="I will."), call)),
        ToolResult(call_id="old", name="write_file", output="denied", is_error=True, outcome="denied"),
        UserMessage(id="m2", author="Bob", text="no"),
        AssistantMessage(parts=(TextPart(text="Then not."),)),
        SystemMessage(text="The process was restarted."),
        UserMessage(id="m3", author="Ann", text=ASKED),
    ]
    reply = await subject.model.step(asked(*past), lambda delta: None)
    assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["write_file"]


async def test_a_cancelled_request_ends_at_once(subject: Subject) -> None:
    """Cancellation passes through in the middle of a stream, and the model can be asked again."""
    some = asyncio.Event()
    task = asyncio.create_task(subject.model.step(asked(words=LONG), lambda delta: some.set()))
    await some.wait()
    task.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task
    reply = await subject.model.step(asked(), lambda delta: None)
    assert not reply.end_turn


async def test_sessions_do_not_mix(subject: Subject) -> None:
    """Requests of many sessions at the same time each get their own answer."""
    first = await subject.model.step(asked(), lambda delta: None)
    results = asked(*answered(first))
    sessions = [ModelRequest(context=results.context, tools=SPECS, session_id=f"s{n}") for n in range(5)]
    fresh = [ModelRequest(context=asked().context, tools=SPECS, session_id=f"t{n}") for n in range(5)]
    replies = await asyncio.gather(*(subject.model.step(one, lambda delta: None) for one in [*sessions, *fresh]))
    assert [reply.end_turn for reply in replies] == [True] * 5 + [False] * 5


async def test_usage_is_counted(subject: Subject) -> None:
    """Usage is never negative, and what came from a cache is part of the input."""
    usage = (await subject.model.step(asked(), lambda delta: None)).usage
    assert 0 <= usage.cache_read_tokens <= usage.input_tokens
    assert usage.output_tokens >= 0
    assert usage.cost_usd >= 0


def test_the_table_covers_what_can_be_configured() -> None:
    """Every way to get a model stands in the table above."""
    makers: list[Callable[..., Any]] = [
        DemoModel, ScriptedModel, openai_compatible, anthropic, google, from_pydantic_ai
    ]  # fmt: skip
    assert len(makers) == 6
