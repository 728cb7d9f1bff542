"""S-11: only an approver's own press decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Form, Inbound, InboundKind, Sender, SenderKind, Text
from adapters.telegram.forms import form_link, question
from adapters.telegram.inbound import read
from adapters.telegram.markup import render
from adapters.telegram.words import Me
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


ME = Me(id=900, username="PilotBot")


def answered(text: str, said: dict[str, Any], *, entities: list[dict[str, Any]] | None = None) -> Inbound:
    """What the adapter makes of the approver's answer to a message of ours; `said` is what was sent."""
    chat = {"id": int(GROUP.chat), "type": "supergroup", "title": "Team"}
    ours = {"message_id": 70, "date": 1, "chat": chat, "from": {"id": ME.id, "is_bot": True, "first_name": "Pilot"}}
    sender = {"id": int(APPROVER), "is_bot": False, "first_name": "Approver"}
    body = {"message_id": 71, "date": 1, "chat": chat, "from": sender, "text": text, "entities": entities or []}
    return read({"update_id": 1, "message": {**body, "reply_to_message": {**ours, **said}}}, ME)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("entity", ["text_link", "text_link behind a mention"])
async def test_link_in_an_answer_makes_no_form(letter: Letter, entity: str, tmp_path: Path) -> None:
    """A link like those in our questions, in a message that is none, leaves an answer to it an ordinary message."""
    async with stage(tmp_path, POLICY) as s:
        card = await asked(s)
        link = {
            "type": "text_link",
            "offset": 6,
            "length": 5,
            "url": form_link(surfaces.payload(card.token, letter), ME),
        }
        mention = {"type": "text_mention", "offset": 0, "length": 4, "user": {"id": int(APPROVER)}}
        entities = [mention, link] if "mention" in entity else [link]
        heard = answered("no, please do not", {"text": "Done. notes. Shall I go on?", "entities": entities})
        assert (heard.kind, heard.text, heard.token) == (InboundKind.MESSAGE, "no, please do not", None)
        await s.intake(replace(heard, place=GROUP))
        await s.settled()
        assert s.sessions.executed == []


@pytest.mark.parametrize(
    "base", ["https://t.me", "HTTPS://T.ME", "http://t.me:80", "https://telegram.me", "https://t%2eme"]
)
@pytest.mark.parametrize("key", ["form", "x=1&form", "%66orm", "FORM"])
def test_an_agent_cannot_write_such_a_link(base: str, key: str) -> None:
    """However the address of a question is written in an answer, it is shown as plain text."""
    for markdown in (f"[notes]({base}/PilotBot?{key}=apv:x:y)", f"![notes]({base}/PilotBot?{key}=apv:x:y)"):
        shown = render(markdown)
        assert "notes" in shown.text
        assert [entity for entity in shown.entities if entity.style.type == "text_link"] == []
    assert render("[notes](https://t.me/PilotBot?start=x)").entities


@pytest.mark.parametrize("presets", [(), (("", "No reason"),)])
@pytest.mark.parametrize("name", ["Approver", "Ann \U0001f600", "\u3164"])
def test_our_own_question_is_known_by_its_shape(name: str, presets: tuple[tuple[str, str], ...]) -> None:
    """What the answers to a real question say still fills the form in."""
    token = surfaces.payload("A" * 22, Letter.DENY)
    form = Form(title="Why not?", label="Reason", token=token, presets=presets)
    press = Inbound(kind=InboundKind.PRESS, keys=("k",), place=GROUP, sender=person(APPROVER, name))
    sent = question(press, form, ME).fields
    filled = answered("too risky", {"text": sent["text"], "entities": sent["entities"]})
    assert (filled.kind, filled.token, filled.text) == (InboundKind.FORM, token, "too risky")


@pytest.mark.parametrize("letter", [letter for letter in Letter if letter is not Letter.DENY])
async def test_a_form_can_only_deny(letter: Letter, tmp_path: Path) -> None:
    """A form of the approver himself, with any other letter than that of a denial, does nothing."""
    async with stage(tmp_path, POLICY) as s:
        card = await asked(s)
        who = person(APPROVER, "Approver")
        form = s.press_on(card, letter, GROUP, "other", who, kind=InboundKind.FORM, text="no")
        await s.intake(form)
        await s.settled()
        assert s.sessions.executed == []
        assert await s.press(card, Letter.APPROVE, GROUP) == Text(text="Approved.")


@pytest.mark.parametrize("chat", ["supergroup", "private"])
async def test_a_command_for_another_bot_is_for_nobody_here(chat: str, tmp_path: Path) -> None:
    """`/approve@another_bot` decides nothing and is no message either, wherever an owner writes it."""
    text = f"/approve@another_bot {REQUEST}"
    entities = [{"type": "bot_command", "offset": 0, "length": 20}]
    body = {"message_id": 71, "date": 1, "chat": {"id": int(GROUP.chat), "type": chat}, "text": text}
    heard = read({"update_id": 1, "message": {**body, "from": {"id": int(APPROVER)}, "entities": entities}}, ME)
    assert (heard.kind, heard.command, heard.addressed) == (InboundKind.OTHER, None, False)
    async with stage(tmp_path, POLICY) as s:
        await asked(s)
        await s.say(text, GROUP, person(APPROVER, "Approver"))
        await s.intake(replace(heard, place=GROUP))
        await s.settled()
        assert s.sessions.executed == []
