"""Markdown in Telegram: entities that the server takes, no text lost, nobody mentioned."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.markdown import text_of, units_utf16
from adapters.telegram.formatted import Entity, Formatted, Run, Style, formatted, is_visible
from adapters.telegram.markup import MESSAGE_UNITS, PART_ENTITIES, PART_UNITS, TelegramMarkup, render
from tests.unit.adapters.markdown_cases import ANY_TEXT, CASES, MARKDOWN

MARKUP = TelegramMarkup()
MENTION = re.compile(r"(?<![A-Za-z0-9_])@[A-Za-z0-9_]{2,}")


def slice_utf16(text: str, offset: int, length: int) -> str:
    """The stretch of a text that an entity covers; raises if it begins or ends inside a surrogate pair."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le")


def crosses(first: Entity, second: Entity) -> bool:
    """Whether two ranges overlap without one containing the other."""
    return first.offset < second.offset < first.end < second.end


def assert_valid(shown: Formatted) -> None:
    """What the server asks of entities, and what it would do with ours."""
    for entity in shown.entities:
        assert entity.length > 0
        assert entity.end <= shown.units
        assert slice_utf16(shown.text, entity.offset, entity.length)
    for first in shown.entities:
        for second in shown.entities:
            if first is not second:
                assert not crosses(first, second)
                inside = first.offset <= second.offset and second.end <= first.end
                if inside and first.style.type in ("code", "pre"):
                    assert second.style.type == "blockquote"
                    assert second.length == first.length
                assert not (inside and first.style.type == second.style.type == "blockquote")
    for mention in MENTION.finditer(shown.text):
        start, end = units_utf16(shown.text[: mention.start()]), units_utf16(shown.text[: mention.end()])
        covering = [e for e in shown.entities if e.offset < end and e.end > start]
        assert any(e.style.type in ("code", "pre", "text_link") for e in covering)


def words(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def assert_all_words(markdown: str, shown: str) -> None:
    """Each letter and digit of the markdown's text is shown, in order."""
    rest = iter(shown)
    assert [letter for letter in words(text_of(markdown)) if letter not in rest] == []


@given(MARKDOWN)
def test_entities_are_valid_and_no_word_is_lost(markdown: str) -> None:
    """Whatever the markdown: ranges inside the text, none crossing, code alone, every word there."""
    shown = render(markdown)
    assert_valid(shown)
    assert_all_words(markdown, shown.text)


@given(ANY_TEXT)
def test_any_text_can_be_shown(text: str) -> None:
    """Text that nobody meant as markdown gives valid entities too, and no lone surrogate that could not be sent."""
    shown = render(text)
    assert_valid(shown)
    shown.text.encode()


@pytest.mark.parametrize("name", [name for name in CASES if name != "task list"])
def test_hard_cases_are_shown_whole(name: str) -> None:
    """Markdown that broke others gives valid entities and loses no word."""
    shown = render(CASES[name])
    assert_valid(shown)
    assert_all_words(CASES[name], shown.text)


@settings(max_examples=50)  # each of them is long
@given(st.lists(MARKDOWN, min_size=1, max_size=3).map("\n\n".join), st.integers(1, 12))
def test_parts_fit_and_together_lose_nothing(markdown: str, times: int) -> None:
    """Each part is one sendable message with room for our lines, and all words are in the parts in order."""
    whole = "\n\n".join([markdown] * times)
    shown = [render(part) for part in MARKUP.split(whole)]
    for one in shown:
        assert_valid(one)
        assert one.units <= PART_UNITS < MESSAGE_UNITS
        assert len(one.entities) <= PART_ENTITIES
        assert is_visible(one.text)
    assert_all_words(whole, "".join(one.text for one in shown))


@pytest.mark.parametrize("name", CASES)
def test_hard_cases_are_cut_whole(name: str) -> None:
    """Markdown that broke others is cut into valid parts when it is long."""
    whole = "\n\n".join([CASES[name]] * min(300, 6_000 // len(CASES[name])))
    shown = [render(part) for part in MARKUP.split(whole)]
    for one in shown:
        assert_valid(one)
        assert one.units <= PART_UNITS
    if name != "task list":
        assert_all_words(whole, "".join(one.text for one in shown))


def test_many_entities_are_spread_over_messages() -> None:
    """What the server would drop beyond a hundred entities is in the next message."""
    parts = MARKUP.split(" ".join(f"**b{number}** and" for number in range(250)))
    bold = [entity for part in parts for entity in render(part).entities]
    assert len(bold) == 250


@given(st.text(min_size=1, max_size=300), st.integers(1, 60))
def test_verbatim_is_cut_without_a_change(text: str, times: int) -> None:
    """Joined, the parts are the text."""
    parts = MARKUP.split_verbatim(text * times)
    assert "".join(parts) == text * times
    assert all(units_utf16(part) < MESSAGE_UNITS for part in parts)


def only(shown: Formatted) -> list[tuple[str, str]]:
    """Kind and stretch of each entity."""
    return [(e.style.type, slice_utf16(shown.text, e.offset, e.length)) for e in shown.entities]


SHOWN = {
    "a *b* **c** ~~d~~ `e`": ("a b c d e", [("italic", "b"), ("bold", "c"), ("strikethrough", "d"), ("code", "e")]),
    "# Head `x` y": ("Head x y", [("bold", "Head "), ("code", "x"), ("bold", " y")]),
    "```py\nx = 1\n```": ("x = 1", [("pre", "x = 1")]),
    "> a\n> > b\n\nc": ("a\n│ b\n\nc", [("blockquote", "a\n│ b")]),
    "- a\n  - b\n- [x] c": ("• a\n  • b\n☑ c", []),
    "3. a\n4. b": ("3. a\n4. b", []),
    "[t](https://a.example) [u](/rel) [v](tg://user?id=1)": (
        "t u (/rel) v (tg://user?id=1)",
        [("text_link", "t")],
    ),
    "<b>x</b> & <br>": ("<b>x</b> & <br>", []),
    "| a | bb |\n|-|-|\n| 1 | 2 |": ("a | bb\n--+---\n1 | 2", [("pre", "a | bb\n--+---\n1 | 2")]),
    "👍🏽 **x**": ("👍🏽 x", [("bold", "x")]),
    "hi @alice and a@bcd.example": ("hi @alice and a@bcd.example", [("code", "@alice")]),
    "**to @bob now**": ("to @bob now", [("bold", "to "), ("code", "@bob"), ("bold", " now")]),
    "@al**ice**": ("@alice", [("code", "@alice")]),
    "- ```\n  code\n  ```\n- b": ("•\ncode\n• b", [("pre", "code")]),
    "[![pic](https://i.example)](https://l.example)": ("🖼 pic (https://i.example)", [("text_link", "🖼 pic (https://i.example)")]),
    "a\\\nb": ("a\nb", []),
}  # fmt: skip


@pytest.mark.parametrize("markdown", SHOWN)
def test_each_construct_is_shown_as_it_should_be(markdown: str) -> None:
    """Text and entities of one construct each."""
    shown = render(markdown)
    assert (shown.text, only(shown)) == SHOWN[markdown]


def test_language_of_code_is_told() -> None:
    """A fence's language goes with the entity, and what is not a language does not."""
    languages = [
        render(f"```{info}\nx\n```").entities[0].style.language for info in ("python title=x", "c++", "{x}", "")
    ]
    assert languages == ["python", "c++", None, None]


def test_deliberate_mention_is_kept() -> None:
    """A person whom we mention by id is mentioned, whatever his text."""
    shown = formatted([Run("for "), Run("@bob", (Style(type="text_mention", user=42),))])
    assert [entity.wire()["user"]["id"] for entity in shown.entities] == [42]


@pytest.mark.parametrize("text", ["", " \n", "\u200b\u2060", "\u2800", "\u3164 \u0301"])
def test_blank_is_recognised(text: str) -> None:
    """What the server would refuse as blank is known to be blank."""
    assert not is_visible(text)
