"""Cutting CommonMark into parts on its tree.

A part is made of whole blocks where that is possible. A block that is too long by itself is broken by its kind: a list
between items, a quote or an item inside, a table between rows with its head repeated, code between lines with its fence
closed and opened again, a paragraph between words. What a break would damage is shown as it was written, in a fence:
text is never lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from markdown_it.token import Token

from adapters.markdown import inline
from adapters.markdown.text import cut_text, longest
from adapters.markdown.tree import fence, parse, references, text_of

Fits: TypeAlias = Callable[[str], bool]
"""Whether markdown, once rendered, is within one message. Once it is false, it is false for anything longer."""

_ITEM = re.compile(r"([ \t]*)([-+*]|\d{1,9}[.)])([ \t]*)(.*)", re.DOTALL)
_QUOTE_MARK = re.compile(r"^ {0,3}>")
_LONGEST_INFO = 100  # characters behind the marks of a fence that are repeated at each cut


@dataclass(frozen=True, slots=True)
class Piece:
    """Markdown that stays together if it can.

    `glue` goes before it if something stands there. `leads`: it belongs to what follows it. `smaller` gives the pieces
    that it is made of, if it does not fit even alone; without it, it does.
    """

    text: str
    glue: str = "\n\n"
    leads: bool = False
    smaller: Callable[[Fits], Iterable[Piece]] | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A block with its tokens, and its source with the lines that it starts with."""

    tokens: Sequence[Token]
    source: str

    @property
    def kind(self) -> str:
        return self.tokens[0].type


def split(markdown: str, fits: Fits) -> tuple[str, ...]:
    """Parts that each fit, in order, none of them blank; no text is lost.

    White space at a cut may go. A single word too long for a message is cut between graphemes. `fits` must accept any
    single grapheme; where it refuses even that, a part is one code point and may not fit.
    """
    if fits(markdown):
        return (markdown,) if markdown.strip() else ()
    definitions = references(markdown)

    def dressed(part: str) -> str:
        return _with_definitions(part, definitions)

    return tuple(dressed(part) for part in _packed(_pieces(markdown), lambda part: fits(dressed(part))))


def _with_definitions(part: str, definitions: Mapping[str, Mapping[str, str]]) -> str:
    """The part with those link definitions that it seems to use: they stood elsewhere in the whole."""
    folded = part.casefold()
    used = {label: to for label, to in definitions.items() if f"[{label.casefold()}]" in folded}
    lines = [f"[{label}]: <{to['href']}>" for label, to in used.items()]
    return "\n\n".join([part, "\n".join(lines)]) if lines else part


def _packed(pieces: Iterable[Piece], fits: Fits) -> Iterator[str]:
    waiting = list(pieces)
    usual = 1000  # characters of the last full part: where the search for the next one begins
    while waiting:
        count = longest(len(waiting), lambda n: fits(_joined(waiting[:n])), _count_within(waiting, usual))
        if count == 0 and (waiting[0].smaller or not text_of(waiting[0].text)):
            waiting[:1] = _after(waiting[0].glue, _smaller(waiting[0], fits))
            continue
        count = _without_leading(waiting, max(1, count))
        part = _joined(waiting[:count])
        usual = len(part) if count < len(waiting) else usual
        del waiting[:count]
        if part.strip():
            yield part


def _after(glue: str, pieces: Iterable[Piece]) -> list[Piece]:
    return [replace(piece, glue=glue) if at == 0 else piece for at, piece in enumerate(pieces)]


def _count_within(pieces: Sequence[Piece], length: int) -> int:
    """How many of the pieces are about that long together."""
    for count, piece in enumerate(pieces):
        length -= len(piece.glue) + len(piece.text)
        if length < 0:
            return count
    return len(pieces)


def _without_leading(pieces: Sequence[Piece], count: int) -> int:
    """The count without pieces at the end that belong to what follows."""
    if count < len(pieces):
        while count > 1 and pieces[count - 1].leads:
            count -= 1
    return count


def _smaller(piece: Piece, fits: Fits) -> Iterable[Piece]:
    return piece.smaller(fits) if piece.smaller else ()


def _joined(pieces: Sequence[Piece]) -> str:
    return pieces[0].text + "".join(piece.glue + piece.text for piece in pieces[1:])


def _pieces(markdown: str) -> Iterator[Piece]:
    for block in _blocks(markdown):
        yield Piece(block.source, leads=block.kind == "heading_open", smaller=partial(_broken, block))


def _blocks(markdown: str) -> Iterator[Block]:
    lines = re.split(r"\r\n|\r|\n", markdown)
    tokens = parse(markdown)
    for group in _groups(tokens, 0):
        start, end = group[0].map or (0, 0)
        yield Block(group, "\n".join(lines[start:end]).rstrip("\n"))


def _groups(tokens: Sequence[Token], level: int) -> Iterator[Sequence[Token]]:
    """The tokens of each child, from its opening to its closing one."""
    start: int | None = None
    for at, token in enumerate(tokens):
        if token.level == level and token.nesting >= 0 and start is None:
            start = at
        if token.level == level and token.nesting <= 0 and start is not None:
            yield tokens[start : at + 1]
            start = None


def _broken(block: Block, fits: Fits) -> Iterable[Piece]:
    match block.kind:
        case "fence" | "code_block":
            return _code(block.tokens[0], fits)
        case "table_open":
            return _table(block, fits)
        case "blockquote_open":
            return _unless_damaged(block, list(_quote(block)), fits)
        case "bullet_list_open" | "ordered_list_open":
            return _unless_damaged(block, list(_list(block)), fits)
        case "paragraph_open" | "heading_open":
            return _paragraph(block, fits)
        case _:
            return _as_written(block.source, fits)


def _unless_damaged(block: Block, pieces: Sequence[Piece], fits: Fits) -> Iterable[Piece]:
    """The pieces, or the block as it was written if taking it apart would have changed what is to be read."""
    if text_of(block.source) == "".join(text_of(piece.text) for piece in pieces):
        return pieces
    return _as_written(block.source, fits)


def _as_written(source: str, fits: Fits) -> Iterator[Piece]:
    return (Piece(fence(part)) for part in cut_text(source, lambda part: fits(fence(part))))


def _code(token: Token, fits: Fits) -> Iterator[Piece]:
    info = token.info if len(token.info) <= _LONGEST_INFO else token.info.split()[0][:_LONGEST_INFO]
    marks = token.markup if token.type == "fence" else "```"
    whole = fence(token.content, info, marks)
    at_least = whole[: len(whole) - len(whole.lstrip(marks[0]))]
    content = token.content.removesuffix("\n")
    if not fits(fence("two words", info, at_least)):
        info = ""
    return (
        Piece(fence(part.removeprefix("\n"), info, at_least))
        for part in cut_text(content, lambda part: fits(fence(part, info, at_least)))
    )


def _table(block: Block, fits: Fits) -> Iterator[Piece]:
    head, rows = block.source.split("\n")[:2], block.source.split("\n")[2:]
    while rows:
        count = longest(len(rows), lambda n, rows=rows: fits("\n".join([*head, *rows[:n]])))
        if count:
            yield Piece("\n".join([*head, *rows[:count]]))
        else:
            # No row fits below the head: both are shown as they were written, the head here once more.
            count = 1
            yield from _as_written("\n".join([*head, rows[0]]), fits)
        rows = rows[count:]
    if block.source.count("\n") < 2:
        yield from _as_written(block.source, fits)


def _quote(block: Block) -> Iterator[Piece]:
    inner = "\n".join(_unquoted(line) for line in block.source.split("\n"))
    return (_in_quote(piece, "\n\n" if at == 0 else None) for at, piece in enumerate(_pieces(inner)))


def _in_quote(piece: Piece, glue: str | None = None) -> Piece:
    def smaller(fits: Fits) -> Iterable[Piece]:
        return map(_in_quote, _smaller(piece, lambda part: fits(_quoted(part))))

    between = "\n" + _quoted(piece.glue[1:-1]) + "\n" if len(piece.glue) > 1 else piece.glue
    return Piece(_quoted(piece.text), glue or between, piece.leads, smaller)


def _unquoted(line: str) -> str:
    """The line without its quote mark; one without a mark goes on with the paragraph above."""
    mark = _QUOTE_MARK.match(line)
    if not mark:
        return line
    rest = line[mark.end() :]
    return rest[1:] if rest.startswith(" ") else _outdented(rest, 1, at=mark.end())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def _list(block: Block) -> Iterator[Piece]:
    lines = block.source.split("\n")
    opening = block.tokens[0]
    first_line = (opening.map or (0, 0))[0]
    number = int(opening.attrs.get("start", 1)) if opening.type == "ordered_list_open" else None
    glue = "\n" if any(token.hidden for token in block.tokens) else "\n\n"
    for at, group in enumerate(_groups(block.tokens[1:-1], opening.level + 1)):
        start, end = group[0].map or (0, 0)
        inner = _item_text("\n".join(lines[start - first_line : end - first_line]))
        mark = opening.markup if number is None else f"{number + at}{opening.markup}"
        yield Piece(_marked(mark, inner), glue if at else "\n\n", smaller=partial(_item, mark, inner))


def _marked(mark: str, text: str) -> str:
    lines = text.split("\n")
    indent = " " * (len(mark) + 1)
    return "\n".join([f"{mark} {lines[0]}", *(indent + line if line else line for line in lines[1:])])


def _item(mark: str, inner: str, fits: Fits) -> Iterable[Piece]:
    """The blocks of an item that is too long: the first with its mark, the others as blocks of their own."""
    first, *others = list(_pieces(inner)) or [Piece("")]
    return [_with_mark(mark, first), *others] if others else _smaller(_with_mark(mark, first), fits)


def _with_mark(mark: str, piece: Piece) -> Piece:
    def smaller(fits: Fits) -> Iterable[Piece]:
        for at, part in enumerate(_smaller(piece, lambda text: fits(_marked(mark, text)))):
            yield part if at else _with_mark(mark, part)

    return replace(piece, text=_marked(mark, piece.text), smaller=smaller)


def _item_text(source: str) -> str:
    """What stands in an item: its lines without mark and indentation."""
    first, *others = source.split("\n")
    found = _ITEM.match(first)
    if not found:
        return source
    before, mark, gap, rest = found.groups()
    width = len((before + mark).expandtabs(4))
    spaces = len((before + mark + gap).expandtabs(4)) - width
    offset = width + (spaces if rest and 1 <= spaces <= 4 else 1)
    head = rest if offset == width + spaces else " " * (spaces - 1) + rest
    return "\n".join([head, *(_outdented(line, offset) for line in others)]).strip("\n")


def _outdented(line: str, columns: int, at: int = 0) -> str:
    """The line without that many columns of indentation, or without all that it has; a tab reaches to a stop of 4."""
    column = at
    for position, letter in enumerate(line):
        if column - at >= columns or letter not in " \t":
            return " " * (column - at - columns) + line[position:]
        column += 4 - column % 4 if letter == "\t" else 1
    return ""


def _paragraph(block: Block, fits: Fits) -> Iterable[Piece]:
    """A paragraph or heading between its words, without markup if that does not survive the cut."""
    level = "#" * int(block.kind == "heading_open" and block.tokens[0].tag[1:]) + " "
    prefix = level if level.strip() else ""
    children = block.tokens[1].children or []
    for bare, word in ((False, 64), (False, 4), (True, 4), (True, 1)):
        units = inline.units(children, inline.Manner(one_line=bool(prefix), bare=bare, longest=word))
        if fits(prefix + max((inline.source_of([unit]) for unit in units), key=len, default="")):
            pieces = [Piece(prefix + text) for text in _cut_units(units, lambda part: fits(prefix + part)) if text]
            if bare or text_of(block.source) == "".join(text_of(piece.text) for piece in pieces):
                return pieces
    return _as_written(block.source, fits)


def _cut_units(units: Sequence[inline.Unit], fits: Fits) -> Iterator[str]:
    usual = 150  # units of the last part
    while units:
        most = max(1, longest(len(units), lambda n, units=units: fits(inline.source_of(units[:n])), usual))
        end = inline.best_end(units, most) if most < len(units) else most
        yield inline.source_of(units[:end])
        units, usual = units[end:], most
