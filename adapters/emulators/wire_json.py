"""JSON as it comes from the wire: untyped until a check has looked at it."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

JsonObject: TypeAlias = dict[str, Any]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """True for a JSON object; its keys are strings because JSON has no others."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)


def depth_of(value: object) -> int:
    """How deep arrays and objects are nested; 0 for anything else. Takes any depth."""
    depth, level = 0, [value]
    while level := [one for one in level if is_object(one) or is_array(one)]:
        depth += 1
        level = [item for one in level for item in (one.values() if is_object(one) else one)]
    return depth


def is_integer(value: object) -> TypeGuard[int]:
    """True for a JSON number without a fraction; `true` is not a number."""
    return isinstance(value, int) and not isinstance(value, bool)


def items_of(body: JsonObject, name: str) -> list[Any]:
    """An array among an object's members; empty if it is absent or null."""
    value: Any = body.get(name)
    return value if is_array(value) else []


def object_of(body: JsonObject, name: str) -> JsonObject:
    """An object among an object's members; empty if it is absent or null."""
    value: Any = body.get(name)
    return value if is_object(value) else {}
