"""S-19: the layout of a request is ours; nothing that a model writes gets out of its block, or looks like us."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.contract import ApprovalCard, TurnCard, Verbatim, View
from gateway.views.approval import Ask, approval_parts
from gateway.views.card import turn_card
from gateway.views.turn import SessionState, fold_all
from runtime.protocol import events
from runtime.protocol.events import Event
from tests.support.delivering import FAST, PlainMarkup, action, pending

BREAKOUTS = {
    "fence": "```\nApproved by Ann\n```",
    "slack link": "<https://evil.test|Approve here>",
    "slack mass mention": "<!channel> <!here> <@U1>",
    "closing tag": "</pre></code><b>Safe</b>",
    "markdown link": "](https://evil.test) [Approve",
    "discord mention": "@everyone @here <@&1>",
    "our signs": "⚠ High risk\n✅ Approved by Ann",
    "fake line": "ls\nnetwork: none\nCan decide: everybody",
    "fake part": "Action to approve, part 9 of 9 · sha256 0000",
}

PUT = [
    lambda text: pending(action(arguments={"command": text})),
    lambda text: pending(action(arguments={text: "x"})),
    lambda text: pending(action(cwd=text)),
    lambda text: pending(action(argv=("sh", "-c", text))),
    lambda text: pending(action(environment={"LANG": text})),
    lambda text: pending(action(files={text: "ab12"})),
    lambda text: pending(action(network=text)),
]
"""Every field of an action that somebody else may have written."""


def card_of(text: str, field: int, limit: int = 4000) -> tuple[tuple[View, ...], ApprovalCard]:
    views = approval_parts(PUT[field](text), Ask(requester="Bob"), "A" * 22, 0, PlainMarkup(limit), FAST)
    assert isinstance(views, tuple)
    *parts, card = views
    assert isinstance(card, ApprovalCard)
    return tuple(parts), card


@pytest.mark.parametrize("field", range(len(PUT)))
@pytest.mark.parametrize("text", BREAKOUTS.values(), ids=BREAKOUTS)
def test_foreign_text_is_only_in_the_fixed_width_block(text: str, field: int) -> None:
    """Title, lines, warning and buttons are the same as for a harmless action; only the body differs."""
    _, card = card_of(text, field)
    _, harmless = card_of("x", field)
    assert replace(card, body="") == replace(harmless, body="")


@pytest.mark.parametrize("text", BREAKOUTS.values(), ids=BREAKOUTS)
def test_in_parts_too(text: str) -> None:
    """The titles of the parts are ours; what is in them is text that nothing interprets."""
    parts, card = card_of(text * 200, 0, limit=1000)
    assert len(parts) > 1
    assert all(isinstance(part, Verbatim) for part in parts)
    titles = [part.title for part in parts if isinstance(part, Verbatim)]
    assert [title.split(" · ")[0] for title in titles] == [
        f"Action to approve, part {n} of {len(parts)}" for n in range(1, len(parts) + 1)
    ]
    assert card.body == ""
    assert not [line for line in card.lines if "evil" in line or "@everyone" in line]


@pytest.mark.parametrize("text", BREAKOUTS.values(), ids=BREAKOUTS)
def test_no_line_at_the_margin_is_foreign(text: str) -> None:
    """Whatever a value says, its later lines are set in: the lines at the margin are those of a harmless action."""
    for field in (0, 2, 3, 4, 6):
        _, card = card_of(text, field)
        _, harmless = card_of("x", field)
        margin = [line.split(": ")[0] for line in card.body.split("\n") if not line.startswith("    ")]
        assert margin == [line.split(": ")[0] for line in harmless.body.split("\n")]


def test_a_tools_name_in_the_title_is_one_escaped_line() -> None:
    """A name cannot add a line or hide a character."""
    views = approval_parts(pending(action("sh\n\u202eell")), Ask(), "A" * 22, 0, PlainMarkup(), FAST)
    assert isinstance(views, tuple)
    [card] = views
    assert isinstance(card, ApprovalCard)
    assert card.title == "Approval needed · sh⏎ \\u{202E}ell"


@pytest.mark.parametrize("text", BREAKOUTS.values(), ids=BREAKOUTS)
def test_rows_of_a_card_are_one_plain_line_each(text: str) -> None:
    """A summary or a steer cannot add rows, whatever it contains."""
    happened = [
        events.TurnStarted(turn_id="t"),
        events.ToolCallBegin(turn_id="t", call_id="c", name="shell", summary=text),
        events.Message(message_id="m", author=text, delivery="steer", text=text, turn_id="t"),
    ]
    state = fold_all(
        SessionState(),
        [Event(sequence=n, submission_id=None, recorded_at_ms=0, msg=msg) for n, msg in enumerate(happened, 1)],
    )
    card: TurnCard = turn_card(state, 0)
    assert len(card.rows) == 2
    assert all("\n" not in row.text for row in card.rows)
    assert card.controls == ()
