"""S-30: steering keeps its author and gains nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.access import Policy
from gateway.ledger.surfaces import Letter
from runtime.protocol import ops
from runtime.protocol.approvals import Resolution
from runtime.protocol.context import UserMessage
from tests.support.intake import BOB, EVE, GROUP, OWNER, person, stage
from tests.support.intake_runtime import gated_session, runtime_stage

POLICY = Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{BOB}"}))
BOB_SPEAKS, EVE_SPEAKS = person(BOB, "Bob"), person(EVE, "Eve")


@pytest.mark.parametrize("text", ["do this instead", "/steer do this", "/stop", "/queue this", "/new"])
async def test_member_who_is_not_listed_changes_nothing(text: str, tmp_path: Path) -> None:
    """Somebody who merely is in the group neither steers, queues, stops nor ends the owner's turn."""
    async with stage(tmp_path, POLICY) as s:
        await s.say("go", GROUP)
        session = s.sessions.session(await s.session_of(GROUP))
        turn = session.turn
        await s.say(text, GROUP, EVE_SPEAKS)
        assert len(s.sessions.submitted) == 1
        assert session.turn is turn
        assert session.queue == []


@pytest.mark.parametrize("text", ["approve it", "yes, go on", "/approve", "/approve aaaa11112222"])
async def test_steer_does_not_approve(text: str, tmp_path: Path) -> None:
    """A listed person who may not approve steers "approve it": the request waits on."""
    async with stage(tmp_path, POLICY) as s:
        await s.say("go", GROUP)
        session = s.sessions.session(await s.session_of(GROUP))
        s.sessions.ask(session.id, "aaaa11112222")
        await s.say(text, GROUP, BOB_SPEAKS)
        assert session.approval is not None
        assert s.sessions.executed == []


async def test_words_carry_their_author(tmp_path: Path) -> None:
    """Words that steer somebody else's turn carry the principal and the source of who said them."""
    async with stage(tmp_path, POLICY) as s:
        await s.say("go", GROUP)
        await s.say("also that", GROUP, BOB_SPEAKS)
        steer = s.sessions.messages()[-1]
        assert (steer.author, steer.principal) == ("Bob (43)", f"telegram:{BOB}")
        origin = await s.rows("SELECT principal, message_id FROM inbound WHERE submission_id = 'in:2'")
        assert origin == [(f"telegram:{BOB}", "m-u2")]


async def test_steer_that_races_the_end_is_taken_by_exactly_one_turn(tmp_path: Path) -> None:
    """Words that arrive while a turn ends enter that turn or start the next one, once, on real sessions."""
    async with runtime_stage(tmp_path, POLICY, ["one", "two", "three"]) as (s, _):
        await s.intake(s.message("first", GROUP))
        await s.intake(s.message("second", GROUP, BOB_SPEAKS))
        await s.settled()
        session = await s.session_of(GROUP)
        agent = await s.sessions.runtime.open(session)
        await agent.idle()
        entered = [item.text for item in agent.checkpoint.context if isinstance(item, UserMessage)]
        assert sorted(entered) == ["first", "second"]


async def test_steer_adds_its_principal_to_the_turn(tmp_path: Path) -> None:
    """Everybody who spoke in a turn is written down in it, so that gated calls can be judged by all of them."""
    async with runtime_stage(tmp_path, POLICY) as (s, tool):
        card, request_id = await gated_session(s, GROUP)
        await s.say("/steer and hurry", GROUP, BOB_SPEAKS)
        assert tool.runs == []
        answer = await s.press(card, Letter.APPROVE, GROUP, sender=BOB_SPEAKS)
        assert getattr(answer, "text", "").startswith("Only ")
        await s.press(card, Letter.APPROVE, GROUP)
        assert await s.rows("SELECT decision, decided_by FROM approvals WHERE request_id = ?", request_id) == [
            (Resolution.APPROVED.value, OWNER)
        ]


async def test_stop_of_a_finished_turn_does_not_hit_the_next(tmp_path: Path) -> None:
    """A stop that was meant for a turn that ended is said to be late; the next turn runs on."""
    async with stage(tmp_path, POLICY) as s:
        await s.say("one", GROUP)
        session = s.sessions.session(await s.session_of(GROUP))
        assert session.turn is not None
        card = await s.card(GROUP, kind="card", choices="x", session_id=session.id, turn_id=session.turn.turn_id)
        s.sessions.finish(session.id)
        await s.say("two", GROUP)
        await s.press(card, Letter.STOP, GROUP, sender=BOB_SPEAKS)
        assert session.turn is not None
        assert [op for _, op, _ in s.sessions.submitted if isinstance(op, ops.Interrupt)] == [
            ops.Interrupt(turn_id=f"{session.id}.t1", by=f"telegram:{BOB}")
        ]
