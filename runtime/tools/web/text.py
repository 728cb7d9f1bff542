"""The readable text of a web page, in time proportional to its length whatever stands in it.

Python's own `html.parser` takes minutes for some pages of forty kilobytes, and the pages here are written by strangers.
This reader never goes back: each piece of the page is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape as unescape_html
from urllib.parse import urljoin

MAX_LINK_CHARACTERS = 500

_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9-]{0,30}")
_MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
_STOP = re.compile("[>\"']")
_HREF = re.compile(r"""\bhref\s{0,8}=\s{0,8}(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'>]{1,2000}))""", re.IGNORECASE)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,4}=\s{0,4}["']?([A-Za-z0-9_-]{1,40})""", re.IGNORECASE)
# Of codecs only these: Python knows some by name that do not read text at all.
_CODEC = re.compile(r"(utf-?8|us-ascii|(iso-8859|windows|cp|koi8|euc|gb|big5|shift|utf-?16|latin).*)", re.IGNORECASE)

_SKIPPED = frozenset(
    ("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "select", "textarea")
)
_ENDS = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in (*_SKIPPED, "title")}
_BLOCKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "dd",
            "details",
            "dialog",
            "div",
            "dl",
            "dt",
            "fieldset",
        ),
        *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main"),
        *("nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul", "br"),
    )
)
_PARAGRAPHS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "table", "blockquote"))
_STARTS = {f"h{n}": "#" * n + " " for n in range(1, 7)} | {"li": "- ", "td": "\t", "th": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """The title of a page and its text: blocks on lines of their own, headings with #, links with their target."""

    title: str
    text: str


def decoded(body: bytes, charset: str | None) -> str:
    """The text of a body, by the character set it names; UTF-8 where it names none that is one."""
    named = charset or _named_in(body) or "utf-8"
    if not _CODEC.fullmatch(named):
        named = "utf-8"
    try:
        return body.decode(named, errors="replace")
    except LookupError:
        return body.decode(errors="replace")


def _unescape(text: str) -> str:
    try:
        return unescape_html(text)
    except ValueError:  # a number of thousands of digits
        return text


def _named_in(body: bytes) -> str | None:
    found = _CHARSET.search(body[:2048])
    return found[1].decode("ascii") if found else None


def readable(page: str, base: str = "") -> Readable:
    """The text of an HTML page; links are completed by `base`."""
    writer = _Writer(base)
    for kind, value in _pieces(page):
        match kind:
            case "text":
                writer.text(_unescape(value))
            case "title":
                writer.title = writer.title or " ".join(_unescape(value).split())
            case _:
                writer.tag(kind, value)
    return Readable(title=writer.title, text=writer.finished())


def _pieces(page: str) -> Iterator[tuple[str, str]]:
    """`("text", …)`, `("title", …)`, and tags as (name in small letters, with a slash at its end; all of it)."""
    at = 0
    while at < len(page):
        found = _MARKUP.search(page, at)
        start = found.start() if found else len(page)
        if start > at:
            yield "text", page[at:start]
        name = _NAME.match(page, start + 1)
        if name is None:
            at = _after_no_tag(page, start)
            continue
        end = _end_of_tag(page, name.end())
        tag = name[0].lower()
        yield tag, page[name.end() : end]
        at = end + 1
        if tag in _ENDS:
            at, inner = _inside(page, at, tag)
            if tag == "title":
                yield "title", inner


def _after_no_tag(page: str, start: int) -> int:
    """Beyond a comment or a declaration."""
    closing = "-->" if page.startswith("<!--", start) else ">"
    end = page.find(closing, start + 2)
    return len(page) if end < 0 else end + len(closing)


def _end_of_tag(page: str, at: int) -> int:
    """Where the tag is closed. A quoted value may hold the closing sign."""
    while stop := _STOP.search(page, at):
        if stop[0] == ">":
            return stop.start()
        at = stop.end()
        if page[max(at - 10, 0) : at - 1].rstrip().endswith("="):
            closing = page.find(stop[0], at)
            if closing < 0:
                break
            at = closing + 1
    return len(page)


def _inside(page: str, at: int, tag: str) -> tuple[int, str]:
    """Up to the closing tag of an element whose content is no text of the page: (where that begins, the content)."""
    end = _ENDS[tag].search(page, at)
    return (len(page), page[at:]) if end is None else (end.start(), page[at : end.start()])


class _Writer:
    """Puts the pieces together: blanks within a line are one, lines are separated where blocks are."""

    def __init__(self, base: str) -> None:
        self.title = ""
        self._base = base
        self._parts: list[str] = []
        self._line_begun = False
        self._breaks = 0
        self._blank = False
        self._prefix = ""
        self._verbatim = 0
        self._link: tuple[str, int] | None = None

    def text(self, text: str) -> None:
        """Words of the page."""
        if self._verbatim:
            self._add(text)
            return
        words = text.split()
        if words and self._line_begun and (self._blank or text[0].isspace()):
            self._parts.append(" ")
        if words:
            self._add(" ".join(words))
        self._blank = text[-1:].isspace() or (self._blank and not words)

    def tag(self, name: str, rest: str) -> None:
        """A tag: what it means for lines, and where a link leads."""
        closing = name.startswith("/")
        name = name.lstrip("/")
        if name in _BLOCKS:
            self._end_line(self._breaks + 1 if name == "br" else 2 if name in _PARAGRAPHS else 1)
        if name == "pre":
            self._verbatim = max(self._verbatim + (-1 if closing else 1), 0)
        if not closing and name in _STARTS:
            self._start(_STARTS[name])
        if name == "a":
            self._end_link() if closing else self._begin_link(rest)

    def finished(self) -> str:
        """All of it, without empty lines in a row."""
        kept: list[str] = []
        for line in "".join(self._parts).split("\n"):
            line = line.rstrip()
            if line or (kept and kept[-1]):
                kept.append(line)
        return "\n".join(kept).strip("\n")

    def _start(self, sign: str) -> None:
        if sign == "\t":
            if self._line_begun:
                self._parts.append("\t")
                self._blank = False
        else:
            self._prefix = sign

    def _add(self, text: str) -> None:
        if self._prefix and not self._line_begun:
            self._parts.append(self._prefix)
            self._prefix = ""
        self._parts.append(text)
        self._line_begun = True
        self._breaks = 0

    def _end_line(self, breaks: int) -> None:
        self._parts.append("\n" * max(breaks - self._breaks, 0))
        self._breaks = max(breaks, self._breaks)
        self._line_begun = self._blank = False
        self._prefix = ""

    def _begin_link(self, rest: str) -> None:
        found = _HREF.search(rest)
        target = _unescape(next((value for value in found.groups() if value), "")) if found else ""
        self._link = (target, len(self._parts)) if target and not target.startswith("#") else None

    def _end_link(self) -> None:
        if self._link is None:
            return
        (target, since), self._link = self._link, None
        words = "".join(self._parts[since:]).strip()
        try:
            url = urljoin(self._base, target.strip())
        except ValueError:
            return
        if words and url.startswith(("http://", "https://")) and len(url) <= MAX_LINK_CHARACTERS and url != words:
            self._parts.append(f" <{''.join(url.split())}>")
