"""Saves that write only what changed leave exactly what was saved, whatever changed."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import CheckpointError
from runtime.protocol import (
    ActiveExecution,
    Boundary,
    Checkpoint,
    Context,
    PendingApproval,
    PendingTool,
    QueuedMessage,
    Resolution,
    ToolCall,
    ToolResult,
    events,
)
from runtime.store import changes, queries
from runtime.store.changes import LOOP_STATUSES, SmallTables, small_tables
from runtime.store.sqlite import SqliteStore
from runtime.testing import FakeClock
from tests.support.checkpoints import (
    ITEMS,
    MESSAGES,
    READ,
    SHELL,
    TOOLS,
    WRITE,
    action,
    approval,
    following,
    full_checkpoint,
    grown,
)

ids = st.sampled_from(["m1", "m2", "m3", "m4", "m5"])
messages = st.lists(
    st.builds(
        QueuedMessage,
        id=ids,
        boundary=st.sampled_from([Boundary.queue(), Boundary.turn(), Boundary.steer("t")]),
        author=st.just("ada"),
        text=st.sampled_from(["a", "b"]),
    ),
    max_size=5,
    unique_by=lambda message: message.id,
).map(tuple)
calls = st.builds(
    ToolCall, call_id=st.sampled_from(["c1", "c2", "c3"]), name=st.just("n"), arguments=st.sampled_from([{}, {"a": 1}])
)
tools = st.lists(
    st.builds(
        PendingTool,
        call=calls,
        state=st.sampled_from(["pending", "started", "done"]),
        idempotency_key=st.sampled_from(["k", ""]),
    ),
    max_size=3,
    unique_by=lambda tool: tool.call.call_id,
).map(tuple)
states = st.fixed_dictionaries(
    {
        "pending_messages": messages,
        "pending_tools": tools,
        "asked": st.booleans(),
        "loop_state": st.sampled_from([None, {"status": "Running"}, {"status": "odd"}, 7, "x"]),
        "runtime_status": st.sampled_from(["running", "suspended", "completed", "failed"]),
        "metadata": st.sampled_from([{}, {"a": 1}, {"a": [1, "ü"]}]),
        "title": st.sampled_from([None, "a"]),
        "who": st.sampled_from(["same store", "another store"]),
    }
)


def asked(sequence: int) -> PendingApproval:
    """A request of its own for each save, for its id is used once."""
    return approval(request_id=f"request-{sequence}", turn_id="t", decision=None, decided_by=None, decided_at_ms=None)


def checkpoint_of(sequence: int, state: dict[str, Any]) -> Checkpoint:
    """The checkpoint of a drawn state; a turn runs in it."""
    fields = {name: value for name, value in state.items() if name not in ("asked", "who")}
    return Checkpoint(
        session_id="s",
        sequence=sequence,
        active_execution=ActiveExecution(submission_id="m", turn_id="t", started_at_ms=1),
        pending_approval=asked(sequence) if state["asked"] else None,
        **fields,
    )


@settings(max_examples=60)
@given(st.lists(states, min_size=1, max_size=6))
def test_any_sequence_of_saves_leaves_the_last(drawn: list[dict[str, Any]]) -> None:
    """Whatever came before, and whichever store wrote it, what is on disk is the checkpoint that was saved last."""

    async def run(folder: Path) -> None:
        stores = {name: await SqliteStore.open(folder / "s.db") for name in ("same store", "another store", "reader")}
        for sequence, state in enumerate(drawn):
            checkpoint = checkpoint_of(sequence, state)
            await stores[state["who"]].save(checkpoint)
            assert await stores["reader"].load("s") == checkpoint
        for store in stores.values():
            await store.aclose()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def with_messages(count: int, **changed: Any) -> tuple[QueuedMessage, ...]:
    """Some waiting messages."""
    return tuple(replace(MESSAGES[1], id=f"m{number}", **changed) for number in range(count))


def tables(**fields: Any) -> SmallTables:
    """Small tables as after a first save."""
    return small_tables(replace(Checkpoint.empty("s"), **fields), None)


def sql_of(statements: list[Any]) -> list[tuple[str, int]]:
    """The statements by name of their query, with the number of rows they are for."""
    names = {text: name for name, text in vars(queries).items() if isinstance(text, str)}
    return [(names[each.sql], len(each.params) if each.many else 1) for each in statements]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (with_messages(3), []),
        (with_messages(4), [("INSERT_PENDING", 1)]),
        (with_messages(3)[1:], [("DELETE_PENDING", 1)]),
        ((), [("DELETE_PENDING", 3)]),
        ((*with_messages(3)[:2], replace(with_messages(3)[2], text="edited")), [("UPDATE_PENDING", 1)]),
        ((*with_messages(4)[1:],), [("DELETE_PENDING", 1), ("INSERT_PENDING", 1)]),
        (with_messages(3)[::-1], [("DELETE_PENDING", 2), ("INSERT_PENDING", 2)]),
        ((with_messages(4)[3], *with_messages(3)), [("DELETE_PENDING", 3), ("INSERT_PENDING", 4)]),
    ],
    ids=["same", "appended", "taken", "emptied", "edited", "taken and appended", "reordered", "put in front"],
)
def test_messages_that_stay_are_not_written(after: tuple[QueuedMessage, ...], expected: list[tuple[str, int]]) -> None:
    """A message may be a mebibyte long: it is written when it comes, and removed when it goes."""
    before = tables(pending_messages=with_messages(3))
    now = small_tables(replace(Checkpoint.empty("s"), pending_messages=after), before)
    assert sql_of(changes.message_changes("s", before, now)) == expected


def test_places_do_not_collide_after_many_moves() -> None:
    """A queue that is taken from in front and appended to behind keeps counting upward."""
    before = tables(pending_messages=with_messages(2))
    for first in range(1, 50):
        waiting = tuple(replace(MESSAGES[1], id=f"m{number}") for number in range(first, first + 2))
        now = small_tables(replace(Checkpoint.empty("s"), pending_messages=waiting), before)
        assert now.positions == (first, first + 1)
        before = now


def running(**fields: Any) -> Checkpoint:
    """A checkpoint with a turn."""
    return replace(full_checkpoint(), pending_approval=None, **fields)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (TOOLS, []),
        ((replace(TOOLS[0]), replace(TOOLS[1], state="done"), TOOLS[2]), [("UPDATE_TOOL", 1)]),
        (TOOLS[1:], [("CLOSE_TOOL", 1)]),
        ((), [("CLOSE_TOOL", 3)]),
        ((*TOOLS, PendingTool(call=replace(READ, call_id="call-4"))), [("INSERT_TOOL", 1)]),
        ((replace(TOOLS[0], state="pending"),), [("CLOSE_TOOL", 3), ("INSERT_TOOL", 1)]),
        ((replace(TOOLS[1], call=replace(WRITE, name="other")),), [("CLOSE_TOOL", 3), ("INSERT_TOOL", 1)]),
        (TOOLS[::-1], [("CLOSE_OTHER_TOOLS", 1), ("DELETE_OPEN_TOOLS", 1), ("INSERT_TOOL", 3)]),
    ],
    ids=["same", "moved on", "closed", "all closed", "added", "same id after done", "same id, other call", "reordered"],
)
def test_calls_that_stay_are_not_written(after: tuple[PendingTool, ...], expected: list[tuple[str, int]]) -> None:
    """A call's row is written when it is asked for, and changed only as the call moves on."""
    before = tables(active_execution=running().active_execution, pending_tools=TOOLS)
    assert sql_of(changes.tool_changes(running(pending_tools=after), before)) == expected


def test_nothing_changed_writes_nothing() -> None:
    """A save that changes none of the small tables touches none of them."""
    checkpoint = full_checkpoint()
    before = small_tables(checkpoint, None)
    after = small_tables(checkpoint, before)
    assert before == after
    assert changes.message_changes("s", before, after) == []
    assert changes.tool_changes(checkpoint, before) == []
    assert changes.approval_changes("s", before, checkpoint.pending_approval, (), 0) == []
    assert changes.loop_changes(checkpoint, before, after) == []
    assert changes.outcome_changes("s", (), before) == []


@pytest.mark.parametrize(
    ("state", "status"),
    [
        *(({"status": status}, status) for status in LOOP_STATUSES),
        ({"status": "BudgetExhausted"}, "budget_exhausted"),
        ({"status": "RecoveryUnsupported"}, "recovery_unsupported"),
        ({"status": "odd"}, None),
        ({"status": 7}, None),
        ({}, None),
        ("running", None),
        (None, None),
    ],
)
def test_a_loop_state_names_its_status(state: Any, status: str | None) -> None:
    """The typed column holds a known status in one spelling, or nothing for a state that is malformed."""
    assert changes.loop_status(state) == status


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = await SqliteStore.open(tmp_path / "s.db", clock=FakeClock(1_000))
    yield store
    await store.aclose()


async def test_approvals_are_kept_with_what_was_asked_and_what_ran(store: SqliteStore) -> None:
    """After an edit both Actions are there, with who decided and when, also once the batch is over."""
    undecided = approval(decision=None, decided_by=None, decided_at_ms=None)
    checkpoint = replace(full_checkpoint(), pending_approval=undecided)
    await store.save(checkpoint)
    edited = action(WRITE, arguments={"path": "c.txt"})
    decided = replace(
        undecided,
        actions={**undecided.actions, "call-2": edited},
        digests={**undecided.digests, "call-2": edited.digest()},
        decision=Resolution.EDITED,
        decided_by="telegram:8",
        decided_at_ms=900,
    )
    checkpoint = following(checkpoint, pending_approval=decided)
    await store.save(checkpoint)
    await store.save(following(checkpoint, pending_approval=None))
    row = await store.database.read(
        "SELECT open, decision, decided_by, decided_at_ms, requested_at_ms,"
        " json_extract(asked, '$.call-2.arguments.path'), json_extract(payload, '$.actions.call-2.arguments.path')"
        " FROM approvals"
    )
    assert row == [(0, "edited", "telegram:8", 900, 1_000, "b.txt", "c.txt")]


async def test_an_undecided_request_closes_with_the_reason_of_its_event(store: SqliteStore) -> None:
    """Interrupt, expiry and the like close the row with what the event says."""
    checkpoint = replace(
        full_checkpoint(), pending_approval=approval(decision=None, decided_by=None, decided_at_ms=None)
    )
    await store.save(checkpoint)
    resolved = events.ApprovalResolved(
        request_id="request-1", turn_id="turn-1", decision=Resolution.INTERRUPTED, decided_by="telegram:7"
    )
    other = events.ApprovalResolved(request_id="x", turn_id="turn-1", decision=Resolution.DENIED)
    await store.save(following(checkpoint, pending_approval=None), events=[resolved, other])
    rows = await store.database.read("SELECT open, decision, decided_by, decided_at_ms FROM approvals")
    assert rows == [(0, "interrupted", "telegram:7", 1_000)]


async def test_one_request_per_session_is_open(store: SqliteStore) -> None:
    """The database itself holds that a session has one open request."""
    await store.save(full_checkpoint())
    with sqlite3.connect(store.path) as outside, pytest.raises(sqlite3.IntegrityError):
        outside.execute(
            "INSERT INTO approvals SELECT session_id, 'second', 1, turn_id, submission_id, requested_at_ms,"
            " expires_at_ms, decision, decided_by, decided_at_ms, asked, payload FROM approvals"
        )
    outside.close()


async def test_a_decision_is_a_compare_and_set(store: SqliteStore) -> None:
    """Even with the trigger gone: where the row is decided, a second decision changes nothing."""
    undecided = approval(decision=None, decided_by=None, decided_at_ms=None)
    checkpoint = replace(full_checkpoint(), pending_approval=undecided)
    await store.save(checkpoint)
    with sqlite3.connect(store.path) as outside:
        outside.execute("DROP TRIGGER an_approval_is_decided_once")
        outside.execute("UPDATE approvals SET decision = 'denied', decided_by = 'first', decided_at_ms = 1")
    outside.close()
    approved = replace(undecided, decision=Resolution.APPROVED, decided_by="second", decided_at_ms=2)
    with pytest.raises(CheckpointError, match="decided before"):
        await store.save(following(checkpoint, pending_approval=approved))
    rows = await store.database.read("SELECT decision, decided_by FROM approvals")
    assert rows == [("denied", "first")]


async def test_calls_are_kept_with_their_outcome(store: SqliteStore) -> None:
    """After the batch the rows say how each call ended."""
    checkpoint = replace(full_checkpoint(), pending_approval=None, context=Context(ITEMS[:3]))
    await store.save(checkpoint)
    result = ToolResult(call_id="call-2", name="write_file", output="", outcome="completed")
    checkpoint, delta = grown(
        checkpoint, (result,), pending_tools=(TOOLS[0], replace(TOOLS[1], state="done"), TOOLS[2])
    )
    await store.save(checkpoint, delta)
    skipped = ToolResult(call_id="call-3", name="shell", output="skipped", is_error=True, outcome="skipped")
    checkpoint, delta = grown(checkpoint, (skipped,), pending_tools=())
    await store.save(checkpoint, delta)
    rows = await store.database.read("SELECT call_id, open, state, outcome, turn_id FROM tool_calls ORDER BY call_id")
    assert rows == [
        ("call-1", 0, "done", None, "turn-1"),
        ("call-2", 0, "done", "completed", "turn-1"),
        ("call-3", 0, "pending", "skipped", "turn-1"),
    ]
    assert SHELL.call_id == "call-3"
