"""Parts of an album or a paste become one message, also across a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.contract import InboundFile, InboundKind
from gateway.gathering import LONG_PART, Next, next_part, text_of
from gateway.ledger.inbound import InboundRow
from tests.support.intake import BOB, GROUP, Crash, CrashAt, Stage, person, stage, words

PHOTO = (InboundFile(id="p", name="p.jpg", media_type="image/jpeg", size=1),)
LONG = "x" * LONG_PART


async def rows_of(s: Stage) -> list[tuple[object, ...]]:
    """State, leader and submission of every row."""
    return await s.rows("SELECT state, leader, submission_id FROM inbound ORDER BY id")


async def test_paste_in_parts_is_one_message(tmp_path: Path) -> None:
    """Parts that follow a long part within 1.5 s are one message, joined as they were cut."""
    async with stage(tmp_path) as s:
        for taken, part in enumerate((LONG, "y" * LONG_PART), 1):
            await s.intake(s.message(part))
            await s.until(lambda n=taken: s.router.held == n)
            s.clock.advance(1.4)
        await s.intake(s.message("tail"))
        await s.settled()
        assert s.sessions.texts() == [LONG + "y" * LONG_PART + "tail"]
        assert await rows_of(s) == [("done", None, "in:1"), ("done", 1, "in:1"), ("done", 1, "in:1")]


async def test_long_message_alone_waits_and_goes(tmp_path: Path) -> None:
    """A long message that nothing follows is taken after 1.5 s."""
    async with stage(tmp_path) as s:
        await s.intake(s.message(LONG))
        await s.until(lambda: s.clock.sleeping)
        s.clock.advance(1.5)
        await s.settled()
        await s.say("later")
        assert s.sessions.texts() == [LONG, "later"]


async def test_short_words_do_not_wait(tmp_path: Path) -> None:
    """An ordinary message is taken at once: no time has to pass."""
    async with stage(tmp_path) as s:
        await s.say("hi")
        assert s.sessions.texts() == ["hi"]


async def test_album_is_one_message(tmp_path: Path) -> None:
    """Files with one album id are one message; captions are paragraphs. Another album is another message."""
    async with stage(tmp_path) as s:
        for text, album in (("first", "a"), ("", "a"), ("second", "a"), ("other", "b")):
            await s.intake(s.message(text, album=album, files=PHOTO))
        await s.until(lambda: s.clock.sleeping)
        s.clock.advance(0.3)
        await s.settled()
        assert s.sessions.texts() == ["first\n\nsecond", "other"]


async def test_others_may_speak_between_two_parts(tmp_path: Path) -> None:
    """Gathering is per place and sender: another person's words stand between two parts and stay apart."""
    async with stage(tmp_path) as s:
        await s.intake(s.message(LONG, GROUP))
        await s.intake(s.message("me too", GROUP, person(BOB, "Bob")))
        await s.intake(s.message("tail", GROUP))
        await s.settled()
        assert s.sessions.texts() == [LONG + "tail", "me too"]


async def test_control_does_not_wait_for_parts(tmp_path: Path) -> None:
    """A command closes what is being gathered in its place: it is neither delayed nor overtaken."""
    async with stage(tmp_path) as s:
        await s.intake(s.message(LONG))
        await s.intake(s.message("stop", kind=InboundKind.COMMAND, command="stop"))
        await s.settled()
        assert s.sessions.texts() == [LONG]
        assert await s.marks() == ["accepted"]


async def test_restart_groups_alike(tmp_path: Path) -> None:
    """Parts that were stored before a restart are grouped after it as they would have been without it."""
    async with stage(tmp_path) as s:
        await s.stop()
        for text in (LONG, "y" * LONG_PART):
            await s.intake(s.message(text))
        s.clock.advance(60)
        await s.restart()
        await s.until(lambda: s.clock.sleeping)
        await s.intake(s.message("tail", sent_at_ms=s.clock.now_ms() - 60_000))  # sent with the others, stored late
        await s.settled()
        assert s.sessions.texts() == [LONG + "y" * LONG_PART + "tail"]


async def test_group_that_was_closed_stays_closed(tmp_path: Path) -> None:
    """After a crash behind the routing commit, the parts that were routed together are submitted together again."""
    async with stage(tmp_path, faults=CrashAt("intake.route.after")) as s:
        await s.intake(s.message(LONG))
        await s.intake(s.message("tail"))
        await s.crashed()
        assert await rows_of(s) == [("routed", None, "in:1"), ("routed", 1, "in:1")]
        s.faults = CrashAt()
        await s.restart()
        await s.intake(s.message("next"))
        await s.settled()
        assert s.sessions.texts() == [LONG + "tail", "next"]


def row(number: int, text: str = "", principal: str = "a", at_ms: int = 0, **fields: object) -> InboundRow:
    """A stored row, as far as grouping looks at it."""
    return InboundRow(id=number, inbound=words(text, **fields), principal=principal, received_at_ms=at_ms)  # type: ignore[arg-type]


PARTS: list[tuple[str, InboundRow, list[InboundRow], int | Next]] = [
    ("a short message stands alone", row(1, "hi"), [row(2, "there")], Next.CLOSED),
    ("a command stands alone", row(1, "/new " + LONG), [row(2, "x")], Next.CLOSED),
    ("nothing there yet", row(1, LONG), [], Next.NOTHING),
    ("the next part", row(1, LONG), [row(2, "x", at_ms=1500)], 0),
    ("too late", row(1, LONG), [row(2, "x", at_ms=1501)], Next.CLOSED),
    ("a command is no part", row(1, LONG), [row(2, "/new")], Next.CLOSED),
    ("somebody else is skipped", row(1, LONG), [row(2, "x", "b"), row(3, "y")], 1),
    ("a forward is no part", row(1, LONG), [row(2, "x", forwarded=True)], Next.CLOSED),
    ("another album", row(1, album="a"), [row(2, album="b")], Next.CLOSED),
    ("the same album", row(1, album="a"), [row(2, album="a", at_ms=9999)], 0),
    ("text does not join an album", row(1, LONG, album="a"), [row(2, "x")], Next.CLOSED),
    ("a press closes", row(1, LONG), [row(2, kind=InboundKind.PRESS, principal="b"), row(3, "x")], Next.CLOSED),
]


@pytest.mark.parametrize(("last", "waiting", "expected"), [p[1:] for p in PARTS], ids=[p[0] for p in PARTS])
def test_what_goes_on_with_what(last: InboundRow, waiting: list[InboundRow], expected: int | Next) -> None:
    """Which row is the next part, whether one may still come, or that the message is whole."""
    assert next_part(last, waiting) == expected


def test_parts_lose_nothing() -> None:
    """A paste is joined as it was cut; captions become paragraphs, and silent files add none."""
    assert text_of([row(1, "ab"), row(2, "c d")]) == "abc d"
    assert text_of([row(1, "a", album="x"), row(2, "", album="x"), row(3, "b", album="x")]) == "a\n\nb"


def test_crash_is_no_exception() -> None:
    """The tests' crash passes every handler that catches exceptions."""
    assert not issubclass(Crash, Exception)
