"""The manifest of the Slack app: everything that the adapter uses is in it, and what an app lacks is named."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from adapters.emulators.slack.catalogue import METHODS
from adapters.emulators.slack.platform import EVENT_SCOPES
from adapters.slack.manifest import EVENTS, SCOPES, manifest, missing_scopes, missing_settings
from gateway.failures import Unavailable
from gateway.setup import print_manifest

USED = (
    "agents.sessions.rename", "agents.sessions.setStatus", "bots.info", "chat.appendStream", "chat.delete",
    "chat.postEphemeral", "chat.postMessage", "chat.startStream", "chat.stopStream", "chat.update",
    "conversations.history", "conversations.info", "conversations.replies", "files.completeUploadExternal",
    "files.getUploadURLExternal", "files.info", "reactions.add", "reactions.remove", "users.conversations",
    "users.info", "views.open",
)  # fmt: skip


@pytest.mark.parametrize("method", USED)
def test_every_method_that_is_called_has_its_scope(method: str) -> None:
    """One of the scopes that a method needs is in the manifest."""
    needed = METHODS[method].scopes
    assert not needed or set(needed) & set(SCOPES)


def test_every_event_has_its_scope() -> None:
    """An event without its scope is never sent."""
    assert [name for name in EVENTS if not set(EVENT_SCOPES.get(name, SCOPES)) & set(SCOPES)] == []


def test_manifest_lacks_nothing_of_itself() -> None:
    """What we print is what we ask for, over either way in."""
    assert missing_settings(manifest(), "socket") == ()
    assert missing_settings(manifest(mode="http", url="https://a.example/"), "http") == ()
    assert missing_scopes(frozenset(manifest()["oauth_config"]["scopes"]["bot"])) == ()


def test_http_manifest_leads_to_our_listener() -> None:
    """Events, presses and commands go to one address; sockets are off."""
    made = manifest(mode="http", url="https://a.example/")
    address = "https://a.example/slack/events"
    assert made["settings"]["event_subscriptions"]["request_url"] == address
    assert made["settings"]["interactivity"]["request_url"] == address
    assert made["features"]["slash_commands"][0]["url"] == address
    assert made["settings"]["socket_mode_enabled"] is False


def _without(path: str) -> dict[str, Any]:
    made: dict[str, Any] = deepcopy(manifest())
    inner: Any = made
    *way, last = path.split(".")
    for part in way:
        inner = inner[part]
    del inner[last]
    return made


LACKS = {
    "settings.interactivity": "interactivity",
    "settings.socket_mode_enabled": "Socket Mode",
    "features.agent_view": "the agent surface",
    "features.slash_commands": "the command /pilothouse",
    "features.app_home": "the Messages tab",
}


@pytest.mark.parametrize("path", LACKS)
def test_what_is_missing_is_named(path: str) -> None:
    """Each setting is named when it alone is missing."""
    assert [name for name, _ in missing_settings(_without(path), "socket")] == [LACKS[path]]


def test_each_missing_event_and_scope_is_named() -> None:
    """One event or scope less is that one, and no other."""
    for event in EVENTS:
        made = deepcopy(manifest())
        made["settings"]["event_subscriptions"]["bot_events"].remove(event)
        assert [name for name, _ in missing_settings(made, "socket")] == [f"the event {event}"]
    for scope in SCOPES:
        assert missing_scopes(frozenset(SCOPES) - {scope}) == (scope,)


def test_manifest_keeps_to_slacks_limits() -> None:
    """Names and descriptions are within what Slack takes (docs.slack.dev, app manifest)."""
    made = manifest("x" * 35)
    assert len(made["display_information"]["description"]) <= 140
    assert len(made["features"]["agent_view"]["agent_description"]) <= 300
    assert len(made["features"]["agent_view"]["suggested_prompts"]) <= 4


def test_init_prints_the_manifest_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is the manifest, to be kept in a file; what to do with it stands beside it."""
    assert print_manifest("Helper") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == manifest("Helper")
    assert "xapp-" in err
    print_manifest("Helper", "https://a.example")
    out, err = capsys.readouterr()
    assert json.loads(out) == manifest("Helper", mode="http", url="https://a.example")
    assert "signing_secret" in err
    with pytest.raises(Unavailable, match="--url"):
        print_manifest("Helper", "not an address")
