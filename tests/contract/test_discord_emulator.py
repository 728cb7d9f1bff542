"""discord.py against the Discord emulator, unmodified, led there by the connector that its client takes."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import discord
import pytest
import yarl
from discord import app_commands

from adapters.emulators.discord import DiscordEmulator, Knobs
from tests.support.discord_schema import malformed_answers

# Importing discord.py takes seconds: one worker does it once.
pytestmark = pytest.mark.xdist_group("discord")

TOKEN = "NDI.emulated.token-for-tests"
BOT = 42
ALICE = 7
BOB = 8
GUILD = 100
GENERAL = 101
FORUM = 102
PATIENCE = 30.0


class Loopback(aiohttp.TCPConnector):
    """Leads what is meant for Discord's hosts to the emulator and refuses the rest."""

    HOSTS = frozenset({"discord.com", "gateway.discord.gg", "cdn.discordapp.com", "media.discordapp.net"})

    def __init__(self, base: str) -> None:
        super().__init__()
        self._to = yarl.URL(base)

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        url = req.url
        if url.host in self.HOSTS:
            scheme = "ws" if url.scheme.startswith("ws") else "http"
            req.url = url.with_scheme(scheme).with_host(str(self._to.host)).with_port(self._to.port)
        elif url.host != "127.0.0.1":
            raise OSError(f"refused {url.host}")
        return await super().connect(req, traces, timeout)


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    """Alice, Bob, a guild with a channel and a forum, on a clock that flows; no client may break a rule."""
    made = DiscordEmulator(knobs=Knobs())
    made.add_bot(TOKEN, name="pilot")
    made.add_user(ALICE, "Alice")
    made.add_user(BOB, "Bob")
    made.add_guild(GUILD, "Crew", members=[ALICE, BOB])
    made.add_channel(GUILD, "general", channel=GENERAL)
    made.add_channel(GUILD, "sessions", channel=FORUM, type="forum", tags=["running", "done"])
    await made.start()
    yield made
    await made.stop()
    assert malformed_answers(made) == []
    made.assert_clean()


class Greeting(discord.ui.View):
    """A button that edits its message, and one that opens a form."""

    def __init__(self) -> None:
        super().__init__(timeout=None)

    @discord.ui.button(label="Go", custom_id="go", style=discord.ButtonStyle.primary)
    async def go(self, interaction: discord.Interaction, _: Any) -> None:
        await interaction.response.edit_message(content=f"pressed by {interaction.user.id}", view=None)

    @discord.ui.button(label="Why", custom_id="why")
    async def why(self, interaction: discord.Interaction, _: Any) -> None:
        await interaction.response.send_modal(Reason())


class Reason(discord.ui.Modal, title="Reason"):
    """A form with a text and a choice, in labels."""

    text: Any = discord.ui.Label(text="Say why", component=discord.ui.TextInput(custom_id="text", max_length=20))
    then: Any = discord.ui.Label(
        text="Then",
        component=discord.ui.Select(
            custom_id="then",
            options=[discord.SelectOption(label="Stop", value="stop"), discord.SelectOption(label="Go on", value="on")],
        ),
    )

    async def on_submit(self, interaction: discord.Interaction) -> None:
        said, then = self.text.component.value, self.then.component.values
        await interaction.response.send_message(f"{said} / {then[0]}", ephemeral=True)


class Peer(discord.Client):
    """A bot that greets with buttons, notes what it gets, opens threads and has commands."""

    def __init__(self, url: str, **intents: bool) -> None:
        chosen = discord.Intents.default()
        chosen.message_content = True
        for name, wanted in intents.items():
            setattr(chosen, name, wanted)
        super().__init__(intents=chosen, connector=Loopback(url), guild_ready_timeout=0.05)
        self.tree = app_commands.CommandTree(self)
        self.seen: list[tuple[str, str]] = []
        self.tree.add_command(app_commands.Command(name="ping", description="Answers", callback=self.ping))
        self.tree.add_command(app_commands.ContextMenu(name="Stop agent", callback=self.stop_agent))

    async def ping(self, interaction: discord.Interaction, text: str) -> None:
        await interaction.response.defer(thinking=True)
        await interaction.edit_original_response(content=f"pong {text}")
        await interaction.followup.send("more")

    async def stop_agent(self, interaction: discord.Interaction, message: discord.Message) -> None:
        await interaction.response.send_message(f"stopped {message.content}", ephemeral=True)

    async def setup_hook(self) -> None:
        self.add_view(Greeting())
        await self.tree.sync()

    async def on_ready(self) -> None:
        self.seen.append(("ready", ""))

    async def on_resumed(self) -> None:
        self.seen.append(("resumed", ""))

    async def on_message(self, message: discord.Message) -> None:
        assert self.user is not None
        if message.author.id == self.user.id:
            return
        self.seen.append(("message", message.content))
        if self.user in message.mentions:
            async with message.channel.typing():
                await message.reply("Hi", view=Greeting(), mention_author=False)
        elif message.content == "thread":
            thread = await message.create_thread(name="A thread")
            await thread.send("in thread")
        for file in message.attachments:
            data = await file.read()
            await message.channel.send("back", file=discord.File(io.BytesIO(data[::-1]), file.filename))

    async def on_message_edit(self, _: discord.Message, after: discord.Message) -> None:
        self.seen.append(("edit", after.content))

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self.seen.append(("delete", str(event.message_id)))

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        self.seen.append(("reaction", str(event.emoji)))

    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        self.seen.append(("unreaction", str(event.emoji)))

    async def on_thread_create(self, thread: discord.Thread) -> None:
        self.seen.append(("thread", thread.name))

    async def on_thread_update(self, _: discord.Thread, after: discord.Thread) -> None:
        self.seen.append(("thread edit", f"{after.name} {after.archived}"))

    async def on_typing(self, channel: Any, user: Any, when: Any) -> None:
        self.seen.append(("typing", str(user.id)))


@contextlib.asynccontextmanager
async def running(emulator: DiscordEmulator, **intents: bool) -> AsyncIterator[Peer]:
    """The bot, ready."""
    peer = Peer(emulator.url, **intents)
    task = asyncio.create_task(peer.start(TOKEN))
    try:
        await emulator.wait_for(lambda: ("ready", "") in peer.seen or task.done(), PATIENCE)
        yield peer
    finally:
        await peer.close()
        await task


@pytest.fixture
async def peer(emulator: DiscordEmulator) -> AsyncIterator[Peer]:
    """The bot, ready."""
    async with running(emulator) as made:
        yield made


def of_bot(emulator: DiscordEmulator, channel: int | str) -> list[dict[str, Any]]:
    """What the bot wrote there."""
    return [one for one in emulator.messages(channel) if one["author"]["id"] == str(BOT)]


async def greeted(emulator: DiscordEmulator) -> dict[str, Any]:
    """The bot's greeting, after Alice has called it."""
    await emulator.say(ALICE, f"<@{BOT}> hello", chat=GENERAL)
    return (await emulator.wait_for(lambda: of_bot(emulator, GENERAL), PATIENCE))[-1]


async def test_a_mention_is_answered_and_a_press_edits(emulator: DiscordEmulator, peer: Peer) -> None:
    """Mention, typing, a reply with buttons, a press that edits: all seen by the people."""
    reply = await greeted(emulator)
    assert reply["content"] == "Hi"
    assert reply["referenced_message"]["content"] == f"<@{BOT}> hello"
    assert reply["mentions"] == []
    assert emulator.calls("trigger_typing_indicator")
    pressed = await emulator.press(ALICE, reply["id"], button="Go")
    await emulator.wait_for(lambda: emulator.messages(GENERAL)[-1]["content"] == f"pressed by {ALICE}", PATIENCE)
    assert emulator.messages(GENERAL)[-1]["components"] == []
    assert (await emulator.answer(pressed["id"]))["type"] == 7


async def test_a_form_is_opened_and_answered_for_one_person(emulator: DiscordEmulator, peer: Peer) -> None:
    """A press opens a form, what is filled in arrives, and the answer is shown to that person alone."""
    reply = await greeted(emulator)
    pressed = await emulator.press(ALICE, reply["id"], data="why")
    await emulator.wait_for(lambda: emulator.calls("create_interaction_response"), PATIENCE)
    await emulator.wait_for(lambda: emulator.calls("create_interaction_response")[0].ok, PATIENCE)
    assert (await emulator.answer(pressed["id"]))["data"]["title"] == "Reason"
    await emulator.submit(ALICE, pressed["id"], {"text": "because", "then": ["stop"]})
    await emulator.wait_for(lambda: len(of_bot(emulator, GENERAL)) == 2, PATIENCE)
    assert emulator.messages(GENERAL, user=ALICE)[-1]["content"] == "because / stop"
    assert emulator.messages(GENERAL, user=BOB)[-1]["content"] == "Hi"


async def test_commands_are_synced_and_answered(emulator: DiscordEmulator, peer: Peer) -> None:
    """A command is deferred, its answer edited and followed up; a context menu reads the message it is used on."""
    assert [one["name"] for one in emulator.commands()] == ["ping", "Stop agent"]
    used = await emulator.command(ALICE, "ping", "x", chat=GENERAL)
    await emulator.wait_for(lambda: len(of_bot(emulator, GENERAL)) == 2, PATIENCE)
    assert [one["content"] for one in of_bot(emulator, GENERAL)] == ["pong x", "more"]
    assert (await emulator.answer(used["id"]))["message"]["content"] == "pong x"
    said = await emulator.say(ALICE, "work", chat=GENERAL)
    used = await emulator.command(ALICE, "Stop agent", target=said["id"])
    await emulator.wait_for(lambda: len(of_bot(emulator, GENERAL)) == 3, PATIENCE)
    assert of_bot(emulator, GENERAL)[-1]["content"] == "stopped work"


async def test_a_thread_opens_on_a_message(emulator: DiscordEmulator, peer: Peer) -> None:
    """The thread has the message's id, the bot writes in it, and hears what is said there."""
    said = await emulator.say(ALICE, "thread", chat=GENERAL)
    await emulator.wait_for(lambda: emulator.threads(GENERAL) and of_bot(emulator, said["id"]), PATIENCE)
    assert [one["id"] for one in emulator.threads(GENERAL)] == [said["id"]]
    await emulator.say(ALICE, "inside", chat=said["id"])
    await emulator.wait_for(lambda: ("message", "inside") in peer.seen, PATIENCE)
    thread = peer.get_channel(int(said["id"]))
    assert isinstance(thread, discord.Thread)
    assert [one.content async for one in thread.history(limit=2)] == ["inside", "in thread"]


async def test_direct_messages_go_both_ways(emulator: DiscordEmulator, peer: Peer) -> None:
    """A person writes to the bot directly and is written to."""
    await emulator.say(ALICE, "psst")
    await emulator.wait_for(lambda: ("message", "psst") in peer.seen, PATIENCE)
    user = await peer.fetch_user(ALICE)
    await user.send("yes?")
    assert [one["content"] for one in emulator.messages(ALICE)] == ["psst", "yes?"]


async def test_files_go_both_ways(emulator: DiscordEmulator, peer: Peer) -> None:
    """A file is downloaded from its link and another one uploaded."""
    await emulator.upload(ALICE, b"abc", file_name="a.txt", chat=GENERAL)
    back = (await emulator.wait_for(lambda: of_bot(emulator, GENERAL), PATIENCE))[0]
    assert back["attachments"][0]["filename"] == "a.txt"
    assert emulator.download(back["id"]) == "Y2Jh"


async def test_edits_deletions_and_reactions_are_told(emulator: DiscordEmulator, peer: Peer) -> None:
    """The bot learns of edits, deletions, reactions and typing, and sets reactions itself."""
    said = await emulator.say(ALICE, "first", chat=GENERAL)
    await emulator.wait_for(lambda: ("message", "first") in peer.seen, PATIENCE)
    await emulator.edit(ALICE, said["id"], "second")
    await emulator.react(ALICE, said["id"], ["👍"])
    await emulator.react(ALICE, said["id"])
    await emulator.type(ALICE, chat=GENERAL)
    await emulator.wait_for(lambda: ("typing", str(ALICE)) in peer.seen, PATIENCE)
    channel = peer.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    message = await channel.fetch_message(int(said["id"]))
    await message.add_reaction("👀")
    assert emulator.messages(GENERAL)[0]["reactions"][0]["emoji"]["name"] == "👀"
    await message.remove_reaction("👀", discord.Object(BOT))
    await emulator.delete(ALICE, said["id"])
    await emulator.wait_for(lambda: ("delete", said["id"]) in peer.seen, PATIENCE)
    assert peer.seen[1:] == [
        ("message", "first"),
        ("edit", "second"),
        ("reaction", "👍"),
        ("unreaction", "👍"),
        ("typing", str(ALICE)),
        ("reaction", "👀"),
        ("unreaction", "👀"),
        ("delete", said["id"]),
    ]
