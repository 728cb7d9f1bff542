"""Objects inside of parameters, read like the server reads them: unknown fields dropped, wrong types refused."""

from __future__ import annotations

from typing import Any

from adapters.emulators.telegram.errors import ApiError, bad_request
from adapters.emulators.telegram.schema import Problem, bot_api
from adapters.emulators.wire_json import JsonObject, is_object

JSON_TYPES = {"String": "String", "Boolean": "Boolean", "Integer": "Number", "Float": "Number"}


def read_object(kind: str, value: JsonObject) -> JsonObject:
    """The known fields of `value` as a `kind`. Raises ApiError 400 for the first field of a wrong type."""
    known = _known(kind, value)
    for problem in bot_api().check((kind,), known, kind):
        raise _refused(kind, problem)
    return known


def _known(kind: str, value: JsonObject) -> JsonObject:
    fields = bot_api().types[kind]
    return {name: _known_item(fields[name].types[0], item) for name, item in value.items() if name in fields}


def _known_item(kind: str, item: Any) -> Any:
    return _known(kind, item) if is_object(item) and kind in bot_api().types else item


def _refused(kind: str, problem: Problem) -> ApiError:
    field = problem.where.rpartition(".")[2]
    if problem.rule == "missing_field":
        return bad_request(f'Can\'t find field "{field}"')
    expected = bot_api().types[kind].get(field)
    wanted = JSON_TYPES.get(expected.types[0], "Object") if expected is not None else "Object"
    return bad_request(f'Field "{field}" must be of type {wanted}')
