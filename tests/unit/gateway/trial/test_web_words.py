"""Texts of the three platforms in one shape, for the playground's page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.outbound import MARKS
from gateway.trial.web.pane import Block, Span
from gateway.trial.web.words import EMOJI, of_markdown, of_slack, of_telegram

NAMES = {"U1": "Ann", "7": "Bob"}


def plain(blocks: tuple[Block, ...]) -> str:
    """The words alone."""
    return "\n".join("".join(span.text for span in block.spans) for block in blocks)


def test_telegram_offsets_count_utf16_units() -> None:
    """An emoji before an entity moves it by two, and quoted text stands apart."""
    text = "🔐 bold\nraw text"
    entities = [{"type": "bold", "offset": 3, "length": 4}, {"type": "pre", "offset": 8, "length": 8}]
    first, second = of_telegram(text, entities)
    assert first.spans == (Span(text="🔐 "), Span(text="bold", styles=("bold",)), Span(text=""))
    assert second == Block(kind="code", spans=(Span(text="raw text"),))


def test_markdown_shows_looks_escapes_mentions_and_fences() -> None:
    """What Discord's client would draw: looks without their marks, names for ids, code as it is."""
    blocks = of_markdown("# Head\n**a\\_b** `c**` <@7> [x](http://e.test)\n```py\n<b>**\n```\n-# small\n> said", NAMES)
    assert [block.kind for block in blocks] == ["heading", "text", "code", "small", "quote"]
    assert blocks[1].spans == (
        Span(text="a_b", styles=("bold",)), Span(text=" "), Span(text="c**", styles=("code",)), Span(text=" "),
        Span(text="@Bob", styles=("mention",)), Span(text=" "), Span(text="x", styles=("link",), target="http://e.test"),
    )  # fmt: skip
    assert plain(blocks[2:3]) == "<b>**"


@given(st.text(max_size=300))
def test_plain_words_stay_whole(text: str) -> None:
    """Whatever it is, text without any mark is shown unchanged but for the breaks around it."""
    clean = "".join(one for one in text if one not in "\\`*~<[#>-\r")
    assert plain(of_markdown(clean, {})) == clean.strip("\n")
    assert plain(of_telegram(clean, [])) == clean.strip("\n")


def test_slack_shows_what_its_blocks_say() -> None:
    """Rich text, lists, quotes and tables; a message without blocks shows its text."""
    rich = {
        "type": "rich_text",
        "elements": [
            {"type": "rich_text_section", "elements": [
                {"type": "text", "text": "hi ", "style": {"bold": True}}, {"type": "user", "user_id": "U1"},
                {"type": "link", "url": "http://e.test"}, {"type": "emoji", "name": "eyes"},
            ]},
            {"type": "rich_text_list", "style": "ordered", "elements": [
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]},
            ]},
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "<x>"}]},
        ],
    }  # fmt: skip
    table = {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}, {"type": "raw_text", "text": "b"}]]}
    blocks = of_slack({"blocks": [rich, table, {"type": "divider"}]}, NAMES)
    assert plain(blocks) == "hi @Annhttp://e.test👀\n1. one\n<x>\na │ b\n"
    assert blocks[0].spans[0].styles == ("bold",)
    assert [block.kind for block in blocks] == ["text", "text", "code", "code", "rule"]
    assert plain(of_slack({"text": "only *text*"}, NAMES)) == "only text"


def test_marks_of_the_gateway_are_shown_as_emoji() -> None:
    """The names that the Slack adapter reacts with are drawn, not spelled."""
    assert {"+1", *MARKS.values()} <= EMOJI.keys()
