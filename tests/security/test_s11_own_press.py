"""S-11: only an approver's own press decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from adapters.contract import InboundKind, Sender, SenderKind, Text
from gateway.access import Policy
from gateway.ledger import surfaces
from gateway.ledger.surfaces import Letter, NewSurface
from runtime.protocol.approvals import Resolution
from tests.support.intake import GROUP, OWNER, Stage, person, stage

REQUEST = "aaaa11112222"
REQUESTER, APPROVER, FORMER = "50", "51", "52"
POLICY = Policy(
    owners=frozenset({OWNER}),
    approvers=frozenset({f"telegram:{APPROVER}", f"telegram:{FORMER}"}),
    users=frozenset({f"telegram:{REQUESTER}"}),
)
NOW = Policy(
    owners=POLICY.owners, approvers=frozenset({f"telegram:{APPROVER}"}), users=POLICY.users | {f"telegram:{FORMER}"}
)


@dataclass(frozen=True, kw_only=True)
class Presser:
    """Somebody who presses; `may`: his press decides."""

    sender: Sender
    may: bool = False


PRESSERS = {
    "stranger": Presser(sender=person("66", "Eve")),
    "stranger with the approver's name": Presser(sender=person("66", "Approver")),
    "requester": Presser(sender=person(REQUESTER, "Requester")),
    "removed approver": Presser(sender=person(FORMER, "Former")),
    "bot": Presser(sender=person(APPROVER, "Approver", kind=SenderKind.BOT)),
    "anonymous": Presser(sender=person("1087968824", "Group", kind=SenderKind.ANONYMOUS)),
    "channel": Presser(sender=person("136817688", "Channel", kind=SenderKind.CHANNEL)),
    "approver": Presser(sender=person(APPROVER, "Approver"), may=True),
    "owner": Presser(sender=person(), may=True),
}
LETTERS = [Letter.APPROVE, Letter.SESSION, Letter.DENY, Letter.DETAILS]
DECIDES = {Letter.APPROVE: Resolution.APPROVED, Letter.SESSION: Resolution.APPROVED_FOR_SESSION, Letter.DENY: None}


def test_every_kind_of_sender_presses() -> None:
    """There is a presser for each kind of sender that a press can come from."""
    assert {presser.sender.kind for presser in PRESSERS.values()} >= {
        kind for kind in SenderKind if kind not in (SenderKind.SYSTEM, SenderKind.STRANGER)
    }


async def asked(s: Stage) -> NewSurface:
    """A request of the requester, in a group."""
    await s.say("go", GROUP, person(REQUESTER, "Requester"))
    session = await s.session_of(GROUP)
    s.sessions.ask(session, REQUEST, requester=f"telegram:{REQUESTER}")
    return await s.card(GROUP, session_id=session, request_id=REQUEST)


@pytest.mark.parametrize("who", PRESSERS)
@pytest.mark.parametrize("letter", LETTERS)
async def test_matrix(who: str, letter: Letter, tmp_path: Path) -> None:
    """Of all who may press a button in a group, only those who may approve now decide; the card stays for them."""
    presser = PRESSERS[who]
    async with stage(tmp_path, POLICY) as s:
        card = await asked(s)
        s.access.replace(NOW)
        s.adapter.capabilities = type(s.adapter.capabilities)()  # no forms: Deny decides at once
        await s.intake(s.press_on(card, letter, GROUP, "card", presser.sender))
        await s.settled()
        resolution = {**DECIDES, Letter.DENY: Resolution.DENIED}.get(letter) if presser.may else None
        assert s.sessions.executed == ([(REQUEST, resolution)] if resolution else [])
        if not presser.may:
            row = await surfaces.by_token(s.database, card.token)
            assert row is not None
            assert row.state == "open"
            assert [row[1] for row in await s.audit()][-1].endswith(presser.sender.id)
            assert await s.press(card, Letter.APPROVE, GROUP) == Text(text="Approved.")


@pytest.mark.parametrize("who", [who for who, presser in PRESSERS.items() if not presser.may])
async def test_forms_are_checked_as_presses_are(who: str, tmp_path: Path) -> None:
    """Whoever fills in a form has to have the right himself, whoever opened it."""
    async with stage(tmp_path, POLICY) as s:
        card = await asked(s)
        s.access.replace(NOW)
        form = s.press_on(card, Letter.DENY, GROUP, None, PRESSERS[who].sender, kind=InboundKind.FORM, text="no")
        await s.intake(form)
        await s.settled()
        assert s.sessions.executed == []


@pytest.mark.parametrize("text", ["yes", "approve", "y", f"apv:{'A' * 22}:y", "👍", f"/approve {REQUEST}"])
async def test_words_do_not_decide(text: str, tmp_path: Path) -> None:
    """Nothing that somebody without the right types decides, and neither does an approver's plain "yes"."""
    async with stage(tmp_path, POLICY) as s:
        await asked(s)
        await s.say(text, GROUP, person(REQUESTER, "Requester"))
        if not text.startswith("/"):
            await s.say(text, GROUP, person(APPROVER, "Approver"))
            await s.say("", GROUP, person(APPROVER, "Approver"), kind=InboundKind.REACTION, reaction="👍")
        assert s.sessions.executed == []
        assert s.sessions.session(await s.session_of(GROUP)).approval is not None


async def test_wrong_presser_is_told_in_private(tmp_path: Path) -> None:
    """Somebody who may not decide learns it as an alert that only he sees, and nothing is said in the group."""
    async with stage(tmp_path, POLICY) as s:
        card = await asked(s)
        said = len(await s.views())
        answer = await s.press(card, Letter.APPROVE, GROUP, sender=person(REQUESTER, "Requester"))
        assert isinstance(answer, Text)
        assert answer.alert
        assert answer.text.startswith("Only ")
        assert len(await s.views()) == said
