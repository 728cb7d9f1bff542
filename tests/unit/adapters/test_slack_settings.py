"""Settings of Slack are checked before anything connects, and refusals mean what Slack says that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.errors import (
    AdapterError,
    BadCredentials,
    MarkupRefused,
    OutcomeUnknown,
    RateLimited,
    Refused,
    TargetGone,
)
from adapters.slack.refusals import code_of, refusal
from adapters.slack.settings import Settings

GOOD = {"bot_token": "xoxb-1-secret", "app_token": "xapp-1-secret"}


def test_defaults() -> None:
    """Two tokens are enough; neither is ever shown."""
    settings = Settings.read(GOOD)
    assert (settings.mode, settings.api_base, settings.on_loopback) == ("socket", "https://slack.com/api", False)
    assert "secret" not in repr(settings)


def test_secrets_from_files(tmp_path: Path) -> None:
    """A token may lie in a file of its own."""
    file = tmp_path / "token"
    file.write_text("xoxb-1-file\n")
    settings = Settings.read({"bot_token_file": file, "app_token": "xapp-1-x"})
    assert settings.bot_token == "xoxb-1-file"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no bot token": ({"app_token": "xapp-1"}, "slack.bot_token"),
    "token of a person": ({**GOOD, "bot_token": "xoxp-1"}, "slack.bot_token"),
    "no app token": ({"bot_token": "xoxb-1"}, "slack.app_token"),
    "twice": ({**GOOD, "bot_token_file": "/x"}, "slack.bot_token and slack.bot_token_file"),
    "no such file": ({"bot_token_file": "/no/such/file", "app_token": "xapp-1"}, "slack.bot_token_file"),
    "no secret": ({"bot_token": "xoxb-1", "mode": "http"}, "slack.signing_secret"),
    "mode": ({**GOOD, "mode": "poll"}, "slack.mode"),
    "address": ({**GOOD, "api_base": "slack.com"}, "slack.api_base"),
    "listen": ({**GOOD, "http_listen": "8644"}, "slack.http_listen"),
    "seconds": ({**GOOD, "request_seconds": 0}, "slack.request_seconds"),
    "unknown": ({**GOOD, "tokens": "x"}, "slack.tokens"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    """The key and the remedy are named, and no secret."""
    given, key = WRONG[name]
    with pytest.raises(ValueError, match=key.replace(".", r"\.")) as caught:
        Settings.read(given)
    assert "secret" not in str(caught.value).replace("signing_secret", "")


@pytest.mark.parametrize("base", ["http://127.0.0.1:1/api", "http://localhost:1/api", "http://[::1]:1/api"])
def test_loopback_is_known(base: str) -> None:
    """An emulator on this machine is reached without a proxy."""
    assert Settings.read({**GOOD, "api_base": base}).on_loopback


MEANINGS = [
    (429, {"ok": False, "error": "ratelimited"}, RateLimited),
    (200, {"error": "invalid_auth"}, BadCredentials),
    (200, {"error": "token_revoked"}, BadCredentials),
    (200, {"error": "channel_not_found"}, TargetGone),
    (200, {"error": "is_archived"}, TargetGone),
    (200, {"error": "thread_not_found"}, TargetGone),
    (200, {"error": "invalid_blocks"}, MarkupRefused),
    (200, {"error": "internal_error"}, OutcomeUnknown),
    (503, {}, OutcomeUnknown),
    (200, {"error": "missing_scope", "needed": "files:write"}, Refused),
    (200, {"error": "something_new"}, Refused),
]


@pytest.mark.parametrize(("status", "body", "kind"), MEANINGS)
def test_refusals_mean_what_they_say(status: int, body: dict[str, Any], kind: type[AdapterError]) -> None:
    """Each of Slack's errors is one of ours, and tells its own word again."""
    error = refusal("chat.postMessage", status, body, retry_after="7")
    assert type(error) is kind
    if isinstance(error, RateLimited):
        assert error.retry_after == 7
    elif body:
        assert code_of(error) == body["error"]
    assert "files:write" in str(error) or "needed" not in body


def test_only_a_thread_may_be_gone() -> None:
    """A thread that is gone says nothing of its channel."""
    gone = refusal("chat.postMessage", 200, {"error": "thread_not_found"})
    assert isinstance(gone, TargetGone)
    assert gone.thread_only
