"""Discord: mention, thread, approval, answer over real sockets, with the gateway killed at points on the way."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from adapters.emulators.client import ControlRefused
from tests.support.discord_reader import shown_in
from tests.support.sides import DISCORD, DISCORD_BOT, DISCORD_CHANNEL, DISCORD_OWNER, discord_buttons
from tests.support.world import World

REQUEST = f"<@{DISCORD_BOT}> note in todo.txt that the release is on Friday"

POINTS = [
    "intake.store.after:1",  # the mention is stored, and there is no thread
    "delivery.sent.before:1",  # the thread is open and the approval shown, and that is not recorded
    "intake.store.after:2",  # the press is stored
    "tool.run.after:1",  # it has had its effect, its result is not stored
]


@pytest.fixture
async def world(tmp_path: Path):
    async with World(tmp_path, side=DISCORD) as made:
        yield made


async def in_threads(world: World) -> list[dict[str, Any]]:
    """What the bot said in the threads of the channel, for everybody to see."""
    threads = await world.platform.call("threads", chat=DISCORD_CHANNEL)
    said = [message for thread in threads for message in await world.seen(thread["id"])]
    return [message for message in said if not message["flags"] & 64]


def asking(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests that still have their buttons."""
    return [message for message in messages if "Approve" in discord_buttons(message)]


def answers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that answer the request: the first answer of a session says who answers."""
    return [m for m in messages if not discord_buttons(m) and "built-in demo model" in shown_in(m)]


async def drive(world: World) -> None:
    """Be the person: mention the bot, press whatever Approve there is, and once more if the gateway died of it.

    A press that was made while nobody listened is lost on Discord, and has to be made again.
    """
    await world.say(REQUEST, chat=DISCORD_CHANNEL)
    pressed: set[tuple[str, int]] = set()

    async def answered() -> bool:
        if not world.alive:
            world.kills += 1
            await world.start()
        seen = await in_threads(world)
        for message in asking(seen):
            if world.alive and (message["id"], world.kills) not in pressed:
                pressed.add((message["id"], world.kills))
                with contextlib.suppress(ControlRefused):  # decided by an earlier press, and the buttons gone just now
                    await world.platform.press(DISCORD_OWNER, message["id"], button="Approve")
        return bool(answers(seen)) and world.alive

    await world.until(answered)
    await world.quiet()


@pytest.mark.e2e
@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at(world: World, point: str) -> None:
    """Whatever the instant: one thread, the tool ran once, the old button works, and one answer without a repeat."""
    await world.start(kill_at=point)
    await drive(world)
    assert world.kills == 1, f"the gateway never passed {point}"
    todo = world.workspace / "todo.txt"
    assert todo.read_text().count("release is on Friday") == 1, "the tool did not run exactly once"
    assert len(await world.platform.call("threads", chat=DISCORD_CHANNEL)) == 1, "not exactly one thread"
    seen = await in_threads(world)
    assert len(answers(seen)) == 1, "not answered exactly once"
    assert len([m for m in seen if "write_file" in shown_in(m)]) == 1, "asked more than once"
    assert not any("sent again" in shown_in(m) for m in seen), "a repeat, although Discord knows what it has"
    assert asking(seen) == [], "a decided request still has its buttons"
    assert world.rows("SELECT decision FROM approvals") == [("approved",)], "the approval was not decided once"
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_answer_in_flight_is_not_repeated(world: World) -> None:
    """Killed when the answer is out and that is not recorded: it is found again, and not sent again."""
    await world.start(kill_at="delivery.sent.before:1")
    await world.say(f"<@{DISCORD_BOT}> hello", chat=DISCORD_CHANNEL)

    async def answered() -> bool:
        if not world.alive:
            world.kills += 1
            await world.start()
        return world.kills == 1 and bool(answers(await in_threads(world)))

    await world.until(answered)
    await world.quiet()
    assert len(answers(await in_threads(world))) == 1
    assert not any("sent again" in shown_in(m) for m in await in_threads(world))
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_form_that_was_opened_before_the_kill_denies_after_it(world: World) -> None:
    """The reason that was asked for by one process is given to the next: denied, with the reason, and nothing ran."""
    await world.start()
    await world.say(REQUEST, chat=DISCORD_CHANNEL)

    async def asked() -> list[dict[str, Any]]:
        return asking(await in_threads(world))

    (card,) = await world.until(asked)
    press = await world.platform.press(DISCORD_OWNER, card["id"], button="Deny")

    async def opened() -> bool:
        answer = await world.platform.call("answer", interaction=press["id"])
        assert answer["state"] != "failed"
        return answer.get("type") == 9

    await world.until(opened)
    await world.kill()
    await world.start()
    values = {"reason": "not on a Friday"}
    await world.platform.call("submit", user=DISCORD_OWNER, interaction=press["id"], values=values)

    async def denied() -> bool:
        said = [shown_in(message) for message in await in_threads(world)]
        return any("Denied by Ann" in text and "not on a Friday" in text for text in said)

    await world.until(denied)
    await world.quiet()
    assert not (world.workspace / "todo.txt").exists()
    assert asking(await in_threads(world)) == []
    assert world.rows("SELECT decision FROM approvals") == [("denied",)]
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_what_was_said_while_nobody_listened_is_answered(world: World) -> None:
    """Discord keeps nothing for us: threads, archived ones too, and direct messages are read from history, in order."""
    await world.start()
    roots = [await world.say(f"<@{DISCORD_BOT}> hello", chat=DISCORD_CHANNEL) for _ in range(2)]
    await world.say("hello")

    async def said(chat: str, pattern: str) -> list[str]:
        return re.findall(pattern, "\n".join([shown_in(message) for message in await world.seen(chat)]))

    async def greeted() -> bool:
        threads = await world.platform.call("threads", chat=DISCORD_CHANNEL)
        chats = [*map(_id, threads), DISCORD_OWNER]
        return len(threads) == 2 and all([await said(chat, "built-in demo model") for chat in chats])

    await world.until(greeted)
    await world.quiet()
    await world.kill()
    first, second = map(_id, roots)
    for text in ("echo one", "echo two"):
        await world.say(text, chat=first)
    await world.say("echo three", chat=second)
    await world.platform.call("archive_thread", user=DISCORD_OWNER, thread=second)
    await world.say("echo four")
    await world.start()

    echoed = "echo (one|two|three|four)"

    async def answered() -> bool:
        chats = {first: 2, second: 1, DISCORD_OWNER: 1}
        return all([len(await said(chat, echoed)) >= count for chat, count in chats.items()])

    await world.until(answered)
    await world.quiet()
    answers_now = [await said(chat, echoed) for chat in (first, second, DISCORD_OWNER)]
    assert answers_now == [["one", "two"], ["three"], ["four"]]
    assert world.rows("SELECT count(*) FROM inbound WHERE kind = 'message'") == [(7,)]
    await world.platform.assert_clean()


def _id(thing: dict[str, Any]) -> str:
    return str(thing["id"])
