"""The chat of a trial: what a person sees, and which number presses what."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.trial.chat import Alert, Button, Change, Chat, Message, Note
from gateway.trial.screen import rendered

ME, BOT = 7, 99
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def body(number: int, text: str, *buttons: tuple[str, str], sender: int = BOT, **more: Any) -> dict[str, Any]:
    """A message as the Bot API has it; every button is in a row of its own."""
    keyboard = [[{"text": label, "callback_data": data}] for label, data in buttons]
    markup = {"reply_markup": {"inline_keyboard": keyboard}} if buttons else {}
    return {"message": {"message_id": number, "date": 0, "text": text, "from": {"id": sender}} | markup | more}


@pytest.fixture
def chat() -> Chat:
    """A chat in which nothing was said."""
    return Chat(ME)


def labels(chat: Chat) -> dict[int, str]:
    """The buttons by number."""
    return {number: button.label for number, (_, button) in chat.buttons.items()}


def test_numbers_stay_with_their_buttons(chat: Chat) -> None:
    """An edit that adds or removes buttons moves no number: who types what he read presses what he meant."""
    chat.apply("message", body(1, "card", ("Stop", "x")))
    chat.apply("message", body(2, "approval", ("Approve", "y"), ("Deny", "n")))
    assert labels(chat) == {1: "Stop", 2: "Approve", 3: "Deny"}
    chat.apply("edit", body(2, "approval", ("Deny", "n"), ("Really approve", "z")))
    assert labels(chat) == {1: "Stop", 3: "Deny", 4: "Really approve"}
    chat.apply("edit", body(1, "done"))
    assert labels(chat) == {3: "Deny", 4: "Really approve"}


def test_numbers_begin_again_when_no_button_is_left(chat: Chat) -> None:
    """Numbers stay small: once nothing can be pressed, the next button is 1."""
    chat.apply("message", body(1, "card", ("Stop", "x")))
    chat.apply("edit", body(1, "done"))
    chat.apply("message", body(2, "approval", ("Approve", "y")))
    assert labels(chat) == {1: "Approve"}


def test_message_that_is_deleted_takes_its_buttons_along(chat: Chat) -> None:
    """A deleted message is gone from the chat and cannot be pressed."""
    chat.apply("message", body(1, "card", ("Stop", "x")))
    change = chat.apply("delete", {"message_id": 1})
    assert isinstance(change, Change)
    assert (change.kind, labels(chat), chat.messages) == ("gone", {}, [])


@pytest.mark.parametrize(
    ("before", "after", "matters"),
    [
        (body(1, "Working · 0:03"), body(1, "Working · 0:04"), False),
        (body(1, "Working · 59 s, 1,204 tokens"), body(1, "Working · 1:00 s, 1,310 tokens"), False),
        (body(1, "Working · 0:03"), body(1, "Done · 0:03"), True),
        (body(1, "Working"), body(1, "Working\n▸ write_file todo.txt"), True),
        (body(1, "Working", ("Stop", "x")), body(1, "Working"), True),
        (body(1, "Working", ("Stop", "x")), body(1, "Working", ("Stop", "y")), False),
    ],
)
def test_only_edits_of_substance_matter(chat: Chat, before: Any, after: Any, matters: bool) -> None:
    """Counting seconds is not worth a line; other words or other buttons are."""
    chat.apply("message", before)
    change = chat.apply("edit", after)
    assert isinstance(change, Change)
    assert change.matters is matters


def test_what_is_shown_besides_messages(chat: Chat) -> None:
    """Answers to presses are alerts and the bot's reactions stand at the message; own and empty ones do not."""
    chat.apply("message", body(1, "hello", sender=ME))
    assert chat.apply("callback_answer", {"text": "Already approved."}) == Alert(text="Already approved.")
    assert chat.apply("callback_answer", {"text": ""}) is None
    chat.apply("reaction", {"message_id": 1, "user_id": BOT, "reaction": [{"type": "emoji", "emoji": "👀"}]})
    assert chat.messages[0].reaction == "👀"
    assert chat.apply("reaction", {"message_id": 1, "user_id": ME, "reaction": []}) is None
    assert chat.apply("edit", body(5, "never seen")) is None
    assert chat.apply("action", {"action": "typing"}) is None


def test_reply_names_what_it_answers(chat: Chat) -> None:
    """The first line of the message that is answered is shown, cut where it is long."""
    chat.apply("message", body(2, "yes", reply_to_message={"text": "is it so?\nreally"}))
    assert chat.messages[0].quotes == "is it so?…"


def plain(lines: list[str]) -> list[str]:
    """Without colours and trailing blanks."""
    return [ANSI.sub("", line).rstrip() for line in lines]


def test_rendering_of_a_message() -> None:
    """Head, text behind a bar, buttons with their numbers."""
    message = Message(
        id=1,
        mine=False,
        at=0,
        text="Approval needed\nwrite_file todo.txt",
        entities=[{"type": "bold", "offset": 0, "length": 15}],
        buttons=(
            Button(number=1, label="Approve", data="y", style="success"),
            Button(number=2, label="Deny", data="n"),
        ),
        edited=True,
        quotes="note it",
    )
    head, *rest = plain(rendered(message, 60))
    assert head.startswith("pilothouse  ")
    assert head.endswith("edited  ↪ note it")
    assert rest == [
        "▌ Approval needed",
        "▌ write_file todo.txt",
        "",
        "▌  1  Approve    2  Deny",
        "",
    ]


def test_entities_are_placed_by_utf16() -> None:
    """An emoji before a bold word counts two units, and the word is still the bold one."""
    entity = {"type": "bold", "offset": 3, "length": 4}
    message = Message(id=1, mine=True, at=0, text="👍 bold plain", entities=[entity])
    assert "\x1b[1mbold\x1b[0m" in rendered(message, 60)[1]


@given(st.text(max_size=200), st.integers(12, 120))
def test_no_text_breaks_the_screen(text: str, width: int) -> None:
    """Whatever is written, no line is wider than the screen and no control character is obeyed."""
    for item in (Message(id=1, mine=True, at=0, text=text), Note(text=text)):
        for line in rendered(item, width):
            bare = ANSI.sub("", line)
            assert "\x1b" not in bare
            assert bare.replace("\n", "").isprintable()
            assert len(bare) <= width


def test_line_to_copy_is_broken_at_the_edge_only() -> None:
    """A command has its own lines from the first column on, and comes back whole when they are joined."""
    command = "/a/rather/long path/pilothouse run --config '/another place/pilothouse.toml'"
    lines = plain(rendered(Note(text=command, whole=True), 30))
    assert [len(line) for line in lines] == [30, 30, len(command) - 60, 0]
    assert "".join(lines) == command
