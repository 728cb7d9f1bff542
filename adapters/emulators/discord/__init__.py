"""An emulated Discord: its REST API, its gateway, and the people."""

from __future__ import annotations

from adapters.emulators.discord.emulator import DiscordEmulator
from adapters.emulators.discord.knobs import OBSERVED_BUCKETS, Knobs

__all__ = ["OBSERVED_BUCKETS", "DiscordEmulator", "Knobs"]
