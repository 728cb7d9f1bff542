"""Rich text of Block Kit: sections, lists, quotes and preformatted text, and what may stand in them."""

from __future__ import annotations

from typing import Final

from adapters.emulators.slack.shapes import (
    Checker,
    Shape,
    anything,
    boolean,
    integer,
    listed,
    number,
    one_of,
    string,
    tagged,
)

LONGEST: Final = 40_000
"""No limit of its own is documented: it is bounded by what a message takes."""
MOST: Final = 1000

_STYLE: Final = Shape(optional=dict.fromkeys(("bold", "italic", "strike", "code", "underline"), boolean))
_BORDER: Final = integer(0, 1)


def _inline(optional: dict[str, Checker] | None = None, /, **required: Checker) -> Shape:
    return Shape(required={"type": anything, **required}, optional={"style": _STYLE, **(optional or {})})


INLINE: Final = {
    "text": _inline(text=string(LONGEST)),
    "link": _inline({"text": string(LONGEST, 0), "unsafe": boolean}, url=string(3000)),
    "user": _inline(user_id=string(20)),
    "usergroup": _inline(usergroup_id=string(20)),
    "team": _inline(team_id=string(20)),
    "channel": _inline(channel_id=string(20)),
    "emoji": _inline({"skin_tone": integer(1, 6), "unicode": string(100)}, name=string(100)),
    "broadcast": _inline(range=one_of("here", "channel", "everyone")),
    "color": _inline(value=string(20)),
    "date": _inline(
        {"url": string(3000), "fallback": string(3000)}, timestamp=integer(0, 1 << 40), format=string(3000)
    ),
}
"""What stands in a line."""

_LINE: Final = listed(tagged(INLINE), MOST)
_SECTION: Final = Shape(required={"type": anything, "elements": _LINE})
PARTS: Final = {
    "rich_text_section": _SECTION,
    "rich_text_quote": Shape(required={"type": anything, "elements": _LINE}, optional={"border": _BORDER}),
    "rich_text_preformatted": Shape(
        required={"type": anything, "elements": listed(tagged(INLINE, ("text", "link")), MOST)},
        optional={"border": _BORDER, "language": string(100)},
    ),
    "rich_text_list": Shape(
        required={
            "type": anything,
            "style": one_of("bullet", "ordered"),
            "elements": listed(tagged({"rich_text_section": _SECTION}), MOST),
        },
        optional={"indent": integer(0, 8), "offset": integer(0, 100_000), "border": _BORDER},
    ),
}
"""What stands under each other."""

RICH_TEXT: Final = Shape(
    required={"type": one_of("rich_text"), "elements": listed(tagged(PARTS), MOST)},
    optional={"block_id": string(255)},
)
CELL: Final = tagged(
    {
        "rich_text": RICH_TEXT,
        "raw_text": Shape(required={"type": anything, "text": string(LONGEST)}),
        "raw_number": Shape(required={"type": anything, "value": number, "text": string(LONGEST)}),
    }
)
"""A cell of a table."""
