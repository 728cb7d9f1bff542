"""What delivery needs of its neighbours, no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from adapters.contract import Adapter, MessageRef, Place
from gateway.ledger.database import Database
from runtime.protocol.checkpoint import Checkpoint
from runtime.store.base import EventPage
from runtime.store.writer import Statement

CONSUMER = "delivery"
"""Under this name our place in each session's journal is kept."""


class Journal(Protocol):
    """The stored events of every session; `runtime.store.SqliteStore` is one."""

    @property
    def database(self) -> Database:
        """Where the gateway's own tables are, too."""
        ...

    async def event_page(
        self, session_id: str, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> EventPage:
        """Ascending with `after`."""
        ...

    async def cursor(self, consumer: str, session_id: str) -> int:
        """How far the consumer has come; 0 where it has not begun."""
        ...

    def cursor_statement(self, consumer: str, session_id: str, sequence: int) -> Statement:
        """Moves the cursor forward, never backward."""
        ...

    async def sessions_beyond_cursor(self, consumer: str) -> tuple[str, ...]:
        """Sessions with events that the consumer has not had."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a session's words go, and what it is called there."""

    place: Place
    workspace: str | None = None
    origin: str | None = None
    quiet_turn: str | None = None
    """The message whose turn shows no card: nobody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The message that a turn answers. In a private chat there is no need to point at it.

    `spoken`: somebody said it, so it can get a mark; a press hangs on a message of ours. `text` is what was said.
    """

    ref: MessageRef
    private: bool = False
    spoken: bool = True
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Somebody who may decide an approval: a name to show, and the platform's own id to mention."""

    name: str
    id: str


class Directory(Protocol):
    """Who and where. Nothing here decides anything."""

    async def destination(self, session_id: str) -> Destination | None:
        """The place of a session; None if no chat began it."""
        ...

    async def asking(self, message_id: str) -> Asking | None:
        """The message on the platform that became the submission `message_id`, if one did."""
        ...

    async def name(self, principal: str) -> str:
        """A name for people to read; the principal itself where none is known."""
        ...

    async def deciders(self, place: Place) -> tuple[Decider, ...]:
        """Who may decide approvals there, now."""
        ...


class Platforms(Protocol):
    """The adapters that run."""

    def adapter(self, platform: str, account: str) -> Adapter | None:
        """The adapter of one of our accounts, or None while it is not there."""
        ...


Peek: TypeAlias = Callable[[str], Awaitable[Checkpoint | None]]
"""The newest stored state of a session."""

Undeliverable: TypeAlias = Callable[[str, str, str], Awaitable[None]]
"""(session id, request id, reason): close a request that could not be shown to anybody. Asking twice is harmless."""

TellOwner: TypeAlias = Callable[[str], Awaitable[None]]
"""Tell an owner something, elsewhere than in the chat that it is about."""

Moved: TypeAlias = Callable[[Place, str], Sequence[Statement]]
"""(old place, the chat's new id): what else has to move, in the same transaction."""


ThreadOpened: TypeAlias = Callable[[Place, Place], Sequence[Statement]]
"""(the place that stood for a new thread, where it is): what else has to move, in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """What delivery calls when something is beyond it."""

    undeliverable: Undeliverable
    tell_owner: TellOwner
    moved: Moved
    opened: ThreadOpened = lambda stood_for, thread: ()
