"""Texts as the platform keeps them: cleaned, trimmed, measured, with entities that are legal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.emulators.telegram.entities import (
    PREFORMATTED,
    SPLITTABLE,
    Entity,
    FormattedText,
    find_automatic,
    settle,
    utf16_length,
)
from adapters.emulators.telegram.errors import ApiError
from adapters.emulators.telegram.links import checked_link
from adapters.emulators.telegram.text import accept_text, read_text


def entity(kind: str, offset: int, length: int, argument: str = "") -> Entity:
    """Short for one entity."""
    return Entity(type=kind, offset=offset, length=length, argument=argument)


def kept(text: str, *entities: Entity) -> tuple[str, list[tuple[str, int, int]]]:
    """What the platform makes of a text and its entities, automatic ones left out."""
    settled = settle(text, entities, allow_empty=False, automatic=False)
    return settled.text, [(one.type, one.offset, one.length) for one in settled.entities]


@pytest.mark.parametrize(
    ("text", "entities", "expected"),
    [
        ("  a  \n", [], ("a", [])),
        ("  a b", [entity("bold", 2, 3)], ("a b", [("bold", 0, 3)])),
        ("a\r\nb", [entity("bold", 3, 1)], ("a\nb", [("bold", 2, 1)])),
        ("a\tb\x00c", [], ("a b c", [])),
        ("a\u202eb", [entity("italic", 2, 1)], ("ab", [("italic", 1, 1)])),
        ("ab  ", [entity("bold", 0, 4)], ("ab", [("bold", 0, 2)])),
        ("a  b", [entity("bold", 1, 2)], ("a  b", [])),
        ("a  b", [entity("bold", 1, 3)], ("a  b", [("bold", 3, 1)])),
        ("😀b", [entity("bold", 0, 2)], ("😀b", [("bold", 0, 2)])),
        ("abc", [entity("bold", 0, 2), entity("bold", 1, 2)], ("abc", [("bold", 0, 3)])),
        (
            "abc",
            [entity("bold", 0, 3), entity("code", 1, 1)],
            ("abc", [("bold", 0, 1), ("code", 1, 1), ("bold", 2, 1)]),
        ),
        ("abc", [entity("code", 0, 2), entity("text_link", 1, 2, "http://a.example/")], ("abc", [("code", 0, 2)])),
        (
            "abc",
            [entity("bold", 0, 2), entity("italic", 1, 2)],
            ("abc", [("bold", 0, 2), ("italic", 1, 1), ("italic", 2, 1)]),
        ),
        ("abc", [entity("blockquote", 0, 3), entity("pre", 1, 1)], ("abc", [("blockquote", 0, 3), ("pre", 1, 1)])),
        ("abc", [entity("bold", 1, 0)], ("abc", [])),
    ],
)
def test_text_is_cleaned_and_entities_follow(
    text: str, entities: list[Entity], expected: tuple[str, list[tuple[str, int, int]]]
) -> None:
    """Whatever is cut or dropped, entities stay over the characters they were over, and none overlaps illegally."""
    assert kept(text, *entities) == expected


@pytest.mark.parametrize(
    ("text", "one", "message"),
    [
        ("a😀", entity("bold", 2, 1), "entity begins in a middle of a UTF-16 symbol at byte offset 5"),
        (
            "😀b",
            entity("bold", 0, 1),
            "entity beginning at UTF-16 offset 0 ends in a middle of a UTF-16 symbol at byte offset 4",
        ),
        ("abc", entity("bold", 5, 1), "entity begins after the end of the text at UTF-16 offset 5"),
        (
            "abc",
            entity("bold", 1, 9),
            "entity beginning at UTF-16 offset 1 ends after the end of the text at UTF-16 offset 10",
        ),
        ("abc", entity("bold", -1, 1), "receive an entity with incorrect offset -1"),
        ("abc", entity("bold", 0, -1), "receive an entity with incorrect length -1"),
    ],
)
def test_entities_off_the_text_are_refused(text: str, one: Entity, message: str) -> None:
    """Offsets count UTF-16 units: code point offsets after an emoji are caught."""
    with pytest.raises(ApiError) as caught:
        settle(text, [one], allow_empty=False)
    assert caught.value.description == f"Bad Request: {message}"


@pytest.mark.parametrize("blank", [" ", "\n\t ", "\u200b", "\u2800\u3164", "\u00a0"])
def test_text_that_shows_nothing_is_refused(blank: str) -> None:
    """Blank and invisible texts are not messages, but they may be captions."""
    with pytest.raises(ApiError, match="text must be non-empty"):
        settle(blank, [], allow_empty=False)
    assert settle(blank, [], allow_empty=True) == FormattedText()


def test_length_counts_code_points() -> None:
    """4096 emoji fit although they are 8192 UTF-16 units; one more does not."""
    assert utf16_length(accept_text(read_text("😀" * 4096, "", None)).text) == 8192
    with pytest.raises(ApiError, match="message is too long"):
        accept_text(read_text("😀" * 4097, "", None))


def test_raw_text_is_limited_in_bytes() -> None:
    """A source of more than 32 KiB is refused before it is parsed, even if the parsed text would fit."""
    with pytest.raises(ApiError, match="text is too long"):
        read_text("<b></b>" * 5000 + "x", "HTML", None)


def test_length_is_measured_after_parsing() -> None:
    """Markup does not count: 4096 characters in tags fit."""
    assert len(accept_text(read_text(f"<b>{'x' * 4096}</b>", "HTML", None)).text) == 4096


def test_only_a_hundred_formatting_entities_are_kept() -> None:
    """The platform drops further entities silently, automatic ones are not counted."""
    source = "".join(f"<b>{n % 10}</b> " for n in range(120)) + "@somebody"
    settled = accept_text(read_text(source, "HTML", None))
    assert sum(one.type == "bold" for one in settled.entities) == 100
    assert settled.entities[-1].type == "mention"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/start@my_bot go", [("bot_command", 0, 13)]),
        ("see /help.", [("bot_command", 4, 5)]),
        ("no/command", []),
        ("@alice and a@b.example", [("mention", 0, 6), ("email", 11, 11)]),
        ("😀 https://a.example/x?y=1.", [("url", 3, 23)]),
        ("evil.com", [("url", 0, 8)]),
        ("main.py", []),
        ("#tag $USD", [("hashtag", 0, 4), ("cashtag", 5, 4)]),
    ],
)
def test_automatic_entities(text: str, expected: list[tuple[str, int, int]]) -> None:
    """Commands, mentions, addresses and tags are marked without being asked for."""
    assert [(one.type, one.offset, one.length) for one in find_automatic(text)] == expected


def test_automatic_entities_keep_out_of_code() -> None:
    """An address inside of code stays code."""
    settled = accept_text(read_text("<code>https://a.example</code>", "HTML", None))
    assert [one.type for one in settled.entities] == ["code"]


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("https://A.example", "https://a.example/"),
        ("a.example/x", "http://a.example/x"),
        ("tg://resolve?domain=x", "tg://resolve?domain=x"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("javascript:alert(1)", None),
        ("relative/path", None),
        ("#anchor", None),
        ("http://", None),
        ("", None),
    ],
)
def test_links_are_checked(address: str, link: str | None) -> None:
    """Addresses are completed, and what is not one becomes plain text."""
    assert checked_link(address) == link


TEXTS = st.text(st.sampled_from("ab \n\r\t😀é\u202e"), max_size=12)
KINDS = st.sampled_from(sorted(SPLITTABLE | PREFORMATTED | {"blockquote", "text_link"}))


@st.composite
def texts_with_entities(draw: st.DrawFn) -> tuple[str, list[Entity]]:
    """A text and entities that begin and end at its characters."""
    text = draw(TEXTS)
    borders = [utf16_length(text[:n]) for n in range(len(text) + 1)]
    entities: list[Entity] = []
    for kind in draw(st.lists(KINDS, max_size=6)):
        start, end = sorted((draw(st.sampled_from(borders)), draw(st.sampled_from(borders))))
        entities.append(entity(kind, start, end - start, "http://a.example/"))
    return text, entities


@given(texts_with_entities())
def test_kept_entities_are_always_legal(given_text: tuple[str, list[Entity]]) -> None:
    """For any text and entities: every kept entity lies inside of the text and every pair is nested or apart."""
    settled = settle(*given_text, allow_empty=True)
    borders = {utf16_length(settled.text[:n]) for n in range(len(settled.text) + 1)}
    assert list(settled.entities) == sorted(settled.entities, key=lambda one: (one.offset, -one.length, one.type))
    for index, one in enumerate(settled.entities):
        assert one.length > 0
        assert {one.offset, one.end} <= borders
        for other in settled.entities[index + 1 :]:
            apart = other.offset >= one.end
            assert apart or other.end <= one.end
            assert apart or not {one.type, other.type} & PREFORMATTED or one.type == "blockquote"
