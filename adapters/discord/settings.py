"""What can be set about Discord, with defaults; checked before anything connects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# Three parts of URL-safe base64, as the developer portal shows it; their lengths are no promise of Discord's.
_TOKEN = re.compile(r"[\w-]+(\.[\w-]+){2}")
_KEYS = ("token", "token_file", "api_base", "request_seconds")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The section `[discord]`. `api_base` of None is Discord itself; else everything goes to that server instead."""

    token: str = field(repr=False)
    api_base: str | None = None
    request_seconds: float = 60.0

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Settings:
        """Check the settings; ValueError names the key and the remedy, never a secret."""
        if unknown := sorted(set(settings) - {*_KEYS}):
            raise ValueError(f"discord.{unknown[0]}: no such key; there are {', '.join(_KEYS)}")
        return cls(
            token=_token(settings),
            api_base=_address(settings.get("api_base", "https://discord.com/api")),
            request_seconds=_seconds(settings.get("request_seconds", cls.request_seconds)),
        )


def _token(settings: Mapping[str, Any]) -> str:
    token, path = settings.get("token"), settings.get("token_file")
    if token is not None and path is not None:
        raise ValueError("discord.token and discord.token_file are both set; remove one")
    if path is not None:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError, TypeError) as error:
            raise ValueError(f"discord.token_file: cannot be read ({type(error).__name__}); check its path") from None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError(
            "discord.token: must read like `<letters>.<letters>.<letters>`, as the developer portal gives it (Bot, "
            "Reset Token), without the word Bot"
        )
    return token


def _address(value: object) -> str | None:
    """The server that stands in for Discord; None for Discord's own, whose hosts the client knows."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
        raise ValueError("discord.api_base: must be an http(s) address without a query, as https://discord.com/api")
    parts = urlsplit(value)
    if parts.hostname in ("discord.com", "discordapp.com"):
        return None
    return f"{parts.scheme}://{parts.netloc}"


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 600:
        raise ValueError("discord.request_seconds: must be a number of seconds from 0.05 to 600")
    return float(value)
