"""What was said while we were not there: asked about, caught up with, or brought along."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from adapters.contract import Capabilities, Inbound, InboundKind, MessageRef, Notice, Place, SenderKind, Text
from adapters.errors import NotConnected, RateLimited
from gateway.access import Policy
from gateway.catching_up import CatchUp
from gateway.ledger import surfaces
from gateway.ledger.surfaces import Letter, NewSurface
from runtime.protocol.session import Quoted
from tests.support.intake import ANN_PRIVATE, BOB, EVE, GROUP, OWNER, Stage, person, stage, words

TOPIC = replace(GROUP, thread="7")
HISTORY = Capabilities(history_backfill=True, reactions=True)


async def away(s: Stage, hours: float, *said: str) -> None:
    """The gateway is down for so long; this was said right after it went down."""
    await s.stop()
    sent = s.clock.now_ms() + 1000
    s.clock.advance(hours * 3600)
    await s.restart()
    for text in said:
        await s.intake(s.message(text, sent_at_ms=sent))
    await s.settled()


async def question(s: Stage) -> NewSurface:
    """The question that was asked, as if it had been sent."""
    [(token, id)] = await s.rows("SELECT token, id FROM surfaces")
    now = s.clock.now_ms()
    await s.database.write([surfaces.going_out(id, now), surfaces.arrived(id, "card", None, now)])
    return NewSurface(token=token, kind="notice")


async def test_old_words_are_asked_about_once(tmp_path: Path) -> None:
    """After a long absence nobody is surprised by old answers: one question stands for all that waited."""
    async with stage(tmp_path) as s:
        await s.say("before")
        await away(s, 2, "one", "two")
        assert s.sessions.texts() == ["before"]
        asked = [view for view in await s.views() if isinstance(view, Notice)]
        assert [(n.text, n.notify, [c.label for c in n.controls]) for n in asked] == [
            ("I was offline when you wrote this. Answer now?", True, ["Answer now"])
        ]
        await s.say("and now")
        card = await question(s)
        assert await s.press(card, Letter.CONTINUE) == Text(text="Answering now.", alert=True)
        assert [(text, submission) for text, submission in submitted(s)] == [
            ("before", "in:1"),
            ("and now", "in:4"),
            ("one", "in:2"),
            ("two", "in:3"),
        ]
        assert (await s.outcomes())[1:3] == ["answered_late", "answered_late"]
        assert await s.press(card, Letter.CONTINUE) == Text(text="This control is no longer in use.", alert=True)


def submitted(s: Stage) -> list[tuple[str, str]]:
    """Words and the ids under which they were submitted."""
    return [(op.text, submission) for _, op, submission in s.sessions.submitted if hasattr(op, "text")]


async def test_old_words_are_authorised_and_placed_once_more(tmp_path: Path) -> None:
    """Whoever may not talk any more is not answered; everybody else's words go to the session of their own place."""
    bob, eve = f"telegram:{BOB}", f"telegram:{EVE}"
    policy = Policy(owners=frozenset({OWNER}), users=frozenset({bob, eve}))
    async with stage(tmp_path, policy, fields={"scope": "per_person"}) as s:
        await s.say("before", GROUP)
        await s.stop()
        sent = s.clock.now_ms() + 1000
        s.clock.advance(2 * 3600)
        await s.restart()
        for text, who in (("bob's", BOB), ("eve's", EVE), ("eve's too", EVE)):
            await s.intake(s.message(text, GROUP, person(who), sent_at_ms=sent))
        await s.settled()
        card = await question(s)
        s.access.replace(Policy(owners=frozenset({OWNER}), users=frozenset({eve})))
        assert await s.press(card, Letter.CONTINUE, GROUP) == Text(text="Answering now.", alert=True)
        assert s.sessions.texts() == ["before", "eve's", "eve's too"]
        bound = await s.bound()
        assert sorted(who for _, _, who in bound) == ["42", EVE]
        assert [to for to, op, _ in s.sessions.submitted if hasattr(op, "text")][1:] == [bound["-100", "", EVE]] * 2
        assert (await s.outcomes())[1:4] == ["refused", "answered_late", "answered_late"]


async def test_nobody_is_left_to_be_answered(tmp_path: Path) -> None:
    """If nobody who wrote may talk any more, no session begins, nothing is submitted, and the question is over."""
    bob = f"telegram:{BOB}"
    policy = Policy(owners=frozenset({OWNER}), users=frozenset({bob}))
    async with stage(tmp_path, policy, fields={"scope": "per_person"}) as s:
        await s.say("before", GROUP)
        await s.stop()
        sent = s.clock.now_ms() + 1000
        s.clock.advance(2 * 3600)
        await s.restart()
        await s.intake(s.message("bob's", GROUP, person(BOB), sent_at_ms=sent))
        await s.settled()
        card = await question(s)
        s.access.replace(Policy(owners=frozenset({OWNER})))
        words = "Whoever wrote this may not talk to me any more."
        assert await s.press(card, Letter.CONTINUE, GROUP) == Text(text=words, alert=True)
        assert s.sessions.texts() == ["before"]
        assert (await s.outcomes())[1] == "refused"
        assert len(await s.bound()) == 1


async def test_short_absence_asks_nothing(tmp_path: Path) -> None:
    """What waited for less than an hour is simply answered, and so is a command however old it is."""
    async with stage(tmp_path) as s:
        await s.say("before")
        await away(s, 0.5, "one")
        await away(s, 5, "/usage")
        assert s.sessions.texts() == ["before", "one"]
        assert (await s.outcomes())[-1] == "usage"


async def test_wrong_clock_of_a_platform_asks_nothing(tmp_path: Path) -> None:
    """Only words from the gap that we know of are asked about: a platform that lives in another time is answered."""
    async with stage(tmp_path) as s:
        await s.say("first of all", sent_at_ms=1000)
        await s.restart()
        await s.say("long ago", sent_at_ms=2000)
        await s.say("no time at all", sent_at_ms=0)
        assert s.sessions.texts() == ["first of all", "long ago", "no time at all"]


class Past:
    """An adapter that remembers what was said."""

    platform, account = "telegram", "bot"

    def __init__(self, said: list[Inbound], capabilities: Capabilities = HISTORY) -> None:
        self.said = said
        self.capabilities = capabilities
        self.asked: list[tuple[Place, MessageRef | None]] = []
        self.errors: list[Exception] = []

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """What was said in the place after that message."""
        self.asked.append((place, since))
        if self.errors:
            raise self.errors.pop(0)
        here = [one for one in self.said if one.place == place]
        refs = [one.ref for one in here]
        return tuple(here[refs.index(since) + 1 :] if since in refs else here)


async def test_first_mention_brings_the_thread_along(tmp_path: Path) -> None:
    """What listed people had said in the thread comes along as data; strangers and bots do not."""
    bob, eve, bot = person(BOB, "Bob"), person(EVE, "Eve"), person("9", "Bot", kind=SenderKind.BOT)
    earlier = [words(f"said {n}", TOPIC, who, key=f"old{n}") for n, who in enumerate((bob, eve, bot, person()))]
    mention = words("@bot what do you think?", TOPIC, key="mention")
    async with stage(tmp_path) as s:
        s.platforms.one = Past([*earlier, mention])  # type: ignore[assignment]
        await s.intake(mention)
        await s.settled()
        await s.say("and now?", TOPIC)
        first, second = s.sessions.messages()
        assert first.quoted == (
            Quoted(source="history", author="Bob (43)", text="said 0"),
            Quoted(source="history", author="Ann (42)", text="said 3"),
        )
        assert second.quoted == ()


async def test_thread_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """Without the history the words still arrive; without threads it is not asked for."""
    async with stage(tmp_path) as s:
        past = Past([])
        past.errors = [NotConnected("no")]
        s.platforms.one = past  # type: ignore[assignment]
        await s.say("@bot hi", TOPIC)
        await s.say("@bot hi", GROUP)
        assert s.sessions.texts() == ["@bot hi", "@bot hi"]
        assert past.asked == [(TOPIC, None)]


async def test_missed_words_are_taken_in(tmp_path: Path) -> None:
    """After connecting, bound threads are caught up from the last message that arrived; nothing comes twice."""
    async with stage(tmp_path) as s:
        heard = await s.say("@bot hi", TOPIC)
        await s.say("hello")
        missed = [words("missed", TOPIC, key="missed"), words("from a stranger", TOPIC, person(EVE, "Eve"), key="eve")]
        past = Past([heard, *missed])
        catching_up = CatchUp(s.database, s.intake, s.clock)
        assert await catching_up.run(past) == 2  # type: ignore[arg-type]
        await s.settled()
        await catching_up.run(past)  # type: ignore[arg-type]
        await s.settled()
        assert s.sessions.texts() == ["@bot hi", "hello", "missed"]
        assert [place for place, _ in past.asked[:2]] == [ANN_PRIVATE, TOPIC]
        assert past.asked[1][1] == heard.ref


async def test_catching_up_is_patient_and_modest(tmp_path: Path) -> None:
    """A platform that asks for patience is asked again, one that fails leaves its thread out."""
    async with stage(tmp_path) as s:
        await s.say("@bot hi", TOPIC)
        past = Past([words("missed", TOPIC, key="missed")])
        past.errors = [RateLimited("slowly", retry_after=0)]
        catching_up = CatchUp(s.database, s.intake, s.clock)
        assert await catching_up.run(past) == 1  # type: ignore[arg-type]
        past.errors = [NotConnected("no")]
        assert await catching_up.run(past) == 0  # type: ignore[arg-type]
        assert await catching_up.run(Past([], Capabilities())) == 0  # type: ignore[arg-type]


async def test_what_is_said_now_waits_for_what_was_missed(tmp_path: Path) -> None:
    """A live message never overtakes the missed ones of its thread, so that a crash between them hides none."""
    async with stage(tmp_path) as s:
        heard = await s.say("@bot hi", TOPIC)
        live, elsewhere = words("now", TOPIC, key="now"), words("@bot hi", GROUP, key="elsewhere")
        catching_up = CatchUp(s.database, s.intake, s.clock)
        reading, go_on = asyncio.Event(), asyncio.Event()

        class Slow(Past):
            async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
                reading.set()
                await go_on.wait()
                return await super().backfill(place, since)

        async def arrives(one: Inbound) -> None:
            await catching_up.turn_of(one)
            await s.intake(one)

        early = asyncio.create_task(arrives(live))  # before it is even known which threads there are
        caught_up = asyncio.create_task(catching_up.run(Slow([heard, words("missed", TOPIC, key="missed")])))  # type: ignore[arg-type]
        await reading.wait()
        await arrives(elsewhere)  # another thread has nothing to wait for
        await arrives(replace(live, kind=InboundKind.PRESS, keys=("press",), handle="h", token="t"))
        assert not early.done()
        go_on.set()
        await asyncio.gather(early, caught_up)
        await s.settled()
        assert s.sessions.texts()[-2:] == ["missed", "now"]
        await arrives(words("later", TOPIC, key="later"))


async def test_nobody_waits_for_a_platform_that_is_given_up(tmp_path: Path) -> None:
    """At the end everything that waits is let go."""
    async with stage(tmp_path) as s:
        catching_up = CatchUp(s.database, s.intake, s.clock)
        waiting = asyncio.create_task(catching_up.turn_of(words("now", TOPIC, key="now")))
        await asyncio.sleep(0)
        assert not waiting.done()
        catching_up.end()
        await waiting
