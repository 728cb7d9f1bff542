"""CommonMark as Discord's own dialect of it: one walk over the tree of `adapters.markdown`.

What Discord has no markup for is shown in plain characters: boxes of task lists, rules, quotes in quotes, targets that
are not web addresses, raw HTML as it was written. Tables are aligned in a block of code. Text is escaped, so that
nothing in it is a mention, a heading or a list that was none. Every web address stands between angle brackets: there it
ends where it should, and is not previewed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode

from adapters.discord.limits import MAX_TEXT
from adapters.markdown import cut_text, parse, split, table_text, units_utf16

PART_UNITS = 1700
"""Of the 2,000 of a message; the rest is for our own lines around a part."""

VERBATIM_UNITS = 3400
"""Of the 4,000 of a message of components, in which exact text is shown."""

LONGEST_ADDRESS = 600

_WEB = re.compile(r"https?://[^\s/<>]", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>]+", re.IGNORECASE)
_BEHIND_AN_ADDRESS = ".,:;!?'\")]"
_SPECIAL = re.compile(r"[\\*_~`|\[\]<]|@(?=everyone|here)")
_LINE_START = re.compile(r"^(\s*)(#{1,3}\s|-#|[-+*]\s|>)", re.MULTILINE)
_NUMBERED = re.compile(r"^(\s*\d+)\.(?=\s)", re.MULTILINE)
_SIGN = re.compile(r"[!-/:-@\[-`{-~]")
_TASK = re.compile(r"\[([ xX])\]\s+")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.#-]{1,32}")
_FENCE = "```"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Shown as nothing although they count as letters or symbols.
_BLANK = frozenset("\u2800\u3164\u115f\u1160\uffa0\ufffc")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp", "Mn", "Me"})


class DiscordMarkup:
    """Markup of the contract, for Discord."""

    def split(self, markdown: str) -> tuple[str, ...]:
        """Parts of which each is within one message, with room for a line of ours above and below."""
        return tuple(part for part in split(markdown, fits) if is_visible(render(part)))

    def split_verbatim(self, text: str) -> tuple[str, ...]:
        """Parts of plain text; joined they are the text."""
        return tuple(cut_text(text, lambda part: _length_of_block(part) <= VERBATIM_UNITS))


def fits(markdown: str) -> bool:
    """Whether it is within one message once rendered."""
    return units_utf16(render(markdown)) <= PART_UNITS


def is_visible(text: str) -> bool:
    """Whether anything is to be seen of it; Discord refuses what is blank."""
    return any(letter not in _BLANK and unicodedata.category(letter) not in _UNSEEN for letter in text)


# --------------------------------------------------------------------------------------------------------- plain text


def escaped(text: str) -> str:
    """Plain text as Discord's markup that reads like it; web addresses in it can be followed, and nothing else."""
    text = _LONE_SURROGATE.sub("\ufffd", text)
    parts: list[str] = []
    at = 0
    for found in _ADDRESS.finditer(text):
        address = found.group().rstrip(_BEHIND_AN_ADDRESS)
        if _WEB.match(address):
            parts += [_signs(text[at : found.start()]), f"<{address}>"]
            at = found.start() + len(address)
    return _lines("".join([*parts, _signs(text[at:])]))


def literal(text: str) -> str:
    """Plain text in which nothing at all is interpreted, not even an address: a backslash before every sign."""
    return _SIGN.sub(r"\\\g<0>", _LONE_SURROGATE.sub("\ufffd", text))


def block(text: str, language: str = "") -> str:
    """Text in a block of code, where nothing is interpreted.

    Discord ends a block at the first three backticks whatever it began with, so text that has them is shown literally
    without a block: changing it by a sign that is not seen would make it another text.
    """
    text = _LONE_SURROGATE.sub("\ufffd", text)
    if _FENCE in text or not text.strip("\n"):
        return literal(text)
    return f"{_FENCE}{language}\n{text}\n{_FENCE}"


def _length_of_block(text: str) -> int:
    """Not less than the block has, and never less for a longer text."""
    framed = units_utf16(text) + 8
    return max(framed, units_utf16(literal(text))) if _FENCE in text else framed


def _signs(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _lines(text: str) -> str:
    return _NUMBERED.sub(r"\1\\.", _LINE_START.sub(r"\1\\\2", text))


# ----------------------------------------------------------------------------------------------------------- CommonMark


def render(markdown: str) -> str:
    """CommonMark with tables and strikethrough as Discord's markup; no text is lost and nobody is mentioned."""
    lines = _blocks(SyntaxTreeNode(parse(markdown)).children, frozenset())
    return "\n".join(line.text for line in lines).strip("\n")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of markup. `fixed`: it is in a block of code, whose lines nothing may be put before but a quote's mark."""

    text: str
    fixed: bool = False


def _blocks(nodes: Iterable[SyntaxTreeNode], around: frozenset[str], *, tight: bool = False) -> list[_Line]:
    lines: list[_Line] = []
    for node in nodes:
        part = _block(node, around)
        if part and lines and not tight:
            lines.append(_Line(""))
        lines += part
    return lines


def _block(node: SyntaxTreeNode, around: frozenset[str]) -> list[_Line]:
    match node.type:
        case "heading":
            return _heading(node, around)
        case "blockquote":
            return _quote(node, around)
        case "bullet_list" | "ordered_list":
            return _list(node, around)
        case "fence" | "code_block":
            return _code(node.content.removesuffix("\n"), node.info)
        case "html_block":
            return _text(escaped(node.content.rstrip("\n")))
        case "hr":
            return [_Line("———")]
        case "table":
            return _code(table_text([_row(row) for part in node.children for row in part.children]))
        case _:
            return _text(_lines(_inlines(node.children, around)))


def _text(text: str) -> list[_Line]:
    return [_Line(line) for line in text.split("\n")] if text.strip() else []


def _heading(node: SyntaxTreeNode, around: frozenset[str]) -> list[_Line]:
    """Discord knows three levels, on lines of their own only."""
    level = int(node.tag[1:])
    if level > 3 or around:
        return _text(_wrapped(_inlines(node.children, around | {"**"}), "**", around))
    inner = " ".join(_inlines(node.children, around).split("\n")).strip()
    return _text(f"{'#' * level} {inner}" if inner else "")


def _code(content: str, info: str = "") -> list[_Line]:
    language = _LANGUAGE.match(info)
    shown = block(content, language.group() if language else "")
    return [_Line(line, fixed=True) for line in shown.split("\n")] if content else []


def _quote(node: SyntaxTreeNode, around: frozenset[str]) -> list[_Line]:
    mark = "│ " if ">" in around else "> "
    inner = _blocks(node.children, around | {">"})
    return [_Line(mark + line.text, line.fixed and mark == "> ") for line in inner]


def _list(node: SyntaxTreeNode, around: frozenset[str]) -> list[_Line]:
    start = node.attrGet("start")
    number = 1 if start is None else int(start)
    tight = any(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
    lines: list[_Line] = []
    for at, item in enumerate(node.children):
        mark = f"{number + at}. " if node.type == "ordered_list" else "- "
        inner = _blocks(item.children, around | {"-"}, tight=True)
        if node.type == "bullet_list":
            inner = _task(item, inner)
        if lines and not tight:
            lines.append(_Line(""))
        lines += _marked(mark, inner)
    return lines


def _task(item: SyntaxTreeNode, inner: list[_Line]) -> list[_Line]:
    """The box of a task as a sign, which was escaped as any other bracket."""
    paragraph = next(iter(item.children), None)
    source = paragraph.children[0].content if paragraph and paragraph.type == "paragraph" else ""
    found = _TASK.match(source)
    if not found or not inner:
        return inner
    rest = re.sub(r"^\\\[[ xX]\\\]\s+", "", inner[0].text)
    return [_Line(("☐ " if found.group(1) == " " else "☑ ") + rest), *inner[1:]]


def _marked(mark: str, inner: Sequence[_Line]) -> list[_Line]:
    """An item's lines behind its mark; a block of code stays at the margin, where Discord reads it as one."""
    if not inner or inner[0].fixed:
        return [_Line(mark.rstrip() + " ·"), *inner]
    indent = " " * len(mark)
    rest = [line if line.fixed or not line.text else _Line(indent + line.text) for line in inner[1:]]
    return [_Line(mark + inner[0].text), *rest]


def _row(row: SyntaxTreeNode) -> list[str]:
    return [_plain(cell.children).replace("\n", " ").strip() for cell in row.children]


def _plain(nodes: Iterable[SyntaxTreeNode]) -> str:
    """What is to be read, without markup; the target of a link behind its text."""
    parts: list[str] = []
    for node in nodes:
        match node.type:
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "link":
                text, address = _plain(node.children), str(node.attrGet("href") or "")
                parts.append(text if address in ("", text, f"mailto:{text}") else f"{text} ({address})")
            case "image":
                parts.append(f"🖼 {_plain(node.children)} ({node.attrGet('src') or ''})")
            case _ if node.children:
                parts.append(_plain(node.children))
            case _:
                parts.append(node.content)
    return "".join(parts)


# -------------------------------------------------------------------------------------------------------------- inline


def _inlines(nodes: Iterable[SyntaxTreeNode], around: frozenset[str]) -> str:
    return "".join(_inline(node, around) for node in nodes)


def _inline(node: SyntaxTreeNode, around: frozenset[str]) -> str:
    match node.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "strong":
            return _wrapped(_inlines(node.children, around | {"**"}), "**", around)
        case "em":
            mark = "_" if "**" in around else "*"
            return _wrapped(_inlines(node.children, around | {"*", "_"}), mark, around)
        case "s":
            return _wrapped(_inlines(node.children, around | {"~~"}), "~~", around)
        case "code_inline":
            return _inline_code(node.content)
        case "link":
            return _link(node, str(node.attrGet("href") or ""), _inlines(node.children, around | {"link"}), around)
        case "image":
            return "🖼 " + _link(node, str(node.attrGet("src") or ""), _signs(_plain(node.children)), around)
        case "inline":
            return _inlines(node.children, around)
        case "text" if "link" in around:
            return _signs(_LONE_SURROGATE.sub("\ufffd", node.content))
        case _:
            return _prose(node.content)


def _prose(text: str) -> str:
    """Like `escaped`, but for what begins a line: that is seen only once the whole paragraph is there."""
    return escaped(text) if _ADDRESS.search(text) else _signs(_LONE_SURROGATE.sub("\ufffd", text))


def _wrapped(inner: str, mark: str, around: frozenset[str]) -> str:
    """Marks around what is to be read, unless they are open already; white space stays outside."""
    stripped = inner.strip()
    if not stripped or mark in around or ("_" in around and mark == "*"):
        return inner
    before, after = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    return f"{before}{mark}{stripped}{mark}{after}"


def _inline_code(content: str) -> str:
    """Code in a line; what begins or ends with a backtick, or is blank, can only be shown literally."""
    content = _LONE_SURROGATE.sub("\ufffd", content)
    runs = re.findall("`+", content)
    if not content.strip() or content[0] == "`" or content[-1] == "`" or _FENCE in content:
        return literal(content)
    marks = "`" * (1 + max(map(len, runs), default=0))
    return f"{marks}{content}{marks}" if len(marks) < 3 else literal(content)


def _link(node: SyntaxTreeNode, address: str, shown: str, around: frozenset[str]) -> str:
    """A link to the web as such; any other target is shown behind the text, since a tap on it could do anything.

    Discord shows no link whose text looks like an address, and does not read brackets in it.
    """
    text = _plain(node.children)
    if "link" in around:
        return shown
    if not _WEB.match(address) or len(address) > LONGEST_ADDRESS:
        told = not address or address in (text, f"mailto:{text}")
        return shown if told else f"{shown} ({_signs(address)})" if text.strip() else _signs(address)
    target = f"<{_safe(address)}>"
    if not is_visible(text) or text in (address, address.removeprefix("mailto:")):
        return target
    simple = not re.search(r"[\[\]`\n]|://", text)
    if "://" in text:
        shown = escaped(text)
    return f"[{shown.strip()}]({target})" if simple else f"{shown} ({target})"


def _safe(address: str) -> str:
    """The address without signs that would end it early."""
    return re.sub(r"[\s<>()\\]", lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), address)


assert PART_UNITS < MAX_TEXT
