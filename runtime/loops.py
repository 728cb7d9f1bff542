"""Bounded loops: one prompt, repeated at most so many times inside one session, so that its context accumulates.

No judge model decides: a loop ends when its iterations are done, its budget is used up, it makes no progress, somebody
stops it, or it fails. `run_loop` runs one and waits for its end; `ops.StartLoop` and `ops.StopLoop` do the same from
afar. Success is published only once it is stored for sure; see `docs/durability.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, Protocol

from runtime import loop_moves
from runtime.errors import AgentStopped, CheckpointError, ConfigurationError, LoopError
from runtime.loop_moves import Cancelled, Failed, Ok, Result, loop_of_turn
from runtime.protocol import ops
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.context import ContextDelta, JsonValue
from runtime.protocol.loops import LOOP_STATE_KEY, LoopState, LoopStatus
from runtime.session.agent import Agent
from runtime.session.looping import NOT_ADMITTED, LoopControl
from runtime.store.base import CheckpointStore

__all__ = [
    "LOOP_STATE_KEY",
    "NOT_ADMITTED",
    "Cancelled",
    "Failed",
    "LoopConfig",
    "LoopControl",
    "LoopError",
    "LoopSession",
    "LoopState",
    "LoopStatus",
    "Ok",
    "finish",
    "loop_of_turn",
    "read_loop_state",
    "run_loop",
]


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """A loop to run. `max_rounds` counts model calls in all; tokens count in and out; a number of time is in seconds.

    ConfigurationError, naming the value, for a budget that cannot be.
    """

    prompt: str
    max_iterations: int
    max_rounds: int
    token_budget: int | None = None
    time_budget: timedelta | float | None = None

    def __post_init__(self) -> None:
        problem = loop_moves.objection(
            self.prompt, self.max_iterations, self.max_rounds, self.token_budget, self.time_budget_seconds
        )
        if problem is not None:
            raise ConfigurationError(problem)

    @property
    def time_budget_seconds(self) -> float | None:
        """The budget of time in seconds."""
        return self.time_budget.total_seconds() if isinstance(self.time_budget, timedelta) else self.time_budget

    def as_op(self, *, author: str = "user", principal: str | None = None) -> ops.StartLoop:
        """What starts such a loop."""
        return ops.StartLoop(
            prompt=self.prompt,
            max_iterations=self.max_iterations,
            max_rounds=self.max_rounds,
            token_budget=self.token_budget,
            time_budget_seconds=self.time_budget_seconds,
            author=author,
            principal=principal,
        )


class HoldsLoopState(Protocol):
    """What has the stored state of a loop: a Checkpoint, a LoopSession."""

    @property
    def loop_state(self) -> JsonValue:
        """The state as JSON, or None."""
        ...


def read_loop_state(session: HoldsLoopState | Agent) -> LoopState | None:
    """The loop of a session, or None if it never had one. LoopError, saying what is wrong, for a malformed one.

    Of an agent it is the state in memory, which is ahead of the disk only after a save that was not admitted.
    """
    return loop_moves.from_json((session.checkpoint if isinstance(session, Agent) else session).loop_state)


async def run_loop(agent: Agent, config: LoopConfig, control: LoopControl | None = None) -> LoopState:
    """Run a loop in the agent's session and return its last state, with everything of it stored.

    The status says how it ended: Completed, Stopped, BudgetExhausted, or Cancelled by an interrupt. LoopError: it was
    refused (another one runs), it failed, or the session ended before it. Cancelling this call cancels the loop.
    Queued messages run between its iterations.
    """
    loop_id, ended = agent.watch_loop(control or LoopControl())
    try:
        receipt = await _submit(agent, config.as_op(), loop_id)
        if receipt.status != "accepted":
            raise LoopError(f"the loop was not started: {receipt.reason or receipt.status}")
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        await asyncio.shield(_cancel(agent, ended))
        raise
    finally:
        agent.forget_loop(loop_id)


async def _submit(agent: Agent, op: ops.Op, submission_id: str) -> Receipt:
    try:
        return await agent.submit(op, submission_id)
    except AgentStopped as stopped:
        raise LoopError(f"the loop was not started: {stopped.reason}") from stopped


async def _cancel(agent: Agent, ended: asyncio.Future[LoopState]) -> None:
    """Cancel the loop, and wait until that is stored or the agent has ended."""
    with contextlib.suppress(AgentStopped, LoopError):
        await agent.submit(ops.StopLoop(now=True))
        await ended


class LoopSession:
    """A session's loop and runtime status, to look at and to change while nobody runs the session."""

    def __init__(self, store: CheckpointStore, checkpoint: Checkpoint) -> None:
        self._store = store
        self._checkpoint = checkpoint

    @classmethod
    async def load(cls, store: CheckpointStore, session_id: str) -> LoopSession:
        """The session as it is stored. CheckpointError if there is none."""
        found = await store.load(session_id)
        if found is None:
            raise CheckpointError(f"session {session_id!r} does not exist")
        return cls(store, found)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._checkpoint.session_id

    @property
    def runtime_status(self) -> Literal["running", "suspended", "completed", "failed"]:
        """Where the session's runtime stands; `suspended`: its owner is gone."""
        return self._checkpoint.runtime_status

    @runtime_status.setter
    def runtime_status(self, status: Literal["running", "suspended", "completed", "failed"]) -> None:
        self._checkpoint = replace(self._checkpoint, runtime_status=status)

    @property
    def loop_state(self) -> JsonValue:
        """The loop's state as JSON, or None; `read_loop_state` reads it."""
        return self._checkpoint.loop_state

    @loop_state.setter
    def loop_state(self, state: LoopState | JsonValue) -> None:
        stored = loop_moves.as_json(state) if isinstance(state, LoopState) else state
        self._checkpoint = replace(self._checkpoint, loop_state=stored)

    async def checkpoint(self) -> None:
        """Store what is in memory; on return the disk is equal to it.

        StaleCheckpoint: somebody else wrote the session since it was loaded. Any other error: nothing was stored.
        """
        raised = replace(self._checkpoint, sequence=self._checkpoint.sequence + 1)
        nothing = ContextDelta(epoch=raised.context_epoch, start=len(raised.context), items=())
        try:
            await self._store.save(raised, nothing)
        except Exception:
            if await self._store.load(self.session_id) != raised:  # else it was kept all the same
                raise
        self._checkpoint = raised


async def finish(session: LoopSession, config: LoopConfig, expected_generation: int, result: Result) -> LoopState:
    """Write how the run of a loop ended, and store it; returns the state that is stored then.

    Counters, generation and the session's runtime status stay, whatever the outcome; the revision always rises. What
    becomes of the status depends on whether the runtime is suspended. LoopError, with the session exactly as it was:
    there is no loop, or its generation changed, so that this result is of a loop that is gone. An error of the store
    leaves the session as it was, too.
    """
    state = read_loop_state(session)
    if state is None:
        raise LoopError(f"session {session.session_id!r} has no loop to finish")
    if state.generation != expected_generation:
        raise LoopError(f"the loop's generation changed: expected {expected_generation}, found {state.generation}")
    after = loop_moves.finished(state, session.runtime_status == "suspended", result)
    before = session.loop_state
    if state.status == LoopStatus.RUNNING and after.status == LoopStatus.FAILED and isinstance(result, Ok):
        done = f"{after.iterations_completed} of {config.max_iterations} iterations are completed"
        after = replace(after, error=f"{after.error}: {done}")
    session.loop_state = loop_moves.as_json(after)
    try:
        await session.checkpoint()
    except BaseException:
        session.loop_state = before
        raise
    return after
