"""An emulated Slack: Web API, Socket Mode and HTTP events."""

from __future__ import annotations

from adapters.emulators.slack.emulator import SlackEmulator
from adapters.emulators.slack.knobs import Knobs

__all__ = ["Knobs", "SlackEmulator"]
