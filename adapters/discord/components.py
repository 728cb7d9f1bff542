"""Messages of components: cards, as Discord has them since its second version of components; pure.

Such a message has neither content nor embeds, and stays one for ever. Only 40 components and 4,000 characters are
taken, counted over the whole message, and both are checked here: the server's refusal would come too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, assert_never

from adapters.contract import Control, Style
from adapters.discord.limits import (
    MAX_BUTTONS_IN_A_ROW,
    MAX_CARD_TEXT,
    MAX_COMPONENTS,
    MAX_CUSTOM_ID,
    MAX_LABEL,
    MAX_ROWS_OF_BUTTONS,
    short,
)
from adapters.errors import Refused
from adapters.markdown import units_utf16

# https://discord.com/developers/docs/components/reference#component-object-component-types
ROW, BUTTON, TEXT, SEPARATOR, CONTAINER = 1, 2, 10, 14, 17

Component = dict[str, Any]


def text(content: str) -> Component:
    """A stretch of markup."""
    return {"type": TEXT, "content": content}


def separator() -> Component:
    """A line between two stretches."""
    return {"type": SEPARATOR}


def container(parts: Sequence[Component], accent: int) -> Component:
    """A box with a bar of a colour (RGB) on its left."""
    return {"type": CONTAINER, "accent_color": accent, "components": list(parts)}


def rows(controls: Sequence[Control]) -> list[Component]:
    """Rows of buttons. Refused if there are more than Discord shows, or a token is longer than a button carries."""
    buttons = [_button(control) for control in controls]
    if len(buttons) > MAX_BUTTONS_IN_A_ROW * MAX_ROWS_OF_BUTTONS:
        raise Refused(
            f"{len(buttons)} controls are more than the {MAX_BUTTONS_IN_A_ROW * MAX_ROWS_OF_BUTTONS} of one message"
        )
    if len({control.token for control in controls}) != len(controls):
        raise Refused("two controls of one message have the same token")
    left = iter(buttons)
    return [{"type": ROW, "components": row} for row in iter(lambda: list(islice(left, MAX_BUTTONS_IN_A_ROW)), [])]


def _button(control: Control) -> Component:
    if not 1 <= len(control.token) <= MAX_CUSTOM_ID:
        raise Refused(f"the control {control.label!r} has a token that is not of 1 to {MAX_CUSTOM_ID} characters")
    label = short(control.label, MAX_LABEL) or "·"
    return {"type": BUTTON, "custom_id": control.token, "label": label, "style": _style(control.style)}


def _style(style: Style) -> int:
    match style:
        case Style.PRIMARY:
            return 3  # green: it is what most people come to do
        case Style.DANGER:
            return 4
        case Style.NEUTRAL:
            return 2
        case _:
            assert_never(style)


def every(components: Iterable[Component]) -> Iterator[Component]:
    """The components with all that are nested in them: Discord counts each."""
    for component in components:
        yield component
        yield from every(component.get("components", ()))


def checked(components: Sequence[Component], what: str) -> list[Component]:
    """The components if a message may have them; Refused, telling the numbers, if not."""
    found = list(every(components))
    if len(found) > MAX_COMPONENTS:
        raise Refused(f"this {what} has {len(found)} components, and a message takes {MAX_COMPONENTS}")
    characters = sum(units_utf16(one.get("content", "")) for one in found)
    if characters > MAX_CARD_TEXT:
        raise Refused(
            f"this {what} has {characters} of at most {MAX_CARD_TEXT} characters: cut it by the adapter's markup"
        )
    return list(components)
