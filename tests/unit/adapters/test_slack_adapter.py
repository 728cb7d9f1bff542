"""The Slack adapter against the emulated workspace, over Socket Mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Document,
    Form,
    Inbound,
    InboundFile,
    InboundKind,
    MessageRef,
    Notice,
    Phase,
    Private,
    Reaction,
    Row,
    RowState,
    SenderKind,
    Text,
    ThreadStatus,
    TurnCard,
)
from adapters.emulators.faults import FaultKind
from adapters.errors import BadCredentials, NotConnected, OutcomeUnknown, Refused, TargetGone
from adapters.slack import create, diagnose
from adapters.slack.connection import Connection
from adapters.slack.markup import TEXT_LIMIT
from adapters.slack.outbound import Request
from adapters.slack.settings import Settings
from tests.support.sides import slack_buttons, slack_content
from tests.support.slack_side import ANN, BOB, TEAM, Side, slack_side

pytestmark = pytest.mark.xdist_group("bolt")

TOKEN = "apv:" + 22 * "A" + ":n"
DENY = Control(label="Deny", token=TOKEN)
FORM = Form(title="Deny this?", label="Why not?", token=TOKEN, presets=(("", "No reason"), ("Too risky", "Too risky")))


def first(kind: InboundKind) -> Callable[[list[Inbound]], Inbound | None]:
    """The first inbound of that kind, once it came."""
    return lambda taken: next((one for one in taken if one.kind is kind), None)


async def pressed(side: Side, thread: str = "hello") -> Inbound:
    """A press of Ann's on a request in a direct message."""
    place = await side.thread(thread)
    card = await side.adapter.send(place, ApprovalCard(title="May I?", body="rm", controls=(DENY,)), "card", 1)
    await side.emulator.press(ANN, card.refs[0].id, button="Deny")
    return await side.intake.until(first(InboundKind.PRESS))


# ---------------------------------------------------------------------------------------------------------- inbound


async def test_mention_comes_twice_under_one_key_with_its_name() -> None:
    """Both events of a mention are offered and share the message's key; the sender has his name and workspace."""
    async with slack_side() as side:
        place = await side.mention("fix it")
        both = await side.intake.until(lambda taken: taken if len(taken) == 2 else None)
        assert len(set(both[0].keys) & set(both[1].keys)) == 1
        assert {(one.text, one.place, one.addressed, one.sender.name, one.sender.tenant) for one in both} == {
            ("fix it", place, True, "ann", "T0EMULATED")
        }


async def test_what_is_sent_twice_has_the_same_keys() -> None:
    """Slack delivers at least once: a second delivery is the same thing."""
    async with slack_side() as side:
        side.emulator.fault("message.im", FaultKind.DUPLICATE, event=True)
        await side.thread("once")
        both = await side.intake.until(lambda taken: taken if len(taken) == 2 else None)
        assert both[0].keys == both[1].keys


async def test_what_is_not_stored_is_not_acknowledged() -> None:
    """While intake fails Slack is told nothing, and the event comes again from Slack as well."""
    async with slack_side() as side:
        side.intake._refuse = 3
        await side.thread("precious")
        await side.intake.until(first(InboundKind.MESSAGE))
        assert len(side.intake.offered) >= 4
        assert len({one.keys for one in side.intake.offered}) == 1


async def test_edit_and_deletion_name_the_message() -> None:
    """An edit and a deletion come with the message that they are about, by its author."""
    async with slack_side() as side:
        place = await side.thread("frist")
        await side.emulator.edit(ANN, str(place.thread), "first")
        edit = await side.intake.until(first(InboundKind.EDIT))
        await side.emulator.delete(ANN, str(place.thread))
        gone = await side.intake.until(first(InboundKind.DELETE))
        assert (edit.text, edit.ref and edit.ref.id, gone.ref and gone.ref.id) == ("first", place.thread, place.thread)
        assert edit.sender.id == gone.sender.id == ANN


async def test_slash_command_is_a_command_in_the_channel() -> None:
    """`/pilothouse queue x` is the command `queue` with its words, in no thread, acknowledged without words."""
    async with slack_side() as side:
        asked = await side.emulator.command(ANN, "pilothouse", "queue do this", chat=TEAM)
        command = await side.intake.until(first(InboundKind.COMMAND))
        assert (command.command, command.arguments, command.place) == ("queue", "do this", side.place(TEAM, None))
        await side.emulator.wait_for(lambda: side.emulator.pending() == 0)
        assert (await side.emulator.answer(asked["id"]))["state"] == "acknowledged"


async def test_our_own_words_do_not_come_back() -> None:
    """Slack sends an app the events of its own messages: intake sees none of them."""
    async with slack_side() as side:
        place = await side.mention("first")
        await side.adapter.send(place, Answer(markdown="ours"), "key", 1)
        await side.emulator.say(BOB, "second", chat=TEAM)
        await side.intake.until(lambda taken: next((one for one in taken if one.text == "second"), None))
        assert {one.sender.id for one in side.intake.offered} == {ANN, BOB}


async def test_person_of_another_workspace_is_a_stranger() -> None:
    """In a shared channel somebody of another workspace comes with that workspace, and as a stranger."""
    async with slack_side() as side:
        side.emulator.add_user("U0EVE", "Eve", team="T0ELSE")
        side.emulator.add_chat("C0SHARED", "shared", members=[ANN, "U0EVE"], shared=True)
        await side.emulator.say("U0EVE", "<@U0BOT> run it", chat="C0SHARED")
        inbound = await side.intake.until(first(InboundKind.MESSAGE))
        assert (inbound.sender.kind, inbound.sender.tenant) == (SenderKind.STRANGER, "T0ELSE")


async def test_refresh_and_cut_sockets_lose_nothing() -> None:
    """Slack asks for a new socket, closes one, and cuts one: what is said meanwhile comes."""
    async with slack_side() as side:
        for number, how in enumerate(("refresh_requested", "close", "abort")):
            before = side.emulator.connections()
            await side.emulator.disconnect(how)
            await side.emulator.wait_for(lambda before=before: set(side.emulator.connections()) - set(before), 90)
            await side.thread(f"after {how}")
            await side.intake.until(
                lambda taken, how=how: next((one for one in taken if one.text == f"after {how}"), None)
            )
            assert number < 3


# ------------------------------------------------------------------------------------------------- presses and forms


async def test_form_is_filled_in_after_a_restart() -> None:
    """A view that an earlier process opened is read by the next one: its token and place come with it."""
    async with slack_side() as side:
        press = await pressed(side)
        await side.adapter.acknowledge(press, FORM)
        await side.restart()
        await side.emulator.submit(ANN, {"words": "not on a Friday"})
        form = await side.intake.until(first(InboundKind.FORM))
        assert (form.token, form.text, form.place) == (TOKEN, "not on a Friday", press.place)
        await side.adapter.acknowledge(form, Text(text="Denied."))
        assert "Denied." in side.shown(form.place, ANN)
        assert "Denied." not in side.shown(form.place, BOB), "an answer to a press is for the presser alone"


async def test_ready_answer_of_a_form_counts_without_words() -> None:
    """Who chooses a ready answer need not write one."""
    async with slack_side() as side:
        await side.adapter.acknowledge(await pressed(side), FORM)
        await side.emulator.submit(ANN, {"choice": "Too risky"})
        assert (await side.intake.until(first(InboundKind.FORM))).text == "Too risky"


async def test_press_that_is_too_old_for_a_form_is_told_so() -> None:
    """A trigger lives for three seconds: after that the person is asked to press once more."""
    async with slack_side() as side:
        press = await pressed(side)
        await side.emulator.advance(10)
        await side.adapter.acknowledge(press, FORM)
        assert "Press the button once more" in side.shown(press.place, ANN)


# ---------------------------------------------------------------------------------------------------------- outbound


@pytest.mark.parametrize("applied", [True, False])
async def test_second_attempt_looks_before_it_sends(applied: bool) -> None:
    """Whether or not a send without an answer took effect, there is one message after the second attempt."""
    async with slack_side() as side:
        for place in (await side.thread(), side.place(TEAM, None)):
            side.emulator.fault("chat.postMessage", FaultKind.DROP, applied=applied)
            with pytest.raises(OutcomeUnknown):
                await side.adapter.send(place, Answer(markdown="only once"), "key", 1)
            sent = await side.adapter.send(place, Answer(markdown="only once"), "key", 2)
            assert side.shown(place).count("only once") == 1
            assert side.ours(place)[-1]["ts"] == sent.refs[0].id


async def test_document_is_not_shown_twice() -> None:
    """A file is known by its name and size: a second attempt finds the first."""
    async with slack_side() as side:
        place = await side.thread()
        side.emulator.fault("files.completeUploadExternal", FaultKind.DROP, applied=True)
        with pytest.raises(OutcomeUnknown):
            await side.adapter.send(place, Document(name="a.md", text="long"), "key", 1)
        await side.adapter.send(place, Document(name="a.md", text="long"), "key", 2)
        assert len([one for one in side.ours(place) if one.get("files")]) == 1


async def test_no_send_previews_links_or_mentions_anybody() -> None:
    """Every message says that nothing is previewed, and has nothing live in it (S-36, S-37)."""
    hostile = "<!channel> <@U0BOB> https://evil.example/?q=secret"
    async with slack_side() as side:
        place = await side.mention()
        for view in (Answer(markdown=hostile), Notice(text=hostile), Private(person=ANN, text=hostile)):
            await side.adapter.send(place, view, f"key {type(view).__name__}", 1)
        for call in side.emulator.calls("chat.postMessage", "chat.postEphemeral"):
            params = call.params
            assert "<!" not in params["text"]
            assert "<@" not in params["text"]
            if call.method == "chat.postMessage":
                assert (params["unfurl_links"], params["unfurl_media"]) == (False, False)


async def test_edit_keeps_to_the_limits_and_replaces_everything() -> None:
    """A text of any length is shown by an edit within 4,000 characters, and buttons of before are gone.

    Each edit has blocks: one without would leave what was there, or take it away, as Slack likes.
    """
    async with slack_side() as side:
        place = await side.thread()
        sent = await side.adapter.send(place, Notice(text="before", controls=(DENY,)), "key", 1)
        part = side.adapter.markup.split("&<>" * 1200 + "\n\nword " * 500)[0]
        await side.adapter.edit(sent.refs[0], Answer(markdown=part))
        message = side.ours(place)[0]
        assert slack_buttons(message) == []
        assert "before" not in slack_content(message)
        assert all(call.params["blocks"] for call in side.emulator.calls("chat.update"))
        assert all(len(call.params["text"]) <= TEXT_LIMIT for call in side.emulator.calls("chat.update"))


async def test_refused_blocks_are_sent_as_plain_sections() -> None:
    """Where blocks are refused the words and buttons still come; plans are not tried again for a day."""
    card = TurnCard(
        phase=Phase.WORKING, headline="Working", rows=(Row(state=RowState.RUNNING, text="run"),), controls=(DENY,)
    )
    async with slack_side() as side:
        place = await side.thread()
        side.emulator.fault("chat.postMessage", FaultKind.REFUSE, status=200, description="invalid_blocks")
        await side.adapter.send(place, card, "key", 1)
        assert "run" in side.shown(place)
        assert slack_buttons(side.ours(place)[0]) == ["Deny"]
        await side.adapter.send(place, card, "key 2", 1)
        last = side.emulator.calls("chat.postMessage")[-1].params["blocks"]
        assert "plan" not in [block["type"] for block in last]


async def test_person_is_told_where_we_are_no_member() -> None:
    """An answer that cannot be given in a channel is followed by a word to the person, in private."""
    async with slack_side() as side:
        side.emulator.add_chat("C0OUT", "outside", members=[ANN], bot=False)
        await side.emulator.command(ANN, "pilothouse", "status", chat="C0OUT")
        await side.intake.until(first(InboundKind.COMMAND))
        with pytest.raises(TargetGone):
            await side.adapter.send(side.place("C0OUT", None), Notice(text="status"), "key", 1)
        told = [slack_content(one) for one in side.emulator.messages(ANN) if one.get("user") == "U0BOT"]
        assert len(told) == 1
        assert "/invite" in told[0]


async def test_archived_channel_is_gone() -> None:
    """Nothing can be said in an archived channel, and we hear that it was archived."""
    async with slack_side() as side:
        await side.emulator.archive(ANN, TEAM)
        assert (await side.intake.until(first(InboundKind.MEMBERSHIP))).joined is False
        with pytest.raises(TargetGone):
            await side.adapter.send(side.place(TEAM, None), Notice(text="anybody?"), "key", 1)


async def test_deleted_thread_is_gone_without_its_channel() -> None:
    """A thread whose root is not there is gone, and the channel is not."""
    async with slack_side() as side:
        with pytest.raises(TargetGone) as caught:
            await side.adapter.send(side.place(TEAM, "1.000100"), Notice(text="anybody?"), "key", 1)
        assert caught.value.thread_only


async def test_marks_replace_each_other() -> None:
    """A message has one mark of ours at a time, also after a restart; setting it twice is no error."""
    async with slack_side() as side:
        place = await side.thread()
        ref = MessageRef(platform="slack", account=place.account, chat=place.chat, id=str(place.thread))

        def marks() -> list[str]:
            root = side.emulator.messages(place.chat, place.thread)[0]
            return [one["name"] for one in root.get("reactions", [])]

        for mark, name in (("accepted", ["eyes"]), ("accepted", ["eyes"]), ("steered", ["fast_forward"])):
            await side.adapter.send(place, Reaction(ref=ref, mark=mark), "key", 1)  # type: ignore[arg-type]
            assert marks() == name
        await side.restart()
        await side.adapter.send(place, Reaction(ref=ref, mark="none"), "key", 1)
        assert marks() == []


async def test_app_that_is_no_agent_works_as_a_plain_bot() -> None:
    """Where Slack does not let us set the state of a session, that is refused once and not offered any more."""
    async with slack_side(agent=False) as side:
        place = await side.thread()
        assert side.adapter.capabilities.native_stop
        with pytest.raises(Refused):
            await side.adapter.send(place, ThreadStatus(state="processing"), "key", 1)
        assert not side.adapter.capabilities.native_stop
        await side.adapter.send(place, Answer(markdown="still here"), "key", 1)
        assert "still here" in side.shown(place)


async def test_title_that_a_person_gave_stays() -> None:
    """A session is named by us until a person names it."""
    async with slack_side() as side:
        place = await side.thread()
        await side.adapter.send(place, ThreadStatus(state="processing", title="One"), "key", 1)
        await side.adapter.send(place, ThreadStatus(state="processing", title="Two"), "key", 1)
        assert [one["title"] for one in side.emulator.sessions()] == ["Two"]
        await side.emulator.rename_session(ANN, str(place.thread), "Mine")
        await side.emulator.wait_for(lambda: side.emulator.pending() == 0)
        await side.adapter.send(place, ThreadStatus(state="active", title="Three"), "key", 1)
        assert [(one["title"], one["status"]) for one in side.emulator.sessions()] == [("Mine", "active")]


# ----------------------------------------------------------------------------------------------- history and threads


async def test_thread_of_ours_is_the_same_for_the_same_key() -> None:
    """The root is sent once, and a message that is there already can be the root."""
    async with slack_side() as side:
        channel = side.place(TEAM, None)
        one = await side.adapter.open_thread(channel, "Morning report", "key")
        assert await side.adapter.open_thread(channel, "Morning report", "key") == one
        assert len(side.ours(channel)) == 1
        root = MessageRef(platform="slack", account=channel.account, chat=TEAM, id=str(one.thread))
        assert await side.adapter.open_thread(channel, "x", "other", root) == one


async def test_backfill_gives_what_was_said_meanwhile() -> None:
    """What people said in a thread while we were away comes in order; in private so does what began beside it."""
    async with slack_side() as side:
        place = await side.thread("known")
        known = await side.intake.until(first(InboundKind.MESSAGE))
        await side.adapter.send(place, Answer(markdown="ours"), "key", 1)
        await side.adapter.stop()
        await side.emulator.say(ANN, "missed", thread=place.thread)
        beside = await side.emulator.say(ANN, "begun meanwhile")
        side.adapter = side.another()
        await side.adapter.start(side.intake)
        found = await side.adapter.backfill(place, known.ref)
        assert [(one.text, one.place.thread) for one in found] == [
            ("missed", place.thread),
            ("begun meanwhile", beside["ts"]),
        ]
        assert [one.text for one in await side.adapter.backfill(place, None)] == ["known", "missed"]


# -------------------------------------------------------------------------------------------------------------- files


async def test_file_that_came_is_opened_by_its_id() -> None:
    """A file comes as a handle, and its content is had from Slack with that."""
    async with slack_side() as side:
        await side.emulator.upload(ANN, b"trace of everything", file_name="trace.log")
        inbound = await side.intake.until(lambda taken: next((one for one in taken if one.files), None))
        content = b"".join([piece async for piece in side.adapter.open_file(inbound.files[0])])
        assert (inbound.files[0].name, content) == ("trace.log", b"trace of everything")


EVIL = (
    "https://evil.test/f",
    "https://files.slack.com.evil.test/f",
    "https://files.slack.com@evil.test/f",
    "http://files.slack.com/f",
)


@pytest.mark.parametrize("address", EVIL)
async def test_our_token_goes_to_slacks_own_host_only(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that lies anywhere else is not asked for: nothing leaves for that address."""
    connection = Connection(Settings.read({"bot_token": "xoxb-1", "app_token": "xapp-1"}))

    async def info(request: Request) -> dict[str, Any]:
        return {"file": {"url_private_download": address, "mimetype": "text/plain"}}

    monkeypatch.setattr(connection, "call", info)
    try:
        with pytest.raises(Refused, match="not Slack's"):
            _ = [piece async for piece in connection.download("F1")]
    finally:
        await connection.close()


async def test_unknown_file_is_refused() -> None:
    """A file that Slack does not know is a refusal of the contract."""
    async with slack_side() as side:
        file = InboundFile(id="F0NONE", name="x", media_type="text/plain", size=1)
        with pytest.raises(Refused):
            _ = [piece async for piece in side.adapter.open_file(file)]


# ------------------------------------------------------------------------------------------- proxies and credentials


async def test_proxies_of_the_environment_are_not_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """slack_sdk sends everything to a proxy of the environment, loopback too: we do not."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with slack_side() as side:
        place = await side.thread("direct")
        await side.intake.until(first(InboundKind.MESSAGE))
        await side.adapter.send(place, Answer(markdown="back"), "key", 1)
        assert "back" in side.shown(place)


@pytest.mark.parametrize("key", ["bot_token", "app_token"])
async def test_wrong_token_is_said_at_start(key: str) -> None:
    """Either token is known to be good before the first message; the other one is not blamed."""
    wrong = {"bot_token": "xoxb-wrong", "app_token": "xapp-1-A0EMULATED-wrong"}[key]
    async with slack_side(start=False, **{key: wrong}) as side:
        with pytest.raises(BadCredentials, match=f"slack.{key}"):
            await side.adapter.start(side.intake)
        assert "wrong" not in repr(side.adapter._settings)


async def test_platform_that_is_not_there_is_not_connected() -> None:
    """Nobody listens: the caller is to try again."""
    async with slack_side(start=False, api_base="http://127.0.0.1:9/api") as side:
        with pytest.raises(NotConnected):
            await side.adapter.start(side.intake)


# ------------------------------------------------------------------------------------------------------------- doctor


def settings_of(side: Side, **more: Any) -> dict[str, Any]:
    """What the configuration says of the emulated app."""
    app = side.emulator.app
    tokens = {"bot_token": app.bot_token, "app_token": app.app_token, "config_token": app.config_token}
    return {**tokens, "api_base": side.emulator.api_base, **more}


async def findings(side: Side, **more: Any) -> list[str]:
    """Messages of what is wrong."""
    found = await diagnose(settings_of(side, **more), side.adapter._environment)
    return [one.message for one in found if one.level == "error"]


async def test_doctor_finds_nothing_where_everything_is_there() -> None:
    """An app that was made from our manifest has nothing missing; the channels are named."""
    async with slack_side(start=False) as side:
        assert await findings(side) == []
        notes = [one.message for one in await diagnose(settings_of(side), side.adapter._environment)]
        assert any("#team" in one for one in notes)


async def test_doctor_names_the_one_that_is_missing() -> None:
    """A scope, an event, the command, interactivity, the agent surface: each is named when it alone is missing."""
    async with slack_side(start=False) as side:
        app = side.emulator.app
        scopes, events = set(app.scopes), set(app.events)
        side.emulator.grant(sorted(scopes - {"reactions:write"}))
        assert await findings(side) == [
            "The app lacks the scope reactions:write: the mark that says a message was taken in."
        ]
        side.emulator.grant(sorted(scopes))
        side.emulator.subscribe(sorted(events - {"agent_session_stopped"}))
        assert await findings(side) == ["The app lacks the event agent_session_stopped."]
        side.emulator.subscribe(sorted(events))
        app.interactive = False
        assert await findings(side) == ["The app lacks interactivity."]
        app.interactive, app.commands = True, {"/other"}
        assert await findings(side) == ["The app lacks the command /pilothouse."]
        app.commands, app.agent = None, False
        assert await findings(side) == ["The app lacks the agent surface."]


async def test_doctor_says_which_token_is_wrong() -> None:
    """A wrong token is an error with a remedy, and so is an address where nobody is."""
    async with slack_side(start=False) as side:
        environment = side.adapter._environment
        for more in ({"bot_token": "xoxb-wrong"}, {"api_base": "http://127.0.0.1:9/api"}, {"bot_token": "nonsense"}):
            found = await diagnose(settings_of(side, **more), environment)
            assert [one.level for one in found] == ["error"]
        found = await diagnose(settings_of(side, config_token="xoxe.xoxp-wrong"), environment)
        assert [one.id for one in found if one.level == "warning"] == ["slack.config_token"]


def test_factory_makes_an_adapter_without_connecting() -> None:
    """The entry point gives an adapter that is not connected, and says what is wrong with settings."""
    with pytest.raises(ValueError, match=r"slack\.bot_token"):
        create({"bot_token": "x"}, None)  # type: ignore[arg-type]
