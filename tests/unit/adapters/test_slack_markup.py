"""CommonMark as Slack's rich text: nothing is lost, nothing is live, and every part is within Slack's limits."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.contract import Answer, ApprovalCard, Control, Notice, Phase, Place, Row, RowState, TurnCard, Verbatim
from adapters.emulators.slack.blocks import problems_of
from adapters.markdown import parse, units_utf16
from adapters.markdown.tree import leaves
from adapters.slack.markup import PART_BYTES, TEXT_LIMIT, SlackMarkup, render
from adapters.slack.outbound import post
from adapters.slack.rich import text_of
from adapters.slack.texts import END_OF_TEXT, blocks_of, plain_blocks
from tests.unit.adapters.markdown_cases import CASES

MARKUP = SlackMarkup()
PLACE = Place(platform="slack", account="A1:T1", chat="C1", thread="1.000100")
HOSTILE = "`````\n</pre> <!channel> <!here> <@U1> <#C1> <!subteam^S1> <https://evil.example|Approve here> *b* &lt;"
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PIECES = st.sampled_from(
    (
        *("word ", "**bold** ", "`code` ", "\n\n", "- item\n", "1. one\n", "> quote\n", "```py\nx = 1\n```\n"),
        *("<!channel>", "<@U1>", "&amp;", "| a | b |\n|---|---|\n| 1 | 2 |\n", "[l](https://a.example)"),
        *(FAMILY, "é", "#", "\\", "_"),
    )
)
MARKDOWN = st.lists(PIECES, max_size=400).map("".join)


def squeezed(text: str) -> str:
    return "".join(text.split())


def elements(block: Any) -> list[dict[str, Any]]:
    """Every object in a block."""
    if isinstance(block, list):
        return [one for part in block for one in elements(part)]
    if not isinstance(block, dict):
        return []
    return [block, *(one for part in block.values() for one in elements(part))]


LIVE = frozenset({"user", "broadcast", "usergroup", "channel", "mrkdwn", "markdown"})


def kinds_in(block: Any) -> set[str]:
    """The types of all objects in a block."""
    return {one["type"] for one in elements(block) if "type" in one}


@settings(max_examples=60, deadline=None)
@given(MARKDOWN)
def test_any_markdown_becomes_parts_within_the_limits(markdown: str) -> None:
    """Every part is valid for Slack, short enough to be sent and edited, and mentions nobody; no word is lost."""
    parts = MARKUP.split(markdown)
    for part in parts:
        block = render(part)
        assert problems_of([block]) == []
        assert len(json.dumps(block, ensure_ascii=False)) <= PART_BYTES
        request = post(PLACE, Answer(markdown=part), "key")
        assert len(request.fields["text"]) <= TEXT_LIMIT
        assert all(
            one["type"] not in ("user", "broadcast", "usergroup", "channel") for one in elements(block) if "type" in one
        )
    for word in ("word", "bold", "item", "עברית"):
        assert "".join(text_of([render(part)]) for part in parts).count(word) == markdown.count(word)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20_000))
def test_verbatim_parts_are_the_text_and_fit(text: str) -> None:
    """Parts of plain text are the text when they are joined, and each makes one valid message."""
    parts = MARKUP.split_verbatim(text)
    assert "".join(parts) == text
    for part in parts:
        view = Verbatim(title="Look", text=part)
        assert problems_of(blocks_of(view)) == []
        assert problems_of(plain_blocks(view)) == []
        assert len(post(PLACE, view, "key").fields["text"]) <= TEXT_LIMIT


@pytest.mark.parametrize("markdown", CASES.values(), ids=CASES.keys())
def test_no_words_are_lost(markdown: str) -> None:
    """What is to be read of the markdown is to be read of its parts."""
    shown = squeezed("".join(text_of([render(part)]) for part in MARKUP.split(markdown)))
    words = [word for token in leaves(parse(markdown)) for word in re.findall(r"\w{2,}", token.content)]
    assert [word for word in words if word not in shown] == []


def test_nothing_that_an_agent_writes_is_live() -> None:
    """Mentions, links with a false label and fences stand in text elements, where they mean nothing; in the text that
    notifications show they are escaped (S-19, S-37)."""
    for view in (
        Answer(markdown=HOSTILE), Notice(text=HOSTILE), Verbatim(title="x", text=HOSTILE),
        ApprovalCard(title="x", body=HOSTILE), TurnCard(phase=Phase.WORKING, headline=HOSTILE),
    ):  # fmt: skip
        request = post(PLACE, view, "key")
        assert kinds_in(request.fields["blocks"]).isdisjoint(LIVE)
        assert not {"<!channel>", "<@U1>", "<https://evil.example|Approve here>"} & set(request.fields["text"].split())
        assert "<" not in request.fields["text"]
        assert all(
            one["url"] != "https://evil.example|Approve here" for one in elements(request.fields) if "url" in one
        )


def test_first_and_last_line_of_a_request_are_ours() -> None:
    """Whatever the action says, it stands between lines of ours, exactly, in one fixed-width block."""
    card = ApprovalCard(title="May I?", lines=("asked by Ann",), body=HOSTILE)
    block = blocks_of(card)[0]
    parts = block["elements"]
    assert parts[0]["elements"][0]["text"].startswith("🔐 May I?")
    assert [one for one in parts if one["type"] == "rich_text_preformatted"] == [
        {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": HOSTILE}]}
    ]
    assert text_of([block]).endswith(END_OF_TEXT)


def test_only_people_named_by_id_are_mentioned() -> None:
    """A request notifies those who may decide, by their ids, and nobody else."""
    card = ApprovalCard(title="May I?", body="<@U9>", mention=("U1", "U2"))
    found = [one["user_id"] for one in elements(blocks_of(card)) if one.get("type") == "user"]
    assert found == ["U1", "U2"]


def test_structure_is_kept() -> None:
    """Lists, nested and numbered from anywhere, tasks, code, quotes and tables have their own elements."""
    block = render(
        "5. five\n6. six\n   - inner\n\n- [x] done\n- [ ] open\n\n```py\nx = 1\n```\n\n> said\n\n| a |\n|---|\n| 1 |"
    )
    kinds = [one["type"] for one in block["elements"]]
    assert kinds == [
        "rich_text_list", "rich_text_list", "rich_text_list", "rich_text_preformatted", "rich_text_quote",
        "rich_text_preformatted",
    ]  # fmt: skip
    assert block["elements"][0]["offset"] == 4
    assert block["elements"][1]["indent"] == 1
    assert text_of([block]).splitlines()[3:5] == ["• ☑ done", "• ☐ open"]


def test_links_go_to_the_web_only() -> None:
    """A target that is no web address is shown behind its text and cannot be followed."""
    found = [
        one for one in elements(render("[a](https://a.example) [b](javascript:x) https://c.example.")) if "url" in one
    ]
    assert [one["url"] for one in found] == ["https://a.example", "https://c.example"]


def test_a_card_has_a_plan_and_a_twin_without() -> None:
    """Rows are tasks of a plan, with Slack's states; where plans are refused the same words are lines."""
    rows = tuple(Row(state=state, text=f"row {state.value}") for state in RowState)
    card = TurnCard(
        phase=Phase.WORKING,
        headline="Working · fix",
        rows=rows,
        earlier_rows=7,
        queue=2,
        labels=("Notes",),
        controls=(Control(label="Stop", token="run:x"),),
    )
    plan = blocks_of(card)
    assert [one["type"] for one in plan] == ["plan", "context", "actions"]
    assert {one["status"] for one in plan[0]["tasks"]} == {"in_progress", "complete", "error", "pending"}
    assert problems_of(plan) == []
    plain = plain_blocks(card)
    assert [one["type"] for one in plain] == ["section", "actions"]
    assert all(f"row {state.value}" in text_of(plain) for state in RowState)
    assert "+7 earlier · Queue: 2" in text_of(plain)


def test_controls_carry_their_tokens_and_ask_once_more_where_they_shall() -> None:
    """A button has its token as value, its look, and the question before it counts."""
    control = Control(label="Approve", token="apv:x:y", confirm="Really?")
    made = blocks_of(Notice(text="x", controls=(control,)))[-1]["elements"][0]
    assert (made["value"], made["confirm"]["text"]["text"]) == ("apv:x:y", "Really?")


def test_lone_surrogates_and_long_lines_do_not_break_a_request() -> None:
    """Text of any kind can be encoded, and our own lines are cut where they would crowd out what matters."""
    request = post(PLACE, TurnCard(phase=Phase.DONE, headline="\ud800 " + 9000 * "x"), "key")
    json.dumps(request.fields).encode()
    assert units_utf16(text_of(request.fields["blocks"])) < 400
