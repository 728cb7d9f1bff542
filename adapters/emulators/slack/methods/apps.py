"""apps.manifest.*: what the app's owner may see of its settings."""

from __future__ import annotations

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.errors import ApiError
from adapters.emulators.wire_json import JsonObject


def export(call: Call) -> JsonObject:
    """The manifest, as far as the emulator has such settings. An app that takes any command names the usual one."""
    app = call.platform.app
    if call.text("app_id") != app.app_id:
        raise ApiError("invalid_app_id")
    commands = sorted(app.commands) if app.commands is not None else ["/pilothouse"]
    features: JsonObject = {
        "app_home": {"messages_tab_enabled": True},
        "bot_user": {"display_name": app.name, "always_online": True},
        "slash_commands": [{"command": one, "description": one} for one in commands],
    }
    if app.agent:
        features["agent_view"] = {"agent_description": app.name}
    return {
        "manifest": {
            "display_information": {"name": app.name},
            "features": features,
            "oauth_config": {"scopes": {"bot": sorted(app.scopes)}},
            "settings": {
                "event_subscriptions": {"bot_events": sorted(app.events)},
                "interactivity": {"is_enabled": app.interactive},
                "socket_mode_enabled": app.request_url is None,
            },
        }
    }


HANDLERS: dict[str, Handler] = {"apps.manifest.export": export}
