"""Markdown in Discord: read as its client reads it, no text lost, nobody mentioned, and always within a message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.discord.limits import MAX_CARD_TEXT, MAX_TEXT
from adapters.discord.markup import (
    PART_UNITS,
    VERBATIM_UNITS,
    DiscordMarkup,
    block,
    escaped,
    is_visible,
    literal,
    render,
)
from adapters.markdown import text_of, units_utf16
from tests.support.discord_reader import pieces, readable
from tests.unit.adapters.markdown_cases import ANY_TEXT, CASES, MARKDOWN

MARKUP = DiscordMarkup()


def squeezed(text: str) -> str:
    return "".join(text.split())


def words(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def assert_all_words(markdown: str, shown: str) -> None:
    """Each letter and digit of the markdown's text is to be read, in order."""
    rest = iter(shown)
    assert [letter for letter in words(text_of(markdown)) if letter not in rest] == []


def assert_harmless(markup: str) -> None:
    """Nobody is mentioned, no link goes anywhere but to the web, and what is sent can be encoded."""
    for piece in pieces(markup):
        assert piece.kind != "mention", piece
        assert piece.kind != "link" or piece.to.startswith(("https://", "http://", "HTTP")), piece
    markup.encode()


@given(MARKDOWN)
def test_no_word_is_lost_and_nobody_is_mentioned(markdown: str) -> None:
    """Whatever the markdown: every word is there for whoever reads it in Discord."""
    assert_harmless(render(markdown))
    assert_all_words(markdown, readable(render(markdown)))


@given(ANY_TEXT)
def test_any_text_can_be_shown(text: str) -> None:
    """Text that nobody meant as markdown mentions nobody either, and has no half of a character."""
    assert_harmless(render(text))


@pytest.mark.parametrize("name", [name for name in CASES if name != "task list"])
def test_hard_cases_are_shown_whole(name: str) -> None:
    """Markdown that broke others loses no word."""
    assert_harmless(render(CASES[name]))
    assert_all_words(CASES[name], readable(render(CASES[name])))


@settings(max_examples=30)  # each of them is long
@given(st.lists(MARKDOWN, min_size=1, max_size=3).map("\n\n".join), st.integers(1, 8))
def test_parts_fit_and_together_lose_nothing(markdown: str, times: int) -> None:
    """Each part is one sendable message with room for our lines, and all words are in the parts in order."""
    whole = "\n\n".join([markdown] * times)
    shown = [render(part) for part in MARKUP.split(whole)]
    for one in shown:
        assert_harmless(one)
        assert units_utf16(one) <= PART_UNITS < MAX_TEXT
        assert is_visible(one)
    assert_all_words(whole, "".join(map(readable, shown)))


@pytest.mark.parametrize("name", CASES)
def test_hard_cases_are_cut_whole(name: str) -> None:
    """Markdown that broke others is cut into parts that fit when it is long."""
    whole = "\n\n".join([CASES[name]] * min(100, 4_000 // len(CASES[name])))
    shown = [render(part) for part in MARKUP.split(whole)]
    assert all(units_utf16(one) <= PART_UNITS for one in shown)
    if name != "task list":
        assert_all_words(whole, "".join(map(readable, shown)))


@given(st.text(min_size=1, max_size=300) | st.sampled_from(["```", "``", "`\n", "a```b"]), st.integers(1, 60))
def test_verbatim_is_cut_without_a_change(text: str, times: int) -> None:
    """Joined, the parts are the text, and each fits into a card with a line of ours above and below."""
    parts = MARKUP.split_verbatim(text * times)
    assert "".join(parts) == text * times
    assert all(units_utf16(block(part)) <= VERBATIM_UNITS < MAX_CARD_TEXT for part in parts)


@given(st.text(max_size=300) | MARKDOWN)
def test_plain_text_reads_as_it_is(text: str) -> None:
    """Escaped text is read as that text; an address in it may become a link, and nothing else becomes anything."""
    told = text.encode("utf-8", "replace").decode()
    for piece in pieces(escaped(told)):
        assert piece.kind == "text" or (piece.kind == "link" and piece.text == piece.to)
    assert squeezed(readable(escaped(told))) == squeezed(told)
    assert [piece.kind for piece in pieces(literal(told))] in ([], ["text"])
    assert readable(literal(told)) == told


@given(st.text(min_size=1, max_size=600).filter(lambda text: text.strip() == text))
def test_block_shows_exactly_the_text(text: str) -> None:
    """One block that is the text; or, where a block cannot hold it, the text with nothing in it interpreted."""
    told = text.encode("utf-8", "replace").decode()
    (piece,) = pieces(block(told))
    assert (piece.kind, piece.text) == ("text" if "```" in told else "block", told)


EXACT = {
    "# Title\n\ntext": "# Title\n\ntext",
    "#### Small": "**Small**",
    "**b *i* b** ~~s~~": "**b _i_ b** ~~s~~",
    "- [x] done\n- [ ] open": "- ☑ done\n- ☐ open",
    "1. a\n2. b\n   - c": "1. a\n2. b\n   - c",
    "> a\n> > b": "> a\n> \n> │ b",
    "```py\nx = 1\n```": "```py\nx = 1\n```",
    "| a | b |\n|---|---|\n| 1 | 22 |": "```\na | b\n--+---\n1 | 22\n```",
    "[docs](https://a.example/x(y))": "[docs](<https://a.example/x%28y%29>)",
    "[https://good.example](https://evil.example)": "<https://good.example> (<https://evil.example>)",
    "[m](mailto:a@b.example) [x](javascript:1)": "m (mailto:a@b.example) \\[x\\](javascript:1)",
    "see https://a.example/a_b_c.": "see <https://a.example/a_b_c>.",
    "![plan](https://a.example/i.png)": "🖼 [plan](<https://a.example/i.png>)",
    "@everyone <@1> snake_case": "\\@everyone \\<@1> snake\\_case",
    "a\n\n---\n\nb": "a\n\n———\n\nb",
}


@pytest.mark.parametrize("markdown", EXACT)
def test_exact_markup(markdown: str) -> None:
    """Each construct in Discord's own way."""
    assert render(markdown) == EXACT[markdown]


def test_line_that_only_looks_like_markup_is_text() -> None:
    """What would begin a heading, list, quote or small line in Discord, and was none, is escaped."""
    text = "# a\n## b\n- c\n* d\n1. e\n> f\n-# g\n>>> h"
    assert readable(escaped(text)) == text
