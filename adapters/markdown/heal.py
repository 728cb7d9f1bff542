"""Mending markdown that ends in the middle of something, as text does while a model is writing it."""

from __future__ import annotations

import re

from markdown_it.token import Token

from adapters.markdown.tree import parse, text_of

_HALF_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\Z")
_MARK = re.compile(r"\\.|(`+|\*+|_+|~~)", re.DOTALL)


def heal(markdown: str) -> str:
    """The markdown with what is open at its end closed: a fence, code, emphasis; half a link is its text.

    What was complete stays as it is, so that healing twice changes nothing more. Text is never taken away, only marks
    that nothing follows yet.
    """
    tokens = parse(markdown)
    last = next((token for token in reversed(tokens) if token.nesting == 0 and token.map), None)
    if last is None:
        return markdown
    if last.type == "fence":
        return _closed_fence(markdown, last)
    if last.type != "inline" or markdown.endswith("\n\n"):
        return markdown
    return _closed_inline(markdown, last.content)


def _closed_fence(markdown: str, token: Token) -> str:
    lines = markdown.split("\n")
    start, end = token.map or (0, 0)
    letter, count = re.escape(token.markup[0]), len(token.markup)
    if end - start > 1 and re.fullmatch(rf"[>\s]*{letter}{{{count},}}\s*", lines[end - 1]):
        return markdown
    if end - start > 1 and re.fullmatch(rf"[>\s]*{letter}{{1,{count - 1}}}", lines[-1]):
        lines.pop()  # a mark that is being written
    elif not lines[-1]:
        lines.pop()
    before = lines[start][: lines[start].index(token.markup)]
    return "\n".join([*lines, re.sub(r"[^>\s]", " ", before) + token.markup])


def _closed_inline(markdown: str, content: str) -> str:
    source, content = markdown.rstrip(), content.rstrip()
    if half := _HALF_LINK.search(source):
        return _checked(markdown, heal(source[: half.start()] + half.group(1)))
    open_marks = _open_marks(content)
    if not open_marks:
        return markdown
    if content.endswith(open_marks[-1]) and source.endswith(open_marks[-1]):
        return _checked(markdown, heal(source.removesuffix(open_marks[-1]).rstrip()))
    return _checked(markdown, source + "".join(reversed(open_marks)))


def _checked(before: str, after: str) -> str:
    """What was healed, if the two read the same but for marks and the target of half a link; else what was there."""
    plain = [re.sub(r"[`*_~]|\]\([^()\s]*\Z|[\[\]!]", "", text_of(text)) for text in (before, after)]
    return after if plain[0] == plain[1] else before


def _open_marks(content: str) -> list[str]:
    """Marks that are open at the end, outermost first; nothing opens within code."""
    stack: list[str] = []
    at = 0
    while found := _MARK.search(content, at):
        at, mark = found.end(), found.group(1)
        if mark is None:
            continue
        before, after = content[: found.start()][-1:], content[at : at + 1]
        if mark[0] == "`":
            closing = re.compile(rf"(?<!`){mark}(?!`)").search(content, at)
            if closing is None:
                return [*stack, mark]
            at = closing.end()
        elif stack and stack[-1] == mark and before.strip():
            stack.pop()
        elif after.strip() or not after:
            stack.append(mark)
    return stack
