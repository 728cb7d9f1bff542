"""Reading updates: never an error, whatever comes, and keys that neither drop something new nor miss a repeat."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import InboundKind, SenderKind, decode_inbound, encode_inbound
from adapters.telegram.inbound import ALLOWED_UPDATES, read
from adapters.telegram.words import Me, read_words

ME = Me(id=900, username="PilotBot")
ANN = {"id": 42, "is_bot": False, "first_name": "Ann"}
CHAT = {"id": -100123, "type": "supergroup", "title": "Team"}

NAMES = st.sampled_from(
    ["message", "edited_message", "callback_query", "message_reaction", "my_chat_member", "chat", "from", "id", "date",
     "text", "entities", "type", "offset", "length", "reply_to_message", "message_id", "message_thread_id", "photo",
     "is_topic_message", "forward_origin", "quote", "data", "new_reaction", "old_reaction", "reply_markup", "sticker",
     "inline_keyboard", "new_chat_member", "status", "user", "document", "file_id", "migrate_to_chat_id", "sender_chat",
     "stopped_message_generation", "draft_id", "caption", "caption_entities", "external_reply", "via_bot", "edit_date"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["bot_command", "mention", "private", "\ud83d"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from(ALLOWED_UPDATES), VALUES)
def test_no_payload_raises(update: dict[str, Any], kind: str, body: Any) -> None:
    """Whatever shape an update has, it gives one inbound with a key, which can be stored and read back."""
    inbound = read({"update_id": 1, kind: body, **update}, ME)
    assert inbound.keys
    assert all(inbound.keys)
    assert decode_inbound(encode_inbound(inbound)) == inbound


def message(**more: Any) -> dict[str, Any]:
    return {"message_id": 10, "from": ANN, "chat": CHAT, "date": 1796000000, "text": "x", **more}


def test_update_number_that_comes_again_does_not_drop_something_new() -> None:
    """After a week of silence the server draws a new number: the same one for another thing is another key."""
    first = read({"update_id": 7, "message_reaction": {"chat": CHAT, "message_id": 1, "user": ANN, "date": 1}}, ME)
    other = read({"update_id": 7, "message_reaction": {"chat": CHAT, "message_id": 1, "user": ANN, "date": 2}}, ME)
    assert not set(first.keys) & set(other.keys)


def test_message_under_another_update_number_is_the_same_message() -> None:
    """A message has one name for ever, whichever update brings it."""
    assert (
        read({"update_id": 7, "message": message()}, ME).keys == read({"update_id": 8, "message": message()}, ME).keys
    )


def test_two_edits_of_one_second_are_two_things() -> None:
    """Edits have no ids of their own; two that differ in anything have different keys."""
    edits = [
        read({"update_id": number, "edited_message": message(text=text, edit_date=5)}, ME)
        for number, text in ((7, "b"), (8, "c"))
    ]
    assert not set(edits[0].keys) & set(edits[1].keys)
    assert [edit.kind for edit in edits] == [InboundKind.EDIT] * 2


def test_redelivered_update_has_the_same_keys() -> None:
    """The server repeats an update byte for byte, and so are its keys, whatever the order of its fields."""
    update = {"update_id": 7, "my_chat_member": {"chat": CHAT, "from": ANN, "date": 1}}
    again = {"my_chat_member": {"date": 1, "from": ANN, "chat": CHAT}, "update_id": 7}
    assert read(update, ME).keys == read(json.loads(json.dumps(again)), ME).keys


def test_sender_without_a_word_on_being_a_bot_is_no_person() -> None:
    """Only a user of whom the server says that it is no bot is a person."""
    sender = read({"update_id": 1, "message": message(**{"from": {"id": 42, "first_name": "Ann"}})}, ME).sender
    assert sender.kind is SenderKind.BOT


SAID = {
    "@PilotBot do it": ("do it", None, "", True),
    "do it @pilotbot now": ("do it now", None, "", True),
    "@PilotBot, please": ("please", None, "", True),
    "👋🏽 @PILOTBOT: hi": ("👋🏽 : hi", None, "", True),
    "/run@PilotBot  a  b": ("/run  a  b", "run", "a  b", False),
    "/run": ("/run", "run", "", False),
    "/run\nlines\nof words": ("/run\nlines\nof words", "run", "lines\nof words", False),
    "/run@OtherBot a": ("/run@OtherBot a", None, "", False),
    "a\u00a0b": ("a b", None, "", False),
    "mail me@PilotBot.example": ("mail me@PilotBot.example", None, "", False),
}


def entities_of(text: str) -> list[dict[str, Any]]:
    """Entities as the server finds them, offsets in UTF-16 units."""
    found: list[dict[str, Any]] = []
    for kind, pattern in (("mention", r"(?<![\w@/])@\w+"), ("bot_command", r"(?<!\S)/\w+(@\w+)?")):
        for match in re.finditer(pattern, text):
            start, end = (len(text[:at].encode("utf-16-le")) // 2 for at in match.span())
            found.append({"type": kind, "offset": start, "length": end - start})
    return found


@pytest.mark.parametrize("text", SAID)
def test_words_are_read_as_they_are_meant(text: str) -> None:
    """Our name goes from the text, commands are told apart, commands of other bots are left alone."""
    words = read_words(text, entities_of(text), ME)
    assert (words.text, words.command, words.arguments, words.mentions_us) == SAID[text]


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(-3, 60), st.integers(-3, 60)), max_size=4))
def test_entities_beyond_the_text_do_no_harm(text: str, spans: list[tuple[int, int]]) -> None:
    """Ranges that do not fit the text, as of a broken server, raise nothing."""
    entities = [{"type": "mention", "offset": offset, "length": length} for offset, length in spans]
    assert read_words(text, [*entities, {"type": "bot_command", "offset": 0, "length": 99}], ME) is not None
