"""Settings of Telegram: what is wrong is named with its remedy, and no secret is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.telegram.settings import Settings

TOKEN = "900:" + 35 * "s"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "telegram.token"),
    ({"token": ""}, "telegram.token"),
    ({"token": "secret-without-a-number"}, "telegram.token"),
    ({"token": "900:with space"}, "telegram.token"),
    ({"token": TOKEN, "token_file": "x"}, "remove one"),
    ({"token_file": "/nonexistent/secret"}, "telegram.token_file"),
    ({"token": TOKEN, "tokn": 1}, "telegram.tokn: no such key"),
    ({"token": TOKEN, "mode": "push"}, "telegram.mode"),
    ({"token": TOKEN, "mode": "webhook"}, "telegram.webhook_url"),
    ({"token": TOKEN, "mode": "webhook", "webhook_url": "http://bot.example.org/x"}, "telegram.webhook_url"),
    ({"token": TOKEN, "mode": "webhook", "webhook_url": "https://b.example/", "webhook_listen": "x"}, "webhook_listen"),
    ({"token": TOKEN, "mode": "webhook", "webhook_url": "https://b.example/", "webhook_secret": ""}, "webhook_s"),
    ({"token": TOKEN, "mode": "webhook", "webhook_url": "https://b.example/", "webhook_secret": "ü"}, "webhook_s"),
    ({"token": TOKEN, "api_base": "ftp://x"}, "telegram.api_base"),
    ({"token": TOKEN, "api_base": "https://x?y=z"}, "telegram.api_base"),
    ({"token": TOKEN, "poll_seconds": 0}, "telegram.poll_seconds"),
    ({"token": TOKEN, "poll_seconds": 51}, "telegram.poll_seconds"),
    ({"token": TOKEN, "poll_seconds": 2.5}, "whole number"),
    ({"token": TOKEN, "poll_seconds": True}, "telegram.poll_seconds"),
    ({"token": TOKEN, "request_seconds": "9"}, "telegram.request_seconds"),
    ({"token": TOKEN, "create_topics": "yes"}, "telegram.create_topics"),
    ({"token": TOKEN, "commands": {"Help": "x"}}, "telegram.commands"),
    ({"token": TOKEN, "commands": {"help": ""}}, "telegram.commands"),
    ({"token": TOKEN, "commands": ["help"]}, "telegram.commands"),
]


@pytest.mark.parametrize(("settings", "told"), WRONG)
def test_wrong_settings_are_named(settings: dict[str, Any], told: str) -> None:
    """The key and what it must be are told; the token is not."""
    with pytest.raises(ValueError) as caught:
        Settings.read(settings)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value).replace("/nonexistent/secret", "").replace("webhook_secret", "")
    assert TOKEN not in str(caught.value)


def test_defaults_and_file(tmp_path: Path) -> None:
    """A token is enough, also from a file with a line end; keys of the webhook are left alone while we poll."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    settings = Settings.read({"token_file": str(path), "webhook_listen": "127.0.0.1:8643"})
    assert settings == Settings(token=TOKEN)
    assert settings.api_base == "https://api.telegram.org"
    assert TOKEN not in repr(settings)


def test_values_are_taken() -> None:
    """What is set is used, tidied up."""
    settings = {"token": TOKEN, "api_base": "http://127.0.0.1:1/", "commands": {"help": " Help "}, "request_seconds": 5}
    assert Settings.read(settings) == Settings(
        token=TOKEN, api_base="http://127.0.0.1:1", commands={"help": "Help"}, request_seconds=5
    )
