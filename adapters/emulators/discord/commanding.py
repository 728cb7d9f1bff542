"""Using a command as Discord's client does: which commands a person sees, and how their options are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from adapters.emulators.discord.bots import GLOBAL, Bot
from adapters.emulators.discord.permissions import Permission
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.rendering import member_object, user_object
from adapters.emulators.discord.world import Channel
from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.wire_json import JsonObject, items_of

CHAT_INPUT: Final = 1
USER_MENU: Final = 2
MESSAGE_MENU: Final = 3
GROUPS: Final = frozenset({1, 2})
"""Options that are groups of options."""
STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, NUMBER = 3, 4, 5, 6, 7, 8, 10
IN_GUILD, IN_BOT_DM = 0, 1


def build_command(
    platform: Platform,
    bot: Bot,
    place: Channel,
    permissions: int,
    name: str,
    args: str,
    options: Mapping[str, Any] | None,
    target: int | str | None,
    *,
    focused: str | None = None,
) -> JsonObject:
    """The `data` of the interaction. Raises NotKnown or NotPossible for what the client would not offer."""
    root, *path = [name] if target is not None else name.removeprefix("/").split()
    command = _find(bot, place, root, is_menu=target is not None)
    _require_offered(command, place, permissions)
    data: JsonObject = {"id": command["id"], "name": command["name"], "type": command["type"]}
    if "guild_id" in command:
        data["guild_id"] = command["guild_id"]
    if target is not None:
        return data | _target(platform, place, command, str(target), bot)
    given = dict(options or {})
    leaf = _leaf(command, path)
    if args:
        given |= {_first(leaf, command["name"]): args}
    filled = _options(platform, leaf, given, focused)
    for group in reversed(_groups(command, path)):
        filled = [{"name": group["name"], "type": group["type"], "options": filled}]
    return data | ({"options": filled} if filled else {}) | _resolved(platform, place, filled)


def _find(bot: Bot, place: Channel, name: str, *, is_menu: bool) -> JsonObject:
    """The command of that name: the guild's own goes before the global one."""
    scopes = [place.guild or GLOBAL, GLOBAL]
    seen = [command for scope in scopes for command in bot.commands.get(scope, {}).values()]
    for command in seen:
        if command["name"] == name and (command["type"] != CHAT_INPUT) is is_menu:
            return command
    kind = "context menu" if is_menu else "command"
    known = [one["name"] for one in seen if (one["type"] != CHAT_INPUT) is is_menu]
    raise NotKnown(f"bot {bot.id} has no {kind} {name!r} here; there are {', '.join(known) or 'none'}")


def _require_offered(command: JsonObject, place: Channel, permissions: int) -> None:
    context = IN_GUILD if place.guild is not None else IN_BOT_DM
    contexts = command.get("contexts")
    if contexts is not None and context not in contexts:
        raise NotPossible(f"command {command['name']} is not offered in this kind of place")
    if contexts is None and context == IN_BOT_DM and command.get("dm_permission") is False:
        raise NotPossible(f"command {command['name']} is not offered in direct messages")
    needed = int(command.get("default_member_permissions") or 0)
    if place.guild is not None and needed & ~permissions and not permissions & Permission.ADMINISTRATOR:
        raise NotPossible(f"command {command['name']} is not offered to members without its permissions")


def _target(platform: Platform, place: Channel, command: JsonObject, target: str, bot: Bot) -> JsonObject:
    if command["type"] == USER_MENU:
        return {"target_id": target, "resolved": _users(platform, place, [target])}
    message = platform.world.message(target, place.id)
    # Documented: whoever is pointed at a message may read it, with or without the intent.
    seen = platform.render.message(message, platform.cdn(bot), bot.id)
    return {"target_id": target, "resolved": {"messages": {target: seen}}}


def _groups(command: JsonObject, path: list[str]) -> list[JsonObject]:
    groups: list[JsonObject] = []
    level: list[JsonObject] = items_of(command, "options")
    for step in path:
        found = next((one for one in level if one["type"] in GROUPS and one["name"] == step), None)
        if found is None:
            raise NotKnown(f"command {command['name']} has no {' '.join(path)}")
        groups.append(found)
        level = items_of(found, "options")
    return groups


def _leaf(command: JsonObject, path: list[str]) -> list[JsonObject]:
    groups = _groups(command, path)
    options: list[JsonObject] = (groups[-1] if groups else command).get("options") or []
    if any(one["type"] in GROUPS for one in options):
        raise NotPossible(f"command {command['name']} wants one of {[one['name'] for one in options]}")
    return options


def _first(options: list[JsonObject], name: str) -> str:
    if not options:
        raise NotPossible(f"command {name} takes no options")
    return options[0]["name"]


def _options(
    platform: Platform, options: list[JsonObject], given: dict[str, Any], focused: str | None
) -> list[JsonObject]:
    if strangers := given.keys() - {one["name"] for one in options}:
        raise NotKnown(f"no option {', '.join(sorted(strangers))}")
    missing = [one["name"] for one in options if one.get("required") and one["name"] not in given]
    if missing and focused is None:
        raise NotPossible(f"the options {', '.join(missing)} are required")
    filled = [(one, given[one["name"]]) for one in options if one["name"] in given]
    return [
        {"name": one["name"], "type": one["type"], "value": value if focused else _value(one, value)}
        | ({"focused": True} if one["name"] == focused else {})
        for one, value in filled
    ]


def _value(option: JsonObject, value: Any) -> Any:
    """The value as its type is sent. Raises NotPossible for what the client would not take."""
    choices = [one["value"] for one in items_of(option, "choices")]
    if choices and value not in choices:
        raise NotPossible(f"option {option['name']} offers {choices}, not {value!r}")
    match option["type"]:
        case 3:
            return _text(option, str(value))
        case 4:
            return int(value)
        case 5:
            return value if isinstance(value, bool) else str(value).lower() == "true"
        case 10:
            return float(value)
        case _:
            return str(value)


def _text(option: JsonObject, text: str) -> str:
    low, high = option.get("min_length") or 0, option.get("max_length") or 6000
    if not low <= len(text) <= high:
        raise NotPossible(f"option {option['name']} takes {low} to {high} characters")
    return text


def _resolved(platform: Platform, place: Channel, filled: list[JsonObject]) -> JsonObject:
    users = [one["value"] for one in filled if one.get("type") == USER]
    channels = [one["value"] for one in filled if one.get("type") == CHANNEL]
    resolved: JsonObject = _users(platform, place, users) if users else {}
    if channels:
        seen = {one: platform.render.channel(platform.world.channel(one)) for one in channels}
        resolved["channels"] = {one: body | {"permissions": "0"} for one, body in seen.items()}
    return {"resolved": resolved} if resolved else {}


def _users(platform: Platform, place: Channel, users: list[str]) -> JsonObject:
    found: JsonObject = {"users": {user: user_object(platform.world.user(user)) for user in users}}
    if place.guild is None:
        return found
    members = platform.world.guilds[place.guild].members
    inside = {user: member_object(members[user]) | {"permissions": "0"} for user in users if user in members}
    return found | {"members": inside}
