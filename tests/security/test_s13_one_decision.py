"""S-13: a decision is one compare-and-set, and everybody is told the true result."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from adapters.contract import Capabilities, Text
from gateway.access import Policy
from gateway.ledger.surfaces import Letter, NewSurface
from runtime.protocol import ops
from runtime.protocol.approvals import Approve, Resolution
from tests.support.intake import GROUP, OWNER, Stage, person, stage
from tests.support.intake_runtime import gated_session, runtime_stage

REQUEST = "aaaa11112222"
PRESSERS = [str(100 + n) for n in range(50)]
POLICY = Policy(owners=frozenset({OWNER}), approvers=frozenset(f"telegram:{id}" for id in PRESSERS))


async def fifty_presses(s: Stage, card: NewSurface) -> None:
    """Half approve and half deny, at the same time."""
    presses = [
        s.press_on(card, Letter.APPROVE if n % 2 else Letter.DENY, GROUP, "card", person(id, f"P{id}"))
        for n, id in enumerate(PRESSERS)
    ]
    await asyncio.gather(*(s.intake(press) for press in presses))
    await s.settled()
    await s.until(lambda: len(s.adapter.acknowledged) == len(PRESSERS))


def told(s: Stage) -> Counter[str]:
    """What the pressers were told, without names and times."""
    return Counter(answer.text.split(" by ")[0] for answer in s.adapter.answers() if isinstance(answer, Text))


async def test_fifty_presses_one_decision(tmp_path: Path) -> None:
    """Fifty approvers press at once: one decision, and forty-nine learn who made it."""
    async with stage(tmp_path, POLICY) as s:
        s.adapter.capabilities = Capabilities()
        await s.say("go", GROUP)
        session = await s.session_of(GROUP)
        s.sessions.ask(session, REQUEST)
        card = await s.card(GROUP, session_id=session, request_id=REQUEST)
        await fifty_presses(s, card)
        assert s.sessions.executed == [(REQUEST, Resolution.DENIED)]
        assert told(s) == {"Denied.": 1, "Already denied": 49}
        assert len(await s.audit("pressed")) == 50


async def test_fifty_presses_on_the_real_runtime(tmp_path: Path) -> None:
    """The same with real sessions: the approval's row is decided once and the tool runs at most once."""
    async with runtime_stage(tmp_path, POLICY) as (s, tool):
        s.adapter.capabilities = Capabilities()
        card, _ = await gated_session(s, GROUP)
        await fifty_presses(s, card)
        assert await s.rows("SELECT decision, decided_by FROM approvals") == [("denied", f"telegram:{PRESSERS[0]}")]
        assert tool.runs == []
        assert told(s) == {"Denied.": 1, "Already denied": 49}


async def test_success_is_said_after_the_decision_was_taken(tmp_path: Path) -> None:
    """A press that nobody could take is not called a success: the words wait for the result."""
    async with stage(tmp_path, POLICY) as s:
        await s.say("go", GROUP)
        session = await s.session_of(GROUP)
        s.sessions.ask(session, REQUEST)
        card = await s.card(GROUP, session_id=session, request_id=REQUEST)
        s.sessions.hold = asyncio.Event()
        await s.intake(s.press_on(card, Letter.APPROVE, GROUP, "card", person()))
        await s.until(lambda: s.clock.sleeping)
        assert s.adapter.acknowledged == []
        s.sessions.hold.set()
        await s.settled()
        await s.until(lambda: s.adapter.acknowledged)
        assert s.adapter.words() == ["Approved."]


async def test_decision_elsewhere_first(tmp_path: Path) -> None:
    """A request that was decided by other means is not decided again by its old button."""
    async with runtime_stage(tmp_path, POLICY) as (s, tool):
        card, request_id = await gated_session(s, GROUP)
        await s.sessions.submit(
            await s.session_of(GROUP),
            ops.ResolveApproval(request_id=request_id, decision=Approve(), decided_by=OWNER),
            "elsewhere",
        )
        await s.until(lambda: tool.runs)
        answer = await s.press(card, Letter.APPROVE, GROUP, sender=person(PRESSERS[0], "P"))
        assert isinstance(answer, Text)
        assert answer.text.startswith("Already approved by Ann at")
        assert len(tool.runs) == 1
