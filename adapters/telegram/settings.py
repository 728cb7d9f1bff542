"""What can be set about Telegram, with defaults; checked before anything connects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, cast

# 1-64 characters is what the server accepts of a token (telegram-bot-api, `Client.cpp`).
_TOKEN = re.compile(r"[1-9]\d{0,19}:[A-Za-z0-9_-]{1,64}")
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_KEYS = ("token", "token_file", "api_base", "mode", "poll_seconds", "request_seconds", "commands", "create_topics")
_OF_THE_WEBHOOK = ("webhook_url", "webhook_listen", "webhook_secret")  # without a meaning while we poll


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The section `[telegram]`.

    `commands` are names with descriptions for the platform's menu, None to leave it as it is. `create_topics`: open a
    topic when asked to, which needs that right in a group.
    """

    token: str = field(repr=False)
    api_base: str = "https://api.telegram.org"
    poll_seconds: int = 25
    request_seconds: float = 60.0
    commands: Mapping[str, str] | None = None
    create_topics: bool = False

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Settings:
        """Check the settings; ValueError names the key and the remedy, never a secret."""
        if unknown := sorted(set(settings) - {*_KEYS, *_OF_THE_WEBHOOK}):
            raise ValueError(f"telegram.{unknown[0]}: no such key; there are {', '.join(_KEYS)}")
        if (mode := settings.get("mode", "polling")) != "polling":
            raise ValueError(f'telegram.mode: {mode!r} is not available; use "polling"')
        return cls(
            token=_token(settings),
            api_base=_address(settings.get("api_base", cls.api_base)),
            poll_seconds=int(_number(settings, "poll_seconds", cls.poll_seconds, 1, 50)),
            request_seconds=_number(settings, "request_seconds", cls.request_seconds, 0.05, 600),
            commands=_commands(settings.get("commands")),
            create_topics=_flag(settings, "create_topics"),
        )


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
