"""What a restart finds, and what it makes of it: one pure function, evaluated in the order of its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from runtime import loop_moves, transitions
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import ToolCall
from runtime.protocol.loops import LoopStatus
from runtime.tools.base import Replay
from runtime.transitions import Draft

MAX_CRASHES = 3
RESTARTED = "interrupted by a restart"
POISONED = "this message ended the program three times in a row; it was not tried again"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """`abort` is the library's caution; `retry` and `continue` let a turn go on by itself."""

    on_interrupted_step: Literal["abort", "retry"] = "abort"
    on_uncertain_tools: Literal["abort", "continue"] = "abort"


def recover(
    checkpoint: Checkpoint,
    options: RecoveryOptions,
    replay_of: Callable[[ToolCall], Replay],
    now_ms: int,
    reference: str,
    owner: str = "",
) -> Draft:
    """The start-up transaction of a session found as `checkpoint`; unchanged if there is nothing to repair.

    `replay_of` tells the replay class of a call's tool (`unsafe` for one that is not known any more). `owner` names
    the execution that will run the session: a running loop of another one goes on under a new generation.
    """
    draft = Draft(checkpoint, now_ms)
    if checkpoint.active_execution is not None:
        _recover_turn(draft, options, replay_of, reference)
    _take_loop_over(draft, options, owner)
    transitions.release_steers(draft)
    return draft


def _take_loop_over(draft: Draft, options: RecoveryOptions, owner: str) -> None:
    loop = loop_moves.loop_of(draft.checkpoint)
    if loop is None or loop.status != LoopStatus.RUNNING or loop.owner_execution_id == owner:
        return
    if draft.checkpoint.active_execution is None and loop.iterations_started > loop.iterations_completed:
        if options.on_interrupted_step == "abort":  # of a checkpoint made by hand: ours begin and end with their turn
            transitions.lose_loop(draft, loop)
            return
        loop = replace(loop, iterations_started=loop.iterations_completed)
    transitions.start_loop(draft, loop_moves.taken_over(loop, owner))


def _recover_turn(
    draft: Draft, options: RecoveryOptions, replay_of: Callable[[ToolCall], Replay], reference: str
) -> None:
    found = draft.checkpoint
    started = [tool for tool in found.pending_tools if tool.state == "started"]
    if draft.active.interrupted_by is not None:
        transitions.abort_turn(
            draft, "stopped", by=draft.active.interrupted_by, started_text=transitions.UNKNOWN_OUTCOME
        )
        return
    if found.pending_approval is not None and found.pending_approval.decision is None:
        if started:  # no call of a batch starts before its decision, whatever a checkpoint made by hand says
            transitions.return_to_pending(draft, [tool.call.call_id for tool in started])
        return
    if not started and found.active_model_step is None:
        return
    crashes = draft.active.crash_count + 1
    if crashes >= MAX_CRASHES:
        _end_poisoned(draft, reference)
        return
    draft.change_active(crash_count=crashes)
    transitions.close_step(draft, "interrupted")
    if started:
        _recover_tools(draft, options, replay_of)
    elif options.on_interrupted_step == "abort":
        _give_up(draft)


def _recover_tools(draft: Draft, options: RecoveryOptions, replay_of: Callable[[ToolCall], Replay]) -> None:
    started = [tool for tool in draft.checkpoint.pending_tools if tool.state == "started"]
    unsafe = [tool for tool in started if replay_of(tool.call) == "unsafe"]
    transitions.return_to_pending(draft, [tool.call.call_id for tool in started if tool not in unsafe])
    for tool in unsafe:
        transitions.refuse_tool(draft, tool.call, transitions.UNKNOWN_OUTCOME, "unknown")
    if unsafe and options.on_uncertain_tools == "abort":
        _give_up(draft)


def _give_up(draft: Draft) -> None:
    """End the turn, and the loop whose iteration it is: what may not be repeated is not repeated by a loop either."""
    loop = loop_moves.within_iteration(draft.checkpoint)
    if loop is not None:
        transitions.lose_loop(draft, loop)
    transitions.abort_turn(draft, RESTARTED)


def _end_poisoned(draft: Draft, reference: str) -> None:
    draft.emit(events.Error(kind="stopped", message=POISONED, reference=reference, turn_id=draft.active.turn_id))
    transitions.abort_turn(
        draft,
        POISONED,
        outcome="failed",
        approval=Resolution.INVALIDATED,
        started_text=transitions.UNKNOWN_OUTCOME,
    )
