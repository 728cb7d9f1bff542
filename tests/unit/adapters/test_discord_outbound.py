"""Views as Discord's messages: layout, limits that are checked before anything is sent, and nobody mentioned."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Document,
    Form,
    Notice,
    Phase,
    Private,
    Row,
    RowState,
    Style,
    Text,
    TurnCard,
    Verbatim,
)
from adapters.discord import interactions, outbound
from adapters.discord.commands import are_as, wanted
from adapters.discord.components import checked, every, rows, text
from adapters.discord.limits import MAX_CARD_TEXT, MAX_COMPONENTS, MAX_TEXT
from adapters.discord.posting import is_the_same
from adapters.discord.texts import END_OF_TEXT
from adapters.errors import Refused
from adapters.markdown import units_utf16
from tests.support.discord_reader import shown_in, texts_of

TOKEN = "apv:" + 22 * "A" + ":y"
STOP = Control(label="Stop", token="apv:" + 22 * "B" + ":x", style=Style.DANGER)
APPROVE = Control(label="Approve", token=TOKEN, style=Style.PRIMARY)


def fields(view: Any) -> dict[str, Any]:
    return dict(outbound.message(view).fields)


def test_turn_card_is_a_silent_box_with_its_button() -> None:
    """Phase, labels, the last rows, counters, and Stop; nobody is woken by it."""
    made = TurnCard(
        phase=Phase.WORKING,
        headline="fix the login · 0:42",
        rows=tuple(Row(state=RowState.DONE, text=f"step {number}") for number in range(8)),
        earlier_rows=3,
        queue=2,
        labels=("Notes", "discord"),
        footer="6 tools",
        controls=(STOP,),
    )
    shown = fields(made)
    (box,) = shown["components"]
    kinds = [one["type"] for one in box["components"]]
    assert (box["type"], kinds) == (17, [10, 14, 1])
    assert shown["flags"] == outbound.COMPONENTS_V2 | outbound.SILENT | outbound.SUPPRESS_EMBEDS
    assert shown_in(shown).split("\n") == [
        "▸ Working · fix the login · 0:42",
        "Notes · discord",
        "+5 earlier",
        *(f"☑ step {number}" for number in range(2, 8)),
        "Queue: 2 · 6 tools",
    ]
    assert box["components"][2]["components"] == [{"type": 2, "custom_id": STOP.token, "label": "Stop", "style": 4}]


def test_turn_that_is_over_is_one_line() -> None:
    """No box, no rows, no buttons."""
    shown = fields(TurnCard(phase=Phase.DONE, headline="Done · 1:12", rows=(Row(state=RowState.DONE, text="x"),)))
    assert shown["components"] == [{"type": 10, "content": "☑ Done · 1:12"}]


def test_approval_has_our_lines_first_and_last() -> None:
    """Title, who asked, the action as a block, warning, our last line, buttons in the order given; it notifies."""
    deny = Control(label="Deny", token=TOKEN.replace("y", "n"), style=Style.DANGER)
    details = Control(label="Details", token=TOKEN.replace("y", "d"))
    card = ApprovalCard(
        title="May I?",
        lines=("asked by Ann",),
        body="rm -r build",
        warning="High risk",
        controls=(APPROVE, deny, details),
    )
    shown = fields(card)
    lines = shown_in(shown).split("\n")
    assert lines == ["🔐 May I?", "asked by Ann", "rm -r build", "⚠ High risk", END_OF_TEXT]
    assert not shown["flags"] & outbound.SILENT
    buttons = [one for one in every(shown["components"]) if one["type"] == 2]
    assert [(one["label"], one["style"]) for one in buttons] == [("Approve", 3), ("Deny", 4), ("Details", 2)]


def test_decided_approval_is_one_line_without_buttons() -> None:
    """The outcome stands first."""
    shown = fields(ApprovalCard(title="May I?", outcome="Approved by Ann", controls=(APPROVE,), mention=("1",)))
    assert shown["components"] == [{"type": 10, "content": "Approved by Ann · May I?"}]
    assert shown["allowed_mentions"]["users"] == []


def test_answer_is_a_plain_message() -> None:
    """It can be copied, searched and quoted; its buttons hang below it."""
    shown = fields(Answer(markdown="**Done**", footer="3 steps", controls=(APPROVE,)))
    assert shown["content"] == "**Done**\n-# 3 steps"
    assert [one["type"] for one in shown["components"]] == [1]
    assert shown["flags"] == outbound.SUPPRESS_EMBEDS


def test_long_words_of_ours_are_a_card() -> None:
    """A list that is too long for a plain message is shown all the same, up to what a card holds."""
    shown = fields(Notice(text="x" * 3000, controls=(STOP,)))
    assert shown_in(shown) == "x" * 3000
    assert [one["type"] for one in shown["components"]] == [10, 1]
    assert "content" not in shown


TOO_MUCH = {
    "long answer": Answer(markdown="x" * 2001),
    "long notice": Notice(text="x" * 4001),
    "long verbatim": Verbatim(title="t", text="x" * 4000),
    "long approval": ApprovalCard(title="t", body="x" * 3000, lines=("y" * 900, "z" * 200)),
    "many buttons": Notice(text="x", controls=tuple(Control(label="b", token=f"t{n}") for n in range(26))),
    "one token twice": Notice(text="x", controls=(STOP, STOP)),
    "long token": Notice(text="x", controls=(Control(label="b", token="t" * 101),)),
    "no words": Notice(text=" \u200b "),
    "no person": ApprovalCard(title="t", mention=("ann",)),
    "empty file": Document(name="x", text=""),
    "large file": Document(name="x", text="x" * (10 * 1024 * 1024 + 1)),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_discord_would_refuse_is_refused_before_it_is_sent(name: str) -> None:
    """The error says what is too much; nothing is cut in silence."""
    with pytest.raises(Refused):
        outbound.message(TOO_MUCH[name])  # type: ignore[arg-type]


def test_both_limits_of_a_card_are_checked() -> None:
    """40 components and 4,000 characters are taken, over all that is nested; one more of either is not."""
    assert checked([text("x" * 100)] * MAX_COMPONENTS, "card")
    with pytest.raises(Refused, match="41 components"):
        checked([text("x")] * (MAX_COMPONENTS + 1), "card")
    with pytest.raises(Refused, match="4001 of at most 4000"):
        checked([{"type": 17, "components": [text("x" * 4000), text("y")]}], "card")


WORDS = st.text(max_size=400)


@settings(max_examples=60)
@given(WORDS, st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=3), WORDS, st.sampled_from(Phase))
def test_turn_card_fits_whatever_is_in_it(
    headline: str, steps: list[str], labels: list[str], footer: str, phase: Phase
) -> None:
    """Progress is never refused: its lines are cut, so that a card is always within the limits."""
    card = TurnCard(
        phase=phase,
        headline=headline,
        rows=tuple(Row(state=RowState.RUNNING, text=step) for step in steps),
        labels=tuple(labels),
        footer=footer,
        controls=(STOP,),
    )
    shown = fields(card)
    assert len(list(every(shown["components"]))) <= MAX_COMPONENTS
    assert sum(units_utf16(one) for one in texts_of(shown)) <= MAX_CARD_TEXT
    assert all(one.strip() for one in texts_of(shown))


def test_edits_into_what_is_no_message_are_refused() -> None:
    """Only words and cards can be edited into."""
    with pytest.raises(Refused, match="Private"):
        outbound.changed(Private(person="1", text="x"))


def test_nonce_is_short_and_the_delivery_s_own() -> None:
    """25 characters at most, the same for the same key, and in every message that is made."""
    assert outbound.nonce_of("a") == outbound.nonce_of("a") != outbound.nonce_of("b")
    assert len(outbound.nonce_of("x" * 500)) <= 25
    made = outbound.create("1", outbound.message(Notice(text="x")), "key")
    assert (made.body["nonce"], made.body["enforce_nonce"]) == (outbound.nonce_of("key"), True)


def test_name_of_a_thread_is_short_and_never_empty() -> None:
    """One line of at most 100 characters."""
    assert outbound.thread_name("look\n at   it") == "look at it"
    assert outbound.thread_name("  ") == "Conversation"
    assert len(outbound.thread_name("word " * 100)) <= 100


def test_buttons_stand_five_in_a_row() -> None:
    """Discord takes five."""
    some = [Control(label=str(n), token=f"t{n}") for n in range(7)]
    assert [len(row["components"]) for row in rows(some)] == [5, 2]


# ------------------------------------------------------------------------------------------------ recognising our own


def _history(view: Any, **more: Any) -> tuple[dict[str, Any], outbound.Request]:
    """A message as history has it after the view was sent, and the request that would send it again."""
    request = outbound.create("1", outbound.message(view), "key", reply_to="5")
    body = dict(request.body)
    attachments = [{"id": "9", "filename": one["filename"], "url": "x"} for one in body.get("attachments", [])]
    told = {"content": body.get("content", ""), "components": _numbered(body.get("components", []))}
    reference = {"message_reference": {"message_id": "5", "channel_id": "1"}}
    return {"author": {"id": "7"}, **told, "attachments": attachments, **reference, **more}, request


def _numbered(components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Discord numbers components."""
    return [{**one, "id": 1, "components": _numbered(one.get("components", []))} for one in components]


SENT = [
    Answer(markdown="*Done*"),
    Notice(text="x", controls=(STOP,)),
    TurnCard(phase=Phase.WORKING, headline="x", controls=(STOP,)),
    Document(name="a.txt", text="x"),
]


@pytest.mark.parametrize("view", SENT, ids=lambda view: type(view).__name__)
def test_message_of_ours_is_recognised(view: Any) -> None:
    """By nonce where it is told, else by words, buttons, files and what it answers; nobody else's, and no other one."""
    message, request = _history(view)
    assert is_the_same(message, request, "7")
    assert is_the_same({**message, "content": "changed", "nonce": outbound.nonce_of("key")}, request, "7")
    assert not is_the_same({**message, "nonce": outbound.nonce_of("other")}, request, "7")
    assert not is_the_same(message, request, "8")
    assert not is_the_same({**message, "message_reference": {"message_id": "6"}}, request, "7")
    assert not is_the_same({**message, "content": "other words"}, request, "7")


# ------------------------------------------------------------------------------------------------------- interactions


def test_words_in_answer_to_a_press_are_for_the_person_alone() -> None:
    """Ephemeral, escaped, nobody mentioned."""
    body = interactions.callback(interactions.PRESS, Text(text="**no** @everyone"))
    assert body["data"] == {"content": "\\*\\*no\\*\\* \\@everyone", "flags": 64, "allowed_mentions": {"parse": []}}


def test_command_is_never_left_without_an_answer() -> None:
    """A press can be acknowledged in silence, a command cannot."""
    assert interactions.callback(interactions.PRESS, None) == {"type": 6}
    assert interactions.callback(interactions.COMMAND, None)["type"] == 4


def test_form_offers_ready_answers_and_takes_words() -> None:
    """A radio group and a text; both may stay empty, and what comes back is read as it was meant."""
    form = Form(title="Why not? " * 9, label="Reason", token=TOKEN, presets=(("", "No reason"), ("a" * 200, "Long")))
    modal = interactions.callback(interactions.PRESS, form)["data"]
    radio, words = (one["component"] for one in modal["components"])
    assert len(modal["title"]) <= 45
    assert [one["value"] for one in radio["options"]] == ["=", "=" + "a" * 99]
    assert (radio["required"], words["required"]) == (False, False)
    filled = {"custom_id": modal["custom_id"], "components": [{"type": 18, "component": {**radio, "value": "="}}]}
    assert interactions.filled_in(filled) == (TOKEN, "")


def test_form_with_a_token_that_does_not_fit_is_refused() -> None:
    """100 characters, the prefix included."""
    with pytest.raises(Refused):
        interactions.callback(interactions.PRESS, Form(title="t", label="l", token="t" * 96))


def test_handle_survives_storage() -> None:
    """What is needed to answer can be read back; anything else is none of ours."""
    assert interactions.parts_of(interactions.handle(3, "12", "aW50:x-_=")) == (3, "12", "aW50:x-_=")
    assert interactions.parts_of("something else entirely, and long") is None


# ----------------------------------------------------------------------------------------------------------- commands


def test_menu_is_compared_by_what_is_ours() -> None:
    """What Discord adds does not count, what we change does."""
    menu = wanted({"help": "Help", "new": "n" * 300})
    there = [{**one, "id": "1", "version": "2", "dm_permission": True, "name_localizations": None} for one in menu]
    for one in there:
        one.setdefault("description", "")
    assert are_as(there[::-1], menu)
    assert not are_as(there, wanted({"help": "Other help", "new": "n" * 300}))
    assert not are_as(there[:-1], menu)
    assert all(len(one.get("description", "")) <= 100 for one in menu)


def test_part_of_an_answer_leaves_room_for_our_lines() -> None:
    """A part of the largest size fits with a mark for a repeat and a footer."""
    shown = fields(Answer(markdown="x" * 1700, footer="y" * 500, repeat=True))
    assert units_utf16(shown["content"]) <= MAX_TEXT
