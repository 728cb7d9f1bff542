"""Each recorded event gives the inbound that stands beside it, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import adapters.discord
from adapters.contract import Inbound, InboundKind, Sender, SenderKind, decode_inbound, encode_inbound
from adapters.discord.channels import Channel, channel_of
from adapters.discord.inbound import Event, read
from adapters.discord.words import Me

SAMPLES = sorted((Path(adapters.discord.__file__).parent / "samples").glob("*.json"))
EXPECTED = Path(__file__).parent / "expected"
ME = Me(id="1100000000000000900", application="1100000000000000900", name="Pilot")
ANN = Sender(kind=SenderKind.PERSON, id="1100000000000000042", name="Ann Lee")


def sample(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def inbound_of(path: Path) -> Inbound:
    """What the sample tells; of a deleted message Ann is remembered as the author."""
    recorded = sample(path)
    told = recorded["channel"]
    channel = channel_of(told) or Channel(id=told["id"], kind="other", name=told["name"])
    author = ANN if recorded["event"] == "MESSAGE_DELETE" else None
    return read(Event(name=recorded["event"], data=recorded["data"], mark="session:7", author=author), channel, ME)


def named(name: str) -> Inbound:
    return inbound_of(next(path for path in SAMPLES if path.stem == name))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_read_as_expected(path: Path) -> None:
    """The whole inbound is compared, so that no field changes unseen."""
    expected = json.loads((EXPECTED / path.name).read_text(encoding="utf-8"))
    assert json.loads(encode_inbound(inbound_of(path))) == expected


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_inbound_survives_storage(path: Path) -> None:
    """What was read is the same after it was stored."""
    inbound = inbound_of(path)
    assert decode_inbound(encode_inbound(inbound)) == inbound


def test_every_sample_tells_its_origin_and_every_expectation_has_a_sample() -> None:
    """No payload is of unknown origin, and no expectation is left over."""
    assert all(sample(path)["origin"] for path in SAMPLES)
    assert {path.name for path in EXPECTED.glob("*.json")} == {path.name for path in SAMPLES}


def test_keys_differ_between_different_things() -> None:
    """No two samples that have ids of their own have a key in common."""
    keys = [key for path in SAMPLES for key in inbound_of(path).keys if not key.startswith("event:")]
    assert len(keys) == len(set(keys))


def test_mention_and_its_thread_are_one_place() -> None:
    """A thread on a mention has its id, so what is said in it goes on with what began in the channel."""
    assert named("channel_mention").place == named("thread_message").place == named("stop_menu_on_root").place


@pytest.mark.parametrize("name", ["other_bot", "webhook", "system_user", "press_by_a_bot", "we_joined"])
def test_who_is_not_a_person_is_not_taken_for_one(name: str) -> None:
    """Bots, webhooks whatever they call themselves, and Discord itself are never a PERSON (S-04)."""
    assert named(name).sender.kind is not SenderKind.PERSON


def test_forwarded_words_are_data() -> None:
    """What somebody forwards is quoted, not said: no text of his own, and no command."""
    inbound = named("private_forward")
    assert (inbound.kind, inbound.text, inbound.command) == (InboundKind.MESSAGE, "", None)
    assert inbound.forwarded
    assert [quote.source for quote in inbound.quotes] == ["forward"]


def test_form_means_the_same_to_a_process_that_did_not_open_it() -> None:
    """A form carries the token of the button that opened it, and what was written wins over what was chosen."""
    written, chosen = named("form"), named("form_with_a_ready_answer")
    assert written.kind is chosen.kind is InboundKind.FORM
    assert (written.token, written.text) == ("apv:" + 22 * "A" + ":n", "not on a Friday")
    assert (chosen.token, chosen.text) == (written.token, "Too risky")
    assert named("form_of_somebody_else").token is None
