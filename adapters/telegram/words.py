"""What a person wrote: the text without our name in it, and whether it is a command or said to us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NO_BREAK_SPACE = "\u00a0"
_AFTER_A_NAME = " ,:;\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Our own identity: the bot's id and its name without the @."""

    id: int
    username: str

    @property
    def account(self) -> str:
        """The identity as the contract has it."""
        return str(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`command` has no slash and no suffix; `for_another`: a command with the name of another bot."""

    text: str = ""
    command: str | None = None
    arguments: str = ""
    mentions_us: bool = False
    for_another: bool = False


def read_words(text: str, entities: Sequence[Mapping[str, Any]], me: Me) -> Words:
    """Read a text with its entities, whose offsets count UTF-16 units.

    A command is one that the server marked as such at the very beginning. Spaces that do not break, which some
    clients put into pasted code, become plain ones: code with them does not run.
    """
    units = _Units(text)
    name = f"@{me.username}".casefold()
    command, target = _command(units, entities)
    ours = [
        (start, end)
        for entity in entities
        for start, end in [_span(entity)]
        if (entity.get("type") == "mention" and units.slice(start, end).casefold() == name)
        or (entity.get("type") == "text_mention" and _user_id(entity) == me.id)
    ]
    for_another = bool(target) and target.casefold() != name
    suffix = [(len(command) + 1, len(command) + 1 + len(target))] if target and not for_another else []
    plain = units.without([*suffix, *ours]).replace(_NO_BREAK_SPACE, " ")
    if not command or for_another:
        return Words(text=plain, mentions_us=bool(ours), for_another=for_another)
    return Words(text=plain, command=command, arguments=plain[len(command) + 1 :].strip(), mentions_us=bool(ours))


class _Units:
    """A text by UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._data = text.encode("utf-16-le", "surrogatepass")

    def slice(self, start: int, end: int) -> str:
        return self._data[2 * start : 2 * end].decode("utf-16-le", "replace") if 0 <= start < end else ""

    def without(self, spans: Sequence[tuple[int, int]]) -> str:
        """The text without some stretches, nor the gap that each would leave."""
        if not spans:
            return self._data.decode("utf-16-le", "replace")
        text, at = "", 0
        for start, end in sorted(spans):
            text = _closed_up(text, self.slice(at, start))
            at = max(at, end)
        text = _closed_up(text, self._data[2 * at :].decode("utf-16-le", "replace")).strip()
        return text.lstrip(_AFTER_A_NAME) if min(spans)[0] == 0 else text


def _closed_up(left: str, right: str) -> str:
    return left + (right[1:] if left[-1:].isspace() and right[:1].isspace() else right)


def _command(units: _Units, entities: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Name and `@target` of the command that the text begins with, both empty if it does not."""
    for entity in entities:
        start, end = _span(entity)
        if entity.get("type") == "bot_command" and start == 0:
            name, at, target = units.slice(start, end).removeprefix("/").partition("@")
            return name, at + target
    return "", ""


def _span(entity: Mapping[str, Any]) -> tuple[int, int]:
    offset, length = entity.get("offset"), entity.get("length")
    return (offset, offset + length) if isinstance(offset, int) and isinstance(length, int) else (-1, -1)


def _user_id(entity: Mapping[str, Any]) -> object:
    user: object = entity.get("user")
    return user.get("id") if isinstance(user, dict) else None  # pyright: ignore[reportUnknownVariableType]
