"""S-17: nothing of an action is hidden by its length; without all of it there are no buttons."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import ApprovalCard, Capabilities, Verbatim, View
from adapters.errors import Refused
from gateway.views.action import Entry, action_text, entries, read_action
from gateway.views.approval import Ask, TooLong, approval_parts
from runtime.protocol import events
from runtime.protocol.approvals import Action
from tests.support.delivering import FAST, Bench, PlainMarkup, action, bench, controls_of, is_open_card, pending

TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=80)
TRICKY = st.text(alphabet=st.sampled_from('a:= "\\\n{}⏎␠ \u200b'), max_size=40)
NAMES = TEXT | TRICKY
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TRICKY, lambda inner: st.lists(inner), max_leaves=5)
ACTIONS = st.builds(
    action,
    tool=NAMES,
    arguments=st.dictionaries(NAMES, TEXT | TRICKY | JSON, max_size=4),
    argv=st.lists(TRICKY, max_size=3).map(tuple),
    cwd=st.none() | TRICKY,
    environment=st.dictionaries(NAMES, TRICKY, max_size=2),
    files=st.dictionaries(NAMES, st.just("ab12"), max_size=2),
)


def parts_of(*actions: Action, limit: int = 4000, capabilities: Capabilities = FAST) -> Any:
    return approval_parts(pending(*actions), Ask(), "A" * 22, 0, PlainMarkup(limit), capabilities)


def shown_text(parts: tuple[View, ...]) -> str:
    """The action as a person reads it, all messages together."""
    *verbatim, card = parts
    assert isinstance(card, ApprovalCard)
    return "".join(part.text for part in verbatim if isinstance(part, Verbatim)) + card.body


@given(st.lists(ACTIONS, min_size=1, max_size=3))
def test_every_value_can_be_read_back(actions: list[Action]) -> None:
    """The text of an action names exactly that action, whatever its values try to look like."""
    assert read_action(action_text(actions)) == [list(entries(each)) for each in actions]


@pytest.mark.parametrize("length", [1, 2, 79, 600, 1199, 1200, 1201, 3999, 4000, 4001, 10_000, 14_000])
def test_every_byte_is_in_the_messages(length: int) -> None:
    """For each length, what is shown decodes to the very command; buttons are on the last message only."""
    command = ("echo \u202eabc; rm -rf x\n\\" * (length // 10 + 1))[:length]
    parts = parts_of(action(arguments={"command": command}))
    [read] = read_action(shown_text(parts))
    assert Entry("argument", "command", command) in read
    assert [bool(controls_of(part)) for part in parts] == [False] * (len(parts) - 1) + [True]


@given(st.integers(min_value=1, max_value=16_000))
def test_any_length_is_whole(length: int) -> None:
    """No length is special."""
    command = "x" * length
    [read] = read_action(shown_text(parts_of(action(arguments={"command": command}), limit=1900)))
    assert Entry("argument", "command", command) in read


@pytest.mark.parametrize("length", [16 * 1024 + 1, 20_000])
def test_what_nobody_can_read_is_not_asked(length: int) -> None:
    """Above 16 KiB the request is refused, and the model is told what to do instead."""
    refused = parts_of(action(arguments={"command": "x" * length}))
    assert isinstance(refused, TooLong)
    assert "script file" in refused.reason


def test_the_card_repeats_the_digest_of_what_stands_above() -> None:
    """A person can tell that parts and buttons belong together."""
    *parts, card = parts_of(action(arguments={"command": "x" * 5000}))
    digest = action(arguments={"command": "x" * 5000}).digest()[:16]
    assert all(digest in part.title for part in parts)
    assert any(digest in line for line in card.lines)


def test_padding_does_not_push_a_command_out_of_sight() -> None:
    """240 blanks and a second command: the second one is next to the first."""
    [read] = parts_of(action(arguments={"command": "ls" + " " * 2000 + "&& curl evil.test"}))
    assert "ls␠×2000&& curl evil.test" in read.body


def test_hidden_characters_and_foreign_hosts_are_pointed_out() -> None:
    """The card warns in words of ours; a host that looks like another one also stands there as it is resolved."""
    [card] = parts_of(action(arguments={"command": "curl https://ex\u0430mple.com/\u200bx"}))
    assert "⚠ contains 1 hidden character" in card.warning
    assert "xn--exmple-4nf.com" in card.warning


def test_a_value_cannot_look_like_a_line_of_ours() -> None:
    """A second line of a value is set further in than anything that we say."""
    [card] = parts_of(action(arguments={"command": "ls\nnetwork: none\nsandbox: strict"}, network="host"))
    lines = card.body.split("\n")
    assert [line for line in lines if line.startswith("network:")] == ["network: host"]
    assert "    network: none⏎" in lines


def test_a_line_end_at_the_end_is_its_sign_alone() -> None:
    """No empty line follows it, in which one would look for more; several of them are all there."""
    [card] = parts_of(action(arguments={"command": "ls\n\n", "then": "pwd\n"}))
    lines = card.body.split("\n")
    assert lines[1:4] == ["argument command: ls⏎", "    ⏎", "argument then: pwd⏎"]
    [read] = read_action(card.body)
    assert [entry.text for entry in read[1:3]] == ["ls\n\n", "pwd\n"]


def test_several_calls_are_told_in_short_first() -> None:
    """One line each, above all else; the label of the workspace is left out where the actions name it themselves."""
    ask = Ask(labels=("Workspace: W", "From: cli"), summaries=("a.txt", "b.txt\u200b"))
    asked = pending(*(action(tool="write_file", arguments={"path": n}) for n in "ab"), reason="policy")
    [card] = approval_parts(asked, ask, "A" * 22, 0, PlainMarkup(), FAST)  # type: ignore[misc]
    assert card.title == "Approval needed · write_file a.txt, write_file b.txt\\u{200B}"
    assert card.lines[:4] == (
        "2 actions, decided together", "1. write_file a.txt", "2. write_file b.txt\\u{200B}", "From: cli",
    )  # fmt: skip
    assert not [line for line in card.lines if "policy" in line]
    elsewhere = pending(replace(action(), workspace_id="shop"))
    [other] = approval_parts(elsewhere, ask, "A" * 22, 0, PlainMarkup(), FAST)  # type: ignore[misc]
    assert "Workspace: W" in other.lines


def test_high_risk_is_never_allowed_for_the_session() -> None:
    """No such button, and the approval asks once more where the platform can."""
    [card] = approval_parts(pending(high_risk=True), Ask(), "A" * 22, 0, PlainMarkup(), FAST)  # type: ignore[misc]
    assert controls_of(card) == ["Approve", "Deny", "Details"]
    assert card.controls[0].confirm


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """Delivery that runs."""
    async with bench(tmp_path) as made:
        yield made


async def test_part_two_of_three_fails_so_there_are_no_buttons(on: Bench) -> None:
    """A part that cannot be shown closes the request: nothing with buttons is sent."""
    on.adapter.markup.limit = 1000
    asked = pending(action(arguments={"command": "x" * 2500}))

    def refuse_second(view: View) -> Exception | None:
        return Refused("no") if isinstance(view, Verbatim) and "part 2 of 3" in view.title else None

    on.adapter.fail_when = refuse_second
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=asked.calls)
    await on.happen(events.TurnStarted(turn_id="t1"), requested, pending=asked)
    await on.rest()
    assert not [view for view in on.adapter.sent() if is_open_card(view)]
    assert [(session, request) for session, request, _ in on.undeliverable] == [("s", "r1")]


async def test_an_action_that_is_too_long_closes_its_request(on: Bench) -> None:
    """Nobody is asked, the chat is told, and the model gets the reason."""
    asked = pending(action(arguments={"command": "x" * 20_000}))
    requested = events.ApprovalRequested(request_id="r1", turn_id="t1", calls=asked.calls)
    await on.happen(events.TurnStarted(turn_id="t1"), requested, pending=asked)
    await on.rest()
    assert not on.adapter.sent(ApprovalCard)
    [(_, request, reason)] = on.undeliverable
    assert request == "r1"
    assert "script file" in reason


def test_what_only_looks_like_a_token_is_shown() -> None:
    """Code cannot hide on the card by taking the shape of a bot's token; only registered secrets are masked."""
    disguised = "bot1:" + "exec(open('hidden.py').read())#####"
    assert disguised in action_text([action(arguments={"command": disguised})])
