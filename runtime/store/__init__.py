"""Durable sessions: the protocol, and its implementation on SQLite."""

from runtime.store.base import (
    CheckpointStore,
    DuplicateReceipt,
    EventPage,
    ExecutionPage,
    Head,
    Lease,
    Saved,
    SessionSummary,
)
from runtime.store.sqlite import SqliteStore

__all__ = [
    "CheckpointStore",
    "DuplicateReceipt",
    "EventPage",
    "ExecutionPage",
    "Head",
    "Lease",
    "Saved",
    "SessionSummary",
    "SqliteStore",
]
