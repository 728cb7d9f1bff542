"""Views as requests of the Bot API, compared whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Document,
    Form,
    Inbound,
    InboundKind,
    MessageRef,
    Notice,
    Phase,
    Place,
    Private,
    Reaction,
    Row,
    RowState,
    Sender,
    SenderKind,
    Stream,
    Style,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
)
from adapters.errors import Refused
from adapters.markdown import units_utf16
from adapters.telegram import outbound
from adapters.telegram.forms import preset_data, question
from adapters.telegram.markup import MESSAGE_UNITS, PART_UNITS, TelegramMarkup
from adapters.telegram.outbound import Request
from adapters.telegram.texts import shown
from adapters.telegram.words import Me

PLACE = Place(platform="telegram", account="900", chat="-100123", thread="77")
REF = MessageRef(platform="telegram", account="900", chat="-100123", id="5", thread="77")
TOKEN = "apv:" + 22 * "A" + ":y"
NO_PREVIEW = {"is_disabled": True}
ROWS = tuple(Row(state=state, text=f"step {number}") for number, state in enumerate([*RowState, *RowState][:7]))


def fields(view: View) -> dict[str, Any]:
    return outbound.send(PLACE, view).fields


def test_card_of_a_running_turn() -> None:
    """Silent; head, labels, at most five rows with their signs, what is left out, queue and footer; a Stop button."""
    stop = Control(label="Stop", token=TOKEN, style=Style.DANGER)
    card = TurnCard(
        phase=Phase.WORKING, headline="fix the test", rows=ROWS, earlier_rows=2, queue=1, labels=("home", "telegram"),
        footer="6 tools", controls=(stop,),
    )  # fmt: skip
    text = (
        "▸ Working · fix the test\nhome · telegram\n+4 earlier\n✖ step 2\n– step 3\n▢ step 4\n↪ step 5\n▸ step 6\n"
        "Queue: 1 · 6 tools"
    )
    button = {"text": "Stop", "callback_data": TOKEN, "style": "danger"}
    assert outbound.send(PLACE, card) == Request(
        method="sendMessage",
        fields={
            "chat_id": -100123,
            "message_thread_id": 77,
            "text": text,
            "link_preview_options": NO_PREVIEW,
            "reply_markup": {"inline_keyboard": [[button]]},
            "disable_notification": True,
        },
    )


def test_phase_is_not_told_twice() -> None:
    """A headline that begins with the phase is enough."""
    card = TurnCard(phase=Phase.WAITING, headline="Waiting for approval · 0:42")
    assert fields(card)["text"] == "🔐 Waiting for approval · 0:42"


def test_card_of_a_turn_that_is_over_is_one_line() -> None:
    """The queue goes; what remains says how it ended, with the rows that still tell something, as those of a loop."""
    card = TurnCard(phase=Phase.DONE, headline="fixed", queue=3, labels=("Home", "Telegram"), footer="1:12")
    assert fields(card)["text"] == "☑ Done · fixed · Home · Telegram · 1:12"
    lines = tuple(Row(state=RowState.DONE, text=f"{n}: tests pass") for n in range(1, 8))
    loop = TurnCard(phase=Phase.DONE, headline="7 of 7 iterations", rows=lines, earlier_rows=3)
    assert fields(loop)["text"].splitlines() == [
        "☑ Done · 7 of 7 iterations",
        "+5 earlier",
        *(f"☑ {n}: tests pass" for n in range(3, 8)),
    ]


@given(
    st.lists(st.builds(Row, state=st.sampled_from(RowState), text=st.text(max_size=9000)), max_size=9),
    st.text(max_size=9000),
)
def test_card_fits_whatever_is_in_it(rows: list[Row], words: str) -> None:
    """A card only tells how things go: its lines are cut, so that it is always one message."""
    for phase in Phase:
        card = TurnCard(phase=phase, headline=words, rows=tuple(rows), labels=(words,), footer=words)
        assert shown(card).units <= MESSAGE_UNITS


def test_approval_shows_the_action_in_a_block() -> None:
    """Title first and a line of ours last; the action is one `pre` entity; approvers are named by id, and notified."""
    card = ApprovalCard(
        title="May I run this?", lines=("asked by Ann",), body="rm -rf `x`\n</pre>", warning="1 hidden character",
        controls=(Control(label="Approve", token=TOKEN, style=Style.PRIMARY), Control(label="Details", token=TOKEN)),
        mention=("42", "43"),
    )  # fmt: skip
    request = outbound.send(PLACE, card)
    text = "🔐 May I run this?\nasked by Ann\nrm -rf `x`\n</pre>\n⚠ 1 hidden character\n🔔🔔"
    assert request.fields["text"] == text
    kinds = [(one["type"], one.get("user", {}).get("id")) for one in request.fields["entities"]]
    assert kinds == [("bold", None), ("pre", None), ("text_mention", 42), ("text_mention", 43)]
    assert "disable_notification" not in request.fields
    styles = [button.get("style") for button in request.fields["reply_markup"]["inline_keyboard"][0]]
    assert styles == ["success", None]


def test_nobody_is_named_who_is_alone_with_us() -> None:
    """In a private chat the message notifies by itself."""
    own = Place(platform="telegram", account="900", chat="42")
    sent = outbound.send(own, ApprovalCard(title="May I?", body="x", mention=("42",)))
    assert sent.fields["text"].endswith("x\n(end of the quoted text)")


def test_decided_approval_is_one_line_without_buttons() -> None:
    """With an outcome, neither action nor buttons are left."""
    card = ApprovalCard(
        title="May I?", body="rm x", outcome="Denied by Ann", controls=(Control(label="x", token=TOKEN),)
    )
    assert outbound.edit(REF, card).fields == {
        "chat_id": -100123,
        "message_id": 5,
        "text": "Denied by Ann · May I?",
        "link_preview_options": NO_PREVIEW,
    }


def test_answer_is_text_and_entities_in_reply() -> None:
    """Markdown as entities, never a parse mode; an answer to the asking message, which may be gone by now."""
    answer = Answer(markdown="**done** in `x`", reply_to=REF, footer="3 steps", repeat=True)
    assert fields(answer) == {
        "chat_id": -100123,
        "message_thread_id": 77,
        "text": "(sent again: it may be here twice)\ndone in x\n\n3 steps",
        "entities": [
            {"type": "bold", "offset": 35, "length": 4},
            {"type": "code", "offset": 43, "length": 1},
            {"type": "italic", "offset": 46, "length": 7},
        ],
        "link_preview_options": NO_PREVIEW,
        "reply_parameters": {"message_id": 5, "allow_sending_without_reply": True},
    }


def test_reply_into_another_chat_is_left_out() -> None:
    """After a group has moved, the old message has no number in the new one."""
    old = MessageRef(platform="telegram", account="900", chat="-5", id="5")
    assert "reply_parameters" not in fields(Answer(markdown="x", reply_to=old))


def test_silence_is_asked_for_where_nobody_has_to_look() -> None:
    """Cards, parts of an action and quiet notices make no sound; answers and requests do."""
    quiet: list[View] = [Verbatim(title="x", text="y"), Notice(text="x"), Answer(markdown="x", notify=False)]
    loud: list[View] = [ApprovalCard(title="x"), Notice(text="x", notify=True), Answer(markdown="x")]
    assert [fields(view).get("disable_notification") for view in [*quiet, *loud]] == [True] * 3 + [None] * 3


@given(st.text(min_size=1, max_size=5000))
def test_parts_of_an_answer_leave_room_for_our_lines(text: str) -> None:
    """Every part can be sent with a mark of repetition and a footer of the longest kind."""
    for part in TelegramMarkup().split(text):
        answer = Answer(markdown=part, footer="f" * 9000, repeat=True)
        assert units_utf16(fields(answer)["text"]) <= MESSAGE_UNITS


def test_answer_that_was_not_cut_is_refused_and_not_cut_off() -> None:
    """Too long for one message is an error that says what to do; nothing is left out silently."""
    with pytest.raises(Refused, match="cut it"):
        fields(Answer(markdown="word " * PART_UNITS))


@pytest.mark.parametrize("view", [Answer(markdown=" \n"), Notice(text="\u200b"), Answer(markdown="```\n```")])
def test_nothing_to_see_is_refused(view: View) -> None:
    """What the server would refuse as empty is not sent."""
    with pytest.raises(Refused, match="nothing in it"):
        fields(view)


def test_document_reaction_and_typing() -> None:
    """The smaller views, whole."""
    document = outbound.send(PLACE, Document(name="a.md", text="é", caption="for @bob", reply_to=REF))
    assert document.method == "sendDocument"
    assert document.file == outbound.Upload(parameter="document", name="a.md", content="é".encode())
    assert document.fields["caption_entities"] == [{"type": "code", "offset": 4, "length": 4}]
    reaction = outbound.send(PLACE, Reaction(ref=REF, mark="queued"))
    wanted = {"chat_id": -100123, "message_id": 5, "reaction": [{"type": "emoji", "emoji": "✍"}]}
    assert (reaction.method, reaction.fields) == ("setMessageReaction", wanted)
    assert outbound.send(PLACE, Reaction(ref=REF, mark="none")).fields["reaction"] == []
    assert fields(Typing()) == {"chat_id": -100123, "message_thread_id": 77, "action": "typing"}


def test_words_for_one_person_go_to_his_own_chat_only() -> None:
    """In a group nobody can be told anything privately."""
    own = Place(platform="telegram", account="900", chat="42")
    assert outbound.send(own, Private(person="42", text="x")).fields["chat_id"] == 42
    with pytest.raises(Refused):
        outbound.send(PLACE, Private(person="42", text="x"))


@pytest.mark.parametrize("view", [Stream(stream_id="s", markdown="x"), ThreadStatus(state="active")])
def test_what_capabilities_deny_is_refused(view: View) -> None:
    """Views that this adapter does not offer are refused, not swallowed."""
    with pytest.raises(Refused):
        outbound.send(PLACE, view)


@pytest.mark.parametrize("place", [Place(platform="telegram", account="900", chat="@channel")])
def test_ids_are_numbers(place: Place) -> None:
    """A name that anybody could take is not an id."""
    with pytest.raises(Refused, match="whole numbers"):
        outbound.send(place, Notice(text="x"))


@pytest.mark.parametrize("token", ["", "x" * 65, "é" * 33])
def test_token_must_fit_into_a_button(token: str) -> None:
    """A button carries 1 to 64 bytes; anything else is refused before it is sent."""
    with pytest.raises(Refused, match="64 bytes"):
        outbound.keyboard([Control(label="x", token=token)])


def test_plain_text_is_the_last_resort() -> None:
    """If the server cannot read our entities, the same words go without any, and mention nobody."""
    answer = Answer(markdown="**done** @alice", reply_to=REF)
    request = outbound.send(PLACE, answer)
    simple = outbound.plain(request, answer)
    assert simple is not None
    assert "entities" not in simple.fields
    assert simple.fields["text"] == "**done** @\u2060alice"
    assert simple.fields["reply_parameters"] == request.fields["reply_parameters"]
    assert outbound.plain(outbound.send(PLACE, Notice(text="x")), Notice(text="x")) is None


PRESS = Inbound(
    kind=InboundKind.PRESS,
    keys=("press:1",),
    place=PLACE,
    sender=Sender(kind=SenderKind.PERSON, id="42", name="Ann"),
    chat_kind="group",
    ref=REF,
    token=TOKEN,
    handle="1",
)


ME = Me(id=900, username="PilotBot")
PRESETS = (("", "No reason"), ("Too risky", "Too risky"))


def test_question_carries_its_token_and_names_the_presser() -> None:
    """Ready answers as buttons, the token in a link; in a group no app opens an answer by itself."""
    fields = question(PRESS, Form(title="Why not?", label="Reason", token=TOKEN, presets=PRESETS), ME).fields
    assert fields["text"] == "Ann: Why not?\nReason\nChoose, or answer this message."
    buttons = [
        {"text": "No reason", "callback_data": f"form:{TOKEN}-"},
        {"text": "Too risky", "callback_data": f"form:{TOKEN}=Too risky"},
    ]
    assert fields["reply_markup"] == {"inline_keyboard": [buttons]}
    mention, link = fields["entities"]
    assert mention["user"]["id"] == 42
    assert link["url"] == "https://t.me/PilotBot?form=apv%3AAAAAAAAAAAAAAAAAAAAAAA%3Ay"


def test_answer_is_opened_where_nobody_else_is_bothered() -> None:
    """In a private chat always; in a group for the presser alone, which works without buttons only."""
    alone = replace(PRESS, chat_kind="private")
    with_buttons = Form(title="Why not?", label="Reason", token=TOKEN, presets=PRESETS)
    without = Form(title="Why not?", label="Reason", token=TOKEN)
    assert question(alone, with_buttons, ME).fields["reply_markup"]["force_reply"] is True
    selective = {"force_reply": True, "selective": True, "input_field_placeholder": "Reason"}
    assert question(replace(PRESS, chat_kind="group"), without, ME).fields["reply_markup"] == selective


def test_long_ready_answer_is_taken_from_its_button() -> None:
    """What does not fit into a button is its label, or refused."""
    long = "a reason of very many words that goes on"
    assert preset_data(TOKEN, long, long) == f"form:{TOKEN}="
    with pytest.raises(Refused):
        preset_data(TOKEN, long, "other")
