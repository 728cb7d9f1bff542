"""Cutting inside one paragraph: what is open at the cut is closed before it and opened again behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from markdown_it.token import Token

from adapters.markdown.text import graphemes
from adapters.markdown.tree import escape

_WORDS = re.compile(r"\s+|\S+")
_LONGEST_ADDRESS = 1000  # characters of a link's target that are repeated at each cut


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Something open around text. Two of the same look are different ones if `number` differs.

    `address` is a link's target that is shown as text behind it, as it is too long to be repeated.
    """

    number: int
    opening: str
    closing: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest stretch that is not cut, as source, and what is open around it."""

    wrappers: tuple[Wrapper, ...]
    source: str
    white: bool = False
    line_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a paragraph is taken apart.

    `one_line`: line breaks become spaces. `bare`: text only, without markup. `longest`: graphemes of a word that stay
    together.
    """

    one_line: bool = False
    bare: bool = False
    longest: int = 64


def units(children: Sequence[Token], manner: Manner) -> list[Unit]:
    """The units of a paragraph."""
    found: list[Unit] = []
    stack: list[Wrapper] = []
    for number, token in enumerate(children):
        if token.nesting > 0:
            stack.append(_wrapper(number, token, manner))
        elif token.nesting < 0:
            closed = stack.pop()
            found.extend(_words(tuple(stack), f" ({closed.address})" if closed.address else "", manner))
        else:
            found.extend(_leaf(number, token, tuple(stack), manner))
    return found


def source_of(some: Sequence[Unit]) -> str:
    """Markdown of consecutive units, without white space at either end."""
    parts: list[str] = []
    open_now: tuple[Wrapper, ...] = ()
    for unit in _trimmed(some):
        parts += (_transition(open_now, unit.wrappers), unit.source)
        open_now = unit.wrappers
    return "".join([*parts, _transition(open_now, ())])


def best_end(some: Sequence[Unit], most: int) -> int:
    """Where to cut among the first `most` units: after a line, else a sentence, if that wastes at most half."""
    for wanted in (_ends_line, _ends_sentence):
        for end in range(most, most // 2, -1):
            if end < len(some) and wanted(some, end):
                return end
    return most


def _ends_line(some: Sequence[Unit], end: int) -> bool:
    return some[end].line_end


def _ends_sentence(some: Sequence[Unit], end: int) -> bool:
    return some[end].white and some[end - 1].source.endswith((".", "!", "?", "…", "。"))


def _trimmed(some: Sequence[Unit]) -> Sequence[Unit]:
    start = sum(1 for _ in takewhile(lambda unit: unit.white, some))
    end = len(some) - sum(1 for _ in takewhile(lambda unit: unit.white, reversed(some)))
    return some[start:end]


def _transition(before: tuple[Wrapper, ...], after: tuple[Wrapper, ...]) -> str:
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    closing = "".join(wrapper.closing for wrapper in reversed(before[shared:]))
    return closing + "".join(wrapper.opening for wrapper in after[shared:])


def _wrapper(number: int, token: Token, manner: Manner) -> Wrapper:
    address = str(token.attrGet("href") or "") if token.type == "link_open" else ""
    if manner.bare or len(address) > _LONGEST_ADDRESS:
        return Wrapper(number, "", "", address)
    if token.type == "link_open":
        return Wrapper(number, "[", _target(token, "href"))
    return Wrapper(number, token.markup, token.markup)


def _target(token: Token, attribute: str) -> str:
    title = str(token.attrGet("title") or "").replace("\\", "\\\\").replace('"', '\\"')
    return f"](<{token.attrGet(attribute) or ''}>" + (f' "{title}")' if title else ")")


def _leaf(number: int, token: Token, stack: tuple[Wrapper, ...], manner: Manner) -> Iterator[Unit]:
    bare = manner.bare
    match token.type:
        case "softbreak" | "hardbreak":
            source = " " if manner.one_line else "\n" if bare or token.type == "softbreak" else "\\\n"
            yield Unit(stack, source, white=True, line_end=True)
        case "image" if bare:
            yield from _words(stack, f"{token.content} ({token.attrGet('src') or ''})", manner)
        case "image":
            yield Unit(stack, f"![{token.content}{_target(token, 'src')}")
        case "html_inline" if not bare:
            yield Unit(stack, token.content)
        case "code_inline" if not bare and token.content.strip():
            yield from _words((*stack, _code(number, token.content)), token.content, manner, literal=True)
        case _:
            yield from _words(stack, token.content, manner)


def _code(number: int, content: str) -> Wrapper:
    marks = "`" * (1 + max(map(len, re.findall("`+", content)), default=0))
    return Wrapper(number, f"{marks} ", f" {marks}")


def _words(stack: tuple[Wrapper, ...], text: str, manner: Manner, *, literal: bool = False) -> Iterator[Unit]:
    for word in _WORDS.findall(text):
        letters = graphemes(word)
        for start in range(0, len(letters), manner.longest):
            stretch = "".join(letters[start : start + manner.longest])
            yield Unit(stack, stretch if literal else escape(stretch), white=word.isspace())
