"""A person, a platform and the real gateway, each in a process of its own, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from adapters.emulators.client import EmulatorClient
from tests.support.gateways import Gateway, gateway_server
from tests.support.sides import OWNER, STRANGER, TELEGRAM, TOKEN, Side, buttons, content

__all__ = ["CONFIG", "OWNER", "PATIENCE", "ROOT", "STRANGER", "TOKEN", "World", "buttons", "content"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0

CONFIG = """\
[gateway]
state_dir = "state"
http = "127.0.0.1:0"
log_format = "json"

{platform}
[access]
owners = ["{owner}"]

[[workspaces]]
id = "notes"
label = "Notes"
path = "workspace"

[[models]]
name = "demo"
provider = "demo"
"""


class World:
    """Starts and ends everything, on one platform: `side` is the person there, and what the platform is like."""

    def __init__(self, folder: Path, config: str = CONFIG, side: Side = TELEGRAM) -> None:
        self.folder = folder
        self.side = side
        self.workspace = folder / "workspace"
        self.config = folder / "pilothouse.toml"
        self.points = folder / "points.txt"
        self._template = config
        self._emulator: asyncio.subprocess.Process | None = None
        self.gateway: Gateway | None = None
        self._log = folder / "gateway.log"
        self.kills = 0

    async def __aenter__(self) -> Self:
        self.workspace.mkdir()
        self._emulator = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "adapters.emulators", *self.side.emulator,
            cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._emulator.stdout is not None
        ready = json.loads(await self._emulator.stdout.readline())
        self.url = ready["url"]
        section = self.side.section.format(**ready)
        self.config.write_text(self._template.format(platform=section, owner=self.side.owner))
        self.config.chmod(0o600)
        self.platform = await EmulatorClient(self.url).__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.platform.__aexit__(kind, error, trace)
        for process in (self.gateway, self._emulator):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
        if error is not None:
            print(self.log()[-6000:])

    # ------------------------------------------------------------------------------------------- the gateway

    async def start(self, kill_at: str = "", *, options: Mapping[str, str] | None = None) -> None:
        """Start the gateway and return when it asks the platform for updates, or has died.

        `options` are more variables of `gateway_process.py`.
        """
        after = (await self.platform.journal())[-1:]
        number = after[0].number if after else 0
        environment = {"KILL_AT": kill_at or ":0", "POINTS_FILE": str(self.points)}
        environment |= dict(options or {})
        self.gateway = await asyncio.to_thread(
            gateway_server().start, self.side.emulator[1], self.config, self._log, environment
        )
        asks = asyncio.ensure_future(self.platform.wait_for(self.side.listens, after=number, timeout=PATIENCE))
        dies = asyncio.ensure_future(self.gateway.wait())
        await asyncio.wait({asks, dies}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (asks, dies):
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        if self.gateway.returncode not in (None, -signal.SIGKILL):
            raise AssertionError(f"the gateway ended with {self.gateway.returncode}:\n{self.log()[-4000:]}")

    @property
    def alive(self) -> bool:
        """Whether the gateway runs."""
        return self.gateway is not None and self.gateway.returncode is None

    async def kill(self) -> None:
        """SIGKILL, now."""
        assert self.gateway is not None
        self.gateway.send_signal(signal.SIGKILL)
        await self.gateway.wait()
        self.kills += 1

    async def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self.gateway is not None
        self.gateway.terminate()
        return await self.gateway.wait()

    def log(self) -> str:
        """What the gateway wrote."""
        return self._log.read_text() if self._log.exists() else ""

    # ------------------------------------------------------------------------------------------- the person

    async def say(self, text: str, user: int | str | None = None, **where: Any) -> dict[str, Any]:
        """Write to the bot, as the owner unless another is named."""
        return await self.platform.say(self.side.user if user is None else user, text, **where)

    async def seen(self, chat: int | str | None = None) -> list[dict[str, Any]]:
        """Messages of the bot that the person sees now."""
        messages = await self.platform.messages(self.side.chat if chat is None else chat)
        return [message for message in messages if self.side.is_ours(message)]

    async def until(self, condition: Callable[[], Awaitable[Any]], patience: float = PATIENCE) -> Any:
        """What the condition came to once it was true; it is looked at whenever something crossed the platform."""
        async with asyncio.timeout(patience):
            number = 0
            while True:
                found = await condition()
                if found:
                    return found
                entries = await self.platform._entries("events", after=number, wait=0.25)
                number = entries[-1].number if entries else number

    async def find(self, text: str, chat: int | str | None = None, button: str | None = None) -> dict[str, Any]:
        """The first message of the bot with this text in it (and this button), once it is there."""
        said, controls = self.side.content, self.side.controls

        async def look() -> dict[str, Any] | None:
            return next(
                (m for m in await self.seen(chat) if text in said(m) and (button is None or button in controls(m))),
                None,
            )

        return await self.until(look)

    # ------------------------------------------------------------------------------------------- afterwards

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Read the database from outside."""
        with contextlib.closing(sqlite3.connect(self.folder / "state" / "pilothouse.db")) as connection:
            return connection.execute(sql, parameters).fetchall()

    def is_at_rest(self) -> bool:
        """Whether nothing is left to do: inbox, outbox and sessions are at rest."""
        return (
            not self.rows("SELECT 1 FROM inbound WHERE state <> 'done'")
            and not self.rows("SELECT 1 FROM deliveries WHERE state IN ('planned', 'sending')")
            and not self.rows("SELECT 1 FROM pending_messages")
            and not self.rows("SELECT 1 FROM surfaces WHERE desired IS NOT NULL AND message_id IS NOT NULL")
            and not self.rows(
                "SELECT 1 FROM surfaces WHERE kind = 'card' AND state <> 'closed' AND message_id IS NOT NULL"
            )
        )

    async def quiet(self) -> None:
        """Return when nothing is left to do."""

        async def at_rest() -> bool:
            return self.is_at_rest()

        await self.until(at_rest)
