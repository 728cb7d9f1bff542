"""`/cron` in a chat: who may, what is said, and that a reply goes on with what a run has posted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import MessageRef, Notice, Place
from gateway.access import Policy
from gateway.budget import Priority
from gateway.ledger import deliveries
from gateway.schedules import ledger
from gateway.schedules.schedule import Misfire, Overlap, RunState, State
from tests.support.intake import ANN_PRIVATE, BOB, GROUP, OWNER, CrashAt, person
from tests.support.scheduling import DAY, HOUR, Timetable, timetable

ADD = '/cron add "0 9 * * 1-5" tz=Europe/Berlin name=Report write it'


@pytest.fixture
async def t(tmp_path: Path):
    async with timetable(tmp_path) as made:
        yield made


async def told(t: Timetable, text: str, place: Place = ANN_PRIVATE, who: str = "42") -> str:
    """Say it, and what was answered."""
    before = len(await t.stage.told())
    await t.stage.say(text, place, person(who))
    return "\n".join((await t.stage.told())[before:])


async def test_what_is_made_is_told_whole(t: Timetable) -> None:
    """Times in words, the next three runs in the reader's zone, place, workspace, whose rights, and the words."""
    assert await told(t, ADD) == (
        "Made schedule #1:\ncron · Report (#1)\nAt 09:00 on Monday through Friday (Europe/Berlin)\n"
        "Next: Mon 2027-01-18 08:00 UTC; Tue 2027-01-19 08:00 UTC; Wed 2027-01-20 08:00 UTC\nIn: telegram:42\n"
        "Workspace: notes\nmisfire=latest overlap=skip announce=always unattended=ask\nWith the rights of: Ann\n"
        "Prompt: write it"
    )
    [made] = await ledger.every(t.database)
    assert (made.created_by, made.plan.target) == (OWNER, ANN_PRIVATE)
    assert [row[:2] for row in await t.stage.audit("schedule_created")] == [("schedule_created", OWNER)]
    assert "#1 cron · Report: At 09:00" in await told(t, "/cron")
    assert await told(t, "/cron history 1") == "cron · Report (#1), the newest first:\nIt has not run yet."


@pytest.mark.parametrize("point", ["intake.route.before", "intake.route.after", "intake.done.before"])
async def test_a_command_that_died_half_way_makes_one_schedule(t: Timetable, point: str) -> None:
    """The same message handled again is the same schedule."""
    await t.stage.stop()
    t.stage.faults = CrashAt(point)
    t.stage.build()
    await t.stage.start()
    await t.stage.intake(t.stage.message(ADD))
    await t.stage.crashed()
    t.stage.faults = CrashAt()
    await t.stage.restart()
    await t.stage.settled()
    assert len(await ledger.every(t.database)) == 1
    assert len(await t.stage.told()) == 1


async def test_who_may_not_approve_may_look_at_what_concerns_him(t: Timetable) -> None:
    """Not make or change, nor see what belongs to other chats; who talks to us at all has the list of his own chat."""
    await told(t, ADD)
    t.stage.access.replace(Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{BOB}"})))
    bob = Place(platform="telegram", account="bot", chat=BOB)
    for text in ("add every 2h go", "pause 1", "resume 1", "run 1", "edit 1 overlap=allow", "remove 1"):
        assert "You may not use /cron" in await told(t, f"/cron {text}", bob, BOB), text
    assert await told(t, "/cron list", bob, BOB) == "There are no schedules."
    assert "There is no schedule #1" in await told(t, "/cron show 1", bob, BOB)
    assert len(await ledger.every(t.database)) == 1


async def test_a_schedule_is_changed_and_its_past_stays(t: Timetable) -> None:
    """Options, time and words; what was due before under the old time keeps its row (C2)."""
    await told(t, "/cron add every 1h write it")
    assert "overlap=allow" in await told(t, "/cron edit 1 overlap=allow misfire=all")
    [made] = await ledger.every(t.database)
    assert (made.plan.overlap, made.plan.misfire) == (Overlap.ALLOW, Misfire.ALL)
    t.clock.advance(HOUR)  # due, and not looked at yet
    assert "prompt: new words" in (await told(t, '/cron edit 1 "0 12 * * *" new words')).lower()
    await t.runner.look()
    runs = await t.runs(made)
    assert [(run.due_at_ms - 1_800_000_000_000) / 3_600_000 for run in runs] == [1.0]
    await t.finish_all()
    await t.at(3 * HOUR)
    assert len(await t.runs(made)) == 2
    assert "changes nothing" in await told(t, "/cron edit 1 overlap=allow")
    assert "no option" in await told(t, "/cron edit 1 speed=9")
    assert "no workspace 'x'" in await told(t, "/cron edit 1 workspace=x")


async def test_pause_resume_run_and_remove(t: Timetable) -> None:
    """A paused one is not due, and what it missed counts for nothing; by hand it runs at once and says so (C10)."""
    await told(t, "/cron add every 1h go")
    [made] = await ledger.every(t.database)
    assert "paused" in await told(t, "/cron pause 1")
    assert "already" in await told(t, "/cron pause 1")
    await t.at(5 * HOUR)
    assert await t.states(made) == []
    assert "active" in await told(t, "/cron resume 1")
    await t.runner.look()
    assert await t.states(made) == []
    assert await told(t, "/cron run 1") == f"cron · go runs now: 1:{t.clock.now_ms()}"
    await t.runner.look()
    assert await t.states(made) == ["running"]
    assert "still runs" in await told(t, "/cron run 1")
    assert await told(t, "/cron remove 1") == "Schedule #1 is removed."
    await t.finish_all()
    await t.at(DAY)
    assert await ledger.every(t.database) == ()
    assert len(t.sessions.fired()) == 1
    assert "There is no schedule #1" in await told(t, "/cron show 1")


async def test_a_pause_cancels_what_waits(t: Timetable) -> None:
    """With the reason; what runs goes on."""
    await told(t, "/cron add every 1h jitter=30m go")
    [made] = await ledger.every(t.database)
    await t.at(HOUR)
    assert await t.states(made) == ["waiting"]
    await told(t, "/cron pause 1")
    [run] = await t.runs(made)
    assert (run.state, run.reason) == (RunState.CANCELLED, "paused")
    assert (await t.schedule(made)).state is State.PAUSED


async def test_a_target_is_known_or_refused(t: Timetable) -> None:
    """By name or id, if somebody who may was heard there; fixed then (C19)."""
    assert "I know no chat #ops" in await told(t, "/cron add every 2h in #ops go")
    await t.stage.say("hello", GROUP, person(), addressed=True, chat_title="Ops")
    assert "In: telegram:-100" in await told(t, "/cron add every 2h in #ops go")
    assert "In: telegram:-100/17" in await told(t, "/cron add every 2h in -100/17 go")
    await t.database.write(deliveries.give_up_chat(GROUP, "gone", 1))
    assert "takes nothing" in await told(t, "/cron add every 2h in -100 go")
    await t.database.write([deliveries.alive(GROUP), ledger.move_chat(GROUP, "-200")])
    assert {one.plan.target.chat for one in await ledger.every(t.database)} == {"-200"}


async def posted(t: Timetable, message: str = "77") -> str:
    """A run has posted its result as that message; its session."""
    await told(t, "/cron add every 1h go")
    await t.at(HOUR)
    [session] = [one for one in t.sessions.going_on if one.startswith("cron:")]
    place = (await t.stage.places.session(session)).place  # type: ignore[union-attr]
    unit = deliveries.plan(
        source=f"ev:{session}:9", surface="answer", place=place, views=[Notice(text="x")], priority=Priority.ANSWER,
        now_ms=1, session_id=session,
    )  # fmt: skip
    result = await t.database.write(unit)
    ref = MessageRef(platform="telegram", account="bot", chat="42", id=message)
    await t.database.write([deliveries.sent(result[0].rows[0][0], [ref], 2)])
    await t.finish_all()
    return session


async def test_an_answer_to_the_post_goes_on_with_the_run(t: Timetable) -> None:
    """And nothing else said there does; /new begins a next one there, which answers belong to from then on (C9)."""
    await t.stage.say("hello")
    own = await t.stage.session_of()
    session = await posted(t)
    ref = MessageRef(platform="telegram", account="bot", chat="42", id="77")
    await t.stage.say("why?", reply_to=ref)
    await t.stage.say("and else?")
    assert [(id, op.text) for id, op, _ in t.sessions.submitted if hasattr(op, "text")][-2:] == [
        (session, "why?"), (own, "and else?"),
    ]  # fmt: skip
    assert f"Session: {session}" in await told_in_reply(t, "/status", ref)
    assert "From: cron · go" in (await t.stage.told())[-1]
    await told_in_reply(t, "/new", ref)
    await t.stage.say("again", reply_to=ref)
    assert t.sessions.submitted[-1][0] not in (session, own)


async def told_in_reply(t: Timetable, text: str, ref: MessageRef) -> str:
    """The answer to a command that answers a message."""
    await t.stage.say(text, reply_to=ref)
    return (await t.stage.told())[-1]


async def test_in_a_topic_of_its_own_anything_said_goes_on(t: Timetable) -> None:
    """With the newest run, until the topic has a conversation of its own."""
    topic = Place(platform="telegram", account="bot", chat="-100", thread="17")
    await t.add("every 1h go", target=topic)
    await t.at(HOUR)
    [session] = t.sessions.going_on
    await t.finish_all()
    await t.stage.say("why?", topic, addressed=False)
    assert t.sessions.submitted[-1][0] == session


async def test_words_of_a_schedule_are_no_command(t: Timetable) -> None:
    """They go to the agent as they are, whatever they look like (S-32)."""
    await told(t, "/cron add every 1h prompt=/approve ap_1")
    await told(t, "/cron add every 1h prompt=/cron add every 1h more")
    await t.at(HOUR)
    assert sorted(op.text for _, op, _ in t.sessions.submitted) == ["/approve ap_1", "/cron add every 1h more"]
    assert len(await ledger.every(t.database)) == 2


async def test_one_made_in_a_topic_is_in_the_lists_of_others(t: Timetable) -> None:
    """What an approver made in a topic he finds in the chat around it and in private, by its origin (C25)."""
    await told(t, "/cron add every 2h name=Report go", replace(GROUP, thread="7"))
    for place in (GROUP, ANN_PRIVATE):
        assert "#1 cron · Report" in await told(t, "/cron list", place)
