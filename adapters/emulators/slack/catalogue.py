"""Methods that the emulator has: parameters, scopes, rate tiers. From Slack's public method pages.

A parameter that is not here is a violation, and so is a method that is not here; Slack ignores the former and answers
`unknown_method` to the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from adapters.emulators.wire_json import JsonObject, is_array, is_integer, is_object


class Tier(StrEnum):
    """How often a method may be called per minute."""

    T1 = "1"
    T2 = "20"
    T3 = "50"
    T4 = "100"
    POST = "one per second and channel"
    SPECIAL = "600"
    """Documented as special without a number: hundreds per minute."""


BOOLEANS: Final = frozenset(
    {
        "as_user",
        "exclude_archived",
        "full",
        "include_all_metadata",
        "include_locale",
        "include_num_members",
        "include_slackbot_availability",
        "inclusive",
        "link_names",
        "mrkdwn",
        "prevent_creation",
        "reply_broadcast",
        "return_im",
        "test",
        "unfurl_links",
        "unfurl_media",
    }
)
INTEGERS: Final = frozenset({"count", "length", "limit", "page"})
ARRAYS: Final = frozenset({"attachments", "blocks", "chunks", "files", "loading_messages", "prompts"})
OBJECTS: Final = frozenset({"metadata", "view"})
FLEXIBLE: Final = frozenset({"file_ids", "parse", "types", "users", "channels"})
"""Taken in several spellings; checked by the method."""
EVERYWHERE: Final = frozenset({"team_id"})
"""Taken by every method: tokens of a whole organisation need it, and clients send it always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method. `scopes`: any one of them is enough; none means that any token of the right kind will do."""

    name: str
    required: tuple[str, ...]
    parameters: frozenset[str]
    scopes: tuple[str, ...]
    tier: Tier
    app_token: bool = False
    config_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A rule broken by a call, and where."""

    rule: str
    where: str
    what: str


def _method(
    name: str, parameters: str, tier: Tier, scopes: str = "", *, app_token: bool = False, config_token: bool = False
) -> Method:
    """`channel! text` reads: channel is required, text is not."""
    words = parameters.split()
    return Method(
        name=name,
        required=tuple(word[:-1] for word in words if word.endswith("!")),
        parameters=frozenset(word.rstrip("!") for word in words),
        scopes=tuple(scopes.split()),
        tier=tier,
        app_token=app_token,
        config_token=config_token,
    )


_LOOKS: Final = "icon_emoji icon_url username"
_READ: Final = "channels:read groups:read im:read mpim:read"
_HISTORY: Final = "channels:history groups:history im:history mpim:history"
_JOIN: Final = "channels:join channels:manage"
_WRITE: Final = "channels:manage groups:write im:write mpim:write"

METHODS: Final = {
    method.name: method
    for method in (
        _method("api.test", "error foo", Tier.T4),
        _method("auth.test", "", Tier.SPECIAL),
        _method("apps.manifest.export", "app_id!", Tier.T3, config_token=True),
        _method("apps.connections.open", "", Tier.T3, "connections:write", app_token=True),
        _method(
            "chat.postMessage",
            "channel! text as_user attachments blocks container_id link_names markdown_text metadata mrkdwn parse "
            f"reply_broadcast thread_ts unfurl_links unfurl_media {_LOOKS}",
            Tier.POST,
            "chat:write",
        ),
        _method(
            "chat.update",
            "channel! ts! as_user attachments blocks file_ids link_names markdown_text metadata parse reply_broadcast "
            "text unfurled_attachments",
            Tier.T3,
            "chat:write",
        ),
        _method("chat.delete", "channel! ts! as_user", Tier.T3, "chat:write"),
        _method(
            "chat.postEphemeral",
            f"channel! user! as_user attachments blocks link_names markdown_text parse text thread_ts {_LOOKS}",
            Tier.T4,
            "chat:write",
        ),
        _method("chat.getPermalink", "channel! message_ts!", Tier.SPECIAL),
        _method(
            "chat.startStream",
            f"channel! thread_ts! chunks markdown_text recipient_team_id recipient_user_id task_display_mode {_LOOKS}",
            Tier.T2,
            "chat:write",
        ),
        _method("chat.appendStream", "channel! ts! chunks markdown_text", Tier.T4, "chat:write"),
        _method(
            "chat.stopStream",
            "channel! ts! blocks chunks markdown_text metadata session_status",
            Tier.T2,
            "chat:write",
        ),
        _method(
            "agents.sessions.setStatus",
            f"channel_id! status! initiator_user_id thread_ts title {_LOOKS}",
            Tier.T3,
            "chat:write",
        ),
        _method("agents.sessions.rename", "channel_id! title! thread_ts", Tier.T3, "chat:write"),
        _method(
            "assistant.threads.setStatus",
            f"channel_id! status! thread_ts! loading_messages {_LOOKS}",
            Tier.SPECIAL,
            "assistant:write chat:write",
        ),
        _method("assistant.threads.setTitle", "channel_id! thread_ts! title!", Tier.T3, "assistant:write"),
        _method(
            "assistant.threads.setSuggestedPrompts",
            "channel_id! prompts! thread_ts title",
            Tier.T3,
            "assistant:write",
        ),
        _method("conversations.info", "channel! include_locale include_num_members", Tier.T3, _READ),
        _method(
            "conversations.history",
            "channel! cursor include_all_metadata inclusive latest limit oldest",
            Tier.T3,
            _HISTORY,
        ),
        _method(
            "conversations.replies",
            "channel! ts! cursor include_all_metadata inclusive latest limit oldest",
            Tier.T3,
            _HISTORY,
        ),
        _method("conversations.open", "channel prevent_creation return_im users", Tier.T3, _WRITE),
        _method("conversations.join", "channel!", Tier.T3, _JOIN),
        _method("conversations.leave", "channel!", Tier.T3, _WRITE),
        _method("conversations.members", "channel! cursor limit", Tier.T4, _READ),
        _method("conversations.list", "cursor exclude_archived limit team_id types", Tier.T2, _READ),
        _method("users.conversations", "cursor exclude_archived limit team_id types user", Tier.T3, _READ),
        _method("reactions.add", "channel! name! timestamp!", Tier.T3, "reactions:write"),
        _method("reactions.remove", "name! channel file file_comment timestamp", Tier.T2, "reactions:write"),
        _method("reactions.get", "channel file file_comment full timestamp", Tier.T3, "reactions:read"),
        _method("users.info", "user! include_locale", Tier.T4, "users:read"),
        _method("users.list", "cursor include_locale limit team_id", Tier.T2, "users:read"),
        _method("bots.info", "bot team_id", Tier.T3, "users:read"),
        _method("team.info", "domain include_slackbot_availability team", Tier.T3, "team:read"),
        _method("views.open", "view! interactivity_pointer trigger_id", Tier.T4),
        _method("views.push", "view! interactivity_pointer trigger_id", Tier.T4),
        _method("views.update", "view! external_id hash view_id", Tier.T4),
        _method("views.publish", "user_id! view! hash", Tier.T4),
        _method("files.getUploadURLExternal", "filename! length! alt_txt snippet_type", Tier.T4, "files:write"),
        _method(
            "files.completeUploadExternal",
            "files! blocks channel_id channels initial_comment thread_ts",
            Tier.T4,
            "files:write",
        ),
        _method("files.info", "file! count cursor limit page", Tier.T4, "files:read"),
        _method("files.delete", "file!", Tier.T3, "files:write"),
    )
}


def decode(method: Method, given: JsonObject) -> tuple[JsonObject, list[Problem]]:
    """Parameters in their types, whatever spelling they came in, and the rules that they break."""
    params: JsonObject = {}
    problems: list[Problem] = []
    for name, value in given.items():
        if name not in method.parameters | EVERYWHERE:
            problems.append(Problem(rule="unknown_parameter", where=name, what=_brief(value)))
            continue
        read = _read(name, value)
        if read is _WRONG:
            problems.append(Problem(rule="wrong_type", where=name, what=_brief(value)))
            params[name] = value
        elif read is not None:
            params[name] = read
    return params, problems


_WRONG: Final = object()


def _read(name: str, value: Any) -> Any:
    if value is None or name in FLEXIBLE:
        return value
    if name in BOOLEANS:
        return _boolean(value)
    if name in INTEGERS:
        if is_integer(value):
            return value
        return int(value) if isinstance(value, str) and value.strip().isdecimal() else _WRONG
    if name in ARRAYS:
        return value if is_array(value) or value == "" else _WRONG
    if name in OBJECTS:
        return value if is_object(value) or value == "" else _WRONG
    return value if isinstance(value, str) else _WRONG


def _boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if value in ("1", "true", "True", 1):
        return True
    if value in ("0", "false", "False", "", 0):
        return False
    return _WRONG


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
