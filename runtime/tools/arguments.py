"""Checks a model's arguments against the flat kind of JSON schema that the built-in tools use, without pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from runtime.errors import ToolError
from runtime.protocol.context import JsonValue, ToolCall

_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict}


def checked_arguments(schema: Mapping[str, JsonValue], call: ToolCall) -> dict[str, JsonValue]:
    """The arguments with defaults filled in; ToolError names the first that is missing, unknown or unfit.

    Known to it, of each property: `type` (string, integer, boolean, object), `enum`, `minimum`, `maximum`,
    `maxLength` and `default`. What is in an object is the tool's to check.
    """
    properties = cast("Mapping[str, Mapping[str, JsonValue]]", schema["properties"])
    for name in call.arguments:
        if name not in properties:
            raise ToolError(f"{call.name}: there is no argument {name[:40]!r}; it takes {', '.join(properties)}.")
    required = cast("list[str]", schema.get("required") or [])
    arguments: dict[str, JsonValue] = {}
    for name, rule in properties.items():
        if name in call.arguments:
            arguments[name] = call.arguments[name]
            if problem := _problem(rule, call.arguments[name]):
                raise ToolError(f"{call.name}: {name} {problem}.")
        elif name in required:
            raise ToolError(f"{call.name}: the argument {name!r} is missing.")
        else:
            arguments[name] = rule["default"]
    return arguments


def _problem(rule: Mapping[str, JsonValue], value: JsonValue) -> str | None:
    kind = cast(str, rule["type"])
    if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        return f"must be of type {kind}"
    allowed = cast("list[JsonValue]", rule.get("enum") or [])
    if allowed and value not in allowed:
        return f"must be one of {', '.join(map(str, allowed))}"
    if isinstance(value, str):
        return _text_problem(value, cast(int, rule.get("maxLength", len(value))))
    if isinstance(value, int):
        low, high = cast(int, rule.get("minimum", value)), cast(int, rule.get("maximum", value))
        return None if low <= value <= high else f"must be from {low} to {high}"
    return None


def _text_problem(value: str, longest: int) -> str | None:
    if len(value) > longest:
        return f"has {len(value)} characters; the limit is {longest}"
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "holds half a character (a lone surrogate)"
    return None
