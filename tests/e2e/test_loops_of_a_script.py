"""Loops over real sockets with a model that fails, stalls and repeats itself, as its script says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.emulators.journal import EntryKind
from tests.support.model_server import ModelServer, Reply, calls, failure, text
from tests.support.world import CONFIG, OWNER, World, buttons, content

SCRIPTED = """
api_key = "any"
model = "any"
timeout_seconds = 3
base_url = "{url}"

[approvals.tools]
write_file = "allow"
read_file = "allow"
edit_file = "ask"
"""


class Script:
    """What the model does with a prompt, by its words and by how often the session has heard them.

    An answer depends on the conversation alone, so that a call that is made again gets the same one; but the first call
    of a prompt with "stall" in it never ends.
    """

    def __init__(self) -> None:
        self.stalled: set[str] = set()

    def __call__(self, body: dict[str, Any]) -> Reply:
        """The answer to a request."""
        roles = [(message["role"], _words(message)) for message in body["messages"]]
        at = max(place for place, (role, _) in enumerate(roles) if role == "user")
        prompt = roles[at][1]
        time = sum(role == "user" and words == prompt for role, words in roles)
        if "fail" in prompt and time == 2:
            return failure(500)
        if "stall" in prompt and prompt not in self.stalled:
            self.stalled.add(prompt)
            return text("half a word of it", hold=True)
        done = any(role == "tool" for role, _ in roles[at:])
        return self._answer(prompt, time) if done else self._call(prompt, time)

    def _call(self, prompt: str, time: int) -> Reply:
        if "ask" in prompt:
            return calls(("edit_file", {"path": "fixed.txt", "old": "the same", "new": f"the same, {prompt}"}))
        if "repeat" in prompt:
            return calls(("read_file", {"path": "fixed.txt"}))
        return calls(("write_file", {"path": "log.txt", "content": f"{prompt} {time}", "mode": "append"}))

    def _answer(self, prompt: str, time: int) -> Reply:
        return text("as before" if "repeat" in prompt else f"{prompt}: answer {time}")


def _words(message: dict[str, Any]) -> str:
    said = message.get("content") or ""
    return said if isinstance(said, str) else " ".join(part.get("text", "") for part in said)


class Stage:
    """The world with a scripted model in it."""

    def __init__(self, world: World, server: ModelServer) -> None:
        self.world = world
        self.server = server

    async def press(self, button: str) -> None:
        """Press the newest button of this name, once it is there."""

        async def look() -> dict[str, Any] | None:
            return next((m for m in reversed(await self.world.seen()) if button in buttons(m)), None)

        message = await self.world.until(look)
        await self.world.platform.press(OWNER, message["message_id"], button=button)

    def loops(self) -> list[tuple[Any, ...]]:
        """Status, that of the runtime, iterations and rounds of every session's last loop, oldest session first."""
        return self.world.rows(
            "SELECT status, runtime_status, json_extract(loop_state, '$.iterations_completed'), "
            "json_extract(loop_state, '$.rounds_started') FROM loops JOIN sessions USING (session_id) ORDER BY number"
        )

    async def requests(self, method: str) -> list[dict[str, Any]]:
        """What the gateway asked of the platform, in order."""
        entries = await self.world.platform.journal()
        wanted = [entry for entry in entries if entry.kind is EntryKind.REQUEST]
        return [entry.data["params"] for entry in wanted if entry.name.lower() == method.lower()]

    def log(self) -> list[str]:
        """The effects, a line each."""
        return (self.world.workspace / "log.txt").read_text().splitlines()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with ModelServer(default=Script()) as server:
        model = SCRIPTED.replace("{url}", server.base_url)
        config = CONFIG.replace('name = "demo"\nprovider = "demo"\n', 'name = "scripted"\nprovider = "openai"' + model)
        async with World(tmp_path, config) as world:
            (world.workspace / "fixed.txt").write_text("always the same\n")
            yield Stage(world, server)
            server.release.set()


@pytest.mark.e2e
@pytest.mark.timeout(600)
async def test_loops_that_end_badly_say_how(stage: Stage) -> None:
    """A model that fails, one that stalls and one that repeats itself: each end is one message, and nothing else rings.

    What is transient is asked again in the same round. What fails for good ends the loop as Failed, and the session
    goes on. A loop without progress is Stopped, and says so.
    """
    world = stage.world
    await world.start()
    await world.say("/loop 3 please fail")
    await world.find("The loop failed in iteration 2 of 3: The model service did not answer.")
    await world.quiet()
    assert "in iteration 2 of 3" in content(await world.find("1: please fail: answer 1"))
    assert stage.loops() == [("failed", "failed", 1, 3)]
    assert world.rows("SELECT outcome FROM execution_journal ORDER BY rowid") == [("completed",), ("failed",)]
    assert stage.log() == ["please fail 1"]

    await world.say("/loop 2 please stall")
    await world.find("The loop is done: all 2 iterations.")
    await world.quiet()
    assert "disconnected" in stage.server.ended, "the stalled call was not given up"
    assert stage.loops() == [("completed", "completed", 2, 4)], "the call that stalled was charged as a round"
    assert stage.log() == ["please fail 1", "please stall 1", "please stall 2"]
    retried = "SELECT count(*) FROM event_journal WHERE json_extract(payload, '$.outcome') = 'retrying'"
    assert world.rows(retried)[0][0] >= 6, "five attempts of the call that failed, and one of the call that stalled"

    await world.say("/loop 9 repeat yourself")
    await world.find("The loop was stopped: 2 of 9 iterations. The last one did and said the same as the one before.")
    await world.quiet()
    assert stage.loops() == [("stopped", "completed", 2, 4)]
    assert world.rows("SELECT json_extract(loop_state, '$.reason') FROM loops") == [("no_progress",)]

    loud = [params["text"] for params in await stage.requests("sendMessage") if not params.get("disable_notification")]
    assert len(loud) == 3, f"a person was rung more often than a loop ended: {loud}"
    assert not [message for message in await world.seen() if buttons(message)]
    await world.platform.assert_clean()


@pytest.mark.e2e
@pytest.mark.timeout(600)
async def test_a_person_rules_a_loop(stage: Stage) -> None:
    """While an iteration waits for a person: its status, a second start, both stops, and a new session in its place."""
    world = stage.world
    await world.start()
    await world.say("/loop 5 ask me")
    await world.find("iteration 1 of 5", button="Stop after this iteration")
    await world.find("", button="Approve")
    await world.say("/loop 2 and this")
    await world.find("Not taken: a loop runs already; stop it first.")
    await world.say("/loop status")
    await world.find("Loop: iteration 1 runs, 0 of 5 iterations, 1 of 100 rounds")
    await stage.press("Stop after this iteration")
    await world.find("Stops after this iteration", button="Stop now")
    await stage.press("Approve")
    await world.find("The loop was stopped: 1 of 5 iterations.")
    await world.quiet()
    assert stage.loops() == [("stopped", "completed", 1, 2)]

    await world.say("/loop 5 ask me twice")
    await world.find("", button="Approve")
    await stage.press("Stop now")
    await world.find("The loop was stopped by Ann: in iteration 1 of 5.")
    await world.quiet()
    assert stage.loops()[0][0] == "cancelled"
    assert not [message for message in await world.seen() if buttons(message)]
    decisions = "SELECT decision FROM approvals ORDER BY requested_at_ms"
    assert world.rows(decisions) == [("approved",), ("interrupted",)]

    await world.say("/loop 5 ask me again")
    await world.find("", button="Approve")
    await world.say("/new")
    await world.until(lambda: _is(stage.loops()[0][0], "cancelled"))
    await world.quiet()
    await world.say("/loop status")
    await world.find("No loop runs here.")
    assert world.rows(decisions)[2:] == [("invalidated",)]
    assert world.rows("SELECT count(*) FROM event_journal WHERE event_kind = 'loop_ended'") == [(3,)]
    assert world.rows("SELECT count(*) FROM execution_journal") == [(3,)]
    assert await world.terminate() == 0


async def _is(value: object, expected: object) -> bool:
    return value == expected


@pytest.mark.e2e
@pytest.mark.timeout(600)
async def test_a_loop_that_restarts_find(stage: Stage) -> None:
    """Killed between two iterations it goes on by itself. Within one, cautious options ask: a press lets it go on."""
    world = stage.world
    await world.start(kill_at="agent.terminal.after:1")
    await world.say("/loop 3 please work")

    async def ended() -> bool:
        if not world.alive:
            world.kills += 1
            await world.start()
        return any("The loop is done: all 3 iterations." in content(message) for message in await world.seen())

    await world.until(ended)
    await world.quiet()
    assert world.kills == 1, "the gateway was not killed between two iterations"
    assert stage.log() == ["please work 1", "please work 2", "please work 3"]
    assert stage.loops() == [("completed", "completed", 3, 6)]

    await world.say("/loop 2 stall and work")
    await stage.server.held.wait()
    await world.kill()
    await world.start(options={"CAUTIOUS": "1"})
    asks = await world.find("A restart interrupted the loop in iteration 1 of 2. What it did until then stays.")
    assert buttons(asks) == ["Continue from iteration 1", "Leave it"]
    await world.quiet()
    assert stage.loops() == [("recovery_unsupported", "suspended", 0, 1)]
    await stage.press("Continue from iteration 1")
    await world.find("The loop is done: all 2 iterations.")
    await world.quiet()
    assert stage.log()[3:] == ["stall and work 2", "stall and work 3"], "the interrupted iteration was not given again"
    assert stage.loops()[0][:3] == ("completed", "completed", 2)
    assert not [message for message in await world.seen() if buttons(message)]
    assert await world.terminate() == 0
    await world.platform.assert_clean()
