"""What the model sees: our own small message types, one row each.

They are ours so that an upgrade of a provider's library cannot break a stored session; providers convert at the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast, overload

from runtime.protocol.session import Attachment, Quoted

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Words of the model."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingPart:
    """Reasoning that the provider let us see."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The model asks for a tool. `call_id` is unique within its batch."""

    call_id: str
    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


AssistantPart: TypeAlias = TextPart | ThinkingPart | ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage:
    """Text of ours that the model sees as instruction (summaries, notes on recovery)."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """Words of a person, with what came along as data."""

    id: str
    author: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    principal: str | None = None
    quoted: tuple[Quoted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One answer of the model. `native` lets its provider get back exactly what it sent."""

    parts: tuple[AssistantPart, ...]
    native: JsonValue = None


Outcome: TypeAlias = Literal["completed", "failed", "denied", "expired", "skipped", "interrupted", "unknown", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of the call `call_id`; every call has one, also after an abort."""

    call_id: str
    name: str
    output: str
    is_error: bool = False
    outcome: Outcome = "completed"


ContextItem: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResult


class Context(Sequence[ContextItem]):
    """An append-only view of the conversation: appending shares the items before it, and costs what is new."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[ContextItem] = ()) -> None:
        self._items: list[ContextItem] = list(items)
        self._length = len(self._items)

    def append(self, items: Sequence[ContextItem]) -> Context:
        """This context with `items` behind it; this one stays as it is."""
        if not items:
            return self
        grown = Context.__new__(Context)
        shared = self._items if len(self._items) == self._length else self._items[: self._length]
        shared.extend(items)
        grown._items = shared
        grown._length = self._length + len(items)
        return grown

    def since(self, start: int) -> tuple[ContextItem, ...]:
        """The items from `start` on; costs only their number."""
        return tuple(self._items[start : self._length])

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> ContextItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ContextItem, ...]: ...
    def __getitem__(self, index: int | slice) -> ContextItem | tuple[ContextItem, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._items[index]

    def __iter__(self) -> Iterator[ContextItem]:
        items = self._items
        for index in range(self._length):
            yield items[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        items = cast("Sequence[object]", other)
        return len(self) == len(items) and all(a == b for a, b in zip(self, items, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Context({list(self)!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDelta:
    """Items to append: they start at ordinal `start` of epoch `epoch`."""

    epoch: int
    start: int
    items: tuple[ContextItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or many model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    @property
    def total_tokens(self) -> int:
        """Tokens in and out together."""
        return self.input_tokens + self.output_tokens
