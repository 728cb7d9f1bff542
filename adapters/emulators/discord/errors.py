"""Errors that Discord answers with: HTTP status, code, message, and for a form the places that are wrong.

Codes and words are those of the published table (docs.discord.com, "JSON Error Codes").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.emulators.discord.schema import Problem, tree
from adapters.emulators.wire_json import JsonObject


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        *,
        errors: JsonObject | None = None,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors
        self.more = dict(more or {})
        self.headers = dict(headers or {})

    @property
    def body(self) -> JsonObject:
        """As it goes over the wire."""
        body: JsonObject = {"message": self.message, "code": self.code, **self.more}
        if self.errors:
            body["errors"] = self.errors
        return body


def unauthorized() -> ApiError:
    return ApiError(401, 0, "401: Unauthorized")


def no_such_route() -> ApiError:
    return ApiError(404, 0, "404: Not Found")


def method_not_allowed() -> ApiError:
    return ApiError(405, 0, "405: Method Not Allowed")


_UNKNOWN = {
    10002: "Unknown Application",
    10003: "Unknown Channel",
    10004: "Unknown Guild",
    10007: "Unknown Member",
    10008: "Unknown Message",
    10011: "Unknown Role",
    10013: "Unknown User",
    10014: "Unknown Emoji",
    10015: "Unknown Webhook",
    10062: "Unknown interaction",
    10063: "Unknown application command",
    10087: "Unknown tag",
}


def unknown(code: int) -> ApiError:
    """404 for something that is not there."""
    return ApiError(404, code, _UNKNOWN[code])


def missing_access() -> ApiError:
    return ApiError(403, 50001, "Missing Access")


def missing_permissions() -> ApiError:
    return ApiError(403, 50013, "Missing Permissions")


def empty_message() -> ApiError:
    return ApiError(400, 50006, "Cannot send an empty message")


def forbidden(code: int, message: str) -> ApiError:
    return ApiError(403, code, message)


def bad_request(code: int, message: str) -> ApiError:
    return ApiError(400, code, message)


def invalid_form(problems: Sequence[Problem]) -> ApiError:
    """400 with the tree of what is wrong."""
    return ApiError(400, 50035, "Invalid Form Body", errors=tree(problems))


def invalid_field(path: Sequence[str], code: str, message: str) -> ApiError:
    """400 for one field."""
    return invalid_form([Problem(path=tuple(path), code=code, message=message)])


def too_many_requests(retry_after: float, *, scope: str, code: int = 0, message: str = "") -> ApiError:
    """429. `scope` is user (this bucket), global (this bot) or shared (everybody's traffic in that place)."""
    is_global = scope == "global"
    headers = {"X-RateLimit-Scope": scope, "Retry-After": str(max(1, math.ceil(retry_after)))}
    if is_global:
        headers["X-RateLimit-Global"] = "true"
    more: JsonObject = {"retry_after": round(retry_after, 3), "global": is_global}
    return ApiError(429, code, message or "You are being rate limited.", more=more, headers=headers)
