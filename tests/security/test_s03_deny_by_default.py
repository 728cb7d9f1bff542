"""S-03: nobody may anything unless a list says so, and no change widens it in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.access import (
    APPROVER_RIGHTS,
    OWNER_RIGHTS,
    USER_RIGHTS,
    Access,
    Policy,
    Refusal,
    Right,
    authorize,
)
from tests.support.intake import ANN_PRIVATE, BOB, EVE, GROUP, person, stage

NAMES = [f"telegram:{n}" for n in range(5)]
LISTS = st.frozensets(st.sampled_from(NAMES))
POLICIES = st.builds(Policy, users=LISTS, approvers=LISTS, owners=LISTS)


def permitted(policy: Policy) -> set[tuple[str, Right]]:
    """Every (person, right) that the policy gives."""
    return {(who, right) for who in NAMES for right in Right if policy.can(who, right)}


def test_empty_means_nobody() -> None:
    """A policy without entries lets nobody in, and neither does one with an empty entry."""
    assert permitted(Policy()) == set()
    assert Policy(users=frozenset({""})).rights("telegram:1") == frozenset()


def test_lists_give_these_rights() -> None:
    """Users talk, steer, stop and command; approvers approve too; owners administer too. Talking is not approving."""
    policy = Policy(
        users=frozenset({"telegram:1"}), approvers=frozenset({"telegram:2"}), owners=frozenset({"telegram:3"})
    )
    assert policy.rights("telegram:1") == USER_RIGHTS == {Right.TALK, Right.STEER, Right.STOP, Right.COMMAND}
    assert policy.rights("telegram:2") == APPROVER_RIGHTS == USER_RIGHTS | {Right.APPROVE}
    assert policy.rights("telegram:3") == OWNER_RIGHTS == set(Right)


@given(POLICIES, st.sampled_from(["users", "approvers", "owners"]), st.sampled_from(NAMES))
def test_removing_an_entry_never_adds_a_right(policy: Policy, field: str, name: str) -> None:
    """Whatever is removed from a list, nobody may more than before."""
    smaller = replace(policy, **{field: getattr(policy, field) - {name}})
    assert permitted(smaller) <= permitted(policy)


@given(POLICIES)
def test_open_to_everybody_makes_nobody_an_approver(policy: Policy) -> None:
    """`dangerously_open` gives everybody what users have, and takes or adds nothing else."""
    opened = replace(policy, dangerously_open=True)
    added = permitted(opened) - permitted(policy)
    assert {right for _, right in added} <= USER_RIGHTS
    assert permitted(policy) <= permitted(opened)
    assert opened.can("telegram:99", Right.TALK)
    assert not opened.can("telegram:99", Right.APPROVE)


async def test_listed_group_admits_none_of_its_members(tmp_path: Path) -> None:
    """The id of a group in a list makes none of its members anybody."""
    policy = Policy(users=frozenset({"telegram:-100"}), owners=frozenset({"telegram:42"}))
    async with stage(tmp_path, policy) as s:
        await s.say("hi", GROUP, person(EVE, "Eve"))
        assert s.sessions.submitted == []
        verdict = authorize(policy, s.message("hi", GROUP, person(EVE, "Eve")))
        assert isinstance(verdict, Refusal)


async def test_each_version_has_its_number(tmp_path: Path) -> None:
    """A policy is replaced as a whole, under a new number; the old one stays what it was."""
    access = Access(Policy(users=frozenset({f"telegram:{BOB}"})))
    before = access.policy
    after = access.replace(Policy())
    assert (before.version, after.version, access.policy) == (1, 2, after)
    assert before.can(f"telegram:{BOB}", Right.TALK)


async def test_approver_is_not_an_owner(tmp_path: Path) -> None:
    """What needs more than approving is refused to an approver."""
    policy = Policy(approvers=frozenset({"telegram:42"}))
    async with stage(tmp_path, policy) as s:
        await s.say("/workspace site", ANN_PRIVATE)
        assert await s.told() == ["You may not use /workspace."]
