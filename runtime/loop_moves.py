"""What may become of a bounded loop: its table of moves, as pure functions from state to state.

Nothing here reads a clock, makes an id or touches a disk; `runtime.session` puts the results into transactions.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

import msgspec

from runtime.errors import LoopError
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord
from runtime.protocol.context import JsonValue, ToolCall, ToolResult
from runtime.protocol.events import Event, TurnStarted
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.protocol.ops import MAX_TEXT_BYTES, StartLoop

Reason: TypeAlias = Literal["stop", "no_progress", "rounds", "tokens", "time"]

SUCCESSES = frozenset({LoopStatus.COMPLETED, LoopStatus.STOPPED, LoopStatus.BUDGET_EXHAUSTED})
"""Ends that are announced as a success, once they are admitted."""

FINAL = SUCCESSES | {LoopStatus.CANCELLED, LoopStatus.FAILED, LoopStatus.RECOVERY_UNSUPPORTED}

MOVES: dict[LoopStatus, frozenset[LoopStatus]] = {
    LoopStatus.RUNNING: FINAL - {LoopStatus.COMPLETED} | {LoopStatus.FINALIZING},
    LoopStatus.FINALIZING: frozenset(
        {LoopStatus.COMPLETED, LoopStatus.FAILED, LoopStatus.CANCELLED, LoopStatus.RECOVERY_UNSUPPORTED}
    ),
    LoopStatus.COMPLETED: frozenset({LoopStatus.FAILED, LoopStatus.CANCELLED}),
    LoopStatus.STOPPED: frozenset({LoopStatus.FAILED, LoopStatus.CANCELLED}),
    LoopStatus.BUDGET_EXHAUSTED: frozenset({LoopStatus.FAILED, LoopStatus.CANCELLED}),
    LoopStatus.FAILED: frozenset({LoopStatus.CANCELLED}),
    LoopStatus.RECOVERY_UNSUPPORTED: frozenset({LoopStatus.CANCELLED, LoopStatus.RUNNING}),
    LoopStatus.CANCELLED: frozenset(),
}
"""Every change of status that there is. RecoveryUnsupported to Running is a person's word, under a new generation."""


@dataclass(frozen=True, slots=True)
class Ok:
    """The run ended in order."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended by an error."""

    error: BaseException | str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run was cancelled."""


Result: TypeAlias = Ok | Failed | Cancelled


# ------------------------------------------------------------------------------------------------ reading and writing


def as_json(state: LoopState) -> dict[str, JsonValue]:
    """The state as it is stored."""
    return {**asdict(state), "status": state.status.value}


def from_json(stored: JsonValue) -> LoopState | None:
    """The state that is stored, or None; LoopError, saying what is wrong, for one that is malformed."""
    if stored is None:
        return None
    try:
        return msgspec.convert(stored, LoopState)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise LoopError(f"the stored loop state is malformed: {error}") from error


def loop_of(checkpoint: Checkpoint) -> LoopState | None:
    """The loop of a session, or None; a malformed one is none that could go on."""
    if checkpoint.loop_state is None:
        return None
    try:
        return from_json(checkpoint.loop_state)
    except LoopError:
        return None


def within_iteration(checkpoint: Checkpoint) -> LoopState | None:
    """The loop whose iteration the running turn is, or None: it is another turn, or none runs."""
    loop = loop_of(checkpoint) if checkpoint.active_execution is not None else None
    if loop is None or loop.status != LoopStatus.RUNNING or loop.iterations_started == loop.iterations_completed:
        return None
    return loop


def has_work(checkpoint: Checkpoint) -> bool:
    """Whether a loop goes on, or its end is still to be told."""
    loop = loop_of(checkpoint)
    return loop is not None and not loop.ended


def loop_of_turn(event: Event) -> str | None:
    """The loop whose iteration begins with this TurnStarted, or None: a person's message begins its turn."""
    msg = event.msg
    if not isinstance(msg, TurnStarted) or event.submission_id is None or msg.message_id is None:
        return None
    return event.submission_id if msg.message_id.startswith(f"{event.submission_id}:") else None


def message_id(state: LoopState) -> str:
    """The id of the prompt as the message of the next iteration."""
    return f"{state.loop_id}:{state.iterations_completed + 1}"


# ------------------------------------------------------------------------------------------------ admission


def objection(
    prompt: str, max_iterations: int, max_rounds: int, token_budget: int | None, time_budget_seconds: float | None
) -> str | None:
    """Why such a loop cannot be: a sentence that names the value, or None."""
    if not prompt.strip():
        return "the prompt of a loop is empty; say what is to be repeated"
    if len(prompt.encode(errors="replace")) > MAX_TEXT_BYTES:
        return f"the prompt of a loop is longer than {MAX_TEXT_BYTES >> 20} MiB"
    counts = (("max_iterations", max_iterations), ("max_rounds", max_rounds), ("token_budget", token_budget))
    for name, count in counts:
        if count is not None and not _is_count(count):
            return f"{name} is {count!r}; it must be a whole number of at least 1"
    if time_budget_seconds is not None and not (math.isfinite(time_budget_seconds) and time_budget_seconds > 0):
        return f"the time budget is {time_budget_seconds!r}; it must be longer than 0"
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def admitted(op: StartLoop, loop_id: str, owner: str, before: LoopState | None, now_ms: int) -> LoopState:
    """A loop that begins. Its generation is new in its session, so that a finisher of an older one changes nothing."""
    return LoopState(
        status=LoopStatus.RUNNING,
        generation=before.generation + 1 if before else 1,
        owner_execution_id=owner,
        revision=before.revision + 1 if before else 1,
        max_iterations=op.max_iterations,
        max_rounds=op.max_rounds,
        token_budget=op.token_budget,
        time_budget_seconds=op.time_budget_seconds,
        prompt=op.prompt,
        loop_id=loop_id,
        author=op.author,
        principal=op.principal,
        started_at_ms=now_ms,
    )


def taken_over(state: LoopState, owner: str) -> LoopState:
    """A running loop whose owner is gone goes on here, under a new generation and with its counters."""
    return _changed(state, generation=state.generation + 1, owner_execution_id=owner)


def continued(state: LoopState, owner: str, now_ms: int) -> LoopState:
    """A loop that could not be recovered begins its lost iteration again, because a person said so."""
    begun = _moved(state, LoopStatus.RUNNING, reason=None, error=None)
    return replace(
        begun,
        generation=state.generation + 1,
        owner_execution_id=owner,
        iterations_started=state.iterations_completed,
        started_at_ms=now_ms,
        stop_requested=False,
        stopped_by=None,
        ended=False,
    )


# ------------------------------------------------------------------------------------------------ going on


def iteration_started(state: LoopState) -> LoopState:
    """The prompt is given once more."""
    return _changed(state, iterations_started=state.iterations_started + 1, open_step=None, effects="", repeated=False)


def round_started(state: LoopState, step_index: int) -> LoopState:
    """The model is asked. A repeated attempt at the same step is the same round."""
    if state.open_step == step_index:
        return state
    return _changed(state, rounds_started=state.rounds_started + 1, open_step=step_index)


def round_is_over(state: LoopState, next_model_step: int) -> bool:
    """The step of the open round has its answer (whether its tools have run is the checkpoint's to say)."""
    return state.open_step is not None and next_model_step > state.open_step


def round_closed(state: LoopState) -> LoopState:
    """The model call and its tools are over."""
    return _changed(state, open_step=None)


def with_effect(state: LoopState, call: ToolCall, result: ToolResult) -> LoopState:
    """What a call did becomes part of what this iteration did."""
    told = [state.effects, call.name, dict(call.arguments), result.output, result.is_error]
    return replace(state, effects=_digest(told))


def iteration_completed(state: LoopState, answer: str | None, tokens: int) -> LoopState:
    """The model has ended its answer."""
    iteration = _digest([state.effects, answer])
    done = _changed(
        state,
        iterations_completed=state.iterations_completed + 1,
        tokens_used=state.tokens_used + tokens,
        open_step=None,
        effects="",
        last_iteration=iteration,
        repeated=iteration == state.last_iteration,
    )
    if done.iterations_completed < done.max_iterations:
        return done
    return _moved(state, LoopStatus.FINALIZING, of=done)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def verdict(
    state: LoopState, now_ms: int, *, stop: bool, tokens_in_turn: int | None = None
) -> tuple[LoopStatus, Reason] | None:
    """Whether a running loop ends at this boundary (no round is open), how and why; None if it goes on.

    `stop` is heeded at every boundary, a stop that is stored only between iterations. `tokens_in_turn` is None there.
    """
    between = tokens_in_turn is None
    if stop or (state.stop_requested and between):
        return LoopStatus.STOPPED, "stop"
    if state.repeated:
        return LoopStatus.STOPPED, "no_progress"
    if state.rounds_started >= state.max_rounds:
        return LoopStatus.BUDGET_EXHAUSTED, "rounds"
    if state.token_budget is not None and state.tokens_used + (tokens_in_turn or 0) >= state.token_budget:
        return LoopStatus.BUDGET_EXHAUSTED, "tokens"
    limit = state.time_budget_seconds
    if limit is not None and now_ms - state.started_at_ms >= limit * 1000:
        return LoopStatus.BUDGET_EXHAUSTED, "time"
    return None


# ------------------------------------------------------------------------------------------------ ending


def stop_requested(state: LoopState, by: str | None) -> LoopState:
    """It ends once no iteration runs."""
    return _changed(state, stop_requested=True, stopped_by=state.stopped_by or by)


def left(state: LoopState, status: LoopStatus, reason: str) -> LoopState:
    """It ended at a boundary: Stopped or BudgetExhausted."""
    return _moved(state, status, reason=reason, open_step=None)


def cancelled(state: LoopState, by: str | None) -> LoopState:
    """A person ended it at once."""
    return _moved(state, LoopStatus.CANCELLED, stopped_by=state.stopped_by or by, open_step=None)


def failed(state: LoopState, error: str) -> LoopState:
    """An error ended it, or undid an end that was not yet published."""
    return _moved(state, LoopStatus.FAILED, error=error, open_step=None)


def lost(state: LoopState) -> LoopState:
    """A restart found it inside an iteration that may not be gone on with."""
    return _moved(state, LoopStatus.RECOVERY_UNSUPPORTED, reason="restart", open_step=None)


def mirrored(state: LoopState) -> LoopState:
    """The state that goes with a runtime that is `completed`."""
    if state.status == LoopStatus.FINALIZING:
        return _moved(state, LoopStatus.COMPLETED)
    return _changed(state)


def announced(state: LoopState) -> LoopState:
    """`LoopEnded` is stored with it."""
    return _changed(state, ended=True)


def needs_mirror(state: LoopState, runtime_status: str) -> bool:
    """An end in order that is not yet the session's own."""
    if state.status == LoopStatus.FINALIZING:
        return True
    return state.status in SUCCESSES and not state.ended and runtime_status != "completed"


def turn_ended(state: LoopState, record: ExecutionRecord, answer: str | None, reason: str, by: str | None) -> LoopState:
    """What the end of an iteration's turn makes of its loop."""
    match record.outcome:
        case "completed":
            return iteration_completed(state, answer, record.usage.total_tokens)
        case "failed":
            return failed(_with_tokens(state, record), reason)
        case "aborted":
            return cancelled(_with_tokens(state, record), by)


def _with_tokens(state: LoopState, record: ExecutionRecord) -> LoopState:
    return replace(state, tokens_used=state.tokens_used + record.usage.total_tokens)


def finished(state: LoopState, suspended: bool, result: Result) -> LoopState:
    """The outcome of a finisher: counters, generation and limits stay, the revision rises."""
    match result:
        case Ok():
            status = _AFTER_OK_SUSPENDED.get(state.status) if suspended else _AFTER_OK.get(state.status)
            words = _AFTER_OK_ERROR if status == LoopStatus.FAILED and status != state.status else state.error
            return _changed(state, status=status or state.status, error=words)
        case Failed():
            kept = state.status in (LoopStatus.CANCELLED, LoopStatus.RECOVERY_UNSUPPORTED)
            text = state.error if kept else str(result.error)
            return _changed(state, status=state.status if kept else LoopStatus.FAILED, error=text)
        case Cancelled():
            return _changed(state, status=LoopStatus.CANCELLED)


_AFTER_OK: dict[LoopStatus, LoopStatus] = {
    LoopStatus.RUNNING: LoopStatus.FAILED,
    LoopStatus.FINALIZING: LoopStatus.COMPLETED,
}
_AFTER_OK_SUSPENDED: dict[LoopStatus, LoopStatus] = {
    LoopStatus.RUNNING: LoopStatus.RECOVERY_UNSUPPORTED,
    LoopStatus.FINALIZING: LoopStatus.RECOVERY_UNSUPPORTED,
}
_AFTER_OK_ERROR = "the run ended before its loop did"


def _changed(state: LoopState, **fields: object) -> LoopState:
    return replace(state, revision=state.revision + 1, **fields)  # type: ignore[arg-type]


def _moved(state: LoopState, status: LoopStatus, *, of: LoopState | None = None, **fields: object) -> LoopState:
    """`of` (by default the state itself) under another status, along the table."""
    if status not in MOVES[state.status]:
        raise LoopError(f"a loop that is {state.status} cannot become {status}")
    changed = of or _changed(state)
    return replace(changed, status=status, **fields)  # type: ignore[arg-type]
