"""Slack: mention, approval, answer over real sockets, with the gateway killed at points on the way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.sides import SLACK, SLACK_BOT, SLACK_CHANNEL, SLACK_OWNER, slack_buttons, slack_content
from tests.support.world import World

REQUEST = f"<@{SLACK_BOT}> note in todo.txt that the release is on Friday"

POINTS = [
    "intake.store.after:1",  # the mention is stored under one of its two events, and not acknowledged
    "delivery.sent.before:1",  # the request is shown, and that is not recorded
    "intake.store.after:2",  # the press is stored, and not acknowledged
    "tool.run.after:1",  # it has had its effect, its result is not stored
]


@pytest.fixture
async def world(tmp_path: Path):
    async with World(tmp_path, side=SLACK) as made:
        yield made


class Person:
    """Somebody who presses again what Slack says was not taken: a press that nobody acknowledges comes once only."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pressed: dict[str, str] = {}

    async def press(self, message: dict[str, Any], label: str, chat: str | None = SLACK_CHANNEL) -> None:
        """Press a button, unless that is done or under way."""
        platform, number = self._world.platform, message["ts"]
        if number in self._pressed:
            answer = await platform.call("answer", asked=self._pressed[number])
            if answer["state"] != "timed out":
                return
        press = await platform.press(SLACK_OWNER, number, button=label, chat=chat)
        self._pressed[number] = press["id"]


async def revive(world: World) -> None:
    """Start the gateway again if it died. What Slack waits for in vain comes again at once: its clock is moved."""
    if not world.alive:
        world.kills += 1
        await world.start()
        await world.platform.advance(61)


async def settle(world: World) -> None:
    """Until nothing is left to do, also where the gateway died with the last thing that it did."""

    async def at_rest() -> bool:
        await revive(world)
        return world.is_at_rest()

    await world.until(at_rest)


async def drive(world: World) -> None:
    """Be the person: mention the app, press whatever Approve button is there."""
    await world.say(REQUEST, chat=SLACK_CHANNEL)
    person = Person(world)

    async def answered() -> bool:
        await revive(world)
        for message in await world.seen():
            if "Approve" in slack_buttons(message):
                await person.press(message, "Approve")
        return bool(answers(await world.seen()))

    await world.until(answered)
    await settle(world)


def answers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that answer the request: the first answer of a session says who answers."""
    return [m for m in messages if not slack_buttons(m) and "built-in demo model" in slack_content(m)]


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at(world: World, point: str) -> None:
    """Whatever the instant: the tool ran once at most, and the message was answered exactly once, in its thread."""
    await world.start(kill_at=point)
    await drive(world)
    assert world.kills == 1, f"the gateway never passed {point}"
    todo = world.workspace / "todo.txt"
    assert todo.read_text().count("release is on Friday") == 1, "the tool did not run exactly once"
    seen = await world.seen()
    found = answers(seen)
    assert len(found) == 1, "not answered exactly once"
    assert not any("sent again" in slack_content(m) for m in seen), "a repeat, although Slack can be asked"
    assert len({m.get("thread_ts") for m in seen}) == 1, "not everything is in the thread of the mention"
    assert world.rows("SELECT decision FROM approvals") == [("approved",)], "the approval was not decided once"
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_form_opened_before_a_kill_and_filled_in_after_it_denies(world: World) -> None:
    """A view outlives the process that opened it: what is filled in then denies, with its reason, once."""
    await world.start()
    await world.say(REQUEST, chat=SLACK_CHANNEL)
    card = await world.find("Approval needed", button="Deny")
    await Person(world).press(card, "Deny")

    async def form() -> Any:
        return await world.platform.call("views", user=SLACK_OWNER)

    await world.until(form)
    await world.kill()
    await world.start()
    await world.platform.call("submit", user=SLACK_OWNER, values={"words": "not on a Friday"})
    await world.find("Denied by ann")
    await world.find("denied by the user: not on a Friday")
    await world.quiet()
    assert not (world.workspace / "todo.txt").exists(), "what was denied has run"
    assert world.rows("SELECT decision FROM approvals") == [("denied",)]
    assert not any("Approve" in slack_buttons(m) for m in await world.seen()), "a decided request has buttons"
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["delivery.sent.before:1", "delivery.sent.before:3"])
async def test_private_turn_killed_at(world: World, point: str) -> None:
    """In a direct message the turn is a native stream: whatever the instant, its words are there exactly once."""
    await world.start(kill_at=point)
    await world.say("note in todo.txt that the release is on Friday")
    person = Person(world)

    async def said() -> list[dict[str, Any]]:
        await revive(world)
        seen = await world.seen(SLACK_OWNER)
        for message in seen:
            if "Approve" in slack_buttons(message):
                await person.press(message, "Approve", None)
        return seen if any("built-in demo model" in slack_content(m) for m in seen) else []

    await world.until(said)
    await settle(world)
    words = "\n".join(slack_content(m) for m in await world.seen(SLACK_OWNER))
    assert world.kills == 1, f"the gateway never passed {point}"
    assert words.count("built-in demo model") == 1, "not answered exactly once"
    assert "sent again" not in words, "a repeat, although Slack can be asked"
    assert (world.workspace / "todo.txt").read_text().count("release is on Friday") == 1
    assert world.rows("SELECT decision FROM approvals") == [("approved",)]
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_stream_killed_while_it_is_written(world: World) -> None:
    """What streams when the gateway is killed is made whole by the next one: each word is there once, in one answer."""
    await world.start()
    await world.say("count to 16 slowly")

    async def counted(least: int) -> list[int]:
        found = numbers_in(await world.seen(SLACK_OWNER))
        return found if len(found) >= least else []

    await world.until(lambda: counted(1))  # it takes eight seconds in all
    await world.kill()
    await world.start()
    await world.until(lambda: counted(16))
    await world.quiet()
    assert await counted(16) == list(range(1, 17))
    await world.platform.assert_clean()


def numbers_in(messages: list[dict[str, Any]]) -> list[int]:
    """The numbers that were counted, in what is shown."""
    return [int(number) for number in re.findall(r"\b\d+\b", "\n".join(slack_content(m) for m in messages))]
