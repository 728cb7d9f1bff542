"""Text with entities: offsets in UTF-16 units, nesting, cleaning, trimming.

Follows `fix_formatted_text` of td/telegram/MessageEntity.cpp in effect: the same texts are refused with the same words,
the same characters are dropped, and entities that may not overlap do not. Two differences: properly nested styles stay
nested where the server may split them, and automatic entities are found by simpler patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.wire_json import JsonObject

SPLITTABLE: Final = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
QUOTES: Final = frozenset({"blockquote", "expandable_blockquote"})
PREFORMATTED: Final = frozenset({"pre", "code"})
AUTOMATIC: Final = frozenset(
    {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number"}
)
HIDDEN_DATA: Final = PREFORMATTED | {"text_link", "text_mention"}
"""Entities that are kept around whitespace because they carry something that cannot be seen."""

MAX_ENTITIES: Final = 100
MAX_OFFSET: Final = 1_000_000

_DROPPED = re.compile("[\r\u2028-\u202e\u0333\u033f\u030a]")
_SPACES = re.compile("[\x00-\x09\x0b\x0c\x0e-\x20]")
_INVISIBLE = re.compile(
    "[\\s\u00a0\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
_FOUND = re.compile(
    r"(?P<url>(?:https?|ftp|tg)://[^\s<>\"]*[^\s<>\".,;:!?)\]}'])"
    r"|(?P<email>\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-zA-Z]{2,}\b)"
    r"|(?P<domain>(?<![\w@./-])(?:[\w-]+\.)+(?:com|org|net|io|dev|app|me|ru|de|uk|info)\b(?:/[^\s<>\"]*[^\s<>\".,;:!?)\]}'])?)"
    r"|(?P<mention>(?<![\w/@])@[a-zA-Z0-9_]{3,32}\b)"
    r"|(?P<bot_command>(?<![\w/<>])/[a-zA-Z0-9_]{1,64}(?:@[a-zA-Z0-9_]{3,32})?(?![\w/@]))"
    r"|(?P<hashtag>(?<![\w#@/&])#\w*[^\W\d]\w*)"
    r"|(?P<cashtag>(?<![\w$])\$[A-Z]{1,8}\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One entity; `argument` is the address, language, user, emoji id or instant that its type carries.

    `detail` is the display format of a date.
    """

    type: str
    offset: int
    length: int
    argument: str = ""
    detail: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.length

    def to_wire(self) -> JsonObject:
        """As MessageEntity; `text_mention` needs the user object, which the caller adds."""
        wire: JsonObject = {"type": self.type, "offset": self.offset, "length": self.length}
        match self.type:
            case "text_link":
                wire["url"] = self.argument
            case "pre" if self.argument:
                wire["language"] = self.argument
            case "custom_emoji":
                wire["custom_emoji_id"] = self.argument
            case "date_time":
                wire["unix_time"] = int(self.argument)
                wire |= {"date_time_format": self.detail} if self.detail else {}
            case _:
                pass
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedText:
    """A text and its entities."""

    text: str = ""
    entities: tuple[Entity, ...] = ()


def utf16_length(text: str) -> int:
    """Length in the unit of entity offsets."""
    return len(text) + sum(1 for character in text if ord(character) > 0xFFFF)


def byte_offset(text: str, position: int) -> int:
    """The unit of offsets in error messages."""
    return len(text[:position].encode())


def in_order(entities: Iterable[Entity]) -> list[Entity]:
    """By start, the longer first: the order in which the platform lists them."""
    return sorted(entities, key=lambda one: (one.offset, -one.length, one.type))


def settle(text: str, entities: Iterable[Entity], *, allow_empty: bool, automatic: bool = True) -> FormattedText:
    """The text as the platform keeps it: cleaned, trimmed, entities legal and sorted.

    Raises ApiError 400 for entities outside of the text or inside of a character, and for a text that shows nothing
    unless `allow_empty`.
    """
    given = list(entities)
    _check_bounds(text, given)
    cleaned, moved = _clean(text, [one for one in given if one.length])
    # Whitespace that leaves an entity can make two of them cross, so the overlaps are looked at once more.
    legal = _resolve_overlaps(_without_blank(cleaned, _resolve_overlaps(moved)))
    trimmed, legal = _trim(cleaned, legal)
    if not _INVISIBLE.sub("", trimmed):
        if allow_empty:
            return FormattedText()
        raise bad_request("text must be non-empty")
    if automatic:
        legal = in_order([*legal, *_apart(find_automatic(trimmed), legal)])
    return FormattedText(text=trimmed, entities=tuple(legal))


def _check_bounds(text: str, entities: list[Entity]) -> None:
    for one in entities:
        if not 0 <= one.offset <= MAX_OFFSET:
            raise bad_request(f"Receive an entity with incorrect offset {one.offset}")
        if not 0 <= one.length <= MAX_OFFSET:
            raise bad_request(f"Receive an entity with incorrect length {one.length}")
    if any(one.length for one in entities):
        _check_borders(text, [one for one in entities if one.length])


def _check_borders(text: str, entities: list[Entity]) -> None:
    positions = _utf16_positions(text)
    total = utf16_length(text)
    for one in in_order(entities):
        begins = f"Entity beginning at UTF-16 offset {one.offset} ends"
        if one.offset > total:
            raise bad_request(f"Entity begins after the end of the text at UTF-16 offset {one.offset}")
        if one.offset not in positions:
            place = byte_offset(text, positions[one.offset + 1])
            raise bad_request(f"Entity begins in a middle of a UTF-16 symbol at byte offset {place}")
        if one.end > total:
            raise bad_request(f"{begins} after the end of the text at UTF-16 offset {one.end}")
        if one.end not in positions:
            place = byte_offset(text, positions[one.end + 1])
            raise bad_request(f"{begins} in a middle of a UTF-16 symbol at byte offset {place}")


def _utf16_positions(text: str) -> dict[int, int]:
    """UTF-16 offset of every character border -> its index."""
    positions: dict[int, int] = {}
    offset = 0
    for index, character in enumerate(text):
        positions[offset] = index
        offset += 2 if ord(character) > 0xFFFF else 1
    positions[offset] = len(text)
    return positions


def _clean(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Control characters become spaces; carriage returns, direction marks and a few others are dropped."""
    spaced = _SPACES.sub(" ", text)
    # All dropped characters are one UTF-16 unit long.
    dropped = [utf16_length(spaced[: found.start()]) for found in _DROPPED.finditer(spaced)]
    if not dropped:
        return spaced, entities

    def moved(offset: int) -> int:
        return offset - sum(1 for place in dropped if place < offset)

    shifted = [replace(one, offset=moved(one.offset), length=moved(one.end) - moved(one.offset)) for one in entities]
    return _DROPPED.sub("", spaced), [one for one in shifted if one.length]


def _trim(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Spaces and line ends at both ends go, but not in front of the first entity."""
    stripped = text.rstrip(" \n")
    end = utf16_length(stripped)
    kept = [replace(one, length=min(one.end, end) - one.offset) for one in entities if one.offset < end]
    first = min((one.offset for one in kept), default=end)
    lead = min(len(stripped) - len(stripped.lstrip(" \n")), first)
    return stripped[lead:], in_order(replace(one, offset=one.offset - lead) for one in kept)


def _without_blank(text: str, entities: list[Entity]) -> list[Entity]:
    """Entities over whitespace only are dropped, leading whitespace leaves them; those with hidden data stay."""
    units = text.encode("utf-16-le")

    def covered(one: Entity) -> str:
        return units[2 * one.offset : 2 * one.end].decode("utf-16-le")

    kept: list[Entity] = []
    for one in entities:
        if one.type in HIDDEN_DATA:
            kept.append(one)
            continue
        inner = covered(one)
        lead = len(inner) - len(inner.lstrip(" \n"))
        if lead < len(inner):
            kept.append(replace(one, offset=one.offset + lead, length=one.length - lead))
    return in_order(kept)


def _resolve_overlaps(entities: list[Entity]) -> list[Entity]:
    ordered = in_order(entities)
    quotes = _apart([one for one in ordered if one.type in QUOTES], [])
    solid = _apart([one for one in ordered if one.type not in SPLITTABLE | QUOTES], [])
    solid = [one for one in solid if not any(_crosses(one, quote) or _inside(quote, one) for quote in quotes)]
    styles: list[Entity] = []
    for kind in sorted(SPLITTABLE):
        styles += _merged([one for one in ordered if one.type == kind])
    for barrier in [*solid, *quotes]:
        styles = [part for one in styles for part in _cut(one, barrier, drop=barrier.type in PREFORMATTED)]
    return in_order([*quotes, *solid, *_nested(in_order(styles))])


def _apart(entities: Iterable[Entity], taken: Iterable[Entity]) -> list[Entity]:
    """Those that touch neither an earlier one of themselves nor, if solid, one that is taken."""
    solid = [one for one in taken if one.type not in SPLITTABLE | QUOTES]
    kept: list[Entity] = []
    for one in in_order(entities):
        if all(one.end <= other.offset or other.end <= one.offset for other in [*kept[-1:], *solid]):
            kept.append(one)
    return kept


def _crosses(one: Entity, other: Entity) -> bool:
    first, second = sorted((one, other), key=lambda entity: (entity.offset, -entity.length))
    return second.offset < first.end < second.end


def _inside(inner: Entity, outer: Entity) -> bool:
    return outer.offset <= inner.offset and inner.end <= outer.end and inner.length < outer.length


def _merged(same_type: list[Entity]) -> list[Entity]:
    merged: list[Entity] = []
    for one in same_type:
        if merged and one.offset <= merged[-1].end:
            merged[-1] = replace(merged[-1], length=max(one.end, merged[-1].end) - merged[-1].offset)
        else:
            merged.append(one)
    return merged


def _cut(one: Entity, barrier: Entity, *, drop: bool) -> list[Entity]:
    """Pieces of a style at the borders of something it may not cross; the piece inside goes if `drop`."""
    if barrier.end <= one.offset or one.end <= barrier.offset or (not drop and not _crosses(one, barrier)):
        return [one]
    borders = sorted(
        {one.offset, one.end, *(place for place in (barrier.offset, barrier.end) if one.offset < place < one.end)}
    )
    pieces = [replace(one, offset=start, length=end - start) for start, end in pairwise(borders)]
    return [piece for piece in pieces if not (drop and barrier.offset <= piece.offset < barrier.end)]


def _nested(styles: list[Entity]) -> list[Entity]:
    """Styles that overlap halfway are split, so that every pair is nested or apart."""
    result: list[Entity] = []
    for one in styles:
        pieces = [one]
        for other in result:
            pieces = [part for piece in pieces for part in _cut(piece, other, drop=False)]
        result += pieces
    return result


def find_automatic(text: str) -> list[Entity]:
    """Mentions, commands, tags, addresses: what the platform marks without being told."""
    found: list[Entity] = []
    for match in _FOUND.finditer(text):
        kind = match.lastgroup or ""
        offset = utf16_length(text[: match.start()])
        found.append(
            Entity(type="url" if kind == "domain" else kind, offset=offset, length=utf16_length(match.group()))
        )
    return found
