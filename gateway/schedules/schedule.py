"""What a schedule is: everything that a person sets, and what the ledger adds to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from adapters.contract import Place
from gateway.schedules.calendar import Calendar

NAME_LENGTH = 40


class Misfire(StrEnum):
    """What becomes of due times that nobody was there for: none runs, the last one, or all within bounds."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a due time while an earlier run goes on."""

    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    ALLOW = "allow"


class Announce(StrEnum):
    """Which runs are told in the chat: each, those that say something new, or those that fail.

    Failures in a row are told by an alert in any case.
    """

    ALWAYS = "always"
    ON_CHANGE = "on_change"
    ON_FAILURE = "on_failure"


class Unattended(StrEnum):
    """What becomes of a call that needs consent: a person is asked, it does not run, or the run ends."""

    ASK = "ask"
    DENY = "deny"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything about a schedule that a person sets.

    `agent` and `model` of None: those of the target. `tools` of None: all of the agent's; others are taken from them.
    Of missed due times `all` runs the last `catch_up_runs` that are younger than `catch_up_seconds`. A run may take
    `timeout_seconds`, not counting the time in which people are waited for; for them `approval_seconds` are waited.
    """

    name: str
    calendar: Calendar
    prompt: str
    target: Place
    workspace: str
    agent: str | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    misfire: Misfire = Misfire.LATEST
    catch_up_runs: int = 10
    catch_up_seconds: int = 86_400
    overlap: Overlap = Overlap.SKIP
    jitter_seconds: int = 0
    timeout_seconds: int = 3600
    announce: Announce = Announce.ALWAYS
    unattended: Unattended = Unattended.ASK
    approval_seconds: int = 86_400

    @property
    def origin(self) -> str:
        """The origin label of its runs."""
        return f"cron · {self.name}"


class State(StrEnum):
    """`disabled`: it cannot go on as it is. `done`: it will never be due again."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"
    DONE = "done"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A stored schedule. Each due time up to `accounted_until_ms` has its row; `revision` grows with every change."""

    id: int
    plan: Plan
    state: State
    reason: str
    created_by: str
    created_at_ms: int
    revision: int
    accounted_until_ms: int
    next_due_ms: int | None
    runs: int = 0
    failures: int = 0
    alerted_at_ms: int | None = None


class RunState(StrEnum):
    """Where a run stands; the last five are final."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    MISSED = "missed"
    CANCELLED = "cancelled"


class Shown(StrEnum):
    """Where its result stands, apart from the run: not there yet, on its way, arrived, kept quiet, or not arrived."""

    NONE = "none"
    PLANNED = "planned"
    DELIVERED = "delivered"
    SILENT = "silent"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One due time. `number` is None where nothing ran or will run; `by_hand`: asked for with `/cron run`.

    `covers_until_ms`: the row stands for every due time from its own to that one, long ago.
    """

    id: int
    schedule_id: int
    due_at_ms: int
    state: RunState
    reason: str = ""
    by_hand: bool = False
    number: int | None = None
    not_before_ms: int = 0
    owner: str | None = None
    lease_until_ms: int = 0
    session_id: str | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    covers_until_ms: int | None = None
    shown: Shown = Shown.NONE
    shown_reason: str = ""
    workspace_label: str = ""
    origin_label: str = ""


def run_key(schedule_id: int, due_at_ms: int) -> str:
    """The id of a run's session, and of its submission: the same whoever makes it, and however often."""
    return f"cron:{schedule_id}:{due_at_ms}"
