"""What Discord publishes about its API: which operations there are, and what they take and answer.

The checks word their findings the way Discord words an Invalid Form Body (code 50035). A field that the schema does not
have is no error to Discord, which ignores it; it is told apart, as `unknown`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from adapters.emulators.wire_json import JsonObject, is_array, is_integer, is_object

Path = tuple[str, ...]
_SNOWFLAKE: Final = re.compile(r"0|[1-9][0-9]*")
_SCHEMES: Final = frozenset({"http", "https", "attachment", "discord"})
_OWN_SCHEMES: Final = _SCHEMES | {"ws", "wss"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: where, and Discord's code and words for it."""

    path: Path
    code: str
    message: str


@dataclass(slots=True)
class Findings:
    """What a check found. `unknown` are the paths of fields that the schema does not have."""

    problems: list[Problem] = field(default_factory=list[Problem])
    unknown: list[Path] = field(default_factory=list[Path])

    def add(self, path: Path, code: str, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(path=path, code=code, message=message))

    def take(self, other: Findings) -> None:
        """Add what another check found."""
        self.problems += other.problems
        self.unknown += other.unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the REST API. `described` is false for those whose schemas are not kept."""

    id: str
    method: str
    path: str
    pattern: re.Pattern[str]
    query: Mapping[str, JsonObject]
    body: JsonObject | None
    answer: JsonObject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """All operations, and the named schemas that they refer to."""

    version: str
    operations: Sequence[Operation]
    schemas: Mapping[str, JsonObject]

    def operation(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation of a request with the values of its path; None if Discord has none."""
        for operation in self.operations:
            if operation.method == method and (found := operation.pattern.fullmatch(path)) is not None:
                return operation, found.groupdict()
        return None

    def named(self, operation_id: str) -> Operation:
        """The operation of that name."""
        return next(one for one in self.operations if one.id == operation_id)

    def check(self, schema: JsonObject, value: Any, *, numbers_as_ids: bool = True) -> Findings:
        """Everything wrong with a value. Discord takes ids as numbers, too, though it publishes only text."""
        return _Check(self.schemas, numbers_as_ids).run(schema, value, ())

    def check_named(self, name: str, value: Any, *, numbers_as_ids: bool = False) -> Findings:
        """The same against a named schema, as Discord itself writes by default."""
        return self.check({"$ref": name}, value, numbers_as_ids=numbers_as_ids)


class _Check:
    def __init__(self, schemas: Mapping[str, JsonObject], numbers_as_ids: bool) -> None:
        self._schemas = schemas
        self._numbers_as_ids = numbers_as_ids
        self._schemes = _SCHEMES if numbers_as_ids else _OWN_SCHEMES

    def run(self, schema: JsonObject, value: Any, path: Path) -> Findings:
        found = Findings()
        if isinstance(name := schema.get("$ref"), str):
            return self.run(self._schemas[name], value, path)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                found.take(self._one_of(schema[word], value, path))
        if not self._is_of_type(schema, value, path, found):
            return found
        _check_choice(schema, value, path, found)
        self._check_content(schema, value, path, found)
        return found

    # -- unions

    def _one_of(self, branches: list[JsonObject], value: Any, path: Path) -> Findings:
        """The findings of the branch that the value fits, or else of the one that it was meant for."""
        meant = [branch for branch in branches if self._is_meant(branch, value)]
        tried = [(branch, self.run(branch, value, path)) for branch in meant]
        fitting = [findings for _, findings in tried if not findings.problems]
        if fitting:
            return min(fitting, key=lambda one: len(one.unknown))
        if not tried:
            return self._no_branch(branches, path)
        rest = [findings for branch, findings in tried if self._is_for(branch, value)] or [one for _, one in tried]
        return min(rest, key=lambda one: (len(one.problems), -max(len(problem.path) for problem in one.problems)))

    def _no_branch(self, branches: list[JsonObject], path: Path) -> Findings:
        found = Findings()
        if all("const" in branch for branch in branches):
            allowed = ", ".join(repr(branch["const"]) for branch in branches)
            found.add(path, "BASE_TYPE_CHOICES", f"Value must be one of {{{allowed}}}.")
            return found
        allowed = ", ".join(str(kind) for kind in sorted(kind for branch in branches for kind in self._kind(branch)))
        found.add((*path, "type"), "UNION_TYPE_CHOICES", f'Value of field "type" must be one of ({allowed},).')
        return found

    def _is_meant(self, branch: JsonObject, value: Any) -> bool:
        """Whether a value can be for a branch, told by its `type`: others need no closer look."""
        if "const" in branch:
            return value == branch["const"]
        if not is_object(value):
            return branch != {"type": "null"} or value is None
        kind = self._kind(branch)
        return branch != {"type": "null"} and (not kind or value.get("type") in kind)

    def _is_for(self, branch: JsonObject, value: Any) -> bool:
        """Whether a branch takes values of this type at all."""
        resolved = self._schemas[branch["$ref"]] if "$ref" in branch else branch
        wanted = resolved.get("type", [])
        return any(_is_kind(kind, value) for kind in (wanted if is_array(wanted) else [wanted]))

    def _kind(self, branch: JsonObject) -> list[Any]:
        resolved = self._schemas[branch["$ref"]] if "$ref" in branch else branch
        kind: JsonObject = resolved.get("properties", {}).get("type", {})
        return list(kind.get("enum", []))

    # -- types

    def _is_of_type(self, schema: JsonObject, value: Any, path: Path, found: Findings) -> bool:
        wanted = schema.get("type")
        if wanted is None:
            return True
        kinds: list[str] = wanted if is_array(wanted) else [wanted]
        if schema.get("format") == "snowflake":
            return self._is_id(kinds, value, path, found)
        if any(_is_kind(kind, value) for kind in kinds):
            return True
        first = next((kind for kind in kinds if kind != "null"), "null")
        if value is None:
            found.add(path, "BASE_TYPE_REQUIRED", "This field is required")
        else:
            found.add(path, *_wrong_type(first, value))
        return False

    def _is_id(self, kinds: list[str], value: Any, path: Path, found: Findings) -> bool:
        if value is None and "null" in kinds:
            return True
        as_text = str(value) if self._numbers_as_ids and is_integer(value) else value
        if isinstance(as_text, str) and _SNOWFLAKE.fullmatch(as_text):
            return False  # complete: there is nothing more to look at
        found.add(path, "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')
        return False

    # -- contents

    def _check_content(self, schema: JsonObject, value: Any, path: Path, found: Findings) -> None:
        if isinstance(value, str):
            _check_text(schema, value, path, found)
            if schema.get("format") == "uri" and urlsplit(value).scheme not in self._schemes:
                found.add(path, "URL_TYPE_INVALID_URL", "Not a well formed URL.")
        elif is_integer(value) or isinstance(value, float):
            _check_number(schema, value, path, found)
        elif is_array(value):
            _check_length(schema, len(value), "Items", path, found)
            if "items" in schema:
                for index, item in enumerate(value):
                    found.take(self.run(schema["items"], item, (*path, str(index))))
        elif is_object(value):
            self._check_members(schema, value, path, found)

    def _check_members(self, schema: JsonObject, value: JsonObject, path: Path, found: Findings) -> None:
        known: JsonObject = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                found.add((*path, name), "BASE_TYPE_REQUIRED", "This field is required")
        others = schema.get("additionalProperties")
        for name, member in value.items():
            if name in known:
                found.take(self.run(known[name], member, (*path, name)))
            elif is_object(others):
                found.take(self.run(others, member, (*path, name)))
            elif known or others is False:
                found.unknown.append((*path, name))


def _is_kind(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return is_integer(value)
        case "number":
            return is_integer(value) or isinstance(value, float)
        case "array":
            return is_array(value)
        case _:
            return is_object(value)


def _wrong_type(kind: str, value: Any) -> tuple[str, str]:
    match kind:
        case "string":
            return "STRING_TYPE_CONVERT", f'Could not interpret "{value!r:.40}" as string.'
        case "boolean":
            return "BOOLEAN_TYPE_CONVERT", "Must be either true or false."
        case "integer":
            return "NUMBER_TYPE_COERCE", f'Value "{value!s:.40}" is not int.'
        case "number":
            return "NUMBER_TYPE_COERCE", f'Value "{value!s:.40}" is not float.'
        case "array":
            return "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType"
        case "object":
            return "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType"
        case _:
            return "BASE_TYPE_CHOICES", "Value must be one of {None}."


def _check_choice(schema: JsonObject, value: Any, path: Path, found: Findings) -> None:
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed is None or value in allowed:
        return
    words = ", ".join(repr(one) for one in allowed)
    found.add(path, "BASE_TYPE_CHOICES", f"Value must be one of {{{words}}}.")


def _check_text(schema: JsonObject, value: str, path: Path, found: Findings) -> None:
    _check_length(schema, len(value), "Length", path, found)
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        found.add(path, "STRING_TYPE_REGEX", "String value did not match validation regex.")


def _check_number(schema: JsonObject, value: float, path: Path, found: Findings) -> None:
    if "maximum" in schema and value > schema["maximum"]:
        found.add(path, "NUMBER_TYPE_MAX", f"int value should be less than or equal to {schema['maximum']}.")
    if "minimum" in schema and value < schema["minimum"]:
        found.add(path, "NUMBER_TYPE_MIN", f"int value should be greater than or equal to {schema['minimum']}.")


def _check_length(schema: JsonObject, length: int, unit: str, path: Path, found: Findings) -> None:
    low: int = schema.get(f"min{unit}", 0)
    high: int | None = schema.get(f"max{unit}")
    if low <= length and (high is None or length <= high):
        return
    if low and high is not None:
        found.add(path, "BASE_TYPE_BAD_LENGTH", f"Must be between {low} and {high} in length.")
    elif high is not None:
        found.add(path, "BASE_TYPE_MAX_LENGTH", f"Must be {high} or fewer in length.")
    else:
        found.add(path, "BASE_TYPE_MIN_LENGTH", f"Must be {low} or more in length.")


def tree(problems: Sequence[Problem]) -> JsonObject:
    """Problems as the nested `errors` of Discord's answer."""
    errors: JsonObject = {}
    for problem in problems:
        place = errors
        for step in problem.path:
            place = place.setdefault(step, {})
        place.setdefault("_errors", []).append({"code": problem.code, "message": problem.message})
    return errors


@functools.cache
def discord_api() -> Schema:
    """The API as the data files beside this module describe it."""
    data = files("adapters.emulators.discord") / "data"
    published: JsonObject = json.loads((data / "openapi.json").read_text(encoding="utf-8"))
    added: JsonObject = json.loads((data / "additions.json").read_text(encoding="utf-8"))
    for name, fields in added["schemas"].items():
        published["schemas"][name]["properties"].update(fields)
    for one in published["operations"]:
        one.setdefault("query", {}).update(added["queries"].get(one["id"], {}))
    operations = [_operation(one) for one in published["operations"]]
    return Schema(
        version=published["version"],
        # A fixed word in a path goes before a name that may stand for any.
        operations=sorted(operations, key=lambda one: one.path.replace("{", "~")),
        schemas=published["schemas"],
    )


def _operation(described: JsonObject) -> Operation:
    path: str = described["path"]
    return Operation(
        id=described["id"],
        method=described["method"],
        path=path,
        pattern=re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))),
        query=described.get("query", {}),
        body=described.get("body"),
        answer=described.get("answer"),
    )
