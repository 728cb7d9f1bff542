"""Reading the Bot API's JSON; see `adapters.payload`."""

from __future__ import annotations

from adapters.payload import Payload, a_number, a_text, an_object, objects

__all__ = ["Payload", "a_number", "a_text", "an_id", "an_object", "objects"]


def an_id(value: object) -> str:
    """An id as the contract has it: the digits, or an empty string."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
