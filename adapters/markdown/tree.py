"""The one parser, and what can be asked of its tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

# The parser silently drops what is nested deeper than it goes, so what comes near is read as plain text instead.
DEEPEST = 60
_PARSER = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"])
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&=])")
_SPACE = re.compile(r"\s+")


def parse(markdown: str, env: dict[str, Any] | None = None) -> list[Token]:
    """Tokens of CommonMark with tables and strikethrough; what is nested beyond reason is read as plain text."""
    tokens = _PARSER.parse(markdown, env)
    # Twice the depth of the lists and quotes is not the level: a list has a level for itself and one for its item.
    if max((token.level for token in tokens), default=0) >= DEEPEST - 4:
        return _PARSER.parse(escape(markdown))
    return tokens


def references(markdown: str) -> Mapping[str, Mapping[str, str]]:
    """Link definitions by normalised label: `href` and `title`."""
    env: dict[str, Any] = {}
    parse(markdown, env)
    return env.get("references", {})


def escape(text: str) -> str:
    """Markdown that shows the text as it is."""
    return _MARKUP.sub(r"\\\1", text)


def fence(text: str, info: str = "", at_least: str = "```") -> str:
    """A fenced block around the text, with marks that nothing in it can close."""
    mark = at_least[0]
    runs = re.findall(re.escape(mark) + "+", text)
    marks = mark * max(len(at_least), 1 + max(map(len, runs), default=0))
    return f"{marks}{info}\n{text}\n{marks}"


def leaves(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens that carry text, in order."""
    for token in tokens:
        if token.children is not None and token.type != "image":
            yield from leaves(token.children)
        elif token.nesting == 0:
            yield token


def text_of(markdown: str) -> str:
    """Everything in it that is to be read, without white space: equal texts mean that nothing was lost."""
    return _SPACE.sub("", "".join(token.content for token in leaves(parse(markdown))))
