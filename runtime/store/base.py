"""What the runtime asks of a store. Nothing here has the shape of a particular database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.protocol.approvals import Grant, PendingApproval
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord, Receipt
from runtime.protocol.context import ContextDelta, JsonValue
from runtime.protocol.events import Event, EventMsg

if TYPE_CHECKING:  # it brings the database driver along
    from runtime.store.retention import JournalLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write one session: `generation` is checked by every save that carries the lease."""

    session_id: str
    owner_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest save of a session, as stored."""

    sequence: int
    save_id: str
    context_epoch: int
    context_length: int
    event_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A save that is durable. `first_event` is the journal sequence of its first event; the others follow it."""

    first_event: int
    save_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Part of a journal. `next_before` is the cursor for the page before this one, or None at the beginning."""

    events: tuple[Event, ...]
    next_before: int | None
    latest_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPage:
    """Execution records, newest first. `next_before` is the cursor of the next page, or None."""

    executions: tuple[ExecutionRecord, ...]
    next_before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A line of the list of sessions."""

    session_id: str
    title: str | None
    workspace_label: str | None
    origin_label: str | None
    running: bool
    queued: int
    updated_at_ms: int


class CheckpointStore(Protocol):
    """Sessions that outlive the process."""

    async def load(self, session_id: str) -> Checkpoint | None:
        """The newest checkpoint with its whole context, or None. InvalidCheckpoint where it contradicts itself."""
        ...

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
        """Make the checkpoint and all that belongs to it durable, as one transaction.

        On return everything is on disk. StaleCheckpoint: the stored sequence is not smaller, the stored context does
        not end where `delta` starts, or the lease's generation is gone; nothing was written. CommitUnknown: it may have
        been kept; compare `head().save_id` with the `save_id` given (a random one if none is). Any other error: nothing
        was written. A `delta` of None means: what `checkpoint.context` has beyond the stored head. Events given as
        `Event` carry their own submission id. DuplicateReceipt: a submission has its receipt already.
        """
        ...

    async def head(self, session_id: str) -> Head | None:
        """The newest save's numbers, or None."""
        ...

    async def event_page(
        self, session_id: str, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> EventPage:
        """Newest first with `before` (or neither), ascending with `after`."""
        ...

    async def execution_page(self, session_id: str, before: int | None = None, limit: int = 100) -> ExecutionPage:
        """Newest first."""
        ...

    async def save_state(self, scope: str, key: str, value: JsonValue) -> None:
        """Keep `value` under (scope, key)."""
        ...

    async def load_state(self, scope: str, key: str) -> JsonValue:
        """What was kept under (scope, key), or None."""
        ...

    async def receipt(self, key: str) -> Receipt | None:
        """The stored receipt of a submission id, for 30 days, also beyond the session's end."""
        ...

    async def list_sessions(self, limit: int = 100, after: str | None = None) -> tuple[SessionSummary, ...]:
        """Sessions by id, from beyond `after`."""
        ...

    async def sessions_with_work(self) -> tuple[str, ...]:
        """Sessions in which a turn runs, a message waits, or that are retiring."""
        ...

    async def cursor(self, consumer: str, session_id: str) -> int:
        """How far `consumer` has read the journal of the session; 0 if it never did."""
        ...

    async def sessions_beyond_cursor(self, consumer: str) -> tuple[str, ...]:
        """Sessions with events that the consumer has not had."""
        ...

    async def prune(self, now_ms: int) -> None:
        """Remove what is past its time: receipts, ended grants, owners that are gone."""
        ...

    async def prune_journal(self, limits: JournalLimits, now_ms: int) -> int:
        """Remove the oldest events beyond the limits, but for what a consumer, a turn or an approval still needs."""
        ...

    async def renew_ownership(self) -> None:
        """Say that this process still lives."""
        ...

    async def fork(self, session_id: str, new_session_id: str) -> Checkpoint:
        """Copy context, labels and metadata of an idle moment; nothing pending comes along."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session and everything that hangs on it, but for its receipts."""
        ...

    async def grants(self, session_id: str) -> tuple[Grant, ...]:
        """Every grant of the session that is neither revoked nor (by the caller's clock) relevant no more."""
        ...

    async def approval(self, session_id: str, request_id: str) -> PendingApproval | None:
        """A request of the session, open or closed, or None."""
        ...

    async def claim(self, session_id: str) -> Lease:
        """Own the session from now on, under a new generation.

        StaleCheckpoint, naming the owner, while a living process holds it.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Give the session back; without effect if the lease is gone already."""
        ...

    async def aclose(self) -> None:
        """Release what is held; what was acknowledged is on disk."""
        ...
