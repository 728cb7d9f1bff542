"""What a message may say: text, blocks, markdown, metadata, and where in a thread it goes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from adapters.emulators.slack.blocks import length_of, numbered, problems_of
from adapters.emulators.slack.call import Call
from adapters.emulators.slack.errors import ApiError, invalid_blocks
from adapters.emulators.slack.world import Channel
from adapters.emulators.wire_json import JsonObject, is_array, is_object

MARKDOWN_TEXT: Final = 12_000
ATTACHMENTS: Final = 100
METADATA_BYTES: Final = 16_000
_TS = re.compile(r"\d{1,12}\.\d{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Checked content of a message. None means that the call said nothing about it."""

    text: str | None = None
    blocks: list[JsonObject] | None = None
    attachments: list[JsonObject] | None = None
    metadata: JsonObject | None = None

    @property
    def is_empty(self) -> bool:
        return not self.text and not self.blocks and not self.attachments


@dataclass(slots=True)
class Look:
    """Name and picture that a message borrows."""

    username: str | None = None
    icons: JsonObject | None = field(default=None)


def read_content(call: Call, longest: int) -> Content:
    """The content of a call. Raises ApiError."""
    markdown = call.params.get("markdown_text")
    blocks = read_blocks(call)
    text = call.params.get("text")
    if isinstance(markdown, str) and markdown:
        if text or blocks:
            raise ApiError("markdown_text_conflict")
        if len(markdown) > MARKDOWN_TEXT:
            raise ApiError("msg_too_long")
        block: JsonObject = {"type": "markdown", "text": markdown}
        return Content(text=markdown, blocks=_numbered(call, [block]), metadata=read_metadata(call))
    if isinstance(text, str) and len(text) > longest:
        raise ApiError("msg_too_long")
    if isinstance(text, str) and len(text) > call.platform.knobs.advised_text:
        call.violate("text_too_long", length=len(text), advised=call.platform.knobs.advised_text)
    return Content(
        text=text if isinstance(text, str) else None,
        blocks=blocks,
        attachments=_read_attachments(call),
        metadata=read_metadata(call),
    )


def read_blocks(call: Call) -> list[JsonObject] | None:
    """Checked blocks of a call, with their ids. Raises ApiError."""
    given = call.params.get("blocks")
    if given is None or given == "":
        return None
    if not is_array(given):
        raise ApiError("invalid_blocks_format")
    return check_blocks(call, given)


def check_blocks(call: Call, given: list[Any]) -> list[JsonObject]:
    """Blocks with their ids. Raises ApiError."""
    if found := problems_of(given):
        raise invalid_blocks(*found)
    if length_of(given) > call.platform.knobs.blocks_total:
        raise ApiError("msg_blocks_too_long")
    return _numbered(call, given)


def _numbered(call: Call, blocks: list[JsonObject]) -> list[JsonObject]:
    return numbered(blocks, call.platform.new_block_id)


def _read_attachments(call: Call) -> list[JsonObject] | None:
    given = call.params.get("attachments")
    if given is None or given == "":
        return None
    if not is_array(given) or not all(is_object(one) for one in given):
        raise ApiError("invalid_attachments")
    if len(given) > ATTACHMENTS:
        raise ApiError("too_many_attachments")
    return [{"id": index, "fallback": "[no preview available]", **one} for index, one in enumerate(given, 1)]


def read_metadata(call: Call) -> JsonObject | None:
    """Metadata of a call; an empty object takes it away. Raises ApiError."""
    given = call.params.get("metadata")
    if given is None or given == "":
        return None
    if not is_object(given):
        raise ApiError("invalid_metadata_format")
    if not given:
        return {}
    if not isinstance(given.get("event_type"), str) or not is_object(given.get("event_payload")):
        raise ApiError("invalid_metadata_schema")
    if given.keys() - {"event_type", "event_payload", "entities"}:
        raise ApiError("invalid_metadata_schema")
    if len(json.dumps(given)) > METADATA_BYTES:
        raise ApiError("metadata_too_large")
    return given


def read_look(call: Call) -> Look:
    """Another name or picture, for which there is a scope. Raises ApiError."""
    emoji, picture, name = (call.text(one) for one in ("icon_emoji", "icon_url", "username"))
    if not (emoji or picture or name):
        return Look()
    require_customize(call)
    icons = {"emoji": emoji} if emoji else {"image_48": picture} if picture else None
    return Look(username=name or None, icons=icons)


def require_customize(call: Call) -> None:
    """Raises ApiError unless the app may take another name."""
    app = call.platform.app
    if "chat:write.customize" not in app.scopes:
        raise ApiError("missing_scope", needed="chat:write.customize", provided=app.provided)


def read_thread(call: Call, channel: Channel) -> str | None:
    """The root of the thread that a message is for. Raises ApiError."""
    given = call.text("thread_ts")
    if not given:
        return None
    if not _TS.fullmatch(given):
        raise ApiError("invalid_thread_ts")
    found = channel.messages.get(given)
    if found is None:
        raise ApiError("thread_not_found")
    if found.is_reply:
        # Documented: a reply's own ts is no thread; Slack files the message under the root all the same.
        call.violate("thread_ts_of_a_reply", thread_ts=given)
        return found.thread_ts
    return given
