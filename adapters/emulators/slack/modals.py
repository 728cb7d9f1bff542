"""Views: what Slack takes as one, the stack that a person has open, and what a form holds when it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.slack.blocks import elements_of, numbered, problems_of, text
from adapters.emulators.slack.delivery import EnvelopeKind
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.rendering import view_object
from adapters.emulators.slack.shapes import Report, Shape, anything, boolean, one_of, string
from adapters.emulators.slack.world import View
from adapters.emulators.wire_json import JsonObject, is_array, is_object

VIEW_BYTES: Final = 250_000
STACK: Final = 3
"""Documented: a modal may have two more above it."""

_SHARED: Final = {
    "private_metadata": string(3000, 0),
    "callback_id": string(255, 0),
    "external_id": string(255, 0),
}
_MODAL: Final = Shape(
    required={"type": one_of("modal"), "title": text(24, "plain_text"), "blocks": anything},
    optional={
        **_SHARED,
        "close": text(24, "plain_text"),
        "submit": text(24, "plain_text"),
        "clear_on_close": boolean,
        "notify_on_close": boolean,
        "submit_disabled": boolean,
    },
)
_HOME: Final = Shape(required={"type": one_of("home"), "blocks": anything}, optional=_SHARED)


def problems_of_view(view: Any, kind: str) -> list[str]:
    """Why Slack would refuse this view; empty if it would not."""
    report = Report()
    (_MODAL if kind == "modal" else _HOME)(view, "/view", report)
    if not is_object(view):
        return report.messages
    blocks = view.get("blocks")
    report.messages += problems_of(blocks, in_view=True, path="/view/blocks")
    found = [one for one in blocks if is_object(one)] if is_array(blocks) else []
    if kind == "modal" and not found:
        report.add("no fewer than 1 items allowed", "/view/blocks")
    if kind == "modal" and any(one.get("type") == "input" for one in found) and "submit" not in view:
        report.add("missing required field: submit", "/view")
    return report.messages


def is_too_large(view: JsonObject) -> bool:
    """Whether a view has more bytes than Slack takes."""
    return len(json.dumps(view).encode()) > VIEW_BYTES


def stack_of(platform: Platform, user: str) -> list[View]:
    """The modals that a person has open, lowest first."""
    return [one for one in platform.world.views.values() if one.user == user and one.body["type"] == "modal"]


def open_view(platform: Platform, user: str, body: JsonObject, *, on: View | None = None) -> View:
    """Show a modal to a person, on top of another one if given."""
    if on is None:
        for one in stack_of(platform, user):
            close_view(platform, one, tell=False)
    identity = platform.new_id("V")
    view = View(
        id=identity,
        user=user,
        body=_kept(platform, body),
        hash=platform.new_uuid(),
        root=on.root if on is not None else identity,
        previous=on.id if on is not None else None,
    )
    platform.world.views[identity] = view
    show_view(platform, "view", view)
    return view


def replace_view(platform: Platform, view: View, body: JsonObject) -> None:
    """Show something else in an open view; what was typed into blocks that stay is kept."""
    view.body, view.hash = _kept(platform, body), platform.new_uuid()
    stays = {block["block_id"] for block in view.body["blocks"]}
    view.values = {name: values for name, values in view.values.items() if name in stays}
    view.errors = {}
    show_view(platform, "view", view)


def close_view(platform: Platform, view: View, *, tell: bool, cleared: bool = False) -> None:
    """Take a view off the screen."""
    platform.world.views.pop(view.id, None)
    show_view(platform, "view_closed", view)
    if tell and view.body.get("notify_on_close"):
        tell_closed(platform, view, cleared=cleared)


def tell_closed(platform: Platform, view: View, *, cleared: bool) -> None:
    """The app asked to be told."""
    payload = {**interaction(platform, view, "view_closed"), "is_cleared": cleared}
    platform.ask(EnvelopeKind.INTERACTIVE, "view_closed", payload)


def interaction(platform: Platform, view: View, kind: str) -> JsonObject:
    """What the payloads of all things done in a view have in common."""
    app = platform.app
    return {
        "type": kind,
        "team": {"id": app.team, "domain": app.team_domain},
        "user": platform.actor(platform.world.user(view.user)),
        "api_app_id": app.app_id,
        "token": app.verification_token,
        "view": view_object(view, app),
        "is_enterprise_install": False,
        "enterprise": None,
    }


def show_view(platform: Platform, name: str, view: View) -> None:
    """Record what a person sees of a view."""
    platform.show(name, {"user": view.user, "view": view_object(view, platform.app), "errors": view.errors})


def _kept(platform: Platform, body: JsonObject) -> JsonObject:
    return {**body, "blocks": numbered(body["blocks"], platform.new_block_id)}


def fill(view: View, values: Mapping[str, Any]) -> dict[str, JsonObject]:
    """`state.values` of a form. Keys name a block, an action or a label. Raises NotKnown or NotPossible."""
    left = dict(values)
    state: dict[str, JsonObject] = {}
    for block in view.body["blocks"]:
        fields = [one for one in elements_of(block) if one.get("type") in _FIELDS]
        for element in fields:
            kept = view.values.get(block["block_id"], {}).get(element["action_id"])
            value = _value(element, _take(left, block, element), kept)
            _check_required(block, element, value)
            state.setdefault(block["block_id"], {})[element["action_id"]] = value
    if left:
        raise NotKnown(f"the form has no field {', '.join(left)}")
    return state


_ABSENT: Final = object()
_TEXTS: Final = ("plain_text_input", "email_text_input", "url_text_input", "number_input")
_SINGLE: Final = ("static_select", "radio_buttons", "external_select", "overflow")
_MANY: Final = ("multi_static_select", "checkboxes", "multi_external_select")
_PLAIN: Final = {
    "datepicker": "selected_date",
    "timepicker": "selected_time",
    "datetimepicker": "selected_date_time",
    "users_select": "selected_user",
    "conversations_select": "selected_conversation",
    "channels_select": "selected_channel",
    "multi_users_select": "selected_users",
    "multi_conversations_select": "selected_conversations",
    "multi_channels_select": "selected_channels",
    "rich_text_input": "rich_text_value",
    "file_input": "files",
}
_FIELDS: Final = frozenset({*_TEXTS, *_SINGLE, *_MANY, *_PLAIN} - {"overflow"})


def _take(left: dict[str, Any], block: JsonObject, element: JsonObject) -> Any:
    label = block["label"]["text"] if "label" in block else None
    for name in (block["block_id"], element["action_id"], label):
        if name in left:
            return left.pop(name)
    return _ABSENT


def _value(element: JsonObject, given: Any, kept: JsonObject | None) -> JsonObject:
    if given is not _ABSENT:
        return _state(element, given)
    return kept if kept is not None else _initial(element)


def _initial(element: JsonObject) -> JsonObject:
    kind = element["type"]
    if kind in _TEXTS:
        return {"type": kind, "value": element.get("initial_value")}
    if kind in _SINGLE:
        return {"type": kind, "selected_option": element.get("initial_option")}
    if kind in _MANY:
        return {"type": kind, "selected_options": element.get("initial_options", [])}
    return {"type": kind, _PLAIN[kind]: element.get(_PLAIN[kind].replace("selected_", "initial_"))}


def _state(element: JsonObject, given: Any) -> JsonObject:
    kind = element["type"]
    if kind in _TEXTS:
        return {"type": kind, "value": _typed(element, str(given)) if given not in (None, "") else None}
    if kind in _SINGLE:
        return {"type": kind, "selected_option": None if given is None else option_of(element, given)}
    if kind in _MANY:
        chosen = given if is_array(given) else [given]
        return {"type": kind, "selected_options": [option_of(element, one) for one in chosen]}
    return {"type": kind, _PLAIN[kind]: given}


def _typed(element: JsonObject, value: str) -> str:
    if not element.get("min_length", 0) <= len(value) <= element.get("max_length", 3000):
        raise NotPossible(f"the field {element['action_id']} does not take {len(value)} characters")
    return value


def option_of(element: JsonObject, wanted: str) -> JsonObject:
    """An option of a menu by value or text. Raises NotKnown."""
    groups = element.get("option_groups") or [{"options": element.get("options", [])}]
    options = [one for group in groups for one in group["options"]]
    for option in options:
        if wanted in (option["value"], option["text"]["text"]):
            return option
    raise NotKnown(f"no option {wanted!r}; there are {[one['value'] for one in options]}")


def _check_required(block: JsonObject, element: JsonObject, value: JsonObject) -> None:
    if block["type"] != "input" or block.get("optional"):
        return
    if not any(item for name, item in value.items() if name != "type"):
        raise NotPossible(f"the field {element['action_id']} must be filled in")
