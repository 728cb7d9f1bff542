"""Operations about application commands. Source: docs.discord.com, "Application Commands"."""

from __future__ import annotations

import re
from typing import Any, Final

from adapters.emulators.discord.access import guild_of
from adapters.emulators.discord.bots import GLOBAL
from adapters.emulators.discord.call import Call
from adapters.emulators.discord.components import without_nulls
from adapters.emulators.discord.errors import ApiError, bad_request, invalid_form, missing_access, unknown
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.schema import Path, Problem
from adapters.emulators.wire_json import JsonObject, items_of

CHAT_INPUT: Final = 1
USER_MENU: Final = 2
MESSAGE_MENU: Final = 3
LIMITS: Final = {CHAT_INPUT: 100, USER_MENU: 15, MESSAGE_MENU: 15}
"""How many commands of a type an application may have in one scope."""
MAX_LENGTH: Final = 8000
"""Documented: all names, descriptions and values of one command together."""
REFUSED_TYPES: Final = frozenset({1, 2})
"""Options that are groups of options."""
_NAME: Final = re.compile(r"[-_'\w]{1,32}")


def _scope(platform: Platform, call: Call) -> str:
    if call.path["application_id"] != call.bot.id:
        raise ApiError(403, 20012, "You are not authorized to perform this action on this application")
    guild = call.path.get("guild_id")
    if guild is None:
        return GLOBAL
    if guild not in platform.world.guilds or call.bot.id not in platform.world.guilds[guild].members:
        raise missing_access()
    return guild_of(platform, call.bot, guild).id


def list_commands(platform: Platform, call: Call) -> list[JsonObject]:
    commands = call.bot.commands.get(_scope(platform, call), {})
    return [_seen(one, with_all=bool(call.query.get("with_localizations"))) for one in commands.values()]


def _seen(command: JsonObject, *, with_all: bool) -> JsonObject:
    if with_all:
        return command
    return {name: value for name, value in command.items() if not name.endswith("_localizations")}


def get_command(platform: Platform, call: Call) -> JsonObject:
    return _existing(platform, call)


def bulk_set_commands(platform: Platform, call: Call) -> list[JsonObject]:
    scope = _scope(platform, call)
    given: list[JsonObject] = call.body or []
    _check(given, indexed=True)
    old = call.bot.commands.get(scope, {})
    made = [_made(platform, call.bot.id, scope, one, _namesake(old, one)) for one in given]
    call.bot.commands[scope] = {one["id"]: one for one in made}
    return made


def create_command(platform: Platform, call: Call) -> JsonObject:
    scope = _scope(platform, call)
    old = call.bot.commands.setdefault(scope, {})
    namesake = _namesake(old, call.given)
    _check([call.given])
    others = [one for one in old.values() if one is not namesake and one["type"] == _type(call.given)]
    _check_count(_type(call.given), len(others) + 1)
    made = _made(platform, call.bot.id, scope, call.given, namesake)
    old[made["id"]] = made
    return made


def update_command(platform: Platform, call: Call) -> JsonObject:
    scope, old = _scope(platform, call), _existing(platform, call)
    changed = {**old, **call.given}
    _check([changed])
    made = _made(platform, call.bot.id, scope, changed, old)
    call.bot.commands[scope][made["id"]] = made
    return made


def delete_command(platform: Platform, call: Call) -> None:
    old = _existing(platform, call)
    del call.bot.commands[_scope(platform, call)][old["id"]]


def _existing(platform: Platform, call: Call) -> JsonObject:
    commands = call.bot.commands.get(_scope(platform, call), {})
    if call.path["command_id"] not in commands:
        raise unknown(10063)
    return commands[call.path["command_id"]]


def _type(command: JsonObject) -> int:
    return command.get("type") or CHAT_INPUT


def _namesake(commands: dict[str, JsonObject], given: JsonObject) -> JsonObject | None:
    """The command that this one takes the place of, and whose id it keeps."""
    same = (one for one in commands.values() if (one["name"], one["type"]) == (given["name"], _type(given)))
    return next(same, None)


def _made(platform: Platform, application: str, scope: str, given: JsonObject, old: JsonObject | None) -> JsonObject:
    allowed: Any = given.get("default_member_permissions")
    command: JsonObject = {
        "id": old["id"] if old is not None else platform.ids.next(),
        "application_id": application,
        "version": platform.ids.next(),
        "default_member_permissions": None if allowed is None else str(allowed),
        "type": _type(given),
        "name": given["name"],
        "name_localizations": given.get("name_localizations"),
        "description": given.get("description") or "",
        "description_localizations": given.get("description_localizations"),
        "nsfw": bool(given.get("nsfw")),
        "integration_types": given.get("integration_types") or [0],
        "contexts": given.get("contexts"),
    }
    if scope == GLOBAL:
        command["dm_permission"] = given.get("dm_permission") is not False
    else:
        command["guild_id"] = scope
    if options := given.get("options"):
        command["options"] = without_nulls(options)
    return command


# -- rules


def _check(commands: list[JsonObject], *, indexed: bool = False) -> None:
    """Raise ApiError for wrong commands; `indexed` ones came as a list, whose places stand in the errors."""
    problems: list[Problem] = []
    seen: set[tuple[str, int]] = set()
    for index, command in enumerate(commands):
        path: Path = (str(index),) if indexed else ()
        key = (command["name"], _type(command))
        if key in seen:
            words = "Application command names must be unique"
            problems.append(Problem(path=path, code="APPLICATION_COMMANDS_DUPLICATE_NAME", message=words))
        seen.add(key)
        problems += _command(path, command)
    if problems:
        raise invalid_form(problems)
    for kind in LIMITS:
        _check_count(kind, sum(_type(one) == kind for one in commands))


def _check_count(kind: int, count: int) -> None:
    if kind in LIMITS and count > LIMITS[kind]:
        raise bad_request(30032, f"Maximum number of application commands reached ({LIMITS[kind]}).")


def _command(path: Path, command: JsonObject) -> list[Problem]:
    problems: list[Problem] = []
    if _type(command) == CHAT_INPUT:
        problems += _name(path, command["name"], "APPLICATION_COMMAND_INVALID_NAME")
        if not command.get("description"):
            problems.append(_required((*path, "description")))
        problems += _options(path, items_of(command, "options"))
    elif command.get("description") or command.get("options"):
        words = "Context menu commands cannot have description"
        code = "APPLICATION_COMMAND_CONTEXT_MENU_DESCRIPTION"
        problems.append(Problem(path=(*path, "description"), code=code, message=words))
    if _length(command) > MAX_LENGTH:
        words = f"Command exceeds maximum size ({MAX_LENGTH})"
        problems.append(Problem(path=path, code="APPLICATION_COMMAND_TOO_LARGE", message=words))
    return problems


def _options(path: Path, options: list[JsonObject]) -> list[Problem]:
    problems: list[Problem] = []
    optional_seen = False
    names: set[str] = set()
    for index, option in enumerate(options):
        place = (*path, "options", str(index))
        problems += _name(place, option["name"], "APPLICATION_COMMAND_INVALID_NAME")
        if option["name"] in names:
            words = "Option names must be unique"
            problems.append(Problem(path=place, code="APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS", message=words))
        names.add(option["name"])
        if option.get("required") and optional_seen:
            words = "Required options must be placed before non-required options"
            problems.append(Problem(path=place, code="APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", message=words))
        optional_seen = optional_seen or (option["type"] not in REFUSED_TYPES and not option.get("required"))
        problems += _options(place, items_of(option, "options"))
    return problems


def _name(path: Path, name: str, code: str) -> list[Problem]:
    if _NAME.fullmatch(name) and name == name.lower():
        return []
    return [Problem(path=(*path, "name"), code=code, message="Command name is invalid")]


def _required(path: Path) -> Problem:
    return Problem(path=path, code="BASE_TYPE_REQUIRED", message="This field is required")


def _length(node: JsonObject) -> int:
    own = len(node.get("name") or "") + len(node.get("description") or "")
    choices = sum(len(one["name"]) + len(str(one["value"])) for one in items_of(node, "choices"))
    return own + choices + sum(_length(one) for one in items_of(node, "options"))


HANDLERS = {
    "list_application_commands": list_commands,
    "list_guild_application_commands": list_commands,
    "get_application_command": get_command,
    "get_guild_application_command": get_command,
    "bulk_set_application_commands": bulk_set_commands,
    "bulk_set_guild_application_commands": bulk_set_commands,
    "create_application_command": create_command,
    "create_guild_application_command": create_command,
    "update_application_command": update_command,
    "update_guild_application_command": update_command,
    "delete_application_command": delete_command,
    "delete_guild_application_command": delete_command,
}
