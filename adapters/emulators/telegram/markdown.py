"""`parse_mode=MarkdownV2` and the older `Markdown`: the grammars of td/telegram/MessageEntity.cpp."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from adapters.emulators.telegram.entities import Entity, FormattedText, byte_offset, in_order, utf16_length
from adapters.emulators.telegram.links import link_entity
from adapters.emulators.telegram.markup_error import MarkupError

RESERVED: Final = frozenset("_*[]()~`>#+-=|{}.!\n")
END: Final = "\0"
NAMES: Final = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "Pre",
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
    "blockquote": "BlockQuote",
}
CLOSERS: Final = {
    "bold": "*",
    "underline": "__",
    "strikethrough": "~",
    "spoiler": "||",
    "code": "`",
    "pre": "```",
    "text_link": "]",
    "custom_emoji": "]",
}
_EMOJI = re.compile(r"tg:(?://)?emoji\?id=(\d+)")


def parse_markdown_v2(source: str) -> FormattedText:
    """Text and entities of a MarkdownV2 source. Raises MarkupError."""
    return _Parser(source).parse()


@dataclass(slots=True, kw_only=True)
class _Open:
    type: str
    offset: int
    position: int
    """Length of the output when it opened."""
    begin: int
    """Where it opened in the source."""
    argument: str = ""


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._out: list[str] = []
        self._offset = 0
        self._open: list[_Open] = []
        self._entities: list[Entity] = []
        self._in_quote = False
        self._at_line_start = True

    def parse(self) -> FormattedText:
        while self._at < len(self._source):
            self._step()
        if self._open and self._open[-1].type == "blockquote":
            self._close(self._open.pop())
        if self._open:
            raise self._unended(self._open[-1])
        return FormattedText(text="".join(self._out), entities=tuple(in_order(self._entities)))

    def _step(self) -> None:
        character = self._peek()
        if character == "\\" and 0 < ord(self._peek(1)) <= 126:
            self._emit(self._peek(1))
            self._at += 2
        elif not self._is_reserved(character):
            self._emit(character)
            self._at += 1
        elif self._ends_entity(character):
            self._end(character)
        else:
            self._begin(character)

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._source[place] if place < len(self._source) else END

    def _looks_at(self, text: str) -> bool:
        return self._source.startswith(text, self._at)

    def _emit(self, character: str) -> None:
        self._out.append(character)
        self._offset += utf16_length(character)
        self._at_line_start = character == "\n"

    def _is_reserved(self, character: str) -> bool:
        if self._open and self._open[-1].type in ("code", "pre"):
            return character == "`"
        return character in RESERVED

    def _ends_entity(self, character: str) -> bool:
        if not self._open:
            return False
        if self._in_quote and character == "\n" and self._peek(1) != ">":
            return True
        kind = self._open[-1].type
        if kind == "italic":
            return character == "_" and self._peek(1) != "_"
        if kind == "blockquote":
            return self._looks_at("||") and self._peek(2) in (END, "\n") and self._peek(3) != ">"
        return self._looks_at(CLOSERS[kind])

    # -- openings

    def _begin(self, character: str) -> None:
        if character == "\n":
            self._emit("\n")
            self._at += 1
            if self._in_quote and self._peek() == ">":
                self._at += 1
                self._at_line_start = False
        elif self._at_line_start and not self._in_quote and (self._looks_at(">") or self._looks_at("**>")):
            self._push("blockquote", 1 if character == ">" else 3)
            self._in_quote = True
        elif character == "`":
            self._begin_code()
        else:
            self._push(*self._style(character))

    def _style(self, character: str) -> tuple[str, int]:
        """Type and length of the opening mark at the current place."""
        if self._looks_at("__"):
            return "underline", 2
        if self._looks_at("||"):
            return "spoiler", 2
        if self._looks_at("!["):
            return "custom_emoji", 2
        single = {"_": "italic", "*": "bold", "~": "strikethrough", "[": "text_link"}
        if character not in single:
            raise MarkupError(f"Character '{character}' is reserved and must be escaped with the preceding '\\'")
        return single[character], 1

    def _push(self, kind: str, mark: int, argument: str = "") -> None:
        self._open.append(
            _Open(type=kind, offset=self._offset, position=len(self._out), begin=self._at, argument=argument)
        )
        self._at += mark
        self._at_line_start = False

    def _begin_code(self) -> None:
        if not self._looks_at("```"):
            self._push("code", 1)
            return
        self._push("pre", 3)
        language = re.compile(r"[^\s`]+(?=[^`])").match(self._source, self._at)
        if language is not None and self._source[language.end() : language.end() + 1] not in ("`", ""):
            self._open[-1].argument = language.group()
            self._at = language.end()
        self._at += _line_break(self._source, self._at)

    # -- endings

    def _end(self, character: str) -> None:
        opened = self._open.pop()
        if character == "\n" and opened.type != "blockquote":
            raise self._unended(opened)
        if opened.type == "blockquote":
            self._end_quote(opened)
            return
        self._at += 1 if opened.type == "italic" else len(CLOSERS[opened.type])
        if opened.type in ("text_link", "custom_emoji"):
            self._end_link(opened)
        else:
            self._close(opened)
        self._at_line_start = False

    def _end_quote(self, opened: _Open) -> None:
        self._in_quote = False
        if self._looks_at("||"):
            opened.type = "expandable_blockquote"
            self._at += 2
        if self._peek() == "\n":
            self._emit("\n")
            self._at += 1
        self._close(opened)

    def _end_link(self, opened: _Open) -> None:
        text = "".join(self._out[opened.position :])
        if self._peek() != "(":
            if opened.type == "custom_emoji":
                raise MarkupError("Custom emoji entity must contain a tg://emoji URL")
            address = text
        else:
            address = self._address("URL" if opened.type == "text_link" else "custom emoji URL")
        length = self._offset - opened.offset
        if opened.type == "custom_emoji":
            found = _EMOJI.fullmatch(address)
            if found is None:
                raise MarkupError("Custom emoji URL must have scheme tg")
            self._add(Entity(type="custom_emoji", offset=opened.offset, length=length, argument=found[1]))
        elif (entity := link_entity(address, opened.offset, length)) is not None:
            self._add(entity)

    def _address(self, what: str) -> str:
        self._at += 1
        begin = self._at
        address: list[str] = []
        while self._peek() != ")":
            if self._at >= len(self._source):
                raise MarkupError(f"Can't find end of a {what} at byte offset {byte_offset(self._source, begin)}")
            if self._peek() == "\\" and 0 < ord(self._peek(1)) <= 126:
                self._at += 1
            address.append(self._peek())
            self._at += 1
        self._at += 1
        return "".join(address)

    def _close(self, opened: _Open) -> None:
        self._add(
            Entity(
                type=opened.type,
                offset=opened.offset,
                length=self._offset - opened.offset,
                argument=opened.argument,
            )
        )

    def _add(self, entity: Entity) -> None:
        if entity.length:
            self._entities.append(entity)

    def _unended(self, opened: _Open) -> MarkupError:
        name = "PreCode" if opened.type == "pre" and opened.argument else NAMES[opened.type]
        place = byte_offset(self._source, opened.begin)
        return MarkupError(f"Can't find end of {name} entity at byte offset {place}")


def _line_break(source: str, at: int) -> int:
    """Length of one line break at `at`; two different characters count as one break."""
    pair = source[at : at + 2]
    if pair[:1] not in ("\n", "\r"):
        return 0
    return 2 if pair in ("\r\n", "\n\r") else 1


_LEGACY = {"_": "italic", "*": "bold"}


def parse_markdown(source: str) -> FormattedText:
    """Text and entities of the older Markdown, which knows no nesting. Raises MarkupError."""
    out: list[str] = []
    entities: list[Entity] = []
    at = 0
    while at < len(source):
        character = source[at]
        if character == "\\" and source[at + 1 : at + 2] in tuple("_*`["):
            out.append(source[at + 1])
            at += 2
        elif character not in "_*`[":
            out.append(character)
            at += 1
        else:
            at, text, entity = _legacy_entity(source, at, utf16_length("".join(out)))
            out.append(text)
            if entity is not None and entity.length:
                entities.append(entity)
    return FormattedText(text="".join(out), entities=tuple(in_order(entities)))


def _legacy_entity(source: str, begin: int, offset: int) -> tuple[int, str, Entity | None]:
    """Where the entity at `begin` ends, its text, and the entity."""
    mark = "```" if source.startswith("```", begin) else source[begin]
    inner = begin + len(mark)
    language = ""
    if mark == "```":
        if found := re.compile(r"([^\s`]+)(?=\s)").match(source, inner):
            language, inner = found[1], found.end()
        inner += _line_break(source, inner)
    closing = "]" if mark == "[" else mark
    end = source.find(closing, inner)
    if end < 0:
        place = byte_offset(source, begin)
        raise MarkupError(f"Can't find end of the entity starting at byte offset {place}")
    text = source[inner:end]
    after = end + len(closing)
    length = utf16_length(text)
    if mark == "[":
        address = text
        if source[after : after + 1] == "(":
            close = source.find(")", after)
            close = len(source) if close < 0 else close
            address, after = source[after + 1 : close], close + 1
        return after, text, link_entity(address, offset, length)
    kind = _LEGACY.get(mark) or ("pre" if mark == "```" else "code")
    return after, text, Entity(type=kind, offset=offset, length=length, argument=language)
