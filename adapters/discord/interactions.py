"""Presses, forms and commands of the menu, and the answers to them; pure.

Whatever is needed later travels in what Discord repeats to us: a button's id is its token, a form's id holds the token
of the button that opened it. A press or form therefore means the same to a process that started after it was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from adapters.contract import Acknowledgement, Form, Text
from adapters.discord.limits import MAX_CUSTOM_ID, MAX_TEXT, short
from adapters.discord.markup import literal
from adapters.discord.payload import Payload, a_number, a_text, an_object, objects
from adapters.errors import Refused

# https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object-interaction-type
COMMAND, PRESS, FORM = 2, 3, 5
KINDS = (COMMAND, PRESS, FORM)
FIELD = "reason"
STOP_MENU = "Stop agent"
TEXT_OPTION = "text"

_FORM_PREFIX = "form:"
_PRESET = "preset"
_MESSAGE_MENU = 3
_EPHEMERAL = 1 << 6
_NOBODY: dict[str, Any] = {"parse": []}
_HANDLE = re.compile(r"(\d) (\d+) (\S+)")


# -------------------------------------------------------------------------------------------------------- reading


def handle(kind: int, number: str, token: str) -> str:
    """What is needed to answer an interaction."""
    return f"{kind} {number} {token}"


def parts_of(text: str) -> tuple[int, str, str] | None:
    """Kind, id and token of a handle; None if it is none."""
    found = _HANDLE.fullmatch(text)
    return (int(found[1]), found[2], found[3]) if found else None


def chosen(asked: Payload) -> tuple[str, str]:
    """Name and words of a command of ours that was chosen from a menu."""
    if a_number(asked.get("type")) == _MESSAGE_MENU:
        return ("stop" if asked.get("name") == STOP_MENU else a_text(asked.get("name")).lower()), ""
    words = (a_text(option.get("value")) for option in objects(asked.get("options")))
    return a_text(asked.get("name")).lower(), " ".join(word.strip() for word in words if word.strip())


def filled_in(asked: Payload) -> tuple[str, str]:
    """The token of a form, empty if it is none of ours, and the reason: what was written, else what was chosen."""
    written = chosen_preset = ""
    for field in _fields(asked):
        if field.get("custom_id") == FIELD:
            written = a_text(field.get("value")).strip()
        elif field.get("custom_id") == _PRESET:
            chosen_preset = a_text(field.get("value")).removeprefix("=")
    name = a_text(asked.get("custom_id"))
    token = name.removeprefix(_FORM_PREFIX) if name.startswith(_FORM_PREFIX) else ""
    return token, written or chosen_preset


def _fields(asked: Payload) -> Iterator[Payload]:
    """What was filled in: each field hangs in a label, or in a row as older clients have it."""
    for outer in objects(asked.get("components")):
        yield from (an_object(outer.get("component")), *objects(outer.get("components")))


# ------------------------------------------------------------------------------------------------------ answering


def callback(kind: int, answer: Acknowledgement) -> dict[str, Any]:
    """The body of the one answer. Words are for the person alone.

    A command cannot be answered without words: the client would say that we do not respond.
    """
    match answer:
        case Text(text=text):
            return _words(text)
        case Form():
            return {"type": 9, "data": _modal(answer)}
        case None:
            return _words("✓") if kind == COMMAND else {"type": 6}


def _words(text: str) -> dict[str, Any]:
    content = short(literal(text), MAX_TEXT) or "✓"
    return {"type": 4, "data": {"content": content, "flags": _EPHEMERAL, "allowed_mentions": _NOBODY}}


def _modal(form: Form) -> dict[str, Any]:
    name = _FORM_PREFIX + form.token
    if len(name) > MAX_CUSTOM_ID:
        raise Refused(
            f"the form {form.title!r} has a token of more than {MAX_CUSTOM_ID - len(_FORM_PREFIX)} characters"
        )
    fields = [_label("Reason", _presets(form))] if len(form.presets) >= 2 else []
    label = f"{form.label} (optional)" if fields else form.label
    fields.append(_label(label, {"type": 4, "custom_id": FIELD, "style": 2, "required": False, "max_length": 2000}))
    return {"custom_id": name, "title": short(form.title, 45), "components": fields}


def _label(text: str, component: dict[str, Any]) -> dict[str, Any]:
    return {"type": 18, "label": short(text, 45), "component": component}


def _presets(form: Form) -> dict[str, Any]:
    """Ready answers as a radio group, of which Discord takes 2 to 10; a value must not be empty, so it has a sign."""
    options = [{"label": short(label, 100), "value": f"={value}"[:100]} for value, label in form.presets[:10]]
    return {"type": 21, "custom_id": _PRESET, "required": False, "options": options}
