"""Hooks into a session: what others may add, refuse or change, and when.

Policy is a returned outcome; an exception is a failure of infrastructure, and stops the agent with nothing lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from runtime.errors import ConfigurationError
from runtime.protocol.approvals import Action
from runtime.protocol.checkpoint import ExecutionRecord
from runtime.protocol.context import Context, JsonValue, ToolCall, ToolResult
from runtime.protocol.loops import LoopState
from runtime.protocol.session import QueuedMessage, SessionContext


@dataclass(frozen=True, slots=True)
class Reject:
    """`message_submit`: the message is consumed and never enters the context."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deny:
    """`pre_tool_use`, `permission_request`: the call does not run; the model is told the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`pre_tool_use`: the call runs with these arguments instead."""

    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """`permission_request`: run it without asking a person."""


@dataclass(frozen=True, slots=True)
class AddContext:
    """`pre_model`, `post_tool_use`: text that joins the context; `model_request`: for this request only."""

    text: str


@dataclass(frozen=True, slots=True)
class Stop:
    """`session_start`, `pre_compact`: do not; `post_round`: end the loop at this boundary."""

    reason: str


@dataclass(frozen=True, slots=True)
class Continue:
    """`stop`: one more step, with this prompt."""

    prompt: str


Outcome: TypeAlias = Reject | Deny | Rewrite | Allow | AddContext | Stop | Continue


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """What a hook is told: the session, and what the hook is about (the others are None)."""

    session_id: str
    turn_id: str | None
    session_context: SessionContext
    metadata: Mapping[str, JsonValue]
    message: QueuedMessage | None = None
    call: ToolCall | None = None
    action: Action | None = None
    result: ToolResult | None = None
    context: Context | None = field(default=None, compare=False)
    execution: ExecutionRecord | None = None
    text: str | None = None
    loop: LoopState | None = None


class Middleware:
    """Every hook does nothing; override the ones you need. Hooks are called in the order of declaration."""

    name: str = ""

    async def session_start(self, context: HookContext) -> Outcome | None:
        """The session opens. `Stop` refuses it."""

    async def message_submit(self, context: HookContext) -> Outcome | None:
        """A message is about to enter. `Reject` consumes it without a trace in the context."""

    async def pre_model(self, context: HookContext) -> Outcome | None:
        """A model step is about to start. `AddContext` joins the context for good."""

    async def model_request(self, context: HookContext) -> Outcome | None:
        """A request is about to be sent. `AddContext` holds for this request only."""

    async def pre_tool_use(self, context: HookContext) -> Outcome | None:
        """A call is about to be authorised. `Rewrite` or `Deny`."""

    async def permission_request(self, context: HookContext) -> Outcome | None:
        """A person is about to be asked. `Allow`, `Deny`, or None to ask."""

    async def post_tool_use(self, context: HookContext) -> Outcome | None:
        """A call has its result. `AddContext` joins the context."""

    async def pre_compact(self, context: HookContext) -> Outcome | None:
        """The context is about to be summarised. `Stop` prevents it."""

    async def post_compact(self, context: HookContext) -> Outcome | None:
        """The context was summarised."""

    async def stop(self, context: HookContext) -> Outcome | None:
        """The turn is about to complete. `Continue` asks the model once more."""

    async def post_round(self, context: HookContext) -> Outcome | None:
        """A round of a loop is over and stored. `Stop` ends the loop in order; an exception fails the loop alone."""

    async def turn_end(self, context: HookContext) -> Outcome | None:
        """A turn is over and stored."""

    async def session_end(self, context: HookContext) -> Outcome | None:
        """The agent ends; called in reverse order."""


def check_names(middleware: Sequence[Middleware]) -> None:
    """Raise ConfigurationError where a name is missing or taken twice."""
    names = [each.name for each in middleware]
    for name in names:
        if not name or names.count(name) > 1:
            raise ConfigurationError(f"middleware needs a name of its own; {name!r} is empty or taken twice")
