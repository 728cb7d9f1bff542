"""The chat as plain lines: for scripts, and where there is no terminal."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from typing import TextIO

from gateway.trial.chat import Alert, Change, Message, Note
from gateway.trial.trial import Phase, Quit, Trial

READY_SECONDS = 60.0
ANSWER_SECONDS = 120.0
QUIET_SECONDS = 1.5


class Lines:
    """Reads a line at a time and prints what happens; at the end of input it waits for the outstanding answer."""

    def __init__(self, trial: Trial, source: TextIO | None = None, target: TextIO | None = None) -> None:
        self._trial = trial
        self._source = source or sys.stdin
        self._target = target or sys.stdout
        self._printed = 0
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Read to the end of input, or until `:quit`."""
        for item in self._trial.chat.timeline:
            self._print(item if isinstance(item, Note) else None)
        self._trial.listen(self._print)
        self._read(asyncio.get_running_loop())
        await self._trial.until(lambda: self._trial.phase is not Phase.STARTING, READY_SECONDS)
        try:
            while line := await self._lines.get():
                await self._trial.handle(line, patient=True)
        except Quit:
            return
        await self._outstanding()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read in a thread: input may be a file, which no selector watches. A daemon, so that Ctrl-C need not wait."""

        def lines() -> None:
            line = "first"
            while line:
                line = self._source.readline()
                with suppress(RuntimeError):  # the trial may be over by now
                    loop.call_soon_threadsafe(self._lines.put_nowait, line)

        threading.Thread(target=lines, name="read lines", daemon=True).start()

    async def _outstanding(self) -> None:
        """Wait until everything said was answered and the chat is quiet, or a person would have to press something."""
        trial = self._trial
        if trial.said:
            await trial.until(lambda: trial.answered > 0 or trial.phase is Phase.DOWN, ANSWER_SECONDS)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_SECONDS
        while loop.time() < deadline and trial.phase is not Phase.DOWN:
            if await self._is_quiet() and not self._works():
                return

    async def _is_quiet(self) -> bool:
        before = self._printed
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                await self._trial.changes()
        except TimeoutError:
            return self._printed == before
        return False

    def _works(self) -> bool:
        """A Stop button alone: the bot is at work, and needs nobody."""
        labels = [button.label for _, button in self._trial.chat.buttons.values()]
        return bool(labels) and all("Stop" in label for label in labels)

    def _print(self, change: Change | Alert | Note | None) -> None:
        match change:
            case Note():
                self._write(" " if change.whole else "*", change.text)
            case Alert():
                self._write("!", change.text)
            case Change(kind="reaction"):
                self._write("bot", f"reacts with {change.message.reaction}") if change.message.reaction else None
            case Change(kind="gone"):
                self._write("bot", "removes a message")
            case Change() if change.matters:
                self._show(change)
            case _:
                pass

    def _show(self, change: Change) -> None:
        message = change.message
        who = "you" if message.mine else "bot (edited)" if change.kind == "edit" else "bot"
        self._write(who, _body(message))
        if message.buttons and tuple(one.label for one in message.buttons) != change.before[1]:
            self._write(" " * len(who), "  ".join(f"[{one.number}] {one.label}" for one in message.buttons))

    def _write(self, who: str, text: str) -> None:
        self._printed += 1
        head = f"{who}: " if who.strip() else f"{who}  "
        body = text.replace("\n", "\n" + " " * len(head))
        self._target.write(f"{head}{_printable(body)}\n")
        self._target.flush()


def _body(message: Message) -> str:
    parts = [message.text, f"<{message.file}>" if message.file else ""]
    return "\n".join(part for part in parts if part)


def _printable(text: str) -> str:
    """Nothing that the model says may move the cursor."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)
