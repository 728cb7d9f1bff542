"""What an agent is made of."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias

from runtime.clock import Clock, SystemClock
from runtime.errors import ConfigurationError
from runtime.faults import NO_FAULTS, Faults
from runtime.middleware import Middleware, check_names
from runtime.models.base import ModelRouter
from runtime.policy import ApprovalPolicy
from runtime.protocol.approvals import Action
from runtime.protocol.context import JsonValue
from runtime.protocol.session import Delivery, SessionContext
from runtime.store.base import CheckpointStore
from runtime.tools.base import Tool, Workspace

Instructions: TypeAlias = "str | Callable[[], str]"
Recheck: TypeAlias = Callable[[Action, tuple[str, ...], "str | None"], Awaitable["str | None"]]
"""(action, principals of the turn, who approved) -> why it may not run after all, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendLimits:
    """Per turn; a turn that reaches one ends with a reason. Tokens count in and out."""

    tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int = 256
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Over a whole session; its turns end with a reason once one is reached. Tokens count in and out."""

    tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Configuration of one agent. `approval_timeout_seconds` of None waits for ever.

    `compact_at` is the share of the model's window beyond which the context is summarised. A turn without any progress
    for `stuck_seconds` is taken from its agent by `Runtime`; waiting for a person is no lack of progress.
    With `collect`, everything that waits enters one turn together.

    `redact` is applied to what a tool returned before anything is stored, so that live and replayed contexts agree.
    `recheck` is asked right before a gated call starts. `allow_for_session_seconds` bounds a stored grant.
    """

    models: ModelRouter
    store: CheckpointStore
    session_id: str | None = None
    session_context: SessionContext = SessionContext()
    metadata: Mapping[str, JsonValue] | None = None
    tools: Sequence[Tool] = ()
    approval_policy: ApprovalPolicy = ApprovalPolicy.ASK
    middleware: Sequence[Middleware] = ()
    instructions: Instructions = ""
    model_route: str | None = None
    override_saved_model_route: bool = False
    initial_replay_batches: int = 100
    queue_limit: int = 64
    default_delivery: Delivery = Delivery.STEER
    max_model_steps: int = 256
    on_interrupted_step: Literal["abort", "retry"] = "abort"
    on_uncertain_tools: Literal["abort", "continue"] = "abort"
    skip_tools_on_steer: bool = True
    approval_timeout_seconds: float | None = None
    clock: Clock = field(default_factory=SystemClock)
    faults: Faults = NO_FAULTS
    workspace: Workspace | None = None
    collect: bool = False
    limits: SpendLimits = SpendLimits()
    model_retries: int = 5
    tool_output_limit: int = 40_000
    compact_at: float = 0.8
    stuck_seconds: float = 3600.0
    session_limits: SessionLimits = SessionLimits()
    allow_for_session_seconds: float = 30 * 24 * 3600
    redact: Callable[[str], str] = str
    recheck: Recheck | None = None
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex
    random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        if not 1 <= self.queue_limit <= 1024:
            raise ConfigurationError(f"queue_limit is {self.queue_limit}; it must be from 1 to 1024")
        if self.max_model_steps < 1:
            raise ConfigurationError(f"max_model_steps is {self.max_model_steps}; it must be at least 1")
        if not 0.1 <= self.compact_at <= 1.0:
            raise ConfigurationError(f"compact_at is {self.compact_at}; it is a share of the window, from 0.1 to 1")
        if self.stuck_seconds <= 0:
            raise ConfigurationError(f"stuck_seconds is {self.stuck_seconds}; it must be more than 0")
        if self.initial_replay_batches < 0:
            raise ConfigurationError("initial_replay_batches is negative; use 0 for no history")
        if self.model_route is not None and self.model_route not in self.models.names:
            raise ConfigurationError(
                f"model_route is {self.model_route!r}, which is not registered; known: {', '.join(self.models.names)}"
            )
        check_names(self.middleware)
        names = [tool.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"two tools are named {name!r}; give one of them another name")

    @property
    def default_route(self) -> str:
        """The route of a new session."""
        return self.model_route or self.models.default
