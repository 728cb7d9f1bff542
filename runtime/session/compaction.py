"""When a conversation becomes too long for its model, and what is kept of it. Pure, but for asking for the summary."""

from __future__ import annotations

import math
from collections.abc import Sequence

from runtime.models.base import ModelReply, ModelRequest
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import (
    AssistantMessage,
    Context,
    ContextItem,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from runtime.tools.base import ToolSpec

CHARACTERS_PER_TOKEN = 4
ITEM_TOKENS = 8
"""What the frame of an item costs."""
KEPT_SHARE = 0.2
"""The newest part of the conversation that stays word for word, of the window or of the whole, whichever is less."""

PROMPT = (
    "The conversation so far becomes too long and is replaced by your summary of it. Write down what is needed to go "
    "on without it: what people asked for, in their words where the words matter; what was decided and why; what was "
    "done, with file names and results; what is still open; what was tried and did not work. Do not call tools, do not "
    "answer anybody, and begin at once."
)
HEADING = "Summary of the conversation before this point, made because it had become too long:\n\n"
LEFT_OUT = (
    "{count} earlier entries of this conversation were left out: they no longer fit, and could not be summarised."
)


def size_of(item: ContextItem) -> int:
    """About how many tokens an item is."""
    match item:
        case SystemMessage():
            characters = len(item.text)
        case UserMessage():
            characters = len(item.text) + sum(len(quoted.text) for quoted in item.quoted)
        case ToolResult():
            characters = len(item.output)
        case AssistantMessage():
            characters = sum(_characters(part) for part in item.parts)
    return math.ceil(characters / CHARACTERS_PER_TOKEN) + ITEM_TOKENS


def _characters(part: TextPart | ThinkingPart | ToolCall) -> int:
    return len(str(part.arguments)) + len(part.name) if isinstance(part, ToolCall) else len(part.text)


class Gauge:
    """How full a session's window is: what the provider counted last, and an estimate of what came since."""

    def __init__(self) -> None:
        self._epoch = -1
        self._tokens = 0
        self._until = 0

    def measured(self, usage: Usage, checkpoint: Checkpoint) -> None:
        """The provider has counted the context up to the answer that `checkpoint` ends with."""
        if usage.input_tokens:
            self._epoch = checkpoint.context_epoch
            self._tokens, self._until = usage.total_tokens, len(checkpoint.context)

    def tokens(self, checkpoint: Checkpoint) -> int:
        """About how many tokens the context has now; costs what is new since the last question."""
        if checkpoint.context_epoch != self._epoch or len(checkpoint.context) < self._until:
            self._epoch, self._tokens, self._until = checkpoint.context_epoch, 0, 0
        self._tokens += sum(map(size_of, checkpoint.context.since(self._until)))
        self._until = len(checkpoint.context)
        return self._tokens


def cut_point(context: Sequence[ContextItem], window: int) -> int | None:
    """Where the newest part begins that stays: never between a call and its result. None: there is nothing to cut."""
    sizes = [size_of(item) for item in context]
    room = min(window, sum(sizes)) * KEPT_SHARE
    allowed = _places_to_cut(context)
    if not allowed:
        return None
    kept, start = 0, len(context)
    for index in range(len(context) - 1, 0, -1):
        kept += sizes[index]
        if kept > room:
            break
        if index in allowed:
            start = index
    return start if start < len(context) else max(allowed)


def _places_to_cut(context: Sequence[ContextItem]) -> frozenset[int]:
    places: set[int] = set()
    open_calls: set[str] = set()
    for index, item in enumerate(context):
        if index and not open_calls:
            places.add(index)
        match item:
            case AssistantMessage():
                open_calls |= {part.call_id for part in item.parts if isinstance(part, ToolCall)}
            case ToolResult():
                open_calls.discard(item.call_id)
            case _:
                pass
    return frozenset(places)


def summary_request(checkpoint: Checkpoint, end: int, tools: Sequence[ToolSpec], instructions: str) -> ModelRequest:
    """What asks the model for the summary of everything before `end`.

    Tools are named because providers refuse a history with calls where none are; a call in the answer is ignored.
    """
    ask = UserMessage(id="compaction", author="system", text=PROMPT)
    return ModelRequest(
        context=Context((*checkpoint.context[:end], ask)),
        tools=tools,
        instructions=instructions,
        session_id=f"{checkpoint.session_id}/compaction",  # a model's cache of the conversation itself stays as it is
    )


def summary_of(reply: ModelReply) -> str | None:
    """The words of the answer, or None if it has none."""
    return "".join(part.text for part in reply.parts if isinstance(part, TextPart)).strip() or None
