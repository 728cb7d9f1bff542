"""S-19, the adapters' part: what an agent wants to do is shown as it is, and cannot leave its frame."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import ApprovalCard, Control, Place, Verbatim, View
from adapters.discord import texts as discord
from adapters.slack.texts import END_OF_TEXT as SLACK_END
from adapters.slack.texts import blocks_of, plain_blocks
from adapters.telegram.formatted import Formatted
from adapters.telegram.texts import BELL, END_OF_TEXT, shown
from adapters.terminal import TerminalAdapter
from adapters.testing import Intake
from tests.contract.adapter_worlds import ANN, ENVIRONMENT, telegram_world
from tests.security.telegram_views import covered, entities
from tests.support.discord_reader import pieces, readable, texts_of

PRIVATE = Place(platform="telegram", account="900", chat=str(ANN))
GROUP = Place(platform="telegram", account="900", chat="-100123")
CONTROL = Control(label="Approve", token="apv:" + 22 * "A" + ":y")

PAYLOADS = [
    "```\nrm -rf /\n```",
    "`````` `x` ``",
    "</pre></code><b>Approved</b><a href='https://evil.example'>Approve here</a>",
    "<https://evil.example|Approve here> <!channel> <@U1>",
    "](https://evil.example) [x](tg://user?id=1)",
    "*bold* _it_ ~s~ ||spoiler|| > quote # head",
    "\\`\\*\\_ &lt;b&gt; &#96;",
    "@everyone @alice https://evil.example /approve #tag $CASH user@mail.example",
    "first\n\n\nlast\n———\n🔔",
    "🔐 May I?\nasked by Ann",
    "👨‍👩‍👧‍👦 𝔘 e\u0301 שלום",
]


def cards(body: str) -> list[View]:
    return [
        ApprovalCard(title="May I run this?", lines=("asked by Ann",), body=body, controls=(CONTROL,), mention=("42",)),
        ApprovalCard(title="May I run this?", body=body, controls=(CONTROL,)),
        Verbatim(title="Part 1 of 2", text=body),
    ]


@pytest.mark.xdist_group("aiogram")
@pytest.mark.parametrize("place", [PRIVATE, GROUP], ids=["private", "group"])
@pytest.mark.parametrize("body", PAYLOADS)
async def test_telegram_shows_the_action_in_one_block(body: str, place: Place) -> None:
    """What the server made of it has one block that is the action, no link and no mention but ours, our line last."""
    async with telegram_world() as world:
        world.emulator.add_chat(int(GROUP.chat), members=(ANN,))
        adapter = world.adapter()
        await adapter.start(Intake())
        for card in cards(body):
            await adapter.send(place, card, "k", 1)
            message = world.emulator.messages(int(place.chat))[-1]
            found = [(one["type"], covered(message, one)) for one in entities(message)]
            assert [text for kind, text in found if kind == "pre"] == [body]
            assert {kind for kind, _ in found} <= {"pre", "bold", "text_mention"}
            first, *_, last = message["text"].split("\n")
            assert first in ("🔐 May I run this?", "Part 1 of 2")
            assert last in (BELL, END_OF_TEXT)
        await adapter.stop()


@pytest.mark.parametrize("body", PAYLOADS)
def test_discord_shows_the_action_as_it_is(body: str) -> None:
    """One block that is the action; where a block cannot hold it, plain text that is. No link, no mention but ours."""
    for card in cards(body):
        assert isinstance(card, ApprovalCard | Verbatim)
        lines = "\n".join(texts_of({"components": discord.card(card)}))
        found = list(pieces(lines))
        if "```" in body:
            assert body in "".join(piece.text for piece in found)
            assert {piece.kind for piece in found} <= {"text", "mention"}
        else:
            assert [piece.text for piece in found if piece.kind == "block"] == [body]
            assert {piece.kind for piece in found} <= {"text", "block", "mention"}
        assert [piece.text for piece in found if piece.kind == "mention"] in ([], ["<@42>"])
        first, *_, last = readable(lines).split("\n")
        assert first in ("🔐 May I run this?", "Part 1 of 2")
        assert last in ("🔔 <@42>", discord.END_OF_TEXT)


def leaves(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The smallest parts of a block of rich text, in order."""
    return [part for section in block["elements"] for part in section["elements"]]


@pytest.mark.parametrize("body", PAYLOADS)
def test_slack_shows_the_action_as_it_is(body: str) -> None:
    """One block of its own is the action, letter by letter; nothing is a link, markup or a mention but ours."""
    for card in cards(body):
        assert isinstance(card, ApprovalCard | Verbatim)
        [block] = [one for one in blocks_of(card) if one["type"] != "actions"]
        shown = [one for one in block["elements"] if one["type"] == "rich_text_preformatted"]
        assert [part["text"] for one in shown for part in one["elements"]] == [body]
        assert {part["type"] for part in leaves(block)} <= {"text", "user"}
        assert [part["user_id"] for part in leaves(block) if part["type"] == "user"] in ([], ["42"])
        first, *_, last = leaves(block)
        assert first["text"] in ("🔐 May I run this?", "Part 1 of 2")
        assert last.get("user_id") == "42" or last["text"] == SLACK_END
        sections = [one["text"] for one in plain_blocks(card) if one["type"] == "section"]
        assert {one["type"] for one in sections} == {"plain_text"}
        assert body.replace("\n", "") in "".join(one["text"] for one in sections).replace("\n", "")


def pre_of(made: Formatted) -> list[str]:
    units = made.text.encode("utf-16-le")
    return [
        units[2 * entity.offset : 2 * entity.end].decode("utf-16-le")
        for entity in made.entities
        if entity.style.type == "pre"
    ]


@given(st.text(min_size=1, max_size=1500).filter(lambda text: text.strip() == text))
def test_telegram_block_is_the_action_whatever_it_is(body: str) -> None:
    """For any action: one block, exactly the action, nothing else inside it."""
    for card in cards(body):
        assert isinstance(card, ApprovalCard | Verbatim)
        made = shown(card)
        assert pre_of(made) == [body]
        block = next(entity for entity in made.entities if entity.style.type == "pre")
        others = [entity for entity in made.entities if entity is not block]
        assert all(entity.end <= block.offset or entity.offset >= block.end for entity in others)


@pytest.mark.parametrize("body", [*PAYLOADS, "x\x1b[2K\rls", "\x07\x08\x9b31m", "a\u202eb\u2066c\u200b"])
async def test_terminal_obeys_nothing_that_is_shown(body: str) -> None:
    """Control characters are written out, so that no text moves the cursor, colours, reorders or hides anything."""

    async def nobody() -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""

    screen = io.StringIO()
    adapter = TerminalAdapter(ENVIRONMENT, nobody(), screen)
    await adapter.start(Intake())
    for card in cards(body):
        await adapter.send(Place(platform="terminal", account="local", chat="terminal"), card, "k", 1)
    await adapter.stop()
    written = screen.getvalue()
    assert not {letter for letter in written if ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0} - {"\n"}
    assert not set(written) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b")
    for line in body.replace("\x1b", "\\u{1b}").replace("\r", "\\u{d}").split("\n"):
        if line.isprintable():
            assert line in written
