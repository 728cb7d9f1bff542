"""A bot's account on the server: its queue, its webhook, its commands, the buttons pressed under its messages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from adapters.emulators.telegram.update_queue import UpdateQueue
from adapters.emulators.telegram.world import User
from adapters.emulators.wire_json import JsonObject

OFF_BY_DEFAULT: Final = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Documented at getUpdates: these come only to bots that ask for them by name."""


@dataclass(slots=True, kw_only=True)
class Webhook:
    """Where updates are posted to instead of being polled."""

    url: str
    secret: str
    max_connections: int
    last_error_at: float | None = None
    last_error: str | None = None
    gone_since: float | None = None
    """When the first of an unbroken row of 410 answers came."""


@dataclass(slots=True, kw_only=True)
class Poll:
    """A getUpdates call that waits."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: str | None = None

    def abort(self, reason: str) -> None:
        """End the wait with a conflict."""
        self.aborted = reason
        self.wake.set()


@dataclass(slots=True, kw_only=True)
class Callback:
    """A pressed button that waits for an answer."""

    id: str
    user: int
    chat: int
    message: int
    data: str
    pressed_at: float
    answer: JsonObject | None = None


@dataclass(slots=True, kw_only=True)
class Bot:
    """One bot."""

    token: str
    user: User
    queue: UpdateQueue
    reads_all: bool = False
    """Privacy mode is off."""
    can_join_groups: bool = True
    topics: bool = False
    """Topics in private chats are switched on."""
    users_create_topics: bool = True
    allowed: frozenset[str] | None = None
    webhook: Webhook | None = None
    webhook_sender: asyncio.Task[None] | None = None
    next_webhook_at: float = 0.0
    poll: Poll | None = None
    previous_offset: int | None = None
    previous_poll_at: float = 0.0
    next_conflict_at: float = 0.0
    logged_out_until: float = 0.0
    commands: dict[tuple[str, str], list[JsonObject]] = field(default_factory=dict[tuple[str, str], list[JsonObject]])
    callbacks: dict[str, Callback] = field(default_factory=dict[str, Callback])
    held: list[tuple[str, JsonObject, int]] = field(default_factory=list[tuple[str, JsonObject, int]])
    """Events that a fault lets others overtake."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever the queue grew; the webhook's sender clears it."""

    @property
    def id(self) -> int:
        return self.user.id

    @property
    def account(self) -> str:
        """The name under which the journal knows it; the token stays out of records."""
        return str(self.user.id)

    def wants(self, kind: str) -> bool:
        """Whether updates of this kind are kept for it."""
        return kind in self.allowed if self.allowed is not None else kind not in OFF_BY_DEFAULT

    def wake(self) -> None:
        """Tell whoever waits that the queue grew."""
        self.arrived.set()
        if self.poll is not None:
            self.poll.wake.set()
