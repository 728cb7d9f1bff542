"""The terminal adapter, beyond the contract."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Form,
    Inbound,
    InboundKind,
    Phase,
    Place,
    Row,
    RowState,
    Text,
    TurnCard,
    Verbatim,
)
from adapters.terminal import TerminalAdapter, create, shown
from adapters.testing import Intake
from tests.architecture.sources import ROOT
from tests.contract.adapter_worlds import ENVIRONMENT

PLACE = Place(platform="terminal", account="local", chat="terminal")


async def lines(*some: str) -> AsyncIterator[str]:
    for line in some:
        yield line


async def taken(*some: str) -> list[Inbound]:
    """What comes of typed lines, with a card of one button on the screen."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def typed() -> AsyncIterator[str]:
        while True:
            yield await queue.get()

    adapter, intake = TerminalAdapter(ENVIRONMENT, typed(), io.StringIO()), Intake()
    await adapter.start(intake)
    await adapter.send(PLACE, Answer(markdown="x", controls=(Control(label="Go", token="token"),)), "k", 1)
    for number, line in enumerate(some, 1):
        queue.put_nowait(line)
        await intake.until(lambda all_of_them, number=number: len(all_of_them) >= number)
    await adapter.stop()
    return intake.taken


async def test_lines_are_messages_commands_and_presses() -> None:
    """A line is a message, `/name words` a command, `!1` a press; a number without a button is words."""
    found = await taken("hello", "/steer go on", "!1", "!7", "! 1")
    assert [(one.kind, one.text, one.command, one.arguments, one.token) for one in found] == [
        (InboundKind.MESSAGE, "hello", None, "", None),
        (InboundKind.COMMAND, "/steer go on", "steer", "go on", None),
        (InboundKind.PRESS, "", None, "", "token"),
        (InboundKind.MESSAGE, "!7", None, "", None),
        (InboundKind.MESSAGE, "! 1", None, "", None),
    ]
    assert found[2].ref is not None
    assert found[2].ref.id == "1"
    assert len({one.keys for one in found}) == 5


async def test_two_processes_have_different_keys() -> None:
    """The same line in another process is another message."""
    assert (await taken("hello"))[0].keys != (await taken("hello"))[0].keys


async def test_form_is_filled_in_by_the_next_line() -> None:
    """After a question the next line is its answer, once; a command is not."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def typed() -> AsyncIterator[str]:
        while True:
            yield await queue.get()

    screen, intake = io.StringIO(), Intake()
    adapter = TerminalAdapter(ENVIRONMENT, typed(), screen)
    await adapter.start(intake)
    queue.put_nowait("hello")
    press = await intake.until(lambda all_of_them: all_of_them and all_of_them[0])
    await adapter.acknowledge(press, Form(title="Why not?", label="Reason", token="form"))
    for line in ("/help", "it is Friday", "bye"):
        queue.put_nowait(line)
    await intake.until(lambda all_of_them: len(all_of_them) == 4)
    await adapter.acknowledge(press, Text(text="Thanks."))
    await adapter.stop()
    assert [one.kind for one in intake.taken[1:]] == [InboundKind.COMMAND, InboundKind.FORM, InboundKind.MESSAGE]
    assert (intake.taken[2].token, dict(intake.taken[2].fields)) == ("form", {"reason": "it is Friday"})
    assert screen.getvalue() == "Why not?\nReason: \n\nThanks.\n\n"


async def test_end_of_input_is_told() -> None:
    """Health says that nothing more will come."""
    adapter, intake = TerminalAdapter(ENVIRONMENT, lines("last words"), io.StringIO()), Intake()
    await adapter.start(intake)
    await intake.until(lambda all_of_them: len(all_of_them) == 1)
    async with asyncio.timeout(30):
        while adapter.health.state != "stopped":
            await asyncio.sleep(0)
    assert adapter.health.detail == "the input has ended"
    await adapter.stop()


def test_views_are_readable() -> None:
    """A card, an action and an outcome as plain text."""
    rows = (Row(state=RowState.DONE, text="read"), Row(state=RowState.RUNNING, text="run"))
    assert shown(TurnCard(phase=Phase.WORKING, headline="tests", rows=rows)) == "working · tests\n☑ read\n▸ run"
    card = ApprovalCard(title="May I?", lines=("asked by Ann",), body="rm x\nrm y", warning="high risk")
    assert shown(card) == "May I?\nasked by Ann\n  | rm x\n  | rm y\nhigh risk"
    assert shown(ApprovalCard(title="May I?", outcome="Denied")) == "May I?: Denied"
    assert shown(Verbatim(title="Look", text="a\n\nb")) == "Look\n  | a\n  | \n  | b"


def test_settings() -> None:
    """There is one setting; anything else is a mistake that is named."""
    with pytest.raises(ValueError, match=r"terminal\.colour"):
        create({"colour": True}, ENVIRONMENT)


PROGRAM = """
import asyncio, secrets
from adapters.contract import Environment
from adapters.terminal import create
async def main():
    environment = Environment(now_ms=lambda: 0, sleep=asyncio.sleep, random_bytes=secrets.token_bytes)
    adapter = create({}, environment)
    async def intake(inbound):
        print(inbound.text, flush=True)
    await adapter.start(intake)
    while adapter.health.state != "stopped":
        await asyncio.sleep(0.01)
    await adapter.stop()
asyncio.run(main())
"""


@pytest.mark.parametrize("through", ["pipe", "file"])
def test_standard_input_may_be_a_pipe_or_a_file(through: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Lines are read from whatever standard input is, the last one also without an end."""
    path = tmp_path_factory.mktemp("input") / "lines"
    path.write_text("first\nzweite é\nlast")
    with path.open() as file:
        given = {"stdin": file} if through == "file" else {"input": path.read_text()}
        program = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60, **given)
    assert done.stdout.splitlines() == ["first", "zweite é", "last"], done.stderr
