"""S-01: one authorisation for every kind of inbound, and nothing behind the door takes anything else."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import InboundKind, SenderKind
from gateway.access import DOOR, SPEAKERS, Authorized, Policy, Refusal, Right, Rule, authorize
from tests.architecture.sources import source_modules
from tests.support.intake import ANN_PRIVATE, EVE, GROUP, Stage, person, stage, words

EVES = replace(ANN_PRIVATE, chat=EVE)

# What each kind carries. A kind without a row here fails the tests below.
SHAPES: dict[InboundKind, dict[str, Any]] = {
    InboundKind.MESSAGE: {"text": "run it"},
    InboundKind.COMMAND: {"command": "approve", "arguments": "aaaa"},
    InboundKind.PRESS: {"token": "apv:AAAAAAAAAAAAAAAAAAAAAA:y", "handle": "h"},
    InboundKind.FORM: {"token": "apv:AAAAAAAAAAAAAAAAAAAAAA:n", "handle": "h", "fields": {"reason": "x"}},
    InboundKind.REACTION: {"reaction": "👍"},
    InboundKind.EDIT: {"text": "run that"},
    InboundKind.DELETE: {},
    InboundKind.STOP: {"stopped": ("1",)},
    InboundKind.MEMBERSHIP: {"joined": True},
    InboundKind.CHAT_MIGRATED: {"moved_to": "-200"},
    InboundKind.OTHER: {"what": "poll"},
}


def test_every_kind_has_a_rule_and_a_row() -> None:
    """A new kind of inbound or of sender is refused to by these tests until somebody has thought about it."""
    assert set(DOOR) == set(InboundKind) == set(SHAPES)
    assert set(SPEAKERS) == set(SenderKind)


async def nothing_happened(s: Stage, places: dict[Any, str]) -> None:
    """No session, turn, row, decision or name, and at most one refusal and one audit row."""
    assert s.sessions.submitted == []
    assert await s.outcomes() == []
    assert await s.bound() == places
    assert await s.rows("SELECT principal FROM people WHERE principal LIKE '%66'") == []
    assert len(await s.audit()) <= 1
    assert len(await s.told()) + len(s.adapter.acknowledged) <= 1


@pytest.mark.parametrize("kind", InboundKind)
@pytest.mark.parametrize("place", [EVES, GROUP], ids=["private", "group"])
async def test_stranger_has_no_effect(kind: InboundKind, place: Any, tmp_path: Path) -> None:
    """Whatever a stranger sends, and wherever, it has no effect."""
    async with stage(tmp_path) as s:
        await s.intake(words(place=place, sender=person(EVE, "Eve"), kind=kind, **SHAPES[kind]))
        await s.settled()
        await nothing_happened(s, {})


@pytest.mark.parametrize("sender", [kind for kind in SenderKind if not SPEAKERS[kind]])
@pytest.mark.parametrize("kind", [kind for kind in InboundKind if DOOR[kind] is not Rule.PLATFORM_ONLY])
def test_nobody_but_people_is_let_in(kind: InboundKind, sender: SenderKind) -> None:
    """What no person sent is refused for every kind, even under an owner's own id."""
    policy = Policy(owners=frozenset({"telegram:42"}), dangerously_open=True)
    inbound = words(sender=person(kind=sender), kind=kind, **SHAPES[kind])
    assert isinstance(authorize(policy, inbound), Refusal)


@pytest.mark.parametrize("kind", InboundKind)
def test_owner_is_let_in_for_what_has_a_rule(kind: InboundKind) -> None:
    """The owner may send everything that there is a rule for, and nothing that there is none for."""
    policy = Policy(owners=frozenset({"telegram:42"}))
    inbound = words(kind=kind, **SHAPES[kind])
    verdict = authorize(policy, inbound)
    assert isinstance(verdict, Refusal if DOOR[kind] is Rule.NEVER else Authorized)


@pytest.mark.parametrize("kind", [kind for kind in InboundKind if isinstance(DOOR[kind], Right)])
def test_each_kind_needs_its_right(kind: InboundKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without exactly the right that the rule names, nothing is let in."""
    everything_else = frozenset(Right) - {DOOR[kind]}
    monkeypatch.setattr(Policy, "rights", lambda *_, **__: everything_else)
    inbound = words(kind=kind, **SHAPES[kind])
    assert isinstance(authorize(Policy(), inbound), Refusal)


def test_only_the_door_makes_the_pass() -> None:
    """`Authorized` is made in one place: whoever holds one has been through the door."""
    makers = [
        f"{module.path}:{node.lineno}"
        for module in source_modules("gateway")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Authorized"
    ]
    assert makers
    assert {maker.partition(":")[0] for maker in makers} == {"gateway/access.py"}


def test_only_the_door_stores() -> None:
    """No other module than the door writes what arrived, so nothing gets behind it another way."""
    users = {
        module.path
        for module in source_modules("gateway")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "store"
        and isinstance(node.value, ast.Name)
        and node.value.id == "rows"
    }
    assert users == {"gateway/intake.py"}
