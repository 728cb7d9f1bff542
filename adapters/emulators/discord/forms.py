"""Filling in a form as Discord's client does: what it allows to send, and how the answers look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from adapters.emulators.discord.components import nodes_of
from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.wire_json import JsonObject, items_of

ACTION_ROW: Final = 1
TEXT_INPUT: Final = 4
TEXT_DISPLAY: Final = 10
LABEL: Final = 18
RADIO_GROUP: Final = 21
CHECKBOX: Final = 23
MAX_TEXT: Final = 4000

Values = Mapping[str, str | Sequence[str] | bool]


def fill_in(form: JsonObject, values: Values) -> list[JsonObject]:
    """The components of a submitted form. Raises NotKnown or NotPossible for what the client would not send."""
    fields = {node["custom_id"] for node in nodes_of(form["components"]) if "custom_id" in node}
    if strangers := values.keys() - fields:
        raise NotKnown(f"the form has no field {', '.join(sorted(strangers))}; there are {', '.join(sorted(fields))}")
    return [_part(number, part, values) for number, part in enumerate(form["components"], 1)]


def _part(number: int, part: JsonObject, values: Values) -> JsonObject:
    match part["type"]:
        case 1:
            inside = [_field(100 * number + index, one, values) for index, one in enumerate(part["components"])]
            return {"type": ACTION_ROW, "id": number, "components": inside}
        case 18:
            return {"type": LABEL, "id": number, "component": _field(100 * number, part["component"], values)}
        case _:
            return {"type": part["type"], "id": number}


def _field(number: int, field: JsonObject, values: Values) -> JsonObject:
    custom_id = field["custom_id"]
    body: JsonObject = {"type": field["type"], "id": field.get("id") or number, "custom_id": custom_id}
    given = values.get(custom_id)
    match field["type"]:
        case 4:
            return body | {"value": _text(field, given)}
        case 21:
            return body | {"value": _single(field, given)}
        case 23:
            return body | {"value": bool(given if given is not None else field.get("default"))}
        case _:
            return body | {"values": _several(field, given)}


def _text(field: JsonObject, given: Any) -> str:
    text = str(given if given is not None else field.get("value") or "")
    low, high = field.get("min_length") or 0, field.get("max_length") or MAX_TEXT
    required = field.get("required") is not False
    if (required and not text) or (text and not low <= len(text) <= high):
        raise NotPossible(f"field {field['custom_id']} takes {max(low, int(required))} to {high} characters")
    return text


def _single(field: JsonObject, given: Any) -> str | None:
    options: list[JsonObject] = items_of(field, "options")
    chosen = given if given is not None else next((one["value"] for one in options if one.get("default")), None)
    if chosen is None and field.get("required") is not False:
        raise NotPossible(f"field {field['custom_id']} must be chosen")
    if chosen is not None and chosen not in [one["value"] for one in options]:
        raise NotPossible(f"field {field['custom_id']} offers no {chosen!r}")
    return chosen


def _several(field: JsonObject, given: Any) -> list[str]:
    chosen = [given] if isinstance(given, str) else list(given or [])
    offered = [one["value"] for one in items_of(field, "options")]
    if offered and set(chosen) - set(offered):
        raise NotPossible(f"field {field['custom_id']} offers {offered}, not {chosen}")
    low, high = field.get("min_values", 1), field.get("max_values", 1)
    low = 0 if field.get("required") is False and not chosen else low
    if not low <= len(chosen) <= high:
        raise NotPossible(f"field {field['custom_id']} takes {low} to {high} values")
    return chosen
