"""Each recorded update gives the inbound that stands beside it, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import adapters.telegram
from adapters.contract import InboundKind, SenderKind, decode_inbound, encode_inbound
from adapters.telegram.inbound import read
from adapters.telegram.words import Me

SAMPLES = sorted((Path(adapters.telegram.__file__).parent / "samples").glob("*.json"))
EXPECTED = Path(__file__).parent / "expected"
ME = Me(id=900, username="PilotBot")


def update_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))["update"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_read_as_expected(path: Path) -> None:
    """The whole inbound is compared, so that no field changes unseen."""
    inbound = read(update_of(path), ME)
    expected = json.loads((EXPECTED / path.name).read_text(encoding="utf-8"))
    assert json.loads(encode_inbound(inbound)) == expected


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_inbound_survives_storage(path: Path) -> None:
    """What was read is the same after it was stored."""
    inbound = read(update_of(path), ME)
    assert decode_inbound(encode_inbound(inbound)) == inbound


def test_every_sample_tells_its_origin_and_every_expectation_has_a_sample() -> None:
    """No payload is of unknown origin, and no expectation is left over."""
    assert all(json.loads(path.read_text(encoding="utf-8"))["origin"] for path in SAMPLES)
    assert {path.name for path in EXPECTED.glob("*.json")} == {path.name for path in SAMPLES}


def test_keys_differ_between_different_things() -> None:
    """No two samples have a key in common, but for the two notices of one migration."""
    keys: dict[str, list[str]] = {}
    for path in SAMPLES:
        if path.stem.startswith(("press", "reaction", "we_were", "we_joined")):
            continue  # variants of one thing
        for key in read(update_of(path), ME).keys:
            keys.setdefault(key, []).append(path.stem)
    shared = [names for key, names in keys.items() if len(names) > 1 and not key.startswith("message:")]
    assert shared == [["migrated_told_in_new", "migrated_told_in_old"]]


NOT_PEOPLE = (
    "anonymous_admin",
    "as_channel",
    "automatic_forward",
    "telegram_service",
    "via_bot",
    "other_bot",
    "channel_post",
    "edited_channel_post",
    "reaction_anonymous",
    "migrated_told_in_new",
)


@pytest.mark.parametrize("name", NOT_PEOPLE)
def test_who_is_not_a_person_is_not_taken_for_one(name: str) -> None:
    """Anonymous administrators, channels, the service account and bots are never a PERSON (S-04)."""
    path = next(path for path in SAMPLES if path.stem == name)
    assert read(update_of(path), ME).sender.kind is not SenderKind.PERSON


@pytest.mark.parametrize("name", ["forward_user", "forward_hidden", "forward_channel"])
def test_forwarded_words_are_data(name: str) -> None:
    """What somebody forwards is quoted, not said: no text of his own, no command, not addressed by what it says."""
    inbound = read(update_of(next(path for path in SAMPLES if path.stem == name)), ME)
    assert (inbound.kind, inbound.text, inbound.command) == (InboundKind.MESSAGE, "", None)
    assert inbound.forwarded
    assert [quote.source for quote in inbound.quotes] == ["forward"]
    assert inbound.addressed == (inbound.chat_kind == "private")
