"""Slack's own Python client against the Slack emulator, unmodified: Bolt over sockets and HTTP, the Web client alone.

What the emulator accepts must also pass the validators that Slack ships in its client, and no client may break a rule.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks.basic_components import Option
from slack_sdk.web.async_client import AsyncWebClient

from adapters.emulators import FaultKind
from adapters.emulators.slack import Knobs, SlackEmulator
from adapters.emulators.slack.blocks import problems_of
from adapters.emulators.slack.catalogue import EVERYWHERE, METHODS
from tests.support.slack_blocks import block_objections, objections

# Importing Bolt takes a while: one worker does it once.
pytestmark = pytest.mark.xdist_group("bolt")

ALICE, BOB = "U0ALICE", "U0BOB"
TEAM = "C0TEAM"
PATIENCE = 60.0
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack's client obeys these four even for loopback."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    assert not any(name in os.environ for name in PROXIES)


@pytest.fixture
async def emulator() -> AsyncIterator[SlackEmulator]:
    """Alice and Bob in a channel with the app; no client may break a rule. Slow machines may take their time."""
    made = SlackEmulator(knobs=Knobs(ack_seconds=PATIENCE, trigger_life=PATIENCE))
    made.add_user(ALICE, "Alice")
    made.add_user(BOB, "Bob")
    made.add_chat(TEAM, "team", members=[ALICE, BOB])
    await made.start()
    yield made
    await made.stop()
    assert objections(made) == []


@pytest.fixture
def client(emulator: SlackEmulator) -> AsyncWebClient:
    """The Web API client. By default it posts again after a broken connection, which would hide one."""
    return AsyncWebClient(token=emulator.app.bot_token, base_url=emulator.api_base, retry_handlers=[])


async def refusal(call: Awaitable[Any]) -> str:
    """The code of an error that the client raised."""
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


BUTTONS: list[dict[str, Any]] = [
    {"type": "section", "text": {"type": "mrkdwn", "text": "Hello"}},
    {
        "type": "actions",
        "elements": [
            {"type": "button", "action_id": "go", "value": "1", "text": {"type": "plain_text", "text": "Go"}},
            {"type": "button", "action_id": "why", "value": "2", "text": {"type": "plain_text", "text": "Why"}},
        ],
    },
]
FORM: dict[str, Any] = {
    "type": "modal",
    "callback_id": "reason",
    "title": {"type": "plain_text", "text": "Reason"},
    "submit": {"type": "plain_text", "text": "Send"},
    "blocks": [
        {
            "type": "input",
            "block_id": "why",
            "label": {"type": "plain_text", "text": "Why?"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        }
    ],
}


class Program:
    """A Bolt app that greets a mention with buttons, edits on press, asks for a reason and notes what it gets."""

    def __init__(self, emulator: SlackEmulator) -> None:
        self.client = AsyncWebClient(token=emulator.app.bot_token, base_url=emulator.api_base)
        self.app = AsyncApp(client=self.client, signing_secret=emulator.app.signing_secret)
        self.messages: list[dict[str, Any]] = []
        self.others: list[str] = []
        self.reasons: list[str] = []
        self.retries: list[str] = []
        self.app.event("app_mention")(self.greet)
        self.app.event("message")(self.note)
        for kind in ("reaction_added", "member_joined_channel", "channel_rename", "agent_session_stopped"):
            self.app.event(kind)(self.note_other)
        self.app.action("go")(self.go)
        self.app.action("why")(self.ask)
        self.app.view("reason")(self.take_reason)
        self.app.command("/echo")(self.echo)

    async def greet(self, event: dict[str, Any], say: Any) -> None:
        await say(text="Hello", thread_ts=event["ts"], blocks=BUTTONS)

    async def note(self, event: dict[str, Any], request: Any) -> None:
        self.messages.append(event)
        self.retries += request.headers.get("x-slack-retry-num", [])

    async def note_other(self, event: dict[str, Any]) -> None:
        self.others.append(event["type"])

    async def go(self, ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        where = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        await client.chat_update(**where, text=f"pressed by {body['user']['id']}", blocks=[])

    async def ask(self, ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=FORM)

    async def take_reason(self, ack: Any, view: dict[str, Any]) -> None:
        reason = view["state"]["values"]["why"]["text"]["value"]
        if len(reason) < 3:
            await ack(response_action="errors", errors={"why": "Say more"})
            return
        await ack()
        self.reasons.append(reason)

    async def echo(self, ack: Any, respond: Any, command: dict[str, Any]) -> None:
        await ack(f"at once {command['text']}")
        await respond("later")


@pytest.fixture
async def program(emulator: SlackEmulator) -> AsyncIterator[Program]:
    """The app, connected over a socket."""
    made = Program(emulator)
    handler = AsyncSocketModeHandler(made.app, emulator.app.app_token, ping_interval=1)
    await handler.connect_async()
    await emulator.wait_for(emulator.connections)
    yield made
    await handler.close_async()


async def shown(emulator: SlackEmulator, text: str, chat: str = TEAM, user: str | None = None) -> dict[str, Any]:
    """The message with this text, once it is there."""
    found = await emulator.wait_for(lambda: [one for one in emulator.messages(chat, user=user) if one["text"] == text])
    return found[0]


# -- Bolt over a socket


async def test_mention_press_and_form(emulator: SlackEmulator, program: Program) -> None:
    """A mention is answered in its thread, a press edits that answer, a form shows its errors and then closes."""
    asked = await emulator.say(ALICE, f"<@{emulator.app.bot_user}> hi", chat=TEAM)
    answer = await shown(emulator, "Hello")
    assert answer["thread_ts"] == asked["ts"]

    await emulator.press(BOB, answer["ts"], button="Why", chat=TEAM)
    await emulator.wait_for(lambda: emulator.snapshot()["views"])
    await emulator.submit(BOB, {"Why?": "x"})
    await emulator.wait_for(lambda: any(entry.name == "view_errors" for entry in emulator.journal))
    assert (await emulator.views(BOB))[0]["errors"] == {"why": "Say more"}
    await emulator.submit(BOB, {"why": "because"})
    await emulator.wait_for(lambda: not emulator.snapshot()["views"])
    assert program.reasons == ["because"]

    press = await emulator.press(ALICE, answer["ts"], data="1", chat=TEAM)
    edited = await shown(emulator, f"pressed by {ALICE}")
    assert "blocks" not in edited
    await emulator.wait_for(lambda: not emulator.pending())
    assert (await emulator.answer(press["id"]))["state"] == "acknowledged"
    emulator.assert_clean()


async def test_command_is_answered_twice(emulator: SlackEmulator, program: Program) -> None:
    """The acknowledgement's text and the response_url's answer are seen by the person who typed, and nobody else."""
    await emulator.command(ALICE, "echo", "this", chat=TEAM)
    await shown(emulator, "at once this", user=ALICE)
    await shown(emulator, "later", user=ALICE)
    assert emulator.messages(TEAM, user=BOB) == []
    emulator.assert_clean()


async def test_deeds_of_people_reach_the_app(emulator: SlackEmulator, program: Program) -> None:
    """Edits, deletions, files, reactions, joins and renames arrive as Bolt's listeners expect them."""
    emulator.add_user("U0CAROL", "Carol")
    said = await emulator.say(ALICE, "one", chat=TEAM)
    await emulator.edit(ALICE, said["ts"], "two", chat=TEAM)
    await emulator.react(BOB, said["ts"], "eyes", chat=TEAM)
    await emulator.delete(ALICE, said["ts"], chat=TEAM)
    await emulator.upload(ALICE, b"bytes", file_name="a.txt")
    await emulator.join("U0CAROL", TEAM)
    await emulator.rename(ALICE, TEAM, "crew")
    await emulator.wait_for(lambda: not emulator.pending() and len(program.messages) == 6)
    subtypes = sorted(event.get("subtype", "") for event in program.messages)
    assert subtypes == ["", "channel_join", "channel_name", "file_share", "message_changed", "message_deleted"]
    assert sorted(program.others) == ["channel_rename", "member_joined_channel", "reaction_added"]
    emulator.assert_clean()


@pytest.mark.parametrize("how", ["refresh_requested", "close"])
async def test_reconnects(emulator: SlackEmulator, program: Program, how: str) -> None:
    """A client that is told to come back, or is closed, comes back, and events go on."""
    first = emulator.connections()
    assert await emulator.disconnect(how) == 1
    await emulator.wait_for(lambda: emulator.connections() and emulator.connections() != first)
    await emulator.say(ALICE, "still there?")
    await emulator.wait_for(lambda: program.messages)
    emulator.assert_clean()


async def test_unacknowledged_event_comes_again(emulator: SlackEmulator, program: Program) -> None:
    """An event that fell into a half-open socket is delivered again over another one, marked as a retry."""
    await emulator.disconnect("half_open")
    await emulator.say(ALICE, "anybody?")
    second = AsyncSocketModeHandler(program.app, emulator.app.app_token, ping_interval=1)
    await second.connect_async()
    try:
        await emulator.wait_for(lambda: len(emulator.connections()) == 2)
        await emulator.disconnect("abort", socket=emulator.connections()[0])
        await emulator.advance(PATIENCE)
        await emulator.wait_for(lambda: program.messages)
        assert program.retries == ["1"]
    finally:
        await second.close_async()


# -- Bolt over HTTP


async def test_http_mode(emulator: SlackEmulator) -> None:
    """Bolt answers the handshake, takes signed events and presses, and refuses forged and old signatures."""
    program = Program(emulator)
    runner = web.AppRunner(program.app.server(port=0, path="/slack/events").web_app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await emulator.use_http(f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events")
        await emulator.say(ALICE, f"<@{emulator.app.bot_user}> hi", chat=TEAM)
        answer = await shown(emulator, "Hello")
        await emulator.press(ALICE, answer["ts"], button="Go", chat=TEAM)
        await shown(emulator, f"pressed by {ALICE}")
        for how in ({"forged": True}, {"age": 600.0}):
            emulator.sign_badly(**how)
            await emulator.say(ALICE, f"not heard {how}")
        await emulator.wait_for(lambda: len(refused(emulator, "message.im")) >= 4)
        assert [event["text"] for event in program.messages if event["channel_type"] == "im"] == []
        emulator.sign_badly()
        await emulator.advance(60)
        await emulator.wait_for(lambda: len(program.messages) >= 2 and not emulator.pending())
        assert "2" in program.retries
    finally:
        await runner.cleanup()
    emulator.assert_clean()


def refused(emulator: SlackEmulator, name: str) -> list[Any]:
    """Attempts to deliver that the app turned down."""
    return [one for one in emulator.journal if one.name == name and one.data.get("state") == "refused"]


# -- the Web client alone


async def test_stream(emulator: SlackEmulator, client: AsyncWebClient) -> None:
    """The client's stream helper starts, fills and ends a message."""
    asked = await emulator.say(ALICE, "tell me")
    stream = await client.chat_stream(channel=asked["channel"], thread_ts=asked["ts"], buffer_size=4)
    for word in ("Once ", "upon ", "a time"):
        await stream.append(markdown_text=word)
    await stream.stop()
    assert emulator.messages(ALICE)[-1]["text"] == "Once upon a time"
    assert len(emulator.calls("chat.appendStream")) >= 1
    emulator.assert_clean()


async def test_files_both_ways(emulator: SlackEmulator, client: AsyncWebClient) -> None:
    """An upload in three steps is shared, and its private address needs the token."""
    await client.files_upload_v2(channel=TEAM, content=b"result", filename="r.txt", initial_comment="here")
    shared = emulator.messages(TEAM)[-1]
    assert shared["subtype"] == "file_share"
    address = shared["files"][0]["url_private"]
    async with aiohttp.ClientSession() as session:
        async with session.get(address) as stranger:
            assert stranger.content_type == "text/html"
        async with session.get(address, headers={"Authorization": f"Bearer {emulator.app.bot_token}"}) as owner:
            assert await owner.read() == b"result"


async def test_errors_reach_the_client(emulator: SlackEmulator, client: AsyncWebClient) -> None:
    """Refusals, rate limits and broken connections surface as the client's own errors."""
    assert await refusal(client.chat_postMessage(channel="C0NONE", text="x")) == "channel_not_found"
    assert await refusal(client.chat_update(channel=TEAM, ts="1.000001", text="x")) == "message_not_found"
    emulator.fault("chat.postMessage", FaultKind.RATE_LIMIT, retry_after=7)
    with pytest.raises(SlackApiError) as limited:
        await client.chat_postMessage(channel=TEAM, text="x")
    assert limited.value.response.status_code == 429
    assert limited.value.response.headers["Retry-After"] == "7"
    emulator.fault("chat.postMessage", FaultKind.DROP, applied=True)
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel=TEAM, text="arrived")
    assert [one["text"] for one in emulator.messages(TEAM)] == ["arrived"]


# -- the official validators


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def fields(count: int) -> dict[str, Any]:
    return {"type": "section", "fields": [plain("x")] * count}


def pressable(**members: Any) -> dict[str, Any]:
    return {"type": "actions", "elements": [{"type": "button", "text": plain("x"), **members}]}


def confirmed(**members: Any) -> dict[str, Any]:
    words = {"title": plain("x"), "text": plain("x"), "confirm": plain("x"), "deny": plain("x")}
    return pressable(confirm={**words, **members})


def choice(**members: Any) -> dict[str, Any]:
    option = {"text": plain("x"), "value": "x", **members}
    return {"type": "section", "text": plain("x"), "accessory": {"type": "static_select", "options": [option]}}


def asked(**members: Any) -> dict[str, Any]:
    element = {"type": "plain_text_input", "action_id": "a"}
    return {"type": "input", "label": plain("x"), "element": element, **members}


LIMITS: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "section": (3000, lambda size: section("x" * size)),
    "fields": (10, fields),
    "header": (150, lambda size: {"type": "header", "text": plain("x" * size)}),
    "markdown": (12_000, lambda size: {"type": "markdown", "text": "x" * size}),
    "context": (10, lambda size: {"type": "context", "elements": [plain("x")] * size}),
    "actions": (25, lambda size: {"type": "actions", "elements": [{"type": "button", "text": plain("x")}] * size}),
    "button's text": (75, lambda size: pressable(text=plain("x" * size))),
    "button's value": (2000, lambda size: pressable(value="x" * size)),
    "button's id": (255, lambda size: pressable(action_id="x" * size)),
    "block's id": (255, lambda size: {"type": "divider", "block_id": "x" * size}),
    "confirmation's title": (100, lambda size: confirmed(title=plain("x" * size))),
    "confirmation's text": (300, lambda size: confirmed(text=plain("x" * size))),
    "confirmation's button": (30, lambda size: confirmed(confirm=plain("x" * size))),
    "input's label": (2000, lambda size: asked(label=plain("x" * size))),
    "input's hint": (2000, lambda size: asked(hint=plain("x" * size))),
    "alternative text": (
        2000,
        lambda size: {"type": "image", "image_url": "https://example.org/x.png", "alt_text": "x" * size},
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_agree_with_the_client(name: str) -> None:
    """What is exactly as long as allowed is valid for both; one more is refused by both."""
    maximum, block = LIMITS[name]
    assert (problems_of([block(maximum)]), list(block_objections(block(maximum)))) == ([], [])
    assert problems_of([block(maximum + 1)]) != []
    assert list(block_objections(block(maximum + 1))) != []


@pytest.mark.parametrize(("member", "maximum"), [("text", Option.label_max_length), ("value", Option.value_max_length)])
def test_options_agree_with_the_client(member: str, maximum: int) -> None:
    """The models do not look into the options of a menu, but they know how long one may be."""

    def sized(size: int) -> dict[str, Any]:
        return choice(**{member: plain("x" * size) if member == "text" else "x" * size})

    assert problems_of([sized(maximum)]) == []
    assert problems_of([sized(maximum + 1)]) != []


def test_every_sdk_parameter_is_known() -> None:
    """No parameter that Slack's client offers for a method of the emulator counts as unknown."""
    unknown: list[str] = []
    for name, method in METHODS.items():
        function = getattr(AsyncWebClient, name.replace(".", "_"), None)
        offered = set(inspect.signature(function).parameters) if function is not None else set()
        known = method.parameters | EVERYWHERE | {"self", "kwargs", "app_token"}
        unknown += [f"{name} {parameter}" for parameter in sorted(offered - known)]
    assert unknown == []
