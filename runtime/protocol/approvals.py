"""What is asked of a person before a gated call runs, and what they may answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec

from runtime.protocol.context import JsonValue, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Exactly what would run. The executor takes only a stored Action, never the model's object."""

    tool: str
    schema_hash: str
    arguments: Mapping[str, JsonValue]
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin_hash: str | None = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    network: str = "none"
    sandbox: str = "none"
    timeout_seconds: float | None = None
    workspace_id: str | None = None
    session_id: str = ""
    turn_id: str = ""
    requester: str | None = None
    version: int = 1

    def __post_init__(self) -> None:
        # 60 and 60.0 are one time-out, but not one text: what is stored and read back must have the same digest.
        if self.timeout_seconds is not None:
            object.__setattr__(self, "timeout_seconds", float(self.timeout_seconds))

    def digest(self) -> str:
        """SHA-256 over the canonical JSON of every field: equal digests mean equal actions."""
        return _sha256(self)

    def grant_digest(self) -> str:
        """The digest without turn and requester: what "allow for this session" stores."""
        return _sha256(self, without=("turn_id", "requester"))


def _sha256(action: Action, without: tuple[str, ...] = ()) -> str:
    fields = msgspec.to_builtins(action)
    for name in without:
        del fields[name]
    return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Run the gated calls, once, as shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveForSession:
    """Run them, and let the same actions run in this session without asking again."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run them; the reason is told to the model."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApproveWith:
    """Run them with edited arguments, by call id; calls in `deny` are denied with the reason given there."""

    arguments: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict[str, Mapping[str, JsonValue]])
    deny: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Do not run them, and end the turn."""


Decision: TypeAlias = Approve | ApproveForSession | Deny | ApproveWith | Abort


class Resolution(StrEnum):
    """How an approval was closed."""

    APPROVED = "approved"
    APPROVED_FOR_SESSION = "approved_for_session"
    EDITED = "edited"
    DENIED = "denied"
    ABORTED = "aborted"
    EXPIRED = "expired"
    UNDELIVERABLE = "undeliverable"
    INTERRUPTED = "interrupted"
    INVALIDATED = "invalidated"


RUNS: frozenset[Resolution] = frozenset({Resolution.APPROVED, Resolution.APPROVED_FOR_SESSION, Resolution.EDITED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """One request for a whole batch of calls, at most one per session. Instants are UTC milliseconds.

    `decision` is set once, by the request's own id. A decided approval stays here until its batch is done, so that a
    restart knows which calls may run; `actions` are then what runs, `calls` what the model had asked for.
    """

    request_id: str
    turn_id: str
    submission_id: str
    calls: tuple[ToolCall, ...]
    gated: tuple[str, ...]
    actions: Mapping[str, Action]
    digests: Mapping[str, str]
    reason: str = ""
    expires_at_ms: int | None = None
    decision: Resolution | None = None
    decided_by: str | None = None
    decided_at_ms: int | None = None
    high_risk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTool:
    """A call of the current batch. `started` is committed before any effect."""

    call: ToolCall
    state: Literal["pending", "started", "done"] = "started"
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A stored "allow for this session"."""

    id: str
    session_id: str
    digest: str
    tool: str
    summary: str
    granted_by: str | None
    granted_at_ms: int
    expires_at_ms: int
    revoked_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResult:
    """What a decision came to."""

    status: Literal["resolved", "already", "expired", "unknown"]
    decision: Resolution | None = None
    decided_by: str | None = None
    decided_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptResult:
    """What an interrupt came to."""

    status: Literal["stopping", "not_running"]
