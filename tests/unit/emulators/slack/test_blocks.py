"""Blocks that Slack takes and refuses, beyond the limits that its own models know."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators.slack.blocks import elements_of, numbered, problems_of
from tests.unit.emulators.slack.raw_app import buttons, plain, section


def rich(*parts: dict[str, Any]) -> dict[str, Any]:
    """A rich text block."""
    return {"type": "rich_text", "elements": list(parts)}


def part(kind: str, *elements: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A part of rich text."""
    return {"type": f"rich_text_{kind}", "elements": list(elements), **more}


WORD = {"type": "text", "text": "x", "style": {"bold": True, "code": True}}
LINK = {"type": "link", "url": "https://example.org", "text": "x"}
USER = {"type": "user", "user_id": "U1"}
CELL = {"type": "raw_text", "text": "x"}

GOOD: dict[str, dict[str, Any]] = {
    "rich text": rich(
        part("section", WORD, LINK, USER, {"type": "emoji", "name": "eyes"}, {"type": "broadcast", "range": "here"}),
        part("quote", WORD),
        part("preformatted", {"type": "text", "text": "x"}, border=0),
        part("list", part("section", WORD), style="ordered", indent=1, offset=3),
    ),
    "table": {
        "type": "table",
        "rows": [[CELL, rich(part("section", WORD))], [{"type": "raw_number", "value": 1.5, "text": "1.5"}, CELL]],
        "column_settings": [{"align": "right"}, None],
    },
    "plan": {
        "type": "plan",
        "title": "Plan",
        "tasks": [{"type": "task_card", "task_id": "1", "title": "x", "status": "complete"}],
    },
    "context": {
        "type": "context",
        "elements": [plain("x"), {"type": "image", "image_url": "https://example.org/x", "alt_text": "x"}],
    },
    "feedback": {
        "type": "context_actions",
        "elements": [
            {
                "type": "feedback_buttons",
                "action_id": "f",
                "positive_button": {"text": plain("Good"), "value": "1"},
                "negative_button": {"text": plain("Bad"), "value": "0"},
            }
        ],
    },
    "container": {"type": "container", "title": plain("x"), "child_blocks": [section("x"), buttons("y")]},
    "alert": {"type": "alert", "text": plain("x"), "level": "warning"},
}


@pytest.mark.parametrize("name", GOOD)
def test_taken(name: str) -> None:
    """What the reference shows is taken."""
    assert problems_of([GOOD[name]]) == []


BAD: list[tuple[Any, str, str]] = [
    ({"type": "poem"}, "unsupported type: poem", "/type"),
    ("divider", "unsupported type: None", "/type"),
    ({"type": "section"}, "missing required field: one of text, fields", ""),
    ({**section("x"), "colour": "red"}, "invalid additional property: colour", ""),
    (section(""), "must be more than 0 characters", "/text/text"),
    ({"type": "header", "text": {"type": "mrkdwn", "text": "x"}}, "unsupported type: mrkdwn", "/text/type"),
    ({"type": "actions", "elements": []}, "no fewer than 1 items allowed", "/elements"),
    (
        {"type": "actions", "elements": [{"type": "plain_text_input"}]},
        "unsupported type: plain_text_input",
        "/elements/0/type",
    ),
    (rich(part("section", {**WORD, "text": ""})), "must be more than 0 characters", "/elements/0/elements/0/text"),
    (rich(part("preformatted", USER)), "unsupported type: user", "/elements/0/elements/0/type"),
    (rich(part("list", WORD, style="bullet")), "unsupported type: text", "/elements/0/elements/0/type"),
    (
        rich(part("section", {**WORD, "style": {"loud": True}})),
        "invalid additional property: loud",
        "/elements/0/elements/0/style",
    ),
    ({"type": "table", "rows": [[CELL] * 21]}, "no more than 20 items allowed", "/rows/0"),
]


@pytest.mark.parametrize(("block", "problem", "where"), BAD, ids=range(len(BAD)))
def test_refused(block: Any, problem: str, where: str) -> None:
    """Each rule names the place where it was broken, and nothing else is complained about."""
    assert problems_of([block]) == [f"{problem} [json-pointer:/blocks/0{where}]"]


def test_blocks_together() -> None:
    """Ids are unique, markdown has one limit for all, and there is one table."""
    twice = [{"type": "divider", "block_id": "a"}] * 2
    assert problems_of(twice) == ["`block_id` 'a' already exists [json-pointer:/blocks]"]
    assert problems_of([buttons("a", "a")]) == ["`action_id` 'a' already exists [json-pointer:/blocks]"]
    assert problems_of([buttons("a"), buttons("a")]) == []
    markdown = [{"type": "markdown", "text": "x" * 7000}] * 2
    assert problems_of(markdown)[0].startswith("markdown blocks may have 12000 characters together")
    assert problems_of([GOOD["table"]] * 2) == ["only one table is allowed in a message [json-pointer:/blocks]"]
    assert problems_of([{"type": "divider"}] * 100, in_view=True) == []
    assert problems_of([{"type": "divider"}] * 51) == ["no more than 50 items allowed [json-pointer:/blocks]"]


def test_ids_are_given_where_they_lack() -> None:
    """Every block and every control gets an id, in children too; those that have one keep it."""
    ids = iter(f"id{number}" for number in range(100))
    unnamed = {"type": "button", "text": plain("x")}
    named = {"type": "button", "text": plain("y"), "action_id": "mine"}
    inner = {"type": "actions", "elements": [unnamed, named]}
    made = numbered([{"type": "container", "title": plain("x"), "child_blocks": [inner]}], lambda: next(ids))
    controls = [one for one in elements_of(made[0]) if one["type"] == "button"]
    assert [one["action_id"] for one in controls] == ["id2", "mine"]
    assert (made[0]["block_id"], made[0]["child_blocks"][0]["block_id"]) == ("id0", "id1")
