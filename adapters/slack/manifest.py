"""The app that Slack has to know: its scopes, events, command and settings, as the manifest that creates it.

Source: https://docs.slack.dev/reference/app-manifest; which scope a method or an event needs is on its own page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

COMMAND = "/pilothouse"
PATH = "/slack/events"

SCOPES: Mapping[str, str] = {
    "app_mentions:read": "being spoken to in channels",
    "assistant:write": "the agent surface: state of a session and native streams",
    "channels:history": "words in threads of public channels",
    "channels:read": "names of public channels, and whether we are in them",
    "chat:write": "every answer, card and approval",
    "commands": f"the command {COMMAND}",
    "files:read": "files that come with messages",
    "files:write": "files that we send",
    "groups:history": "words in threads of private channels",
    "groups:read": "names of private channels, and whether we are in them",
    "im:history": "direct messages",
    "im:read": "which direct messages there are",
    "im:write": "telling somebody in private that we are not in his channel",
    "mpim:history": "words in conversations of several people",
    "mpim:read": "which conversations of several people there are",
    "reactions:write": "the mark that says a message was taken in",
    "users:read": "names of people",
}
"""What each is for."""

EVENTS = (
    "agent_session_stopped",
    "agent_session_title_changed",
    "app_home_opened",
    "app_mention",
    "channel_archive",
    "channel_left",
    "channel_rename",
    "channel_unarchive",
    "group_archive",
    "group_left",
    "group_rename",
    "group_unarchive",
    "member_joined_channel",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
)

NATIVE_STOP = "agent_session_stopped"
DESCRIPTION = "An agent that works in your threads, asks before it acts, and goes on after a restart."
PROMPTS = (
    ("What can you do?", "What can you do here?"),
    ("Look around", "List the files in the workspace and tell me what they are."),
)


def manifest(name: str = "Pilothouse", *, mode: Literal["socket", "http"] = "socket", url: str = "") -> dict[str, Any]:
    """The manifest of an app by that name. With `http`, `url` is the public address that leads to our listener."""
    address = f"{url.rstrip('/')}{PATH}"
    over_http = {"request_url": address} if mode == "http" else {}
    command = {
        "command": COMMAND,
        "description": "Talk to the agent's gateway",
        "usage_hint": "help | status | stop | new …",
        "should_escape": True,
        **({"url": address} if mode == "http" else {}),
    }
    prompts = [{"title": title, "message": message} for title, message in PROMPTS]
    return {
        "display_information": {"name": name, "description": DESCRIPTION},
        "features": {
            "agent_view": {"agent_description": DESCRIPTION, "suggested_prompts": prompts},
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": [command],
        },
        "oauth_config": {"scopes": {"bot": sorted(SCOPES)}},
        "settings": {
            "event_subscriptions": {**over_http, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **over_http},
            "org_deploy_enabled": False,
            "socket_mode_enabled": mode == "socket",
            "token_rotation_enabled": False,
        },
    }


def missing_scopes(granted: frozenset[str]) -> tuple[str, ...]:
    """Scopes that the app lacks."""
    return tuple(sorted(set(SCOPES) - granted))


def missing_settings(of_app: Mapping[str, Any], mode: Literal["socket", "http"]) -> tuple[tuple[str, str], ...]:
    """What an app's own manifest lacks: pairs of a name for it, and where it is set."""
    settings, features = _part(of_app, "settings"), _part(of_app, "features")
    events = _part(settings, "event_subscriptions").get("bot_events") or ()
    found = [(f"the event {one}", "Event Subscriptions") for one in EVENTS if one not in events]
    if not _part(settings, "interactivity").get("is_enabled"):
        found.append(("interactivity", "Interactivity & Shortcuts"))
    if bool(settings.get("socket_mode_enabled")) != (mode == "socket"):
        found.append(("Socket Mode" if mode == "socket" else "an app without Socket Mode", "Socket Mode"))
    if "agent_view" not in features:
        found.append(("the agent surface", "Agents"))
    commands = [one.get("command") for one in features.get("slash_commands") or ()]
    if COMMAND not in commands:
        found.append((f"the command {COMMAND}", "Slash Commands"))
    if not _part(features, "app_home").get("messages_tab_enabled"):
        found.append(("the Messages tab", "App Home"))
    return tuple(found)


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return of.get(name) or {}
