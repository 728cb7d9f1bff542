"""A trial: the emulator, the gateway's process, the chat between them, and what a person may type."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import TracebackType
from typing import Literal, Protocol, Self, cast

from adapters.emulators.errors import EmulatorError
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.telegram import TelegramEmulator
from gateway.trial.chat import Alert, Button, Change, Chat, Message, Note
from gateway.trial.child import Child, command_for_people
from gateway.trial.stage import PERSON, Stage, write_configuration

LOOK_SECONDS = 0.2
TYPING_SECONDS = 5.0
KILL_SECONDS = 5.0
BUTTON_SECONDS = 30.0
JOURNAL_LIMIT = 5000

EXAMPLES = (
    "note in todo.txt that the release is on Friday",
    "count to 20 slowly",
    "what is in todo.txt?",
)

HELP = """\
What you type is said to the bot. A number alone presses the button with that number; `:press Deny` goes by label.
  :press X   press button X        :msg TEXT  say TEXT, whatever it looks like
  :kill      kill -9 the gateway   :start     start it again
  :log       the gateway's log     :wait N    wait N seconds
  :until X   wait until X is said  :help      this text
  :quit      leave (or Ctrl-C)
:until looks at what the bot has written, not at these lines nor at buttons.
The files stay after the trial; folders under ~/.local/state/pilothouse/try may be deleted."""


class Phase(Enum):
    """How the gateway is."""

    STARTING = auto()
    RUNNING = auto()
    DOWN = auto()


class Front(Protocol):
    """What shows the chat and reads what is typed."""

    async def run(self) -> None:
        """Show and read until the person leaves."""
        ...


class Quit(Exception):
    """The person leaves."""


class Trial:
    """Use as an async context manager: in it the emulator serves and the gateway was started once."""

    def __init__(self, stage: Stage, environ: Mapping[str, str]) -> None:
        self.stage = stage
        self.chat = Chat(PERSON)
        self.phase = Phase.STARTING
        self.pid: int | None = None
        self.said = 0
        self.answered = 0
        self.typing_until = 0.0
        self._name = (environ.get("USER") or "You").strip()[:32] or "You"
        self._child = Child(stage, environ)
        self._emulator = TelegramEmulator(journal_limit=JOURNAL_LIMIT)
        self._listeners: list[Callable[[Change | Alert | Note | None], None]] = []
        self._changed = asyncio.Event()
        self._ran = False
        self._asking: set[int] = set()
        self._answers_to: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._seen = 0
        self._polled = False

    async def __aenter__(self) -> Self:
        self._emulator.add_bot(self.stage.token, username="pilothouse_bot", first_name="pilothouse", topics=False)
        self._emulator.add_user(PERSON, self._name, started=True)
        await self._emulator.start()
        write_configuration(self.stage, self._emulator.url)
        self._greet()
        await self._child.start()
        self._tasks = [
            asyncio.create_task(self._follow(), name="follow the emulator"),
            asyncio.create_task(self._watch(), name="watch the gateway"),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._child.stop()
        await self._emulator.stop()

    # -- what the front needs

    def listen(self, listener: Callable[[Change | Alert | Note | None], None]) -> None:
        """Call `listener` with each change, and with None where only the gateway's state or a sign of life changed."""
        self._listeners.append(listener)

    @property
    def now(self) -> float:
        """The chat's clock, in seconds."""
        return self._emulator.clock.now()

    @property
    def started_elsewhere(self) -> int | None:
        """Process id of a gateway that was started in another terminal and runs now."""
        return self._child.pid if self._child.pid != self._child.started else None

    @property
    def restart_command(self) -> str:
        """What starts the gateway from another terminal."""
        return command_for_people(self.stage.config)

    async def changes(self) -> None:
        """Return at the next change of the chat or of the gateway."""
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until the condition holds, looking after each change; False if it does not in time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self.changes()
        except TimeoutError:
            return condition()
        return True

    def tell(self, text: str, tone: Literal["plain", "good", "bad", "dim"] = "plain") -> None:
        """A line of ours."""
        self._publish(self.chat.note(text, tone))

    # -- what is typed

    async def handle(self, line: str, *, patient: bool = False) -> None:
        """Do what one line says. `patient`: a button that is not there yet is waited for. Raises Quit."""
        text = line.strip()
        if not text:
            return
        if text.startswith(":"):
            word, _, rest = text[1:].partition(" ")
            await self._command(word.lower(), rest.strip(), patient=patient)
        elif text.isascii() and text.isdecimal() and len(text) < 4:
            await self._press(text, patient=patient)
        else:
            await self._say(text)

    async def _command(self, word: str, rest: str, *, patient: bool) -> None:
        match word:
            case "quit" | "q" | "exit":
                raise Quit
            case "help" | "h" | "?":
                self.tell(HELP)
            case "kill":
                await self._kill()
            case "start":
                await self._start()
            case "press" if rest:
                await self._press(rest, patient=patient)
            case "msg" | "say" if rest:
                self._answers_to = None
                await self._say(rest)
            case "log":
                self.tell(self._child.tail(15) or "This start has logged nothing yet.", "dim")
            case "wait":
                await asyncio.sleep(_seconds(rest))
            case "until" if rest:
                if not await self.until(lambda: self._was_said(rest), 60.0):
                    self.tell(f"Nobody said {rest!r} within a minute.", "bad")
            case _:
                self.tell(f":{word} is not a command, or something is missing behind it; :help lists them.", "bad")

    async def _say(self, text: str) -> None:
        self.said += 1
        answered, self._answers_to = self._answers_to, None
        await self._emulator.say(PERSON, text, reply_to=answered)

    async def _press(self, which: str, *, patient: bool) -> None:
        if patient:
            await self.until(lambda: self._button(which) is not None, BUTTON_SECONDS)
        found = self._button(which)
        if found is None:
            self.tell(f"There is no button {which}. To say it: :msg {which}", "bad")
            return
        message, button = found
        self.tell(f"You press “{button.label}”.", "dim")
        try:
            await self._emulator.press(PERSON, message.id, data=button.data)
        except EmulatorError as error:
            self.tell(f"That did not work: {error}", "bad")

    def _button(self, which: str) -> tuple[Message, Button] | None:
        """By its number, or the newest one with that label."""
        buttons = self.chat.buttons
        if which.isascii() and which.isdecimal():
            return buttons.get(int(which))
        named = [number for number, (_, button) in buttons.items() if button.label.casefold() == which.casefold()]
        return buttons[max(named)] if named else None

    async def _kill(self) -> None:
        pid = self._child.kill()
        self.tell(f"kill -9 {pid}" if pid else "There is no gateway to kill; :start starts one.", "dim")
        await self.until(lambda: self.phase is Phase.DOWN, KILL_SECONDS)

    async def _start(self) -> None:
        if self._child.living or self._child.pid:
            self.tell(f"The gateway runs already, as process {self._child.pid or self._child.started}.", "bad")
            return
        self.phase = Phase.STARTING
        self.tell("Starting the gateway …", "dim")
        await self._child.start()

    def _was_said(self, text: str) -> bool:
        return any(text in message.text for message in self.chat.messages if not message.mine)

    # -- what happens

    async def _follow(self) -> None:
        """Bring what the emulator shows into the chat, and see when the gateway polls."""
        journal = self._emulator.journal
        while True:
            await journal.grown(self._seen)
            for entry in journal.after(self._seen):
                self._seen = entry.number
                if entry.kind is EntryKind.SCREEN:
                    self._shown(entry.name, dict(entry.data))
                elif entry.kind is EntryKind.REQUEST:
                    self._asked(entry)
                elif entry.kind is EntryKind.RESPONSE and entry.request in self._asking:
                    self._asking.discard(entry.request)
                    self._offer_reply(entry.data.get("result"))

    def _asked(self, entry: Entry) -> None:
        if entry.name == "getUpdates":
            self._polled = True
        markup = entry.data["params"].get("reply_markup")
        if isinstance(markup, Mapping) and cast("Mapping[str, object]", markup).get("force_reply"):
            self._asking.add(entry.number)

    def _offer_reply(self, sent: object) -> None:
        """Do what every Telegram app does for a forced reply: what is typed next answers that message."""
        if isinstance(sent, Mapping):
            self._answers_to = int(cast("Mapping[str, int]", sent)["message_id"])
            self.tell("What you type next answers this message; :msg says something else.", "dim")

    def _shown(self, name: str, data: dict[str, object]) -> None:
        if name == "action":
            self.typing_until = self.now + TYPING_SECONDS
            self._publish(None)
            return
        change = self.chat.apply(name, data)
        if isinstance(change, Change) and change.kind == "new" and not change.message.mine:
            self.answered += 1
            self.typing_until = 0.0
        if change is not None:
            self._publish(change)

    async def _watch(self) -> None:
        """Notice when the gateway goes and comes, from here or from another terminal."""
        while True:
            self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        pid = self._child.pid
        match self.phase:
            case Phase.STARTING | Phase.DOWN if pid and self._polled:
                self._came(pid)
            case Phase.STARTING if not pid and not self._child.living:
                self._went("The gateway did not start")
            case Phase.RUNNING if pid != self.pid and not self._is_ending(pid):
                self._went("The gateway is gone")
                if pid:
                    self.phase = Phase.STARTING
            case _:
                pass

    def _is_ending(self, pid: int | None) -> bool:
        """It has let go of the folder, and how it ends is not known yet."""
        return pid is None and self.pid == self._child.started and self._child.living

    def _came(self, pid: int) -> None:
        again, self._ran = self._ran, True
        self.phase, self.pid = Phase.RUNNING, pid
        elsewhere = "" if pid == self._child.started else ", started in another terminal"
        self.tell(f"The gateway {'is back' if again else 'runs'}: process {pid}{elsewhere}.", "good")
        if not again:
            self.tell(f"From another terminal, kill -9 {pid} and start it again with:", "dim")
            self._publish(self.chat.note(self.restart_command, "dim", whole=True))

    def _went(self, what: str) -> None:
        failed = self.phase is Phase.STARTING
        ours = self.pid is None or self.pid == self._child.started
        ending = f" ({self._child.ending})" if ours else ""
        self.phase, self.pid, self._polled = Phase.DOWN, None, False
        self.tell(f"{what}{ending}. What you write now is kept by Telegram; :start starts it again.", "bad")
        if failed:
            self.tell(self._child.tail(12), "dim")

    def _publish(self, change: Change | Alert | Note | None) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for listener in self._listeners:
            listener(change)

    def _greet(self) -> None:
        self.tell("This is a Telegram chat on your own machine: emulated platform, real gateway, built-in demo model.")
        self.tell("Try:  " + "\n      ".join(EXAMPLES), "good")
        self.tell("While it counts, write to it, press Stop, or kill the gateway with :kill and start it with :start.")


def _seconds(text: str) -> float:
    try:
        return min(max(float(text or 1), 0.0), 600.0)
    except ValueError:
        return 1.0
