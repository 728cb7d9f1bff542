"""The state of a session between two transitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, cast

from runtime.protocol.approvals import ApprovalResult, InterruptResult, PendingApproval, PendingTool
from runtime.protocol.context import Context, JsonValue, Usage
from runtime.protocol.loops import LoopState
from runtime.protocol.session import QueuedMessage, SessionContext

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPhase:
    """Where a turn stands. Make one with `model()` or `completion(text)`."""

    kind: Literal["model", "completion"]
    last_assistant_message: str | None = None

    @classmethod
    def model(cls) -> ExecutionPhase:
        """The model is asked next."""
        return cls(kind="model")

    @classmethod
    def completion(cls, last_assistant_message: str | None) -> ExecutionPhase:
        """The model has ended its answer; the turn is about to end."""
        return cls(kind="completion", last_assistant_message=last_assistant_message)


@dataclass(frozen=True, kw_only=True)
class ActiveExecution:
    """The turn that runs. Instants are UTC milliseconds."""

    submission_id: str
    turn_id: str
    started_at_ms: int
    model_calls: int = 0
    tool_calls: int = 0
    failed_tool_calls: int = 0
    usage: Usage = Usage()
    next_model_step: int = 0
    stop_hook_active: bool = False
    interrupted_by: str | None = None
    crash_count: int = 0
    principals: tuple[str, ...] = ()
    phase: ExecutionPhase = field(default_factory=ExecutionPhase.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveModelStep:
    """The model call in flight."""

    model_step_id: str
    step_index: int
    started_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStats:
    """Totals of a session. A run counts in exactly one of completed, aborted, failed."""

    run_count: int = 0
    aborted_run_count: int = 0
    failed_run_count: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    failed_tool_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """One per turn that ended."""

    turn_id: str
    submission_id: str
    started_at_ms: int
    ended_at_ms: int
    outcome: Literal["completed", "aborted", "failed"]
    model_calls: int = 0
    tool_calls: int = 0
    failed_tool_calls: int = 0
    usage: Usage = Usage()


# Without slots, as ActiveExecution: a turn changes them some twenty times, and a dictionary is copied in one go.
@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Everything of a session that a restart needs. Change one with `dataclasses.replace`."""

    session_id: str
    sequence: int = 0
    version: int = VERSION
    session_context: SessionContext = SessionContext()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    model_route: str | None = None
    context: Context = field(default_factory=Context)
    context_epoch: int = 0
    pending_messages: tuple[QueuedMessage, ...] = ()
    active_execution: ActiveExecution | None = None
    active_model_step: ActiveModelStep | None = None
    pending_tools: tuple[PendingTool, ...] = ()
    pending_approval: PendingApproval | None = None
    execution_stats: ExecutionStats = ExecutionStats()
    total_usage: Usage = Usage()
    title: str | None = None
    retiring: bool = False
    loop_state: JsonValue = None
    runtime_status: Literal["running", "suspended", "completed", "failed"] = "running"

    def __post_init__(self) -> None:
        made: object = cast(object, self.context)
        if not isinstance(made, Context):  # a tuple or list, in a checkpoint made by hand
            object.__setattr__(self, "context", Context(self.context))
        loop: object = cast(object, self.loop_state)
        if isinstance(loop, LoopState):  # likewise
            object.__setattr__(self, "loop_state", asdict(loop))
        for name in ("pending_messages", "pending_tools"):
            waiting: object = getattr(self, name)
            if type(waiting) is not tuple:
                object.__setattr__(self, name, tuple(cast("Iterable[object]", waiting)))

    @classmethod
    def empty(cls, session_id: str) -> Checkpoint:
        """A session that has not begun."""
        return cls(session_id=session_id)

    @property
    def idle(self) -> bool:
        """No turn runs."""
        return self.active_execution is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a submitted op. A message's receipt is given after its commit."""

    submission_id: str
    status: Literal["accepted", "duplicate", "rejected"]
    disposition: Literal["turn", "steer", "queue"] | None = None
    position: int | None = None
    reason: str | None = None
    result: ApprovalResult | InterruptResult | None = None
