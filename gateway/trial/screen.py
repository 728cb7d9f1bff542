"""The chat as a full screen: messages that change where they stand, and an input line that is always free."""

from __future__ import annotations

import asyncio
import io
from datetime import datetime

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl, UIContent
from prompt_toolkit.widgets import TextArea
from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from gateway.trial.chat import Alert, Button, Change, Message, Note
from gateway.trial.trial import Phase, Quit, Trial

TONES = {"plain": "bright_white", "good": "green", "bad": "bold red", "dim": "bright_black"}

BUTTONS = {"success": "bold black on green", "danger": "bold white on red", "primary": "bold white on blue"}

ENTITIES = {
    "bold": "bold",
    "italic": "italic",
    "underline": "underline",
    "strikethrough": "strike",
    "code": "cyan",
    "pre": "cyan",
    "text_link": "blue underline",
    "url": "blue underline",
    "blockquote": "bright_black",
    "expandable_blockquote": "bright_black",
    "spoiler": "reverse",
    "bot_command": "blue",
    "mention": "blue",
    "text_mention": "blue",
}

BAR = {True: "bright_magenta", False: "bright_cyan"}


class Screen:
    """Shows the chat and reads the input line until the person leaves."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._scrolled = 0
        self._input = TextArea(
            prompt=[("class:prompt", "› ")],
            multiline=False,
            history=InMemoryHistory(),
            accept_handler=lambda buffer: self._accept(buffer.text),
        )
        self._app: Application[None] = Application(
            layout=Layout(
                HSplit(
                    [
                        Window(_Lines(self), wrap_lines=False, always_hide_cursor=True),
                        Window(FormattedTextControl(lambda: ANSI(self._status())), height=1),
                        self._input,
                    ]
                ),
                focused_element=self._input,
            ),
            key_bindings=self._keys(),
            full_screen=True,
            mouse_support=False,
            refresh_interval=1.0,
        )

    async def run(self) -> None:
        """Show and read until `:quit` or Ctrl-C."""
        self._trial.listen(self._changed)
        reading = asyncio.create_task(self._work(), name="do what is typed")
        try:
            await self._app.run_async()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def lines(self, width: int, height: int) -> list[str]:
        """The visible part of the chat as lines with ANSI colours; the newest at the bottom."""
        items = self._trial.chat.timeline
        everything: list[str] = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            shown = rendered(item, width)
            together = isinstance(item, Note) and isinstance(following, Note)
            everything += shown[:-1] if together else shown
        self._scrolled = max(0, min(self._scrolled, len(everything) - height))
        end = len(everything) - self._scrolled
        visible = everything[max(0, end - height) : end]
        return [""] * (height - len(visible)) + visible

    def _accept(self, text: str) -> bool:
        self._scrolled = 0
        self._typed.put_nowait(text)
        return False

    async def _work(self) -> None:
        while True:
            try:
                await self._trial.handle(await self._typed.get())
            except Quit:
                self._app.exit()
                return

    def _changed(self, change: Change | Alert | Note | None) -> None:
        if isinstance(change, Alert):
            self._trial.tell(f"The bot tells you alone: {change.text}", "good")
        self._app.invalidate()

    def _status(self) -> str:
        width = self._app.output.get_size().columns
        trial = self._trial
        match trial.phase:
            case Phase.RUNNING:
                left = Text(f" ● gateway: process {trial.pid} ", style="bold black on green")
            case Phase.STARTING:
                left = Text(" ◌ gateway: starting ", style="bold black on yellow")
            case Phase.DOWN:
                left = Text(" ○ gateway: down, :start starts it ", style="bold white on red")
        if trial.now < trial.typing_until:
            left.append(" … working ", style="bright_black")
        if self._scrolled:
            left.append(" ↑ older, PageDown for the newest ", style="bold yellow")
        right = Text(" :help  :kill  :start  :log  :quit ", style="bright_black")
        left.append(" " * max(1, width - left.cell_len - right.cell_len))
        left.append_text(right)
        return _ansi(left, width)[0]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        @keys.add("c-d")
        def leave(event: KeyPressEvent) -> None:
            event.app.exit()

        @keys.add("pageup")
        def up(event: KeyPressEvent) -> None:
            self._scrolled += 10

        @keys.add("pagedown")
        def down(event: KeyPressEvent) -> None:
            self._scrolled = max(0, self._scrolled - 10)

        return keys


class _Lines(FormattedTextControl):
    """As many lines as there is room for: it is told the size when it draws."""

    def __init__(self, screen: Screen) -> None:
        super().__init__("", focusable=False)
        self._screen = screen

    def create_content(self, width: int, height: int | None) -> UIContent:
        self.text = ANSI("\n".join(self._screen.lines(width, height or 20)))
        return super().create_content(width, height)

    def preferred_height(self, width: int, max_available_height: int, wrap_lines: bool, get_line_prefix: object) -> int:
        return max_available_height


# --------------------------------------------------------------------------------------------------------- rendering


def rendered(item: Message | Note, width: int) -> list[str]:
    """One message or note as lines of at most `width` cells, with an empty line after it."""
    if isinstance(item, Note) and item.whole:
        pieces = chop_cells(_printable(item.text), width)
        return [*(_ansi(Text(piece, style=TONES[item.tone]), width)[0] for piece in pieces), ""]
    if isinstance(item, Note):
        return [*_ansi(Text(_printable(item.text), style=TONES[item.tone]), width - 2, indent="  "), ""]
    if item.gone:
        return []
    bar = ("▌ ", BAR[item.mine])
    lines = [_ansi(_head(item), width)[0]]
    for part in _body(item):
        for line in part.wrap(_console(width - 2), width - 2):
            lines += _ansi(Text.assemble(bar, line), width)
    if item.buttons:
        lines += ["", *(_ansi(Text.assemble(bar, line), width)[0] for line in _rows(item.buttons, width - 2))]
    return [*lines, ""]


def _head(message: Message) -> Text:
    head = Text(
        "you" if message.mine else "pilothouse", style="bold bright_magenta" if message.mine else "bold bright_cyan"
    )
    clock = datetime.fromtimestamp(message.at).astimezone().strftime("%H:%M")
    head.append(f"  {clock}", style="bright_black")
    if message.edited:
        head.append(" edited", style="bright_black")
    if message.quotes:
        head.append(f"  ↪ {_printable(message.quotes)}", style="bright_black italic")
    if message.reaction:
        head.append(f"  {message.reaction}")
    return head


def _body(message: Message) -> list[Text]:
    parts = [_styled(message)] if message.text else []
    if message.file:
        parts.append(Text(f"📎 {_printable(message.file)}", style="bright_blue"))
    return parts


def _styled(message: Message) -> Text:
    """Offsets of Telegram's entities count UTF-16 units, those of Python code points."""
    text = Text(_printable(message.text))
    units = message.text.encode("utf-16-le")
    for entity in message.entities:
        style = ENTITIES.get(str(entity.get("type")))
        start, length = int(entity["offset"]) * 2, int(entity["length"]) * 2
        if style:
            begin = len(units[:start].decode("utf-16-le", "replace"))
            text.stylize(style, begin, begin + len(units[start : start + length].decode("utf-16-le", "replace")))
    return text


def _rows(buttons: tuple[Button, ...], width: int) -> list[Text]:
    rows = [Text()]
    for button in buttons:
        shown = Text(f" {button.number} ", style="bold black on white")
        shown.append(f" {_printable(button.label)} ", style=BUTTONS.get(button.style, "bold white on bright_black"))
        if rows[-1].cell_len and rows[-1].cell_len + shown.cell_len + 2 > width:
            rows.append(Text())
        if rows[-1].cell_len:
            rows[-1].append("  ")
        rows[-1].append_text(shown)
    return rows


def _console(width: int) -> Console:
    return Console(
        width=max(width, 10), file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
    )


def _ansi(text: Text, width: int, *, indent: str = "") -> list[str]:
    """The text as lines with ANSI colours."""
    console = _console(width)
    with console.capture() as captured:
        console.print(text, soft_wrap=False, overflow="fold")
    return [indent + line for line in captured.get().rstrip("\n").split("\n")]


def _printable(text: str) -> str:
    """Nothing that the model says may move the cursor. One sign stays one sign, so that entities stay in place."""
    return "".join(one if one.isprintable() or one == "\n" else "·" for one in text)


__all__ = ["Screen", "rendered"]
