"""One save as statements: pure, and only what changed against what is known of the stored state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.errors import CheckpointError, InvalidCheckpoint, StaleCheckpoint
from runtime.protocol.approvals import Grant, PendingApproval, PendingTool
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord, Receipt
from runtime.protocol.context import ContextDelta, JsonValue, ToolResult
from runtime.protocol.events import ApprovalResolved, Event, EventMsg
from runtime.protocol.session import QueuedMessage, SessionContext
from runtime.store import codec, queries
from runtime.store.base import DuplicateReceipt, Head, Lease
from runtime.store.writer import Statement

LOOP_STATUSES = {
    status.replace("_", ""): status
    for status in (
        "running",
        "finalizing",
        "completed",
        "stopped",
        "budget_exhausted",
        "cancelled",
        "failed",
        "recovery_unsupported",
    )
}


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


@dataclass(frozen=True, slots=True)
class SmallTables:
    """The parts of the last checkpoint that a save writes again only where they changed.

    Free JSON is kept as text: a caller may change its dictionary in place.
    """

    positions: tuple[int, ...]
    pending_messages: tuple[QueuedMessage, ...]
    pending_tools: tuple[PendingTool, ...]
    pending_approval: PendingApproval | None
    metadata: str
    loop: tuple[str, str]


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
    """The statements of a save (the first returns the journal's new end), and what is known once they are committed."""

    unit: list[Statement]
    delta: ContextDelta
    small: SmallTables


def plan(request: SaveRequest, known: Known | None) -> Plan:
    """What to write. StaleCheckpoint or InvalidCheckpoint where `known` already shows that it must fail."""
    checkpoint = request.checkpoint
    if known is None and request.lease is not None:
        raise stale(checkpoint, "the session of the lease is gone")
    if known is not None and known.saved:
        _check_against(known, request)
    delta = _delta(request, known.head if known is not None and known.saved else None)
    small_before = known.small if known else None
    messages, positions = _pending(checkpoint, small_before)
    small = SmallTables(
        positions=positions,
        pending_messages=checkpoint.pending_messages,
        pending_tools=checkpoint.pending_tools,
        pending_approval=checkpoint.pending_approval,
        metadata=codec.encode_json(dict(checkpoint.metadata)),
        loop=(codec.encode_json(checkpoint.loop_state), checkpoint.runtime_status),
    )
    unit = [
        _head(request, delta, known, small.metadata),
        *_items(checkpoint.session_id, delta),
        *messages,
        *_outcomes(checkpoint.session_id, delta, small_before),
        *_tools(checkpoint, small_before),
        *_approval(request, small_before),
        *_loop(checkpoint, small.loop, small_before),
        *_events(request),
        *_execution(request),
        *_receipts(request),
        *_grants(request),
    ]
    return Plan(unit, delta, small)


def _delta(request: SaveRequest, head: Head | None) -> ContextDelta:
    checkpoint, delta = request.checkpoint, request.delta
    epoch, length = (head.context_epoch, head.context_length) if head else (checkpoint.context_epoch, 0)
    if delta is None:
        start = length if checkpoint.context_epoch == epoch else 0
        delta = ContextDelta(epoch=checkpoint.context_epoch, start=start, items=checkpoint.context.since(start))
        if len(checkpoint.context) < start:
            raise stale(
                checkpoint, f"the stored context has {start} items, the checkpoint only {len(checkpoint.context)}"
            )
    if delta.epoch != checkpoint.context_epoch:
        raise InvalidCheckpoint(
            f"session {checkpoint.session_id!r}: the delta is of context epoch {delta.epoch}, "
            f"the checkpoint of {checkpoint.context_epoch}"
        )
    if head is None:
        fits = delta.start == 0
    else:
        fits = (delta.epoch, delta.start) in {(epoch, length), (epoch + 1, 0)}
    if not fits:
        raise stale(
            checkpoint,
            f"the delta starts at item {delta.start} of epoch {delta.epoch}, "
            f"but the stored context ends at item {length} of epoch {epoch}",
        )
    return delta


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


def _head(request: SaveRequest, delta: ContextDelta, known: Known | None, metadata: str) -> Statement:
    checkpoint = request.checkpoint
    active = checkpoint.active_execution
    changing = (
        checkpoint.sequence,
        request.save_id,
        checkpoint.version,
        delta.epoch,
        delta.start + len(delta.items),
        len(request.events),
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
    return Statement(sql, params, 1, lambda: stale(checkpoint, "another writer was faster"), fetch=True)


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


def _pending(checkpoint: Checkpoint, before: SmallTables | None) -> tuple[list[Statement], tuple[int, ...]]:
    """Statements, and the position of every waiting message. Messages that keep their order keep their rows."""
    messages = checkpoint.pending_messages
    if before is not None and before.pending_messages is messages:
        return [], before.positions
    session_id = checkpoint.session_id
    stored = dict(zip((m.id for m in before.pending_messages), before.positions, strict=True)) if before else {}
    kept = [stored[message.id] for message in messages if message.id in stored]
    appended = [message.id in stored for message in messages] == [True] * len(kept) + [False] * (
        len(messages) - len(kept)
    )
    if before is None or kept != sorted(kept) or not appended:
        positions = tuple(range(len(messages)))
        rows = [_pending_row(session_id, position, message) for position, message in enumerate(messages)]
        return [Statement(queries.DELETE_ALL_PENDING, (session_id,)), *_insert_pending(rows)], positions
    first_new = max(kept, default=-1) + 1
    positions = (*kept, *range(first_new, first_new + len(messages) - len(kept)))
    gone = stored.keys() - {message.id for message in messages}
    old = {message.id: message for message in before.pending_messages}
    changed = [message for message in messages if message.id in old and old[message.id] != message]
    new = list(zip(positions, messages, strict=True))[len(kept) :]
    return [
        *(Statement(queries.DELETE_PENDING, (session_id, stored[id]), 1) for id in gone),
        *(Statement(queries.UPDATE_PENDING, _pending_change(session_id, stored[m.id], m), 1) for m in changed),
        *_insert_pending([_pending_row(session_id, position, message) for position, message in new]),
    ], positions


def _insert_pending(rows: list[tuple[Any, ...]]) -> list[Statement]:
    return [Statement(queries.INSERT_PENDING, rows, many=True)] if rows else []


def _pending_row(session_id: str, position: int, message: QueuedMessage) -> tuple[Any, ...]:
    payload = codec.encode(QueuedMessage, message)
    return (session_id, position, message.id, message.boundary.kind, message.accepted_at_ms, payload)


def _pending_change(session_id: str, position: int, message: QueuedMessage) -> tuple[Any, ...]:
    return (message.boundary.kind, codec.encode(QueuedMessage, message), session_id, position)


def _outcomes(session_id: str, delta: ContextDelta, before: SmallTables | None) -> list[Statement]:
    """Results that enter the context are noted at their open calls, for those who look at the table."""
    if before is not None and not before.pending_tools:
        return []
    results = [item for item in delta.items if isinstance(item, ToolResult)]
    return [Statement(queries.SET_TOOL_OUTCOME, (result.outcome, session_id, result.call_id)) for result in results]


def _tools(checkpoint: Checkpoint, before: SmallTables | None) -> list[Statement]:
    tools = checkpoint.pending_tools
    if before is not None and before.pending_tools is tools:
        return []
    session_id = checkpoint.session_id
    old = {tool.call.call_id: tool for tool in before.pending_tools} if before else {}
    same = {tool.call.call_id for tool in tools if _same_call(old.get(tool.call.call_id), tool)}
    order = [call_id for call_id in old if call_id in same]
    if before is None or [tool.call.call_id for tool in tools][: len(order)] != order:
        return _all_tools(checkpoint)
    return [
        *(Statement(queries.CLOSE_TOOL, (session_id, call_id), 1) for call_id in old if call_id not in same),
        *(
            Statement(queries.UPDATE_TOOL, _tool_change(session_id, tool), 1)
            for tool in tools
            if tool.call.call_id in same and tool != old[tool.call.call_id]
        ),
        *_insert_tools(checkpoint, [index for index, tool in enumerate(tools) if tool.call.call_id not in same]),
    ]


def _same_call(old: PendingTool | None, new: PendingTool) -> bool:
    """The rows go on. A call id is unique in its batch only: after `done`, the same id is a call of the next batch."""
    return old is not None and old.call == new.call and not (old.state == "done" and new.state != "done")


def _all_tools(checkpoint: Checkpoint) -> list[Statement]:
    session_id = checkpoint.session_id
    ids: list[JsonValue] = [tool.call.call_id for tool in checkpoint.pending_tools]
    return [
        Statement(queries.CLOSE_OTHER_TOOLS, (session_id, codec.encode_json(ids))),
        Statement(queries.DELETE_OPEN_TOOLS, (session_id,)),
        *_insert_tools(checkpoint, range(len(ids))),
    ]


def _insert_tools(checkpoint: Checkpoint, indexes: Sequence[int]) -> list[Statement]:
    active = checkpoint.active_execution
    turn_id = active.turn_id if active else ""
    rows: list[tuple[Any, ...]] = []
    for index in indexes:
        tool = checkpoint.pending_tools[index]
        identity = (checkpoint.session_id, checkpoint.sequence, index, tool.call.call_id, turn_id, tool.call.name)
        rows.append((*identity, tool.state, tool.idempotency_key, codec.encode(PendingTool, tool)))
    return [Statement(queries.INSERT_TOOL, rows, many=True)] if rows else []


def _tool_change(session_id: str, tool: PendingTool) -> tuple[Any, ...]:
    return (tool.state, tool.idempotency_key, codec.encode(PendingTool, tool), session_id, tool.call.call_id)


def _approval(request: SaveRequest, before: SmallTables | None) -> list[Statement]:
    approval, session_id = request.checkpoint.pending_approval, request.checkpoint.session_id
    if before is None:
        others = Statement(queries.CLOSE_OTHER_APPROVALS, (session_id, approval.request_id if approval else ""))
        return [others, *([_insert_approval(request, approval, queries.UPSERT_APPROVAL)] if approval else [])]
    old = before.pending_approval
    if old is approval:
        return []
    statements: list[Statement] = []
    if old is not None and (approval is None or approval.request_id != old.request_id):
        statements.append(_close_approval(request, old))
        old = None
    if approval is not None and old is None:
        statements.append(_insert_approval(request, approval, queries.INSERT_APPROVAL))
    if approval is not None and old is not None and approval != old:
        statements += _change_approval(session_id, old, approval)
    return statements


def _insert_approval(request: SaveRequest, approval: PendingApproval, sql: str) -> Statement:
    identity = (request.checkpoint.session_id, approval.request_id, approval.turn_id, approval.submission_id)
    decision = (approval.decision, approval.decided_by, approval.decided_at_ms)
    asked = codec.encode_actions(approval.actions)
    params = (*identity, request.now_ms, approval.expires_at_ms, *decision, asked, _approval_payload(approval))
    return Statement(sql, params)


def _approval_payload(approval: PendingApproval) -> str:
    undecided = replace(approval, decision=None, decided_by=None, decided_at_ms=None, expires_at_ms=None)
    return codec.encode(PendingApproval, undecided)


def _change_approval(session_id: str, old: PendingApproval, new: PendingApproval) -> list[Statement]:
    statements = [
        Statement(queries.UPDATE_APPROVAL, (new.expires_at_ms, _approval_payload(new), session_id, new.request_id), 1)
    ]
    if (new.decision, new.decided_by, new.decided_at_ms) != (old.decision, old.decided_by, old.decided_at_ms):
        params = (new.decision, new.decided_by, new.decided_at_ms, session_id, new.request_id)
        statements.append(Statement(queries.DECIDE_APPROVAL, params, 1, lambda: _decided_before(session_id, new)))
    return statements


def _decided_before(session_id: str, approval: PendingApproval) -> CheckpointError:
    return CheckpointError(
        f"session {session_id!r}: approval {approval.request_id!r} was decided before; nothing was written"
    )


def _close_approval(request: SaveRequest, approval: PendingApproval) -> Statement:
    session_id = request.checkpoint.session_id
    decision: tuple[Any, ...] = (None, None, None)
    for event in request.events:
        msg = event.msg if isinstance(event, Event) else event
        if isinstance(msg, ApprovalResolved) and msg.request_id == approval.request_id:
            decision = (msg.decision, msg.decided_by, request.now_ms)
    return Statement(queries.CLOSE_APPROVAL, (*decision, session_id, approval.request_id), 1)


def _loop(checkpoint: Checkpoint, loop: tuple[str, str], before: SmallTables | None) -> list[Statement]:
    if before is not None and before.loop == loop:
        return []
    state, status = checkpoint.loop_state, checkpoint.runtime_status
    if state is None and status == "running":
        return [Statement(queries.DELETE_LOOP, (checkpoint.session_id,))]
    return [Statement(queries.UPSERT_LOOP, (checkpoint.session_id, _loop_status(state), status, loop[0]))]


def _loop_status(state: JsonValue) -> str | None:
    status = state.get("status") if isinstance(state, dict) else None
    return LOOP_STATUSES.get(status.lower().replace("_", "")) if isinstance(status, str) else None


def _events(request: SaveRequest) -> list[Statement]:
    rows: list[tuple[Any, ...]] = []
    for behind, event in zip(range(len(request.events) - 1, -1, -1), request.events, strict=True):
        if isinstance(event, Event):
            msg, submission_id, recorded_at_ms = event.msg, event.submission_id, event.recorded_at_ms
        else:
            msg, submission_id, recorded_at_ms = event, request.submission_id, request.now_ms
        rows.append((request.checkpoint.session_id, behind, submission_id, recorded_at_ms, *codec.encode_event(msg)))
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
