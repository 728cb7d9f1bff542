"""getMe, logOut, close, and the command list."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.nested import read_object
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.polling import CLOSING
from adapters.emulators.telegram.rendering import user_object
from adapters.emulators.telegram.target import Access, find_chat
from adapters.emulators.wire_json import JsonObject, is_array, is_object

MAX_COMMANDS: Final = 100
MAX_NAME: Final = 32
MAX_DESCRIPTION: Final = 256
SCOPES: Final = frozenset(
    {
        "default",
        "all_private_chats",
        "all_group_chats",
        "all_chat_administrators",
        "chat",
        "chat_administrators",
        "chat_member",
    }
)
_NAME = re.compile(r"[a-z0-9_]+")


async def get_me(platform: Platform, call: Call) -> JsonObject:
    """The bot itself."""
    bot = call.bot
    return user_object(bot.user) | {
        "can_join_groups": bot.can_join_groups,
        "can_read_all_group_messages": bot.reads_all,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": bot.topics,
        "allows_users_to_create_topics": bot.topics and bot.users_create_topics,
    }


async def log_out(platform: Platform, call: Call) -> bool:
    """Leave the cloud server: pending updates are lost and calls fail for ten minutes."""
    call.bot.logged_out_until = platform.clock.now() + platform.knobs.logged_out
    platform.trace(call.bot, "dropped", call.bot.queue.clear())
    _end_poll(call)
    return True


async def close(platform: Platform, call: Call) -> bool:
    """End the instance on this server; the next call starts it again."""
    _end_poll(call)
    return True


def _end_poll(call: Call) -> None:
    if call.bot.poll is not None:
        call.bot.poll.abort(CLOSING)


async def set_my_commands(platform: Platform, call: Call) -> bool:
    """Replace the command list of a scope and language."""
    commands = _read_commands(call)
    key = _key(platform, call)
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not _NAME.fullmatch(command["command"]):
            raise bad_request("BOT_COMMAND_INVALID")
    call.bot.commands[key] = commands
    return True


async def get_my_commands(platform: Platform, call: Call) -> list[JsonObject]:
    """The command list of exactly this scope and language."""
    return call.bot.commands.get(_key(platform, call), [])


async def delete_my_commands(platform: Platform, call: Call) -> bool:
    """Remove the command list of a scope and language."""
    call.bot.commands.pop(_key(platform, call), None)
    return True


def _read_commands(call: Call) -> list[JsonObject]:
    value = call.json("commands", "commands JSON object")
    if not is_array(value):
        raise bad_request("Expected an Array of BotCommand")
    return [_command(one) for one in value]


def _command(value: Any) -> JsonObject:
    if not is_object(value):
        raise bad_request("Can't parse BotCommand: expected an Object")
    for name in ("command", "description"):
        if not isinstance(value.get(name), str):
            raise bad_request(f"Can't parse BotCommand: Can't find field \"{name}\"")
    command = value["command"].strip().removeprefix("/")
    description = value["description"].strip()
    if not command:
        raise bad_request("Command must be non-empty")
    if len(command) > MAX_NAME:
        raise bad_request(f"Command length must not exceed {MAX_NAME}")
    if not description:
        raise bad_request("Command description must be non-empty")
    if len(description) > MAX_DESCRIPTION:
        raise bad_request(f"Command description length must not exceed {MAX_DESCRIPTION}")
    return read_object("BotCommand", value | {"command": command, "description": description})


def _key(platform: Platform, call: Call) -> tuple[str, str]:
    scope = call.json("scope", "bot command scope JSON object") or {"type": "default"}
    if not is_object(scope) or str(scope.get("type")) not in SCOPES:
        raise bad_request("Can't parse BotCommandScope: unsupported type specified")
    if "chat_id" in scope:
        find_chat(platform, call.bot, str(scope["chat_id"]), Access.READ)
    language = call.text("language_code")
    if language and not re.fullmatch(r"[a-z]{2}", language):
        raise bad_request("LANG_CODE_INVALID")
    return json.dumps(scope, sort_keys=True), language
