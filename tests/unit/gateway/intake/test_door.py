"""The door: what is stored, what is refused, and what either costs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import InboundKind, Notice, SenderKind, Text
from gateway.access import Policy
from gateway.ledger.database import Database, Unit
from gateway.ledger.surfaces import Letter
from runtime.errors import CheckpointError
from runtime.store.writer import Result, Statement
from tests.support.intake import ANN_PRIVATE, EVE, GROUP, Stage, person, stage

EVES = replace(ANN_PRIVATE, chat=EVE)


async def test_stored_when_the_call_returns(tmp_path: Path) -> None:
    """On return the row is on disk, before anything has looked at it."""
    async with stage(tmp_path) as s:
        await s.stop()
        await s.intake(s.message("hello"))
        assert await s.rows("SELECT id, state, kind, principal FROM inbound") == [
            (1, "stored", "message", "telegram:42")
        ]


async def test_same_thing_under_any_of_its_keys(tmp_path: Path) -> None:
    """A second arrival under any known key has no effect, and its other keys are known from then on."""
    async with stage(tmp_path) as s:
        await s.say("hello", keys=("event 1", "message 7"))
        await s.say("hello", keys=("event 2", "message 7"))
        await s.say("hello", keys=("event 2",))
        await s.say("other", keys=("event 3",))
        assert s.sessions.texts() == ["hello", "other"]
        assert await s.rows("SELECT event_key, inbound_id FROM inbound_keys ORDER BY event_key") == [
            ("event 1", 1),
            ("event 2", 1),
            ("event 3", 2),
            ("message 7", 1),
        ]


async def test_key_of_another_account_is_another_thing(tmp_path: Path) -> None:
    """Keys are the platform's own, per account."""
    async with stage(tmp_path) as s:
        await s.say("hello", keys=("1",))
        await s.say("hello", replace(ANN_PRIVATE, account="other"), keys=("1",))
        assert await s.outcomes() == ["turn", "turn"]


async def test_failed_store_raises(tmp_path: Path) -> None:
    """If it cannot be stored the call raises, so that the platform sends it again; then it is taken once."""
    async with stage(tmp_path) as s:
        await s.database.write(
            [
                Statement(
                    "CREATE TRIGGER full BEFORE INSERT ON inbound BEGIN SELECT RAISE(ABORT, 'refused by the test'); END"
                )
            ]
        )
        said = s.message("hello")
        with pytest.raises(CheckpointError):
            await s.intake(said)
        await s.database.write([Statement("DROP TRIGGER full")])
        await s.intake(said)
        await s.settled()
        assert s.sessions.texts() == ["hello"]


async def test_cancelled_caller_loses_nothing(tmp_path: Path) -> None:
    """An adapter that is cancelled while it waits for the store finds its message taken once."""
    async with stage(tmp_path) as s:
        said = s.message("hello")
        calling = asyncio.create_task(s.intake(said))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await s.intake(said)
        await s.settled()
        assert s.sessions.texts() == ["hello"]


async def test_order_of_a_place_is_kept(tmp_path: Path) -> None:
    """What was said in one place is handled in the order in which it arrived, also if it arrived at once."""
    async with stage(tmp_path) as s:
        await asyncio.gather(*(s.intake(s.message(str(n))) for n in range(40)))
        await s.settled()
        submissions = [(op.text, submission) for _, op, submission in s.sessions.submitted]
        assert submissions == [(str(n), f"in:{n + 1}") for n in range(40)]


async def test_stranger_costs_one_audit_row_an_hour(tmp_path: Path) -> None:
    """A stranger leaves one audit row and is refused once an hour, however often he writes, also after a restart."""
    async with stage(tmp_path) as s:
        for _ in range(5):
            await s.say("hello", EVES, person(EVE, "Eve"))
        await s.restart()
        await s.say("hello", EVES, person(EVE, "Eve"))
        assert [row[:2] for row in await s.audit()] == [("refused", f"telegram:{EVE}")]
        assert await s.planned() == [(EVES, Notice(text="You are not allowed to use this bot here."))]
        s.clock.advance(3600)
        await s.say("hello", EVES, person(EVE, "Eve"))
        assert len(await s.audit()) == len(await s.planned()) == 2
        for table in ("inbound", "inbound_keys", "places", "place_sessions", "people", "surfaces"):
            assert await s.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_stranger_in_a_group_is_not_answered(tmp_path: Path) -> None:
    """In a group nobody is told that he may not; what is not said to us is not even written down."""
    async with stage(tmp_path) as s:
        await s.say("hi all", GROUP, person(EVE, "Eve"), addressed=False)
        assert await s.audit() == []
        await s.say("@bot hi", GROUP, person(EVE, "Eve"))
        assert [row[0] for row in await s.audit()] == ["refused"]
        assert await s.planned() == []


async def test_stranger_who_presses_is_refused_once(tmp_path: Path) -> None:
    """A stranger's press gets the refusal as its acknowledgement, once an hour; the others get nothing."""
    async with stage(tmp_path) as s:
        card = await s.card(GROUP)
        for _ in range(3):
            await s.intake(s.press_on(card, Letter.APPROVE, GROUP, "card", person(EVE, "Eve")))
        await s.until(lambda: s.adapter.acknowledged)
        await s.settled()
        assert s.adapter.answers() == [Text(text="You are not allowed to use this bot here.", alert=True)]
        assert await s.outcomes() == []


async def test_lost_right_counts_when_the_row_is_taken(tmp_path: Path) -> None:
    """Words that were let in and stored are not submitted once their author has lost the right."""
    async with stage(tmp_path) as s:
        await s.stop()
        await s.intake(s.message("hello"))
        s.access.replace(Policy())
        await s.restart()
        await s.settled()
        assert s.sessions.submitted == []
        assert await s.outcomes() == ["refused"]
        assert await s.told() == ["You may not use this bot any more, so nothing was done."]


async def test_group_that_becomes_a_supergroup_keeps_its_session(tmp_path: Path) -> None:
    """A migration moves places, rows that wait and what is to be sent in one transaction; again is harmless."""
    new = replace(GROUP, chat="-200")
    async with stage(tmp_path) as s:
        await s.say("one", GROUP)
        session = await s.session_of(GROUP)
        await s.card(GROUP)
        await s.stop()
        await s.intake(s.message("two", GROUP))
        moved = s.message("", GROUP, person(EVE, "Eve"), kind=InboundKind.CHAT_MIGRATED, moved_to="-200")
        await s.intake(moved)
        await s.restart()
        await s.settled()
        await s.intake(moved)
        await s.say("three", new)
        assert await s.bound() == {("-200", "", ""): session}
        assert s.sessions.texts() == ["one", "two", "three"]
        assert await s.rows("SELECT chat FROM surfaces") == [("-200",)]
        assert await s.rows("SELECT DISTINCT chat FROM deliveries") == [("-200",)]
        assert [row[0] for row in await s.audit("chat_moved")] == ["chat_moved"]


async def test_migration_of_an_unknown_chat_leaves_nothing(tmp_path: Path) -> None:
    """A stranger's group that moves is nothing to us."""
    async with stage(tmp_path) as s:
        await s.say("", GROUP, person(EVE, "Eve"), kind=InboundKind.CHAT_MIGRATED, moved_to="-200")
        assert await s.audit() == []
        assert await s.outcomes() == []


async def test_names_are_remembered_for_people_to_read(tmp_path: Path) -> None:
    """The name under which somebody was seen last is known, on one line; it is written only when it changes."""
    async with stage(tmp_path) as s:
        await s.say("one", sender=person(name="Ann\u202e \n Smith"))
        await s.say("two", sender=person(name="Ann Smith"))
        assert await s.desk.name("telegram:42") == "Ann Smith"
        assert await s.desk.name("telegram:1") == "telegram:1"


async def test_malformed_is_refused_for_good(tmp_path: Path) -> None:
    """What lacks a key, an id or a part of its place is refused and not asked for again."""
    async with stage(tmp_path) as s:
        for broken in (
            s.message("x", keys=()),
            s.message("x", keys=("",)),
            s.message("x", replace(ANN_PRIVATE, chat="")),
            s.message("x", replace(ANN_PRIVATE, thread="")),
            s.message("x", replace(ANN_PRIVATE, account="")),
            s.message("x", sender=person("")),
            s.message("x", replace(ANN_PRIVATE, platform="slack"), person("U1")),
        ):
            await s.intake(broken)
        assert await s.outcomes() == []
        assert await s.planned() == []


async def test_unknown_kind_leaves_nothing(tmp_path: Path) -> None:
    """A kind that nobody knows is refused, whoever sends it."""
    async with stage(tmp_path) as s:
        await s.intake(s.message("x", kind=InboundKind.OTHER))
        assert await s.outcomes() == []


class Counting:
    """A database that counts its writes."""

    def __init__(self, database: Database) -> None:
        self.read = database.read
        self._write = database.write
        self.writes = 0

    async def write(self, unit: Unit) -> list[Result]:
        """Count it, and do it."""
        self.writes += 1
        return await self._write(unit)


async def flood(s: Stage, strangers: int) -> None:
    """That many strangers write ten times each."""
    for _ in range(10):
        for number in range(strangers):
            sender = person(str(1000 + number), "x", kind=SenderKind.PERSON)
            await s.intake(s.message("spam", replace(ANN_PRIVATE, chat=str(1000 + number)), sender))


async def test_strangers_cannot_fill_the_disk(tmp_path: Path) -> None:
    """What strangers cost is bounded by their number, not by what they send: rows, and writes too."""
    async with stage(tmp_path) as s:
        counting = s.intake._database = Counting(s.database)  # type: ignore[assignment]
        await flood(s, 20)
        assert counting.writes == 40
        assert len(await s.audit()) == 20
        assert len(await s.planned()) == 20


async def test_press_without_a_place_is_answered(tmp_path: Path) -> None:
    """A press that the platform cannot place any more is told so if its sender is one of ours, and does nothing."""
    async with stage(tmp_path) as s:
        card = await s.card()
        nowhere = replace(ANN_PRIVATE, chat="")
        await s.intake(s.press_on(card, Letter.APPROVE, nowhere, None, person()))
        await s.intake(s.press_on(card, Letter.APPROVE, nowhere, None, person(EVE, "Eve")))
        await s.until(lambda: s.adapter.acknowledged)
        assert s.adapter.answers() == [Text(text="This control is no longer in use.", alert=True)]
        assert await s.outcomes() == []


async def test_group_that_moves_while_words_wait(tmp_path: Path) -> None:
    """Words that were taken, and are not routed yet, follow their group; none begins a session in the old one."""
    new = replace(GROUP, chat="-200")
    async with stage(tmp_path) as s:
        await s.say("one", GROUP)
        session = await s.session_of(GROUP)
        await s.intake(s.message("x" * 3500, GROUP))
        await s.until(lambda: s.router.held == 1 and s.clock.sleeping)
        await s.intake(s.message("", GROUP, kind=InboundKind.CHAT_MIGRATED, moved_to="-200"))
        s.clock.advance(1.5)
        await s.until(lambda: s.clock.sleeping)  # read again after a pause
        s.clock.advance(0.5)
        await s.settled()
        assert await s.bound() == {("-200", "", ""): session}
        assert [place for place, _ in await s.planned()] == [new]
