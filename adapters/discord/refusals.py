"""What Discord's refusals mean for us; pure.

Codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json
"""

from __future__ import annotations

from adapters.errors import AdapterError, BadCredentials, OutcomeUnknown, RateLimited, Refused, TargetGone

UNKNOWN_CHANNEL = 10003
UNKNOWN_MESSAGE = 10008
MISSING_ACCESS = 50001
MISSING_PERMISSIONS = 50013
THREAD_ARCHIVED = 50083
THREAD_EXISTS = 160004
THREAD_LOCKED = 160005

_TOO_LATE = frozenset({10015, 10062, 40060, 50027})  # unknown or expired, or answered already
_THREAD_GONE = frozenset({THREAD_ARCHIVED, THREAD_LOCKED})
_GONE = frozenset(
    {UNKNOWN_CHANNEL, 10004, UNKNOWN_MESSAGE, 10013, MISSING_ACCESS, 50005, 50007, MISSING_PERMISSIONS, *_THREAD_GONE}
)
_PATIENCE = frozenset({20016, 20028, 30046})  # slow mode, a channel's writes, edits of old messages
_REACTION = frozenset({10014, 30010, 90001})
_NO_CREDENTIALS = "Discord does not know this token: ask the developer portal for it (Bot, Reset Token)"


class No(Refused):
    """A definite no, with Discord's code for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Gone(TargetGone):
    """Not there, or not for us, with Discord's code for it."""

    def __init__(self, message: str, code: int, *, thread_only: bool = False) -> None:
        super().__init__(message, thread_only=thread_only)
        self.code = code


def refusal(status: int, code: int, message: str, retry_after: float = 0.0) -> AdapterError:
    """The error for an answer that is not a success; `code` is Discord's own, 0 if there is none."""
    said = f"Discord says {status}: {' '.join(message.split()) or 'nothing'} ({code})"
    match status:
        case _ if status == 429 or code in _PATIENCE:
            return RateLimited(said, retry_after=retry_after or 60.0)
        case _ if code in _TOO_LATE:
            return No(said, code)
        case 401:
            return BadCredentials(_NO_CREDENTIALS)
        case _ if status >= 500:
            return OutcomeUnknown(said)
        case _ if code in _REACTION:
            return No(said, code)
        case _ if code in _GONE or status == 403:
            return Gone(said, code, thread_only=code in _THREAD_GONE)
        case _:
            return No(said, code)


def code_of(error: AdapterError) -> int:
    """Discord's code for a refusal; 0 if it was none."""
    return error.code if isinstance(error, No | Gone) else 0


def is_too_late(error: AdapterError) -> bool:
    """Whether an interaction can no longer be answered, or was answered."""
    return code_of(error) in _TOO_LATE


def is_about_components(error: AdapterError) -> bool:
    """Whether a plain text was refused because the message is made of components."""
    return isinstance(error, No) and "COMPONENTS_V2" in str(error)
