"""What Slack's refusals mean for us; pure. The words are those of the method pages at docs.slack.dev."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from adapters.errors import (
    AdapterError,
    BadCredentials,
    MarkupRefused,
    OutcomeUnknown,
    RateLimited,
    Refused,
    TargetGone,
)
from adapters.payload import a_text, an_object, texts

_CREDENTIALS = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
_GONE = frozenset(
    {
        "cannot_dm_bot",
        "cant_update_message",
        "channel_not_found",
        "edit_window_closed",
        "ekm_access_denied",
        "is_archived",
        "message_not_found",
        "message_not_owned_by_app",
        "messages_tab_disabled",
        "not_in_channel",
        "restricted_action",
        "restricted_action_non_threadable_channel",
        "restricted_action_read_only_channel",
        "team_access_not_granted",
        "user_is_restricted",
        "user_not_found",
        "user_not_in_channel",
    }
)
_THREAD = frozenset(
    {"cannot_reply_to_message", "invalid_thread_ts", "restricted_action_thread_locked", "thread_not_found"}
)
_MARKUP = frozenset(
    {
        "block_mismatch",
        "blocks_field_required",
        "invalid_attachments",
        "invalid_blocks",
        "invalid_blocks_format",
        "msg_blocks_too_long",
        "msg_blocks_too_many",
    }
)
_UNKNOWN = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable"})
NOT_AN_AGENT = frozenset({"not_authorized", "method_not_supported_for_channel_type", "unknown_method"})
STREAM_OVER = frozenset({"message_not_in_streaming_state", "message_not_found", "stopped_by_user"})
STREAMING = "streaming_state_conflict"
LATE_TRIGGER = frozenset({"expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id"})
DEFAULT_PATIENCE_SECONDS = 30.0
_SAID = re.compile(r"Slack says (\w+) to ")


def refusal(method: str, status: int, body: Mapping[str, Any], *, retry_after: str = "") -> AdapterError:
    """The error for an answer that is not ok. `code_of` gives Slack's own word for it again."""
    code = a_text(body.get("error"))
    if status == 429 or code in ("ratelimited", "rate_limited"):
        return RateLimited(f"Slack asks for patience ({method})", retry_after=_seconds(retry_after))
    said = f"Slack says {code or status} to {method}{_details(body)}"
    if status >= 500 or code in _UNKNOWN:
        return OutcomeUnknown(said)
    if code in _CREDENTIALS:
        return BadCredentials(said)
    if code in _THREAD or code in _GONE:
        return TargetGone(said, thread_only=code in _THREAD)
    return MarkupRefused(said) if code in _MARKUP else Refused(said)


def code_of(error: BaseException) -> str:
    """Slack's own word for a refusal; empty if it is none of Slack's."""
    found = _SAID.match(str(error))
    return found[1] if found else ""


def _seconds(text: str) -> float:
    try:
        return max(1.0, float(text))
    except ValueError:
        return DEFAULT_PATIENCE_SECONDS


def _details(body: Mapping[str, Any]) -> str:
    """What is missing, or what the markup was refused for. No text of a message is in it."""
    if needed := a_text(body.get("needed")):
        return f": the app lacks the scope {needed}"
    told = texts(an_object(body.get("response_metadata")).get("messages"))
    return f": {'; '.join(told)[:300]}" if told else ""
