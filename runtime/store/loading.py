"""Reading a session as one consistent snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from runtime.protocol import checks
from runtime.protocol.approvals import PendingApproval, PendingTool, Resolution
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import Context, JsonValue
from runtime.protocol.events import Event
from runtime.protocol.session import QueuedMessage, SessionContext
from runtime.store import codec, queries
from runtime.store.base import EventPage, Head
from runtime.store.changes import SmallTables
from runtime.store.saving import Known
from runtime.store.writer import Row, Statement, Steps, Transaction

T = TypeVar("T")

FAR = 1 << 62
"""Beyond every sequence."""


def snapshot(steps: Steps[T]) -> Callable[[Transaction], Steps[T]]:
    """The steps as one read transaction: other writers' commits fall before or after it, never within."""

    def run(transaction: Transaction) -> Steps[T]:
        yield Statement("BEGIN")
        try:
            return (yield from steps)
        finally:
            if transaction.in_transaction:
                yield Statement("ROLLBACK")

    return run


def rows(sql: str, *params: Any) -> Steps[list[Row]]:
    """The rows of one query."""
    return (yield Statement(sql, params, fetch=True)).rows


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint, with what the store remembers of it for the next save."""

    checkpoint: Checkpoint
    known: Known


def read_known(session_id: str) -> Steps[Known | None]:
    """The head only."""
    found = yield from rows(queries.READ_HEAD, session_id)
    if not found:
        return None
    sequence, save_id, epoch, length, event_sequence, labels = found[0]
    head = Head(
        sequence=sequence,
        save_id=save_id,
        context_epoch=epoch,
        context_length=length,
        event_sequence=event_sequence,
    )
    return Known(head, codec.decode(SessionContext, labels, "session context"))


def read_session(session_id: str) -> Steps[Loaded | None]:
    """The newest checkpoint with its whole context. InvalidCheckpoint where what is stored contradicts itself."""
    found = yield from rows(queries.READ_SESSION, session_id)
    if not found:
        return None
    sequence, save_id, epoch, length, event_sequence, version, retiring, route, state, labels, metadata = found[0]
    items = yield from rows(queries.READ_ITEMS, session_id, epoch, length)
    pending = yield from rows(queries.READ_PENDING, session_id)
    tools = yield from rows(queries.READ_TOOLS, session_id)
    approvals = yield from rows(queries.READ_APPROVAL, session_id)
    loops = yield from rows(queries.READ_LOOP, session_id)
    runtime_status, loop_state = loops[0] if loops else ("running", "null")
    checkpoint = Checkpoint(
        session_id=session_id,
        sequence=sequence,
        version=version,
        session_context=codec.decode(SessionContext, labels, "session context"),
        metadata=_object(metadata),
        model_route=route,
        context=Context(codec.decode_item(*item) for item in items),
        context_epoch=epoch,
        pending_messages=tuple(codec.decode(QueuedMessage, payload, "message") for _, payload in pending),
        pending_tools=tuple(_tool(*row) for row in tools),
        pending_approval=approval(*approvals[0]) if approvals else None,
        retiring=bool(retiring),
        loop_state=codec.decode_json(loop_state, "loop state"),
        runtime_status=runtime_status,
        **codec.decode_state(state),
    )
    checks.check(checkpoint)
    if len(checkpoint.context) != length:
        raise codec.unreadable("context", f"{length} items are due, {len(checkpoint.context)} are there")
    head = Head(
        sequence=sequence, save_id=save_id, context_epoch=epoch, context_length=length, event_sequence=event_sequence
    )
    small = SmallTables(
        positions=tuple(position for position, _ in pending),
        pending_messages=checkpoint.pending_messages,
        pending_tools=checkpoint.pending_tools,
        pending_approval=checkpoint.pending_approval,
        metadata=metadata,
        loop_state=loop_state,
        runtime_status=runtime_status,
    )
    return Loaded(checkpoint, Known(head, checkpoint.session_context, small))


def _object(text: str) -> dict[str, JsonValue]:
    value = codec.decode_json(text, "metadata")
    if not isinstance(value, dict):
        raise codec.unreadable("metadata", "it is no object")
    return value


def _tool(state: Any, payload: str) -> PendingTool:
    return replace(codec.decode(PendingTool, payload, "pending tool"), state=state)


def approval(expires: Any, decision: str | None, by: Any, at: Any, payload: str) -> PendingApproval:
    """The request that a row holds."""
    approval = codec.decode(PendingApproval, payload, "pending approval")
    resolution = None if decision is None else Resolution(decision)
    return replace(approval, expires_at_ms=expires, decision=resolution, decided_by=by, decided_at_ms=at)


def read_events(session_id: str, before: int | None, after: int | None, limit: int) -> Steps[EventPage]:
    """A page of the journal."""
    latest = yield from rows(queries.READ_EVENT_SEQUENCE, session_id)
    bound = FAR if before is None else before
    if after is None:
        found = yield from rows(queries.READ_EVENTS_BEFORE, session_id, bound, limit)
    else:
        found = yield from rows(queries.READ_EVENTS_AFTER, session_id, after, bound, limit)
    events = tuple(_event(*row) for row in found)
    first = min((row[0] for row in found), default=0)
    older = (yield from rows(queries.HAS_EVENTS_BEFORE, session_id, first))[0][0]
    return EventPage(events=events, next_before=first if older else None, latest_sequence=latest[0][0] if latest else 0)


def _event(sequence: int, submission_id: str | None, recorded_at_ms: int, kind: str, payload: str) -> Event:
    msg = codec.decode_event(kind, payload)
    return Event(sequence=sequence, submission_id=submission_id, recorded_at_ms=recorded_at_ms, msg=msg)
