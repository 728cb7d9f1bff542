"""What the runner is given, no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from adapters.contract import Place
from gateway.access import Access
from gateway.ledger.database import Database
from gateway.places import Places
from gateway.ports import Sessions
from gateway.schedules.alarm import Alarm
from gateway.schedules.ledger import HISTORY
from runtime.clock import Clock
from runtime.faults import NO_FAULTS, Faults
from runtime.store.base import EventPage, ExecutionPage


class Journal(Protocol):
    """What sessions have done; `runtime.store.SqliteStore` is one."""

    async def execution_page(self, session_id: str, before: int | None = None, limit: int = 100) -> ExecutionPage:
        """Turns that ended, newest first."""
        ...

    async def event_page(
        self, session_id: str, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> EventPage:
        """Events, newest first with `before`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`runs_at_once` of this process; runs that were missed begin `spread_seconds` apart; `history` rows are kept."""

    runs_at_once: int = 4
    spread_seconds: float = 2.0
    history: int = HISTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The neighbours of the runner. `owner` names this process, as no other was ever named.

    `opens_threads`: whether each run has a thread of its own there, on a message of ours.

    `alone`: no other process can live that carries out runs of this database, so what one of them left is taken over at
    once; otherwise only when its lease is over.
    """

    database: Database
    sessions: Sessions
    journal: Journal
    places: Places
    access: Access
    wake: Callable[[Place], None]
    tell_owner: Callable[[str], Awaitable[None]]
    clock: Clock
    alarm: Alarm
    owner: str
    opens_threads: Callable[[Place], bool] = lambda place: False
    alone: bool = True
    settings: Callable[[], Settings] = Settings
    faults: Faults = NO_FAULTS
