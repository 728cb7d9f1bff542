"""The Telegram adapter against an emulated Bot API, beyond what the contract asks of every adapter."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Environment,
    Form,
    Inbound,
    InboundFile,
    InboundKind,
    MessageRef,
    Notice,
    Place,
    Reaction,
    Sent,
    Stream,
    Text,
)
from adapters.emulators.clock import ManualClock
from adapters.emulators.faults import FaultKind
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.knobs import Knobs
from adapters.errors import AdapterError, BadCredentials, NotConnected, OutcomeUnknown, Refused, TargetGone
from adapters.telegram import create, diagnose
from adapters.telegram.adapter import TelegramAdapter
from adapters.testing import FILE_CONTENT, Intake, a_file
from tests.contract.adapter_worlds import ENVIRONMENT, POLL_SECONDS, hasty_sleep

pytestmark = pytest.mark.xdist_group("aiogram")

TOKEN = "900:SECRET-OF-THE-BOT"
ANN, BOB, TEAM, FORUM = 42, 43, -100123, -100456
PRIVATE = Place(platform="telegram", account="900", chat="42")
GROUP = Place(platform="telegram", account="900", chat=str(TEAM))
CARD = "apv:" + 22 * "A" + ":y"
DENY = "apv:" + 22 * "A" + ":n"


@asynccontextmanager
async def emulated(**more: Any) -> AsyncGenerator[TelegramEmulator]:
    """Ann and Bob, a group and a forum, and a bot that may read everything."""
    emulator = await TelegramEmulator(knobs=Knobs(repeated_poll_hold=0, repeated_poll_single=0), **more).start()
    emulator.add_bot(TOKEN, username="PilotBot", first_name="Pilot", reads_all=True)
    emulator.add_user(ANN, "Ann", username="ann", started=True)
    emulator.add_user(BOB, "Bob", started=True)
    emulator.add_chat(TEAM, title="Team", members=(ANN, BOB), creator=ANN)
    emulator.add_chat(
        FORUM, title="Forum", is_forum=True, members=(ANN,), creator=ANN, bot_rights=("can_manage_topics",)
    )
    try:
        yield emulator
        emulator.assert_clean()
    finally:
        await emulator.stop()


def made(emulator: TelegramEmulator, **settings: Any) -> TelegramAdapter:
    adapter = create({"token": TOKEN, "api_base": emulator.url, "poll_seconds": POLL_SECONDS, **settings}, ENVIRONMENT)
    assert isinstance(adapter, TelegramAdapter)
    return adapter


@asynccontextmanager
async def started(**settings: Any) -> AsyncGenerator[tuple[TelegramEmulator, TelegramAdapter, Intake]]:
    async with emulated() as emulator:
        adapter, intake = made(emulator, **settings), Intake()
        await adapter.start(intake)
        try:
            yield emulator, adapter, intake
        finally:
            await adapter.stop()


def of_kind(kind: InboundKind, count: int = 1) -> Any:
    """The newest inbound of a kind, once there are that many."""

    def found(taken: list[Inbound]) -> Inbound | None:
        some = [one for one in taken if one.kind is kind]
        return some[-1] if len(some) >= count else None

    return found


async def refused_with(kind: type[AdapterError], work: Any) -> AdapterError:
    """The error, which never tells the token, not even in its traceback."""
    with pytest.raises(kind) as caught:
        await work
    assert TOKEN.partition(":")[2] not in "".join(traceback.format_exception(caught.value))
    return caught.value


# ---------------------------------------------------------------------------------------------------------- start


async def test_wrong_token_is_told_at_start() -> None:
    """A token that the server does not know ends the start with what to do, and leaves nothing running."""
    async with emulated() as emulator:
        adapter = create({"token": "901:WRONG", "api_base": emulator.url}, ENVIRONMENT)
        error = await refused_with(BadCredentials, adapter.start(Intake()))
        assert "@BotFather" in str(error)
        assert adapter.health.state == "stopped"


async def test_server_that_is_not_there_can_be_tried_again() -> None:
    """Without a network the start is NotConnected, and a later one succeeds."""
    async with emulated() as emulator:
        port = int(emulator.url.rpartition(":")[2])
        adapter = made(emulator)
        await emulator.stop()
        await refused_with(NotConnected, adapter.start(Intake()))
        await emulator.start(port=port)
        await adapter.start(Intake())
        await adapter.stop()


async def test_menu_of_commands_is_set_when_it_changed() -> None:
    """A start with the same commands asks, and sets nothing."""
    async with emulated() as emulator:
        for commands in ({"help": "Help"}, {"help": "Help"}, {"help": "Help", "new": "New"}):
            adapter = made(emulator, commands=commands)
            await adapter.start(Intake())
            await adapter.stop()
        assert len(emulator.calls("setMyCommands")) == 2
        assert len(emulator.calls("getMyCommands")) == 3


async def test_start_does_not_depend_on_the_menu() -> None:
    """A menu that cannot be set is no reason not to work."""
    async with emulated() as emulator:
        emulator.fault("setMyCommands", FaultKind.SERVER_ERROR)
        adapter = made(emulator, commands={"help": "Help"})
        await adapter.start(Intake())
        await adapter.stop()


# -------------------------------------------------------------------------------------------------------- inbound


async def test_all_that_we_ask_for_arrives() -> None:
    """Messages, edits, presses, reactions, memberships, albums: each kind comes as what it is."""
    async with started() as (emulator, adapter, intake):
        await emulator.wait_for(emulator.polls)
        said = await emulator.say(ANN, "hello", chat=TEAM)
        await emulator.edit(ANN, said["message_id"], "hello again", chat=TEAM)
        await emulator.album(ANN, [("document", b"a"), ("document", b"b")], caption="two")
        sent = await adapter.send(PRIVATE, Notice(text="x", controls=(Control(label="Go", token=CARD),)), "k", 1)
        await emulator.press(ANN, int(sent.refs[0].id), button="Go")
        await emulator.react(ANN, int(sent.refs[0].id), "👍")
        await emulator.remove_bot_from_group(TEAM, by=ANN)
        member = await intake.until(of_kind(InboundKind.MEMBERSHIP))
        assert (member.joined, member.what, member.place) == (False, "us", GROUP)
        await intake.until(of_kind(InboundKind.PRESS))
        reaction = await intake.until(of_kind(InboundKind.REACTION))
        assert (reaction.reaction, reaction.ref) == ("👍", sent.refs[0])
        edit = await intake.until(of_kind(InboundKind.EDIT))
        assert (edit.text, edit.ref and edit.ref.id) == ("hello again", str(said["message_id"]))
        albums = [one for one in intake.taken if one.album]
        assert len(albums) == 2
        assert len({one.album for one in albums}) == 1
        assert [one.text for one in albums] == ["two", ""]


async def test_redelivered_updates_have_the_keys_of_the_first_time() -> None:
    """What the server brings twice can be told from something new."""
    async with started() as (emulator, _, intake):
        await emulator.say(ANN, "once")
        first = await intake.until(of_kind(InboundKind.MESSAGE))
        await emulator.say(ANN, "confirms the first")
        await intake.until(of_kind(InboundKind.MESSAGE, 2))
        await emulator.wait_for(lambda: not emulator.pending_updates())
        emulator.redeliver(2)
        await intake.until(of_kind(InboundKind.MESSAGE, 4))
        assert [one.keys for one in intake.taken].count(first.keys) == 2
        assert len({one.keys for one in intake.taken}) == 2


async def test_what_was_not_confirmed_comes_to_the_next_process() -> None:
    """An update that was stored, but not confirmed when the process died, comes again under the same keys."""
    async with emulated() as emulator:
        adapter, stored, hang = made(emulator), asyncio.Event(), asyncio.Event()
        offered: list[Inbound] = []

        async def dying(inbound: Inbound) -> None:
            offered.append(inbound)
            stored.set()
            await hang.wait()

        await adapter.start(dying)
        await emulator.say(ANN, "hello")
        await stored.wait()
        stopping = asyncio.create_task(adapter.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        again, intake = made(emulator), Intake()
        await again.start(intake)
        assert (await intake.until(of_kind(InboundKind.MESSAGE))).keys == offered[0].keys
        await again.stop()


async def test_second_program_with_the_token_is_told_plainly() -> None:
    """Health says the cause in words, and is right again when the other one is gone."""
    async with started() as (emulator, adapter, intake):
        await emulator.wait_for(emulator.polls)
        emulator.conflict()
        await emulator.wait_for(lambda: adapter.health.state == "failing" or None)
        assert "Another program" in adapter.health.detail
        await emulator.say(ANN, "hello")
        await intake.until(of_kind(InboundKind.MESSAGE))
        assert adapter.health.state == "ready"


async def test_lost_connections_lose_no_message() -> None:
    """Polls that are cut, refused and broken are made again, and every message arrives once."""
    async with started() as (emulator, _, intake):
        emulator.fault("getUpdates", FaultKind.SERVER_ERROR, times=2)
        emulator.fault("getUpdates", FaultKind.DROP, applied=True)
        emulator.fault("getUpdates", FaultKind.RATE_LIMIT, retry_after=1)
        emulator.disconnect()
        for number in range(5):
            await emulator.say(ANN, f"number {number}")
        await intake.until(of_kind(InboundKind.MESSAGE, 5))
        assert [one.text for one in intake.taken] == [f"number {number}" for number in range(5)]


# --------------------------------------------------------------------------------------------------------- groups


async def test_topics_are_places_of_their_own() -> None:
    """A topic's messages come from it and go into it; General is the chat; a deleted topic is told apart."""
    async with started() as (emulator, adapter, intake):
        topic = await emulator.create_topic(ANN, "Work", chat=FORUM)
        thread = topic["message_thread_id"]
        await emulator.say(ANN, "inside", chat=FORUM, thread=thread)
        inside = await intake.until(of_kind(InboundKind.MESSAGE))
        assert inside.place.thread == str(thread)
        assert (inside.reply_to, inside.quotes, inside.addressed) == (None, (), False)
        sent = await adapter.send(inside.place, Answer(markdown="here", reply_to=inside.ref), "k", 1)
        assert sent.refs[0].thread == str(thread)
        await emulator.say(ANN, "yes", chat=FORUM, thread=thread, reply_to=int(sent.refs[0].id))
        assert (await intake.until(of_kind(InboundKind.MESSAGE, 2))).addressed
        await emulator.say(ANN, "outside", chat=FORUM)
        assert (await intake.until(of_kind(InboundKind.MESSAGE, 3))).place.thread is None
        await emulator.delete_topic(ANN, thread, chat=FORUM)
        error = await refused_with(TargetGone, adapter.send(inside.place, Notice(text="late"), "k", 1))
        assert isinstance(error, TargetGone)
        assert error.thread_only


async def test_topics_are_opened_only_if_the_settings_say_so() -> None:
    """Never unasked; where allowed, the new topic can be written to."""
    forum = Place(platform="telegram", account="900", chat=str(FORUM))
    async with started() as (_, adapter, _):
        assert not adapter.capabilities.can_create_thread
        await refused_with(Refused, adapter.open_thread(forum, "Work", "k"))
    async with started(create_topics=True) as (emulator, adapter, _):
        assert adapter.capabilities.can_create_thread
        place = await adapter.open_thread(forum, "A  title\nof two lines " + "x" * 200, "k")
        await adapter.send(place, Notice(text="inside"), "k", 1)
        assert emulator.messages(FORUM, thread=int(place.thread or 0))[-1]["text"] == "inside"


async def test_moved_group_is_followed() -> None:
    """A group that becomes a supergroup says so once under one key, and sends to the old one tell the new one."""
    async with started() as (emulator, adapter, intake):
        emulator.add_chat(-5, type="group", title="Old", members=(ANN,), creator=ANN)
        new = await emulator.migrate(-5)
        moved = await intake.until(of_kind(InboundKind.CHAT_MIGRATED, 2))
        assert {one.keys for one in intake.taken if one.kind is InboundKind.CHAT_MIGRATED} == {moved.keys}
        assert (moved.place.chat, moved.moved_to) == ("-5", str(new))
        old = Place(platform="telegram", account="900", chat="-5")
        error = await refused_with(TargetGone, adapter.send(old, Notice(text="x"), "k", 1))
        assert isinstance(error, TargetGone)
        assert error.moved_to == str(new)


# ------------------------------------------------------------------------------------------------------- outbound


async def test_answer_is_sent_plain_if_the_markup_is_refused() -> None:
    """The words arrive whatever the server thinks of our entities, and once."""
    async with started() as (emulator, adapter, _):
        refusal = "Bad Request: can't parse entities: unexpected"
        emulator.fault("sendMessage", FaultKind.REFUSE, status=400, description=refusal)
        await adapter.send(PRIVATE, Answer(markdown="**the** answer"), "k", 1)
        assert [message["text"] for message in emulator.messages(ANN)] == ["**the** answer"]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (FaultKind.DROP, {"applied": True}),
        (FaultKind.DROP, {"applied": False}),
        (FaultKind.SERVER_ERROR, {"applied": True}),
        (FaultKind.SERVER_ERROR, {"status": 500}),
        (FaultKind.HALF_OPEN, {"seconds": 0.0, "applied": True}),
    ],
)
async def test_send_without_an_answer_is_unknown(kind: FaultKind, more: dict[str, Any]) -> None:
    """A request that went out and was not answered may have been done; nobody claims to know."""
    async with started(request_seconds=0.5) as (emulator, adapter, _):
        emulator.fault("sendMessage", kind, **more)
        await refused_with(OutcomeUnknown, adapter.send(PRIVATE, Notice(text="x"), "k", 1))


async def test_send_without_a_connection_was_not_done() -> None:
    """When nobody listens, nothing can have been sent."""
    async with started() as (emulator, adapter, _):
        await emulator.stop()
        # The connection that was open may have taken the request with it into the grave.
        await refused_with(OutcomeUnknown, adapter.send(PRIVATE, Notice(text="x"), "k", 1))
        await refused_with(NotConnected, adapter.send(PRIVATE, Notice(text="x"), "k", 1))


async def test_edits_of_what_is_there_already_and_of_what_is_gone() -> None:
    """Showing the same again is success; a message that was deleted is gone."""
    async with started() as (emulator, adapter, _):
        sent = await adapter.send(PRIVATE, Notice(text="x"), "k", 1)
        await adapter.edit(sent.refs[0], Notice(text="x"))
        await emulator.delete(ANN, int(sent.refs[0].id))
        await refused_with(TargetGone, adapter.edit(sent.refs[0], Notice(text="y")))


async def test_reaction_to_a_message_that_is_gone_does_not_condemn_the_chat() -> None:
    """A refused mark is Refused, whatever the reason: the chat may be well."""
    async with started() as (_, adapter, _):
        ref = MessageRef(platform="telegram", account="900", chat="42", id="999")
        await refused_with(Refused, adapter.send(PRIVATE, Reaction(ref=ref, mark="accepted"), "k", 1))


async def test_file_comes_in_pieces_and_a_lost_one_tells_no_token() -> None:
    """A document's bytes are those that were sent; a file that is gone is Refused, without its secret address."""
    async with started() as (emulator, adapter, intake):
        await emulator.upload(ANN, b"bytes" * 1000, file_name="notes.txt")
        file = (await intake.until(of_kind(InboundKind.MESSAGE))).files[0]
        assert file.name == "notes.txt"
        assert b"".join([piece async for piece in adapter.open_file(file)]) == b"bytes" * 1000
        emulator.fault("file", FaultKind.REFUSE, status=404, description="Not Found")
        await refused_with(Refused, anext(adapter.open_file(file)))
        unknown = InboundFile(id="nonsense", name="x", media_type="x", size=1)
        await refused_with(Refused, anext(adapter.open_file(unknown)))


async def test_file_is_sent_with_exactly_its_bytes() -> None:
    """A File arrives as a document under its name with its bytes; one that is not kept any more is Refused."""
    async with started() as (emulator, adapter, _):
        view = replace(a_file(), name="notes.bin")
        await adapter.send(PRIVATE, view, "k", 1)
        document = emulator.messages(ANN)[-1]["document"]
        assert document["file_name"] == "notes.bin"
        file = InboundFile(id=document["file_id"], name="x", media_type="x", size=1)
        assert b"".join([piece async for piece in adapter.open_file(file)]) == FILE_CONTENT
        await refused_with(Refused, adapter.send(PRIVATE, replace(view, sha256="0" * 64), "k", 1))


# --------------------------------------------------------------------------------------------------------- presses


async def pressed(emulator: TelegramEmulator, adapter: TelegramAdapter, intake: Intake, place: Place) -> Inbound:
    """A card, and Ann's press on its button Deny."""
    card = ApprovalCard(title="May I?", body="x", controls=(Control(label="Deny", token=DENY),))
    sent = await adapter.send(place, card, "k", 1)
    chat = None if place == PRIVATE else int(place.chat)
    await emulator.press(ANN, int(sent.refs[0].id), button="Deny", chat=chat)
    press: Inbound = await intake.until(of_kind(InboundKind.PRESS))
    return press


async def test_press_is_answered_with_words() -> None:
    """The presser sees the words, as an alert if they matter, and cut to what an alert can show."""
    async with started() as (emulator, adapter, intake):
        press = await pressed(emulator, adapter, intake, GROUP)
        await adapter.acknowledge(press, Text(text="Only Bob can decide this. " * 20, alert=True))
        answer = await emulator.answer(press.handle or "")
        assert answer is not None
        assert answer["show_alert"] is True
        assert len(answer["text"]) <= 200


async def test_answer_to_a_press_that_is_too_old_is_swallowed() -> None:
    """The server refuses late answers; nothing can be done about it, and nothing is raised."""
    clock = ManualClock()
    async with emulated(clock=clock) as emulator:
        adapter, intake = made(emulator), Intake()
        await adapter.start(intake)
        press = await pressed(emulator, adapter, intake, PRIVATE)
        await emulator.advance(60)
        await adapter.acknowledge(press, Text(text="late"))
        await adapter.stop()


@pytest.mark.parametrize("place", [PRIVATE, GROUP])
async def test_reason_is_asked_for_and_comes_back_after_a_restart(place: Place) -> None:
    """The answer to the question fills the form in, also in another process: the question carries the token."""
    async with emulated() as emulator:
        adapter, intake = made(emulator), Intake()
        await adapter.start(intake)
        press = await pressed(emulator, adapter, intake, place)
        presets = (("", "No reason"), ("Too risky", "Too risky"))
        await adapter.acknowledge(press, Form(title="Why not?", label="Reason", token=DENY, presets=presets))
        await adapter.stop()
        again, later = made(emulator), Intake()
        await again.start(later)
        chat = None if place == PRIVATE else TEAM
        asking = emulator.messages(chat or ANN)[-1]["message_id"]
        await emulator.say(ANN, "it is Friday", reply_to=asking, chat=chat)
        form = await later.until(of_kind(InboundKind.FORM))
        assert (form.token, form.text, dict(form.fields)) == (DENY, "it is Friday", {"reason": "it is Friday"})
        for label, reason in (("Too risky", "Too risky"), ("No reason", "")):
            await emulator.press(ANN, asking, button=label, chat=chat)
            chosen = await later.until(
                lambda taken, reason=reason: next((one for one in taken if one.handle and one.text == reason), None)
            )
            assert (chosen.kind, chosen.token, chosen.fields["reason"]) == (InboundKind.FORM, DENY, reason)
            await again.acknowledge(chosen, Text(text="Only Bob can decide this.", alert=True))
        assert asking in [message["message_id"] for message in emulator.messages(chat or ANN)]
        await again.acknowledge(form, Text(text="Denied."))
        assert emulator.messages(chat or ANN)[-1]["text"] == "Denied."
        assert asking not in [message["message_id"] for message in emulator.messages(chat or ANN)]
        await again.stop()


# ------------------------------------------------------------------------------------------------------- diagnosis


async def found(emulator: TelegramEmulator, **settings: Any) -> dict[str, str]:
    """Ids and levels of what is found."""
    told = {"token": TOKEN, "api_base": emulator.url, "poll_seconds": 1, **settings}
    environment = Environment(now_ms=ENVIRONMENT.now_ms, sleep=hasty_sleep, random_bytes=ENVIRONMENT.random_bytes)
    findings = await diagnose(told, environment)
    assert all(one.message.endswith((".", ")")) or one.level == "error" for one in findings)
    return {one.id: one.level for one in findings}


async def test_sound_bot_has_nothing_but_a_name() -> None:
    """Where nothing is wrong, only the bot's name is told, and nothing was changed or confirmed."""
    async with emulated() as emulator:
        await emulator.say(ANN, "waiting")
        assert await found(emulator) == {"telegram.bot": "note"}
        assert len(emulator.pending_updates()) == 1


async def test_privacy_mode_webhook_and_wrong_settings_are_found() -> None:
    """Each thing that stands in the way has a stable name."""
    async with emulated() as emulator:
        emulator.add_bot("902:PRIVATE")
        private = {"telegram.bot": "note", "telegram.privacy_mode": "warning"}
        assert await found(emulator, token="902:PRIVATE") == private
        assert await found(emulator, token="901:WRONG") == {"telegram.credentials": "error"}
        assert await found(emulator, token="nonsense") == {"telegram.settings": "error"}
        assert await found(emulator, api_base="http://127.0.0.1:9") == {"telegram.unreachable": "error"}


async def test_other_poller_is_found() -> None:
    """A program that polls with our token shows while we look."""
    async with started() as (emulator, _, _):
        await emulator.wait_for(emulator.polls)
        findings = await found(emulator, poll_seconds=5)
        assert findings["telegram.second_poller"] == "warning"


async def test_log_tells_no_token(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong with the connection, neither our log nor the libraries' has the token in it."""
    caplog.set_level(logging.DEBUG)
    async with started(request_seconds=0.5) as (emulator, adapter, intake):
        emulator.fault("getUpdates", FaultKind.DROP, times=2)
        emulator.fault("sendMessage", FaultKind.DROP)
        await refused_with(OutcomeUnknown, adapter.send(PRIVATE, Notice(text="x"), "k", 1))
        await emulator.say(ANN, "hello")
        await intake.until(of_kind(InboundKind.MESSAGE))
    ours = [record for record in caplog.records if not record.name.startswith(("adapters.emulators", "aiohttp.access"))]
    assert ours
    assert not [record for record in ours if "SECRET" in record.getMessage()]


# --------------------------------------------------------------------------------------------------------- drafts


async def test_drafts_show_what_is_being_written() -> None:
    """Where they are wished for, a stream is a draft in private, healed and short; elsewhere it is refused."""
    view = Stream(stream_id="turn-1", markdown=f"{'long ' * 2000}\n\nAt last **bold words")
    async with started(drafts=True) as (emulator, adapter, _):
        assert adapter.capabilities.native_stream == "draft"
        assert await adapter.send(PRIVATE, view, "k", 1) == Sent()
        sent = emulator.calls("sendMessageDraft")[-1]
        assert sent.ok
        assert sent.params["text"].endswith("At last bold words")
        assert [one["type"] for one in sent.params["entities"]] == ["bold"]
        assert emulator.messages(ANN) == []
        await refused_with(Refused, adapter.send(GROUP, view, "k", 1))
    async with started() as (_, adapter, _):
        await refused_with(Refused, adapter.send(PRIVATE, view, "k", 1))
