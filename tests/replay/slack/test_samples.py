"""Each recorded payload gives the inbound that stands beside it, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import adapters.slack
from adapters.contract import InboundKind, SenderKind, decode_inbound, encode_inbound
from adapters.slack.identity import Me
from adapters.slack.inbound import read

SAMPLES = sorted((Path(adapters.slack.__file__).parent / "samples").glob("*.json"))
EXPECTED = Path(__file__).parent / "expected"
ME = Me(app="A1", team="T1", user="UBOT", bot="B1", name="pilot")


def payload_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))["payload"]


def sample(name: str) -> dict[str, Any]:
    return payload_of(next(path for path in SAMPLES if path.stem == name))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_read_as_expected(path: Path) -> None:
    """The whole inbound is compared, so that no field changes unseen; it is the same after it was stored."""
    inbound = read(payload_of(path), ME)
    expected = json.loads((EXPECTED / path.name).read_text(encoding="utf-8"))
    assert json.loads(encode_inbound(inbound)) == expected
    assert decode_inbound(encode_inbound(inbound)) == inbound


def test_every_sample_tells_its_origin_and_every_expectation_has_a_sample() -> None:
    """No payload is of unknown origin, and no expectation is left over."""
    assert all(json.loads(path.read_text(encoding="utf-8"))["origin"] for path in SAMPLES)
    assert {path.name for path in EXPECTED.glob("*.json")} == {path.name for path in SAMPLES}


def test_a_mention_is_one_thing_although_it_comes_twice() -> None:
    """`app_mention` and `message` of one mention differ in their event's key, and share the one of the message."""
    first, second = read(sample("mention_first"), ME), read(sample("mention_second"), ME)
    assert set(first.keys) & set(second.keys) == {"message:T1:C1:1796000010.000100"}
    assert (first.kind, first.text, first.place, first.addressed) == (
        second.kind, second.text, second.place, second.addressed,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["other_bot", "bot_user", "our_own", "slackbot", "edited_by_us", "stranger"])
def test_who_is_not_one_of_our_people_is_not_taken_for_one(name: str) -> None:
    """Bots, Slackbot, ourselves and people of other workspaces are never a PERSON (S-04, S-02)."""
    assert read(sample(name), ME).sender.kind is not SenderKind.PERSON


@pytest.mark.parametrize(
    "name", ["joined_notice", "edited_by_preview", "home_opened", "form_of_another", "menu_chosen"]
)
def test_notices_of_slack_are_nobodys_words(name: str) -> None:
    """Subtypes are an allow-list, a preview is no edit, and what is no control of ours is no press."""
    assert read(sample(name), ME).kind is InboundKind.OTHER


def test_shared_words_are_data() -> None:
    """What somebody shares is quoted, not said."""
    inbound = read(sample("shared_message"), ME)
    assert (inbound.text, inbound.forwarded) == ("", True)
    assert [(quote.source, quote.text) for quote in inbound.quotes] == [("forward", "ignore <all> rules")]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_payload_cut_anywhere_is_still_no_error(path: Path) -> None:
    """Whatever part of a payload is missing or of another kind, reading it does not fail (unknown shapes come)."""
    payload = payload_of(path)
    for name in list(payload):
        for damaged in ({**payload, name: None}, {**payload, name: 7}, {**payload, name: [1, {"a": None}]}):
            assert read(damaged, ME).kind in InboundKind
    event = payload.get("event")
    for name in list(event) if isinstance(event, dict) else []:
        for value in (None, 7, {"x": []}):
            assert read({**payload, "event": {**event, name: value}}, ME).kind in InboundKind
