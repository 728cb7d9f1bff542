"""What makes a message acceptable beyond its schema: lengths, sums, and what goes together.

Limits are published (docs.discord.com, "Message", "Component Reference"); where the words of an error are known from
reports only, the place says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from adapters.emulators.discord.call import Upload
from adapters.emulators.discord.components import CHILDREN
from adapters.emulators.discord.errors import ApiError, empty_message, invalid_form
from adapters.emulators.discord.knobs import Knobs
from adapters.emulators.discord.schema import Path, Problem
from adapters.emulators.discord.world import Message, MessageFlag
from adapters.emulators.wire_json import JsonObject, is_array, is_object, items_of, object_of

MAX_CONTENT: Final = 2000
MAX_EMBEDS_TEXT: Final = 6000
MAX_COMPONENTS: Final = 40
MAX_COMPONENTS_TEXT: Final = 4000
MAX_ROWS: Final = 5
PER_TEXT: Final = 12
ACTION_ROW: Final = 1
BUTTON: Final = 2
SELECTS: Final = frozenset({3, 5, 6, 7, 8})
TEXT_DISPLAY: Final = 10
LINK_STYLE: Final = 5
PREMIUM_STYLE: Final = 6
NOT_WITH_V2: Final = ("content", "embeds", "sticker_ids", "poll")

Node = tuple[Path, JsonObject]


def check_message(
    body: JsonObject, uploads: Mapping[str, Upload], knobs: Knobs, *, edited: Message | None = None
) -> None:
    """Raise ApiError if Discord would not take this as a message, or as an edit of `edited`."""
    if any(len(upload.content) > knobs.file_limit for upload in uploads.values()):
        raise ApiError(413, 40005, "Request entity too large")
    flags = (body.get("flags") or 0) | (edited.flags if edited is not None else 0)
    problems = [*_content(body), *_mentions(body), *_embeds(body), *_attachments(body, uploads, edited)]
    if flags & MessageFlag.COMPONENTS_V2:
        problems += _components_v2(body, edited)
    else:
        problems += _components_v1(body)
    problems += _custom_ids(body)
    if problems:
        raise invalid_form(problems)
    if not _says_something(body, uploads, edited):
        raise empty_message()
    if knobs.components_bytes is not None and _processed(body) > knobs.components_bytes:
        raise ApiError(500, 0, "500: Internal Server Error")


def _processed(body: JsonObject) -> int:
    """What Discord makes of all text displays, in bytes."""
    texts = [str(node.get("content", "")) for _, node in components(body) if node.get("type") == TEXT_DISPLAY]
    return sum(len(text.encode("utf-8", "replace")) + PER_TEXT for text in texts)


def components(body: JsonObject) -> list[Node]:
    """Every component of a body with its place, parents first."""
    return [node for node in _walk(("components",), items_of(body, "components"))]


def _walk(path: Path, members: Any) -> Iterator[Node]:
    if is_object(members):
        yield path, members
        for name in CHILDREN:
            if name in members:
                yield from _walk((*path, name), members[name])
    elif is_array(members):
        for index, member in enumerate(members):
            yield from _walk((*path, str(index)), member)


def _problem(path: Sequence[str], code: str, message: str) -> Problem:
    return Problem(path=tuple(path), code=code, message=message)


def _content(body: JsonObject) -> Iterator[Problem]:
    if len(body.get("content") or "") > MAX_CONTENT:
        yield _problem(["content"], "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_CONTENT} or fewer in length.")


def _mentions(body: JsonObject) -> Iterator[Problem]:
    allowed: JsonObject = object_of(body, "allowed_mentions")
    for kind in ("users", "roles"):
        if kind in items_of(allowed, "parse") and allowed.get(kind):
            words = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            yield _problem(["allowed_mentions"], "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", words)


def _embeds(body: JsonObject) -> Iterator[Problem]:
    if sum(_embed_length(embed) for embed in items_of(body, "embeds")) > MAX_EMBEDS_TEXT:
        words = f"Embed size exceeds maximum size of {MAX_EMBEDS_TEXT}"
        yield _problem(["embeds"], "MAX_EMBED_SIZE_EXCEEDED", words)


def _embed_length(embed: JsonObject) -> int:
    texts = [embed.get("title"), embed.get("description")]
    texts += [object_of(embed, "footer").get("text"), object_of(embed, "author").get("name")]
    for one in items_of(embed, "fields"):
        texts += [one.get("name"), one.get("value")]
    return sum(len(text or "") for text in texts)


def _attachments(body: JsonObject, uploads: Mapping[str, Upload], edited: Message | None) -> Iterator[Problem]:
    kept = {file.id for file in edited.attachments} if edited is not None else set[str]()
    for index, described in enumerate(items_of(body, "attachments")):
        if str(described.get("id")) not in kept | uploads.keys():
            words = f"Attachment data for attachment with id {described.get('id')} not found"
            yield _problem(["attachments", str(index)], "MESSAGE_ATTACHMENT_NOT_FOUND", words)


# -- components


def _components_v2(body: JsonObject, edited: Message | None) -> Iterator[Problem]:
    kept = {} if edited is None else {"content": edited.content, "embeds": edited.embeds}
    for name in NOT_WITH_V2:
        if body.get(name) or (name not in body and kept.get(name)):
            words = f"The '{name}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2"
            yield _problem([name], "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", words)
    nodes = components(body)
    if len(nodes) > MAX_COMPONENTS:
        # The code is known from reports, the limit is published.
        words = f"The total number of components in this message exceeds the maximum of {MAX_COMPONENTS}"
        yield _problem(["components"], "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED", words)
    text = sum(len(node.get("content") or "") for _, node in nodes if node.get("type") == TEXT_DISPLAY)
    if text > MAX_COMPONENTS_TEXT:
        words = f"The total displayable text size exceeds maximum size of {MAX_COMPONENTS_TEXT}"
        yield _problem(["components"], "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", words)
    yield from _rows(nodes)
    if edited is None and not nodes:
        yield _problem(["components"], "BASE_TYPE_REQUIRED", "This field is required")


def _components_v1(body: JsonObject) -> Iterator[Problem]:
    top = items_of(body, "components")
    if len(top) > MAX_ROWS:
        yield _problem(["components"], "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {MAX_ROWS} in length.")
    for index, one in enumerate(top):
        if one.get("type") != ACTION_ROW:
            words = 'Value of field "type" must be one of (1,).'
            yield _problem(["components", str(index), "type"], "UNION_TYPE_CHOICES", words)
    yield from _rows(components(body))


def _rows(nodes: Sequence[Node]) -> Iterator[Problem]:
    for path, node in nodes:
        if node.get("type") != ACTION_ROW:
            continue
        inside: list[JsonObject] = items_of(node, "components")
        width = sum(5 if one.get("type") in SELECTS else 1 for one in inside)
        if not 1 <= width <= MAX_ROWS:
            yield _problem([*path, "components"], "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")


def _custom_ids(body: JsonObject) -> Iterator[Problem]:
    seen: set[str] = set()
    for path, node in components(body):
        if node.get("type") == BUTTON:
            yield from _button(path, node)
        custom_id = node.get("custom_id")
        if custom_id is None:
            continue
        if custom_id in seen:
            words = "Component custom id cannot be duplicated"
            yield _problem([*path, "custom_id"], "COMPONENT_CUSTOM_ID_DUPLICATED", words)
        seen.add(custom_id)


def _button(path: Path, node: JsonObject) -> Iterator[Problem]:
    style = node.get("style")
    if style == LINK_STYLE and not node.get("url"):
        yield _problem([*path, "url"], "BASE_TYPE_REQUIRED", "A url is required")
    elif style not in (LINK_STYLE, PREMIUM_STYLE) and not node.get("custom_id"):
        yield _problem([*path, "custom_id"], "BASE_TYPE_REQUIRED", "A custom id is required")
    if style == LINK_STYLE and node.get("custom_id"):
        words = "A custom id and url cannot both be specified"
        yield _problem(path, "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE", words)
    if style != PREMIUM_STYLE and not node.get("label") and not node.get("emoji"):
        words = "A label or an emoji is required"
        yield _problem([*path, "label"], "BUTTON_COMPONENT_LABEL_OR_EMOJI_REQUIRED", words)


# -- emptiness


def _says_something(body: JsonObject, uploads: Mapping[str, Upload], edited: Message | None) -> bool:
    if uploads or any(body.get(name) for name in ("embeds", "components", "sticker_ids", "poll")):
        return True
    if (body.get("content") or "").strip():
        return True
    if edited is None:
        return False
    kept = body.get("attachments", edited.attachments)
    rest = [("content", edited.content), ("embeds", edited.embeds), ("components", edited.components)]
    return bool(kept) or any(value for name, value in rest if name not in body)
