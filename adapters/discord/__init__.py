"""Discord, through its gateway and REST API. Importing this package is cheap; discord.py is loaded when an adapter is
made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters.errors import AdapterError

if TYPE_CHECKING:
    from adapters.contract import Adapter, Diagnosis, Environment

__all__ = ["create", "diagnose"]


def create(settings: Mapping[str, Any], environment: Environment) -> Adapter:
    """An adapter that is not connected yet; the entry point `discord`. ValueError on bad settings: see `Settings`."""
    from adapters.discord.adapter import DiscordAdapter
    from adapters.discord.settings import Settings

    return DiscordAdapter(Settings.read(settings), environment)


async def diagnose(settings: Mapping[str, Any], environment: Environment) -> tuple[Diagnosis, ...]:
    """What stands in the way of a bot with these settings, and what does not; nothing is changed on the platform."""
    from adapters.discord.adapter import DiscordAdapter
    from adapters.discord.diagnosis import of_failure
    from adapters.discord.settings import Settings

    try:
        return tuple(await DiscordAdapter(Settings.read(settings), environment).diagnose())
    except (AdapterError, ValueError) as error:
        return (of_failure(error),)
