"""Plain text: how long it is, and where it may be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import regex

_GRAPHEME = regex.compile(r"\X")


def units_utf16(text: str) -> int:
    """Length in UTF-16 code units; a lone surrogate is one."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def graphemes(text: str) -> list[str]:
    """What a reader takes for one character each; joined they are the text."""
    return list(text) if text.isascii() and "\r\n" not in text else _GRAPHEME.findall(text)


def longest(count: int, fits: Callable[[int], bool], guess: int = 1) -> int:
    """The largest n up to `count` for which `fits(n)`, or 0; `fits` has to turn false once, for good.

    The search begins at the guess, since each question may cost milliseconds.
    """
    if count == 0:
        return 0
    low, high = 0, count + 1
    probe, step = max(1, min(guess, count)), max(1, guess // 16)
    while high - low > 1:
        if fits(probe):
            low, probe = probe, probe + step
        else:
            high, probe = probe, probe - step
        step *= 2
        if not low < probe < high:
            probe = (low + high) // 2
    return low


def cut_text(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Parts of a plain text that each fit; joined they are the text.

    Cut before a line break where there is one, else between graphemes, and inside one only if it alone does not fit:
    clusters of thousands of marks exist. No part is cut after white space, which many a platform trims away.
    """
    rest = text
    while rest:
        size = _end_of_part(rest, fits)
        yield rest[:size]
        rest = rest[size:]


def _end_of_part(text: str, fits: Callable[[str], bool]) -> int:
    """Where the first part of the text ends; at least one code point."""
    if fits(text):
        return len(text)
    ends = _ends_of_lines(text)
    if found := longest(len(ends), lambda n: fits(text[: ends[n - 1]])):
        return ends[found - 1]
    for pieces in (graphemes(text[: ends[0]] if ends else text), list(text)):
        if found := longest(len(pieces), lambda n, pieces=pieces: fits("".join(pieces[:n]))):
            return _back_over_blanks(pieces, found)
    return 1


def _ends_of_lines(text: str) -> list[int]:
    """Positions of line breaks that follow something to read, so that the break begins the next part."""
    return [i for i, letter in enumerate(text) if letter == "\n" and i and not text[i - 1].isspace()]


def _back_over_blanks(pieces: list[str], count: int) -> int:
    """Length of the first pieces, without those white ones at the end that would be trimmed."""
    end = count
    while end > 1 and pieces[end - 1].isspace():
        end -= 1
    return len("".join(pieces[: end if not pieces[end - 1].isspace() else count]))
