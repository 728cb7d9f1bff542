"""The protocol's values as JSON text, and back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from runtime.errors import InvalidCheckpoint
from runtime.protocol import context, events
from runtime.protocol.approvals import Action
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import ContextItem, JsonValue
from runtime.protocol.events import EventMsg
from runtime.protocol.session import SessionContext
from runtime.store.shapes import field_types, is_native, shape, snake

T = TypeVar("T")

ITEM_SCHEMA = 1
"""The schema number that new context items are written with."""

LIVE_ONLY = frozenset({"assistant_delta", "session_history", "session_resume_requested"})
"""Event kinds that never reach the journal."""

ITEM_KINDS: dict[str, type[ContextItem]] = {
    snake(cls.__name__): cls
    for cls in (context.SystemMessage, context.UserMessage, context.AssistantMessage, context.ToolResult)
}
_KIND_OF_ITEM: dict[type, str] = {cls: kind for kind, cls in ITEM_KINDS.items()}


def dumps(value: Any) -> str:
    """JSON text. Lone surrogates survive, as escapes: a tool may print any bytes, and must not wedge its session."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=True, separators=(",", ":"))
    except (TypeError, RecursionError) as error:
        raise InvalidCheckpoint(f"a value cannot be stored as JSON: {error}") from error


def loads(text: str) -> Any:
    """The parsed JSON. ValueError for a text that is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


# msgspec shows a class's field table to other threads before it has filled it, so a decoder that a second thread makes
# meanwhile reads through null pointers: connections that read at once right after the start ended the process.
_building = threading.RLock()


@cache
def _writer(tp: Any) -> Callable[[Any], str]:
    with _building:
        write = shape(tp).write
    return dumps if write is None else lambda value: dumps(write(value))


@cache
def _reader(tp: Any) -> Callable[[str], Any]:
    with _building:
        return _new_reader(tp)


def _new_reader(tp: Any) -> Callable[[str], Any]:
    read = shape(tp).read
    if not is_native(tp):
        return lambda text: read(loads(text))
    fast = msgspec.json.Decoder(tp).decode

    def parse(text: str) -> Any:
        try:
            return fast(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return read(loads(text))

    return parse


def encode(tp: type[T], value: T) -> str:
    """`value` of type `tp` as JSON text. InvalidCheckpoint where it holds something that JSON has not."""
    return _writer(tp)(value)


def decode(tp: type[T], text: str, what: str) -> T:
    """The value of type `tp`; InvalidCheckpoint, naming `what`, where the text does not hold one."""
    try:
        return cast("T", _reader(tp)(text))
    except (ValueError, RecursionError) as error:
        raise InvalidCheckpoint(f"the stored {what} is unreadable: {error}") from error


def encode_item(item: ContextItem) -> tuple[str, int, str]:
    """Kind, schema number and JSON text of a context item."""
    kind = _KIND_OF_ITEM[type(item)]
    return kind, ITEM_SCHEMA, _writer(ITEM_KINDS[kind])(item)


def decode_item(kind: str, schema: int, payload: str) -> ContextItem:
    """The context item of a row. InvalidCheckpoint for a kind or schema number that is not known."""
    cls = ITEM_KINDS.get(kind)
    if cls is None or schema != ITEM_SCHEMA:
        raise InvalidCheckpoint(f"the stored context item of kind {kind!r} and schema {schema} is of an unknown kind")
    return decode(cls, payload, f"context item {kind!r}")


def encode_event(msg: EventMsg) -> tuple[str, str]:
    """Kind and JSON text of an event. InvalidCheckpoint for one that is live only."""
    kind = events.kind_of(msg)
    if kind in LIVE_ONLY:
        raise InvalidCheckpoint(f"event {kind!r} is live only and is never stored")
    return kind, _writer(type(msg))(msg)


def decode_event(kind: str, payload: str) -> EventMsg:
    """The event of a row. InvalidCheckpoint for a kind that is not known."""
    cls = events.KINDS.get(kind)
    if cls is None or kind in LIVE_ONLY:
        raise InvalidCheckpoint(f"the stored event kind {kind!r} is unknown")
    return decode(cls, payload, f"event {kind!r}")


def encode_actions(actions: Mapping[str, Action]) -> str:
    """The Actions of a request by call id."""
    return _writer(Mapping[str, Action])(actions)


def encode_json(value: JsonValue) -> str:
    """Any JSON value as text."""
    return dumps(value)


def decode_json(text: str, what: str) -> JsonValue:
    """The JSON value; InvalidCheckpoint, naming `what`, where the text is none."""
    return decode(cast("type[JsonValue]", Any), text, what)


IN_COLUMNS = frozenset(
    {
        "session_id",
        "sequence",
        "version",
        "session_context",
        "metadata",
        "model_route",
        "context",
        "context_epoch",
        "pending_messages",
        "pending_tools",
        "pending_approval",
        "retiring",
        "loop_state",
        "runtime_status",
    }
)
"""Fields of a checkpoint with a column or a table of their own; every other field lives in the head row's `state`."""

_STATE_SHAPES = {name: shape(tp) for name, tp in field_types(Checkpoint).items() if name not in IN_COLUMNS}


def encode_state(checkpoint: Checkpoint) -> str:
    """The fields of a checkpoint that have no column of their own."""
    return dumps({name: inner.written(getattr(checkpoint, name)) for name, inner in _STATE_SHAPES.items()})


def decode_state(text: str) -> dict[str, Any]:
    """Those fields by name; absent ones are left to their defaults."""
    try:
        stored = loads(text)
        if not isinstance(stored, dict):
            raise ValueError("it is no object")
        return {name: inner.read(stored[name]) for name, inner in _STATE_SHAPES.items() if name in stored}
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCheckpoint(f"the stored state is unreadable: {error}") from error


def unreadable(what: str, why: str) -> InvalidCheckpoint:
    """The error for stored data that cannot be what it should be."""
    return InvalidCheckpoint(f"the stored {what} is unreadable: {why}")


# The gateway reads labels on its own thread, outside of our lock: their table is filled before there are two threads.
_reader(SessionContext)
