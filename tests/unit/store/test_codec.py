"""What is stored as JSON, and that every version of it still loads."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InvalidCheckpoint
from runtime.protocol import (
    AssistantMessage,
    Checkpoint,
    ExecutionPhase,
    ExecutionRecord,
    Grant,
    PendingApproval,
    PendingTool,
    QueuedMessage,
    Receipt,
    SessionContext,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    events,
)
from runtime.store import codec
from runtime.store.shapes import shape
from tests.support.checkpoints import (
    EVENTS,
    GRANT,
    ITEMS,
    LABELS,
    MESSAGES,
    RECEIPTS,
    RECORD,
    TOOLS,
    approval,
    full_checkpoint,
)

GOLDEN = [Path(__file__).parent / "golden" / name for name in ("v1.json", "v2.json")]

WHOLE: dict[str, tuple[type, Any]] = {
    "session_context": (SessionContext, LABELS),
    "queued_message": (QueuedMessage, MESSAGES[0]),
    "pending_tool": (PendingTool, TOOLS[1]),
    "pending_approval": (PendingApproval, approval()),
    "execution_record": (ExecutionRecord, RECORD),
    "grant": (Grant, GRANT),
    "receipt_of_message": (Receipt, RECEIPTS[0]),
    "receipt_of_approval": (Receipt, RECEIPTS[1]),
    "receipt_of_interrupt": (Receipt, RECEIPTS[2]),
}
"""Everything that is stored as one JSON text, besides context items, events and the head's state."""


def written() -> dict[str, Any]:
    """What this program writes, in the form of the golden file."""
    return {
        "items": [[kind, schema, json.loads(payload)] for kind, schema, payload in map(codec.encode_item, ITEMS)],
        "events": {kind: json.loads(payload) for kind, payload in map(codec.encode_event, EVENTS)},
        "values": {name: json.loads(codec.encode(cls, value)) for name, (cls, value) in WHOLE.items()},
        "state": json.loads(codec.encode_state(full_checkpoint())),
    }


@pytest.fixture(scope="module", params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What every version wrote. 2: `loop_ended` has its reason."""
    return json.loads(request.param.read_text(encoding="utf-8"))


def test_stored_items_of_every_version_load(golden: dict[str, Any]) -> None:
    """Every kind of context item that was ever written comes back as it was."""
    loaded = [codec.decode_item(kind, schema, json.dumps(payload)) for kind, schema, payload in golden["items"]]
    assert tuple(loaded) == ITEMS
    assert {kind for kind, _, _ in golden["items"]} == codec.ITEM_KINDS.keys()


def test_stored_events_of_every_version_load(golden: dict[str, Any]) -> None:
    """Every kind of event that was ever written comes back as it was."""
    loaded = [codec.decode_event(kind, json.dumps(payload)) for kind, payload in golden["events"].items()]
    assert loaded == list(EVENTS)


def test_stored_values_of_every_version_load(golden: dict[str, Any]) -> None:
    """Messages, calls, approvals, records, receipts and grants come back as they were."""
    for name, (cls, value) in WHOLE.items():
        assert codec.decode(cls, json.dumps(golden["values"][name]), name) == value


def test_the_stored_state_of_every_version_loads(golden: dict[str, Any]) -> None:
    """Every field of the head row's state comes back as it was."""
    full = full_checkpoint()
    state = codec.decode_state(json.dumps(golden["state"]))
    assert state == {name: getattr(full, name) for name in state}
    assert state.keys() | codec.IN_COLUMNS == {field.name for field in fields(Checkpoint)}


def lacks(old: Any, new: Any, where: str = "") -> list[str]:
    """Where `new` does not hold what `old` does. Fields may be added; the rest must be there as it was."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{where}.{key} is gone" for key in old if key not in new]
        return gone + [each for key in old if key in new for each in lacks(old[key], new[key], f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [each for index in range(len(old)) for each in lacks(old[index], new[index], f"{where}.{index}")]
    return [] if old == new and type(old) is type(new) else [f"{where} is {new!r}, was {old!r}"]


def test_what_was_written_is_still_written(golden: dict[str, Any]) -> None:
    """A field that is renamed, removed or written otherwise is noticed, for older programs and operators read it.

    A field with a default may be added without a new file. Where more is meant, the schema number rises and a golden
    file is added; those of older versions are never edited.
    """
    assert lacks(golden, written()) == []


def test_what_is_lacking_is_noticed() -> None:
    """The comparison above sees a missing field, another value, another type and another length, and allows more."""
    assert lacks({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}], "d": 3}) == []
    for new in ({}, {"a": []}, {"a": [{}]}, {"a": [{"b": 2}]}, {"a": [{"b": 1.0}]}, {"a": {"b": 1}}):
        assert lacks({"a": [{"b": 1}]}, new)


def test_unknown_fields_are_ignored() -> None:
    """A row of a newer minor version, with fields that are not known here, loads."""

    def with_more(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: with_more(each) for key, each in value.items()} | {"not_known_yet": [1]}
        return [with_more(each) for each in value] if isinstance(value, list) else value

    payload = json.loads(codec.encode(QueuedMessage, MESSAGES[0]))
    assert codec.decode(QueuedMessage, json.dumps(with_more(payload)), "x") == MESSAGES[0]
    for item in ITEMS:
        kind, schema, text = codec.encode_item(item)
        assert codec.decode_item(kind, schema, json.dumps({**json.loads(text), "not_known_yet": 1})) == item


def test_absent_fields_take_their_default() -> None:
    """A row of an older version, without later fields, loads."""
    assert codec.decode_item("tool_result", 1, '{"call_id": "c", "name": "n", "output": "o"}') == ToolResult(
        call_id="c", name="n", output="o"
    )
    assert codec.decode_state("{}") == {}


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (QueuedMessage, "{}"),
        (QueuedMessage, "nonsense"),
        (QueuedMessage, "[]"),
        (QueuedMessage, '{"id": 7}'),
        (PendingApproval, '{"request_id": "r"}'),
        (PendingApproval, "[1]"),
        (Receipt, '{"submission_id": "a", "status": "perhaps"}'),
        (Receipt, '{"submission_id": "a", "status": "accepted", "result": {"kind": "other"}}'),
        (AssistantMessage, '{"parts": [{"kind": "picture"}]}'),
        (AssistantMessage, '{"parts": [7]}'),
        (AssistantMessage, '{"parts": 7}'),
        (PendingTool, '{"call": {"call_id": "c", "name": "n", "arguments": 7}}'),
    ],
)
def test_damaged_texts_are_named(cls: type, text: str) -> None:
    """What cannot be read is an InvalidCheckpoint that says what it was, never another error or a wrong value."""
    with pytest.raises(InvalidCheckpoint, match="the stored thing is unreadable"):
        codec.decode(cls, text, "thing")


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"active_execution": 7}', "null"])
def test_a_damaged_state_is_named(text: str) -> None:
    """So is a head row that cannot be read."""
    with pytest.raises(InvalidCheckpoint, match="state"):
        codec.decode_state(text)


@pytest.mark.parametrize(("kind", "schema"), [("picture", 1), ("tool_result", 2), ("tool_result", 0)])
def test_unknown_items_are_named(kind: str, schema: int) -> None:
    """A kind or a schema number from elsewhere is refused rather than guessed."""
    with pytest.raises(InvalidCheckpoint, match=f"{kind}.*{schema}"):
        codec.decode_item(kind, schema, '{"call_id": "c", "name": "n", "output": "o"}')


@pytest.mark.parametrize("kind", ["picture", "assistant_delta"])
def test_unknown_events_are_named(kind: str) -> None:
    """So is an event kind that no journal can hold."""
    with pytest.raises(InvalidCheckpoint, match=kind):
        codec.decode_event(kind, "{}")


def test_what_json_has_not_is_named() -> None:
    """A value that JSON cannot hold is an InvalidCheckpoint, not a driver's or a library's error."""
    with pytest.raises(InvalidCheckpoint, match="JSON"):
        codec.encode_json({"a": object()})  # type: ignore[dict-item]
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidCheckpoint, match="JSON"):
        codec.encode_json(deep)


def test_deep_json_is_named_when_read() -> None:
    """A text that is nested too deeply is unreadable, not a crash."""
    with pytest.raises(InvalidCheckpoint, match="state"):
        codec.decode_json("[" * 100_000, "state")


texts = st.text(st.characters(), max_size=20)  # lone surrogates and controls included
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_any_json_survives(value: Any) -> None:
    """Free JSON comes back equal, with whatever texts and numbers it holds."""
    assert codec.decode_json(codec.encode_json(value), "value") == value


@given(
    st.lists(
        st.one_of(
            st.builds(TextPart, text=texts),
            st.builds(ThinkingPart, text=texts),
            st.builds(ToolCall, call_id=texts, name=texts, arguments=st.dictionaries(texts, json_values, max_size=3)),
        ),
        max_size=4,
    ),
    json_values,
)
def test_any_assistant_message_survives(parts: list[Any], native: Any) -> None:
    """Parts keep their type and order, and the provider gets back exactly what it sent."""
    item = AssistantMessage(parts=tuple(parts), native=native)
    assert codec.decode_item(*codec.encode_item(item)) == item


def test_kinds_in_parts_do_not_collide_with_fields() -> None:
    """No member of a tagged union has a field of the tag's name: it would be lost."""
    for cls in (TextPart, ThinkingPart, ToolCall):
        assert is_dataclass(cls)
        assert "kind" not in {field.name for field in fields(cls)}


def test_a_type_without_a_shape_is_a_type_error() -> None:
    """A field that could not be stored is noticed when the store is imported, not when a session is lost."""

    @dataclass(frozen=True)
    class Odd:
        many: "set[ToolCall]"  # noqa: UP037 - resolved below

    Odd.__annotations__["many"] = set[ToolCall]
    with pytest.raises(TypeError, match="no JSON shape"):
        shape(Odd)


def test_phases_are_stored_with_their_text() -> None:
    """A completion keeps what it is about to say, also if that is nothing."""
    for phase in (ExecutionPhase.model(), ExecutionPhase.completion("done"), ExecutionPhase.completion(None)):
        assert codec.decode(ExecutionPhase, codec.encode(ExecutionPhase, phase), "phase") == phase


def test_every_storable_kind_has_a_sample() -> None:
    """The golden file covers each event that may reach the journal."""
    assert {events.kind_of(msg) for msg in EVENTS} == events.KINDS.keys() - codec.LIVE_ONLY
