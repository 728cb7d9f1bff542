"""Errors as Slack answers them: status 200, `ok` false, a code, and sometimes more."""

from __future__ import annotations

from adapters.emulators.wire_json import JsonObject


class ApiError(Exception):
    """What a method refused. `status` and `headers` differ from 200 and none only for rate limits and faults."""

    def __init__(self, error: str, *, status: int = 200, headers: dict[str, str] | None = None, **more: object) -> None:
        super().__init__(error)
        self.error = error
        self.status = status
        self.headers = headers or {}
        self.more: JsonObject = dict(more)

    def body(self) -> JsonObject:
        """The answer."""
        return {"ok": False, "error": self.error, **self.more}


def rate_limited(seconds: int) -> ApiError:
    """429 with Retry-After."""
    return ApiError("ratelimited", status=429, headers={"Retry-After": str(seconds)})


def invalid_arguments(*messages: str) -> ApiError:
    """The general refusal, with what is wrong in `response_metadata.messages`."""
    return ApiError("invalid_arguments", response_metadata={"messages": [f"[ERROR] {one}" for one in messages]})


def invalid_blocks(*messages: str) -> ApiError:
    """Blocks that Slack does not take; the messages name the place by a JSON pointer."""
    told = [f"[ERROR] {one}" for one in messages]
    return ApiError("invalid_blocks", errors=list(messages), response_metadata={"messages": told})
