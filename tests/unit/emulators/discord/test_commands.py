"""Application commands: how they are registered, who is offered them, and what they send."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators import NotKnown, NotPossible
from adapters.emulators.discord import DiscordEmulator
from tests.unit.emulators.discord.conftest import ALICE, BOB, BOT, GENERAL, GUILD
from tests.unit.emulators.discord.raw_client import Line, RawBot

COMMANDS = f"/applications/{BOT}/commands"
IN_GUILD = f"/applications/{BOT}/guilds/{GUILD}/commands"


def command(name: str = "ping", **more: Any) -> dict[str, Any]:
    """A command that is right, with something changed."""
    return {"name": name, "description": "Does it", **more}


def option(name: str = "text", type: int = 3, **more: Any) -> dict[str, Any]:
    """An option of a command."""
    return {"name": name, "description": "What", "type": type, **more}


async def test_a_set_takes_the_place_of_the_old_one(bot: RawBot) -> None:
    """Commands of the same name and type keep their id and get a new version; others are gone."""
    first = await bot.ok("PUT", COMMANDS, [command("a"), command("b"), {"name": "Stop agent", "type": 3}])
    second = await bot.ok("PUT", COMMANDS, [command("b", description="Anew"), {"name": "Stop agent", "type": 3}])
    ids = {one["name"]: one["id"] for one in first}
    assert [(one["name"], one["id"]) for one in second] == [("b", ids["b"]), ("Stop agent", ids["Stop agent"])]
    assert second[0]["version"] != first[1]["version"]
    assert await bot.ok("GET", COMMANDS, with_localizations="true") == second


async def test_single_commands(bot: RawBot) -> None:
    """One is added or replaced by its name, changed, read and deleted."""
    made = await bot.ok("POST", COMMANDS, command("one"))
    again = await bot.ok("POST", COMMANDS, command("one", description="Again"))
    assert again["id"] == made["id"]
    changed = await bot.ok("PATCH", f"{COMMANDS}/{made['id']}", {"description": "Changed"})
    assert (changed["name"], changed["description"]) == ("one", "Changed")
    await bot.ok("DELETE", f"{COMMANDS}/{made['id']}")
    assert (await bot.call("GET", f"{COMMANDS}/{made['id']}")).code == 10063


REFUSED = [
    ([command("Upper")], {"0.name": "APPLICATION_COMMAND_INVALID_NAME"}),
    ([command("two words")], {"0.name": "APPLICATION_COMMAND_INVALID_NAME"}),
    ([{"name": "bare"}], {"0.description": "BASE_TYPE_REQUIRED"}),
    ([command("a", description="x" * 101)], {"0.description": "BASE_TYPE_MAX_LENGTH"}),
    ([command("a"), command("a")], {"1": "APPLICATION_COMMANDS_DUPLICATE_NAME"}),
    (
        [{"name": "Menu", "type": 3, "description": "x"}],
        {"0.description": "APPLICATION_COMMAND_CONTEXT_MENU_DESCRIPTION"},
    ),
    (
        [command("a", options=[option("x"), option("y", required=True)])],
        {"0.options.1": "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID"},
    ),
    (
        [command("a", options=[option("x"), option("x")])],
        {"0.options.1": "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS"},
    ),
]


@pytest.mark.parametrize(("commands", "errors"), REFUSED)
async def test_wrong_commands_are_refused(bot: RawBot, commands: Any, errors: dict[str, str]) -> None:
    """Each breach has its code, and nothing is registered."""
    refused = await bot.call("PUT", COMMANDS, commands)
    assert (refused.code, refused.errors) == (50035, errors)
    assert await bot.ok("GET", COMMANDS) == []


async def test_there_is_a_limit(bot: RawBot) -> None:
    """100 commands are allowed, 15 context menus of a kind; another's application is not ours."""
    assert (await bot.call("PUT", COMMANDS, [command(f"c{n}") for n in range(101)])).code == 30032
    menus = [{"name": f"m{n}", "type": 3} for n in range(16)]
    assert (await bot.call("PUT", COMMANDS, menus)).code == 30032
    assert (await bot.call("GET", "/applications/999/commands")).code == 20012


async def test_a_command_sends_its_options(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Options come with their types, resolved where they name somebody; the guild's command goes first."""
    options = [option("text", required=True), option("times", 4), option("who", 6), option("loud", 5)]
    await bot.ok("PUT", COMMANDS, [command("ping")])
    await bot.ok("PUT", IN_GUILD, [command("ping", options=options)])
    given = {"text": "x", "times": "3", "who": BOB, "loud": True}
    await emulator.command(ALICE, "/ping", options=given, chat=GENERAL)
    got = await line.until("INTERACTION_CREATE")
    assert got["type"] == 2
    assert [(one["name"], one["value"]) for one in got["data"]["options"]] == [
        ("text", "x"),
        ("times", 3),
        ("who", str(BOB)),
        ("loud", True),
    ]
    assert got["data"]["resolved"]["users"][str(BOB)]["username"] == "bob"
    assert got["data"]["guild_id"] == str(GUILD)
    await emulator.command(ALICE, "ping")
    assert "options" not in (await line.until("INTERACTION_CREATE"))["data"]


async def test_groups_nest(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """A subcommand is reached by its path and wraps its options."""
    sub = option("set", 1, options=[option("value", required=True)])
    await bot.ok("PUT", COMMANDS, [command("config", options=[sub])])
    await emulator.command(ALICE, "config set", "blue", chat=GENERAL)
    got = (await line.until("INTERACTION_CREATE"))["data"]["options"]
    assert got == [{"name": "set", "type": 1, "options": [{"name": "value", "type": 3, "value": "blue"}]}]
    with pytest.raises(NotPossible):
        await emulator.command(ALICE, "config", chat=GENERAL)
    with pytest.raises(NotKnown):
        await emulator.command(ALICE, "config get", chat=GENERAL)


async def test_a_menu_shows_its_message(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """A context menu sends the whole message it is used on, also to a bot without the intent for contents."""
    await bot.ok("PUT", COMMANDS, [{"name": "Stop agent", "type": 3}])
    said = await emulator.say(ALICE, "work", chat=GENERAL)
    await emulator.command(BOB, "Stop agent", target=said["id"])
    data = (await line.until("INTERACTION_CREATE"))["data"]
    assert data["target_id"] == said["id"]
    assert data["resolved"]["messages"][said["id"]]["content"] == "work"


async def test_choices_while_writing(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """An unfinished option is sent as focused, and answered with choices only."""
    await bot.ok("PUT", COMMANDS, [command("model", options=[option("name", autocomplete=True, required=True)])])
    begun = await emulator.autocomplete(ALICE, "model", "name", "de", chat=GENERAL)
    got = await line.until("INTERACTION_CREATE")
    assert (got["type"], got["data"]["options"][0]) == (
        4,
        {"name": "name", "type": 3, "value": "de", "focused": True},
    )
    path = f"/interactions/{got['id']}/{got['token']}/callback"
    assert (await bot.call("POST", path, {"type": 4, "data": {"content": "x"}})).code == 50035
    choices = {"choices": [{"name": "demo", "value": "demo"}]}
    await bot.ok("POST", path, {"type": 8, "data": choices})
    assert (await emulator.answer(begun["id"]))["data"] == choices


async def test_not_everybody_is_offered_everything(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Contexts, permissions and required options bind the person as the client does."""
    await bot.ok(
        "PUT",
        COMMANDS,
        [
            command("admin", default_member_permissions=1 << 4),
            command("guild", contexts=[0]),
            command("needs", options=[option("text", required=True, max_length=3)]),
        ],
    )
    with pytest.raises(NotPossible, match="permissions"):
        await emulator.command(BOB, "admin", chat=GENERAL)
    await emulator.command(ALICE, "admin", chat=GENERAL)
    with pytest.raises(NotPossible, match="place"):
        await emulator.command(ALICE, "guild")
    with pytest.raises(NotPossible, match="required"):
        await emulator.command(ALICE, "needs", chat=GENERAL)
    with pytest.raises(NotPossible, match="characters"):
        await emulator.command(ALICE, "needs", "long", chat=GENERAL)
    with pytest.raises(NotKnown, match="no command"):
        await emulator.command(ALICE, "unknown", chat=GENERAL)
