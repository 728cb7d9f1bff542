"""Telegram, through the Bot API. Importing this package is cheap; aiogram is loaded when an adapter is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters.errors import AdapterError

if TYPE_CHECKING:
    from adapters.contract import Adapter, Diagnosis, Environment

__all__ = ["create", "diagnose"]


def create(settings: Mapping[str, Any], environment: Environment) -> Adapter:
    """An adapter that is not connected yet; the entry point `telegram`. ValueError on bad settings: see `Settings`."""
    from adapters.telegram.adapter import TelegramAdapter
    from adapters.telegram.settings import Settings

    return TelegramAdapter(Settings.read(settings), environment)


async def diagnose(settings: Mapping[str, Any], environment: Environment) -> tuple[Diagnosis, ...]:
    """What stands in the way of a bot with these settings, and what does not; nothing is changed on the platform."""
    from adapters.telegram.adapter import TelegramAdapter
    from adapters.telegram.diagnosis import of_failure
    from adapters.telegram.settings import Settings

    try:
        return tuple(await TelegramAdapter(Settings.read(settings), environment).diagnose())
    except (AdapterError, ValueError) as error:
        return (of_failure(error),)
