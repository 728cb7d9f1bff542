"""How Slack writes down what a person typed: escapes, links, and the rich text that goes along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from adapters.emulators.wire_json import JsonObject, is_array, is_object

_TOKEN = re.compile(r"<(?P<reference>[@#!][A-Za-z0-9_|^~:./-]+)>|(?P<link>https?://[^\s<>]+)")
_REFERENCE = re.compile(r"(?P<kind>[@#!])(?P<id>[A-Za-z0-9_^]+)")
_LINK = re.compile(r"https?://[^\s<>|\")\]]+")
_MENTION = re.compile(r"<@(\w+)>")
SPECIAL: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str) -> str:
    """Text with the three characters that Slack escapes."""
    return "".join(SPECIAL.get(character, character) for character in text)


def as_sent(typed: str) -> str:
    """The `text` of a message: typed text escaped, addresses as links; `<@U1>`, `<#C1>` and `<!here>` stay."""
    written: list[str] = []
    for kind, piece in _pieces(typed):
        match kind:
            case "text":
                written.append(escaped(piece))
            case "link":
                written.append(f"<{escaped(piece)}>")
            case _:
                written.append(f"<{piece}>")
    return "".join(written)


def rich_text(typed: str, block_id: str) -> list[JsonObject]:
    """The blocks that Slack adds to a message of a person."""
    if not typed:
        return []
    elements = [_rich_element(kind, piece) for kind, piece in _pieces(typed)]
    section: JsonObject = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def links_in(value: Any) -> list[str]:
    """Addresses in a text, or in the texts of blocks."""
    if is_object(value):
        return [link for item in value.values() for link in links_in(item)]
    if is_array(value):
        return [link for item in value for link in links_in(item)]
    return _LINK.findall(value) if isinstance(value, str) else []


def mentions(text: str, user: str) -> bool:
    """Whether a message's text mentions the user."""
    return user in _MENTION.findall(text)


def _rich_element(kind: str, piece: str) -> JsonObject:
    if kind == "text":
        return {"type": "text", "text": piece}
    if kind == "link":
        return {"type": "link", "url": piece}
    found = _REFERENCE.match(piece)
    identity = found["id"] if found else piece
    match piece[0]:
        case "@":
            return {"type": "user", "user_id": identity}
        case "#":
            return {"type": "channel", "channel_id": identity}
        case _:
            return {"type": "broadcast", "range": identity}


def _pieces(typed: str) -> Iterator[tuple[str, str]]:
    at = 0
    for found in _TOKEN.finditer(typed):
        if found.start() > at:
            yield "text", typed[at : found.start()]
        if found["link"]:
            yield "link", found["link"]
        else:
            yield "reference", found["reference"]
        at = found.end()
    if at < len(typed):
        yield "text", typed[at:]
