"""Applications with their bot user, and their sessions on the gateway."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Protocol

from adapters.emulators.discord.intents import APPLICATION_FLAGS, PRIVILEGED, Intent
from adapters.emulators.discord.world import User
from adapters.emulators.wire_json import JsonObject

REAL_CDN: Final = "https://cdn.discordapp.com"
REAL_GATEWAY: Final = "wss://gateway.discord.gg"
REAL_HOSTS: Final = frozenset({"discord.com", "gateway.discord.gg", "cdn.discordapp.com", "media.discordapp.net"})
GLOBAL: Final = ""
"""Stands for "in all guilds" where commands are kept by guild."""


class Line(Protocol):
    """An open connection of a client to the gateway."""

    def send(self, payload: JsonObject) -> None:
        """Write behind whatever is being written; never blocks."""
        ...


@dataclass(slots=True, kw_only=True)
class Session:
    """What a client resumes: its intents, the number of its last event, and the events it may have missed."""

    id: str
    bot: str
    intents: Intent
    sequence: int = 0
    log: deque[JsonObject] = field(default_factory=deque[JsonObject])
    line: Line | None = None
    left_at: float = 0.0
    """When its last connection ended."""
    held: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    """Events that wait for the one they are to follow."""

    def next(self, event: str, body: JsonObject) -> JsonObject:
        """Number an event and remember it."""
        self.sequence += 1
        payload: JsonObject = {"op": 0, "t": event, "s": self.sequence, "d": body}
        self.log.append(payload)
        return payload

    def missed(self, sequence: int) -> list[JsonObject] | None:
        """What came after `sequence`; None if that is no longer known, or never was."""
        if sequence > self.sequence:
            return None
        after = [payload for payload in self.log if payload["s"] > sequence]
        return after if len(after) == self.sequence - sequence else None


@dataclass(slots=True, kw_only=True)
class Bot:
    """An application and its bot user, which share an id."""

    token: str
    user: User
    granted: Intent = PRIVILEGED
    """Privileged intents that are switched on for the application."""
    endpoint: str | None = None
    """Where the application wants its interactions sent; the gateway then tells of none."""
    real_names: bool = False
    """Its client speaks to Discord's own host names, led here by its connector: addresses in answers use them, too."""
    commands: dict[str, dict[str, JsonObject]] = field(default_factory=dict[str, dict[str, JsonObject]])
    """Guild, or GLOBAL -> id -> command."""
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    identified: list[float] = field(default_factory=list[float])
    nonces: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict[tuple[str, str], tuple[float, str]])
    """(channel, nonce) -> when, and which message."""
    typing: dict[str, float] = field(default_factory=dict[str, float])
    """Channel -> until when it types there."""

    @property
    def id(self) -> str:
        return self.user.id

    @property
    def account(self) -> str:
        """Its name in the journal."""
        return self.user.id

    @property
    def flags(self) -> int:
        """The application's flags."""
        return sum(flag for intent, flag in APPLICATION_FLAGS.items() if intent & self.granted)

    def command(self, command: str) -> tuple[str, JsonObject] | None:
        """A command by its id, with its guild or GLOBAL."""
        for scope, commands in self.commands.items():
            if command in commands:
                return scope, commands[command]
        return None
