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

from adapters.emulators import FaultKind
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


@contextlib.asynccontextmanager
async def emulated(knobs: Knobs | None = None) -> AsyncIterator[DiscordEmulator]:
    """Alice, Bob, a guild with a channel and a forum, on a clock that flows; no client may break a rule."""
    made = DiscordEmulator(knobs=knobs)
    made.add_bot(TOKEN, name="pilot")
    made.add_user(ALICE, "Alice")
    made.add_user(BOB, "Bob")
    made.add_guild(GUILD, "Crew", members=[ALICE, BOB])
    made.add_channel(GUILD, "general", channel=GENERAL)
    made.add_channel(GUILD, "sessions", channel=FORUM, type="forum", tags=["running", "done"])
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
    assert malformed_answers(made) == []
    made.assert_clean()


@pytest.fixture
async def emulator() -> AsyncIterator[DiscordEmulator]:
    """The emulator with its usual numbers."""
    async with emulated() as made:
        yield made


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

    def __init__(self, url: str, *, heartbeat_timeout: float = 60.0, **intents: bool) -> None:
        chosen = discord.Intents.default()
        chosen.message_content = True
        for name, wanted in intents.items():
            setattr(chosen, name, wanted)
        super().__init__(
            intents=chosen, connector=Loopback(url), guild_ready_timeout=0.05, heartbeat_timeout=heartbeat_timeout
        )
        self.tree = app_commands.CommandTree(self)
        self.seen: list[tuple[str, str]] = []
        self.tree.add_command(app_commands.Command(name="ping", description="Answers", callback=self.ping))
        self.tree.add_command(app_commands.ContextMenu(name="Stop agent", callback=self.stop_agent))

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Does not wait five seconds: here nobody else identifies himself."""

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
async def running(emulator: DiscordEmulator, **settings: Any) -> AsyncIterator[Peer]:
    """The bot, ready."""
    peer = Peer(emulator.url, **settings)
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


# -- the gateway


@pytest.mark.parametrize("how", ["reconnect", "close", "abort", "invalid_resumable"])
async def test_a_lost_connection_is_resumed(emulator: DiscordEmulator, peer: Peer, how: Any) -> None:
    """After op 7, a close or a cut the client resumes and gets what it missed, once and in order."""
    await emulator.say(ALICE, "before", chat=GENERAL)
    await emulator.wait_for(lambda: ("message", "before") in peer.seen, PATIENCE)
    assert emulator.disconnect(how=how) == 1
    await emulator.say(ALICE, "missed", chat=GENERAL)
    await emulator.wait_for(lambda: ("resumed", "") in peer.seen, PATIENCE)
    await emulator.say(ALICE, "after", chat=GENERAL)
    await emulator.wait_for(lambda: ("message", "after") in peer.seen, PATIENCE)
    assert [text for kind, text in peer.seen if kind == "message"] == ["before", "missed", "after"]
    assert peer.seen.count(("ready", "")) == 1


async def test_a_half_open_connection_is_noticed() -> None:
    """A client whose heartbeats stay unanswered comes back by itself, and resumes."""
    knobs = Knobs(heartbeat_interval=0.2)
    async with emulated(knobs) as emulator, running(emulator, heartbeat_timeout=1.5) as peer:
        assert emulator.disconnect(how="freeze") == 1
        await emulator.say(ALICE, "missed", chat=GENERAL)
        await emulator.wait_for(lambda: ("message", "missed") in peer.seen, PATIENCE)
        await emulator.wait_for(lambda: ("resumed", "") in peer.seen, PATIENCE)


async def test_an_invalid_session_forgets(emulator: DiscordEmulator, peer: Peer) -> None:
    """After op 9 the client starts anew and what happened meanwhile is not replayed."""
    assert emulator.disconnect(how="invalid") == 1
    await emulator.say(ALICE, "lost", chat=GENERAL)
    await emulator.wait_for(lambda: peer.seen.count(("ready", "")) == 2, PATIENCE)
    await emulator.say(ALICE, "heard", chat=GENERAL)
    await emulator.wait_for(lambda: ("message", "heard") in peer.seen, PATIENCE)
    assert ("message", "lost") not in peer.seen
    channel = peer.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    assert [one.content async for one in channel.history()] == ["heard", "lost"]


async def test_a_bad_token_and_a_forbidden_intent_are_refused(emulator: DiscordEmulator) -> None:
    """A wrong token fails the login; an intent that is not switched on closes the gateway with 4014."""
    stranger = Peer(emulator.url)
    with pytest.raises(discord.LoginFailure):
        await stranger.start("wrong.token.altogether")
    await stranger.close()
    emulator.add_bot("NDM.second.token", name="second", intents=0)
    emulator.add_guild(200, "Other", members=[ALICE], bots=[43])
    greedy = Peer(emulator.url)
    with pytest.raises(discord.PrivilegedIntentsRequired):
        await greedy.start("NDM.second.token")
    await greedy.close()
    assert [entry.data["code"] for entry in emulator.violations] == [4014]
    emulator.journal.clear()


async def test_contents_are_blank_without_the_intent(emulator: DiscordEmulator) -> None:
    """Without MESSAGE_CONTENT only mentions and direct messages can be read."""
    async with running(emulator, message_content=False) as peer:
        await emulator.say(ALICE, "secret", chat=GENERAL)
        await emulator.say(ALICE, f"<@{BOT}> open", chat=GENERAL)
        await emulator.say(ALICE, "private")
        await emulator.wait_for(lambda: ("message", "private") in peer.seen, PATIENCE)
        heard = [text for kind, text in peer.seen if kind == "message"]
        assert heard == ["", f"<@{BOT}> open", "private"]


async def test_missing_intents_keep_events_away(emulator: DiscordEmulator) -> None:
    """Without the intents for reactions and typing no such event comes."""
    async with running(emulator, reactions=False, typing=False) as peer:
        said = await emulator.say(ALICE, "x", chat=GENERAL)
        await emulator.react(ALICE, said["id"], ["👍"])
        await emulator.type(ALICE, chat=GENERAL)
        await emulator.say(ALICE, "end", chat=GENERAL)
        await emulator.wait_for(lambda: ("message", "end") in peer.seen, PATIENCE)
        assert {kind for kind, _ in peer.seen} == {"ready", "message"}


@pytest.mark.parametrize(
    ("kind", "expected"), [(FaultKind.DUPLICATE, ["a", "a", "b"]), (FaultKind.REORDER, ["b", "a"])]
)
async def test_events_come_twice_or_late(
    emulator: DiscordEmulator, peer: Peer, kind: FaultKind, expected: list[str]
) -> None:
    """An event is delivered twice, or after the one that follows it."""
    emulator.fault("MESSAGE_CREATE", kind, event=True)
    await emulator.say(ALICE, "a", chat=GENERAL)
    await emulator.say(ALICE, "b", chat=GENERAL)
    await emulator.wait_for(lambda: len(peer.seen) == 1 + len(expected), PATIENCE)
    assert [text for what, text in peer.seen if what == "message"] == expected


# -- limits and faults


def general(peer: Peer) -> discord.TextChannel:
    """The channel as the client knows it."""
    channel = peer.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    return channel


async def test_buckets_are_obeyed() -> None:
    """The client reads the headers of a bucket and spreads its calls; all arrive."""
    knobs = Knobs(buckets={"create_message": (3, 0.2)})
    async with emulated(knobs) as emulator, running(emulator) as peer:
        await asyncio.gather(*(general(peer).send(str(number)) for number in range(8)))
        assert sorted(one["content"] for one in of_bot(emulator, GENERAL)) == [str(number) for number in range(8)]


@pytest.mark.parametrize("scope", ["user", "global", "shared"])
async def test_a_rate_limit_is_waited_for(peer: Peer, emulator: DiscordEmulator, scope: str) -> None:
    """The client waits for as long as a 429 says, and sends again."""
    limits = {"scope": scope, "retry_after": 0.05}
    emulator.fault("create_message", FaultKind.RATE_LIMIT, parameters=limits)
    await general(peer).send("patient")
    assert [call.status for call in emulator.calls("create_message")] == [429, 200]
    assert [one["content"] for one in of_bot(emulator, GENERAL)] == ["patient"]


async def test_a_failure_after_accepting_is_made_good_by_the_nonce(peer: Peer, emulator: DiscordEmulator) -> None:
    """A message that was accepted before the connection broke is not sent twice with the same nonce."""
    emulator.fault("create_message", FaultKind.DROP, applied=True)
    with pytest.raises((aiohttp.ClientError, OSError)):
        await general(peer).send("once", nonce="n-1")
    again = await general(peer).send("once", nonce="n-1")
    assert [one["id"] for one in of_bot(emulator, GENERAL)] == [str(again.id)]


REFUSED = [
    ({"content": "x" * 2001}, 50035, "content"),
    ({"content": ""}, 50006, ""),
    ({"embed": discord.Embed(description="x" * 4097)}, 50035, "description"),
    ({"embeds": [discord.Embed(description="x" * 4000)] * 2}, 50035, "6000"),
]


@pytest.mark.parametrize(("given", "code", "words"), REFUSED)
async def test_what_is_too_much_is_refused(peer: Peer, given: dict[str, Any], code: int, words: str) -> None:
    """Limits of content and embeds are told with Discord's code and place."""
    with pytest.raises(discord.HTTPException) as refused:
        await general(peer).send(**given)
    assert refused.value.code == code
    assert words in str(refused.value)


async def test_new_components_have_their_own_rules(peer: Peer, emulator: DiscordEmulator) -> None:
    """A layout is shown as it was built; with more than 4,000 characters it is refused."""
    view = discord.ui.LayoutView()
    row: Any = discord.ui.ActionRow(discord.ui.Button(label="Stop", custom_id="stop"))
    view.add_item(discord.ui.Container(discord.ui.TextDisplay("**Working**"), discord.ui.Separator(), row))
    await general(peer).send(view=view, silent=True)
    shown = of_bot(emulator, GENERAL)[0]
    assert shown["flags"] == (1 << 15) | (1 << 12)
    assert [one["type"] for one in shown["components"][0]["components"]] == [10, 14, 1]
    long = discord.ui.LayoutView()
    for _ in range(2):
        long.add_item(discord.ui.TextDisplay("x" * 2001))
    with pytest.raises(discord.HTTPException, match="4000"):
        await general(peer).send(view=long)


async def test_a_forum_post_opens_with_its_message(peer: Peer, emulator: DiscordEmulator) -> None:
    """A post has tags and a first message with its own id."""
    forum = peer.get_channel(FORUM)
    assert isinstance(forum, discord.ForumChannel)
    tag = forum.available_tags[0]
    made = await forum.create_thread(name="Session", content="first", applied_tags=[tag])
    assert made.message.id == made.thread.id
    assert [one.name for one in made.thread.applied_tags] == ["running"]
    await made.thread.edit(applied_tags=[forum.available_tags[1]], archived=True)
    assert emulator.threads(FORUM)[0]["thread_metadata"]["archived"]
    archived = [one.id async for one in forum.archived_threads()]
    assert archived == [made.thread.id]
    await made.thread.send("awake")
    assert not emulator.threads(FORUM)[0]["thread_metadata"]["archived"]
