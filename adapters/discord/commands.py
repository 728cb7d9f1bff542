"""The commands of the menu: what should be there, and whether it is; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.discord.interactions import STOP_MENU, TEXT_OPTION
from adapters.discord.limits import short
from adapters.discord.payload import Payload, a_number, a_text, objects

MAX_COMMANDS = 100

# https://discord.com/developers/docs/interactions/application-commands#application-command-object
_CHAT_INPUT, _MESSAGE_MENU, _STRING = 1, 3, 3


def wanted(menu: Mapping[str, str]) -> list[dict[str, Any]]:
    """The commands as Discord takes them: ours by name with a description, and one on messages that stops the agent."""
    commands = [_command(name, text) for name, text in list(menu.items())[:MAX_COMMANDS]]
    return [*commands, {"type": _MESSAGE_MENU, "name": STOP_MENU}]


def _command(name: str, text: str) -> dict[str, Any]:
    option = {"type": _STRING, "name": TEXT_OPTION, "description": "What goes with the command", "required": False}
    return {"type": _CHAT_INPUT, "name": name, "description": short(text, 100) or name, "options": [option]}


def are_as(there: Sequence[Payload], menu: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what Discord has is what should be there; what Discord adds to it does not count."""
    return sorted(map(_essence, there)) == sorted(map(_essence, menu))


def _essence(command: Mapping[str, Any]) -> tuple[int, str, str, tuple[tuple[int, str, str], ...]]:
    options = tuple(
        (a_number(one.get("type")), a_text(one.get("name")), a_text(one.get("description")))
        for one in objects(command.get("options"))
    )
    kind = a_number(command.get("type")) or _CHAT_INPUT
    return kind, a_text(command.get("name")), a_text(command.get("description")), options
