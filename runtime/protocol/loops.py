"""The state of a bounded loop, as it is stored beside its session's checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LOOP_STATE_KEY = "loop_state"
"""The name of the JSON in table `loops`, and of the checkpoint's field that holds it. It is not in the metadata."""


class LoopStatus(StrEnum):
    """Where a loop stands. Column `status` of table `loops` has the same words in snake case."""

    RUNNING = "Running"
    FINALIZING = "Finalizing"
    COMPLETED = "Completed"
    STOPPED = "Stopped"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    CANCELLED = "Cancelled"
    FAILED = "Failed"
    RECOVERY_UNSUPPORTED = "RecoveryUnsupported"

    @classmethod
    def _missing_(cls, value: object) -> LoopStatus | None:
        """Both spellings are understood: the JSON's and the column's."""
        word = value.replace("_", "").lower() if isinstance(value, str) else None
        return next((status for status in cls if status.value.lower() == word), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """One bounded loop. `generation` is the loop's own, not the lease's; `revision` rises with every change.

    A round is one model call with its tools; an iteration is the rounds until the model ends its answer, and one turn.
    `iterations_started` is one more than `iterations_completed` exactly while an iteration has begun and not ended
    well. `open_step` is the index of the model step whose round is not over. `effects` digests what the tools of this
    iteration did until now, `last_iteration` all of the last one. `ended`: `LoopEnded` is stored for this generation.
    Instants are UTC milliseconds.
    """

    status: LoopStatus
    generation: int = 1
    owner_execution_id: str = ""
    revision: int = 0
    iterations_started: int = 0
    iterations_completed: int = 0
    rounds_started: int = 0
    max_iterations: int = 1
    max_rounds: int = 1
    token_budget: int | None = None
    time_budget_seconds: float | None = None
    prompt: str = ""
    loop_id: str = ""
    author: str = "user"
    principal: str | None = None
    started_at_ms: int = 0
    tokens_used: int = 0
    open_step: int | None = None
    effects: str = ""
    last_iteration: str = ""
    repeated: bool = False
    stop_requested: bool = False
    stopped_by: str | None = None
    reason: str | None = None
    error: str | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", LoopStatus(self.status))
        for name in ("generation", "revision", "iterations_started", "iterations_completed", "rounds_started"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it is never negative")
        if self.iterations_completed > self.iterations_started:
            raise ValueError(
                f"{self.iterations_completed} iterations are completed, but only {self.iterations_started} are started"
            )
