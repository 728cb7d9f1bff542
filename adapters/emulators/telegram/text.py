"""From a request's text to the text the platform keeps, in the order in which the server checks it.

The first half (`read_text`) happens before the chat is looked up, the second (`accept_text`) after: a bad parse mode in
an unknown chat is reported as a bad parse mode, a blank text in an unknown chat as an unknown chat.
"""

from __future__ import annotations

from typing import Any, Final

from adapters.emulators.telegram.entities import (
    AUTOMATIC,
    MAX_ENTITIES,
    Entity,
    FormattedText,
    settle,
)
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.html import parse_html
from adapters.emulators.telegram.links import checked_link, link_entity
from adapters.emulators.telegram.markdown import parse_markdown, parse_markdown_v2
from adapters.emulators.telegram.markup_error import MarkupError
from adapters.emulators.wire_json import is_array, is_integer, is_object

MAX_RAW_BYTES: Final = 1 << 15
MAX_TEXT: Final = 4096
"""Unicode code points after parsing (td `utf8_length`), while entity offsets count UTF-16 units."""
MAX_CAPTION: Final = 1024
PARSERS: Final = {"html": parse_html, "markdownv2": parse_markdown_v2, "markdown": parse_markdown}
PLAIN: Final = frozenset(
    {
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "code",
        "blockquote",
        "expandable_blockquote",
    }
)


def read_text(text: str, parse_mode: str, entities: Any) -> FormattedText:
    """Parse a text by its mode, or take its entities. Raises ApiError 400."""
    if len(text.encode()) > MAX_RAW_BYTES:
        raise bad_request("Text is too long")
    mode = parse_mode.lower()
    if text and mode not in ("", "none"):
        if mode not in PARSERS:
            raise bad_request("Unsupported parse_mode")
        try:
            return PARSERS[mode](text)
        except MarkupError as error:
            raise bad_request(f"Can't parse entities: {error}") from error
    given = [_entity(one) for one in entities] if is_array(entities) else []
    return FormattedText(text=text, entities=tuple(one for one in given if one is not None))


def accept_text(parsed: FormattedText, *, limit: int = MAX_TEXT, allow_empty: bool = False) -> FormattedText:
    """Clean, trim and measure. Raises ApiError 400; returns at most `MAX_ENTITIES` entities."""
    settled = settle(parsed.text, parsed.entities, allow_empty=allow_empty)
    if len(settled.text) > limit:
        what = "Message is too long" if limit == MAX_TEXT else "Message caption is too long"
        raise bad_request(what)
    return FormattedText(text=settled.text, entities=_capped(settled.entities))


def _capped(entities: tuple[Entity, ...]) -> tuple[Entity, ...]:
    """The first hundred formatting entities; automatic ones and custom emoji are not counted."""
    kept: list[Entity] = []
    left = MAX_ENTITIES
    for one in entities:
        free = one.type in AUTOMATIC or one.type == "custom_emoji"
        if free or left > 0:
            kept.append(one)
            left -= 0 if free else 1
    return tuple(kept)


def _entity(value: Any) -> Entity | None:
    """One MessageEntity of a request; None for a type that the platform finds by itself or a link that is none."""

    def wrong(problem: str) -> Exception:
        return bad_request(f"Can't parse MessageEntity: {problem}")

    if not is_object(value):
        raise wrong("expected an Object")
    offset, length, kind = (value.get(name) for name in ("offset", "length", "type"))
    for name, number in (("offset", offset), ("length", length)):
        if not is_integer(number):
            missing = f'Can\'t find field "{name}"'
            raise wrong(missing if number is None else f'Field "{name}" must be of type Number')
    if not isinstance(kind, str) or not kind:
        raise wrong("Type is not specified" if kind == "" else 'Can\'t find field "type"')
    if kind in AUTOMATIC:
        return None
    assert is_integer(offset)
    assert is_integer(length)
    if kind == "text_link":
        return _link(value.get("url"), offset, length)
    argument = _argument(kind, value)
    if argument is None:
        raise wrong("Unsupported type specified")
    detail = str(value.get("date_time_format", ""))
    return Entity(type=kind, offset=offset, length=length, argument=argument, detail=detail)


def _link(address: Any, offset: int, length: int) -> Entity | None:
    if not isinstance(address, str):
        raise bad_request("Can't parse MessageEntity: Can't find field \"url\"")
    entity = link_entity(address, offset, length)
    if entity is None and checked_link(address) is None:
        raise bad_request(f"Entity URL '{address}' is invalid: Wrong HTTP URL")
    return entity


def _argument(kind: str, value: dict[str, Any]) -> str | None:
    """What the entity carries; None for a type that does not exist."""
    if kind in PLAIN:
        return ""
    if kind == "date_time":
        return str(value["unix_time"]) if is_integer(value.get("unix_time")) else None
    if kind == "pre":
        return str(value.get("language", ""))
    if kind == "custom_emoji":
        return str(value.get("custom_emoji_id", ""))
    if kind == "text_mention" and is_object(user := value.get("user")):
        return str(user.get("id", ""))
    return None
