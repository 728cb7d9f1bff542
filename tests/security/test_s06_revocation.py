"""S-06: a right that is taken away is gone everywhere, at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from adapters.contract import InboundKind, Text
from gateway.access import Access, Policy, Right
from gateway.agents import Agents
from gateway.ledger.surfaces import Letter
from runtime.protocol import ops
from runtime.protocol.approvals import Action
from tests.support.intake import ANN_PRIVATE, BOB, GROUP, OWNER, STOPPED, CrashAt, Stage, person, stage

BOBS = replace(ANN_PRIVATE, chat=BOB)
FULL = Policy(owners=frozenset({OWNER}), approvers=frozenset({f"telegram:{BOB}"}))
WITHOUT = Policy(owners=frozenset({OWNER}))
DEMOTED = Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{BOB}"}))


@dataclass(frozen=True, kw_only=True)
class Way:
    """Something that Bob had begun while he still had the right."""

    begin: Callable[[Stage], Awaitable[None]]


async def stored_words(s: Stage) -> None:
    """Words that are stored and were not taken yet."""
    await s.stop()
    await s.intake(s.message("do it", BOBS, person(BOB, "Bob")))


async def stored_press(s: Stage) -> None:
    """A press that is stored and was not acted on yet."""
    card = await waiting_card(s)
    await s.stop()
    await s.intake(s.press_on(card, Letter.APPROVE, GROUP, "card", person(BOB, "Bob")))


async def stored_command(s: Stage) -> None:
    """A typed approval that is stored and was not acted on yet."""
    await waiting_card(s)
    await s.stop()
    await s.intake(s.message("/approve aaaa", GROUP, person(BOB, "Bob")))


async def press_that_is_tried_again(s: Stage) -> None:
    """A press that the session could not take at first."""
    card = await waiting_card(s)
    s.sessions.failures = [STOPPED]
    await s.intake(s.press_on(card, Letter.APPROVE, GROUP, "card", person(BOB, "Bob")))
    await s.until(lambda: s.clock.sleeping > 1)
    await s.stop()


async def waiting_card(s: Stage):  # type: ignore[no-untyped-def]
    """An approval that waits, in the group."""
    await s.say("go", GROUP)
    session = await s.session_of(GROUP)
    s.sessions.ask(session, "aaaa1111")
    return await s.card(GROUP, session_id=session, request_id="aaaa1111")


WAYS = {
    "stored words": stored_words,
    "stored press": stored_press,
    "stored command": stored_command,
    "press that is tried again": press_that_is_tried_again,
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_begun_is_refused(way: str, tmp_path: Path) -> None:
    """What somebody had sent while he might is not acted on once he may no more."""
    async with stage(tmp_path, FULL) as s:
        await WAYS[way](s)
        before = len([op for _, op, _ in s.sessions.submitted])
        s.access.replace(WITHOUT)
        await s.restart()
        await s.settled()
        assert len(s.sessions.submitted) == before
        assert s.sessions.executed == []
        assert (await s.outcomes())[-1] == "refused"
        assert (await s.audit())[-1][:2] == ("refused", f"telegram:{BOB}")


async def test_old_button_of_somebody_who_may_approve_no_more(tmp_path: Path) -> None:
    """An approver who is only a user now presses an old button: refused, and the request waits on."""
    async with stage(tmp_path, FULL) as s:
        card = await waiting_card(s)
        s.access.replace(DEMOTED)
        answer = await s.press(card, Letter.APPROVE, GROUP, sender=person(BOB, "Bob"))
        assert answer == Text(text="Only Ann can decide this.", alert=True)
        assert s.sessions.executed == []
        assert await s.press(card, Letter.APPROVE, GROUP) == Text(text="Approved.")


@pytest.mark.parametrize("letter", [Letter.APPROVE, Letter.SESSION, None])
async def test_routed_decision_of_somebody_who_may_approve_no_more(letter: Letter | None, tmp_path: Path) -> None:
    """A press or typed approval that was routed before a restart decides nothing if its right went meanwhile."""
    async with stage(tmp_path, FULL) as s:
        card, bob = await waiting_card(s), person(BOB, "Bob")
        await s.stop()
        s.faults = CrashAt("intake.route.after")
        s.build()
        await s.start()
        typed = s.message("/approve aaaa", GROUP, bob)
        await s.intake(typed if letter is None else s.press_on(card, letter, GROUP, "card", bob))
        await s.crashed()
        s.faults = CrashAt()
        s.access.replace(DEMOTED)
        await s.restart()
        await s.settled()
        assert not any(isinstance(op, ops.ResolveApproval) for _, op, _ in s.sessions.submitted)
        assert (await s.outcomes())[-1] == ("missing_right" if letter is None else "not_allowed")


async def test_new_right_counts_at_once(tmp_path: Path) -> None:
    """The other way round: who becomes an approver may use a card that was there before."""
    async with stage(tmp_path, DEMOTED) as s:
        card = await waiting_card(s)
        s.access.replace(FULL)
        assert await s.press(card, Letter.APPROVE, GROUP, sender=person(BOB, "Bob")) == Text(text="Approved.")


async def test_every_kind_is_decided_by_the_newest_policy(tmp_path: Path) -> None:
    """There is no kind of inbound for which an old policy is remembered."""
    async with stage(tmp_path, FULL) as s:
        await s.say("go", BOBS, person(BOB, "Bob"))
        s.access.replace(WITHOUT)
        submitted = len(s.sessions.submitted)
        for kind in InboundKind:
            if kind is not InboundKind.CHAT_MIGRATED:
                await s.say("/stop", BOBS, person(BOB, "Bob"), kind=kind, command="stop", sent_at_ms=0)
        assert len(s.sessions.submitted) == submitted
        assert not any(isinstance(op, ops.Interrupt) for _, op, _ in s.sessions.submitted)


async def test_gated_call_is_checked_when_it_starts() -> None:
    """An approved call does not start once its approver, or somebody who spoke in the turn, has lost the right."""
    access = Access(FULL)
    agents = Agents.__new__(Agents)
    agents._access = access
    action = Action(tool="t", schema_hash="h", arguments={})
    bob, ann = f"telegram:{BOB}", OWNER
    assert await agents._still_allowed(action, (ann, bob), bob) is None
    access.replace(DEMOTED)
    assert await agents._still_allowed(action, (ann,), bob) == "who approved it may not approve any more"
    access.replace(WITHOUT)
    assert await agents._still_allowed(action, (ann, bob), ann) is not None
    assert not access.policy.can(bob, Right.TALK)
