"""S-12: a button carries an opaque token, and the token alone gives nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import Form, InboundKind, Place, Text
from adapters.telegram.inbound import read
from adapters.telegram.words import Me
from gateway.access import Policy
from gateway.ledger import surfaces
from gateway.ledger.surfaces import Letter, NewSurface, mint, parse, payload
from runtime.store.writer import Statement
from tests.support.intake import GROUP, OWNER, Stage, person, stage

REQUEST = "aaaa11112222"
TOPIC = replace(GROUP, thread="7")
STALE = Text(text="This control is no longer in use.", alert=True)


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """How a press differs from the one that counts."""

    place: Place = TOPIC
    message_id: str | None = "card"
    token: str | None = None
    letter: Letter = Letter.APPROVE


FORGERIES = {
    "unknown token": Forgery(token="B" * 22),
    "no token": Forgery(token=""),
    "other chat": Forgery(place=replace(TOPIC, chat="-200")),
    "other message": Forgery(message_id="other"),
    "no message": Forgery(message_id=None),
    "other thread": Forgery(place=replace(TOPIC, thread="8")),
    "other account": Forgery(place=replace(TOPIC, account="other")),
    "other platform": Forgery(place=replace(TOPIC, platform="discord")),
    "choice that was not offered": Forgery(letter=Letter.SESSION),
    "choice of another kind of card": Forgery(letter=Letter.STOP),
    "without a thread on another message": Forgery(place=GROUP, message_id="other"),
}


async def asked(s: Stage, **fields: Any) -> NewSurface:
    """A request that may only be approved once, in a topic; no forms, so that Deny decides at once."""
    s.access.replace(Policy(owners=frozenset({OWNER, "discord:42"})))
    await s.say("go", TOPIC)
    session = await s.session_of(TOPIC)
    s.sessions.ask(session, REQUEST)
    return await s.card(TOPIC, **{"session_id": session, "request_id": REQUEST, "choices": "ynd", **fields})


# While no message is known, any message of ours in the right place may be the one.
CASES = [
    pytest.param(how, known, id=f"{how}, message {'known' if known else 'not known'}")
    for how, forgery in FORGERIES.items()
    for known in (True, False)
    if known or forgery.message_id != "other"
]


@pytest.mark.parametrize(("how", "known"), CASES)
async def test_forged_press_is_refused(how: str, known: bool, tmp_path: Path) -> None:
    """An approver's press that differs in any one binding decides nothing; the right one does afterwards."""
    forgery = FORGERIES[how]
    async with stage(tmp_path) as s:
        card = await asked(s)
        if not known:
            await forget_message(s, card)
        pressed = NewSurface(token=forgery.token, kind="approval") if forgery.token is not None else card
        assert await s.press(pressed, forgery.letter, forgery.place, forgery.message_id) == STALE
        assert s.sessions.executed == []
        assert [row[0] for row in await s.audit()][-1] in ("pressed", "press_refused")
        assert await s.press(card, Letter.APPROVE, TOPIC) == Text(text="Approved.")


async def forget_message(s: Stage, card: NewSurface) -> None:
    """As while the sending of the card is under way."""
    sql = "UPDATE surfaces SET message_id = NULL, adoptable = 1 WHERE token = ?"
    await s.database.write([Statement(sql, (card.token,))])


async def test_message_is_not_adopted_before_it_was_sent(tmp_path: Path) -> None:
    """A token that leaked before its card went out, or whose card never arrived, brings no message along."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        row = await surfaces.by_token(s.database, card.token)
        assert row is not None
        await forget_message(s, card)
        await s.database.write([surfaces.never_arrived(row.id, s.clock.now_ms())])
        assert await s.press(card, Letter.APPROVE, TOPIC) == STALE
        planned = NewSurface(
            token=mint(s.numbers.bytes), kind="approval", choices="y", session_id="s", request_id=REQUEST
        )
        await s.database.write([surfaces.insert(planned, TOPIC, ("x", "y", 0), 1)])
        assert await s.press(planned, Letter.APPROVE, TOPIC) == STALE
        form = await s.press(planned, Letter.APPROVE, TOPIC, None, kind=InboundKind.FORM, text="no")
        assert form == STALE
        assert s.sessions.executed == []


GARBAGE = [
    "x" * 64,
    "apv:",
    "apv::",
    "apv:AAAA:y",
    f"apv:{'A' * 22}:",
    f"apv:{'A' * 22}:z",
    f"apv:{'A' * 22}:yy",
    "a1:b:c",
]


@pytest.mark.parametrize("token", GARBAGE)
async def test_garbage_is_refused(token: str, tmp_path: Path) -> None:
    """What we never made is answered as a control that is no longer in use."""
    async with stage(tmp_path) as s:
        await asked(s)
        press = replace(
            s.press_on(NewSurface(token="", kind="approval"), Letter.APPROVE, TOPIC, "card", person()), token=token
        )
        await s.intake(press)
        await s.settled()
        await s.until(lambda: s.adapter.acknowledged)
        assert s.adapter.answers() == [STALE]
        assert s.sessions.executed == []


@given(st.binary(min_size=16, max_size=16), st.sampled_from(Letter))
def test_payload_is_short_and_says_nothing(random: bytes, letter: Letter) -> None:
    """Every payload is 28 bytes, of a fixed form, and is read back as what it was."""
    token = mint(lambda _: random)
    made = payload(token, letter)
    assert re.fullmatch(r"apv:[A-Za-z0-9_-]{22}:[a-z1-9]", made)
    assert len(made.encode()) == 28
    assert parse(made) == (token, letter)


@given(st.text(max_size=80))
def test_reading_garbage_never_fails(text: str) -> None:
    """Anything at all can be read, and only what has our form is anything."""
    found = parse(text)
    assert found is None or payload(*found) == text


async def test_form_is_bound_to_its_chat(tmp_path: Path) -> None:
    """A form that says where it comes from has to come from there."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        elsewhere = replace(TOPIC, chat="-200")
        assert await s.press(card, Letter.DENY, elsewhere, None, kind=InboundKind.FORM, text="no") == STALE
        topic = replace(TOPIC, thread="8")
        assert await s.press(card, Letter.DENY, topic, None, kind=InboundKind.FORM, text="no") == STALE
        other = replace(TOPIC, account="other", chat="")
        assert await s.press(card, Letter.DENY, other, None, kind=InboundKind.FORM, text="no") == STALE
        assert s.sessions.executed == []
        assert isinstance(await s.press(card, Letter.DENY, TOPIC), Form)


async def test_expired_control_is_over(tmp_path: Path) -> None:
    """A control with a time counts no more after it."""
    async with stage(tmp_path) as s:
        await s.say("go", TOPIC)
        session = await s.session_of(TOPIC)
        turn = s.sessions.session(session).turn.turn_id
        card = await s.card(
            TOPIC, kind="card", choices="x", session_id=session, turn_id=turn, expires_at_ms=s.clock.now_ms() + 1000
        )
        s.clock.advance(1)
        assert await s.press(card, Letter.STOP, TOPIC) == Text(text="Nothing is running.", alert=True)
        assert s.sessions.session(session).turn is not None


@pytest.mark.parametrize("letter", "ysndx")
@pytest.mark.parametrize("answer", ["-", "=", "=words"])
@pytest.mark.parametrize("shown", [True, False])
def test_forged_ready_answer_is_no_form(letter: str, answer: str, shown: bool) -> None:
    """Data like that of a ready answer, pressed on anything but that very question, stays a press of garbage."""
    data = f"form:apv:{'A' * 22}:{letter}{answer}"
    keyboard = {"inline_keyboard": [[{"text": "Deny", "callback_data": data}]]} if shown else {}
    chat = {"id": int(TOPIC.chat), "type": "supergroup"}
    message = {"message_id": 5, "date": 1, "chat": chat, "text": "Shall I?", "reply_markup": keyboard}
    query = {"id": "7", "from": {"id": 42, "first_name": "Ann"}, "data": data, "message": message}
    press = read({"update_id": 1, "callback_query": query}, Me(id=900, username="PilotBot"))
    assert press.kind is InboundKind.PRESS
    assert parse(press.token or "") is None
