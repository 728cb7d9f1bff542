"""What can go wrong between us and a platform, as one tree.

AdapterError
├── OutcomeUnknown    the request went out and no answer came: it may or may not have taken effect
├── RateLimited       the platform asks for patience: nothing was done
├── TargetGone        the chat, thread or message is not there, or we are not allowed in: nothing was done
├── MarkupRefused     the platform could not read our markup: nothing was done, plain text may work
├── NotConnected      there is no connection yet: nothing was sent
└── Refused           any other definite no: nothing was done, and the same request will be refused again
    └── BadCredentials    the token is wrong or revoked
"""

from __future__ import annotations


class AdapterError(Exception):
    """Base of every error that an adapter raises on purpose."""


class OutcomeUnknown(AdapterError):
    """The request may or may not have taken effect."""


class RateLimited(AdapterError):
    """Nothing was done; ask again after `retry_after` seconds, and send nothing to that chat before."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TargetGone(AdapterError):
    """The chat, thread or message is gone, or we may not write there. `moved_to` is the chat's new id, if it moved."""

    def __init__(self, message: str, *, thread_only: bool = False, moved_to: str | None = None) -> None:
        super().__init__(message)
        self.thread_only = thread_only
        self.moved_to = moved_to


class MarkupRefused(AdapterError):
    """The platform could not read our markup; nothing was sent."""


class NotConnected(AdapterError):
    """There is no connection; nothing was sent."""


class Refused(AdapterError):
    """A definite no; nothing was done, and repeating it is useless."""


class BadCredentials(Refused):
    """The token is wrong or revoked."""
