"""CommonMark as Telegram's text and entities: one walk over the tree of `adapters.markdown`.

What Telegram has no entity for is shown in plain characters: bullets, boxes of task lists, rules, targets that are not
web addresses, raw HTML as it was written. Tables are aligned in a fixed-width block.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from urllib.parse import unquote

from markdown_it.tree import SyntaxTreeNode

from adapters.markdown import cut_text, parse, split, table_text, units_utf16
from adapters.telegram.formatted import CODE, TARGETED, Formatted, Run, Style, as_code, formatted, is_visible

# A message may have 4096 characters after parsing, counted in code points by the server (td: MessageContent.cpp); we
# count UTF-16 units, which are never fewer. What is left of it is for our own lines around a part.
MESSAGE_UNITS = 4096
PART_UNITS = 3800
VERBATIM_UNITS = 3600
# About 100 entities are kept, the rest is dropped without a word (tdlib/telegram-bot-api#165).
PART_ENTITIES = 90
PART_WEIGHT = 7000
LONGEST_ADDRESS = 2000

_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)
# The address of a question of ours, however it is written: in a text of an agent it must not become a link.
_FORM = re.compile(r"[^?#]*\b(?:t\.me|telegram\.(?:me|dog))\b.*\bform=", re.DOTALL)
_TASK = re.compile(r"\[([ xX])\]\s+")
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")


class TelegramMarkup:
    """Markup of the contract, for Telegram."""

    def split(self, markdown: str) -> tuple[str, ...]:
        """Parts of which each is within one message, with room for a line of ours above and below."""
        return tuple(part for part in split(markdown, fits) if is_visible(render(part).text))

    def split_verbatim(self, text: str) -> tuple[str, ...]:
        """Parts of plain text; joined they are the text."""
        return tuple(cut_text(text, lambda part: units_utf16(part) <= VERBATIM_UNITS))


def fits(markdown: str) -> bool:
    """Whether it is within one message once rendered."""
    return is_within(render(markdown), PART_UNITS)


def is_within(shown: Formatted, units: int) -> bool:
    """Whether the text is that short, and its entities not more than the server keeps."""
    return shown.units <= units and len(shown.entities) <= PART_ENTITIES and shown.weight <= PART_WEIGHT


def render(markdown: str) -> Formatted:
    """CommonMark with tables and strikethrough as text and entities; no text is lost and nobody is mentioned."""
    return formatted(render_runs(markdown))


def render_runs(markdown: str) -> list[Run]:
    """The same before it is joined, so that lines of ours can go around it."""
    return _Renderer().blocks(SyntaxTreeNode(parse(markdown)).children, ())


class _Renderer:
    """Numbers what it makes, so that two neighbours of one kind stay two."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def _style(self, kind: str, *, url: str | None = None, language: str | None = None) -> Style:
        return Style(type=kind, number=next(self._numbers), url=url, language=language)

    def blocks(self, nodes: Iterable[SyntaxTreeNode], around: tuple[Style, ...], glue: str = "\n\n") -> list[Run]:
        parts = [part for node in nodes if (part := self._block(node, around))]
        return [run for at, part in enumerate(parts) for run in ([Run(glue, around), *part] if at else part)]

    def _block(self, node: SyntaxTreeNode, around: tuple[Style, ...]) -> list[Run]:
        match node.type:
            case "heading":
                return self._inlines(node.children, (*around, self._style("bold")))
            case "blockquote":
                return self._quote(node, around)
            case "bullet_list" | "ordered_list":
                return self._list(node, around)
            case "fence" | "code_block":
                return self._code(node.content.removesuffix("\n"), around, node.info)
            case "html_block":
                return _some(Run(node.content.rstrip("\n"), around))
            case "hr":
                return [Run("———", around)]
            case "table":
                return self._code(
                    table_text([self._row(row) for part in node.children for row in part.children]), around
                )
            case _:
                return self._inlines(node.children, around)

    def _code(self, content: str, around: tuple[Style, ...], info: str = "") -> list[Run]:
        language = _LANGUAGE.match(info)
        quotes = tuple(style for style in around if style.type == "blockquote")
        return _some(Run(content, (*quotes, self._style("pre", language=language and language.group()))))

    def _quote(self, node: SyntaxTreeNode, around: tuple[Style, ...]) -> list[Run]:
        if any(style.type == "blockquote" for style in around):
            inner = self.blocks(node.children, around, "\n")
            return _prefixed(inner, "│ ", "│ ", around) if inner else []
        return self.blocks(node.children, (*around, self._style("blockquote")), "\n")

    def _list(self, node: SyntaxTreeNode, around: tuple[Style, ...]) -> list[Run]:
        start = node.attrGet("start")
        number = 1 if start is None else int(start)
        tight = any(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        runs: list[Run] = []
        for at, item in enumerate(node.children):
            mark = f"{number + at}. " if node.type == "ordered_list" else "• "
            inner = self.blocks(item.children, around, "\n")
            if node.type == "bullet_list" and inner and (task := _TASK.match(inner[0].text)):
                mark = "☐ " if task.group(1) == " " else "☑ "
                inner[0] = replace(inner[0], text=inner[0].text[task.end() :])
            glue = [Run("\n" if tight else "\n\n", around)] if at else []
            runs += [*glue, *_prefixed(inner, mark, "  ", around)]
        return runs

    def _row(self, row: SyntaxTreeNode) -> list[str]:
        cells = (self._inlines(cell.children, (Style(type="pre"),)) for cell in row.children)
        return ["".join(run.text for run in cell).replace("\n", " ").strip() for cell in cells]

    def _inlines(self, nodes: Iterable[SyntaxTreeNode], around: tuple[Style, ...]) -> list[Run]:
        return [run for node in nodes for run in self._inline(node, around)]

    def _inline(self, node: SyntaxTreeNode, around: tuple[Style, ...]) -> list[Run]:
        match node.type:
            case "softbreak" | "hardbreak":
                return [Run("\n", around)]
            case "strong":
                return self._inlines(node.children, (*around, self._style("bold")))
            case "em":
                return self._inlines(node.children, (*around, self._style("italic")))
            case "s":
                return self._inlines(node.children, (*around, self._style("strikethrough")))
            case "code_inline":
                run = Run(node.content, around)
                return [run if any(style.type in TARGETED for style in around) else as_code(run)]
            case "link":
                return self._link(self._inlines(node.children, ()), node, str(node.attrGet("href") or ""), around)
            case "image":
                alt = Run(self._image_text(node), around)
                return [Run("🖼 ", around), *self._link(_some(alt), node, str(node.attrGet("src") or ""), around)]
            case "inline":
                return self._inlines(node.children, around)
            case _:
                return _some(Run(node.content, around))

    def _image_text(self, node: SyntaxTreeNode) -> str:
        return "".join(run.text for run in self._inlines(node.children, ())) or node.content

    def _link(self, plain: Sequence[Run], node: SyntaxTreeNode, address: str, around: tuple[Style, ...]) -> list[Run]:
        """A link to the web as such; any other target is shown behind the text, since a tap on it could do anything."""
        text = "".join(run.text for run in plain)
        possible = not any(style.type in CODE | TARGETED for style in around)
        possible = possible and not _is_form_link(address)
        if possible and _WEB.match(address) and len(address) <= LONGEST_ADDRESS:
            inside = (*around, self._style("text_link", url=address))
            shown = self._inlines(node.children, inside) if node.type == "link" else _some(Run(text, inside))
            return shown if is_visible(text) else [Run(address, inside)]
        shown = self._inlines(node.children, around) if node.type == "link" else list(plain)
        told = not address or address in (text, f"mailto:{text}")
        return shown if told else [*shown, Run(f" ({address})" if text else address, around)]


def _is_form_link(address: str) -> bool:
    return _FORM.match(unicodedata.normalize("NFKC", unquote(address)).casefold()) is not None


def _some(run: Run) -> list[Run]:
    return [run] if run.text else []


def _prefixed(runs: Sequence[Run], first: str, rest: str, around: tuple[Style, ...]) -> list[Run]:
    """The runs with something before the first line and before all others, but never inside or before code."""
    if runs and runs[0].is_block_of_code:
        first = first.rstrip() + "\n"
    following: Iterator[Run | None] = iter([*runs[1:], None])
    return [Run(first, around), *(_indented(run, rest, next(following)) for run in runs)]


def _indented(run: Run, indent: str, following: Run | None) -> Run:
    if run.is_block_of_code:
        return run
    text = run.text.replace("\n", "\n" + indent)
    before_code = following is not None and following.is_block_of_code and text.endswith("\n" + indent)
    return replace(run, text=text.removesuffix(indent) if before_code else text)
