"""Ops: what may be asked of a session. Imperative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.protocol.approvals import Decision
from runtime.protocol.session import Attachment, Delivery, Quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The only way text enters. At most 1 MiB of text and 16 attachments; empty text needs an attachment."""

    text: str
    author: str = "user"
    principal: str | None = None
    attachments: tuple[Attachment, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    reply_to: str | None = None
    delivery: Delivery | None = None
    target_turn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """End exactly the turn `turn_id`; another id changes nothing."""

    turn_id: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveApproval:
    """Answer the pending approval `request_id`."""

    request_id: str
    decision: Decision
    decided_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeliverable:
    """The request `request_id` could not be shown to anybody: close it, run nothing."""

    request_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditQueued:
    """Replace the text of a message that still waits."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveQueued:
    """Remove a message that still waits."""

    message_id: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteQueued:
    """Let a waiting message steer the running turn."""

    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetModel:
    """Use another model route; idle only."""

    route: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSession:
    """Ask the front end to switch to another session; live only."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Summarise the context into a new epoch; idle only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeGrant:
    """Withdraw a stored "allow for this session"."""

    grant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Take no more messages; end the turn, approval and loop; remove what waits. Used by `/new` and deletion."""

    by: str | None = None
    reason: str = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLoop:
    """Repeat a prompt inside this session, `max_iterations` times and for at most `max_rounds` model calls in all.

    Its submission id names the loop in events. Refused while another loop runs.
    """

    prompt: str
    max_iterations: int
    max_rounds: int
    token_budget: int | None = None
    time_budget_seconds: float | None = None
    author: str = "user"
    principal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLoop:
    """End the loop: after this iteration, or now, which ends the turn of its iteration too.

    With `loop_id`, that one and no later one.
    """

    now: bool = False
    by: str | None = None
    loop_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueLoop:
    """Begin the lost iteration of a loop that a restart could not go on with; its counters stay."""

    loop_id: str


Op: TypeAlias = (
    Message
    | Interrupt
    | ResolveApproval
    | Undeliverable
    | EditQueued
    | RemoveQueued
    | PromoteQueued
    | SetModel
    | ResumeSession
    | Compact
    | RevokeGrant
    | Retire
    | StartLoop
    | StopLoop
    | ContinueLoop
)

MAX_TEXT_BYTES = 1 << 20
MAX_ATTACHMENTS = 16
