"""S-02: people are known by the platforms' immutable ids, and by nothing that they can choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import Inbound, InboundKind, Place, Sender, SenderKind
from gateway.access import Authorized, Policy, Refusal, authorize, principal_of

POLICY = Policy(owners=frozenset({"telegram:42", "slack:T1:U1", "discord:3", "terminal:local"}))


def sent(platform: str, sender: Sender) -> Inbound:
    """A message of the sender."""
    place = Place(platform=platform, account="a", chat="c")
    return Inbound(kind=InboundKind.MESSAGE, keys=("k",), place=place, sender=sender, text="hi")


def sender(id: str, **fields: Any) -> Sender:
    """A person."""
    return Sender(**{"kind": SenderKind.PERSON, "id": id, "name": "Ann", **fields})


LISTED = [
    ("telegram", sender("42"), "telegram:42"),
    ("slack", sender("U1", tenant="T1"), "slack:T1:U1"),
    ("discord", sender("3"), "discord:3"),
    ("terminal", sender("local"), "terminal:local"),
]


@pytest.mark.parametrize(("platform", "who", "principal"), LISTED)
def test_listed_by_id(platform: str, who: Sender, principal: str) -> None:
    """A listed id is let in under whatever name."""
    verdict = authorize(POLICY, sent(platform, replace(who, name="anything")))
    assert isinstance(verdict, Authorized)
    assert verdict.principal == principal


@pytest.mark.parametrize(("platform", "who", "principal"), LISTED)
def test_listed_name_with_another_id(platform: str, who: Sender, principal: str) -> None:
    """Somebody who took a listed person's name is a stranger."""
    for taken in (replace(who, id="666"), replace(who, id="666", name=principal), replace(who, id="666", name="42")):
        assert isinstance(authorize(POLICY, sent(platform, taken)), Refusal)


def test_slack_person_of_another_team() -> None:
    """The same user id in another team is another person; without a team nobody is anybody."""
    for tenant in ("T2", None, "", "T1:U1"):
        assert isinstance(authorize(POLICY, sent("slack", sender("U1", tenant=tenant))), Refusal)


def test_guest_only_by_full_id() -> None:
    """Somebody of another organisation is let in only if a list has exactly that id, never because all are."""
    guest = sent("slack", sender("U9", tenant="T9", kind=SenderKind.STRANGER))
    assert isinstance(authorize(replace(POLICY, dangerously_open=True), guest), Refusal)
    assert isinstance(authorize(Policy(users=frozenset({"slack:T9:U9"})), guest), Authorized)


def test_id_of_another_platform() -> None:
    """The same id on another platform is another person."""
    assert isinstance(authorize(POLICY, sent("discord", sender("42"))), Refusal)
    assert isinstance(authorize(POLICY, sent("matrix", sender("42"))), Refusal)


def test_ids_cannot_be_put_together_to_look_like_another() -> None:
    """An id with a colon in it does not become somebody else's principal."""
    assert isinstance(authorize(POLICY, sent("slack", sender("T1:U1", tenant=None))), Refusal)
    assert principal_of("matrix", sender("b:c", tenant="a")) != principal_of("matrix", sender("c", tenant="a"))


def test_names_are_compared_nowhere() -> None:
    """Changing every name changes no verdict."""
    for platform, who, _ in LISTED:
        plain = authorize(POLICY, sent(platform, who))
        renamed = authorize(POLICY, sent(platform, replace(who, name="", language="xx")))
        assert isinstance(plain, Authorized)
        assert isinstance(renamed, Authorized)
        assert (plain.principal, plain.rights) == (renamed.principal, renamed.rights)
