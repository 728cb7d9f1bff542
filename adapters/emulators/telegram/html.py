"""`parse_mode=HTML`: the grammar of td/telegram/MessageEntity.cpp, with its errors at byte offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from adapters.emulators.telegram.entities import Entity, FormattedText, byte_offset, in_order, utf16_length
from adapters.emulators.telegram.links import link_entity
from adapters.emulators.telegram.markup_error import MarkupError

STYLES: Final = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
}
TAGS: Final = frozenset(STYLES) | {"a", "pre", "code", "blockquote", "tg-emoji", "tg-time"}
NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
ARGUMENTS: Final = {
    ("a", "href"): "",
    ("code", "class"): "language-",
    ("span", "class"): "tg-",
    ("tg-emoji", "emoji-id"): "",
    ("tg-time", "unix"): "",
}
"""Attribute that gives a tag its argument -> prefix that the value must have and that is cut."""

END: Final = "\0"


def parse_html(source: str) -> FormattedText:
    """Text and entities of an HTML source. Raises MarkupError."""
    return _Parser(source).parse()


@dataclass(slots=True, kw_only=True)
class _Open:
    tag: str
    argument: str
    detail: str
    offset: int
    position: int
    """Length of the output when the tag opened."""


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._out: list[str] = []
        self._offset = 0
        self._open: list[_Open] = []
        self._entities: list[Entity] = []

    def parse(self) -> FormattedText:
        while self._at < len(self._source):
            character = self._source[self._at]
            if character == "&" and (decoded := self._decode()):
                self._emit(decoded)
            elif character != "<":
                self._emit(character)
                self._at += 1
            elif self._peek(1) == "/":
                self._end_tag()
            else:
                self._start_tag()
        if self._open:
            raise MarkupError(f'Can\'t find end tag corresponding to start tag "{self._open[-1].tag}"')
        return FormattedText(text="".join(self._out), entities=tuple(in_order(self._entities)))

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._source[place] if place < len(self._source) else END

    def _emit(self, text: str) -> None:
        self._out.append(text)
        self._offset += utf16_length(text)

    def _fail(self, message: str, position: int) -> MarkupError:
        return MarkupError(message.replace("{at}", f"byte offset {byte_offset(self._source, position)}"))

    def _decode(self) -> str | None:
        """The character that a reference at the current place stands for; moves past it. None if it is not one."""
        end = self._at + 1
        if self._peek(1) == "#":
            end, code = _number(self._source, self._at)
            if code == 0 or code >= 0x10FFFF or end - self._at >= 10 or 0xD800 <= code <= 0xDFFF:
                return None
            decoded = chr(code)
        else:
            while end < len(self._source) and self._source[end].isascii() and self._source[end].isalpha():
                end += 1
            name = self._source[self._at + 1 : end]
            if name not in NAMED:
                return None
            decoded = NAMED[name]
        self._at = end + 1 if self._source[end : end + 1] == ";" else end
        return decoded

    def _start_tag(self) -> None:
        begin = self._at
        self._at += 1
        while not _is_space(self._peek()) and self._peek() != ">":
            self._at += 1
        if self._peek() == END:
            raise self._fail("Unclosed start tag at {at}", begin)
        tag = self._source[begin + 1 : self._at].lower()
        if tag not in TAGS:
            raise self._fail(f'Unsupported start tag "{tag}" at {{at}}', begin)
        argument = detail = ""
        while (attribute := self._attribute(tag, begin)) is not None:
            argument = _argument(tag, *attribute) or argument
            detail = attribute[1] if (tag, attribute[0]) == ("tg-time", "format") else detail
        if tag == "span" and argument != "spoiler":
            raise self._fail('Tag "span" must have class "tg-spoiler" at {at}', begin)
        self._at += 1
        self._open.append(
            _Open(tag=tag, argument=argument, detail=detail, offset=self._offset, position=len(self._out))
        )

    def _attribute(self, tag: str, begin: int) -> tuple[str, str] | None:
        """The next attribute of a start tag; None at its `>`."""
        self._skip_spaces()
        if self._peek() == ">":
            return None
        start = self._at
        while not _is_space(self._peek()) and self._peek() not in "=>":
            self._at += 1
        name = self._source[start : self._at]
        if not name:
            raise self._fail(f'Empty attribute name in the tag "{tag}" at {{at}}', begin)
        self._skip_spaces()
        if self._peek() != "=":
            if (tag, name) == ("blockquote", "expandable") and self._peek() != END:
                return name, ""
            raise self._fail(f'Expected equal sign in declaration of an attribute of the tag "{tag}" at {{at}}', begin)
        self._at += 1
        self._skip_spaces()
        if self._peek() == END:
            raise self._fail(f'Unclosed start tag "{tag}" at {{at}}', begin)
        value = self._quoted() if self._peek() in "'\"" else self._token()
        if self._peek() == END:
            raise self._fail("Unclosed start tag at {at}", begin)
        return name, value

    def _token(self) -> str:
        start = self._at
        while self._peek().isascii() and (self._peek().isalnum() or self._peek() in ".-"):
            self._at += 1
        if not _is_space(self._peek()) and self._peek() != ">":
            raise self._fail("Unexpected end of name token at {at}", start)
        return self._source[start : self._at].lower()

    def _quoted(self) -> str:
        quote = self._peek()
        self._at += 1
        value: list[str] = []
        while self._peek() not in (quote, END):
            if self._peek() == "&" and (decoded := self._decode()):
                value.append(decoded)
                continue
            value.append(self._peek())
            self._at += 1
        if self._peek() == quote:
            self._at += 1
        return "".join(value)

    def _skip_spaces(self) -> None:
        while self._peek() != END and _is_space(self._peek()):
            self._at += 1

    def _end_tag(self) -> None:
        begin = self._at
        if not self._open:
            raise self._fail("Unexpected end tag at {at}", begin)
        while not _is_space(self._peek()) and self._peek() != ">":
            self._at += 1
        name = self._source[begin + 2 : self._at].lower()
        self._skip_spaces()
        if self._peek() != ">":
            raise self._fail("Unclosed end tag at {at}", begin)
        expected = self._open[-1].tag
        if name and name != expected:
            raise self._fail(f'Unmatched end tag at {{at}}, expected "</{expected}>", found "</{name}>"', begin)
        self._at += 1
        self._close(self._open.pop())

    def _close(self, opened: _Open) -> None:
        length = self._offset - opened.offset
        if not length:
            return
        if opened.tag in ("pre", "code"):
            self._close_preformatted(opened, length)
            return
        if (entity := _entity(opened, length, "".join(self._out[opened.position :]))) is not None:
            self._entities.append(entity)

    def _close_preformatted(self, opened: _Open, length: int) -> None:
        """`<pre><code class="language-x">` and the reverse are one entity with a language."""
        last = self._entities[-1] if self._entities else None
        same_place = last is not None and (last.offset, last.length) == (opened.offset, length)
        language = opened.argument
        if last is not None and same_place and opened.tag == "pre" and last.type == "code":
            language = last.argument
            self._entities.pop()
        elif last is not None and same_place and opened.tag == "code" and last.type == "pre":
            self._entities.pop()
            opened.tag = "pre"
        self._entities.append(Entity(type=opened.tag, offset=opened.offset, length=length, argument=language))


def _argument(tag: str, name: str, value: str) -> str | None:
    if (tag, name) == ("blockquote", "expandable"):
        return "expandable"
    prefix = ARGUMENTS.get((tag, name))
    if prefix is None or not value.startswith(prefix):
        return None
    return value[len(prefix) :]


def _entity(opened: _Open, length: int, text: str) -> Entity | None:
    tag, place = opened.tag, opened.offset
    if tag in STYLES:
        return Entity(type=STYLES[tag], offset=place, length=length)
    if tag == "blockquote":
        kind = "expandable_blockquote" if opened.argument else "blockquote"
        return Entity(type=kind, offset=place, length=length)
    if tag == "a":
        return link_entity(opened.argument or text, place, length)
    if not opened.argument.lstrip("-").isdecimal():
        what = "custom emoji identifier" if tag == "tg-emoji" else "date"
        raise MarkupError(f"Invalid {what} specified")
    kind = "custom_emoji" if tag == "tg-emoji" else "date_time"
    return Entity(type=kind, offset=place, length=length, argument=opened.argument, detail=opened.detail)


def _number(source: str, at: int) -> tuple[int, int]:
    """End and value of a numeric reference that begins with `&#` at `at`."""
    end = at + 2
    digits, base = ("0123456789abcdefABCDEF", 16) if source[end : end + 1] == "x" else ("0123456789", 10)
    start = end + 1 if base == 16 else end
    end = start
    while end < len(source) and source[end] in digits:
        end += 1
    return end, int(source[start:end] or "0", base)


def _is_space(character: str) -> bool:
    return character in " \t\r\n\v\0"
