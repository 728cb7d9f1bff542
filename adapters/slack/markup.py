"""CommonMark as Slack's rich text: one walk over the tree of `adapters.markdown`.

What rich text has nothing for is shown in plain characters: boxes of task lists, rules, targets that are not web
addresses, raw HTML as it was written. Tables are aligned in a fixed-width block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from markdown_it.tree import SyntaxTreeNode

from adapters.markdown import cut_text, parse, split, table_text, units_utf16
from adapters.payload import Payload
from adapters.slack.rich import Run, items, preformatted, quote, rich_text, section, text_of
from adapters.slack.words import escaped

# chat.update refuses a text above 4,000 (`msg_too_long`), and a section one above 3,000; a part is within both, so that
# a message can be edited, and shown in plain sections where rich text is refused
# (https://docs.slack.dev/reference/methods/chat.update, …/block-kit/blocks/section-block).
PART_UNITS = 2900
VERBATIM_UNITS = 2900
TEXT_LIMIT = 4000
SECTION_LIMIT = 3000
# Blocks of more than about 13,000 characters are refused (`msg_blocks_too_long`; slackapi/bolt-js#2509).
PART_BYTES = 10_000
MAX_INDENT = 8
LONGEST_ADDRESS = 2000

_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_BARE = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\]\s+")
Looks = frozenset[str]
PLAIN: Looks = frozenset()


class SlackMarkup:
    """Markup of the contract, for Slack."""

    def split(self, markdown: str) -> tuple[str, ...]:
        """Parts of which each is within one message, with room for a line of ours above and below."""
        return tuple(part for part in split(markdown, fits) if text_of([render(part)]).strip())

    def split_verbatim(self, text: str) -> tuple[str, ...]:
        """Parts of plain text; joined they are the text."""
        return tuple(cut_text(text, is_short))


def fits(markdown: str) -> bool:
    """Whether it is within one message once rendered, and its source within the plain text of one."""
    if len(markdown) > TEXT_LIMIT:
        return False
    block = render(markdown)
    small = len(json.dumps(block, ensure_ascii=False)) <= PART_BYTES
    return small and is_short(text_of([block])) and is_short(markdown)


def is_short(text: str) -> bool:
    """Whether a text is within one section, and within the plain text of a message once escaped."""
    return units_utf16(text) <= VERBATIM_UNITS and units_utf16(escaped(text)) <= TEXT_LIMIT - 300


def render(markdown: str) -> Payload:
    """CommonMark with tables and strikethrough as one block; no text is lost and nobody is mentioned."""
    return rich_text(parts(markdown))


def parts(markdown: str) -> list[Payload]:
    """The same as what the block is made of, so that lines of ours can go around it."""
    writer = _Writer()
    writer.blocks(SyntaxTreeNode(parse(markdown)).children)
    return writer.finished()


@dataclass(slots=True)
class _Writer:
    """Writes the parts of one block; paragraphs that follow each other are one section."""

    done: list[Payload] = field(default_factory=list[Payload])
    open: list[Run] = field(default_factory=list[Run])

    def finished(self) -> list[Payload]:
        self._close()
        return self.done

    def _close(self) -> None:
        if any(run.text for run in self.open):
            self.done.append(section(self.open))
        self.open = []

    def _add(self, part: Payload) -> None:
        self._close()
        self.done.append(part)

    def blocks(self, nodes: Iterable[SyntaxTreeNode]) -> None:
        for node in nodes:
            self._block(node)

    def _block(self, node: SyntaxTreeNode) -> None:
        match node.type:
            case "blockquote":
                self._add(quote(_flat(node.children)))
            case "bullet_list" | "ordered_list":
                self._close()
                self._list(node, 0)
            case "fence" | "code_block":
                self._add(preformatted(node.content.removesuffix("\n")))
            case "table":
                self._add(preformatted(_table(node)))
            case _:
                runs = _leaf(node)
                self.open += [Run("\n\n"), *runs] if self.open and runs else runs

    def _list(self, node: SyntaxTreeNode, indent: int) -> None:
        """Items in a row are one element; what an item holds besides words interrupts it."""
        style = "ordered" if node.type == "ordered_list" else "bullet"
        start = node.attrGet("start")
        first = max(0, int(start) - 1) if start is not None else 0
        row: list[Payload] = []
        offset = first
        for at, item in enumerate(node.children):
            words, rest = _item(item, style)
            row.append(section(words or [Run("\u200b")]))
            if not rest:
                continue
            self._add(items(style, row, indent=indent, offset=offset if style == "ordered" else 0))
            row, offset = [], first + at + 1
            for child in rest:
                self._nested(child, indent)
            self._close()
        if row:
            self._add(items(style, row, indent=indent, offset=offset if style == "ordered" else 0))

    def _nested(self, node: SyntaxTreeNode, indent: int) -> None:
        if node.type in ("bullet_list", "ordered_list"):
            self._close()
            self._list(node, min(indent + 1, MAX_INDENT))
        else:
            self._block(node)


def _item(item: SyntaxTreeNode, style: str) -> tuple[list[Run], list[SyntaxTreeNode]]:
    """The words that an item begins with, and everything from the first thing on that is more than words."""
    words: list[Run] = []
    children = list(item.children)
    while children and children[0].type in ("paragraph", "heading"):
        runs = _leaf(children.pop(0))
        words += [Run("\n"), *runs] if words else runs
    if style == "bullet" and words and (task := _TASK.match(words[0].text)):
        box = "☐ " if task.group(1) == " " else "☑ "
        words[0] = replace(words[0], text=box + words[0].text[task.end() :])
    return words, children


def _leaf(node: SyntaxTreeNode) -> list[Run]:
    """A block that holds only words."""
    match node.type:
        case "heading":
            return _inlines(node.children, frozenset({"bold"}))
        case "html_block":
            return [Run(node.content.rstrip("\n"))]
        case "hr":
            return [Run("———")]
        case _:
            return _inlines(node.children, PLAIN)


def _flat(nodes: Iterable[SyntaxTreeNode]) -> list[Run]:
    """Blocks within a quote, which holds only words: lists as lines with marks, code as code."""
    lines = [line for node in nodes if (line := _flat_block(node))]
    return [run for at, line in enumerate(lines) for run in ([Run("\n"), *line] if at else line)]


def _flat_block(node: SyntaxTreeNode) -> list[Run]:
    match node.type:
        case "bullet_list" | "ordered_list":
            start = int(node.attrGet("start") or 1)
            lines: list[Run] = []
            for at, item in enumerate(node.children):
                mark = f"{start + at}. " if node.type == "ordered_list" else "• "
                lines += [Run("\n" * bool(at) + mark), *_indented(_flat(item.children))]
            return lines
        case "blockquote":
            return [Run("│ "), *_indented(_flat(node.children), "│ ")]
        case "fence" | "code_block":
            content = node.content.removesuffix("\n")
            return [Run(content, frozenset({"code"}))] if content.strip() else [Run(content)]
        case "table":
            return [Run(_table(node), frozenset({"code"}))]
        case _:
            return _leaf(node)


def _indented(runs: Iterable[Run], indent: str = "  ") -> list[Run]:
    return [replace(run, text=run.text.replace("\n", "\n" + indent)) for run in runs]


def _table(node: SyntaxTreeNode) -> str:
    rows = [row for part in node.children for row in part.children]
    return table_text([[_cell(cell) for cell in row.children] for row in rows])


def _cell(cell: SyntaxTreeNode) -> str:
    runs = _inlines(cell.children, PLAIN)
    shown = "".join(run.text if run.url in ("", run.text) else f"{run.text} ({run.url})" for run in runs)
    return shown.replace("\n", " ").strip()


# ----------------------------------------------------------------------------------------------------------- inline


def _inlines(nodes: Iterable[SyntaxTreeNode], looks: Looks) -> list[Run]:
    return [run for node in nodes for run in _inline(node, looks)]


def _inline(node: SyntaxTreeNode, looks: Looks) -> list[Run]:
    match node.type:
        case "softbreak" | "hardbreak":
            return [Run("\n", looks - {"code"})]
        case "strong":
            return _inlines(node.children, looks | {"bold"})
        case "em":
            return _inlines(node.children, looks | {"italic"})
        case "s":
            return _inlines(node.children, looks | {"strike"})
        case "code_inline":
            return [Run(node.content, looks | {"code"})]
        case "link":
            return _link(_inlines(node.children, looks), str(node.attrGet("href") or ""), looks)
        case "image":
            alt = "".join(run.text for run in _inlines(node.children, looks)) or node.content
            return [Run("🖼 ", looks), *_link([Run(alt, looks)], str(node.attrGet("src") or ""), looks)]
        case "inline":
            return _inlines(node.children, looks)
        case _:
            return list(_linked(node.content, looks))


def _link(shown: Sequence[Run], address: str, looks: Looks) -> list[Run]:
    """A link to the web as such; any other target is shown behind the text, since a tap on it could do anything."""
    text = "".join(run.text for run in shown)
    plain = [replace(run, url="") for run in shown]
    if _WEB.match(address) and len(address) <= LONGEST_ADDRESS:
        return [replace(run, url=address) for run in plain] if text.strip() else [Run(address, looks, address)]
    told = not address or address in (text, f"mailto:{text}")
    return plain if told else [*plain, Run(f" ({address})" if text else address, looks)]


def _linked(text: str, looks: Looks) -> Iterator[Run]:
    """A text with the web addresses in it as links."""
    at = 0
    for found in _BARE.finditer(text):
        yield Run(text[at : found.start()], looks)
        address = found[0]
        yield Run(address, looks, address if len(address) <= LONGEST_ADDRESS else "")
        at = found.end()
    yield Run(text[at:], looks)
