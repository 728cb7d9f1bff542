"""What can be set about Slack, with defaults; checked before anything connects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

_SECRETS = ("bot_token", "app_token", "signing_secret", "config_token")
_KEYS = (*_SECRETS, *(f"{name}_file" for name in _SECRETS), "api_base", "mode", "http_listen", "request_seconds")
_BOT_TOKEN = re.compile(r"xoxb-[A-Za-z0-9-]{1,255}")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]{1,255}")
_SHORTEST_SECRET = 16
_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The section `[slack]`.

    `app_token` is there in socket mode, `signing_secret` in http mode. `config_token` lets `doctor` see the settings of
    the app; nothing else uses it.
    """

    bot_token: str = field(repr=False)
    app_token: str = field(default="", repr=False)
    signing_secret: str = field(default="", repr=False)
    config_token: str = field(default="", repr=False)
    api_base: str = "https://slack.com/api"
    mode: Literal["socket", "http"] = "socket"
    http_listen: str = "127.0.0.1:8644"
    request_seconds: float = 30.0

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Settings:
        """Check the settings; ValueError names the key and the remedy, never a secret."""
        if unknown := sorted(set(settings) - set(_KEYS)):
            raise ValueError(f"slack.{unknown[0]}: no such key; there are {', '.join(_KEYS)}")
        mode = settings.get("mode", cls.mode)
        if mode not in ("socket", "http"):
            raise ValueError(f'slack.mode: {mode!r} is not available; use "socket" or "http"')
        return cls(
            bot_token=_token(settings, "bot_token", _BOT_TOKEN, "xoxb-"),
            app_token=_token(settings, "app_token", _APP_TOKEN, "xapp-") if mode == "socket" else "",
            signing_secret=_signing_secret(settings) if mode == "http" else "",
            config_token=_secret(settings, "config_token"),
            api_base=_address(settings.get("api_base", cls.api_base)),
            mode=mode,
            http_listen=_listen(settings.get("http_listen", cls.http_listen)),
            request_seconds=_seconds(settings.get("request_seconds", cls.request_seconds)),
        )

    @property
    def on_loopback(self) -> bool:
        """Whether the platform is on this machine, so that no proxy leads there."""
        host = urlsplit(self.api_base).hostname or ""
        try:
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def listen(self) -> tuple[str, int]:
        """Host and port of `http_listen`."""
        host, _, port = self.http_listen.rpartition(":")
        return host.strip("[]"), int(port)


def _secret(settings: Mapping[str, Any], key: str) -> str:
    """The value, or the content of its file. Whoever can choose the secret of an empty file can sign with it."""
    value, path = settings.get(key), settings.get(f"{key}_file")
    if value is not None and path is not None:
        raise ValueError(f"slack.{key} and slack.{key}_file are both set; remove one")
    if path is not None:
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError, TypeError) as error:
            raise ValueError(f"slack.{key}_file: cannot be read ({type(error).__name__}); check its path") from None
    return value.strip() if isinstance(value, str) else ""


def _token(settings: Mapping[str, Any], key: str, pattern: re.Pattern[str], beginning: str) -> str:
    token = _secret(settings, key)
    if not pattern.fullmatch(token):
        where = "OAuth & Permissions" if key == "bot_token" else "Basic Information, App-Level Tokens"
        raise ValueError(f'slack.{key}: must begin with "{beginning}"; the app\'s page at api.slack.com: {where}')
    return token


def _signing_secret(settings: Mapping[str, Any]) -> str:
    secret = _secret(settings, "signing_secret")
    if len(secret) < _SHORTEST_SECRET:
        raise ValueError(
            f"slack.signing_secret: must have at least {_SHORTEST_SECRET} characters; the app's page at "
            "api.slack.com: Basic Information, App Credentials"
        )
    return secret


def _address(value: object) -> str:
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise ValueError("slack.api_base: must be an http(s) address without a query, as https://slack.com/api")
    return value.rstrip("/")


def _listen(value: object) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("slack.http_listen: must read <host>:<port>, as 127.0.0.1:8644")
    return f"{host}:{port}"


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 600:
        raise ValueError("slack.request_seconds: must be a number of seconds from 0.05 to 600")
    return float(value)
