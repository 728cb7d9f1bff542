"""An emulated Slack with Ann and Bob, and an adapter on it, for tests of the adapter alone."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from adapters.contract import Environment, Place
from adapters.emulators.slack import SlackEmulator
from adapters.slack.adapter import SlackAdapter
from adapters.slack.settings import Settings
from adapters.testing import Intake, content
from tests.support.sides import slack_content

ANN, BOB, TEAM = "U0ANN", "U0BOB", "C0TEAM"
LOOK_SECONDS = 5.0


async def sleep(seconds: float) -> None:
    """Pauses after failures are over at once; looking at the way in takes its time."""
    await asyncio.sleep(seconds if seconds == LOOK_SECONDS else 0.01)


@dataclass(kw_only=True)
class Side:
    """The workspace, and the adapter that runs in it. `clock` of the adapter is that of the emulator."""

    emulator: SlackEmulator
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    intake: Intake = field(default_factory=Intake)
    adapter: SlackAdapter = field(init=False)

    def __post_init__(self) -> None:
        self.adapter = self.another()

    def another(self) -> SlackAdapter:
        """A new adapter on the same app, as after a restart."""
        app = self.emulator.app
        tokens = {"bot_token": app.bot_token, "app_token": app.app_token, "api_base": self.emulator.api_base}
        environment = Environment(
            now_ms=lambda: round(self.emulator.clock.now() * 1000),
            sleep=sleep,
            random_bytes=secrets.token_bytes,
            content=content,
        )
        return SlackAdapter(Settings.read({**tokens, **self.settings}), environment)

    async def restart(self) -> None:
        """End the adapter and run another one."""
        await self.adapter.stop()
        self.adapter = self.another()
        await self.adapter.start(self.intake)

    def place(self, chat: str, thread: str | None) -> Place:
        """A place of our account."""
        app = self.emulator.app
        return Place(platform="slack", account=f"{app.app_id}:{app.team}", chat=chat, thread=thread)

    async def thread(self, text: str = "hello", user: str = ANN) -> Place:
        """A direct message, as the place that it begins."""
        said = await self.emulator.say(user, text)
        return self.place(said["channel"], said["ts"])

    async def mention(self, text: str = "hello", user: str = ANN) -> Place:
        """A mention in the team's channel, as the place that it begins."""
        said = await self.emulator.say(user, f"<@{self.emulator.app.bot_user}> {text}", chat=TEAM)
        return self.place(TEAM, said["ts"])

    def ours(self, place: Place, user: str | None = None) -> list[dict[str, Any]]:
        """Our messages in a place."""
        messages = self.emulator.messages(place.chat, place.thread, user=user)
        return [one for one in messages if one.get("user") == self.emulator.app.bot_user]

    def shown(self, place: Place, user: str | None = None) -> str:
        """What they say."""
        return "\n".join(slack_content(one) for one in self.ours(place, user))


@asynccontextmanager
async def slack_side(
    *, agent: bool = True, clean: bool = True, start: bool = True, **settings: Any
) -> AsyncGenerator[Side]:
    """A workspace with the app in Ann's and Bob's channel, and its adapter, which breaks no rule of Slack."""
    emulator = await SlackEmulator(agent=agent).start()
    emulator.add_user(ANN, "Ann")
    emulator.add_user(BOB, "Bob")
    emulator.add_chat(TEAM, "team", members=[ANN, BOB])
    side = Side(emulator=emulator, settings=settings)
    try:
        if start:
            await side.adapter.start(side.intake)
        yield side
        if clean:
            emulator.assert_clean()
    finally:
        await side.adapter.stop()
        await emulator.stop()
