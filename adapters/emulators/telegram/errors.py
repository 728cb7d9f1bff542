"""Errors that the Bot API answers with.

Wording and order follow the official server (tdlib/telegram-bot-api 10.0 and tdlib/td); where the wording is known
only from reports, the place that raises it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """An answer with `ok: false`: HTTP status, description, and `parameters` if any."""

    def __init__(self, status: int, description: str, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = dict(parameters or {})


def bad_request(message: str, parameters: Mapping[str, Any] | None = None) -> ApiError:
    """400. The server lower-cases the first letter unless the message is a code such as `BUTTON_DATA_INVALID`."""
    is_code = len(message) > 1 and (message[1].isupper() or message[1] == "_")
    return ApiError(400, f"Bad Request: {message if is_code else message[:1].lower() + message[1:]}", parameters)


def forbidden(message: str) -> ApiError:
    """403."""
    return ApiError(403, f"Forbidden: {message}")


def conflict(message: str) -> ApiError:
    """409."""
    return ApiError(409, f"Conflict: {message}")


def too_many_requests(retry_after: int) -> ApiError:
    """429 with the number of seconds to wait."""
    return ApiError(429, f"Too Many Requests: retry after {retry_after}", {"retry_after": retry_after})
