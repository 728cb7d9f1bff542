"""The table of moves of a bounded loop: what may follow what, and what stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import loop_moves as moves
from runtime.errors import LoopError
from runtime.protocol import ExecutionRecord, ToolCall, ToolResult, Usage
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.protocol.ops import StartLoop

S = LoopStatus


def loop(status: LoopStatus = S.RUNNING, **changed: Any) -> LoopState:
    values: dict[str, Any] = {
        "generation": 2,
        "owner_execution_id": "me",
        "revision": 5,
        "iterations_started": 1,
        "iterations_completed": 1,
        "rounds_started": 1,
        "max_iterations": 3,
        "max_rounds": 6,
        "prompt": "go",
        "loop_id": "loop",
        "started_at_ms": 1_000,
    }
    return LoopState(status=status, **{**values, **changed})


def record(outcome: Any, tokens: int = 7) -> ExecutionRecord:
    return ExecutionRecord(
        turn_id="t",
        submission_id="loop",
        started_at_ms=0,
        ended_at_ms=1,
        outcome=outcome,
        usage=Usage(input_tokens=tokens),
    )


EVENTS: dict[str, tuple[Callable[[LoopState], LoopState], dict[LoopStatus, LoopStatus]]] = {
    "stopped at a boundary": (lambda s: moves.left(s, S.STOPPED, "stop"), {S.RUNNING: S.STOPPED}),
    "out of budget": (lambda s: moves.left(s, S.BUDGET_EXHAUSTED, "rounds"), {S.RUNNING: S.BUDGET_EXHAUSTED}),
    "lost in a restart": (moves.lost, {S.RUNNING: S.RECOVERY_UNSUPPORTED, S.FINALIZING: S.RECOVERY_UNSUPPORTED}),
    "continued": (lambda s: moves.continued(s, "me", 9), {S.RECOVERY_UNSUPPORTED: S.RUNNING}),
    "failed": (
        lambda s: moves.failed(s, "x"),
        dict.fromkeys((S.RUNNING, S.FINALIZING, S.COMPLETED, S.STOPPED, S.BUDGET_EXHAUSTED), S.FAILED),
    ),
    "cancelled": (lambda s: moves.cancelled(s, "ann"), dict.fromkeys(set(S) - {S.CANCELLED}, S.CANCELLED)),
    "mirrored": (moves.mirrored, {S.FINALIZING: S.COMPLETED}),
}


@pytest.mark.parametrize("event", [name for name in EVENTS if name != "mirrored"])
@pytest.mark.parametrize("before", list(S))
def test_only_the_moves_of_the_table_are_made(before: LoopStatus, event: str) -> None:
    """Every other one is an error; counters and limits stay, and the revision rises."""
    move, allowed = EVENTS[event]
    state = loop(before)
    if before not in allowed:
        with pytest.raises(LoopError, match="cannot become"):
            move(state)
        return
    after = move(state)
    assert after.status == allowed[before]
    assert after.revision > state.revision
    for name in ("iterations_completed", "rounds_started", "max_iterations", "max_rounds", "prompt", "loop_id"):
        assert getattr(after, name) == getattr(state, name), name


def test_every_move_of_the_table_is_made_by_an_event() -> None:
    """The table has no line that nothing uses."""
    made = {(before, after) for _, allowed in EVENTS.values() for before, after in allowed.items()}
    assert made | {(S.RUNNING, S.FINALIZING)} == {
        (before, after) for before, allowed in moves.MOVES.items() for after in allowed
    }


RESULTS = (moves.Ok(), moves.Failed("x"), moves.Cancelled())


@pytest.mark.parametrize("suspended", [True, False])
@pytest.mark.parametrize("before", list(S))
def test_a_finisher_moves_along_the_table_too(before: LoopStatus, suspended: bool) -> None:
    """But for a result that changes nothing."""
    for result in RESULTS:
        after = moves.finished(loop(before), suspended, result)
        assert after.status == before or after.status in moves.MOVES[before]
        assert after.revision == 6


# ------------------------------------------------------------------------------------------- rounds and iterations


def test_a_loop_counts_its_rounds_and_iterations() -> None:
    """One iteration of two rounds, of which the second was tried twice; then the last one."""
    state = moves.iteration_started(loop(iterations_started=0, iterations_completed=0, rounds_started=0))
    assert (state.iterations_started, state.iterations_completed) == (1, 0)
    state = moves.round_started(state, 0)
    assert not moves.round_is_over(state, 0)
    assert moves.round_is_over(state, 1)
    state = moves.round_closed(state)
    assert not moves.round_is_over(state, 1)
    state = moves.round_started(moves.round_started(state, 1), 1)
    assert state.rounds_started == 2
    state = moves.turn_ended(state, record("completed"), "one", "", None)
    assert (state.status, state.iterations_completed, state.tokens_used) == (S.RUNNING, 1, 7)
    last = moves.turn_ended(
        replace(state, iterations_started=3, iterations_completed=2), record("completed"), "three", "", None
    )
    assert (last.status, last.iterations_completed) == (S.FINALIZING, 3)


@pytest.mark.parametrize(("outcome", "status"), [("failed", S.FAILED), ("aborted", S.CANCELLED)])
def test_a_turn_without_an_answer_ends_the_loop(outcome: str, status: LoopStatus) -> None:
    """Its iteration is not counted as completed; what it used is."""
    state = moves.turn_ended(loop(iterations_started=2), record(outcome), None, "why", "ann")
    assert (state.status, state.iterations_started, state.iterations_completed, state.tokens_used) == (status, 2, 1, 7)
    assert (state.error, state.stopped_by) == (("why", None) if status == S.FAILED else (None, "ann"))


def test_what_an_iteration_did_is_compared_as_a_whole() -> None:
    """Answer, calls, arguments, results and their order count; ids do not."""

    def iteration(answer: str, *effects: tuple[str, int, str]) -> str:
        state = moves.iteration_started(loop())
        for n, (name, argument, output) in enumerate(effects):
            call = ToolCall(call_id=f"{id(effects)}-{n}", name=name, arguments={"n": argument})
            state = moves.with_effect(state, call, ToolResult(call_id=call.call_id, name=name, output=output))
        return moves.iteration_completed(state, answer, 0).last_iteration

    same = iteration("a", ("x", 1, "ok"), ("y", 1, "ok"))
    assert iteration("a", ("x", 1, "ok"), ("y", 1, "ok")) == same
    others = [
        iteration("b", ("x", 1, "ok"), ("y", 1, "ok")),
        iteration("a", ("x", 2, "ok"), ("y", 1, "ok")),
        iteration("a", ("x", 1, "no"), ("y", 1, "ok")),
        iteration("a", ("y", 1, "ok"), ("x", 1, "ok")),
        iteration("a", ("x", 1, "ok")),
        iteration("a"),
    ]
    assert same not in others
    assert len(set(others)) == len(others)


VERDICTS: list[tuple[dict[str, Any], dict[str, Any], Any]] = [
    ({}, {}, None),
    ({}, {"stop": True}, (S.STOPPED, "stop")),
    ({"stop_requested": True}, {}, (S.STOPPED, "stop")),
    ({"stop_requested": True}, {"tokens_in_turn": 0}, None),
    ({"repeated": True}, {}, (S.STOPPED, "no_progress")),
    ({"rounds_started": 6}, {}, (S.BUDGET_EXHAUSTED, "rounds")),
    ({"token_budget": 10, "tokens_used": 9}, {}, None),
    ({"token_budget": 10, "tokens_used": 9}, {"tokens_in_turn": 1}, (S.BUDGET_EXHAUSTED, "tokens")),
    ({"time_budget_seconds": 1.0}, {}, (S.BUDGET_EXHAUSTED, "time")),
    ({"time_budget_seconds": 1.1}, {}, None),
    ({"rounds_started": 6}, {"stop": True}, (S.STOPPED, "stop")),
]


@pytest.mark.parametrize(("state", "seen", "expected"), VERDICTS, ids=str)
def test_the_verdict_of_a_boundary(state: dict[str, Any], seen: dict[str, Any], expected: Any) -> None:
    """A person's stop comes before lack of progress, and that before the budgets."""
    assert moves.verdict(loop(**state), 2_000, **{"stop": False, **seen}) == expected


@pytest.mark.parametrize(
    ("status", "runtime_status", "ended", "needed"),
    [
        (S.FINALIZING, "running", False, True),
        (S.FINALIZING, "completed", False, True),
        (S.STOPPED, "running", False, True),
        (S.STOPPED, "completed", False, False),
        (S.STOPPED, "running", True, False),
        (S.CANCELLED, "running", False, False),
        (S.RUNNING, "running", False, False),
    ],
)
def test_which_ends_need_their_mirror(status: LoopStatus, runtime_status: str, ended: bool, needed: bool) -> None:
    """Successes that are not yet the session's own, and nothing else."""
    assert moves.needs_mirror(loop(status, ended=ended), runtime_status) is needed


# ------------------------------------------------------------------------------------------- generations, reading


def test_a_new_loop_has_a_new_generation() -> None:
    """So that a finisher of the one before changes nothing of it."""
    op = StartLoop(prompt="go", max_iterations=1, max_rounds=1)
    assert moves.admitted(op, "a", "me", None, 5).generation == 1
    assert moves.admitted(op, "b", "me", loop(S.COMPLETED), 5).generation == 3


def test_taking_over_and_continuing_keep_the_counters() -> None:
    """Both are a new generation of a new owner; continuing begins the lost iteration again, and its time."""
    state = loop(S.RUNNING, iterations_started=2, stop_requested=True)
    taken = moves.taken_over(state, "other")
    assert taken == replace(state, generation=3, owner_execution_id="other", revision=6)
    lost = replace(moves.lost(state), ended=True)
    again = moves.continued(lost, "other", 9_000)
    assert (again.generation, again.iterations_started, again.started_at_ms) == (3, 1, 9_000)
    assert (again.ended, again.stop_requested, again.reason) == (False, False, None)


states = st.builds(
    LoopState,
    status=st.sampled_from(S),
    iterations_started=st.integers(5, 9),
    iterations_completed=st.integers(0, 5),
    prompt=st.text(),
    error=st.none() | st.text(),
    time_budget_seconds=st.none() | st.floats(0.1, 1e9),
    ended=st.booleans(),
)


@given(states)
def test_a_state_comes_back_as_it_was(state: LoopState) -> None:
    """Through its JSON, and in the column's spelling of the status."""
    stored = moves.as_json(state)
    assert stored.keys() == {field.name for field in fields(LoopState)}
    assert moves.from_json(stored) == state
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in state.status.value).lstrip("_")
    assert moves.from_json({**stored, "status": snake}) == state
