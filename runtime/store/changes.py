"""The small tables of a session: waiting messages, open calls, the pending approval, the loop.

Where it is known what they hold, only the difference is written; otherwise they are written anew. A session that goes
on from its own last save always knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.errors import CheckpointError
from runtime.protocol.approvals import PendingApproval, PendingTool
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import ContextItem, JsonValue, ToolResult
from runtime.protocol.events import ApprovalResolved, Event, EventMsg
from runtime.protocol.session import QueuedMessage
from runtime.store import codec, queries
from runtime.store.writer import Statement

LOOP_STATUSES = (
    "running",
    "finalizing",
    "completed",
    "stopped",
    "budget_exhausted",
    "cancelled",
    "failed",
    "recovery_unsupported",
)
_LOOP_STATUS = {status.replace("_", ""): status for status in LOOP_STATUSES}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallTables:
    """What the small tables hold. Free JSON is kept as text: a caller may change its dictionary in place."""

    positions: tuple[int, ...]
    pending_messages: tuple[QueuedMessage, ...]
    pending_tools: tuple[PendingTool, ...]
    pending_approval: PendingApproval | None
    metadata: str
    loop_state: str
    runtime_status: str


def small_tables(checkpoint: Checkpoint, before: SmallTables | None) -> SmallTables:
    """What they hold once `checkpoint` is stored over `before`."""
    return SmallTables(
        positions=_positions(checkpoint.pending_messages, before),
        pending_messages=checkpoint.pending_messages,
        pending_tools=checkpoint.pending_tools,
        pending_approval=checkpoint.pending_approval,
        metadata=codec.encode_json(dict(checkpoint.metadata)),
        loop_state=codec.encode_json(checkpoint.loop_state),
        runtime_status=checkpoint.runtime_status,
    )


# -- waiting messages


def _positions(messages: Sequence[QueuedMessage], before: SmallTables | None) -> tuple[int, ...]:
    """The place of every message. Those that stay in order keep theirs; any other change numbers all anew."""
    if before is not None and messages is before.pending_messages:
        return before.positions
    stored = _stored_positions(before) if before else {}
    kept = [stored[message.id] for message in messages if message.id in stored]
    if kept != sorted(kept):
        return tuple(range(len(messages)))
    first_new = kept[-1] + 1 if kept else 0
    return (*kept, *range(first_new, first_new + len(messages) - len(kept)))


def _stored_positions(before: SmallTables) -> dict[str, int]:
    return {message.id: position for message, position in zip(before.pending_messages, before.positions, strict=True)}


def message_changes(session_id: str, before: SmallTables | None, after: SmallTables) -> list[Statement]:
    """Rows of messages that came, went or were edited. Those that went leave first: another may take the place."""
    if before is None:
        return [Statement(queries.DELETE_ALL_PENDING, (session_id,)), *_insert_messages(session_id, _places(after))]
    if before.pending_messages is after.pending_messages:
        return []
    old, new = _places(before), _places(after)
    gone = [(session_id, place) for place, message in old.items() if place not in new or new[place].id != message.id]
    edited = [
        (message.boundary.kind, codec.encode(QueuedMessage, message), session_id, place)
        for place, message in new.items()
        if place in old and old[place].id == message.id and old[place] != message
    ]
    added = {place: m for place, m in new.items() if place not in old or old[place].id != m.id}
    return [
        *_rows(queries.DELETE_PENDING, gone),
        *_rows(queries.UPDATE_PENDING, edited),
        *_insert_messages(session_id, added),
    ]


def _places(tables: SmallTables) -> dict[int, QueuedMessage]:
    return dict(zip(tables.positions, tables.pending_messages, strict=True))


def _insert_messages(session_id: str, places: dict[int, QueuedMessage]) -> list[Statement]:
    rows = [
        (session_id, place, m.id, m.boundary.kind, m.accepted_at_ms, codec.encode(QueuedMessage, m))
        for place, m in places.items()
    ]
    return _rows(queries.INSERT_PENDING, rows)


def _rows(sql: str, rows: Sequence[tuple[Any, ...]]) -> list[Statement]:
    return [Statement(sql, rows, expect_rows=len(rows), many=True)] if rows else []


# -- open calls


def outcome_changes(session_id: str, items: Sequence[ContextItem], before: SmallTables | None) -> list[Statement]:
    """Results that enter the context are noted at their open calls, for those who look at the table."""
    if before is not None and not before.pending_tools:
        return []
    results = [item for item in items if isinstance(item, ToolResult)]
    return [Statement(queries.SET_TOOL_OUTCOME, (result.outcome, session_id, result.call_id)) for result in results]


def tool_changes(checkpoint: Checkpoint, before: SmallTables | None) -> list[Statement]:
    """Rows of calls that were asked for, moved on or closed."""
    session_id, tools = checkpoint.session_id, checkpoint.pending_tools
    if before is not None and tools is before.pending_tools:
        return []
    old = {tool.call.call_id: tool for tool in before.pending_tools} if before else {}
    same = {tool.call.call_id for tool in tools if _goes_on(old.get(tool.call.call_id), tool)}
    in_order = [tool.call.call_id for tool in tools[: len(same)]] == [id for id in old if id in same]
    if before is None or not in_order:
        return _all_tools(checkpoint)
    closed = [(session_id, call_id) for call_id in old if call_id not in same]
    moved = [tool for tool in tools if tool.call.call_id in same and tool != old[tool.call.call_id]]
    return [
        *_rows(queries.CLOSE_TOOL, closed),
        *_rows(queries.UPDATE_TOOL, [_tool_change(session_id, tool) for tool in moved]),
        *_insert_tools(checkpoint, range(len(same), len(tools))),
    ]


def _goes_on(old: PendingTool | None, new: PendingTool) -> bool:
    """The same row. A call id is unique in its batch only: after `done`, the same id is a call of the next batch."""
    return old is not None and old.call == new.call and not (old.state == "done" and new.state != "done")


def _all_tools(checkpoint: Checkpoint) -> list[Statement]:
    ids: list[JsonValue] = [tool.call.call_id for tool in checkpoint.pending_tools]
    return [
        Statement(queries.CLOSE_OTHER_TOOLS, (checkpoint.session_id, codec.encode_json(ids))),
        Statement(queries.DELETE_OPEN_TOOLS, (checkpoint.session_id,)),
        *_insert_tools(checkpoint, range(len(ids))),
    ]


def _insert_tools(checkpoint: Checkpoint, indexes: range) -> list[Statement]:
    turn_id = checkpoint.active_execution.turn_id if checkpoint.active_execution else ""
    rows: list[tuple[Any, ...]] = []
    for index in indexes:
        tool = checkpoint.pending_tools[index]
        identity = (checkpoint.session_id, checkpoint.sequence, index, tool.call.call_id, turn_id, tool.call.name)
        rows.append((*identity, tool.state, tool.idempotency_key, codec.encode(PendingTool, tool)))
    return _rows(queries.INSERT_TOOL, rows)


def _tool_change(session_id: str, tool: PendingTool) -> tuple[Any, ...]:
    return (tool.state, tool.idempotency_key, codec.encode(PendingTool, tool), session_id, tool.call.call_id)


# -- the pending approval


def approval_changes(
    session_id: str,
    before: SmallTables | None,
    approval: PendingApproval | None,
    events: Sequence[EventMsg | Event],
    now_ms: int,
) -> list[Statement]:
    """The row of a request that is asked, decided or closed. `events` tell how an undecided one was closed."""
    if before is None:
        others = Statement(queries.CLOSE_OTHER_APPROVALS, (session_id, approval.request_id if approval else ""))
        return [others, *_ask(queries.UPSERT_APPROVAL, session_id, approval, now_ms)]
    old = before.pending_approval
    if old is None or approval is None or old.request_id != approval.request_id:
        return [
            *_close(session_id, old, events, now_ms),
            *_ask(queries.INSERT_APPROVAL, session_id, approval, now_ms),
        ]
    return [] if old == approval else _change(session_id, old, approval)


def _ask(sql: str, session_id: str, approval: PendingApproval | None, now_ms: int) -> list[Statement]:
    if approval is None:
        return []
    identity = (session_id, approval.request_id, approval.turn_id, approval.submission_id)
    times = (now_ms, approval.expires_at_ms)
    asked = codec.encode_actions(approval.actions)
    return [Statement(sql, (*identity, *times, *_decision(approval), asked, _payload(approval)))]


def _decision(approval: PendingApproval) -> tuple[Any, ...]:
    return (approval.decision, approval.decided_by, approval.decided_at_ms)


def _payload(approval: PendingApproval) -> str:
    """The request without its decision, which has columns of its own."""
    undecided = replace(approval, decision=None, decided_by=None, decided_at_ms=None)
    return codec.encode(PendingApproval, undecided)


def _change(session_id: str, old: PendingApproval, new: PendingApproval) -> list[Statement]:
    key = (session_id, new.request_id)
    changes = [Statement(queries.UPDATE_APPROVAL, (new.expires_at_ms, _payload(new), *key), 1)]
    if _decision(new) != _decision(old):
        decided = f"session {session_id!r}: approval {new.request_id!r} was decided before; nothing was written"
        changes.append(Statement(queries.DECIDE_APPROVAL, (*_decision(new), *key), 1, lambda: CheckpointError(decided)))
    return changes


def _close(
    session_id: str, approval: PendingApproval | None, events: Sequence[EventMsg | Event], now_ms: int
) -> list[Statement]:
    if approval is None:
        return []
    decision: tuple[Any, ...] = (None, None, None)
    for event in events:
        msg = event.msg if isinstance(event, Event) else event
        if isinstance(msg, ApprovalResolved) and msg.request_id == approval.request_id:
            decision = (msg.decision, msg.decided_by, now_ms)
    return [Statement(queries.CLOSE_APPROVAL, (*decision, session_id, approval.request_id), 1)]


# -- the loop


def loop_changes(checkpoint: Checkpoint, before: SmallTables | None, after: SmallTables) -> list[Statement]:
    """The row of the loop; a session without a loop that runs as usual has none."""
    session_id, state = checkpoint.session_id, checkpoint.loop_state
    if before is not None and (before.loop_state, before.runtime_status) == (after.loop_state, after.runtime_status):
        return []
    if state is None and after.runtime_status == "running":
        return [Statement(queries.DELETE_LOOP, (session_id,))]
    params = (session_id, loop_status(state), after.runtime_status, after.loop_state)
    return [Statement(queries.UPSERT_LOOP, params)]


def loop_status(state: JsonValue) -> str | None:
    """The status that a loop's state names, in the column's spelling; None where it names none that is known."""
    status = state.get("status") if isinstance(state, dict) else None
    return _LOOP_STATUS.get(status.lower().replace("_", "")) if isinstance(status, str) else None
