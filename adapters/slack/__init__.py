"""Slack, through the Web API and Socket Mode or HTTP. Importing this package is cheap; slack-bolt is loaded when an
adapter is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters.errors import AdapterError

if TYPE_CHECKING:
    from adapters.contract import Adapter, Diagnosis, Environment

__all__ = ["create", "diagnose"]


def create(settings: Mapping[str, Any], environment: Environment) -> Adapter:
    """An adapter that is not connected yet; the entry point `slack`. ValueError on bad settings: see `Settings`."""
    from adapters.slack.adapter import SlackAdapter
    from adapters.slack.settings import Settings

    return SlackAdapter(Settings.read(settings), environment)


async def diagnose(settings: Mapping[str, Any], environment: Environment) -> tuple[Diagnosis, ...]:
    """What stands in the way of an app with these settings, and what does not; nothing is changed on the platform."""
    from adapters.slack.adapter import SlackAdapter
    from adapters.slack.diagnosis import of_failure
    from adapters.slack.settings import Settings

    try:
        return tuple(await SlackAdapter(Settings.read(settings), environment).diagnose())
    except (AdapterError, ValueError) as error:
        return (of_failure(error),)
