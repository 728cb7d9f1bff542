"""Text with entities, as Telegram takes it: no markup that could be broken out of, only ranges.

Offsets and lengths count UTF-16 code units (https://core.telegram.org/bots/api#messageentity). Entities may contain
each other but must not cross; `code` and `pre` contain nothing and stand in nothing but a quote; a quote stands in no
quote.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from adapters.markdown import units_utf16

CODE = frozenset({"code", "pre"})
TARGETED = frozenset({"text_link", "text_mention"})

# The server makes a mention of what looks like one, also in text that comes with entities, but not in code.
MENTION = re.compile(r"(?<![A-Za-z0-9_])@[A-Za-z0-9_]{2,}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Shown as nothing although they count as letters or symbols.
_BLANK = frozenset("\u2800\u3164\u115f\u1160\uffa0\ufffc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a stretch of text is. Neighbours of one look are two entities if their `number` differs."""

    type: str
    number: int = 0
    url: str | None = None
    language: str | None = None
    user: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text within one set of styles, outermost first."""

    text: str
    styles: tuple[Style, ...] = ()

    @property
    def is_block_of_code(self) -> bool:
        return any(style.type == "pre" for style in self.styles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One range of a text."""

    style: Style
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length

    def wire(self) -> dict[str, Any]:
        """The entity as the Bot API takes it."""
        fields: dict[str, Any] = {"type": self.style.type, "offset": self.offset, "length": self.length}
        if self.style.url is not None:
            fields["url"] = self.style.url
        if self.style.language:
            fields["language"] = self.style.language
        if self.style.user is not None:
            fields["user"] = {"id": self.style.user, "is_bot": False, "first_name": str(self.style.user)}
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """A text and its entities, by offset, containing ones first."""

    text: str
    entities: tuple[Entity, ...] = ()

    @property
    def units(self) -> int:
        """Length in UTF-16 code units."""
        return units_utf16(self.text)

    @property
    def weight(self) -> int:
        """Roughly the bytes that the entities take; the server refuses above about 9,500 (ENTITIES_TOO_LONG)."""
        return sum(40 + len(entity.style.url or "") + len(entity.style.language or "") for entity in self.entities)


def formatted(runs: Iterable[Run]) -> Formatted:
    """The runs as one text; nothing in it mentions anybody but a `text_mention`, white space at its end is gone."""
    clean = [Run(_LONE_SURROGATE.sub("\ufffd", run.text), run.styles) for run in runs]
    text = "".join(run.text for run in clean).rstrip()
    return Formatted(text=text, entities=_entities(list(_without_mentions(clean)), units_utf16(text)))


def is_visible(text: str) -> bool:
    """Whether anything is to be seen; the server refuses what it takes for blank."""
    return any(letter not in _BLANK and unicodedata.category(letter) not in _UNSEEN for letter in text)


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp", "Mn", "Me"})


def _without_mentions(runs: Sequence[Run]) -> Iterator[Run]:
    """The runs, with what the server would take for a mention set as code."""
    whole = "".join(run.text for run in runs)
    ranges = [found.span() for found in MENTION.finditer(whole)]
    at = 0
    if not ranges:
        yield from runs
        return
    for run in runs:
        end = at + len(run.text)
        inside = [(max(start, at), min(stop, end)) for start, stop in ranges if start < end and stop > at]
        if any(style.type in CODE | TARGETED for style in run.styles):
            inside = []
        for start, stop in pairwise(sorted({at, end, *(edge for span in inside for edge in span)})):
            stretch = Run(whole[start:stop], run.styles)
            yield as_code(stretch) if (start, stop) in inside else stretch
        at = end


def as_code(run: Run) -> Run:
    """The run as code, out of everything but a quote."""
    quotes = tuple(style for style in run.styles if style.type == "blockquote")
    return Run(run.text, (*quotes, Style(type="code")))


def _entities(runs: Sequence[Run], total: int) -> tuple[Entity, ...]:
    """Ranges of the styles, none beyond the total."""
    found: list[Entity] = []
    started: dict[Style, int] = {}
    at = 0
    for run in [*(run for run in runs if run.text), Run("")]:
        for style in [style for style in started if style not in run.styles]:
            start = started.pop(style)
            if start < total:
                found.append(Entity(style=style, offset=start, length=min(at, total) - start))
        for style in run.styles:
            started.setdefault(style, at)
        at += units_utf16(run.text)
    return tuple(sorted(found, key=lambda entity: (entity.offset, -entity.length)))
