"""What the Bot API's refusals mean for us; pure.

The words are those of the official server (tdlib/telegram-bot-api `Client.cpp`, tdlib/td). It builds them as
"Bad Request: " and a message, of which only the part behind the colon is looked at.
"""

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
from adapters.telegram.payload import a_number, an_id

_NOT_MODIFIED = "message is not modified"
_TOO_OLD = re.compile(r"query is too old|query id is invalid|QUERY_ID_INVALID", re.IGNORECASE)
_MARKUP = re.compile(r"can't parse (entities|caption)|ENTIT(Y|IES)_|unsupported parse_mode", re.IGNORECASE)
_THREAD = re.compile(r"message thread not found|TOPIC_(DELETED|CLOSED|ID_INVALID)", re.IGNORECASE)
_GONE = re.compile(
    r"chat not found|user not found|message to edit not found|message can't be edited|MESSAGE_ID_INVALID"
    r"|PEER_ID_INVALID|CHAT_WRITE_FORBIDDEN|CHAT_RESTRICTED|USER_IS_BLOCKED|USER_DEACTIVATED|INPUT_USER_DEACTIVATED"
    r"|(not enough|have no) rights to send|need administrator rights|group chat was (deactivated|deleted)"
    r"|CHAT_ADMIN_REQUIRED|CHANNEL_PRIVATE",
    re.IGNORECASE,
)


class Conflict(Refused):
    """Updates go elsewhere: another program polls with this token, or a webhook is set."""


def refusal(status: int, description: str, parameters: Mapping[str, Any]) -> AdapterError:
    """The error for an answer that is not ok. The status is that of HTTP; the server repeats it in `error_code`."""
    said = f"Telegram says {status}: {description or 'nothing'}"
    if moved := an_id(parameters.get("migrate_to_chat_id")):
        return TargetGone(said, moved_to=moved)
    match status:
        case 429:
            return RateLimited(said, retry_after=float(a_number(parameters.get("retry_after")) or 1))
        case 401:
            return BadCredentials(said)
        case 403:
            return TargetGone(said)
        case 409:
            return Conflict(said)
        case _ if status >= 500:
            return OutcomeUnknown(said)
        case _ if _MARKUP.search(description):
            return MarkupRefused(said)
        case _ if _THREAD.search(description):
            return TargetGone(said, thread_only=True)
        case _ if _GONE.search(description):
            return TargetGone(said)
        case _:
            return Refused(said)


def is_shown_already(error: AdapterError) -> bool:
    """Whether an edit was refused because the message shows just that."""
    return _NOT_MODIFIED in str(error)


def is_too_late(error: AdapterError) -> bool:
    """Whether a press can no longer be answered, or was answered."""
    return _TOO_OLD.search(str(error)) is not None


def conflict_sentence(error: Conflict) -> str:
    """What is wrong, and what to do about it."""
    if "webhook" in str(error).lower():
        return (
            "A webhook is set for this bot, so Telegram gives us nothing. Remove it (deleteWebhook), "
            "or stop the program that set it."
        )
    return (
        "Another program takes this bot's messages with the same token. Stop it, or give this gateway a bot of its "
        "own: a token serves one program."
    )
