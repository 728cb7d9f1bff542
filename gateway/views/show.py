"""Text that a person has to judge, with nothing invisible in it and nothing that reorders it.

`unshow(show(text)) == text` for every text, so what is shown names exactly one text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from gateway.secrets import redact

MAX_BLANKS: Final = 8
"""More blanks in a row than this are counted instead of shown: padding must not push anything out of sight."""

# By category, since lists of tricks are always short of one: controls, formats (bidi, zero-width, tags), private use,
# lone surrogates, unassigned, separators, and marks that sit on or replace other characters.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs", "Mn", "Me"})
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols by category that are drawn as nothing."""
_OUR_SIGNS: Final = frozenset("⏎␠")
"""Signs that we put in ourselves; escaped where they come from the text."""

_BLANKS = re.compile(rf" {{{MAX_BLANKS + 1},}}")
_SHOWN = re.compile(r"\\\\|\\u\{([0-9A-F]+)\}|⏎\n|␠×([0-9]+)")
_HOST = re.compile(r"[^\x00-\x2c\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\s]+")
"""What can be in a host name: letters and digits of any script, `-` and `.`."""


def hidden(char: str) -> bool:
    """The character draws nothing of its own, or moves others. Blank and line end are shown by other means."""
    if " " < char < "\x7f":
        return False
    return char not in " \n" and (unicodedata.category(char) in _HIDDEN_CATEGORIES or char in _BLANK_LETTERS)


def hidden_count(text: str) -> int:
    """How many characters of `text` are hidden."""
    return 0 if _plain(text) else sum(hidden(char) for char in text)


def show(text: str) -> str:
    """`text` for a person: backslashes doubled, hidden characters as `\\u{HEX}`, a `⏎` before each line end."""
    if "  " in text and (pieces := _BLANKS.split(text))[1:]:
        return _with_counted_blanks(pieces, _BLANKS.findall(text))
    return _escape(text)


def _with_counted_blanks(pieces: list[str], runs: list[str]) -> str:
    shown = [_escape(pieces[0])]
    for run, piece in zip(runs, pieces[1:], strict=True):
        shown.append(f"␠×{len(run)}")
        if piece[:1].isascii() and piece[:1].isdecimal():  # else it would be read as part of the count
            shown.append(_escaped(piece[0]) + _escape(piece[1:]))
        else:
            shown.append(_escape(piece))
    return "".join(shown)


def _escape(text: str) -> str:
    if _plain(text) and "\\" not in text and "\n" not in text:
        return text
    return "".join(map(_shown, text))


@lru_cache(maxsize=2048)
def _shown(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char == "\n":
        return "⏎\n"
    return _escaped(char) if hidden(char) or char in _OUR_SIGNS else char


def _escaped(char: str) -> str:
    return f"\\u{{{ord(char):X}}}"


def _plain(text: str) -> bool:
    """A fast yes for the common case: nothing but printable ASCII and line ends."""
    return text.isascii() and text.replace("\n", "").isprintable()


def unshow(shown: str) -> str:
    """The text that `show` was given."""
    return _SHOWN.sub(_original, shown)


def _original(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] is not None:
        return " " * int(match[2])
    return "\\" if match[0] == "\\\\" else "\n"


def plain(text: str, limit: int | None = None) -> str:
    """One readable line for cards and lists: no secrets, blanks joined, hidden characters named, cut at `limit`."""
    line = " ".join(redact(text).split())
    if not _plain(line):
        line = "".join(_escaped(char) if hidden(char) else char for char in line)
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + "…"


def first_line(text: str) -> str:
    """The first line of `text` that says something, with "…" where more follows: joined lines would read as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "" if not lines else f"{lines[0]} …" if lines[1:] else lines[0]


def whole(text: str) -> str:
    """`text` as a message can carry it: without registered secrets and lone surrogates."""
    text = redact(text)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def foreign_hosts(text: str) -> tuple[tuple[str, str], ...]:
    """(as written, as punycode) of everything in `text` that looks like a host name with letters beyond ASCII."""
    if text.isascii():
        return ()
    found = dict.fromkeys(name.strip(".-") for name in _HOST.findall(text) if "." in name and not name.isascii())
    return tuple((name, ascii_name) for name in found if (ascii_name := _punycode(name)) is not None)


def _punycode(name: str) -> str | None:
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return None  # no resolver would take it
