"""Reading JSON that may have any shape: what is missing or of another kind than expected reads as empty."""

from __future__ import annotations

import re
from typing import Any, TypeAlias, cast

Payload: TypeAlias = dict[str, Any]
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def an_object(value: object) -> Payload:
    """The object, or an empty one."""
    return cast(Payload, value) if isinstance(value, dict) else {}


def objects(value: object) -> list[Payload]:
    """The objects of an array."""
    return [an_object(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def a_text(value: object) -> str:
    """The string, or an empty one. Halves of characters, which cannot be stored, become a sign of the same length."""
    return _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """The strings of an array; anything else in it is an empty one."""
    return [a_text(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def a_number(value: object) -> int:
    """The integer, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
