"""A way in that stays silent is opened anew, and health says what is so."""

from __future__ import annotations

import asyncio

from adapters.contract import Environment
from adapters.errors import BadCredentials, NotConnected
from adapters.slack.watch import LOOK_SECONDS, SILENT_MS, Watch


class Way:
    """A way in that says nothing unless it is told to."""

    def __init__(self) -> None:
        self.frames = 0
        self.opened = 0
        self.closed = 0
        self.failures: list[Exception] = []

    async def open(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.opened += 1

    def contact(self) -> tuple[int, float | None]:
        return self.frames, None

    async def is_up(self) -> bool:
        return True

    async def close(self) -> None:
        self.closed += 1


class World:
    """A watch, and a clock that moves when the watch sleeps, a number of looks at a time."""

    def __init__(self, *, probe: bool = False) -> None:
        self.way = Way()
        self.now_ms = 1_000_000
        self.looks = 0
        self.trouble = ""
        self.ticks = 0
        self.probed = 0
        self.probe_fails = False
        environment = Environment(now_ms=lambda: self.now_ms, sleep=self._sleep, random_bytes=bytes)
        self.watch = Watch(self.way, environment, lambda: self.trouble, self._probe if probe else None)

    async def _sleep(self, seconds: float) -> None:
        assert seconds == LOOK_SECONDS
        if not self.looks:
            raise asyncio.CancelledError
        self.looks -= 1
        self.now_ms += round(seconds * 1000)

    async def _probe(self) -> None:
        self.probed += 1
        if self.probe_fails:
            raise NotConnected("nobody there")

    async def _tick(self) -> None:
        self.ticks += 1

    async def look(self, times: int) -> None:
        """Let the watch look so many times."""
        self.looks = times
        try:
            await self.watch.run(self._tick)
        except asyncio.CancelledError:
            assert self.looks == 0


async def test_silence_of_three_windows_opens_the_way_anew() -> None:
    """A dead socket looks alive for ever; after three silent windows there is a new one."""
    world = World()
    await world.watch.open()
    await world.look(SILENT_MS // 5000 - 1)
    assert (world.way.opened, world.way.closed) == (1, 0)
    await world.look(1)
    assert (world.way.opened, world.way.closed) == (2, 1)
    assert world.watch.health.state == "ready"
    assert world.ticks == SILENT_MS // 5000


async def test_frames_keep_it_and_tell_the_time() -> None:
    """As long as something comes nothing is opened anew, and health knows when it came."""
    world = World()
    await world.watch.open()
    for _ in range(20):
        world.way.frames += 1
        await world.look(1)
    assert world.way.opened == 1
    assert world.watch.health.last_contact_ms == world.now_ms


async def test_failures_are_told_and_tried_ever_more_seldom() -> None:
    """While Slack cannot be reached health says so and why, and it is asked at most once a minute in the end."""
    world = World()
    await world.watch.open()
    world.way.failures = [NotConnected("no route")] * 100
    await world.look(120)
    assert world.watch.health.state == "failing"
    assert "no route" in world.watch.health.detail
    assert 3 <= world.way.closed <= 20
    world.way.failures = []
    await world.look(24)
    assert world.watch.health.state == "ready"


async def test_refused_token_is_a_failure_of_its_own() -> None:
    """A token that was taken away is told as such."""
    world = World()
    await world.watch.open()
    world.way.failures = [BadCredentials("revoked")] * 100
    await world.look(10)
    assert world.watch.health.state == "failed"


async def test_way_that_may_be_silent_is_probed() -> None:
    """Nobody may write for hours over HTTP: Slack is asked once a minute instead, and nothing is opened anew."""
    world = World(probe=True)
    await world.watch.open()
    await world.look(120)
    assert (world.probed, world.way.opened) == (10, 1)
    assert world.watch.health.state == "ready"
    world.probe_fails = True
    await world.look(12)
    assert world.watch.health.state == "failing"


async def test_what_cannot_be_stored_is_no_health() -> None:
    """Frames come and cannot be stored: inbound does not work, and health says why."""
    world = World()
    await world.watch.open()
    world.trouble, world.way.frames = "disk full", 1
    await world.look(1)
    assert (world.watch.health.state, world.watch.health.detail) == ("failing", "disk full")
    await world.watch.close()
    assert world.watch.health.state == "stopped"
