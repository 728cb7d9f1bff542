"""Durable sessions: the protocol, and its implementation on SQLite."""

from typing import TYPE_CHECKING, Any

from runtime.store.base import (
    CheckpointStore,
    EventPage,
    ExecutionPage,
    Head,
    Lease,
    Saved,
    SessionSummary,
)

if TYPE_CHECKING:
    from runtime.store.sqlite import SqliteStore

__all__ = [
    "CheckpointStore",
    "EventPage",
    "ExecutionPage",
    "Head",
    "Lease",
    "Saved",
    "SessionSummary",
    "SqliteStore",
]


def __getattr__(name: str) -> Any:
    """The store on SQLite is loaded when somebody asks for it: `import runtime` needs no database driver."""
    if name == "SqliteStore":
        from runtime.store.sqlite import SqliteStore

        return SqliteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
