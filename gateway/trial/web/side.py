"""What the room needs of a platform: an emulator with a person in it, how to look at it, and the person's deeds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from adapters.emulators.client import EmulatorClient
from adapters.emulators.journal import Entry
from gateway.trial.web.pane import Pane, Talk

LIKE = "👍"


class Emulator(Protocol):
    """An emulator in this process."""

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> object: ...

    async def stop(self) -> None: ...

    @property
    def url(self) -> str: ...


class Side(ABC):
    """One platform of the room. Everything is asked and done over the emulator's control API."""

    name: ClassVar[str]
    sends: ClassVar[Sequence[str]]
    """Methods of the platform that show something to people; a prepared 429 meets each once."""
    emulator: Emulator

    def __init__(self) -> None:
        self.talk = Talk()

    @abstractmethod
    def section(self) -> Mapping[str, object]:
        """The gateway's configuration of this platform; the emulator runs already."""

    @property
    @abstractmethod
    def owner(self) -> str:
        """The person, as the gateway names people."""

    @abstractmethod
    async def look(self, client: EmulatorClient) -> Pane:
        """What the person sees now."""

    @abstractmethod
    def notice(self, entry: Entry) -> None:
        """Remember what only the moment shows: an alert, a sign of life, a question that wants words."""

    def gateway_went(self) -> None:
        """The gateway is gone: nobody listens and nobody types."""
        self.talk.listens, self.talk.typing_until = False, 0.0

    # -- deeds

    @abstractmethod
    async def say(self, client: EmulatorClient, text: str) -> None:
        """Write, where the pane says."""

    @abstractmethod
    async def press(self, client: EmulatorClient, message: str, data: str) -> None:
        """Press a button."""

    @abstractmethod
    async def edit(self, client: EmulatorClient, message: str, text: str) -> None:
        """Change an own message."""

    @abstractmethod
    async def delete(self, client: EmulatorClient, message: str) -> None:
        """Take an own message away."""

    @abstractmethod
    async def like(self, client: EmulatorClient, message: str, on: bool) -> None:
        """Put a thumb under a message, or take it away."""

    @abstractmethod
    async def upload(self, client: EmulatorClient, name: str, content_base64: str, text: str) -> None:
        """Send a file with words to it."""

    @abstractmethod
    async def submit(self, client: EmulatorClient, values: Mapping[str, str]) -> None:
        """Send the open form."""

    @abstractmethod
    async def dismiss(self, client: EmulatorClient) -> None:
        """Close the open form, or do not answer the question."""

    def begin_anew(self) -> None:
        """The next words open a new thread."""
        self.talk.thread = ""

    # -- faults

    async def refuse(self, client: EmulatorClient, seconds: int) -> None:
        """The next send of each kind is told to come back in so many seconds."""
        for method in self.sends:
            await client.fault(method, "rate_limit", retry_after=seconds)


def filled(values: Mapping[str, str]) -> dict[str, Any]:
    """What was filled in; an empty field is left out, as the clients leave it out."""
    return {name: value for name, value in values.items() if value}


def mentioning(text: str, bot: str) -> str:
    """The text as it is sent: the page shows a mention of the bot by its name."""
    return text.replace("@pilothouse", f"<@{bot}>", 1)
