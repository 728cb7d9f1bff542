"""Secrets: values that may reach their own platform and nothing else.

Every `Secret` is registered by its value when it is made. `redact` then replaces that value, and the forms in which
libraries like to print it, in any text that is about to leave through a log, a terminal, a reply or an export.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

MASK = "***"

SHORTEST_REGISTERED = 6
"""Shorter values are not searched for: replacing every `key` or `demo` would only garble what people read."""

_TELEGRAM_PATH = re.compile(r"bot\d+(?::|%3[aA])[A-Za-z0-9_-]{35}")
_BASE64_CHARACTER = r"[A-Za-z0-9+/_-]"

# Process-wide on purpose: a sink has to know a secret even if nobody thought of handing it over.
_forms: dict[str, re.Pattern[str]] = {}


class Secret:
    """A value that shows itself as `***`. `reveal()` is the only way to the text, so that every use can be found."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        register(value)

    def reveal(self) -> str:
        """The text itself; for the request that needs it and for nothing else."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return format(MASK, format_spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Made from text in a configuration; dumped as the mask."""
        return core_schema.no_info_plain_validator_function(
            cls._validated, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    @classmethod
    def _validated(cls, value: object) -> Secret:
        match value:
            case Secret():
                return value
            case str():
                return cls(value)
            case _:
                raise PydanticKnownError("string_type")


def register(value: str) -> None:
    """From now on `redact` replaces this value.

    A value made of two parts around a colon, like a Telegram token, is replaced also where only its secret half occurs.
    """
    halves = (value, value.rpartition(":")[2] if ":" in value else "")
    for half in halves:
        if len(half) >= SHORTEST_REGISTERED:
            _forms.update(_forms_of(half))


def redact(text: str) -> str:
    """The text without registered secrets (plain, URL-encoded, escaped, in base64) and without tokens of bot URLs."""
    text = redact_registered(text)
    return _TELEGRAM_PATH.sub(f"bot{MASK}", text) if "bot" in text else text


def redact_registered(text: str) -> str:
    """The text without registered secrets, and with everything else in it: what only looks like a secret stays."""
    # Longest first, so that a secret which begins like another one leaves no tail behind.
    for form in sorted((form for form in tuple(_forms) if form in text), key=len, reverse=True):
        text = _forms[form].sub(MASK, text)
    return text


_TELEGRAM_BEGUN = re.compile(r"b(?:o(?:t(?:\d[^\s/]{0,60})?)?)?\Z")


def without_begun_secret(text: str) -> str:
    """The beginning of a text that grows, without an end that may yet turn out to be a part of a secret.

    `redact` of it is a beginning of `redact` of every text that it can grow into.
    """
    while True:
        begun = _TELEGRAM_BEGUN.search(text)
        length = max(_begun(text), len(text) - begun.start() if begun else 0)
        # In base64 the character before belongs to it as well, also to what has not begun yet.
        text = text[: max(0, len(text) - length - 1)]
        if not length:
            return text


def _begun(text: str) -> int:
    """Length of the longest end of the text that begins a registered secret."""
    longest = 0
    for form in tuple(_forms):
        size = min(len(form) - 1, len(text))
        while size > longest and not text.endswith(form[:size]):
            size -= 1
        longest = max(longest, size)
    return longest


def redact_all(value: Any) -> Any:
    """`redact` for every text inside lists, tuples and mappings; other values pass, secrets become the mask."""
    match value:
        case str():
            return redact(value)
        case Secret():
            return MASK
        case dict():
            return {redact_all(key): redact_all(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [redact_all(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def holds_secret(text: str) -> bool:
    """Whether `redact` would change the text."""
    return redact(text) != text


def _forms_of(value: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    for form in _spellings(value):
        yield form, re.compile(re.escape(form))
    for core, before in _base64_cores(value):
        # The characters beside the core hold bits of the secret's first and last byte: they go as well.
        lead = f"{_BASE64_CHARACTER}?" if before else ""
        yield core, re.compile(f"{lead}{re.escape(core)}{_BASE64_CHARACTER}?={{0,2}}")


def _spellings(value: str) -> set[str]:
    encoded = (quote(value, safe=""), quote(value), quote_plus(value))
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    lower = tuple(re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in encoded)
    return {value, *encoded, *lower, *escaped}


def _base64_cores(value: str) -> Iterator[tuple[str, int]]:
    """What is the same in every base64 text that has the value in it, for the three ways it can be aligned."""
    for before in range(3):
        padded = b"\0" * before + value.encode()
        whole, rest = divmod(len(padded), 3)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(padded).decode()[: whole * 4 + rest][before and before + 1 :]
            if len(core) >= SHORTEST_REGISTERED:
                yield core, before
