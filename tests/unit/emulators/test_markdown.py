"""MarkdownV2 and the older Markdown as the platform parses them."""

from __future__ import annotations

import pytest

from adapters.emulators.telegram.markdown import parse_markdown, parse_markdown_v2
from adapters.emulators.telegram.markup_error import MarkupError


def shape(source: str) -> tuple[str, list[tuple[str, int, int, str]]]:
    """Text and entities of a MarkdownV2 source."""
    parsed = parse_markdown_v2(source)
    return parsed.text, [(one.type, one.offset, one.length, one.argument) for one in parsed.entities]


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        (r"a\.b\!", "a.b!", []),
        ("*b*", "b", [("bold", 0, 1, "")]),
        ("_i_", "i", [("italic", 0, 1, "")]),
        ("__u__", "u", [("underline", 0, 1, "")]),
        ("~s~", "s", [("strikethrough", 0, 1, "")]),
        ("||x||", "x", [("spoiler", 0, 1, "")]),
        ("`c*d`", "c*d", [("code", 0, 3, "")]),
        ("```\np\n```", "p\n", [("pre", 0, 2, "")]),
        ("```py\np```", "p", [("pre", 0, 1, "py")]),
        ("[l](https://a.example/)", "l", [("text_link", 0, 1, "https://a.example/")]),
        (r"[l](https://a.example/\))", "l", [("text_link", 0, 1, "https://a.example/)")]),
        ("[A](tg://user?id=7)", "A", [("text_mention", 0, 1, "7")]),
        ("![👍](tg://emoji?id=55)", "👍", [("custom_emoji", 0, 2, "55")]),
        ("*b _i_*", "b i", [("bold", 0, 3, ""), ("italic", 2, 1, "")]),
        (">q\n>r\nplain", "q\nr\nplain", [("blockquote", 0, 4, "")]),
        ("a\n>q", "a\nq", [("blockquote", 2, 1, "")]),
        ("**>q\n>r||\nplain", "q\nr\nplain", [("expandable_blockquote", 0, 4, "")]),
        ("😀*x*", "😀x", [("bold", 2, 1, "")]),
        ("**", "", []),
    ],
)
def test_markup_becomes_entities(source: str, text: str, entities: list[tuple[str, int, int, str]]) -> None:
    """Marks leave the text and become entities."""
    assert shape(source) == (text, entities)


@pytest.mark.parametrize("character", list("]()>#+-=|{}.!"))
def test_reserved_characters_must_be_escaped(character: str) -> None:
    """Each of the reserved characters alone is an error that names it; escaped it is text."""
    with pytest.raises(MarkupError) as caught:
        parse_markdown_v2(f"a{character}b")
    assert str(caught.value) == f"Character '{character}' is reserved and must be escaped with the preceding '\\'"
    assert shape(f"a\\{character}b") == (f"a{character}b", [])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("é*b", "Can't find end of Bold entity at byte offset 2"),
        ("`c", "Can't find end of Code entity at byte offset 0"),
        ("```py\nx", "Can't find end of PreCode entity at byte offset 0"),
        ("[l](http://a.example", "Can't find end of a URL at byte offset 4"),
        ("![x]", "Custom emoji entity must contain a tg://emoji URL"),
        (">q *b\nnext", "Can't find end of Bold entity at byte offset 3"),
    ],
)
def test_unended_entities_are_refused(source: str, message: str) -> None:
    """The error names the entity and counts bytes."""
    with pytest.raises(MarkupError) as caught:
        parse_markdown_v2(source)
    assert str(caught.value) == message


def test_older_markdown_has_no_nesting() -> None:
    """The older mode knows bold, italic, code, preformatted text and links, and a backslash."""
    parsed = parse_markdown(r"*b* _i_ `c` [l](http://a.example/) snake\_case" + "\n```py\nx```")
    assert parsed.text == "b i c l snake_case\nx"
    assert [(one.type, one.offset, one.argument) for one in parsed.entities] == [
        ("bold", 0, ""),
        ("italic", 2, ""),
        ("code", 4, ""),
        ("text_link", 6, "http://a.example/"),
        ("pre", 19, "py"),
    ]


def test_older_markdown_refuses_an_open_mark() -> None:
    """An underscore that never closes is the classic error of the older mode."""
    with pytest.raises(MarkupError, match="Can't find end of the entity starting at byte offset 5"):
        parse_markdown("snake_case")
