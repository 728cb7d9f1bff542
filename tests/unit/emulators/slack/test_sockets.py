"""Socket Mode: hello, envelopes, acknowledgements, deadlines, several sockets, and how connections end."""

from __future__ import annotations

import aiohttp
import pytest

from adapters.emulators import FaultKind, ManualClock
from adapters.emulators.errors import NotKnown
from adapters.emulators.slack import Knobs, SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, OUTSIDE, SECRET, TEAM, RawApp, buttons


def states(emulator: SlackEmulator, name: str) -> list[str]:
    """What became of events of a kind."""
    return [one.data["state"] for one in emulator.journal if one.name == name and one.kind.value == "event"]


async def settled(emulator: SlackEmulator) -> None:
    """Return once nothing is on its way."""
    await emulator.wait_for(lambda: not emulator.pending())


async def test_hello_and_event(emulator: SlackEmulator, app: RawApp) -> None:
    """A socket is greeted, gets an event in an envelope, and its acknowledgement ends the delivery."""
    socket = await app.connect()
    assert socket.hello["num_connections"] == 1
    assert socket.hello["connection_info"] == {"app_id": emulator.app.app_id}
    said = await emulator.say(ALICE, "hi & <bye> see https://example.org")
    envelope = await socket.take()
    assert {name: envelope[name] for name in envelope if name not in ("envelope_id", "payload")} == {
        "type": "events_api",
        "accepts_response_payload": False,
        "retry_attempt": 0,
        "retry_reason": "",
    }
    payload = envelope["payload"]
    assert (payload["type"], payload["team_id"]) == ("event_callback", emulator.app.team)
    event = payload["event"]
    assert event["text"] == "hi &amp; &lt;bye&gt; see <https://example.org>"
    assert (event["ts"], event["channel"], event["channel_type"]) == (said["ts"], emulator.direct_chat(ALICE), "im")
    await settled(emulator)
    assert states(emulator, "message.im") == ["queued", "handed", "confirmed"]
    emulator.assert_clean()


async def test_mention_comes_twice(emulator: SlackEmulator, app: RawApp) -> None:
    """A mention in a channel is a message and a mention, two events of one ts; in a direct message it is one."""
    socket = await app.connect()
    said = await emulator.say(ALICE, f"<@{emulator.app.bot_user}> hi", chat=TEAM)
    events = [await socket.event(), await socket.event()]
    assert [one["type"] for one in events] == ["message", "app_mention"]
    assert {one["ts"] for one in events} == {said["ts"]}
    await emulator.say(ALICE, f"<@{emulator.app.bot_user}> hi")
    assert (await socket.event())["channel_type"] == "im"
    await settled(emulator)
    assert states(emulator, "app_mention") == ["queued", "handed", "confirmed"]


async def test_unacknowledged_event_comes_again(emulator: SlackEmulator, app: RawApp) -> None:
    """Nothing for three seconds: at once again, after a minute, after five; then it is lost."""
    socket = await app.connect()
    await emulator.say(ALICE, "hi")
    first = await socket.read()
    await emulator.advance(2.9)
    assert states(emulator, "message.im") == ["queued", "handed"]
    seen = [first]
    for pause in (0.1, 3 + 60, 3 + 300):
        await emulator.advance(pause)
        seen.append(await socket.read())
    assert [one["retry_attempt"] for one in seen] == [0, 1, 2, 3]
    assert [one["retry_reason"] for one in seen] == ["", "timeout", "timeout", "timeout"]
    assert len({one["payload"]["event_id"] for one in seen}) == 1
    assert len({one["envelope_id"] for one in seen}) == 4
    await emulator.advance(3)
    await settled(emulator)
    assert states(emulator, "message.im")[-1] == "expired"


async def test_late_acknowledgement_is_no_violation(emulator: SlackEmulator, app: RawApp) -> None:
    """An answer after the deadline does not stop the next attempt; one for nothing is a violation."""
    socket = await app.connect()
    await emulator.say(ALICE, "hi")
    late = await socket.read()
    await emulator.advance(3)
    again = await socket.read()
    await socket.acknowledge(late)
    await socket.acknowledge(again)
    await settled(emulator)
    emulator.assert_clean()
    await socket.acknowledge({"envelope_id": "made up"})
    await emulator.wait_for(lambda: emulator.violations)
    assert [one.name for one in emulator.violations] == ["unknown_envelope"]


async def test_event_without_a_socket_waits(emulator: SlackEmulator, app: RawApp) -> None:
    """An event for an app that is away comes with a later attempt, once the app is there."""
    await emulator.say(ALICE, "hi")
    await emulator.advance(3)
    socket = await app.connect()
    await emulator.advance(63)
    assert (await socket.take())["retry_attempt"] == 2


async def test_each_event_goes_to_one_socket(emulator: SlackEmulator, app: RawApp) -> None:
    """Several sockets share the events."""
    sockets = [await app.connect(), await app.connect()]
    assert sockets[1].hello["num_connections"] == 2
    for number in range(4):
        await emulator.say(ALICE, str(number))
    texts = [[(await one.event())["text"], (await one.event())["text"]] for one in sockets]
    assert sorted([*texts[0], *texts[1]]) == ["0", "1", "2", "3"]
    await settled(emulator)


async def test_too_many_sockets(session: aiohttp.ClientSession) -> None:
    """One more than the limit is told so and closed."""
    emulator = SlackEmulator(clock=ManualClock(), knobs=Knobs(max_sockets=1))
    await emulator.start()
    app = RawApp(emulator, session)
    try:
        first = await app.connect()
        wire = await session.ws_connect(await app.address())
        assert (await wire.receive_json())["reason"] == "too_many_websockets"
        assert (await wire.receive()).type is aiohttp.WSMsgType.CLOSE
        assert not first.wire.closed
    finally:
        await emulator.stop()


async def test_ticket_opens_once_and_briefly(emulator: SlackEmulator, app: RawApp) -> None:
    """An address works for one connection, and not for long."""
    address = await app.address()
    kept = await app.session.ws_connect(address)
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await app.session.ws_connect(address)
    old = await app.address()
    await emulator.advance(31)
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await app.session.ws_connect(old)
    assert not kept.closed


async def test_refresh(emulator: SlackEmulator, app: RawApp) -> None:
    """A socket that must go gets nothing new, may still acknowledge, and is closed after a grace."""
    old = await app.connect()
    await emulator.say(ALICE, "one")
    waiting = await old.read()
    assert await emulator.disconnect("refresh_requested") == 1
    assert (await old.read())["reason"] == "refresh_requested"
    new = await app.connect()
    await emulator.say(ALICE, "two")
    assert (await new.event())["text"] == "two"
    await old.acknowledge(waiting)
    await settled(emulator)
    await emulator.advance(10)
    assert (await old.wire.receive()).type is aiohttp.WSMsgType.CLOSE
    emulator.assert_clean()


async def test_warning_leaves_the_socket_working(emulator: SlackEmulator, app: RawApp) -> None:
    """A warned socket still gets events until it is closed."""
    socket = await app.connect()
    await emulator.disconnect("warning")
    assert (await socket.read())["reason"] == "warning"
    await emulator.say(ALICE, "one")
    assert (await socket.event())["text"] == "one"


async def test_half_open_socket_swallows(emulator: SlackEmulator, app: RawApp) -> None:
    """A half-open socket takes an event and gives nothing back, not even a pong; the event comes over another one."""
    dead = await app.connect()
    await emulator.disconnect("half_open")
    await emulator.say(ALICE, "hi")
    await emulator.wait_for(lambda: "handed" in states(emulator, "message.im"))
    assert await emulator.disconnect("abort", socket=1) == 1
    assert (await dead.wire.receive()).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
    await emulator.wait_for(lambda: emulator.connections() == [])
    alive = await app.connect()
    await emulator.advance(3)
    assert (await alive.take())["retry_attempt"] == 1


async def test_disconnect_names_what_it_knows(emulator: SlackEmulator, app: RawApp) -> None:
    """A way to disconnect, or a socket, that does not exist is told."""
    with pytest.raises(NotKnown, match="half_open"):
        await emulator.disconnect("somehow")
    with pytest.raises(NotKnown, match="none"):
        await emulator.disconnect("abort", socket=7)


async def test_event_faults(emulator: SlackEmulator, app: RawApp) -> None:
    """An event can come twice under one id, after the next one, or late."""
    socket = await app.connect()
    emulator.fault("message.im", FaultKind.DUPLICATE, event=True)
    await emulator.say(ALICE, "twice")
    twice = [await socket.take(), await socket.take()]
    assert len({one["payload"]["event_id"] for one in twice}) == 1

    emulator.fault("message.im", FaultKind.REORDER, event=True)
    await emulator.say(ALICE, "first")
    await emulator.say(ALICE, "second")
    assert [(await socket.event())["text"], (await socket.event())["text"]] == ["second", "first"]

    emulator.fault("message.im", FaultKind.DELAY, event=True, seconds=30)
    await emulator.say(ALICE, "late")
    await emulator.say(ALICE, "now")
    assert (await socket.event())["text"] == "now"
    await emulator.wait_for(lambda: emulator.pending() == 1)
    await emulator.advance(30)
    assert (await socket.event())["text"] == "late"


async def test_unwanted_events_say_why(emulator: SlackEmulator, app: RawApp) -> None:
    """What the app did not subscribe to, has no scope for or is not in the channel of, is not sent."""
    await emulator.say(ALICE, "x", chat=OUTSIDE)
    emulator.subscribe(["app_mention", "message.groups"])
    await emulator.say(ALICE, "x", chat=TEAM)
    emulator.grant(["chat:write"])
    await emulator.say(ALICE, "x", chat=SECRET)
    why = [one.data["why"] for one in emulator.journal if one.data.get("state") == "unwanted"]
    assert why == ["not in channel", "not subscribed", "no scope"]
    assert emulator.pending() == 0


async def test_own_messages_are_echoed(emulator: SlackEmulator, app: RawApp) -> None:
    """An app gets the events of its own messages, edits and reactions, marked as its own."""
    socket = await app.connect()
    ts = await app.post()
    posted = await socket.event()
    assert (posted["bot_id"], posted["user"]) == (emulator.app.bot_id, emulator.app.bot_user)
    await app.result("chat.update", channel=TEAM, ts=ts, text="other")
    changed = await socket.event()
    assert (changed["subtype"], changed["message"]["text"], changed["previous_message"]["text"]) == (
        "message_changed",
        "other",
        "hello",
    )
    await app.result("reactions.add", channel=TEAM, timestamp=ts, name="eyes")
    assert (await socket.event())["user"] == emulator.app.bot_user


# -- what people wait for


async def test_press(emulator: SlackEmulator, app: RawApp) -> None:
    """A press carries what was pressed, where and by whom, and is acknowledged once."""
    socket = await app.connect()
    root = (await emulator.say(ALICE, "x", chat=TEAM))["ts"]
    await socket.take()
    ts = await app.post(text="choose", blocks=[buttons("yes", "no")], thread_ts=root)
    await socket.take()
    press = await emulator.press(ALICE, ts, button="no", chat=TEAM)
    envelope = await socket.take()
    assert (envelope["type"], envelope["accepts_response_payload"]) == ("interactive", True)
    payload = envelope["payload"]
    assert payload["container"] == {
        "type": "message",
        "message_ts": ts,
        "channel_id": TEAM,
        "is_ephemeral": False,
        "thread_ts": root,
    }
    action = payload["actions"][0]
    assert (action["action_id"], action["value"], payload["user"]["id"]) == ("no", "no", ALICE)
    assert payload["message"]["ts"] == ts
    await settled(emulator)
    assert await emulator.answer(press["id"]) == {"state": "acknowledged", "payload": None}


async def test_press_that_nobody_answers(emulator: SlackEmulator, app: RawApp) -> None:
    """A press comes once; after three seconds the person is told that it failed."""
    socket = await app.connect()
    ts = await app.post(text="choose", blocks=[buttons("yes")])
    await socket.take()
    await settled(emulator)
    press = await emulator.press(ALICE, ts, data="yes", chat=TEAM)
    await socket.read()
    await emulator.advance(3)
    await settled(emulator)
    assert (await emulator.answer(press["id"]))["state"] == "timed out"
    assert any(one.name == "operation_timeout" for one in emulator.journal)
    await emulator.advance(1000)
    assert emulator.pending() == 0


async def test_press_in_an_ephemeral_message(emulator: SlackEmulator, app: RawApp) -> None:
    """Slack does not send an ephemeral message along with its press."""
    socket = await app.connect()
    shown = await app.result("chat.postEphemeral", channel=TEAM, user=ALICE, text="x", blocks=[buttons("yes")])
    await emulator.press(ALICE, shown["message_ts"], button="yes", chat=TEAM)
    payload = (await socket.take())["payload"]
    assert payload["container"]["is_ephemeral"]
    assert "message" not in payload


async def test_command_and_its_answers(emulator: SlackEmulator, app: RawApp) -> None:
    """The acknowledgement's text is shown to the person; the response_url takes five answers within half an hour."""
    socket = await app.connect()
    await emulator.command(ALICE, "/ask", "why not", chat=TEAM)
    envelope = await socket.take({"text": "at once"})
    payload = envelope["payload"]
    assert (envelope["type"], payload["command"], payload["text"]) == ("slash_commands", "/ask", "why not")
    await emulator.wait_for(lambda: emulator.messages(TEAM, user=ALICE))
    for number in range(5):
        answer = {"text": str(number), "response_type": "in_channel" if number else "ephemeral"}
        async with app.session.post(payload["response_url"], json=answer) as response:
            assert (response.status, await response.text()) == (200, "ok")
    async with app.session.post(payload["response_url"], json={"text": "x"}) as response:
        assert (response.status, (await response.json())["error"]) == (404, "used_url")
    assert [one["text"] for one in emulator.messages(TEAM)] == ["1", "2", "3", "4"]
    assert [one["text"] for one in emulator.messages(TEAM, user=ALICE)][:2] == ["at once", "0"]


async def test_response_url_replaces_and_deletes(emulator: SlackEmulator, app: RawApp) -> None:
    """The message of a press can be replaced or taken away without a token, until the link is too old."""
    socket = await app.connect()
    shown = await app.result("chat.postEphemeral", channel=TEAM, user=ALICE, text="x", blocks=[buttons("yes")])
    await emulator.press(ALICE, shown["message_ts"], button="yes", chat=TEAM)
    url = (await socket.take())["payload"]["response_url"]
    await app.session.post(url, json={"text": "chosen", "replace_original": True})
    assert [one["text"] for one in emulator.messages(TEAM, user=ALICE)] == ["chosen"]
    await app.session.post(url, json={"delete_original": True})
    assert emulator.messages(TEAM, user=ALICE) == []
    await emulator.advance(1801)
    async with app.session.post(url, json={"text": "x"}) as response:
        assert (await response.json())["error"] == "expired_url"


async def test_answers_to_events_are_violations(emulator: SlackEmulator, app: RawApp) -> None:
    """An envelope that takes no answer must be acknowledged without one; nonsense on the socket is told."""
    socket = await app.connect()
    await emulator.say(ALICE, "hi")
    await socket.take({"text": "hello"})
    await socket.wire.send_str("nonsense")
    await socket.wire.send_json(["envelope"])
    await emulator.wait_for(lambda: len(emulator.violations) == 3)
    assert [one.name for one in emulator.violations] == ["payload_not_accepted", "unreadable_frame", "unreadable_frame"]


async def test_reset_forgets_what_is_on_its_way(emulator: SlackEmulator, app: RawApp) -> None:
    """After a reset nothing old is delivered, and the socket still works."""
    socket = await app.connect()
    await emulator.say(ALICE, "old")
    await socket.read()
    emulator.reset()
    await settled(emulator)
    await emulator.advance(100)
    await emulator.say(ALICE, "new")
    assert (await socket.event())["text"] == "new"
