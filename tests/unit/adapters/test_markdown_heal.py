"""Mending unfinished markdown: what is open is closed, what is complete stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.markdown import heal, parse, text_of
from tests.unit.adapters.markdown_cases import CASES, MARKDOWN

MENDED = {
    "**bold": "**bold**",
    "a *b **c": "a *b **c***",
    "see `code": "see `code`",
    "see ``a ` b": "see ``a ` b``",
    "text **": "text",
    "text `": "text",
    "~~old": "~~old~~",
    "[docs](https://exam": "docs",
    "a **b** c": "a **b** c",
    "2 * 3 * 4": "2 * 3 * 4",
    "done **bold\n\n": "done **bold\n\n",
    "```py\nx = 1": "```py\nx = 1\n```",
    "```py\nx = 1\n``": "```py\nx = 1\n```",
    "```py\nx = 1\n```": "```py\nx = 1\n```",
    "- a\n  ```\n  b": "- a\n  ```\n  b\n  ```",
    "> ```\n> b": "> ```\n> b\n> ```",
    "\\*not open": "\\*not open",
    "": "",
}


@pytest.mark.parametrize("unfinished", MENDED)
def test_open_ends_are_closed(unfinished: str) -> None:
    """Each kind of open end is closed in the way that its writer would have closed it."""
    assert heal(unfinished) == MENDED[unfinished]


def readable(markdown: str) -> str:
    """Text without marks that healing may give a meaning, and without targets of links."""
    return re.sub(r"\]\([^()\s]*|[`*_~\[\]!]", "", text_of(markdown))


@given(MARKDOWN, st.integers(0, 300))
def test_no_text_goes_and_healing_is_done_at_once(markdown: str, end: int) -> None:
    """Whatever the text is cut off at, healing leaves all words, and a second healing changes nothing."""
    healed = heal(markdown[:end])
    assert readable(healed) == readable(markdown[:end])
    assert heal(healed) == healed


@pytest.mark.parametrize("name", CASES)
def test_every_beginning_of_a_hard_case_can_be_healed(name: str) -> None:
    """No beginning of markdown that broke others raises or loses words."""
    for end in range(0, len(CASES[name]), 1 + len(CASES[name]) // 15):
        healed = heal(CASES[name][:end])
        assert readable(healed) == readable(CASES[name][:end])


def test_code_does_not_spill_while_it_is_written() -> None:
    """At every moment of a text with code, the code is in a code block and the rest is not."""
    whole = "Look:\n\n```py\nx = '**'\n```\n\nand **that** is it"
    for end in range(len("Look:\n\n```py\nx"), len(whole)):
        fences = [token.content for token in parse(heal(whole[:end])) if token.type == "fence"]
        assert len(fences) == 1
        assert "x = '**'\n".startswith(fences[0].rstrip("\n`"))
