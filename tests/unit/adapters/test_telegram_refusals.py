"""What the Bot API's refusals mean."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.errors import (
    AdapterError,
    BadCredentials,
    MarkupRefused,
    OutcomeUnknown,
    RateLimited,
    Refused,
    TargetGone,
)
from adapters.telegram.refusals import Conflict, conflict_sentence, is_shown_already, is_too_late, refusal

# Wordings of the official server: tdlib/telegram-bot-api Client.cpp, td, and the reference of known failures.
MEANING: dict[str, type[AdapterError]] = {
    "400 Bad Request: can't parse entities: Unsupported start tag": MarkupRefused,
    "400 Bad Request: ENTITIES_TOO_LONG": MarkupRefused,
    "400 Bad Request: ENTITY_BOUNDS_INVALID": MarkupRefused,
    "400 Bad Request: message thread not found": TargetGone,
    "400 Bad Request: TOPIC_DELETED": TargetGone,
    "400 Bad Request: TOPIC_CLOSED": TargetGone,
    "400 Bad Request: chat not found": TargetGone,
    "400 Bad Request: message to edit not found": TargetGone,
    "400 Bad Request: message can't be edited": TargetGone,
    "400 Bad Request: not enough rights to send text messages to the chat": TargetGone,
    "400 Bad Request: have no rights to send a message": TargetGone,
    "400 Bad Request: group chat was deactivated": TargetGone,
    "400 Bad Request: PEER_ID_INVALID": TargetGone,
    "400 Bad Request: message text is empty": Refused,
    "400 Bad Request: message is too long": Refused,
    "400 Bad Request: REACTION_INVALID": Refused,
    "400 Bad Request: BUTTON_DATA_INVALID": Refused,
    "400 Bad Request: message is not modified: specified new message content": Refused,
    "401 Unauthorized": BadCredentials,
    "403 Forbidden: bot was blocked by the user": TargetGone,
    "403 Forbidden: bot was kicked from the supergroup chat": TargetGone,
    "403 Forbidden: user is deactivated": TargetGone,
    "404 Not Found: method not found": Refused,
    "409 Conflict: terminated by other getUpdates request": Conflict,
    "413 Request Entity Too Large": Refused,
    "500 Internal Server Error": OutcomeUnknown,
    "502 Bad Gateway": OutcomeUnknown,
}


@pytest.mark.parametrize("answer", MEANING)
def test_each_refusal_has_its_meaning(answer: str) -> None:
    """Status and wording give exactly that error, and its text says what Telegram said."""
    status, _, description = answer.partition(" ")
    error = refusal(int(status), description, {})
    assert type(error) is MEANING[answer]
    assert description in str(error)


def test_only_a_thread_may_be_gone() -> None:
    """A deleted topic leaves its chat; a chat that is gone takes all with it."""
    thread = refusal(400, "Bad Request: message thread not found", {})
    chat = refusal(400, "Bad Request: chat not found", {})
    assert isinstance(thread, TargetGone)
    assert isinstance(chat, TargetGone)
    assert (thread.thread_only, chat.thread_only) == (True, False)


def test_moved_group_tells_where() -> None:
    """A group that became a supergroup is found under its new id."""
    description = "Bad Request: group chat was upgraded to a supergroup chat"
    error = refusal(400, description, {"migrate_to_chat_id": -100123})
    assert isinstance(error, TargetGone)
    assert error.moved_to == "-100123"


@pytest.mark.parametrize(
    ("parameters", "seconds"), [({"retry_after": 35}, 35.0), ({}, 1.0), ({"retry_after": "x"}, 1.0)]
)
def test_patience_is_as_long_as_asked(parameters: dict[str, Any], seconds: float) -> None:
    """The time to wait is the server's, and a second if it forgot it."""
    error = refusal(429, "Too Many Requests: retry after 35", parameters)
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


def test_harmless_refusals_are_known() -> None:
    """That a message shows it already, or that a press was answered too late, is recognised."""
    assert is_shown_already(refusal(400, "Bad Request: message is not modified: specified …", {}))
    late = "Bad Request: query is too old and response timeout expired or query ID is invalid"
    assert is_too_late(refusal(400, late, {}))
    assert not is_too_late(refusal(400, "Bad Request: chat not found", {}))


def test_conflict_is_told_in_a_plain_sentence() -> None:
    """A second program and a webhook have different remedies."""
    poller = refusal(409, "Conflict: terminated by other getUpdates request", {})
    hook = refusal(409, "Conflict: can't use getUpdates method while webhook is active", {})
    assert isinstance(poller, Conflict)
    assert isinstance(hook, Conflict)
    assert "Another program" in conflict_sentence(poller)
    assert "webhook" in conflict_sentence(hook)
