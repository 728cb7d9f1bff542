"""Three emulated platforms with one person, one real gateway, and everything that may go wrong between them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum, auto
from types import TracebackType
from typing import Self

from adapters.emulators.client import ControlRefused, EmulatorClient
from adapters.emulators.journal import EntryKind
from gateway.trial.child import Child, command_for_people
from gateway.trial.stage import Stage, write_room_configuration
from gateway.trial.web.discord import Discord
from gateway.trial.web.side import Side
from gateway.trial.web.slack import Slack
from gateway.trial.web.telegram import Telegram

LOOK_SECONDS = 0.2
"""How often the gateway's process is looked at."""
DRAW_SECONDS = 0.1
"""A pane is drawn no more often."""
JOURNAL_LIMIT = 5000


class Phase(StrEnum):
    """How the gateway is."""

    STARTING = auto()
    RUNNING = auto()
    DOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Something to show: `name` is a platform, or `gateway`."""

    name: str
    body: str


class Room:
    """Use as an async context manager: in it the emulators serve and the gateway was started once.

    `patience`: seconds that Slack and Discord wait for an acknowledgement, if not the real three.
    """

    def __init__(self, stage: Stage, environ: Mapping[str, str], *, patience: float | None = None) -> None:
        self.stage = stage
        name = (environ.get("USER") or "You").strip()[:32] or "You"
        secret = secrets.token_hex(12)
        self.sides: dict[str, Side] = {
            "telegram": Telegram(stage.token, name, JOURNAL_LIMIT),
            "slack": Slack(secret, name, JOURNAL_LIMIT, patience),
            "discord": Discord(secret, name, JOURNAL_LIMIT, patience),
        }
        self.phase = Phase.STARTING
        self._child = Child(stage, environ)
        self._clients: dict[str, EmulatorClient] = {}
        self._dirty = {name: asyncio.Event() for name in self.sides}
        self._shown: dict[str, str] = {}
        self._readers: set[asyncio.Queue[Update]] = set()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            for name, side in self.sides.items():
                await side.emulator.start()
                opening.push_async_callback(side.emulator.stop)
                self._clients[name] = await opening.enter_async_context(EmulatorClient(side.emulator.url))
            sections = {name: side.section() for name, side in self.sides.items()}
            write_room_configuration(self.stage, sections, [side.owner for side in self.sides.values()])
            await opening.enter_async_context(_at_work([self._watch(), *map(self._keep_drawn, self.sides)]))
            await opening.enter_async_context(_at_work([self._follow(name) for name in self.sides]))
            opening.push_async_callback(self._child.stop)
            await self._child.start()
            self._closing = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.__aexit__(kind, error, trace)

    # -- for whoever watches

    async def updates(self) -> AsyncGenerator[Update]:
        """Everything as it is now, then each change. A reader that is slow gets the newest of each only."""
        queue: asyncio.Queue[Update] = asyncio.Queue()
        self._readers.add(queue)
        try:
            for name, body in list(self._shown.items()):
                yield Update(name=name, body=body)
            while True:
                latest = {update.name: update for update in _waiting(queue, await queue.get())}
                for update in latest.values():
                    yield update
        finally:
            self._readers.discard(queue)

    def _show(self, name: str, body: str) -> None:
        if self._shown.get(name) != body:
            self._shown[name] = body
            for queue in self._readers:
                queue.put_nowait(Update(name=name, body=body))

    # -- deeds

    def client(self, name: str) -> EmulatorClient:
        """The control API of a platform."""
        return self._clients[name]

    def look_again(self, name: str) -> None:
        """Have a pane drawn: what it shows may have changed without a word of the platform's."""
        self._dirty[name].set()

    def kill(self) -> int | None:
        """SIGKILL to the gateway; its process id, or None if there is none."""
        return self._child.kill()

    async def start(self) -> bool:
        """Start the gateway, unless it runs."""
        if self._child.living or self._child.pid:
            return False
        self._set(Phase.STARTING)
        await self._child.start()
        return True

    def log(self) -> str:
        """The end of what the gateway has said."""
        return self._child.tail(30)

    async def refuse(self, seconds: int) -> None:
        """Each platform answers the next send of each kind with 429."""
        for name, side in self.sides.items():
            await side.refuse(self._clients[name], seconds)
            self.look_again(name)

    async def disconnect(self) -> int:
        """Cut every open connection of the gateway to the platforms; returns how many."""
        return sum([await client.disconnect() for client in self._clients.values()])

    async def advance(self, seconds: float) -> None:
        """Move the platforms' clocks ahead. The gateway lives by the machine's."""
        for name, client in self._clients.items():
            await client.advance(seconds)
            self.look_again(name)

    # -- what happens

    async def _follow(self, name: str) -> None:
        side, dirty = self.sides[name], self._dirty[name]
        async for entry in self._clients[name].stream():
            side.notice(entry)
            # What we ask the emulator is an entry too; looking again for it would never end.
            if entry.kind is not EntryKind.CONTROL:
                dirty.set()

    async def _keep_drawn(self, name: str) -> None:
        side, dirty = self.sides[name], self._dirty[name]
        lively = False
        while True:
            dirty.clear()
            try:
                pane = await side.look(self._clients[name])
            except ControlRefused:
                # Something went away between two questions, a thread for instance: ask again.
                dirty.set()
            else:
                # A platform may notice later than we do that nobody is there any more, and says nothing then.
                pane = replace(pane, connected=pane.connected and self.phase is not Phase.DOWN)
                self._show(name, json.dumps(asdict(pane), ensure_ascii=False))
                lively = bool(pane.working)
            await asyncio.sleep(DRAW_SECONDS)
            # Signs of life end by themselves, without an entry.
            await _set_within(dirty, 1.0 if lively else None)

    async def _watch(self) -> None:
        while True:
            self._set(self._phase_now())
            await asyncio.sleep(LOOK_SECONDS)

    def _phase_now(self) -> Phase:
        if self._child.pid is not None:
            return Phase.RUNNING
        return Phase.STARTING if self.phase is Phase.STARTING and self._child.living else Phase.DOWN

    def _set(self, phase: Phase) -> None:
        if phase is Phase.DOWN and self.phase is not Phase.DOWN:
            for name, side in self.sides.items():
                side.gateway_went()
                self.look_again(name)
        self.phase = phase
        ending = self._child.ending if phase is Phase.DOWN else ""
        state = {
            "phase": phase,
            "pid": self._child.pid,
            "ending": ending,
            "restart": command_for_people(self.stage.config),
            "workspace": str(self.stage.workspace),
            "log": str(self.stage.log),
        }
        self._show("gateway", json.dumps(state))


def _waiting(queue: asyncio.Queue[Update], first: Update) -> list[Update]:
    found = [first]
    while not queue.empty():
        found.append(queue.get_nowait())
    return found


async def _set_within(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


@asynccontextmanager
async def _at_work(works: list[Awaitable[None]]) -> AsyncGenerator[None]:
    """Tasks that run while inside, and are cancelled at the end. Their own failure is raised then."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, Exception)]
    if failures:
        raise ExceptionGroup("the playground itself failed", failures)
