"""A terminal as a chat platform: the whole contract in few lines, for one person and without an account.

Lines that are read are messages; `/name words` is a command, and `!3` presses the third button that was shown. Written
is text only: control characters of any text are shown and not obeyed, since an answer must not move the cursor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import unicodedata
from collections.abc import AsyncIterator, Mapping
from typing import Any, TextIO, assert_never

from adapters.contract import (
    Acknowledgement,
    Answer,
    ApprovalCard,
    Capabilities,
    Control,
    Document,
    Environment,
    File,
    Form,
    Health,
    Inbound,
    InboundKind,
    Intake,
    MessageRef,
    Notice,
    Place,
    Private,
    Reaction,
    RowState,
    Sender,
    SenderKind,
    Sent,
    Stream,
    Text,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
)
from adapters.errors import NotConnected, Refused

log = logging.getLogger("pilothouse.terminal")

PERSON = "local"
CHAT = "terminal"
LAST_PAUSE_SECONDS = 30.0
_SIGNS = {
    RowState.RUNNING: "▸",
    RowState.DONE: "☑",
    RowState.FAILED: "✖",
    RowState.SKIPPED: "–",
    RowState.PLANNED: "▢",
    RowState.NOTE: "↪",
}


def create(settings: Mapping[str, Any], environment: Environment) -> TerminalAdapter:
    """An adapter on the terminal that this process was started in; the entry point `terminal`."""
    if unknown := sorted(set(settings) - {"enabled"}):
        raise ValueError(f"terminal.{unknown[0]}: no such key; there is only `enabled`")
    return TerminalAdapter(environment, standard_input(), sys.stdout)


class WholeText:
    """Markup of the contract: everything fits, and is shown as it is."""

    def split(self, markdown: str) -> tuple[str, ...]:
        """The markdown, or nothing if it is blank."""
        return (markdown,) if markdown.strip() else ()

    def split_verbatim(self, text: str) -> tuple[str, ...]:
        """The text."""
        return (text,) if text else ()


class TerminalAdapter:
    """Reads lines and writes text. Message ids count from 1 and mean nothing to another process."""

    def __init__(self, environment: Environment, lines: AsyncIterator[str], out: TextIO) -> None:
        self._environment = environment
        self._lines = lines
        self._out = out
        self._messages = 0
        self._buttons: list[tuple[MessageRef, Control]] = []
        self._form: Form | None = None
        self._task: asyncio.Task[None] | None = None
        self._health = Health(state="stopped")
        # Lines of another process must not have the keys of ours.
        self._key = environment.random_bytes(8).hex()
        self._read = 0
        self.capabilities = Capabilities(can_edit=False, forms=True, max_text=2**31 - 1, sends_per_second=1000.0)
        self.markup = WholeText()

    @property
    def platform(self) -> str:
        """`terminal`."""
        return "terminal"

    @property
    def account(self) -> str:
        """There is one."""
        return PERSON

    @property
    def health(self) -> Health:
        """Whether lines are read."""
        return self._health

    async def start(self, intake: Intake) -> None:
        """Begin to read."""
        self._health = Health(state="ready", last_contact_ms=self._environment.now_ms())
        self._task = asyncio.create_task(self._run(intake), name="terminal")

    async def stop(self) -> None:
        """Read no more."""
        task, self._task = self._task, None
        self._health = Health(state="stopped")
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------------------- in

    async def _run(self, intake: Intake) -> None:
        async for line in self._lines:
            if line.strip():
                self._read += 1
                await self._taken(intake, self._inbound(line.strip()))
        self._health = Health(state="stopped", detail="the input has ended")

    async def _taken(self, intake: Intake, inbound: Inbound) -> None:
        """Offer it until it is taken: nobody else would say it again."""
        pause = 1.0
        while True:
            try:
                await intake(inbound)
            except Exception:  # whatever it was, the line is offered again
                log.exception("a line could not be taken in")
                self._health = Health(state="failing", detail="what was typed could not be stored")
                await self._environment.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE_SECONDS)
            else:
                self._health = Health(state="ready", last_contact_ms=self._environment.now_ms())
                return

    def _inbound(self, line: str) -> Inbound:
        if (number := re.fullmatch(r"!(\d{1,9})", line)) and 1 <= int(number[1]) <= len(self._buttons):
            ref, control = self._buttons[int(number[1]) - 1]
            return self._said(InboundKind.PRESS, ref, token=control.token, handle=f"{self._read}")
        if self._form is not None and not line.startswith("/"):
            form, self._form = self._form, None
            return self._said(InboundKind.FORM, text=line, token=form.token, fields={"reason": line})
        if command := re.match(r"/(\w+)(?:\s+|$)", line):
            arguments = line[command.end() :]
            return self._said(InboundKind.COMMAND, text=line, command=command[1], arguments=arguments)
        return self._said(InboundKind.MESSAGE, text=line)

    def _said(self, kind: InboundKind, ref: MessageRef | None = None, **more: Any) -> Inbound:
        key = f"line:{self._key}:{self._read}"
        ref = ref or self._ref(f"in{self._read}")
        sender = Sender(kind=SenderKind.PERSON, id=PERSON, name=PERSON)
        place = Place(platform=self.platform, account=self.account, chat=CHAT)
        now = self._environment.now_ms()
        return Inbound(kind=kind, keys=(key,), place=place, sender=sender, sent_at_ms=now, ref=ref, **more)

    # ------------------------------------------------------------------------------------------------------------ out

    async def send(self, place: Place, view: View, key: str, attempt: int) -> Sent:
        """Write a view."""
        if self._task is None:
            raise NotConnected("the terminal adapter is not started")
        text = shown(view)
        if not text:
            return Sent()
        self._messages += 1
        ref = self._ref(str(self._messages))
        controls = view.controls if isinstance(view, Answer | Notice | TurnCard | ApprovalCard) else ()
        self._write("\n".join([text, *(self._button(ref, control) for control in controls)]))
        return Sent(refs=(ref,))

    async def edit(self, ref: MessageRef, view: View) -> None:
        """Refused: what is written is written."""
        raise Refused("a terminal cannot change what it has shown (can_edit is false)")

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Write the answer; after a form, the next line fills it in."""
        match answer:
            case Text(text=text):
                self._write(text)
            case Form():
                self._form = answer
                self._write(f"{answer.title}\n{answer.label}: ")
            case None:
                pass
            case _:
                assert_never(answer)

    async def open_thread(self, place: Place, title: str, key: str, root: MessageRef | None = None) -> Place:
        """Refused: there is one conversation."""
        raise Refused("a terminal has no threads")

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """Nothing: what was not read was not said."""
        return ()

    def _ref(self, number: str) -> MessageRef:
        return MessageRef(platform=self.platform, account=self.account, chat=CHAT, id=number)

    def _button(self, ref: MessageRef, control: Control) -> str:
        self._buttons.append((ref, control))
        return f"  [!{len(self._buttons)} {control.label}]"

    def _write(self, text: str) -> None:
        self._out.write(f"{without_control(text)}\n\n")
        self._out.flush()


def shown(view: View) -> str:
    """What a view says, empty if it is only a sign of life; Refused by what `capabilities` deny."""
    match view:
        case Answer(markdown=text, footer=footer, repeat=repeat):
            lines = ["(sent again: it may be here twice)" * repeat, text, footer]
        case Notice(text=text, repeat=repeat):
            lines = ["(sent again: it may be here twice)" * repeat, text]
        case Verbatim(title=title, text=text):
            lines = [title, *(f"  | {line}" for line in text.split("\n"))]
        case Document(name=name, text=text, caption=caption):
            lines = [f"{name}: {caption}".rstrip(": "), *(f"  | {line}" for line in text.split("\n"))]
        case File(name=name, size=size, caption=caption):
            lines = [f"{name} ({size} bytes): {caption}".rstrip(": ")]
        case ApprovalCard():
            body = [f"  | {line}" for line in view.body.split("\n")] if view.body else []
            lines = (
                [f"{view.title}: {view.outcome}"] if view.outcome else [view.title, *view.lines, *body, view.warning]
            )
        case TurnCard():
            rows = [f"{_SIGNS[row.state]} {row.text}" for row in view.rows]
            lines = [f"{view.phase.value} · {view.headline}", " · ".join(view.labels), *rows, view.footer]
        case Private(text=text):
            lines = [text]
        case Typing():
            lines = []
        case Reaction() | Stream() | ThreadStatus():
            raise Refused(f"a terminal has nothing for a {type(view).__name__} (see its capabilities)")
        case _:
            assert_never(view)
    return "\n".join(line for line in lines if line)


def without_control(text: str) -> str:
    """The text with every character that a terminal would obey, or that nobody can see, written out."""
    return "".join(
        letter
        if letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs")
        else f"\\u{{{ord(letter):x}}}"
        for letter in text
    )


async def standard_input() -> AsyncIterator[str]:
    """Lines of standard input, until it ends."""
    rest = b""
    descriptor = sys.stdin.fileno()
    while chunk := await _next_bytes(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    yield rest.decode("utf-8", "replace")


async def _next_bytes(descriptor: int) -> bytes:
    """What can be read now, once there is something; nothing at the end. A plain file is always ready."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, ready.set_result, None)
    except PermissionError:
        return os.read(descriptor, 65536)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 65536)
