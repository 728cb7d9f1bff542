"""Discord's limits, and cutting our own short lines to them.

Lengths are counted in UTF-16 units here. Discord counts code points, of which there are never more.
"""

from __future__ import annotations

from adapters.markdown import cut_text, units_utf16

MAX_TEXT = 2000
"""Characters of a message's content (https://discord.com/developers/docs/resources/message#create-message)."""

MAX_CARD_TEXT = 4000
MAX_COMPONENTS = 40
"""Characters and components of a message of components, all of them together, nested ones included
(https://discord.com/developers/docs/components/reference)."""

MAX_BUTTONS_IN_A_ROW = 5
MAX_ROWS_OF_BUTTONS = 5
MAX_CUSTOM_ID = 100
MAX_LABEL = 80
MAX_THREAD_NAME = 100
MAX_FILE_BYTES = 10 * 1024 * 1024
"""Size of one file in a server without boosts (https://discord.com/developers/docs/reference#uploading-files)."""

OUR_LINE = 300
"""Units of a line that only tells how things go."""


def short(line: str, units: int = OUR_LINE) -> str:
    """A line of ours in one line, cut where it would crowd out what matters."""
    line = one_line(line)
    if units_utf16(line) <= units:
        return line
    return next(cut_text(line, lambda part: units_utf16(part) < units)) + "…"


def one_line(text: str) -> str:
    """The text with every stretch of white space as one space."""
    return " ".join(text.split())
