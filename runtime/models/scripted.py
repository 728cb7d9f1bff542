"""Models that say what a script tells them, for tests of everything around a model."""

from __future__ import annotations

import asyncio
import re
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeAlias

from runtime.errors import ModelRefused
from runtime.models.base import Delta, ModelReply, ModelRequest
from runtime.protocol.context import TextPart, ToolCall, Usage

Scripted: TypeAlias = "str | Sequence[ToolCall] | ModelReply | Exception | Callable[[ModelRequest], Scripted]"

_USAGE = Usage(input_tokens=10, output_tokens=5)
_WINDOW = 100_000


def reply_of(scripted: str | Sequence[ToolCall] | ModelReply) -> ModelReply:
    """The full reply that a line of a script stands for: a text ends the turn, calls do not."""
    match scripted:
        case ModelReply():
            return scripted
        case str():
            return ModelReply(parts=(TextPart(text=scripted),), usage=_USAGE)
        case _:
            return ModelReply(parts=tuple(scripted), usage=_USAGE, end_turn=False)


class ScriptedModel:
    """Gives its replies in order, one per request; `requests` holds what it was asked.

    A reply is a text (the final answer), a list of tool calls, a whole ModelReply, an exception to raise, or a
    function from the request to one of these. A request beyond the last reply raises ModelRefused, which is not
    retried, so that a test fails by saying how many requests there were.
    """

    def __init__(
        self,
        replies: Iterable[Scripted],
        *,
        name: str = "scripted",
        context_window: int = _WINDOW,
        per_word: bool = True,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self.requests: list[ModelRequest] = []
        self._replies = list(replies)
        self._per_word = per_word

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The next reply of the script; its text is streamed word by word, or in one piece with `per_word=False`."""
        self.requests.append(request)
        asked = len(self.requests)
        if asked > len(self._replies):
            raise ModelRefused(f"the script has {len(self._replies)} replies and this is request {asked}")
        scripted = self._replies[asked - 1]
        while callable(scripted):
            scripted = scripted(request)
        if isinstance(scripted, Exception):
            raise scripted
        reply = reply_of(scripted)
        await stream(reply, on_delta, per_word=self._per_word)
        return reply


@types.coroutine
def _let_others_run() -> Generator[None, None, None]:
    yield  # one bare yield is one round of the loop: no clock is involved


async def stream(reply: ModelReply, on_delta: Callable[[Delta], None], *, per_word: bool = True) -> None:
    """Give the reply's text to `on_delta`, and other tasks a turn before each piece."""
    for part in reply.parts:
        if isinstance(part, TextPart):
            for piece in re.findall(r"\S+\s*|\s+", part.text) if per_word else [part.text]:
                await _let_others_run()
                on_delta(Delta(text=piece))


class FailingModel:
    """Fails every time with the same error; `calls` counts."""

    def __init__(self, error: Exception, *, name: str = "failing", context_window: int = _WINDOW) -> None:
        self.name = name
        self.context_window = context_window
        self.calls = 0
        self._error = error

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Raise the error."""
        self.calls += 1
        raise self._error


class CountingModel:
    """Answers every request with the same text; `calls` counts."""

    def __init__(self, text: str = "done", *, name: str = "counting", context_window: int = _WINDOW) -> None:
        self.name = name
        self.context_window = context_window
        self.calls = 0
        self._text = text

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The text."""
        self.calls += 1
        reply = reply_of(self._text)
        await stream(reply, on_delta)
        return reply


class BlockingModel:
    """Holds every request until `release` is set, then answers a text. `started` is set by the first request."""

    def __init__(self, text: str = "done", *, name: str = "blocking", context_window: int = _WINDOW) -> None:
        self.name = name
        self.context_window = context_window
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.calls = 0
        self.cancelled = 0
        self._text = text

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The text, once released; `cancelled` counts the requests that were ended before."""
        self.calls += 1
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        reply = reply_of(self._text)
        await stream(reply, on_delta)
        return reply
