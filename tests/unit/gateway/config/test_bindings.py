"""Which binding holds in a place."""

from __future__ import annotations

import pytest

from gateway.config import Config, binding_for

CONFIG = Config.model_validate(
    {
        "models": [{"name": "first", "provider": "demo"}, {"name": "second", "provider": "demo"}],
        "workspaces": [{"id": "one", "path": "/one"}, {"id": "two", "path": "/two"}],
        "agents": [{"name": "a"}, {"name": "b"}],
        "approvals": {"timeout_seconds": 60, "tools": {"shell": "deny", "read_file": "allow"}},
        "limits": {"usd_per_session": 1.0, "usd_per_day": 9.0},
        "bindings": [
            {"platform": "telegram", "chat": "-1", "thread": "7", "workspace": "two"},
            {"platform": "telegram", "chat": -1, "agent": "b", "listen": "all"},
            {"platform": "telegram", "model": "second", "fallback": ["first", "second"]},
            {
                "scope": "per_person",
                "approvals": {"timeout_seconds": 0, "tools": {"shell": "ask"}},
                "limits": {"usd_per_day": 2.0},
            },
        ],
    }
)


@pytest.mark.parametrize(
    ("platform", "chat", "thread", "place"),
    [
        ("telegram", "-1", "7", ("telegram", "-1", "7")),
        ("telegram", "-1", "8", ("telegram", "-1", None)),
        ("telegram", "-1", None, ("telegram", "-1", None)),
        ("telegram", "5", "7", ("telegram", None, None)),
        ("slack", "-1", "7", (None, None, None)),
    ],
)
def test_most_exact_entry_counts(
    platform: str, chat: str, thread: str | None, place: tuple[str | None, str | None, str | None]
) -> None:
    """Thread stands over chat, chat over platform, platform over the default; a chat id may be written as a number."""
    assert binding_for(CONFIG, platform=platform, chat=chat, thread=thread).place == place


def test_entries_do_not_add_up() -> None:
    """What the counting entry leaves out is the general default, not what a wider entry says."""
    binding = binding_for(CONFIG, platform="telegram", chat="-1", thread="7")
    assert (binding.workspace.id, binding.agent.name, binding.models) == ("two", "a", ("first",))
    assert binding.listen == "mention"


def test_own_approvals_and_limits_are_laid_over_the_general_ones() -> None:
    """A binding changes what it names and keeps the rest of [approvals] and [limits]."""
    binding = binding_for(CONFIG, platform="discord", chat="1", thread=None)
    assert binding.approval_tools == {"shell": "ask", "read_file": "allow"}
    assert binding.approval_default == "ask"
    assert binding.approval_timeout_seconds is None
    assert (binding.usd_per_session, binding.usd_per_day) == (1.0, 2.0)


def test_fallback_names_each_model_once() -> None:
    """The model itself comes first and is not tried twice."""
    assert binding_for(CONFIG, platform="telegram", chat="5", thread=None).models == ("second", "first")


def test_defaults_without_any_entry() -> None:
    """With no bindings and no agents the first workspace and model hold, and an agent with every tool."""
    config = CONFIG.model_copy(update={"bindings": (), "agents": ()})
    binding = binding_for(config, platform="slack", chat="C1", thread="1.2")
    assert (binding.workspace.id, binding.models, binding.agent.name, binding.agent.tools) == (
        "one",
        ("first",),
        "default",
        None,
    )
    assert (binding.scope, binding.listen, binding.network) == ("shared", "mention", "none")
