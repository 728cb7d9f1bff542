"""Everything that can be put before people's eyes in Slack and in Discord, with words of a stranger's choice in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

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
    Notice,
    Private,
    Reaction,
    Stream,
    Text,
    ThreadStatus,
    Typing,
    View,
)
from adapters.errors import Refused
from adapters.testing import Intake, running
from tests.contract.adapter_worlds import DiscordWorld, SlackWorld, discord_world, slack_world
from tests.security.telegram_views import APPROVER, views

CONTROLS = tuple(Control(label=label, token=f"apv:{22 * 'B'}:{label}") for label in ("y", "n"))
NOT_EDITED_INTO = (Document, File, Reaction, Typing, Private, Stream, ThreadStatus)


def for_person(view: View, person: str) -> View:
    """The view with this person where another platform's approver stands."""
    if isinstance(view, ApprovalCard) and view.mention == (APPROVER,):
        return replace(view, mention=(person,))
    return replace(view, person=person) if isinstance(view, Private) else view


async def show_all(world: SlackWorld | DiscordWorld, adapter: Adapter, intake: Intake, words: str) -> None:
    """Send every view, edit into each that can be, answer a press with words and another one with a form."""
    ref = (await adapter.send(world.place, Notice(text="first"), "first", 1)).refs[0]
    for number, view in enumerate(views(words, ref)):
        shown = for_person(view, world.person)
        try:
            sent = await adapter.send(world.place, shown, f"key-{number}", 1)
        except Refused:
            continue
        if sent.refs and not isinstance(view, NOT_EDITED_INTO):
            await adapter.edit(sent.refs[-1], shown)
            await adapter.edit(sent.refs[-1], Answer(markdown=words) if isinstance(view, Answer) else shown)
    await _answer_presses(world, adapter, intake, words)


async def _answer_presses(world: SlackWorld | DiscordWorld, adapter: Adapter, intake: Intake, words: str) -> None:
    card = ApprovalCard(title="May I?", body="ls", controls=CONTROLS)
    await adapter.send(world.place, card, "pressed", 1)
    form = Form(title=words[:40], label=words[:40], token=CONTROLS[1].token, presets=(("", "None"), ("x", words[:70])))
    for control, answer in zip(CONTROLS, (Text(text=words), form), strict=True):
        await world.press(control.token)
        press = await intake.until(_press_of(control.token))
        await adapter.acknowledge(press, answer)


def _press_of(token: str) -> Callable[[list[Inbound]], Inbound | None]:
    return lambda taken: next((one for one in taken if one.kind is InboundKind.PRESS and one.token == token), None)


@asynccontextmanager
async def _shown(
    made: AbstractAsyncContextManager[SlackWorld | DiscordWorld], words: str
) -> AsyncGenerator[SlackWorld | DiscordWorld]:
    async with made as world:
        async with running(world) as (adapter, intake):
            await show_all(world, adapter, intake, words)
        yield world


@asynccontextmanager
async def shown_in_slack(words: str) -> AsyncGenerator[SlackWorld]:
    """The emulated Slack after everything was shown once."""
    async with _shown(slack_world(), words) as world:
        assert isinstance(world, SlackWorld)
        yield world


@asynccontextmanager
async def shown_in_discord(words: str) -> AsyncGenerator[DiscordWorld]:
    """The emulated Discord after everything was shown once."""
    async with _shown(discord_world(), words) as world:
        assert isinstance(world, DiscordWorld)
        yield world
