"""What can be set about Telegram, with defaults; checked before anything connects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast
from urllib.parse import urlsplit

# 1-64 characters is what the server accepts of a token (telegram-bot-api, `Client.cpp`).
_TOKEN = re.compile(r"[1-9]\d{0,19}:[A-Za-z0-9_-]{1,64}")
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_KEYS = (
    *("token", "token_file", "api_base", "mode", "poll_seconds", "request_seconds", "commands", "create_topics"),
    "drafts",
)
_OF_THE_WEBHOOK = ("webhook_url", "webhook_listen", "webhook_secret")  # without a meaning while we poll
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The section `[telegram]`.

    `commands` are names with descriptions for the platform's menu, None to leave it as it is. `create_topics`: open a
    topic when asked to, which needs that right in a group. `drafts`: show in private chats what is being written, while
    Android lets nobody send anything. With `mode = "webhook"` Telegram posts to `webhook_url`, and
    `webhook_listen` is where that arrives; without a `webhook_secret` each start makes one.
    """

    token: str = field(repr=False)
    api_base: str = "https://api.telegram.org"
    poll_seconds: int = 25
    request_seconds: float = 60.0
    commands: Mapping[str, str] | None = None
    create_topics: bool = False
    drafts: bool = False
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: str = ""
    webhook_listen: str = "127.0.0.1:8643"
    webhook_secret: str = field(default="", repr=False)

    @property
    def listen(self) -> tuple[str, int]:
        """Host and port of `webhook_listen`."""
        host, _, port = self.webhook_listen.rpartition(":")
        return host.strip("[]"), int(port)

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Settings:
        """Check the settings; ValueError names the key and the remedy, never a secret."""
        if unknown := sorted(set(settings) - {*_KEYS, *_OF_THE_WEBHOOK}):
            raise ValueError(f"telegram.{unknown[0]}: no such key; there are {', '.join((*_KEYS, *_OF_THE_WEBHOOK))}")
        if (mode := settings.get("mode", cls.mode)) not in ("polling", "webhook"):
            raise ValueError(f'telegram.mode: {mode!r} is not available; use "polling" or "webhook"')
        polling = cls(
            token=_token(settings),
            api_base=_address(settings.get("api_base", cls.api_base)),
            poll_seconds=int(_number(settings, "poll_seconds", cls.poll_seconds, 1, 50)),
            request_seconds=_number(settings, "request_seconds", cls.request_seconds, 0.05, 600),
            commands=_commands(settings.get("commands")),
            create_topics=_flag(settings, "create_topics"),
            drafts=_flag(settings, "drafts"),
        )
        return polling if mode == "polling" else _with_webhook(polling, settings)


def _token(settings: Mapping[str, Any]) -> str:
    token, path = settings.get("token"), settings.get("token_file")
    if token is not None and path is not None:
        raise ValueError("telegram.token and telegram.token_file are both set; remove one")
    if path is not None:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError, TypeError) as error:
            raise ValueError(f"telegram.token_file: cannot be read ({type(error).__name__}); check its path") from None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError('telegram.token: must read "<digits>:<letters>", as @BotFather gives it')
    return token


def _address(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
        raise ValueError("telegram.api_base: must be an http(s) address without a query, as https://api.telegram.org")
    return value.rstrip("/")


def _with_webhook(polling: Settings, settings: Mapping[str, Any]) -> Settings:
    """Limits: https://core.telegram.org/bots/api#setwebhook."""
    url, listen = settings.get("webhook_url"), settings.get("webhook_listen", Settings.webhook_listen)
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or not parts.hostname or parts.scheme != ("http" if parts.hostname in _LOOPBACK else "https"):
        raise ValueError(
            'telegram.webhook_url: must be the https address that Telegram is to call, with mode = "webhook"; your '
            "reverse proxy passes its path on to telegram.webhook_listen"
        )
    if not isinstance(listen, str) or not re.fullmatch(r"(\[[^\]]+\]|[^:\s]+):\d{1,5}", listen):
        raise ValueError("telegram.webhook_listen: must read <host>:<port>, as 127.0.0.1:8643")
    secret = settings.get("webhook_secret")
    if secret is not None and not (isinstance(secret, str) and _SECRET.fullmatch(secret)):
        raise ValueError(
            "telegram.webhook_secret: must be 1 to 256 of A-Z, a-z, 0-9, _ and -; without the key each start makes one"
        )
    return replace(polling, mode="webhook", webhook_url=str(url), webhook_listen=listen, webhook_secret=secret or "")


def _number(settings: Mapping[str, Any], key: str, default: float, least: float, most: float) -> float:
    value = settings.get(key, default)
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not least <= value <= most:
        raise ValueError(f"telegram.{key}: must be a{' whole' * whole} number of seconds from {least:g} to {most:g}")
    return value


def _flag(settings: Mapping[str, Any], key: str) -> bool:
    value = settings.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"telegram.{key}: must be true or false")
    return value


def _commands(value: object) -> Mapping[str, str] | None:
    """Limits: https://core.telegram.org/bots/api#botcommand."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        commands = cast("Mapping[object, object]", value)
        checked = {name: text.strip() for name, text in commands.items() if _is_name(name) and _is_description(text)}
        if len(checked) == len(commands) <= 100:
            return checked
    raise ValueError(
        "telegram.commands: must be at most 100 names of a-z, 0-9 and _ (up to 32 characters), each with a description "
        "of 1 to 256 characters"
    )


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _COMMAND.fullmatch(value) is not None


def _is_description(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value.strip()) <= 256
