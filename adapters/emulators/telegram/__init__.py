"""An emulated Telegram Bot API."""

from __future__ import annotations

from adapters.emulators.telegram.emulator import TelegramEmulator
from adapters.emulators.telegram.knobs import FloodLimits, Knobs

__all__ = ["FloodLimits", "Knobs", "TelegramEmulator"]
