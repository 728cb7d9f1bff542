"""Drive an emulator that runs in another process."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

import aiohttp

from adapters.emulators.control import PREFIX
from adapters.emulators.errors import EmulatorError, ViolationsFound
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.wire_json import JsonObject

POLL_SECONDS = 20.0

Id: TypeAlias = int | str


class ControlRefused(EmulatorError):
    """The control API said no; the message is its reason."""


class EmulatorClient:
    """The control verbs over HTTP, and the journal as it grows. Use as an async context manager.

    `url` is the emulator's base address; its wire API is there too. Verbs differ a little by platform:
    `call` runs any of them, the methods below are those that all platforms have. Ids are numbers or text, as the
    platform has them.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/").removesuffix(PREFIX)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Proxy settings of the environment are not for loopback.
        self._session = aiohttp.ClientSession(trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, verb: str, **arguments: Any) -> Any:
        """Run a verb and return its result. Raises ControlRefused."""
        given = {name: value for name, value in arguments.items() if value is not None}
        async with self._open().post(f"{self.url}{PREFIX}/{verb}", json=given) as response:
            return _result(await response.json())

    async def say(self, user: Id, text: str, **where: Any) -> JsonObject:
        """A person writes; returns the message."""
        return await self.call("say", user=user, text=text, **where)

    async def command(self, user: Id, name: str, args: str = "", **where: Any) -> JsonObject:
        """A person sends a command; returns the message."""
        return await self.call("command", user=user, name=name, args=args, **where)

    async def press(self, user: Id, message: Id, **which: Any) -> JsonObject:
        """A person presses a button (`button` by its text or `data`); returns the press with its `id`."""
        return await self.call("press", user=user, message=message, **which)

    async def react(self, user: Id, message: Id, *emoji: str, **where: Any) -> Any:
        """A person sets reactions on a message; none takes them away."""
        return await self.call("react", user=user, message=message, emoji=list(emoji), **where)

    async def edit(self, user: Id, message: Id, text: str, **where: Any) -> JsonObject:
        """A person edits an own message."""
        return await self.call("edit", user=user, message=message, text=text, **where)

    async def upload(self, user: Id, content: bytes, **what: Any) -> JsonObject:
        """A person sends a file."""
        return await self.call("upload", user=user, content_base64=base64.b64encode(content).decode(), **what)

    async def messages(self, chat: Id, thread: Id | None = None, **where: Any) -> list[JsonObject]:
        """What a person sees in a chat or thread now, oldest first; Discord's threads are chats of their own."""
        return await self.call("messages", chat=chat, thread=thread, **where)

    async def fault(self, target: str, kind: str, **details: Any) -> None:
        """Arm a fault; see `adapters.emulators.faults.Fault`."""
        await self.call("fault", target=target, kind=kind, **details)

    async def advance(self, seconds: float) -> None:
        """Move the emulator's clock ahead."""
        await self.call("advance", seconds=seconds)

    async def disconnect(self, **which: Any) -> int:
        """Cut open connections; returns how many."""
        return await self.call("disconnect", **which)

    async def snapshot(self) -> JsonObject:
        """The whole state as JSON."""
        return await self.call("snapshot")

    async def reset(self) -> None:
        """Forget all traffic."""
        await self.call("reset")

    async def journal(self, after: int = 0) -> list[Entry]:
        """Entries newer than `after`."""
        return await self._entries("journal", after=after)

    async def violations(self) -> list[Entry]:
        """Rules of the platform that the client broke."""
        return [entry for entry in await self.journal() if entry.kind is EntryKind.VIOLATION]

    async def assert_clean(self) -> None:
        """Raise ViolationsFound if there is any."""
        if found := await self.violations():
            raise ViolationsFound("\n".join(f"{entry.name}: {dict(entry.data)}" for entry in found))

    async def stream(self, after: int = 0) -> AsyncIterator[Entry]:
        """Entries newer than `after`, for ever, as they come."""
        while True:
            for entry in await self._entries("events", after=after, wait=POLL_SECONDS):
                after = entry.number
                yield entry

    async def wait_for(self, predicate: Callable[[Entry], bool], *, after: int = 0, timeout: float = 10.0) -> Entry:
        """The first entry newer than `after` that satisfies `predicate`. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            async for entry in self.stream(after):
                if predicate(entry):
                    return entry
        raise AssertionError("a stream of events has no end")

    async def _entries(self, what: str, **query: float) -> list[Entry]:
        async with self._open().get(f"{self.url}{PREFIX}/{what}", params=query) as response:
            return [Entry.from_json(entry) for entry in _result(await response.json())]

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use EmulatorClient in an async with block")
        return self._session


def _result(answer: JsonObject) -> Any:
    if not answer["ok"]:
        raise ControlRefused(answer["error"])
    return answer["result"]
