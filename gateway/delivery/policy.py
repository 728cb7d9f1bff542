"""What to do with a part, given what is known of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from adapters.contract import (
    Answer,
    ApprovalCard,
    Capabilities,
    Notice,
    Private,
    Reaction,
    ThreadStatus,
    View,
)
from adapters.errors import (
    AdapterError,
    BadCredentials,
    MarkupRefused,
    NotConnected,
    OutcomeUnknown,
    RateLimited,
    Refused,
    TargetGone,
)
from gateway.budget import Priority
from gateway.ledger.deliveries import DeliveryRow
from gateway.views.messages import as_file, repeated, without_markup

SAFE_ATTEMPTS = 8
"""Sends under one key, where the platform makes nothing twice, before nobody waits any more."""

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
CREDENTIALS_RETRY_SECONDS = 60.0


# ------------------------------------------------------------------------------------------------------ before it


@dataclass(frozen=True, slots=True)
class Send:
    """Send it as it stands, under its key."""


@dataclass(frozen=True, slots=True)
class SendMarked:
    """Send it once more, saying that it may be there twice: this is the one repeat that is allowed."""

    view: View


@dataclass(frozen=True, slots=True)
class LeaveUnknown:
    """Nobody can say whether it is there, and it must not be sent again."""


Next: TypeAlias = Send | SendMarked | LeaveUnknown


def before_send(row: DeliveryRow, capabilities: Capabilities) -> Next:
    """What to do with a row that is due, also one that was found half sent after a crash.

    Where the platform makes nothing twice under one key, sending again is safe. Where it may, a first attempt whose
    outcome is not known is repeated once with a mark; a second one never, and progress never.
    """
    if row.attempt == 0:
        return Send()
    if capabilities.idempotent_send != "none":
        return Send() if row.attempt < SAFE_ATTEMPTS else LeaveUnknown()
    if row.attempt > 1 or row.priority is Priority.PROGRESS:
        return LeaveUnknown()
    marked = repeated(row.view)
    if marked is None:
        return LeaveUnknown()
    return Send() if marked == row.view else SendMarked(marked)  # it was marked before, and put off by the platform


# ------------------------------------------------------------------------------------------------------- after it


@dataclass(frozen=True, slots=True)
class WaitForChat:
    """Nothing was done; the whole chat waits."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitForPlatform:
    """Nothing was done; the whole platform waits. `seconds` of None: as long as the growing pause says."""

    seconds: float | None = None
    credentials: bool = False


@dataclass(frozen=True, slots=True)
class AskAgain:
    """It may be there; look at it again after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Simplify:
    """Nothing was done; send this instead."""

    view: View


@dataclass(frozen=True, slots=True)
class ToParent:
    """The thread is gone: once more, to its chat."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The chat has another id."""

    chat: str


@dataclass(frozen=True, slots=True)
class GiveUpChat:
    """The chat takes nothing from us any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A definite no to this part alone."""

    reason: str


After: TypeAlias = (
    WaitForChat | WaitForPlatform | AskAgain | Simplify | ToParent | Follow | GiveUpChat | GiveUp | LeaveUnknown
)


def after_error(error: Exception, row: DeliveryRow, capabilities: Capabilities) -> After:
    """What an error means for the part that was sent; `row` as it was while it was sent, its attempt included.

    An error that is none of the adapter's own says nothing about what the platform did.
    """
    match error:
        case RateLimited(retry_after=seconds):
            return WaitForChat(max(seconds, 0.0))
        case NotConnected():
            return WaitForPlatform()
        case BadCredentials():
            return WaitForPlatform(CREDENTIALS_RETRY_SECONDS, credentials=True)
        case MarkupRefused():
            simpler = without_markup(row.view)
            return _refused(error, row) if simpler is None else Simplify(simpler)
        case TargetGone(moved_to=str() as chat):
            return Follow(chat)
        case TargetGone() if isinstance(row.view, Reaction | Private | ThreadStatus):
            return GiveUp(reason_of(error))  # its message or person is gone; that says nothing about the chat
        case TargetGone(thread_only=True) if row.place.thread is not None and not row.fallback:
            return ToParent()
        case TargetGone():
            return GiveUpChat(reason_of(error))
        case Refused():
            return _refused(error, row)
        case _:
            return _unknown(row, capabilities)


def _refused(error: Exception, row: DeliveryRow) -> After:
    """The words of an answer are not lost to a refusal: as a file they may pass."""
    is_answer = isinstance(row.view, Answer | Notice) and row.priority is Priority.ANSWER
    file = as_file(row.view) if is_answer else None
    return GiveUp(reason_of(error)) if file is None else Simplify(file)


def _unknown(row: DeliveryRow, capabilities: Capabilities) -> After:
    if isinstance(before_send(row, capabilities), LeaveUnknown):
        return LeaveUnknown()
    return AskAgain(pause_seconds(row.attempt - 1))


def pause_seconds(failures: int) -> float:
    """The growing pause after so many failures in a row: 1, 2, 4, … 60 s."""
    return min(FIRST_RETRY_SECONDS * 2 ** min(failures, 10), LAST_RETRY_SECONDS)


def reason_of(error: Exception) -> str:
    """An error in one line for our own tables and log."""
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:300]


def is_request(row: DeliveryRow) -> bool:
    """The part is the card that a request stands or falls with, still undecided."""
    return isinstance(row.view, ApprovalCard) and row.view.outcome is None and row.request_id is not None


def is_known_error(error: Exception) -> bool:
    """The adapter raised it on purpose; anything else is a fault to be logged."""
    return isinstance(error, AdapterError)


def outcome_is_unknown(error: Exception) -> bool:
    """The platform may have done it."""
    return isinstance(error, OutcomeUnknown) or not isinstance(error, AdapterError)
