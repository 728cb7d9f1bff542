"""Everything that can be put before people's eyes in Telegram, with words of a stranger's choice in every field."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from adapters.contract import (
    Adapter,
    Answer,
    ApprovalCard,
    Control,
    Document,
    File,
    Form,
    Inbound,
    InboundKind,
    MessageRef,
    Notice,
    Phase,
    Place,
    Private,
    Reaction,
    Row,
    RowState,
    Sender,
    SenderKind,
    Stream,
    Text,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
)
from adapters.emulators.faults import FaultKind
from adapters.emulators.telegram import TelegramEmulator
from adapters.errors import Refused
from adapters.testing import Intake, a_file
from tests.contract.adapter_worlds import ANN, TelegramWorld, telegram_world

PLACE = Place(platform="telegram", account="900", chat=str(ANN))
CONTROL = Control(label="Go", token="apv:" + 22 * "A" + ":y")
APPROVER = str(ANN)


def views(words: str, ref: MessageRef) -> tuple[View, ...]:
    """Views of every kind with the words wherever words go."""
    rows = tuple(Row(state=state, text=words) for state in RowState)
    return (
        TurnCard(phase=Phase.WORKING, headline=words, rows=rows, labels=(words,), footer=words, controls=(CONTROL,)),
        TurnCard(phase=Phase.DONE, headline=words, footer=words),
        Verbatim(title="Part 1", text=words),
        ApprovalCard(
            title="May I?", lines=(words,), body=words, warning=words, controls=(CONTROL,), mention=(APPROVER,)
        ),
        ApprovalCard(title="May I?", outcome=words),
        Answer(markdown=words, footer=words, controls=(CONTROL,), repeat=True, reply_to=ref),
        Answer(markdown=f"# {words}\n\n- **{words}**\n\n> {words}\n\n| a |\n|---|\n| {words} |"),
        Notice(text=words, level="error", repeat=True, controls=(CONTROL,)),
        Document(name="x.md", text=words, caption=words),
        replace(a_file(), caption=words),
        Reaction(ref=ref, mark="accepted"),
        Typing(),
        Stream(stream_id="s", markdown=words),
        ThreadStatus(state="active", title=words),
        Private(person=APPROVER, text=words),
    )


def kinds(some: Iterable[View]) -> set[str]:
    """Names of the kinds of views."""
    return {type(view).__name__ for view in some}


ALL_KINDS = {kind.__name__ for kind in View.__args__}  # type: ignore[attr-defined]


async def show_all(emulator: TelegramEmulator, adapter: Adapter, words: str) -> None:
    """Send every view, edit into each that can be, fall back to plain text, answer a press and ask for a reason."""
    first = await adapter.send(PLACE, Notice(text="first"), "k", 1)
    ref = first.refs[0]
    for view in views(words, ref):
        try:
            await adapter.send(PLACE, view, "k", 1)
        except Refused:
            continue
        if not isinstance(view, Document | File | Reaction | Typing | Private):
            await adapter.edit(ref, view)
    for method in ("sendMessage", "editMessageText"):
        emulator.fault(method, FaultKind.REFUSE, status=400, description="Bad Request: can't parse entities: x")
    await adapter.send(PLACE, Answer(markdown=f"**{words}**"), "k", 1)
    await adapter.edit(ref, Answer(markdown=f"*{words}*"))
    person = Sender(kind=SenderKind.PERSON, id=str(ANN), name=words)
    press = Inbound(kind=InboundKind.FORM, keys=("k",), place=PLACE, sender=person, ref=ref, token=CONTROL.token)
    await adapter.acknowledge(press, Text(text=words))
    form = Form(title=words[:100], label=words[:100], token=CONTROL.token, presets=(("", words[:100]),))
    await adapter.acknowledge(press, form)


@asynccontextmanager
async def shown(words: str) -> AsyncGenerator[TelegramEmulator]:
    """The emulated Telegram after everything was shown once."""
    async with telegram_world() as world:
        yield await _shown_in(world, words)


async def _shown_in(world: TelegramWorld, words: str) -> TelegramEmulator:
    adapter = world.adapter()
    await adapter.start(Intake())
    try:
        await show_all(world.emulator, adapter, words)
    finally:
        await adapter.stop()
    return world.emulator


def entities(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The entities of a message's text or caption."""
    return [*message.get("entities", []), *message.get("caption_entities", [])]


def covered(message: dict[str, Any], entity: dict[str, Any]) -> str:
    """The stretch that an entity covers."""
    units = str(message.get("text") or message.get("caption")).encode("utf-16-le")
    return units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")
