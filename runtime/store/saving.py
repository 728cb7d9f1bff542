"""One save as statements: pure, and only what changed against what is known of the stored state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.errors import CheckpointError, DuplicateReceipt, InvalidCheckpoint, StaleCheckpoint
from runtime.protocol.approvals import Grant
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord, Receipt
from runtime.protocol.context import ContextDelta
from runtime.protocol.events import Event, EventMsg
from runtime.protocol.session import SessionContext
from runtime.store import changes, codec, queries
from runtime.store.base import Head, Lease
from runtime.store.changes import SmallTables
from runtime.store.writer import Statement


@dataclass(frozen=True, slots=True)
class Known:
    """What is known to be stored under the head's save id. `small` is None where only the head was read.

    An empty save id: the session was claimed and never saved.
    """

    head: Head
    session_context: SessionContext
    small: SmallTables | None = None

    @property
    def saved(self) -> bool:
        """There was a save before."""
        return self.head.save_id != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """The arguments of a save, with the instant and the id that the store gave it."""

    checkpoint: Checkpoint
    delta: ContextDelta | None
    events: Sequence[EventMsg | Event]
    submission_id: str | None
    execution: ExecutionRecord | None
    receipts: Sequence[Receipt]
    grants: Sequence[Grant]
    lease: Lease | None
    save_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The statements of a save, where its first event goes, and what is known once they are committed."""

    unit: list[Statement]
    first_event: int
    known: Known


def plan(request: SaveRequest, known: Known | None) -> Plan:
    """What to write. StaleCheckpoint or InvalidCheckpoint where `known` already shows that it must fail."""
    checkpoint, session_id = request.checkpoint, request.checkpoint.session_id
    if known is None and request.lease is not None:
        raise stale(checkpoint, "the session of the lease is gone")
    if known is not None and known.saved:
        _check_against(known, request)
    delta = _delta(request, known.head if known is not None and known.saved else None)
    last_event = known.head.event_sequence if known else 0
    head = Head(
        sequence=checkpoint.sequence,
        save_id=request.save_id,
        context_epoch=delta.epoch,
        context_length=delta.start + len(delta.items),
        event_sequence=last_event + len(request.events),
    )
    before = known.small if known else None
    after = changes.small_tables(checkpoint, before)
    unit = [
        _head(request, known, head, after.metadata),
        *_items(session_id, delta),
        *changes.message_changes(session_id, before, after),
        *changes.outcome_changes(session_id, delta.items, before),
        *changes.tool_changes(checkpoint, before),
        *changes.approval_changes(session_id, before, checkpoint.pending_approval, request.events, request.now_ms),
        *changes.loop_changes(checkpoint, before, after),
        *_events(request, last_event + 1),
        *_execution(request),
        *_receipts(request),
        *_grants(request),
    ]
    return Plan(unit, last_event + 1, Known(head, checkpoint.session_context, after))


def _delta(request: SaveRequest, head: Head | None) -> ContextDelta:
    """The delta that was given, or the rest of the context; either must start where the stored context ends."""
    checkpoint = request.checkpoint
    epoch, length = (head.context_epoch, head.context_length) if head else (checkpoint.context_epoch, 0)
    delta = request.delta or _rest(checkpoint, length if checkpoint.context_epoch == epoch else 0)
    if delta.epoch != checkpoint.context_epoch:
        raise InvalidCheckpoint(
            f"session {checkpoint.session_id!r}: the delta is of context epoch {delta.epoch}, "
            f"the checkpoint of {checkpoint.context_epoch}"
        )
    if (delta.epoch, delta.start) not in {(epoch, length), (epoch + 1, 0) if head else (epoch, length)}:
        raise stale(
            checkpoint,
            f"the delta starts at item {delta.start} of epoch {delta.epoch}, "
            f"but the stored context ends at item {length} of epoch {epoch}",
        )
    return delta


def _rest(checkpoint: Checkpoint, start: int) -> ContextDelta:
    given = len(checkpoint.context)
    if given < start:
        raise stale(checkpoint, f"the stored context has {start} items, the checkpoint only {given}")
    return ContextDelta(epoch=checkpoint.context_epoch, start=start, items=checkpoint.context.since(start))


def stale(checkpoint: Checkpoint, why: str) -> StaleCheckpoint:
    """The refusal of a save, with its reason."""
    return StaleCheckpoint(
        f"session {checkpoint.session_id!r}: save {checkpoint.sequence} is stale: {why}; nothing was written"
    )


def _check_against(known: Known, request: SaveRequest) -> None:
    checkpoint = request.checkpoint
    if checkpoint.sequence <= known.head.sequence:
        raise stale(checkpoint, f"save {known.head.sequence} is stored already")
    if checkpoint.session_context != known.session_context:
        raise InvalidCheckpoint(
            f"session {checkpoint.session_id!r}: the labels of a stored session never change; "
            f"stored are {known.session_context}, given were {checkpoint.session_context}"
        )


def _head(request: SaveRequest, known: Known | None, head: Head, metadata: str) -> Statement:
    checkpoint = request.checkpoint
    active = checkpoint.active_execution
    changing = (
        head.sequence,
        head.save_id,
        checkpoint.version,
        head.context_epoch,
        head.context_length,
        head.event_sequence,
        active.turn_id if active else None,
        int(checkpoint.retiring),
        checkpoint.model_route,
        _text(checkpoint.title),
        codec.encode_state(checkpoint),
        request.now_ms,
    )
    if known is None:
        labels = _labels(checkpoint.session_context)
        sql, params = queries.INSERT_HEAD, (checkpoint.session_id, *changing, metadata, *labels, request.now_ms)
    else:
        sql, params = queries.UPDATE_HEAD, (*changing, *_next_save(request, known, metadata))
    return Statement(sql, params, 1, lambda: stale(checkpoint, "another writer was faster"))


def _next_save(request: SaveRequest, known: Known, metadata: str) -> tuple[Any, ...]:
    """What UPDATE_HEAD keeps or replaces, and what it compares with."""
    checkpoint, lease, head = request.checkpoint, request.lease, known.head
    kept = None if known.small is not None and known.small.metadata == metadata else metadata
    labels = (None, None, None) if known.saved else _labels(checkpoint.session_context)
    owner = (lease.owner_id, lease.generation) if lease else (None, None)
    return (kept, *labels, checkpoint.session_id, head.save_id, head.context_epoch, head.context_length, *owner)


def _labels(labels: SessionContext) -> tuple[str | None, ...]:
    return (codec.encode(SessionContext, labels), _text(labels.workspace_label), _text(labels.origin_label))


def _text(value: str | None) -> str | None:
    """For a column that is only shown: a lone surrogate would not bind."""
    return None if value is None else value.encode(errors="replace").decode()


def _items(session_id: str, delta: ContextDelta) -> list[Statement]:
    rows = [
        (session_id, delta.epoch, delta.start + index, *codec.encode_item(item))
        for index, item in enumerate(delta.items)
    ]
    return [Statement(queries.INSERT_ITEM, rows, many=True)] if rows else []


def _events(request: SaveRequest, first: int) -> list[Statement]:
    rows: list[tuple[Any, ...]] = []
    for sequence, event in enumerate(request.events, start=first):
        if isinstance(event, Event):
            msg, submission_id, recorded_at_ms = event.msg, event.submission_id, event.recorded_at_ms
        else:
            msg, submission_id, recorded_at_ms = event, request.submission_id, request.now_ms
        rows.append((request.checkpoint.session_id, sequence, submission_id, recorded_at_ms, *codec.encode_event(msg)))
    return [Statement(queries.INSERT_EVENT, rows, many=True)] if rows else []


def _execution(request: SaveRequest) -> list[Statement]:
    record = request.execution
    if record is None:
        return []
    session_id = request.checkpoint.session_id
    times = (record.started_at_ms, record.ended_at_ms)
    params = (session_id, request.checkpoint.sequence, record.turn_id, record.submission_id, record.outcome, *times)
    return [
        Statement(
            queries.INSERT_EXECUTION,
            (*params, codec.encode(ExecutionRecord, record)),
            1,
            lambda: CheckpointError(
                f"session {session_id!r}: turn {record.turn_id!r} has its execution record already; nothing was written"
            ),
        )
    ]


def _receipts(request: SaveRequest) -> list[Statement]:
    session_id = request.checkpoint.session_id
    return [
        Statement(
            queries.INSERT_RECEIPT,
            (receipt.submission_id, session_id, request.now_ms, codec.encode(Receipt, receipt)),
            1,
            lambda receipt=receipt: DuplicateReceipt(receipt.submission_id),
        )
        for receipt in request.receipts
    ]


def _grants(request: SaveRequest) -> list[Statement]:
    rows = [
        (
            request.checkpoint.session_id,
            grant.id,
            grant.digest,
            grant.tool,
            grant.expires_at_ms,
            grant.revoked_at_ms,
            codec.encode(Grant, grant),
        )
        for grant in request.grants
    ]
    return [Statement(queries.UPSERT_GRANT, rows, many=True)] if rows else []
