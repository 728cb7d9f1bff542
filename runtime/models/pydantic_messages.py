"""Our context items as pydantic-ai's messages and back. Each item is converted once for each session that is in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from operator import is_
from typing import Any, Literal, TypeAlias, cast

import msgspec
import pydantic_ai
from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages as wire

from runtime.models.prompt import Marker, user_text
from runtime.protocol.context import (
    AssistantMessage,
    AssistantPart,
    Context,
    ContextItem,
    JsonValue,
    Outcome,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    UserMessage,
)

NATIVE_SCHEMA = "pydantic-ai/response"
NATIVE_VERSION = 1
MAX_CACHED_ITEMS = 20_000

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
SHOWN_BYTES = 5_000_000
"""The largest picture that every provider takes."""

Content: TypeAlias = "Callable[[str], bytes | None]"
RequestPart: TypeAlias = wire.SystemPromptPart | wire.UserPromptPart | wire.ToolReturnPart
ConvertItem: TypeAlias = "Callable[[ContextItem], wire.ModelResponse | RequestPart]"
_WireOutcome: TypeAlias = Literal["success", "failed", "denied", "interrupted"]

_RESPONSE = TypeAdapter(wire.ModelResponse)
# What is ours to keep, or of no use to the provider when it comes back.
_NOT_STORED = {
    "usage",
    "timestamp",
    "run_id",
    "conversation_id",
    "metadata",
    "workspace_ref",
    "history_digest",
    "failed_attempts",
}
_PLAIN_FIELDS = {"content", "tool_name", "args", "tool_call_id", "part_kind"}
_OUTCOMES: Mapping[Outcome, _WireOutcome] = {
    "completed": "success",
    "failed": "failed",
    "refused": "failed",
    "denied": "denied",
    "expired": "denied",
    "skipped": "interrupted",
    "interrupted": "interrupted",
    "unknown": "interrupted",
}


@dataclass(kw_only=True)
class _Conversation:
    """A context that was converted: its items are held, so that their identity proves that nothing changed."""

    items: list[ContextItem] = field(default_factory=list[ContextItem])
    messages: list[wire.ModelMessage] = field(default_factory=list[wire.ModelMessage])


class ConversationCache:
    """The converted conversations of the sessions that were used last; a request converts only its new items.

    A session is known by its id, and its items by their identity: after a restart, a fork or a compaction the items
    are other objects, and the session is converted anew. At most MAX_CACHED_ITEMS items are held.
    """

    def __init__(self, convert: ConvertItem, limit: int = MAX_CACHED_ITEMS) -> None:
        self.converted = 0
        self._convert = convert
        self._limit = limit
        self._held = 0
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()

    def messages(self, session_id: str, context: Context) -> list[wire.ModelMessage]:
        """The whole context as messages, in a list that the caller may change."""
        known = self._conversations.pop(session_id, None)
        if known is None or not _begins_with(context, known.items):
            self._held -= len(known.items) if known else 0
            known = self._loaded(context)
        else:
            new = context.since(len(known.items))
            self._append(known.messages, new)
            known.items.extend(new)
            self._held += len(new)
        self._conversations[session_id] = known
        self._forget_oldest()
        return list(known.messages)

    def _loaded(self, context: Context) -> _Conversation:
        items = list(context)
        messages: list[wire.ModelMessage] = []
        self._append(messages, items)
        self._held += len(items)
        # What was stored by an older program, or cut by hand, must not be refused by the provider for ever.
        return _Conversation(items=items, messages=wire.repair_messages(messages))

    def _append(self, messages: list[wire.ModelMessage], items: Iterable[ContextItem]) -> None:
        for of_model, group in groupby(items, lambda item: isinstance(item, AssistantMessage)):
            converted = [self._convert(item) for item in group]
            self.converted += len(converted)
            if of_model:
                messages.extend(cast("list[wire.ModelMessage]", converted))
            else:
                _append_request(messages, cast("list[RequestPart]", converted))

    def _forget_oldest(self) -> None:
        while self._held > self._limit and len(self._conversations) > 1:
            _, oldest = self._conversations.popitem(last=False)
            self._held -= len(oldest.items)


def _begins_with(context: Context, items: Sequence[ContextItem]) -> bool:
    return len(items) <= len(context) and all(map(is_, items, context.since(0)))


def _append_request(messages: list[wire.ModelMessage], parts: list[RequestPart]) -> None:
    """Everything between two answers of the model is one request: some providers insist on it."""
    last = messages[-1] if messages else None
    if isinstance(last, wire.ModelRequest):
        messages[-1] = replace(last, parts=[*last.parts, *parts])
    else:
        messages.append(wire.ModelRequest(parts=parts))


def with_reminders(
    messages: list[wire.ModelMessage], reminders: Sequence[str], *, inline_system: bool
) -> list[wire.ModelMessage]:
    """The messages with instructions at their end that hold for this request only."""
    if reminders:
        _append_request(messages, [system_part(text, inline_system=inline_system) for text in reminders])
    return messages


def system_part(text: str, *, inline_system: bool) -> RequestPart:
    """An instruction of ours in the middle of a conversation; many models take one only as a person's words."""
    return wire.SystemPromptPart(content=text) if inline_system else wire.UserPromptPart(f"<system>{text}</system>")


def converter(mark: Marker, *, inline_system: bool, content: Content | None = None) -> ConvertItem:
    """A function from one of our items to what pydantic-ai sends for it.

    `content` gives the bytes of an attachment by its SHA-256, for models that are shown pictures and PDF documents.
    """

    def convert(item: ContextItem) -> wire.ModelResponse | RequestPart:
        match item:
            case SystemMessage():
                return system_part(item.text, inline_system=inline_system)
            case UserMessage():
                return wire.UserPromptPart(content=_user_content(item, mark, content))
            case ToolResult():
                return _tool_return(item)
            case AssistantMessage():
                return response_of(item)

    return convert


def _user_content(message: UserMessage, mark: Marker, content: Content | None) -> str | list[wire.UserContent]:
    """The words, and behind them what the model can see; a file that is not kept any more is in the words alone."""
    text = user_text(message, mark)
    shown: list[wire.UserContent] = []
    for attachment in message.attachments if content is not None else ():
        if attachment.media_type in SHOWN and attachment.size <= SHOWN_BYTES:
            data = content(attachment.sha256) if content is not None else None
            if data is not None:
                shown.append(wire.BinaryContent(data=data, media_type=attachment.media_type))
    return [text, *shown] if shown else text


def _tool_return(result: ToolResult) -> wire.ToolReturnPart:
    outcome = "failed" if result.is_error and result.outcome == "completed" else _OUTCOMES[result.outcome]
    return wire.ToolReturnPart(
        tool_name=result.name, content=result.output, tool_call_id=result.call_id, outcome=outcome
    )


def response_of(message: AssistantMessage) -> wire.ModelResponse:
    """What the provider had sent, exactly if that is stored and still understood, else built from the parts."""
    calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    native = _loaded_native(message.native)
    if native is not None and [part.tool_call_id for part in native.tool_calls] == calls:
        return native
    return _response_of_parts(message.parts)


def _loaded_native(native: JsonValue) -> wire.ModelResponse | None:
    match native:
        case {"schema": schema, "version": version, "response": response} if (schema, version) == (
            NATIVE_SCHEMA,
            NATIVE_VERSION,
        ):
            try:
                return _RESPONSE.validate_python(response)
            except ValidationError:
                return None  # written by another version of the library: the parts say what matters
        case _:
            return None


def _response_of_parts(parts: Sequence[AssistantPart]) -> wire.ModelResponse:
    built: list[wire.TextPart | wire.ToolCallPart] = []
    for part in parts:
        match part:
            case TextPart():
                built.append(wire.TextPart(content=part.text))
            case ToolCall():
                built.append(wire.ToolCallPart(part.name, dict(part.arguments), part.call_id))
            case ThinkingPart():
                pass  # without its signature no provider takes it back
    return wire.ModelResponse(parts=built)


def parts_of(response: wire.ModelResponse) -> tuple[AssistantPart, ...]:
    """The response's parts as ours; call ids are unique within it, and arguments are plain JSON."""
    parts: list[AssistantPart] = []
    seen: set[str] = set()
    for part in response.parts:
        match part:
            case wire.TextPart(content=text) if text:
                parts.append(TextPart(text=text))
            case wire.ThinkingPart(content=text) if text:
                parts.append(ThinkingPart(text=text))
            case wire.ToolCallPart():
                call_id = _unique(part.tool_call_id, seen)
                parts.append(ToolCall(call_id=call_id, name=part.tool_name, arguments=_arguments(part)))
            case _:
                pass  # what a provider's own tools did is kept in `native`
    refusal = (response.provider_details or {}).get("refusal")
    if not parts and isinstance(refusal, str) and refusal:
        return (TextPart(text=refusal),)
    return tuple(parts)


def _unique(call_id: str, seen: set[str]) -> str:
    unique, number = call_id, 2
    while unique in seen:
        unique, number = f"{call_id}-{number}", number + 1
    seen.add(unique)
    return unique


def _arguments(part: wire.ToolCallPart) -> Mapping[str, JsonValue]:
    arguments = part.args_as_dict()  # what is no JSON object comes as {"INVALID_JSON": …}, and its tool refuses it
    try:
        return msgspec.json.decode(msgspec.json.encode(arguments), type=dict[str, Any])
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        return {"INVALID_JSON": part.args_as_json_str()}


def native_of(response: wire.ModelResponse, parts: Sequence[AssistantPart]) -> JsonValue:
    """What has to be stored beside the parts so that the provider gets back what it sent; None if the parts suffice."""
    if all(map(_is_plain, response.parts)):
        return None
    dumped = _RESPONSE.dump_python(response, mode="json", exclude=_NOT_STORED, exclude_none=True)
    return {
        "schema": NATIVE_SCHEMA,
        "version": NATIVE_VERSION,
        "library": pydantic_ai.__version__,
        "response": dumped,
    }


def _is_plain(part: wire.ModelResponsePart) -> bool:
    if not isinstance(part, wire.TextPart | wire.ToolCallPart):
        return False
    return all(getattr(part, name.name) is None for name in fields(part) if name.name not in _PLAIN_FIELDS)
