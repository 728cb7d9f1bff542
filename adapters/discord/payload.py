"""Reading Discord's JSON, in which ids are text."""

from __future__ import annotations

import re

from adapters.payload import Payload, a_number, a_text, an_object, objects

__all__ = ["Payload", "a_number", "a_text", "an_id", "an_object", "instant_ms", "objects"]

DISCORD_EPOCH_MS = 1_420_070_400_000
_SNOWFLAKE = re.compile(r"[1-9][0-9]{0,19}")


def an_id(value: object) -> str:
    """An id as the contract has it: the digits, or an empty string. Discord sends ids as text, and takes both."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if _SNOWFLAKE.fullmatch(text) else ""


def instant_ms(snowflake: str) -> int:
    """When what has this id was made, in UTC milliseconds; 0 for an empty id.

    https://discord.com/developers/docs/reference#snowflakes
    """
    return (int(snowflake) >> 22) + DISCORD_EPOCH_MS if snowflake else 0
