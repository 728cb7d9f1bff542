"""The published shape of the Bot API: which methods exist, which parameters they take, how objects look.

It judges both sides: what a client sends (unknown, missing or malformed parameters), and, in the tests, what the
emulator itself emits.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from adapters.emulators.wire_json import JsonObject, is_array, is_integer, is_object

SCALARS: Mapping[str, type | tuple[type, ...]] = {
    "String": str,
    "Boolean": bool,
    "Float": (int, float),
    # A file is named by its id, an address or attach://; the content travels beside it.
    "InputFile": str,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A departure from the published shape: which rule, where in the object, and what was there."""

    rule: str
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a method or type."""

    types: tuple[str, ...]
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method by its official spelling."""

    name: str
    fields: Mapping[str, Field]
    returns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables; methods by lower-case name, because the server does not mind the case."""

    version: str
    methods: Mapping[str, Method]
    types: Mapping[str, Mapping[str, Field]]
    unions: Mapping[str, tuple[str, ...]]

    def method(self, name: str) -> Method | None:
        """The method, however its name is written; None if the Bot API has no such method."""
        return self.methods.get(name.lower())

    @property
    def update_types(self) -> frozenset[str]:
        """Names of the kinds of update, as in `allowed_updates`."""
        return frozenset(self.types["Update"]) - {"update_id"}

    def decode(
        self, method: Method, raw: Mapping[str, str], uploads: frozenset[str]
    ) -> tuple[JsonObject, list[Problem]]:
        """Parameters in their own types, and what is wrong with them.

        `raw` are the parameters as text, the way the server reads them; `uploads` the names of the file parts.
        """
        decoded: JsonObject = {}
        problems: list[Problem] = []
        for name, text in raw.items():
            field = method.fields.get(name)
            if field is None:
                problems.append(Problem(rule="unknown_parameter", where=name, what=text[:80]))
                decoded[name] = text
                continue
            value = _from_text(field, text)
            decoded[name] = value
            problems.extend(self.check(field.types, value, name))
        absent = (name for name, field in method.fields.items() if field.required and name not in decoded)
        problems += [Problem(rule="missing_parameter", where=name, what="") for name in absent if name not in uploads]
        return decoded, problems

    def check(self, types: tuple[str, ...], value: Any, where: str) -> list[Problem]:
        """Problems of `value` as one of `types`; empty if it fits any of them."""
        best: list[Problem] | None = None
        for candidate in self._members(types):
            problems = list(self._check_one(candidate, value, where))
            if not problems:
                return []
            # The nearest alternative explains the mistake best.
            best = problems if best is None or len(problems) < len(best) else best
        return best or []

    def _members(self, types: tuple[str, ...]) -> Iterator[str]:
        for name in types:
            if name in self.unions:
                yield from self._members(self.unions[name])
            else:
                yield name

    def _check_one(self, kind: str, value: Any, where: str) -> Iterator[Problem]:
        if kind.startswith("[]"):
            yield from self._check_array(kind[2:], value, where)
        elif kind == "Integer":
            if not is_integer(value):
                yield _malformed(kind, value, where)
        elif kind in SCALARS:
            if not isinstance(value, SCALARS[kind]) or (kind == "Float" and isinstance(value, bool)):
                yield _malformed(kind, value, where)
        elif kind in self.types:
            yield from self._check_object(kind, value, where)
        elif kind not in ("True", "InputMessageContent"):
            yield Problem(rule="unknown_type", where=where, what=kind)

    def _check_array(self, kind: str, value: Any, where: str) -> Iterator[Problem]:
        if not is_array(value):
            yield _malformed(f"[]{kind}", value, where)
            return
        for number, item in enumerate(value):
            yield from self.check((kind,), item, f"{where}[{number}]")

    def _check_object(self, kind: str, value: Any, where: str) -> Iterator[Problem]:
        if not is_object(value):
            yield _malformed(kind, value, where)
            return
        fields = self.types[kind]
        for name, item in value.items():
            if name in fields:
                yield from self.check(fields[name].types, item, f"{where}.{name}")
            else:
                yield Problem(rule="unknown_field", where=f"{where}.{name}", what=f"{kind} has no such field")
        for name, field in fields.items():
            if field.required and name not in value:
                yield Problem(rule="missing_field", where=f"{where}.{name}", what=f"{kind} requires it")


def _malformed(kind: str, value: Any, where: str) -> Problem:
    return Problem(rule="malformed_value", where=where, what=f"expected {kind}, got {value!r:.80}")


def _from_text(field: Field, text: str) -> Any:
    """A parameter as its type; text that does not read as its type stays text, and `check` says so."""
    kinds = set(field.types)
    if "Integer" in kinds and text.lstrip("-").isdecimal():
        return int(text)
    if "Boolean" in kinds and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    if kinds <= {"String", "InputFile"}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


@functools.cache
def bot_api() -> Schema:
    """The Bot API as the data files beside this module describe it."""
    data = files("adapters.emulators.telegram") / "data"
    base: JsonObject = json.loads((data / "bot_api.json").read_text(encoding="utf-8"))
    added: JsonObject = json.loads((data / "additions.json").read_text(encoding="utf-8"))
    for part in ("methods", "types"):
        for name, fields in added[part].items():
            base[part].setdefault(name, {}).update(fields)
    returns: Mapping[str, str] = base["returns"]
    return Schema(
        version=added["version"],
        methods={
            name.lower(): Method(name=name, fields=_read(fields), returns=tuple(returns[name].split("|")))
            for name, fields in base["methods"].items()
        },
        types={name: _read(fields) for name, fields in base["types"].items()},
        unions={name: tuple(members) for name, members in base["unions"].items()},
    )


def _read(fields: Mapping[str, str]) -> dict[str, Field]:
    return {
        name: Field(types=tuple(code.removeprefix("!").split("|")), required=code.startswith("!"))
        for name, code in fields.items()
    }
