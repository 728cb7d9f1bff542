"""Finds the line of a key in TOML text, so that an error can point at it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias, cast

KeyPath: TypeAlias = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)([^\]\[]+)\]\]?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TRIPLE = re.compile(r'"""|\'\'\'')


def lines_of(text: str) -> dict[KeyPath, int]:
    """Line number, from 1, of every table header and key that starts a line of its own."""
    found: dict[KeyPath, int] = {}
    counts: Counter[KeyPath] = Counter()
    table: KeyPath = ()
    inside_text = False
    for number, line in enumerate(text.splitlines(), start=1):
        if inside_text or line.lstrip().startswith("#"):
            inside_text ^= len(_TRIPLE.findall(line)) % 2 == 1 and inside_text
            continue
        if header := _HEADER.match(line):
            table = _table(header, counts)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
            inside_text = len(_TRIPLE.findall(line)) % 2 == 1
    return found


def line_of(found: Mapping[KeyPath, int], key: KeyPath) -> int | None:
    """The line of the key, or of the nearest table around it that is written down."""
    for length in range(len(key), 0, -1):
        if (line := found.get(key[:length])) is not None:
            return line
    return None


def _table(header: re.Match[str], counts: Counter[KeyPath]) -> KeyPath:
    parts = _parts(header[2])
    if header[1] == "[":
        # A table below an array of tables belongs to the array's last entry.
        last = counts[parts[:1]] - 1
        return (parts[0], last, *parts[1:]) if last >= 0 and len(parts) > 1 else parts
    counts[parts] += 1
    return (*parts, counts[parts] - 1)


def _parts(dotted: str) -> KeyPath:
    try:
        keys = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted.strip(),)
    parts: list[str | int] = []
    inner: object = keys
    while isinstance(inner, dict):
        table = cast("dict[str, object]", inner)
        parts.append(next(iter(table)))
        inner = table[str(parts[-1])]
    return tuple(parts)
