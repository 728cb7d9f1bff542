"""What Discord publishes: the table is what the source says, and the checks name places."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators.discord.methods import HANDLERS
from adapters.emulators.discord.schema import discord_api, tree
from adapters.emulators.discord.schema_table import compact


def test_every_handler_has_a_published_operation() -> None:
    """What is emulated exists, and what takes a body is described."""
    known = {one.id: one for one in discord_api().operations}
    assert HANDLERS.keys() <= known.keys()
    undescribed = [name for name in HANDLERS if known[name].method in ("PATCH",) and known[name].body is None]
    assert undescribed == []


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/users/@me", "get_my_user"),
        ("GET", "/users/7", "get_user"),
        ("PATCH", "/webhooks/1/t/messages/@original", "update_original_webhook_message"),
        ("PATCH", "/webhooks/1/t/messages/5", "update_webhook_message"),
        ("GET", "/channels/1/messages/pins", "list_pins"),
    ],
)
def test_fixed_words_go_before_names(method: str, path: str, name: str) -> None:
    """An address with a fixed word is not taken for one with an id."""
    found = discord_api().operation(method, path)
    assert found is not None
    assert found[0].id == name


UNION = {"oneOf": [{"type": "null"}, {"$ref": "MessageReferenceRequest"}]}
CHECKED: list[tuple[Any, Any, Any]] = [
    ({"type": "string", "maxLength": 2}, "abc", {"_errors": [("BASE_TYPE_MAX_LENGTH")]}),
    ({"type": ["string", "null"]}, None, {}),
    ({"type": "integer", "minimum": 1}, 0, {"_errors": ["NUMBER_TYPE_MIN"]}),
    ({"type": "integer"}, True, {"_errors": ["NUMBER_TYPE_COERCE"]}),
    ({"type": "array", "items": {"type": "string"}}, ["a", 1], {"1": {"_errors": ["STRING_TYPE_CONVERT"]}}),
    ({"$ref": "SnowflakeType"}, 5, {}),
    ({"$ref": "SnowflakeType"}, "five", {"_errors": ["NUMBER_TYPE_COERCE"]}),
    (UNION, None, {}),
    (UNION, {}, {"message_id": {"_errors": ["BASE_TYPE_REQUIRED"]}}),
    (UNION, "x", {"_errors": ["MODEL_TYPE_CONVERT"]}),
]


@pytest.mark.parametrize(("schema", "value", "expected"), CHECKED)
def test_problems_name_their_place(schema: Any, value: Any, expected: Any) -> None:
    """The tree has the codes at the places."""

    def codes(node: Any) -> Any:
        return {
            name: [one["code"] for one in inside] if name == "_errors" else codes(inside)
            for name, inside in node.items()
        }

    assert codes(tree(discord_api().check(schema, value).problems)) == expected


def test_unknown_fields_are_told_apart() -> None:
    """A field that Discord ignores is no problem, but it is seen."""
    found = discord_api().check({"$ref": "MessageCreateRequest"}, {"content": "x", "colour": 1, "embeds": [{"x": 1}]})
    assert (found.problems, found.unknown) == ([], [("colour",), ("embeds", "0", "x")])


def test_the_table_keeps_what_is_referred_to() -> None:
    """Operations keep their names; schemas are followed; words for readers go."""
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    source: dict[str, Any] = {
        "info": {"version": "10"},
        "paths": {
            "/channels/{channel_id}": {
                "patch": {"operationId": "change", "requestBody": body, "responses": {"200": body}}
            },
            "/stages": {"get": {"operationId": "stage", "responses": {}}},
        },
        "components": {
            "schemas": {
                "A": {
                    "type": "object",
                    "description": "gone",
                    "properties": {"description": {"$ref": "#/components/schemas/B", "description": "gone"}},
                },
                "B": {"type": "string", "title": "gone"},
                "C": {"type": "string"},
            }
        },
    }
    table = compact(source)
    assert [one["id"] for one in table["operations"]] == ["change", "stage"]
    assert "body" not in table["operations"][1]
    assert table["schemas"] == {
        "A": {"type": "object", "properties": {"description": {"$ref": "B"}}},
        "B": {"type": "string"},
    }
