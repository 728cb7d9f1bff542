"""S-10: whatever arrives takes effect at most once, and is not lost once the platform was told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import InboundKind, Place
from runtime.protocol import ops
from tests.support.intake import ANN_PRIVATE, OWNER, Crash, CrashAt, person, stage, words

SLACK = Place(platform="slack", account="A1.T1", chat="C1", thread="17.1")
SLACK_ANN = person("U1", tenant="T1")


async def test_same_update_at_once_and_again_and_after_a_restart(tmp_path: Path) -> None:
    """One update, delivered many times in every way, starts one turn."""
    async with stage(tmp_path) as s:
        update = s.message("hello", keys=("update 7",))
        await asyncio.gather(*(s.intake(update) for _ in range(20)))
        await s.settled()
        await s.intake(update)
        await s.restart()
        await s.intake(replace(update, sent_at_ms=1))
        await s.settled()
        assert s.sessions.texts() == ["hello"]
        assert s.sessions.session(await s.session_of()).turns == 1


async def test_death_after_the_acknowledgement(tmp_path: Path) -> None:
    """The process dies after the platform was told and before anything was done: it is done once after the start."""
    async with stage(tmp_path) as s:
        await s.stop()
        await s.intake(s.message("hello"))
        await s.restart()
        await s.settled()
        assert s.sessions.texts() == ["hello"]


async def test_death_before_the_acknowledgement(tmp_path: Path) -> None:
    """The process dies between the commit and the acknowledgement: the platform's repetition does nothing more."""
    async with stage(tmp_path, faults=CrashAt("intake.store.after")) as s:
        update = s.message("hello")
        with pytest.raises(Crash):
            await s.intake(update)
        await s.settled()
        await s.intake(update)
        await s.settled()
        assert s.sessions.texts() == ["hello"]


async def test_mention_that_comes_twice(tmp_path: Path) -> None:
    """Slack sends a mention as two events with one message, and repeats both: it is one turn."""
    async with stage(tmp_path) as s:
        s.access.replace(replace(s.access.policy, owners=frozenset({"slack:T1:U1"})))
        mention = words("hi", SLACK, SLACK_ANN, keys=("event Ev1", "message C1 17.1"), chat_kind="channel")
        message = replace(mention, keys=("event Ev2", "message C1 17.1"), addressed=False)
        for arriving in (mention, message, mention, message):
            await s.intake(arriving)
        await s.settled()
        assert s.sessions.texts() == ["hi"]


async def test_keys_are_kept_while_platforms_repeat(tmp_path: Path) -> None:
    """A week later the same key is still known, also of something that was not for us."""
    async with stage(tmp_path) as s:
        first = await s.say("hello")
        other = await s.say("lunch?", replace(ANN_PRIVATE, chat="-100"), addressed=False)
        s.clock.advance(7 * 24 * 3600)
        for again in (first, other):
            await s.intake(again)
        await s.settled()
        assert len(await s.outcomes()) == 2


KINDS: dict[InboundKind, dict[str, Any]] = {
    InboundKind.MESSAGE: {"text": "two"},
    InboundKind.COMMAND: {"command": "queue", "arguments": "two"},
    InboundKind.STOP: {},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_repetition_of_each_kind_submits_nothing_new(kind: InboundKind, tmp_path: Path) -> None:
    """Whatever can reach a session reaches it under one submission id, however often it arrives."""
    async with stage(tmp_path) as s:
        await s.say("one")
        arriving = words(key="again", kind=kind, sent_at_ms=s.clock.now_ms(), **KINDS[kind])
        for _ in range(3):
            await s.intake(arriving)
            await s.settled()
            await s.restart()
        submissions = [(type(op), submission) for _, op, submission in s.sessions.submitted[1:]]
        assert submissions == [(ops.Interrupt if kind is InboundKind.STOP else ops.Message, "in:2")]


async def test_submission_that_is_done_again_says_the_same(tmp_path: Path) -> None:
    """Done again after a crash, an op goes out under the id and to the session that were stored, not to the present."""
    async with stage(tmp_path) as s:
        await s.say("one")
        old = await s.session_of()
        await s.stop()
        s.faults = CrashAt("intake.submit.after")
        s.build()
        await s.start()
        await s.intake(s.message("two"))
        await s.crashed()
        s.faults = CrashAt()
        row = await s.places.find(s.message("x"))
        assert row is not None
        begun = s.places.begin_next(row, s.message("x"), OWNER, None, "by hand")
        await s.database.write(begun.statements)
        await s.restart()
        await s.settled()
        assert [
            (where, submission) for where, op, submission in s.sessions.submitted if isinstance(op, ops.Message)
        ] == [
            (old, "in:1"),
            (old, "in:2"),
            (old, "in:2"),
        ]
        assert await s.outcomes() == ["turn", "steer"]
