"""Reads Discord's markup as its client does, so that tests see what a person sees. Written without the renderer.

The rules are those of the client's parser: a backslash makes any sign plain, a block of code runs from three backticks
to the next three, code in a line from a run of backticks to an equal one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_BLOCK = re.compile(r"```(?:[a-z0-9_+\-.#]+?\n)?\n*(?P<code>[^\n][\s\S]*?)\n*```", re.IGNORECASE)
_CODE = re.compile(r"(?P<marks>`+)(?P<code>[\s\S]*?[^`])(?P=marks)(?!`)")
_ESCAPE = re.compile(r"\\([^0-9A-Za-z\s])")
_LINK = re.compile(r"\[(?P<text>(?:\[[^\]]*\]|[^\[\]]|\](?=[^\[]*\]))*)\]\(\s*<?(?P<to>(?:[^\s\\]|\\.)*?)>?\s*\)")
_ADDRESS = re.compile(r"<(?P<bare>https?://[^ >]+)>|(?P<plain>https?://[^\s<]+[^<.,:;\"'\]\s])")
_MENTION = re.compile(r"<(?:@[!&]?|#)\d+>|<t:\d+(?::\w)?>|<a?:\w+:\d+>|</[^:>]+:\d+>|@everyone|@here")
_MARKS = re.compile(r"\*\*|\*|__|_|~~|\|\|")
_LINE = re.compile(r"^(?:#{1,3} |-# |> |>>> )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch: what is to be read, and what it is; a link with where it goes."""

    kind: str
    text: str
    to: str = ""


def pieces(markup: str) -> Iterator[Piece]:
    """The markup as stretches; marks of emphasis and of lines are left out."""
    at, plain = 0, ""
    while at < len(markup):
        found, piece = _next(markup, at)
        if piece is None:
            plain += markup[at]
            at += 1
            continue
        if piece.kind == "escaped":
            plain += f"\0{piece.text}"
        else:
            yield from _plain(plain)
            plain = ""
            yield piece
        at = found
    yield from _plain(plain)


def _next(markup: str, at: int) -> tuple[int, Piece | None]:
    if found := _ESCAPE.match(markup, at):
        return found.end(), Piece("escaped", found[1])
    if found := _BLOCK.match(markup, at):
        return found.end(), Piece("block", found["code"])
    if found := _CODE.match(markup, at):
        return found.end(), Piece("code", re.sub(r"^ (?= *`)|(` *) $", r"\1", found["code"]))
    if found := _LINK.match(markup, at):
        return found.end(), Piece("link", readable(found["text"]), found["to"])
    if found := _ADDRESS.match(markup, at):
        return found.end(), Piece("link", found["bare"] or found["plain"], found["bare"] or found["plain"])
    if found := _MENTION.match(markup, at):
        return found.end(), Piece("mention", found.group())
    return at, None


def _plain(text: str) -> Iterator[Piece]:
    shown = _MARKS.sub("", re.sub(r"\0[*_~|]", lambda found: f"\0{ord(found.group()[1])};", text))
    shown = _LINE.sub("", shown)
    shown = re.sub(r"\0(\d+);", lambda found: chr(int(found[1])), shown).replace("\0", "")
    if shown:
        yield Piece("text", shown)


def readable(markup: str) -> str:
    """What is to be read."""
    return "".join(piece.text for piece in pieces(markup))


def shown_in(message: dict[str, Any]) -> str:
    """All words of a message, of its content and of its components."""
    return "\n".join(map(readable, filter(None, [message.get("content", ""), *texts_of(message)])))


def texts_of(message: dict[str, Any]) -> list[str]:
    """The markup of a message's components, in order."""
    return [one["content"] for one in every_component(message) if "content" in one]


def every_component(holder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The components of a message, with those nested in them."""
    for one in holder.get("components", []):
        yield one
        yield from every_component(one)


def buttons_of(message: dict[str, Any]) -> dict[str, str]:
    """The buttons of a message: token by label."""
    found = (one for one in every_component(message) if one["type"] == 2 and "custom_id" in one)
    return {one["label"]: one["custom_id"] for one in found}
