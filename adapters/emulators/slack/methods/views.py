"""views.*: modals and the home tab."""

from __future__ import annotations

from typing import Final

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.errors import ApiError, invalid_arguments
from adapters.emulators.slack.modals import (
    STACK,
    is_too_large,
    open_view,
    problems_of_view,
    replace_view,
    show_view,
    stack_of,
)
from adapters.emulators.slack.rendering import view_object
from adapters.emulators.slack.world import Trigger, View
from adapters.emulators.wire_json import JsonObject, is_object

FOUND: Final = "not_found"


def open_modal(call: Call) -> JsonObject:
    """Open a modal for whoever pressed; the trigger works once and briefly."""
    body = _body(call, "modal")
    trigger = _trigger(call)
    return {"view": view_object(open_view(call.platform, trigger.user, body), call.platform.app)}


def push(call: Call) -> JsonObject:
    """Put a modal on top of the one that the trigger came from."""
    body = _body(call, "modal")
    trigger = _trigger(call)
    below = call.platform.world.views.get(trigger.view or "")
    if below is None:
        raise ApiError(FOUND)
    if len(stack_of(call.platform, trigger.user)) >= STACK:
        raise ApiError("push_limit_reached")
    return {"view": view_object(open_view(call.platform, trigger.user, body, on=below), call.platform.app)}


def update(call: Call) -> JsonObject:
    """Show something else in an open view."""
    view = _find(call)
    body = _body(call, view.body["type"])
    _check_hash(call, view)
    replace_view(call.platform, view, body)
    return {"view": view_object(view, call.platform.app)}


def publish(call: Call) -> JsonObject:
    """Show a home tab to a person."""
    body, user = _body(call, "home"), call.text("user_id")
    if user not in call.platform.world.users:
        raise invalid_arguments("must be a valid user [json-pointer:/user_id]")
    views = call.platform.world.views
    old = next((one for one in views.values() if one.user == user and one.body["type"] == "home"), None)
    if old is not None:
        _check_hash(call, old)
        replace_view(call.platform, old, body)
        return {"view": view_object(old, call.platform.app)}
    identity = call.platform.new_id("V")
    view = View(id=identity, user=user, body=body, hash=call.platform.new_uuid(), root=identity)
    views[identity] = view
    show_view(call.platform, "home", view)
    return {"view": view_object(view, call.platform.app)}


def _body(call: Call, kind: str) -> JsonObject:
    view = call.params.get("view")
    if not is_object(view):
        raise invalid_arguments("must provide an object [json-pointer:/view]")
    if found := problems_of_view(view, kind):
        raise invalid_arguments(*found)
    if is_too_large(view):
        raise ApiError("view_too_large")
    return view


def _trigger(call: Call) -> Trigger:
    given = call.text("trigger_id") or call.text("interactivity_pointer")
    if not given:
        raise invalid_arguments("missing required field: trigger_id")
    found = call.platform.world.triggers.get(given)
    if found is None:
        raise ApiError("invalid_trigger_id")
    if found.used:
        raise ApiError("exchanged_trigger_id")
    if call.platform.clock.now() > found.expires_at:
        raise ApiError("expired_trigger_id")
    found.used = True
    return found


def _find(call: Call) -> View:
    if not call.has("view_id") and not call.has("external_id"):
        raise invalid_arguments("missing required field: view_id or external_id")
    for view in call.platform.world.views.values():
        external = view.body.get("external_id")
        if view.id == call.text("view_id") or (external and external == call.text("external_id")):
            return view
    raise ApiError(FOUND)


def _check_hash(call: Call, view: View) -> None:
    if call.has("hash") and call.text("hash") != view.hash:
        raise ApiError("hash_conflict")


HANDLERS: dict[str, Handler] = {
    "views.open": open_modal,
    "views.push": push,
    "views.update": update,
    "views.publish": publish,
}
