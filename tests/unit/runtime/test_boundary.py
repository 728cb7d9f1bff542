"""What a session does next, as a table: every state has exactly one next move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.protocol import (
    ActiveExecution,
    Boundary,
    Checkpoint,
    ExecutionPhase,
    PendingApproval,
    PendingTool,
    QueuedMessage,
    Resolution,
    ToolCall,
)
from runtime.session.boundary import (
    Authorise,
    Complete,
    EndInterrupted,
    ExpireApproval,
    InFlight,
    Move,
    Rest,
    Rules,
    RunTools,
    SkipTools,
    StartStep,
    TakeMessage,
    Wait,
    next_move,
)

NOW = 1_000_000
ACTIVE = ActiveExecution(submission_id="m", turn_id="t", started_at_ms=NOW)
IDLE = replace(Checkpoint.empty("s"), model_route="main")
RUNNING = replace(IDLE, active_execution=ACTIVE)
STEER = QueuedMessage(id="steer", boundary=Boundary.steer("t"), author="ann", text="this too")
QUEUED = QueuedMessage(id="queued", boundary=Boundary.queue(), author="ann", text="next")
FREE, GATED, THIRD = (ToolCall(call_id=name, name=name) for name in ("free", "gated", "third"))
AUTHORISED = InFlight(authorised=True)
PARALLEL = Rules(parallel=frozenset({"free", "third"}))


def pending(*calls: ToolCall, state: Any = "pending") -> tuple[PendingTool, ...]:
    return tuple(PendingTool(call=each, state=state) for each in calls)


def approval(decision: Resolution | None = None, expires_at_ms: int | None = None) -> PendingApproval:
    return PendingApproval(
        request_id="r",
        turn_id="t",
        submission_id="m",
        calls=(FREE, GATED),
        gated=("gated",),
        actions={},
        digests={},
        decision=decision,
        expires_at_ms=expires_at_ms,
    )


def turn(**fields: Any) -> Checkpoint:
    """A running turn, changed."""
    active = {name: fields.pop(name) for name in ("phase", "interrupted_by") if name in fields}
    return replace(RUNNING, active_execution=replace(ACTIVE, **active), **fields)


DONE = ExecutionPhase.completion("done")
STARTED_FREE = pending(FREE, state="started")

TABLE: dict[str, tuple[Checkpoint, InFlight, Rules, Move]] = {
    "nothing to do": (IDLE, InFlight(), Rules(), Rest()),
    "a message waits": (replace(IDLE, pending_messages=(QUEUED,)), InFlight(), Rules(), TakeMessage(message=QUEUED)),
    "the session retires": (replace(IDLE, pending_messages=(QUEUED,), retiring=True), InFlight(), Rules(), Rest()),
    "a turn begins": (RUNNING, InFlight(), Rules(), StartStep()),
    "a turn runs and a message waits": (turn(pending_messages=(QUEUED,)), InFlight(), Rules(), StartStep()),
    "the model is asked": (RUNNING, InFlight(model=True), Rules(), Wait()),
    "the model is asked again later": (RUNNING, InFlight(backing_off=True), Rules(), Wait()),
    "a stop wins over the model": (turn(interrupted_by="ann"), InFlight(model=True), Rules(), EndInterrupted()),
    "a stop wins over a back-off": (turn(interrupted_by="ann"), InFlight(backing_off=True), Rules(), EndInterrupted()),
    "a stop wins over tools": (
        turn(interrupted_by="ann", pending_tools=STARTED_FREE),
        InFlight(tools=frozenset({"free"})),
        Rules(),
        EndInterrupted(),
    ),
    "a stop wins over completion": (turn(interrupted_by="a", phase=DONE), InFlight(), Rules(), EndInterrupted()),
    "the model has ended": (turn(phase=DONE), InFlight(), Rules(), Complete()),
    "a fresh batch": (turn(pending_tools=pending(FREE)), InFlight(), Rules(), Authorise()),
    "a call may run": (turn(pending_tools=pending(FREE)), AUTHORISED, Rules(), RunTools(call_ids=("free",))),
    "one after another": (
        turn(pending_tools=(*STARTED_FREE, *pending(GATED))),
        InFlight(authorised=True, tools=frozenset({"free"})),
        Rules(),
        Wait(),
    ),
    "only the first of a batch": (
        turn(pending_tools=pending(FREE, GATED)),
        AUTHORISED,
        Rules(),
        RunTools(call_ids=("free",)),
    ),
    "side by side": (
        turn(pending_tools=pending(FREE, THIRD, GATED)),
        AUTHORISED,
        PARALLEL,
        RunTools(call_ids=("free", "third")),
    ),
    "side by side joins what runs": (
        turn(pending_tools=(*STARTED_FREE, *pending(THIRD))),
        InFlight(authorised=True, tools=frozenset({"free"})),
        PARALLEL,
        RunTools(call_ids=("third",)),
    ),
    "side by side waits for one that must run alone": (
        turn(pending_tools=(*pending(GATED, state="started"), *pending(THIRD))),
        InFlight(authorised=True, tools=frozenset({"gated"})),
        PARALLEL,
        Wait(),
    ),
    "a person is asked": (
        turn(pending_tools=pending(FREE, GATED), pending_approval=approval()),
        InFlight(),
        Rules(),
        Wait(),
    ),
    "a person is asked until an instant": (
        turn(pending_tools=pending(FREE, GATED), pending_approval=approval(expires_at_ms=NOW + 1)),
        InFlight(),
        Rules(),
        Wait(until_ms=NOW + 1),
    ),
    "a person did not answer": (
        turn(pending_tools=pending(FREE, GATED), pending_approval=approval(expires_at_ms=NOW)),
        InFlight(),
        Rules(),
        ExpireApproval(),
    ),
    "a steer does not overtake the question": (
        turn(pending_tools=pending(FREE, GATED), pending_approval=approval(), pending_messages=(STEER,)),
        InFlight(),
        Rules(),
        Wait(),
    ),
    "decided, after a restart": (
        turn(pending_tools=pending(FREE, GATED), pending_approval=approval(Resolution.APPROVED)),
        InFlight(),
        Rules(),
        Authorise(),
    ),
    "a steer skips what has not begun": (
        turn(pending_tools=pending(FREE, THIRD), pending_messages=(STEER,)),
        AUTHORISED,
        Rules(),
        SkipTools(calls=(FREE, THIRD)),
    ),
    "a steer skips nothing that a person approved": (
        turn(
            pending_tools=pending(FREE, GATED),
            pending_messages=(STEER,),
            pending_approval=approval(Resolution.APPROVED),
        ),
        AUTHORISED,
        Rules(),
        SkipTools(calls=(FREE,)),
    ),
    "an approved call runs although a steer waits": (
        turn(
            pending_tools=(*pending(FREE, state="done"), *pending(GATED)),
            pending_messages=(STEER,),
            pending_approval=approval(Resolution.EDITED),
        ),
        AUTHORISED,
        Rules(),
        RunTools(call_ids=("gated",)),
    ),
    "a steer skips nothing where that is switched off": (
        turn(pending_tools=pending(FREE), pending_messages=(STEER,)),
        AUTHORISED,
        Rules(skip_tools_on_steer=False),
        RunTools(call_ids=("free",)),
    ),
    "a steer of another turn skips nothing": (
        turn(pending_tools=pending(FREE), pending_messages=(replace(STEER, boundary=Boundary.steer("old")),)),
        AUTHORISED,
        Rules(),
        RunTools(call_ids=("free",)),
    ),
    "a queued message skips nothing": (
        turn(pending_tools=pending(FREE), pending_messages=(QUEUED,)),
        AUTHORISED,
        Rules(),
        RunTools(call_ids=("free",)),
    ),
    "the last call runs": (
        turn(pending_tools=STARTED_FREE),
        InFlight(authorised=True, tools=frozenset({"free"})),
        Rules(),
        Wait(),
    ),
}


@pytest.mark.parametrize("state", TABLE)
def test_every_state_has_its_move(state: str) -> None:
    """The table above is what the session does."""
    checkpoint, flight, rules, move = TABLE[state]
    assert next_move(checkpoint, flight, rules, NOW) == move


@given(
    states=st.lists(st.sampled_from(["pending", "started", "done"]), max_size=3),
    decision=st.sampled_from([None, *Resolution]),
    asked=st.booleans(),
    steered=st.booleans(),
    stopped=st.booleans(),
    authorised=st.booleans(),
)
def test_no_call_begins_before_its_decision_and_a_stop_always_wins(
    states: list[Any], decision: Resolution | None, asked: bool, steered: bool, stopped: bool, authorised: bool
) -> None:
    """Whatever the state: while a person is asked nothing starts, and a stopped turn does nothing but end."""
    calls = [FREE, GATED, THIRD][: len(states)]
    checkpoint = turn(
        pending_tools=tuple(PendingTool(call=c, state=s) for c, s in zip(calls, states, strict=True)),
        pending_approval=approval(decision) if asked else None,
        pending_messages=(STEER,) if steered else (),
        interrupted_by="ann" if stopped else None,
    )
    move = next_move(checkpoint, InFlight(authorised=authorised), Rules(), NOW)
    if stopped:
        assert move == EndInterrupted()
    elif states and asked and decision is None:
        assert move == Wait()
    elif isinstance(move, RunTools):
        assert authorised
        state_of = {tool.call.call_id: tool.state for tool in checkpoint.pending_tools}
        assert all(state_of[call_id] == "pending" for call_id in move.call_ids)
