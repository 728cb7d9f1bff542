"""A store whose n-th save fails: for tests of what happens then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.errors import CheckpointError, CommitUnknown
from runtime.protocol.approvals import Grant
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord, Receipt
from runtime.protocol.context import ContextDelta, JsonValue
from runtime.protocol.events import Event, EventMsg
from runtime.store.base import CheckpointStore, EventPage, ExecutionPage, Head, Lease, Saved, SessionSummary


class FaultyStore:
    """Wraps any store. The `at`-th save (from 1) of those whose checkpoint `match` accepts fails, once.

    It fails before anything is written, as CheckpointError, or with `commit_first` after the commit, as CommitUnknown.
    `error` replaces either. `fired` tells that it happened. Everything else is the wrapped store's.
    """

    def __init__(
        self,
        store: CheckpointStore,
        at: int = 1,
        commit_first: bool = False,
        match: Callable[[Checkpoint], bool] | None = None,
        error: Exception | None = None,
    ) -> None:
        self.store = store
        self.at = at
        self.commit_first = commit_first
        self.match = match
        self.error = error
        self.fired = False
        self.matched = 0

    def __getattr__(self, name: str) -> Any:
        """What only the wrapped store has."""
        return getattr(self.store, name)

    async def save(
        self,
        checkpoint: Checkpoint,
        delta: ContextDelta | None = None,
        *,
        events: Sequence[EventMsg | Event] = (),
        submission_id: str | None = None,
        execution: ExecutionRecord | None = None,
        receipts: Sequence[Receipt] = (),
        grants: Sequence[Grant] = (),
        lease: Lease | None = None,
        save_id: str | None = None,
    ) -> Saved:
        """Save through the wrapped store, or fail."""
        failing = self._is_due(checkpoint)
        if failing and not self.commit_first:
            raise self.error or CheckpointError("injected failure before the commit; nothing was written")
        saved = await self.store.save(
            checkpoint,
            delta,
            events=events,
            submission_id=submission_id,
            execution=execution,
            receipts=receipts,
            grants=grants,
            lease=lease,
            save_id=save_id,
        )
        if failing:
            raise self.error or CommitUnknown("injected failure after the commit; it may have been kept")
        return saved

    def _is_due(self, checkpoint: Checkpoint) -> bool:
        if self.match is not None and not self.match(checkpoint):
            return False
        self.matched += 1
        due = self.matched == self.at
        self.fired = self.fired or due
        return due

    async def load(self, session_id: str) -> Checkpoint | None:
        """As the wrapped store."""
        return await self.store.load(session_id)

    async def head(self, session_id: str) -> Head | None:
        """As the wrapped store."""
        return await self.store.head(session_id)

    async def event_page(
        self, session_id: str, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> EventPage:
        """As the wrapped store."""
        return await self.store.event_page(session_id, before, after, limit)

    async def execution_page(self, session_id: str, before: int | None = None, limit: int = 100) -> ExecutionPage:
        """As the wrapped store."""
        return await self.store.execution_page(session_id, before, limit)

    async def save_state(self, scope: str, key: str, value: JsonValue) -> None:
        """As the wrapped store."""
        await self.store.save_state(scope, key, value)

    async def load_state(self, scope: str, key: str) -> JsonValue:
        """As the wrapped store."""
        return await self.store.load_state(scope, key)

    async def receipt(self, key: str) -> Receipt | None:
        """As the wrapped store."""
        return await self.store.receipt(key)

    async def list_sessions(self, limit: int = 100, after: str | None = None) -> tuple[SessionSummary, ...]:
        """As the wrapped store."""
        return await self.store.list_sessions(limit, after)

    async def fork(self, session_id: str, new_session_id: str) -> Checkpoint:
        """As the wrapped store."""
        return await self.store.fork(session_id, new_session_id)

    async def delete(self, session_id: str) -> None:
        """As the wrapped store."""
        await self.store.delete(session_id)

    async def grants(self, session_id: str) -> tuple[Grant, ...]:
        """As the wrapped store."""
        return await self.store.grants(session_id)

    async def claim(self, session_id: str) -> Lease:
        """As the wrapped store."""
        return await self.store.claim(session_id)

    async def release(self, lease: Lease) -> None:
        """As the wrapped store."""
        await self.store.release(lease)

    async def aclose(self) -> None:
        """As the wrapped store."""
        await self.store.aclose()
