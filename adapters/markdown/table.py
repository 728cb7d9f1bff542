"""Tables in characters of one width, for platforms that have none."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

_WIDEST_PADDING = 40


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns; a cell wider than most screens widens nobody else's column."""
    columns = list(zip_longest(*rows, fillvalue=""))
    widths = [min(max(map(_width, column)), _WIDEST_PADDING) for column in columns]
    lines = [" | ".join(map(_padded, row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _padded(cell: str, width: int) -> str:
    return cell + " " * max(0, width - _width(cell))


def _width(text: str) -> int:
    """Columns of a terminal that the text takes."""
    return sum(
        0 if unicodedata.category(letter) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )
