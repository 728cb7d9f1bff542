"""S-18: no character of what a person has to judge is invisible or reorders the text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.views.approval import approval_title
from gateway.views.show import hidden_count, plain, show, unshow
from tests.support.delivering import action, pending

ANY = st.text(alphabet=st.characters(exclude_categories=()), max_size=200)  # lone surrogates included
TRICKY = st.text(alphabet=st.sampled_from("a0 \\u{}⏎␠×\n\t\u200b\u202e\ud800\u00a0e\u0301"), max_size=60)

TRICKS = {
    "zero width space": "\u200b",
    "zero width joiner": "\u200d",
    "byte order mark": "\ufeff",
    "right-to-left override": "\u202e",
    "first strong isolate": "\u2068",
    "soft hyphen": "\u00ad",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "Hangul filler": "\u3164",
    "half-width Hangul filler": "\uffa0",
    "Hangul choseong filler": "\u115f",
    "Braille blank": "\u2800",
    "combining long stroke": "\u0336",
    "enclosing circle": "\u20dd",
    "variation selector 17": "\U000e0100",
    "tag space": "\U000e0020",
    "musical begin beam": "\U0001d173",
    "shorthand format": "\U0001bca0",
    "private use": "\ue000",
    "unassigned": "\U0003fffd",
    "lone surrogate": "\ud800",
    "escape": "\x1b",
    "carriage return": "\r",
    "tab": "\t",
}


@given(ANY | TRICKY)
def test_what_is_shown_names_exactly_one_text(text: str) -> None:
    """unshow(show(s)) == s for every text there is."""
    assert unshow(show(text)) == text


@given(ANY | TRICKY)
def test_only_printable_characters_are_shown(text: str) -> None:
    """Nothing of a category that is drawn as nothing, that moves others, or that no message can carry."""
    for char in show(text).replace("\n", ""):
        assert char == " " or char.isprintable()
        assert unicodedata.category(char) not in {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Mn", "Me"}
    assert " " * 9 not in show(text)


@pytest.mark.parametrize("char", TRICKS.values(), ids=TRICKS)
def test_known_tricks_show(char: str) -> None:
    """Each becomes its code point, and is counted."""
    assert show(f"rm{char}x") == f"rm\\u{{{ord(char):X}}}x"
    assert hidden_count(f"rm{char}x") == 1
    assert char not in plain(f"rm{char}x")


def test_terminal_sequences_show() -> None:
    """A line cannot be wiped from under the reader's eyes."""
    assert show("ls\x1b[2K\r") == "ls\\u{1B}[2K\\u{D}"


def test_escapes_cannot_be_faked() -> None:
    """A text that contains our own signs shows differently from one that needs them."""
    assert show("\\u{200B}") == "\\\\u{200B}"
    assert show("a⏎b") == "a\\u{23CE}b"
    assert show("a\nb") == "a⏎\nb"
    assert show("a␠×9b") == "a\\u{2420}×9b"


def test_padding_is_counted() -> None:
    """Blanks do not push anything out of sight; a digit after them is not taken for a part of the count."""
    assert show("a" + " " * 8 + "b") == "a" + " " * 8 + "b"
    assert show("ls" + " " * 300 + "; rm x") == "ls␠×300; rm x"
    assert unshow(show(" " * 9 + "5")) == " " * 9 + "5"


def test_the_same_holds_for_names() -> None:
    """Tool name, argument name and path go through the same function as the value."""
    evil = "she\u200bll"
    asked = pending(action(evil, arguments={"co\u202emmand": "x"}))
    assert "\u200b" not in approval_title(asked)
    assert "\\u{200B}" in approval_title(asked)
