"""The Discord adapter against an emulated Discord, beyond what the contract asks of every adapter."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Document,
    Environment,
    Form,
    Inbound,
    InboundKind,
    MessageRef,
    Notice,
    Phase,
    Place,
    Reaction,
    Style,
    Text,
    ThreadStatus,
    TurnCard,
    Typing,
    View,
)
from adapters.discord import create, diagnose
from adapters.discord.adapter import DiscordAdapter
from adapters.emulators.clock import ManualClock
from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.faults import FaultKind
from adapters.errors import BadCredentials, NotConnected, Refused, TargetGone
from adapters.testing import Intake, running, said
from tests.contract.adapter_worlds import BEN, CHANNEL, DISCORD_TOKEN, ENVIRONMENT, GUILD, PATIENT, PILOT
from tests.support.discord_reader import buttons_of, shown_in

pytestmark = pytest.mark.xdist_group("discord")

OTHER, FORUM = "1100000000000000011", "1100000000000000012"
DENY = "apv:" + 22 * "A" + ":n"
APPROVE = "apv:" + 22 * "A" + ":y"
CARD = ApprovalCard(
    title="May I?",
    body="rm -r build",
    controls=(
        Control(label="Approve", token=APPROVE, style=Style.PRIMARY),
        Control(label="Deny", token=DENY, style=Style.DANGER),
    ),
)


@asynccontextmanager
async def emulated(clock: ManualClock | None = None, **guild: Any) -> AsyncGenerator[DiscordEmulator]:
    """Ben and the bot in a server with a channel and a forum."""
    emulator = await DiscordEmulator(clock=clock, knobs=PATIENT).start()
    emulator.add_bot(DISCORD_TOKEN, name="Pilot")
    emulator.add_user(BEN, "Ben")
    emulator.add_guild(GUILD, "Team", members=[BEN], **guild)
    emulator.add_channel(GUILD, "general", channel=CHANNEL)
    emulator.add_channel(GUILD, "posts", channel=FORUM, type="forum")
    try:
        yield emulator
        emulator.assert_clean()
    finally:
        await emulator.stop()


def made(emulator: DiscordEmulator, environment: Environment = ENVIRONMENT) -> DiscordAdapter:
    adapter = create({"token": DISCORD_TOKEN, "api_base": emulator.url}, environment)
    assert isinstance(adapter, DiscordAdapter)
    return adapter


@asynccontextmanager
async def started(**more: Any) -> AsyncGenerator[tuple[DiscordEmulator, DiscordAdapter, Intake]]:
    async with emulated(**more) as emulator, listening(emulator) as (adapter, intake):
        yield emulator, adapter, intake


@asynccontextmanager
async def listening(
    emulator: DiscordEmulator, intake: Intake | None = None
) -> AsyncGenerator[tuple[DiscordAdapter, Intake]]:
    """Another process on the same bot."""
    adapter, intake = made(emulator), intake or Intake()
    await adapter.start(intake)
    try:
        yield adapter, intake
    finally:
        await adapter.stop()


def of_kind(kind: InboundKind) -> Any:
    return lambda taken: next((one for one in taken if one.kind is kind), None)


async def mentioned(emulator: DiscordEmulator, intake: Intake, text: str = "look at the tests") -> Inbound:
    """Ben mentions the bot in the channel."""
    await emulator.say(BEN, f"<@{PILOT}> {text}", chat=CHANNEL)
    return await intake.until(said(text))


def ours(emulator: DiscordEmulator, channel: str) -> list[dict[str, Any]]:
    return [one for one in emulator.messages(channel) if one["author"]["id"] == PILOT and one["type"] in (0, 19)]


def words(emulator: DiscordEmulator, channel: str) -> list[str]:
    return [shown_in(one) for one in ours(emulator, channel)]


# ---------------------------------------------------------------------------------------------------------- start


async def test_wrong_token_is_told_at_start() -> None:
    """A token that Discord does not know ends the start with what to do, and leaves nothing running."""
    async with emulated() as emulator:
        wrong = DISCORD_TOKEN.replace("TEST", "WRONG")
        adapter = create({"token": wrong, "api_base": emulator.url}, ENVIRONMENT)
        with pytest.raises(BadCredentials, match="developer portal") as caught:
            await adapter.start(Intake())
        assert wrong not in str(caught.value)
        assert adapter.health.state == "stopped"


async def test_server_that_is_not_there_can_be_tried_again() -> None:
    """Without a network the start is NotConnected, and a later one succeeds."""
    async with emulated() as emulator:
        port = int(emulator.url.rpartition(":")[2])
        adapter = made(emulator)
        await emulator.stop()
        with pytest.raises(NotConnected):
            await adapter.start(Intake())
        await emulator.start(port=port)
        await adapter.start(Intake())
        await adapter.stop()


async def test_menu_is_set_only_when_it_changed() -> None:
    """A start with the same commands asks, and sets nothing; the menu also stops the agent from a message."""
    async with emulated() as emulator:
        for commands in ({"help": "Help"}, {"help": "Help"}, {"help": "Help", "new": "New"}):
            async with running(_World(emulator, replace(ENVIRONMENT, commands=commands))):
                pass
        assert len(emulator.calls("bulk_set_application_commands")) == 2
        assert {one["name"] for one in emulator.commands()} == {"help", "new", "Stop agent"}


class _World:
    """As much of a world as `running` needs."""

    def __init__(self, emulator: DiscordEmulator, environment: Environment) -> None:
        self._made = lambda: made(emulator, environment)

    def adapter(self) -> DiscordAdapter:
        return self._made()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


async def test_bot_without_the_intent_for_content_works_on_mentions() -> None:
    """A bot that may not read everything hears what is said to it, and is not thrown out for asking too much."""
    emulator = await DiscordEmulator().start()
    emulator.add_bot(DISCORD_TOKEN, name="Pilot", intents=0)
    emulator.add_user(BEN, "Ben")
    emulator.add_guild(GUILD, "Team", members=[BEN])
    emulator.add_channel(GUILD, "general", channel=CHANNEL)
    try:
        async with listening(emulator) as (_, intake):
            await emulator.say(BEN, "not for the bot", chat=CHANNEL)
            await mentioned(emulator, intake)
            assert [one.text for one in intake.taken if one.kind is InboundKind.MESSAGE] == ["look at the tests"]
        found = {one.id: one for one in await diagnose({"token": DISCORD_TOKEN, "api_base": emulator.url}, ENVIRONMENT)}
        assert "Message Content Intent" in found["discord.message_content"].remedy
    finally:
        await emulator.stop()


# -------------------------------------------------------------------------------------------------------- threads


async def test_thread_is_opened_when_the_first_thing_is_said_in_it() -> None:
    """A mention is answered in a thread on it, named after its words; what is said there comes to the same place."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        assert emulator.threads(CHANNEL) == []
        await adapter.send(mention.place, Typing(), "sign", 1)
        await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        (thread,) = emulator.threads(CHANNEL)
        assert (thread["id"], thread["name"]) == (mention.place.thread, "look at the tests")
        assert words(emulator, thread["id"]) == ["I look"]
        await emulator.say(BEN, "and now fix them", chat=thread["id"])
        assert (await intake.until(said("and now fix them"))).place == mention.place


async def test_bot_s_own_role_stands_for_the_bot() -> None:
    """Discord lists a role with the bot's name beside the bot; whoever picks it means the bot."""
    async with started() as (emulator, _, intake):
        role = next(one["id"] for one in emulator.snapshot()["guilds"][0]["roles"] if "tags" in one)
        await emulator.say(BEN, f"<@&{role}> look at this", chat=CHANNEL)
        assert (await intake.until(said("look at this"))).addressed


async def test_thread_that_another_process_opened_is_used() -> None:
    """A crash between opening and sending leaves a thread, which is found and not opened twice."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        emulator.fault("create_thread_from_message", FaultKind.DROP, applied=True)
        with pytest.raises(Exception):  # noqa: B017 - whatever it is, the attempt did not end well
            await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        await adapter.send(mention.place, Notice(text="I look"), "key", 2)
        (thread,) = emulator.threads(CHANNEL)
        assert words(emulator, thread["id"]) == ["I look"]


async def test_without_the_right_to_open_threads_the_channel_is_used() -> None:
    """The answer stands in the channel as a reply, its card can be edited and pressed, also by another process."""
    rights = ["VIEW_CHANNEL", "SEND_MESSAGES", "READ_MESSAGE_HISTORY"]
    async with emulated(bot_permissions=rights, everyone=["VIEW_CHANNEL"]) as emulator:
        async with listening(emulator) as (adapter, intake):
            mention = await mentioned(emulator, intake)
            sent = await adapter.send(mention.place, CARD, "key", 1)
            assert emulator.threads(CHANNEL) == []
            (card,) = ours(emulator, CHANNEL)
            assert card["message_reference"]["message_id"] == mention.place.thread
            await emulator.press(BEN, card["id"], data=DENY)
            press = await intake.until(of_kind(InboundKind.PRESS))
            assert (press.place.chat, press.place.thread) == (CHANNEL, None)
            await adapter.acknowledge(press, None)
        async with listening(emulator) as (again, _):
            await again.edit(sent.refs[0], replace(CARD, outcome="Denied by Ben", controls=()))
            assert "Denied by Ben" in words(emulator, CHANNEL)[0]


async def test_right_that_is_missing_in_threads_only_does_not_lose_the_chat() -> None:
    """The thread takes nothing from us, the channel may: that is told apart from a channel that is lost."""
    rights = ["VIEW_CHANNEL", "SEND_MESSAGES", "READ_MESSAGE_HISTORY", "CREATE_PUBLIC_THREADS"]
    async with started(bot_permissions=rights, everyone=["VIEW_CHANNEL"]) as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        with pytest.raises(TargetGone) as caught:
            await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        assert caught.value.thread_only


async def test_locked_thread_is_told_apart_from_a_lost_chat() -> None:
    """A thread that a moderator closed takes nothing; its channel does."""
    rights = ["VIEW_CHANNEL", "SEND_MESSAGES", "SEND_MESSAGES_IN_THREADS", "READ_MESSAGE_HISTORY"]
    rights.append("CREATE_PUBLIC_THREADS")
    async with started(bot_permissions=rights, everyone=["VIEW_CHANNEL", "SEND_MESSAGES"]) as (
        emulator,
        adapter,
        intake,
    ):
        mention = await mentioned(emulator, intake)
        sent = await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        await emulator.archive_thread(BEN, mention.place.thread or "", locked=True)
        for work in (
            lambda: adapter.send(mention.place, Notice(text="more"), "key 2", 1),
            lambda: adapter.edit(sent.refs[0], Notice(text="changed")),
        ):
            with pytest.raises(TargetGone) as caught:
                await work()
            assert caught.value.thread_only


async def test_message_whose_root_is_gone_goes_to_the_channel_of_the_gateway() -> None:
    """A mention that was deleted before its thread was opened has none: that is said, and is not the chat's end."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        await emulator.delete(BEN, mention.ref.id)  # type: ignore[union-attr]
        with pytest.raises(TargetGone) as caught:
            await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        assert caught.value.thread_only


async def test_post_in_a_forum_is_a_conversation() -> None:
    """A post is a thread of its forum; reactions on its first message stand in the thread itself."""
    async with started() as (emulator, adapter, intake):
        post = await emulator.create_thread(BEN, "Release", chat=FORUM, text=f"<@{PILOT}> write the notes")
        first = await intake.until(said("write the notes"))
        assert (first.place.chat, first.place.thread) == (FORUM, post["id"])
        assert first.ref is not None
        await adapter.send(first.place, Reaction(ref=first.ref, mark="accepted"), "mark", 1)
        await adapter.send(first.place, Answer(markdown="Here.", reply_to=first.ref), "key", 1)
        root, answer = emulator.messages(post["id"])[0], ours(emulator, post["id"])[0]
        assert [one["emoji"]["name"] for one in root["reactions"]] == ["👀"]
        assert answer["message_reference"]["message_id"] == first.ref.id


async def test_deleted_post_is_told_apart_from_a_lost_chat() -> None:
    """A forum's thread cannot be opened again; only the thread is gone."""
    async with started() as (emulator, adapter, intake):
        post = await emulator.create_thread(BEN, "Release", chat=FORUM, text=f"<@{PILOT}> write the notes")
        first = await intake.until(said("write the notes"))
        await emulator.delete_thread(BEN, post["id"])
        with pytest.raises(TargetGone) as caught:
            await adapter.send(first.place, Notice(text="anybody?"), "key", 1)
        assert caught.value.thread_only


async def test_archived_thread_wakes_up() -> None:
    """An archived thread is written to and edited in as if it were not, and its history can be read."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        sent = await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        assert mention.place.thread is not None
        await emulator.say(BEN, "while it is quiet", chat=mention.place.thread)
        await emulator.archive_thread(BEN, mention.place.thread)
        assert [one.text for one in await adapter.backfill(mention.place, mention.ref)] == ["while it is quiet"]
        await emulator.archive_thread(BEN, mention.place.thread)
        await adapter.edit(sent.refs[0], Notice(text="I have looked"))
        await emulator.archive_thread(BEN, mention.place.thread)
        await adapter.send(mention.place, Notice(text="more"), "key 2", 1)
        assert words(emulator, mention.place.thread) == ["I have looked", "more"]


async def test_thread_is_renamed_at_most_twice_in_ten_minutes() -> None:
    """What goes beyond is left out without an error or a wait, and a name that a person gave stays."""
    clock = ManualClock()
    async with emulated(clock=clock) as emulator:
        environment = replace(ENVIRONMENT, now_ms=lambda: round(clock.now() * 1000))
        adapter, intake = made(emulator, environment), Intake()
        await adapter.start(intake)
        try:
            mention = await mentioned(emulator, intake)
            await adapter.send(mention.place, Notice(text="I look"), "key", 1)
            for title in ("one", "two", "three"):
                await adapter.send(mention.place, ThreadStatus(state="active", title=title), f"name {title}", 1)
            assert emulator.threads(CHANNEL)[0]["name"] == "two"
            await emulator.rename_thread(BEN, mention.place.thread or "", "ours")
            await emulator.advance(601)
            await adapter.send(mention.place, ThreadStatus(state="active", title="four"), "name four", 1)
            assert emulator.threads(CHANNEL)[0]["name"] == "ours"
        finally:
            await adapter.stop()


async def test_thread_of_our_own_is_opened_once_under_its_key() -> None:
    """Opened again under the same key it is the same thread."""
    async with started() as (emulator, adapter, _):
        place = Place(platform="discord", account=PILOT, chat=CHANNEL)
        first = await adapter.open_thread(place, "Morning report", "key")
        assert await adapter.open_thread(place, "Morning report", "key") == first
        assert [one["name"] for one in emulator.threads(CHANNEL)] == ["Morning report"]
        assert len(ours(emulator, CHANNEL)) == 1


# ---------------------------------------------------------------------------------------------------------- sends


VIEWS: tuple[View, ...] = (
    Answer(markdown="@everyone <@1100000000000000042> @here <@&1100000000000000001> https://a.example"),
    Notice(text="@everyone <@1100000000000000042>"),
    CARD,
    replace(CARD, title="@everyone", lines=("<@1100000000000000042>",), warning="@here", body="@everyone"),
    TurnCard(phase=Phase.WORKING, headline="@everyone <@1100000000000000042>"),
    Document(name="a.txt", text="@everyone", caption="@everyone <@1100000000000000042>"),
)


async def test_nobody_is_mentioned_and_nothing_is_previewed_on_any_path() -> None:
    """Sends and edits carry the wish that nobody is notified, and links are not fetched (S-36, S-37)."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        for at, view in enumerate(VIEWS):
            sent = await adapter.send(mention.place, view, f"key {at}", 1)
            if not isinstance(view, Document):
                await adapter.edit(sent.refs[0], view)
        for shown in ours(emulator, mention.place.thread or ""):
            assert (shown["mentions"], shown["mention_roles"], shown["mention_everyone"]) == ([], [], False)
            assert shown["flags"] & 4
        for call in emulator.sends:
            assert call.params["allowed_mentions"]["parse"] == []


async def test_approvers_are_mentioned_by_id() -> None:
    """Only who is named by the view is notified."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        card = replace(CARD, mention=(BEN,), body="@everyone")
        await adapter.send(mention.place, card, "key", 1)
        (shown,) = ours(emulator, mention.place.thread or "")
        assert [one["id"] for one in shown["mentions"]] == [BEN]
        assert not shown["mention_everyone"]


async def test_repeat_long_after_the_nonce_is_forgotten_makes_nothing_new() -> None:
    """Past the minutes in which Discord knows a nonce, another process finds the message in history, of any kind."""
    clock = ManualClock()
    async with emulated(clock=clock) as emulator:
        async with listening(emulator) as (adapter, intake):
            mention = await mentioned(emulator, intake)
            views = (Answer(markdown="**Done**, see `x`", reply_to=mention.ref, footer="3 steps"), CARD, VIEWS[-1])
            for at, view in enumerate(views):
                await adapter.send(mention.place, view, f"key {at}", 1)
            await emulator.advance(3600)
            await adapter.send(mention.place, views[0], "key 0", 2)
        async with listening(emulator) as (again, _):
            for at, view in enumerate(views):
                await again.send(mention.place, view, f"key {at}", 2)
        assert len(ours(emulator, mention.place.thread or "")) == len(views)


async def test_same_words_of_before_are_not_taken_for_a_repeat() -> None:
    """What we remember to have sent under another key, and what lies far back, is another message."""
    clock = ManualClock()
    async with emulated(clock=clock) as emulator:
        async with listening(emulator) as (adapter, intake):
            mention = await mentioned(emulator, intake)
            await adapter.send(mention.place, Answer(markdown="Done."), "key 1", 1)
            await adapter.send(mention.place, Answer(markdown="Done."), "key 2", 2)
            for number in range(6):
                await adapter.send(mention.place, Notice(text=f"notice {number}"), f"notice {number}", 1)
        await emulator.advance(3600)
        async with listening(emulator) as (again, _):
            await again.send(mention.place, Answer(markdown="Done."), "key 3", 2)
        assert words(emulator, mention.place.thread or "").count("Done.") == 3


async def test_other_words_are_not_taken_for_a_repeat() -> None:
    """A second attempt whose first one never arrived is sent."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        await adapter.send(mention.place, Notice(text="one"), "key 1", 1)
        await adapter.send(mention.place, Notice(text="two"), "key 2", 2)
        assert words(emulator, mention.place.thread or "") == ["one", "two"]


async def test_mark_replaces_the_former_one_also_after_a_restart() -> None:
    """A message has one mark of ours at a time, and none in the end."""
    async with emulated() as emulator:
        async with listening(emulator) as (adapter, intake):
            mention = await mentioned(emulator, intake)
            assert mention.ref is not None
            await adapter.send(mention.place, Reaction(ref=mention.ref, mark="accepted"), "key 1", 1)
        async with listening(emulator) as (adapter, _):
            for mark, emoji in (("queued", ["⏳"]), ("steered", ["⏩"]), ("none", [])):
                view = Reaction(ref=mention.ref, mark=mark)  # type: ignore[arg-type]
                await adapter.send(mention.place, view, f"key {mark}", 1)
                root = emulator.messages(CHANNEL)[0]
                assert [one["emoji"]["name"] for one in root.get("reactions", [])] == emoji


async def test_files_go_both_ways() -> None:
    """What a person sends can be read by its id, from Discord's own hosts only."""
    async with started() as (emulator, adapter, intake):
        await emulator.upload(BEN, b"twelve bytes", file_name="notes.txt", text="what is this?")
        inbound = await intake.until(said("what is this?"))
        (file,) = inbound.files
        assert (file.name, file.size) == ("notes.txt", 12)
        assert b"".join([piece async for piece in adapter.open_file(file)]) == b"twelve bytes"
        with pytest.raises(Refused):
            _ = [piece async for piece in adapter.open_file(replace(file, id="https://evil.example/x"))]


async def test_card_does_not_turn_into_a_plain_message() -> None:
    """A message of components stays one, so words that replace it are shown as a component."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        sent = await adapter.send(mention.place, CARD, "key", 1)
        await adapter.edit(sent.refs[0], Notice(text="no longer of use"))
        (shown,) = ours(emulator, mention.place.thread or "")
        assert shown_in(shown) == "no longer of use"
        assert buttons_of(shown) == {}


async def test_message_to_a_person_who_does_not_take_any_is_refused() -> None:
    """A channel that is none, or not ours, is an error of the contract."""
    async with started() as (_, adapter, _):
        with pytest.raises(Refused, match="whole numbers"):
            await adapter.send(Place(platform="discord", account=PILOT, chat="general"), Typing(), "key", 1)
        with pytest.raises(TargetGone):
            await adapter.send(Place(platform="discord", account=PILOT, chat="1100000000000000999"), Typing(), "k", 1)


# ------------------------------------------------------------------------------------------------- presses and forms


async def _denied(emulator: DiscordEmulator, adapter: DiscordAdapter, intake: Intake, place: Place) -> dict[str, Any]:
    """Ben presses Deny, and gets the form; the press."""
    await adapter.send(place, CARD, "key", 1)
    card = ours(emulator, place.thread or "")[-1]
    shown = await emulator.press(BEN, card["id"], data=DENY)
    press = await intake.until(of_kind(InboundKind.PRESS))
    presets = (("", "No reason"), ("Too risky", "Too risky"))
    await adapter.acknowledge(press, Form(title="Why not?", label="Reason", token=DENY, presets=presets))
    return shown


async def test_form_that_was_opened_before_a_restart_is_taken_after_it() -> None:
    """A modal carries all that it stands for, so it does not matter which process it comes back to."""
    async with emulated() as emulator:
        async with listening(emulator) as (adapter, intake):
            mention = await mentioned(emulator, intake)
            press = await _denied(emulator, adapter, intake, mention.place)
        async with listening(emulator) as (again, intake):
            sent = await emulator.submit(BEN, press["id"], {"reason": "not on a Friday", "preset": "=Too risky"})
            form = await intake.until(of_kind(InboundKind.FORM))
            assert (form.token, form.text, form.place) == (DENY, "not on a Friday", mention.place)
            await again.acknowledge(form, Text(text="Denied."))
            answer = await emulator.answer(sent["id"])
            assert (answer["state"], answer["data"]["flags"]) == ("answered", 64)


CONTROLS = [
    pytest.param(Text(text="Only Ann can decide this.", alert=True), 4, id="refusal"),
    pytest.param(None, 6, id="nothing"),
    pytest.param(Form(title="Why?", label="Reason", token=DENY), 9, id="form"),
]


@pytest.mark.parametrize(("answer", "kind"), CONTROLS)
async def test_old_control_is_answered_after_a_restart(answer: Any, kind: int) -> None:
    """A button of an earlier process is pressed and answered by the next, for the person alone; once only."""
    async with emulated() as emulator:
        async with listening(emulator) as (adapter, intake):
            mention = await mentioned(emulator, intake)
            await adapter.send(mention.place, CARD, "key", 1)
        async with listening(emulator) as (again, intake):
            card = ours(emulator, mention.place.thread or "")[-1]
            shown = await emulator.press(BEN, card["id"], data=APPROVE)
            press = await intake.until(of_kind(InboundKind.PRESS))
            await again.acknowledge(press, answer)
            await again.acknowledge(press, Text(text="too late"))
            told = await emulator.answer(shown["id"])
            assert (told["state"], told["type"]) == ("answered", kind)


async def test_press_that_nobody_can_answer_any_more_is_let_go() -> None:
    """After the deadline Discord takes no answer; that is no error of ours."""
    clock = ManualClock()
    async with emulated(clock=clock) as emulator, listening(emulator) as (adapter, intake):
        mention = await mentioned(emulator, intake)
        await adapter.send(mention.place, CARD, "key", 1)
        await emulator.press(BEN, ours(emulator, mention.place.thread or "")[-1]["id"], data=APPROVE)
        press = await intake.until(of_kind(InboundKind.PRESS))
        await emulator.advance(PATIENT.interaction_deadline + 1)
        await adapter.acknowledge(press, Text(text="Approved."))


async def test_commands_of_the_menu_come_with_their_words() -> None:
    """A slash command has its text; one on a message stops what goes on in that message's thread."""
    async with emulated() as emulator:
        environment = replace(ENVIRONMENT, commands={"queue": "Queue words"})
        adapter, intake = made(emulator, environment), Intake()
        await adapter.start(intake)
        try:
            mention = await mentioned(emulator, intake)
            await adapter.send(mention.place, Notice(text="I look"), "key", 1)
            shown = await emulator.command(BEN, "queue", "do this", chat=mention.place.thread)
            queue = await intake.until(of_kind(InboundKind.COMMAND))
            assert (queue.command, queue.arguments, queue.place) == ("queue", "do this", mention.place)
            await adapter.acknowledge(queue, None)
            assert (await emulator.answer(shown["id"]))["type"] == 4
            await emulator.command(BEN, "Stop agent", target=mention.place.thread, chat=CHANNEL)
            stop = await intake.until(lambda taken: next((one for one in taken if one.command == "stop"), None))
            assert stop.place == mention.place
        finally:
            await adapter.stop()


# ------------------------------------------------------------------------------------------------------- the gateway


@pytest.mark.parametrize("how", ["abort", "close", "reconnect"])
async def test_nothing_is_lost_when_a_session_is_resumed(how: Any) -> None:
    """What was said while the gateway was gone is sent again by Discord, and taken once."""
    async with started() as (emulator, _, intake):
        await mentioned(emulator, intake)
        emulator.disconnect(how=how)
        await emulator.say(BEN, "meanwhile")
        await emulator.say(BEN, "afterwards")
        await intake.until(said("afterwards"))
        assert [one.text for one in intake.taken] == ["look at the tests", "meanwhile", "afterwards"]


async def test_history_fills_the_gap_of_a_session_that_was_forgotten() -> None:
    """After op 9 Discord sends nothing again: the channels that we know are read, before what is said now."""
    async with started() as (emulator, adapter, intake):
        await emulator.say(BEN, "first")
        first = await intake.until(said("first"))
        mention = await mentioned(emulator, intake)
        await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        await emulator.say(BEN, "in the thread", chat=mention.place.thread)
        await intake.until(said("in the thread"))
        emulator.disconnect(how="invalid")
        await emulator.say(BEN, "missed")
        await emulator.say(BEN, "missed in the thread", chat=mention.place.thread)
        await intake.until(said("missed"))
        missed = await intake.until(said("missed in the thread"))
        assert missed.place == mention.place
        assert (await intake.until(said("missed"))).place == first.place
        heard = [one for one in intake.taken if one.kind is InboundKind.MESSAGE]
        assert len(heard) == len({key for one in heard for key in one.keys}) == 5


async def test_gateway_that_the_client_gives_up_is_taken_up_again() -> None:
    """A code after which the library ends makes us begin anew, and what was missed is read."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        await emulator.say(BEN, "in the thread", chat=mention.place.thread)
        await intake.until(said("in the thread"))
        emulator.disconnect(how="close", code=4013)
        await emulator.say(BEN, "missed", chat=mention.place.thread)
        assert (await intake.until(said("missed"))).place == mention.place
        await adapter.send(mention.place, Notice(text="still here"), "key 2", 1)
        assert adapter.health.state == "ready"


async def test_token_that_is_reset_while_we_run_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Health says so, and the reason is in the log without the token."""
    async with started() as (emulator, adapter, intake):
        emulator.fault("get_my_user", FaultKind.REFUSE, status=401, description="401: Unauthorized", times=1000)
        emulator.disconnect(how="close", code=4004)
        await emulator.wait_for(lambda: adapter.health.state == "failed", timeout=60)
        assert "developer portal" in adapter.health.detail or "does not know this token" in adapter.health.detail
        assert DISCORD_TOKEN.rpartition(".")[2] not in caplog.text
        emulator.faults.clear()
        await emulator.wait_for(lambda: adapter.health.state == "ready", timeout=60)
        await mentioned(emulator, intake)


async def test_edits_and_deletions_of_waiting_words_arrive() -> None:
    """An edit is its author's; a deletion too, though Discord does not say whose it was."""
    async with started() as (emulator, _, intake):
        message = await emulator.say(BEN, "hello")
        await intake.until(said("hello"))
        await emulator.edit(BEN, message["id"], "hello there")
        edit = await intake.until(of_kind(InboundKind.EDIT))
        await emulator.delete(BEN, message["id"])
        deleted = await intake.until(of_kind(InboundKind.DELETE))
        assert (edit.text, edit.sender.id, deleted.sender.id) == ("hello there", BEN, BEN)
        assert edit.ref == deleted.ref


async def test_backfill_gives_what_people_said_after_a_message() -> None:
    """Oldest first, without our own words; of a thread that is not opened yet there is none."""
    async with started() as (emulator, adapter, intake):
        mention = await mentioned(emulator, intake)
        assert await adapter.backfill(mention.place, mention.ref) == ()
        await adapter.send(mention.place, Notice(text="I look"), "key", 1)
        texts = [f"number {number}" for number in range(120)]
        for text in texts:
            await emulator.say(BEN, text, chat=mention.place.thread)
        assert [one.text for one in await adapter.backfill(mention.place, mention.ref)] == texts
        ref = MessageRef(
            platform="discord", account=PILOT, chat=CHANNEL, thread=mention.place.thread,
            id=emulator.messages(mention.place.thread or "")[-2]["id"],
        )  # fmt: skip
        assert [one.text for one in await adapter.backfill(mention.place, ref)] == texts[-1:]


# ------------------------------------------------------------------------------------------------------------ doctor


async def test_doctor_names_each_right_that_is_missing() -> None:
    """Which server, which right, and where to give it; a bot that has all is only named."""
    settings = {"token": DISCORD_TOKEN}
    async with emulated() as emulator:
        found = await diagnose({**settings, "api_base": emulator.url}, ENVIRONMENT)
        assert [one.id for one in found] == ["discord.bot"]
    rights = ["VIEW_CHANNEL", "READ_MESSAGE_HISTORY", "CREATE_PUBLIC_THREADS", "SEND_MESSAGES_IN_THREADS"]
    async with emulated(bot_permissions=rights, everyone=[]) as emulator:
        found = {one.id: one for one in await diagnose({**settings, "api_base": emulator.url}, ENVIRONMENT)}
        lacking = found["discord.permissions"]
        assert lacking.level == "error"
        assert "In Team the bot lacks Send Messages, Add Reactions, Attach Files" in lacking.message
        assert "oauth2/authorize?client_id=" in lacking.remedy


async def test_doctor_says_why_nothing_could_be_asked() -> None:
    """A wrong token, wrong settings and a server that is not there are told apart."""
    async with emulated() as emulator:
        base = emulator.url
        wrong = await diagnose({"token": DISCORD_TOKEN.replace("TEST", "WRONG"), "api_base": base}, ENVIRONMENT)
    gone = await diagnose({"token": DISCORD_TOKEN, "api_base": base}, ENVIRONMENT)
    none = await diagnose({"token": "nonsense"}, ENVIRONMENT)
    found = [one.id for one in (*wrong, *gone, *none)]
    assert found == ["discord.credentials", "discord.unreachable", "discord.settings"]
