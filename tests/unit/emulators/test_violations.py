"""What a client does wrong is recorded, so that a test can fail for it."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators import EntryKind, ViolationsFound
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.schema import bot_api
from adapters.emulators.telegram.schema_table import compact
from tests.unit.emulators.conftest import ALICE
from tests.unit.emulators.raw_client import RawBot

GO = {"text": "Go", "callback_data": "1"}


@pytest.mark.parametrize(
    ("method", "params", "violations"),
    [
        ("sendMessage", {"chat_id": ALICE, "text": "x"}, []),
        ("sendMessage", {"chat_id": ALICE, "text": "x", "silent": True}, [("unknown_parameter", "silent")]),
        ("sendMessage", {"text": "x"}, [("missing_parameter", "chat_id")]),
        (
            "sendMessage",
            {"chat_id": ALICE, "text": "x", "disable_notification": "maybe"},
            [("malformed_value", "disable_notification")],
        ),
        (
            "sendMessage",
            {"chat_id": ALICE, "text": "x", "reply_markup": {"inline_keyboard": [[GO | {"colour": "red"}]]}},
            [("unknown_field", "reply_markup.inline_keyboard[0][0].colour")],
        ),
        (
            "sendMessage",
            {"chat_id": ALICE, "text": "x", "entities": [{"type": "bold", "offset": "0", "length": 1}]},
            [("malformed_value", "entities[0].offset")],
        ),
        (
            "sendMessage",
            {"chat_id": ALICE, "text": "x", "business_connection_id": "b"},
            [("not_emulated", "business_connection_id")],
        ),
        ("sendDice", {"chat_id": ALICE}, [("not_emulated", None)]),
        ("sendMassage", {"chat_id": ALICE}, [("unknown_method", None)]),
    ],
)
async def test_departures_from_the_schema_are_recorded(
    emulator: TelegramEmulator,
    bot: RawBot,
    method: str,
    params: dict[str, Any],
    violations: list[tuple[str, str | None]],
) -> None:
    """Unknown methods, parameters and fields, missing and malformed ones: each is a violation naming the place."""
    await bot.call(method, **params)
    assert [(entry.name, entry.data.get("where")) for entry in emulator.violations] == violations
    if violations:
        with pytest.raises(ViolationsFound, match=violations[0][0]):
            emulator.assert_clean()
    else:
        emulator.assert_clean()


async def test_unknown_method_is_not_found(bot: RawBot) -> None:
    """The client gets the server's own answer."""
    assert await bot.error("sendMassage") == "404 Not Found: method not found"


async def test_violation_points_at_its_request(emulator: TelegramEmulator, bot: RawBot) -> None:
    """From a violation one finds the call that broke the rule."""
    await bot.call("sendMessage", chat_id=ALICE, text="x", silent=True)
    (request,) = emulator.journal.of(EntryKind.REQUEST, "sendMessage")
    assert emulator.violations[0].request == request.number


async def test_tokens_stay_out_of_the_record(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Neither the journal nor the snapshot contains the token."""
    await bot.result("getMe")
    await emulator.say(ALICE, "x")
    everything = str([entry.to_json() for entry in emulator.journal]) + str(emulator.snapshot())
    assert "42:TEST" not in everything


def test_table_reads_as_published() -> None:
    """The generator keeps names, types and what is required, and nothing else."""
    source = {
        "version": "Bot API 1",
        "methods": {
            "getX": {
                "returns": ["Array of X"],
                "fields": [
                    {"name": "a", "types": ["Integer", "String"], "required": True, "description": "long"},
                    {"name": "b", "types": ["Array of Array of X"], "required": False, "description": "long"},
                ],
            }
        },
        "types": {"X": {"fields": []}, "Y": {"subtypes": ["X", "Z"]}},
    }
    assert compact(source) == {
        "version": "Bot API 1",
        "methods": {"getX": {"a": "!Integer|String", "b": "[][]X"}},
        "returns": {"getX": "[]X"},
        "types": {"X": {}},
        "unions": {"Y": ["X", "Z"]},
    }


def test_every_named_type_is_described() -> None:
    """No field of a method or type has a type that the table does not know."""
    schema = bot_api()
    known = {"Integer", "String", "Boolean", "Float", "InputFile", "True", *schema.types, *schema.unions}
    fields = [field for method in schema.methods.values() for field in method.fields.values()]
    fields += [field for fields_of in schema.types.values() for field in fields_of.values()]
    named = {kind.replace("[]", "") for field in fields for kind in field.types}
    assert named - known == set()


def test_newest_additions_are_in() -> None:
    """What the product uses of Bot API 10.3 is known: draft stop, disabled buttons, the stop update."""
    schema = bot_api()
    draft = schema.method("sendmessagedraft")
    assert draft is not None
    assert {"can_stop", "keep_on_stop"} <= draft.fields.keys()
    assert "disabled" in schema.types["InlineKeyboardButton"]
    assert "stopped_message_generation" in schema.update_types
