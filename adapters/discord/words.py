"""What a person wrote: the text without our name in it, and whether it is a command or said to us."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMAND = re.compile(r"/([A-Za-z0-9_-]{1,32})(?:\s+(.*))?", re.DOTALL)
_AFTER_A_NAME = " ,:;\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Our own identity: the bot's user id, and that of its application, which may differ for old bots."""

    id: str
    application: str = ""
    name: str = ""
    roles: frozenset[str] = frozenset()
    """Roles that Discord made for us alone: people pick them from the list of names by mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`command` has no slash."""

    text: str = ""
    command: str | None = None
    arguments: str = ""
    mentions_us: bool = False


def read_words(text: str, me: Me) -> Words:
    """Read the content of a message, in which people are mentioned as `<@id>`, in older messages as `<@!id>`."""
    name = re.compile("|".join([rf"<@!?{re.escape(me.id)}>", *(rf"<@&{re.escape(role)}>" for role in me.roles)]))
    named = name.search(text) is not None
    plain = _without(text, name) if named else text
    command = _COMMAND.fullmatch(plain)
    if command is None:
        return Words(text=plain, mentions_us=named)
    return Words(text=plain, command=command[1].lower(), arguments=(command[2] or "").strip(), mentions_us=named)


def _without(text: str, name: re.Pattern[str]) -> str:
    """The text without our name, nor the gap that each leaves; at the beginning without what follows an address."""
    starts_with_it = name.match(text.lstrip()) is not None
    found = ""
    for part in name.split(text):
        found = found + (part[1:] if found[-1:].isspace() and part[:1].isspace() else part)
    found = found.strip()
    return found.lstrip(_AFTER_A_NAME) if starts_with_it else found


def plain_words(text: str) -> str:
    """A message as the name of something: without mentions of anybody or anything."""
    return " ".join(re.sub(r"<[@#:/a-z][^>\s]*>", " ", text).split())
