"""Cutting markdown: every part fits, nothing is lost, nothing is torn."""

from __future__ import annotations

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from adapters.markdown import cut_text, parse, split, text_of
from tests.unit.adapters.markdown_cases import ANY_TEXT, CASES, MARKDOWN

LIMITS = st.integers(60, 400)


def assert_whole(markdown: str, parts: tuple[str, ...]) -> None:
    """Each letter of the whole is in the parts, in order, as often; what parts repeat is not counted."""
    wanted = iter("".join(map(text_of, parts)))
    missing = [letter for letter in text_of(markdown) if letter not in wanted]
    assert missing == []


@given(MARKDOWN, LIMITS)
def test_every_part_is_within_the_limit_and_none_is_blank(markdown: str, limit: int) -> None:
    """Whatever the markdown, each part is at most as long as allowed and has something in it."""
    for part in split(markdown, lambda text: len(text) <= limit):
        assert len(part) <= limit
        assert part.strip()


@given(MARKDOWN, LIMITS)
def test_no_text_is_lost(markdown: str, limit: int) -> None:
    """The parts together say all that the whole says, in order."""
    assert_whole(markdown, split(markdown, lambda text: len(text) <= limit))


@given(ANY_TEXT, LIMITS)
def test_text_of_any_kind_is_not_lost(text: str, limit: int) -> None:
    """The same for text that nobody meant as markdown."""
    parts = split(text, lambda part: len(part) <= limit)
    assert_whole(text, parts)
    assert all(len(part) <= limit for part in parts)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("limit", [80, 200])
def test_hard_cases_are_not_lost(name: str, limit: int) -> None:
    """Markdown that broke others survives being repeated to many times the limit and cut."""
    markdown = "\n\n".join([CASES[name]] * 5)
    parts = split(markdown, lambda text: len(text) <= limit)
    assert all(len(part) <= limit for part in parts)
    assert_whole(markdown, parts)


def test_what_fits_is_left_alone() -> None:
    """Markdown within the limit is one part, byte for byte."""
    assert split("a *b*\n\nc", lambda text: len(text) < 100) == ("a *b*\n\nc",)


def test_blank_markdown_has_no_part() -> None:
    """Nothing to say is no message."""
    assert split(" \n\n", lambda text: True) == ()


def test_fence_is_closed_and_opened_again_with_its_language() -> None:
    """Each part of a long code block is a code block of the same language, and the lines are unchanged."""
    lines = [f"line {number} = '`' * {number}" for number in range(60)]
    parts = split("Before\n\n~~~python\n" + "\n".join(lines) + "\n~~~\n\nAfter", lambda text: len(text) <= 300)
    fences = [token for part in parts for token in parse(part) if token.type == "fence"]
    assert len(fences) > 3
    assert {token.info for token in fences} == {"python"}
    assert "".join(token.content for token in fences).splitlines() == lines


def test_code_keeps_its_tabs_and_indentation_across_a_cut() -> None:
    """Cutting code between lines changes no blank in it."""
    code = "\n".join(f"{chr(9) * (number % 3)}  call({number})" for number in range(50))
    parts = split(f"```make\n{code}\n```", lambda text: len(text) <= 120)
    assert "".join(token.content for part in parts for token in parse(part)) == code + "\n"


def test_bold_is_closed_and_opened_again() -> None:
    """A cut inside bold text leaves both sides bold, and no stray marks."""
    parts = split("**" + "word " * 200 + "end**", lambda text: len(text) <= 100)
    assert len(parts) > 9
    for part in parts:
        children = parse(part)[1].children or []
        assert [token.type for token in children if token.nesting] == ["strong_open", "strong_close"]
    assert "*" not in "".join(map(text_of, parts))


def test_link_is_whole_on_both_sides_of_a_cut() -> None:
    """A cut in the text of a link gives two links to the same place."""
    parts = split(f"[{'word ' * 60}](https://a.example/x_(y))", lambda text: len(text) <= 150)
    for part in parts:
        children = parse(part)[1].children or []
        assert [t.attrGet("href") for t in children if t.type == "link_open"] == ["https://a.example/x_(y)"]


def test_numbers_of_a_list_go_on() -> None:
    """A long numbered list that counts 1. 1. 1. in its source has its true numbers in every part."""
    parts = split("\n".join(f"1. item {'x' * 20}" for _ in range(30)), lambda text: len(text) <= 100)
    starts = [int(parse(part)[0].attrGet("start") or 1) for part in parts]
    assert starts == [1 + 3 * number for number in range(10)]


def test_table_repeats_its_head() -> None:
    """Each part of a long table is a table with the same columns."""
    table = "| name | value |\n|:--|--:|\n" + "\n".join(f"| row {number} | {number} |" for number in range(40))
    parts = split(table, lambda text: len(text) <= 150)
    for part in parts:
        assert [t.content for t in parse(part) if t.type == "inline"][:2] == ["name", "value"]
    assert_whole(table, parts)


def test_heading_goes_with_what_it_leads_to() -> None:
    """A part does not end with a heading whose text is in the next part."""
    markdown = "\n\n".join(f"## Title {number}\n\n{'text ' * 12}" for number in range(6))
    for part in split(markdown, lambda text: len(text) <= 170):
        assert parse(part)[-3].type != "heading_open"


def test_reference_links_find_their_target_in_every_part() -> None:
    """A link whose target is defined at the end of the whole is a link in each part."""
    markdown = "\n\n".join(["see [the docs][d] " + "x " * 30] * 5) + "\n\n[d]: https://d.example"
    for part in split(markdown, lambda text: len(text) <= 200):
        assert any(t.type == "link_open" for t in parse(part)[1].children or [])


@given(
    st.lists(st.sampled_from(["👨‍👩‍👧‍👦", "🇩🇪", "e\u0301", "👍🏽", "a", " "]), min_size=1, max_size=200),
    st.integers(12, 60),
)
def test_no_cut_is_inside_a_grapheme(letters: list[str], limit: int) -> None:
    """What a reader takes for one character is never torn into two messages."""
    text = "".join(letters)
    parts = split(text, lambda part: len(part) <= limit)
    whole = [letter for letter in regex.findall(r"\X", text) if letter.strip()]
    assert [letter for part in parts for letter in regex.findall(r"\X", part) if letter.strip()] == whole


@given(st.text(alphabet=st.sampled_from("ab \n\t👍🏽e\u0301\u200d"), max_size=200), st.integers(4, 40))
def test_plain_text_is_cut_without_a_change(text: str, limit: int) -> None:
    """Joined, the parts of plain text are the text."""
    parts = list(cut_text(text, lambda part: len(part) <= limit))
    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)


@example("x" * 10 + " " * 30 + "y" * 10)
@given(st.text(alphabet=st.sampled_from("ab \n"), max_size=120))
def test_plain_text_is_not_cut_behind_white_space(text: str) -> None:
    """A part ends with something to read where it can, since platforms trim what is white at the end."""
    parts = list(cut_text(text, lambda part: len(part) <= 12))
    for part in parts[:-1]:
        assert part.strip() == "" or not part[-1].isspace()


@pytest.mark.parametrize("letter", ["[", "*", "`", "<", "> ", "_a", "![", "\\", "&", "|", "(", "~~", "- "])
def test_repeated_marks_do_not_hang(letter: str) -> None:
    """Thousands of the same mark are cut in seconds, not in hours (the test's time limit)."""
    markdown = letter * (5_000 // len(letter))
    parts = split(markdown, lambda text: len(text) <= 1_000)
    assert_whole(markdown, parts)
