"""Rate limits: buckets of one operation in one place, and the headers that tell of them.

A bucket is a window that opens with its first request, as Discord's do. Source: docs.discord.com, "Rate Limits".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from adapters.emulators.discord.errors import ApiError, too_many_requests
from adapters.emulators.discord.knobs import Knobs

UNBOUND: Final = frozenset(
    {
        "create_interaction_response",
        "execute_webhook",
        "get_original_webhook_message",
        "update_original_webhook_message",
        "delete_original_webhook_message",
        "get_webhook_message",
        "update_webhook_message",
        "delete_webhook_message",
    }
)
"""Documented: answering interactions is not bound to a bot's global limit."""


@dataclass(slots=True)
class _Window:
    used: int = 0
    ends: float = 0.0


@dataclass(slots=True)
class Buckets:
    """All windows. A limit that the knobs do not give does not exist, and no header speaks of it."""

    knobs: Knobs
    _windows: dict[tuple[str, str, str], _Window] = field(default_factory=dict[tuple[str, str, str], _Window])

    def spend(self, account: str, operation: str, place: str, now: float) -> dict[str, str]:
        """Count a request; the headers of its answer. Raises ApiError 429."""
        self._spend_global(account, operation, now)
        if operation not in self.knobs.buckets:
            return {}
        limit, seconds = self.knobs.buckets[operation]
        window = self._window((account, operation, place), seconds, now)
        left = max(0, limit - window.used - 1)
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": f"{window.ends:.3f}",
            "X-RateLimit-Reset-After": f"{window.ends - now:.3f}",
            "X-RateLimit-Bucket": hashlib.sha256(operation.encode()).hexdigest()[:32],
        }
        if window.used >= limit:
            raise with_headers(too_many_requests(window.ends - now, scope="user"), headers)
        window.used += 1
        return headers

    def _spend_global(self, account: str, operation: str, now: float) -> None:
        limit = self.knobs.global_per_second
        if limit is None or operation in UNBOUND:
            return
        window = self._window((account, "", ""), 1.0, now)
        if window.used >= limit:
            raise too_many_requests(window.ends - now, scope="global")
        window.used += 1

    def _window(self, key: tuple[str, str, str], seconds: float, now: float) -> _Window:
        window = self._windows.setdefault(key, _Window())
        if now >= window.ends:
            window.used, window.ends = 0, now + seconds
        return window

    def clear(self) -> None:
        """Forget what was spent."""
        self._windows.clear()


def with_headers(error: ApiError, headers: dict[str, str]) -> ApiError:
    """The error with more headers."""
    error.headers = headers | error.headers
    return error
