"""Events: what happened. Past tense, numbered, stored before anyone sees them (but for the live-only ones)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from runtime.protocol.approvals import Resolution
from runtime.protocol.context import ToolCall, Usage
from runtime.protocol.session import Attachment, SessionContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """The route that a session uses. `context_window` is in tokens."""

    route: str
    name: str
    context_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfigured:
    """Always the first event of an agent that starts or resumes."""

    session_id: str
    context: SessionContext
    model: ModelInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHistory:
    """The stored events of the last batches; live only."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueued:
    """A message is durable and waits at its boundary. `position` counts from 1 within what waits."""

    message_id: str
    disposition: Literal["turn", "steer", "queue"]
    position: int
    text: str
    author: str
    principal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEdited:
    """A waiting message has a new text."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRemoved:
    """A waiting message was removed by a person."""

    message_id: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message entered the conversation (not: was accepted)."""

    message_id: str
    author: str
    delivery: Literal["turn", "steer", "queue"]
    text: str
    attachments: tuple[Attachment, ...] = ()
    principal: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """A turn began with the message `message_id`."""

    turn_id: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnComplete:
    """The turn gave the floor back; its answer is `last_assistant_message`."""

    turn_id: str
    last_assistant_message: str | None = None
    usage: Usage = Usage()
    model_calls: int = 0
    tool_calls: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAborted:
    """The turn ended without an answer."""

    turn_id: str
    reason: str
    outcome: Literal["aborted", "failed"] = "aborted"
    by: str | None = None
    model_calls: int = 0
    tool_calls: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStepStarted:
    """A model call is about to start."""

    turn_id: str
    model_step_id: str
    step_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStepCompleted:
    """A model call is over."""

    turn_id: str
    model_step_id: str
    step_index: int
    outcome: Literal["completed", "failed", "interrupted", "retrying"]
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantDelta:
    """Text as it streams; live only."""

    turn_id: str
    model_step_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """Words of the model. The answer of a turn is in TurnComplete; others are progress, or `overtaken` by a steer."""

    turn_id: str
    model_step_id: str
    text: str
    overtaken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallBegin:
    """A call is marked as started; its effect may follow. `summary` is one redacted line."""

    turn_id: str
    call_id: str
    name: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnd:
    """A call has its result."""

    turn_id: str
    call_id: str
    name: str
    output: str
    is_error: bool = False
    outcome: str = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A person has to decide. `calls` are the gated ones; `summaries` one redacted line each."""

    request_id: str
    turn_id: str
    calls: tuple[ToolCall, ...]
    reason: str = ""
    expires_at_ms: int | None = None
    summaries: tuple[str, ...] = ()
    high_risk: bool = False
    requester: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResolved:
    """The request is closed."""

    request_id: str
    turn_id: str
    decision: Resolution
    decided_by: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChanged:
    """The session uses another route."""

    route: str
    name: str
    context_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumeRequested:
    """The front end should switch to another session; live only."""

    session_id: str
    context: SessionContext


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRejected:
    """An op was refused; nothing changed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """Something was not done, or not as asked; nothing is broken."""

    message: str


ErrorKind: TypeAlias = Literal[
    "configuration",
    "provider",
    "authentication",
    "rate_limit",
    "context_too_long",
    "sandbox",
    "tool",
    "checkpoint",
    "stale",
    "stopped",
    "io",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Something failed: one sentence for people, and a reference under which the log has the cause."""

    kind: ErrorKind
    message: str
    retryable: bool = False
    retry_after: float | None = None
    reference: str = ""
    turn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Tokens of the last call and of the session, beside the window."""

    last: Usage
    total: Usage
    context_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """The context was summarised into a new epoch."""

    epoch: int
    items_before: int
    items_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRevoked:
    """A stored "allow for this session" is withdrawn."""

    grant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRetired:
    """The session takes no more messages."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStarted:
    """A bounded loop began, or goes on under a new generation."""

    loop_id: str
    generation: int
    max_iterations: int
    max_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIterationStarted:
    """Iteration `index` (from 1) began."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIterationCompleted:
    """Iteration `index` (from 1) ended with an answer."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnded:
    """The loop is over. `status` is a LoopStatus; Completed, Stopped and BudgetExhausted are its success.

    `reason` says more: `stop`, `no_progress`, `rounds`, `tokens`, `time`, `restart`.
    """

    loop_id: str
    status: str
    iterations_completed: int
    rounds_started: int
    error: str | None = None
    reason: str | None = None


EventMsg: TypeAlias = (
    SessionConfigured
    | SessionHistory
    | MessageQueued
    | MessageEdited
    | MessageRemoved
    | Message
    | TurnStarted
    | TurnComplete
    | TurnAborted
    | ModelStepStarted
    | ModelStepCompleted
    | AssistantDelta
    | AssistantMessage
    | ToolCallBegin
    | ToolCallEnd
    | ApprovalRequested
    | ApprovalResolved
    | ModelChanged
    | SessionResumeRequested
    | SubmissionRejected
    | Warning
    | Error
    | TokenCount
    | ContextCompacted
    | GrantRevoked
    | SessionRetired
    | LoopStarted
    | LoopIterationStarted
    | LoopIterationCompleted
    | LoopEnded
)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


KINDS: dict[str, type[EventMsg]] = {_snake(cls.__name__): cls for cls in EventMsg.__args__}  # type: ignore[attr-defined]
_KIND_OF: dict[type, str] = {cls: kind for kind, cls in KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a session. `sequence` is its place in the journal, or None for one that is not stored."""

    sequence: int | None
    submission_id: str | None
    recorded_at_ms: int
    msg: EventMsg

    @property
    def kind(self) -> str:
        """The name under which the event is stored."""
        return kind_of(self.msg)


def kind_of(msg: EventMsg) -> str:
    """The snake-case name under which `msg` is stored."""
    return _KIND_OF[type(msg)]
