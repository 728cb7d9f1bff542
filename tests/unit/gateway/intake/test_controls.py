"""Presses and forms: what they do, and the one acknowledgement."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from adapters.contract import Capabilities, Control, Form, InboundKind, Notice, Private, Text
from adapters.errors import OutcomeUnknown
from gateway.access import Policy
from gateway.budget import Priority
from gateway.controls import RIGHTS
from gateway.ledger import deliveries, surfaces
from gateway.ledger.surfaces import Letter, NewSurface, payload
from runtime.protocol import ops
from runtime.protocol.approvals import Approve, ApproveForSession, Deny, Resolution
from tests.support.intake import ANN_PRIVATE, BOB, GROUP, OWNER, STOPPED, Stage, person, stage

REQUEST = "aaaa11112222"


async def asked(s: Stage, **fields: object) -> NewSurface:
    """A turn that waits for an approval, and its card."""
    await s.say("go")
    session = await s.session_of()
    pending = s.sessions.ask(session, REQUEST, **fields)
    return await s.card(session_id=session, turn_id=pending.turn_id, request_id=REQUEST)


def resolved(s: Stage) -> list[ops.Op]:
    """Decisions that were submitted, each once."""
    seen = {submission: op for _, op, submission in s.sessions.submitted if isinstance(op, ops.ResolveApproval)}
    return list(seen.values())


async def test_approve(tmp_path: Path) -> None:
    """An approver's press approves exactly that request, and the acknowledgement says so."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        assert await s.press(card, Letter.APPROVE) == Text(text="Approved.")
        assert resolved(s) == [ops.ResolveApproval(request_id=REQUEST, decision=Approve(), decided_by=OWNER)]
        [(kind, who, detail)] = await s.audit("pressed")
        assert (kind, who) == ("pressed", OWNER)
        assert '"result":"resolved"' in detail


async def test_allow_for_session(tmp_path: Path) -> None:
    """The session letter submits the wider decision."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        assert await s.press(card, Letter.SESSION) == Text(text="Allowed for this session.")
        assert [op.decision for op in resolved(s)] == [ApproveForSession()]


async def test_deny_asks_for_a_reason(tmp_path: Path) -> None:
    """Deny opens a form; what is filled in denies the request, with the reason for the agent."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        form = await s.press(card, Letter.DENY)
        assert isinstance(form, Form)
        assert form.token == payload(card.token, Letter.DENY)
        assert form.presets[0] == ("", "No reason")
        assert resolved(s) == []
        answer = await s.press(card, Letter.DENY, kind=InboundKind.FORM, fields={"reason": "wrong file"})
        assert answer == Text(text="Denied.")
        assert [op.decision for op in resolved(s)] == [Deny("wrong file")]


async def test_form_without_a_chat_is_found_by_its_token(tmp_path: Path) -> None:
    """Slack's forms do not say where they were opened."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        nowhere = replace(s.message("").place, chat="")
        answer = await s.press(card, Letter.DENY, nowhere, None, kind=InboundKind.FORM, text="no")
        assert answer == Text(text="Denied.")


async def test_deny_without_forms_denies(tmp_path: Path) -> None:
    """Where the platform has no forms, Deny denies at once."""
    async with stage(tmp_path) as s:
        s.adapter.capabilities = Capabilities()
        card = await asked(s)
        assert await s.press(card, Letter.DENY) == Text(text="Denied.")
        assert [op.decision for op in resolved(s)] == [Deny()]


async def test_deny_of_a_decided_request_opens_no_form(tmp_path: Path) -> None:
    """Nobody is asked for the reason of something that is over."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        await s.press(card, Letter.APPROVE)
        answer = await s.press(card, Letter.DENY)
        assert answer == Text(text="Already approved by Ann at 08:00 UTC.", alert=True)


async def test_second_press_is_told_who_decided(tmp_path: Path) -> None:
    """After the decision a press learns the outcome, the decider's name and the time."""
    async with stage(tmp_path, Policy(owners=frozenset({OWNER, f"telegram:{BOB}"}))) as s:
        card = await asked(s)
        await s.press(card, Letter.APPROVE)
        answer = await s.press(card, Letter.APPROVE, sender=person(BOB, "Bob"))
        assert answer == Text(text="Already approved by Ann at 08:00 UTC.", alert=True)
        assert s.sessions.executed == [(REQUEST, Resolution.APPROVED)]


async def test_expired_and_unknown_requests_are_said_and_run_nothing(tmp_path: Path) -> None:
    """A press that comes too late, or for a request that is gone, gets the truth; the latter's card is closed."""
    async with stage(tmp_path) as s:
        card = await asked(s, expires_at_ms=s.clock.now_ms() + 1000)
        s.clock.advance(1)
        assert await s.press(card, Letter.APPROVE) == Text(text="Expired, not run.", alert=True)
        s.sessions.session(await s.session_of()).approval = None
        assert await s.press(card, Letter.APPROVE) == Text(text="This request is not open any more.", alert=True)
        row = await surfaces.by_token(s.database, card.token)
        assert row is not None
        assert row.state == "closed"
        assert s.sessions.executed == []


async def test_details_are_private(tmp_path: Path) -> None:
    """Details show the whole action to the approver: as an alert, or privately if it is longer."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        answer = await s.press(card, Letter.DETAILS)
        assert isinstance(answer, Text)
        assert answer.text.startswith("tool: write_file\nargument path: aaaa11112222")
        long = s.sessions.ask(await s.session_of(), REQUEST)
        action = replace(long.actions["c1"], arguments={"text": "x" * 300})
        s.sessions.session(await s.session_of()).approval = replace(long, actions={"c1": action})
        assert await s.press(card, Letter.DETAILS) == Text(text="Sent to you.", alert=True)
        assert "x" * 300 in (await s.told())[-1]


async def test_stop_is_bound_to_its_turn(tmp_path: Path) -> None:
    """A card's Stop ends the card's turn, and never a later one."""
    async with stage(tmp_path) as s:
        await s.say("one")
        session = await s.session_of()
        turn = s.sessions.session(session).turn.turn_id
        card = await s.card(kind="card", choices="x", session_id=session, turn_id=turn)
        assert await s.press(card, Letter.STOP) == Text(text="Stopping…", alert=True)
        await s.say("two")
        assert await s.press(card, Letter.STOP) == Text(text="Nothing is running.", alert=True)
        assert s.sessions.session(session).turn is not None


async def test_queued_words_are_promoted_and_removed(tmp_path: Path) -> None:
    """The two controls of a queued message act on it; once it waits no more they say so and are taken away."""
    async with stage(tmp_path) as s:
        await s.say("one")
        await s.say("/queue two")
        session = s.sessions.session(await s.session_of())
        [(token,)] = await s.rows("SELECT token FROM surfaces")
        row = await surfaces.by_token(s.database, token)
        assert row is not None
        now = s.clock.now_ms()
        await s.database.write([surfaces.going_out(row.id, now), surfaces.arrived(row.id, "card", None, now)])
        notice = NewSurface(token=token, kind="notice")
        assert await s.press(notice, Letter.PROMOTE) == Text(
            text="Will be taken up after the current step.", alert=True
        )
        assert [message.boundary.kind for message in session.queue] == ["steer"]
        assert await s.press(notice, Letter.REMOVE) == Text(text="This control is no longer in use.", alert=True)
        assert len(session.queue) == 1


async def test_removal_of_words_that_were_taken(tmp_path: Path) -> None:
    """Removing what is not there any more is told as it is."""
    async with stage(tmp_path) as s:
        await s.say("one")
        card = await s.card(kind="notice", choices="pq", session_id=await s.session_of(), request_id="in:77")
        assert await s.press(card, Letter.REMOVE) == Text(text="That message does not wait any more.", alert=True)


async def test_retry_and_continue(tmp_path: Path) -> None:
    """Retry asks the last words again, Continue goes on; both only when nothing runs, and once per card."""
    async with stage(tmp_path) as s:
        await s.say("one")
        session = await s.session_of()
        retry = await s.card(kind="notice", choices="rd", session_id=session, turn_id="t")
        assert await s.press(retry, Letter.RETRY) == Text(text="A turn is running already.", alert=True)
        s.sessions.finish(session)
        assert await s.press(retry, Letter.RETRY) == Text(text="Asked again.", alert=True)
        s.sessions.finish(session)
        assert await s.press(retry, Letter.RETRY) == Text(text="This control is no longer in use.", alert=True)
        go_on = await s.card(message_id="other", kind="notice", choices="k", session_id=session)
        await s.press(go_on, Letter.CONTINUE, message_id="other")
        assert s.sessions.texts() == ["one", "one", "Please go on."]


async def test_what_was_pressed_loses_its_buttons(tmp_path: Path) -> None:
    """The message of a stop keeps its words, and offers nothing any more once somebody went on."""
    async with stage(tmp_path) as s:
        await s.say("one")
        session = await s.session_of()
        s.sessions.finish(session)
        stopped = Notice(text="Stopped.", controls=(Control(label="Continue", token="x"),))
        new = NewSurface(token="t" * 22, kind="notice", choices="k", session_id=session, turn_id="t")
        plan = deliveries.plan(
            source="ev:1", surface="end", place=ANN_PRIVATE, views=[stopped], priority=Priority.CONTROL, now_ms=1,
            new_surface=new,
        )  # fmt: skip
        await s.database.write(plan)
        row = await surfaces.by_token(s.database, new.token)
        assert row is not None
        await s.database.write([surfaces.going_out(row.id, 1), surfaces.arrived(row.id, "9", None, 1)])
        await s.press(new, Letter.CONTINUE, message_id="9")
        [repair] = await deliveries.repairs(s.database, "telegram", "bot", "42")
        assert (repair.ref.id, repair.view) == ("9", Notice(text="Stopped."))


async def test_wrong_presser_changes_nothing(tmp_path: Path) -> None:
    """Somebody without the right is told privately who may decide; the card stays, and the press is written down."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        answer = await s.press(card, Letter.APPROVE, sender=person(BOB, "Bob"))
        assert answer == Text(text="Only Ann can decide this.", alert=True)
        assert resolved(s) == []
        row = await surfaces.by_token(s.database, card.token)
        assert row is not None
        assert row.state == "open"
        assert [row[:2] for row in await s.audit("press_refused")] == [("press_refused", f"telegram:{BOB}")]
        assert await s.press(card, Letter.APPROVE) == Text(text="Approved.")


async def test_four_eyes(tmp_path: Path) -> None:
    """Where the binding says so, whoever asked for something may not approve it; denying is possible."""
    async with stage(tmp_path, Policy(owners=frozenset({OWNER, f"telegram:{BOB}"})), fields={"four_eyes": True}) as s:
        card = await asked(s, requester=OWNER)
        assert await s.press(card, Letter.APPROVE) == Text(
            text="Somebody else has to decide this: it was asked for in your name.", alert=True
        )
        await s.say("/approve aaaa")
        assert resolved(s) == []
        assert await s.press(card, Letter.APPROVE, sender=person(BOB, "Bob")) == Text(text="Approved.")


async def test_four_eyes_count_everybody_who_spoke_in_the_turn(tmp_path: Path) -> None:
    """Whoever steered somebody else's turn asked for what it does: he may not approve that, and may deny it."""
    async with stage(tmp_path, fields={"four_eyes": True}) as s:
        card = await asked(s, requester=f"telegram:{BOB}")
        session = s.sessions.session(await s.session_of())
        assert session.turn is not None
        session.turn = replace(session.turn, principals=(f"telegram:{BOB}", OWNER))
        answer = await s.press(card, Letter.APPROVE)
        assert answer == Text(text="Somebody else has to decide this: it was asked for in your name.", alert=True)
        await s.say("/approve aaaa")
        assert resolved(s) == []
        await s.say("/deny aaaa")
        assert [type(op.decision) for op in resolved(s) if isinstance(op, ops.ResolveApproval)] == [Deny]


async def test_slow_outcome_is_acknowledged_without_content(tmp_path: Path) -> None:
    """After 2 s the platform is answered without content, exactly once; the truth follows privately."""
    async with stage(tmp_path, Policy(owners=frozenset({OWNER, f"telegram:{BOB}"}))) as s:
        card = await asked(s)
        await s.press(card, Letter.APPROVE)
        s.sessions.hold = asyncio.Event()
        await s.intake(s.press_on(card, Letter.APPROVE, s.message("").place, "card", person(BOB, "Bob")))
        await s.until(lambda: s.clock.sleeping)
        s.clock.advance(2)
        await s.until(lambda: len(s.adapter.acknowledged) == 2)
        s.sessions.hold.set()
        await s.settled()
        assert s.adapter.answers() == [Text(text="Approved."), None]
        assert (await s.told())[-1] == "Already approved by Ann at 08:00 UTC."


async def test_late_success_is_told_by_the_card_alone(tmp_path: Path) -> None:
    """A decision that took long needs no words of its own: the card shows it."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        s.sessions.failures = [STOPPED] * 2
        await s.intake(s.press_on(card, Letter.APPROVE, s.message("").place, "card", person()))
        for _ in range(3):
            await s.until(lambda: s.clock.sleeping)
            s.clock.advance(2)
        await s.settled()
        assert s.adapter.answers() == [None]
        assert await s.told() == []
        assert s.sessions.executed == [(REQUEST, Resolution.APPROVED)]


async def test_late_refusal_in_a_group_is_for_one_person(tmp_path: Path) -> None:
    """What has to be told late in a group is told privately where that is possible, else with the name in front."""
    async with stage(tmp_path, Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{BOB}"}))) as s:
        await s.say("go", GROUP)
        session = await s.session_of(GROUP)
        card = await s.card(GROUP, session_id=session, request_id=REQUEST)
        for capabilities in (Capabilities(ephemeral="any"), Capabilities()):
            s.adapter.capabilities = capabilities
            await s.stop()
            await s.intake(s.press_on(card, Letter.APPROVE, GROUP, "card", person(BOB, "Bob")))
            s.clock.advance(3)
            await s.restart()
            await s.settled()
        told = [view for view in await s.views() if isinstance(view, Private | Notice)]
        assert told == [
            Private(person=BOB, text="Only Ann can decide this."),
            Notice(text="Bob: Only Ann can decide this."),
        ]


async def test_press_during_a_restart_counts_once(tmp_path: Path) -> None:
    """A press that was stored before a crash is acted on after it, and the same press sent again does nothing."""
    async with stage(tmp_path) as s:
        card = await asked(s)
        await s.stop()
        press = s.press_on(card, Letter.APPROVE, s.message("").place, "card", person())
        await s.intake(press)
        await s.restart()
        await s.settled()
        await s.intake(press)
        await s.settled()
        assert s.sessions.executed == [(REQUEST, Resolution.APPROVED)]
        assert s.adapter.answers() == [Text(text="Approved.")]


async def test_adapter_that_cannot_acknowledge_does_no_harm(tmp_path: Path) -> None:
    """A failed acknowledgement, or an adapter that is not there, changes nothing of the decision."""

    async def fails(*_: object) -> None:
        raise OutcomeUnknown("no answer")

    async with stage(tmp_path) as s:
        card = await asked(s)
        s.adapter.acknowledge = fails  # type: ignore[method-assign]
        await s.intake(s.press_on(card, Letter.APPROVE, s.message("").place, "card", person()))
        await s.settled()
        s.platforms.one = None
        await s.intake(s.press_on(card, Letter.APPROVE, s.message("").place, "card", person()))
        await s.settled()
        assert s.sessions.executed == [(REQUEST, Resolution.APPROVED)]


async def test_message_whose_id_was_not_known_is_adopted(tmp_path: Path) -> None:
    """While the fate of a card is unknown, a press on it brings its id; from then on only that message counts."""
    async with stage(tmp_path) as s:
        await s.say("go")
        session = await s.session_of()
        s.sessions.ask(session, REQUEST)
        card = await s.card(message_id=None, session_id=session, request_id=REQUEST)
        assert isinstance(await s.press(card, Letter.DENY, message_id="found"), Form)
        row = await surfaces.by_token(s.database, card.token)
        assert row is not None
        assert row.message_id == "found"
        stale = Text(text="This control is no longer in use.", alert=True)
        assert await s.press(card, Letter.APPROVE, message_id="forged") == stale
        assert await s.press(card, Letter.APPROVE, message_id="found") == Text(text="Approved.")


async def test_old_message_without_its_thread(tmp_path: Path) -> None:
    """Telegram does not tell the thread of an old message; chat and message id are enough to know it."""
    topic = replace(GROUP, thread="7")
    async with stage(tmp_path) as s:
        await s.say("go", topic)
        session = await s.session_of(topic)
        s.sessions.ask(session, REQUEST)
        card = await s.card(topic, session_id=session, request_id=REQUEST)
        assert await s.press(card, Letter.APPROVE, GROUP) == Text(text="Approved.")


def test_every_letter_has_a_right() -> None:
    """No control is without a right."""
    assert set(RIGHTS) == set(Letter)
