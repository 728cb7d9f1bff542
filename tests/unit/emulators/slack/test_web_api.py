"""The Web API as HTTP: tokens, scopes, spellings, unknown names, rates and faults."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from adapters.emulators import FaultKind, ManualClock
from adapters.emulators.slack import Knobs, SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, TEAM, RawApp


async def test_tokens(emulator: SlackEmulator, app: RawApp) -> None:
    """Each kind of wrong token has its own error."""
    assert (await app.result("auth.test"))["user_id"] == emulator.app.bot_user
    assert await app.error("apps.connections.open") == "not_allowed_token_type"
    app.token = "xoxb-other"
    assert await app.error("auth.test") == "invalid_auth"
    app.token = ""
    assert await app.error("auth.test") == "not_authed"
    app.token = emulator.app.app_token
    assert await app.error("auth.test") == "not_allowed_token_type"
    app.token = emulator.app.bot_token
    await emulator.uninstall("token_revoked")
    assert await app.error("auth.test") == "token_revoked"


async def test_scopes(emulator: SlackEmulator, app: RawApp) -> None:
    """A missing scope is named together with those that are there, and every answer lists them in its headers."""
    emulator.grant(["chat:write", "channels:history"])
    body = await app.call("reactions.add", channel=TEAM, timestamp="1.000001", name="eyes")
    assert body == {
        "ok": False,
        "error": "missing_scope",
        "needed": "reactions:write",
        "provided": "channels:history,chat:write",
    }
    headers = {"Authorization": f"Bearer {app.token}"}
    async with app.session.post(f"{emulator.api_base}auth.test", headers=headers) as response:
        assert response.headers["X-OAuth-Scopes"] == "channels:history,chat:write"


async def test_forms_carry_structures_as_text(emulator: SlackEmulator, app: RawApp) -> None:
    """A form with JSON in its fields, and with the token among them, means the same as a JSON body."""
    fields = {
        "token": app.token,
        "channel": TEAM,
        "text": "x",
        "blocks": '[{"type": "divider"}]',
        "unfurl_links": "false",
        "metadata": '{"event_type": "t", "event_payload": {"key": "k"}}',
    }
    async with app.session.post(f"{emulator.api_base}chat.postMessage", data=fields) as response:
        body = await response.json()
    assert body["message"]["blocks"][0]["type"] == "divider"
    call = emulator.calls("chat.postMessage")[0]
    assert call.params["unfurl_links"] is False
    assert call.params["metadata"]["event_payload"] == {"key": "k"}
    assert "token" not in call.params
    emulator.assert_clean()


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("blocks", "invalid_blocks_format"),
        ("metadata", "invalid_metadata_format"),
        ("attachments", "invalid_attachments"),
    ],
)
async def test_unreadable_structures(emulator: SlackEmulator, app: RawApp, field: str, error: str) -> None:
    """A structure that is no JSON is refused by the field's own error."""
    assert await app.error("chat.postMessage", channel=TEAM, text="x", **{field: "{nonsense"}) == error


async def test_unknown_names_are_violations(emulator: SlackEmulator, app: RawApp) -> None:
    """Slack ignores a parameter that it does not know; the emulator ignores it as well and tells."""
    assert await app.error("chat.shout", channel=TEAM) == "unknown_method"
    await app.result("chat.postMessage", channel=TEAM, text="x", colour="red", team_id=emulator.app.team)
    await app.result("chat.postMessage", channel=TEAM, text="x", unfurl_links="perhaps")
    found = [(entry.name, entry.data["method"], entry.data.get("where")) for entry in emulator.violations]
    assert found == [
        ("unknown_method", "chat.shout", None),
        ("unknown_parameter", "chat.postMessage", "colour"),
        ("wrong_type", "chat.postMessage", "unfurl_links"),
    ]


async def test_missing_parameters(emulator: SlackEmulator, app: RawApp) -> None:
    """What is required is asked for by name."""
    body = await app.call("views.open", trigger_id="x")
    assert body["error"] == "invalid_arguments"
    assert body["response_metadata"]["messages"] == ["[ERROR] missing required field: view"]
    assert await app.error("chat.postMessage", text="x") == "channel_not_found"


@pytest.mark.parametrize("body", ["{", "[]", "[" * 5000 + "]" * 5000, '"text"'])
async def test_unreadable_bodies(emulator: SlackEmulator, app: RawApp, body: str) -> None:
    """A body that is no JSON object is refused, and is a violation."""
    headers = {"Authorization": f"Bearer {app.token}", "Content-Type": "application/json"}
    async with app.session.post(f"{emulator.api_base}auth.test", data=body, headers=headers) as response:
        assert (await response.json())["error"] in ("invalid_json", "json_not_object")
    assert [entry.name for entry in emulator.violations] == ["unreadable_request"]


async def test_rates_follow_the_tiers(session: aiohttp.ClientSession) -> None:
    """A method of tier 2 takes twenty calls a minute; a channel takes a short burst and then one message a second."""
    emulator = SlackEmulator(clock=ManualClock(), knobs=Knobs(rates=True, post_burst=3))
    emulator.add_user(ALICE, "Alice")
    emulator.add_chat(TEAM, "team", members=[ALICE])
    await emulator.start()
    app = RawApp(emulator, session)
    try:
        for _ in range(20):
            await app.result("conversations.list")
        assert await app.error("conversations.list") == "ratelimited"
        for _ in range(3):
            await app.post()
        await app.post(ALICE)
        headers = {"Authorization": f"Bearer {app.token}"}
        url, message = f"{emulator.api_base}chat.postMessage", {"channel": TEAM, "text": "x"}
        async with session.post(url, json=message, headers=headers) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "3")
            assert await response.json() == {"ok": False, "error": "ratelimited"}
        await emulator.advance(3)
        await app.post()
    finally:
        await emulator.stop()


async def test_request_faults(emulator: SlackEmulator, app: RawApp) -> None:
    """A fault before accepting leaves nothing behind, one after it leaves the message; a refusal has its code."""
    emulator.fault("chat.postMessage", FaultKind.SERVER_ERROR, status=503)
    assert await app.error("chat.postMessage", channel=TEAM, text="lost") == "internal_error"
    emulator.fault("chat.postMessage", FaultKind.SERVER_ERROR, status=503, applied=True)
    assert await app.error("chat.postMessage", channel=TEAM, text="kept") == "internal_error"
    emulator.fault("chat.postMessage", FaultKind.REFUSE, description="restricted_action", where={"text": "no"})
    await app.post(text="yes")
    assert await app.error("chat.postMessage", channel=TEAM, text="no") == "restricted_action"
    emulator.fault("chat.postMessage", FaultKind.DROP)
    with pytest.raises(aiohttp.ClientError):
        await app.post()
    assert [one["text"] for one in emulator.messages(TEAM)] == ["kept", "yes"]


async def test_half_open_request_ends_with_disconnect(emulator: SlackEmulator, app: RawApp) -> None:
    """A request that hangs is cut as soon as somebody disconnects it."""
    emulator.fault("chat.postMessage", FaultKind.HALF_OPEN)
    hanging = asyncio.create_task(app.post())
    await emulator.wait_for(lambda: emulator.calls("chat.postMessage"))
    assert await emulator.disconnect() == 1
    with pytest.raises(aiohttp.ClientError):
        await hanging


async def test_who_is_who(emulator: SlackEmulator, app: RawApp) -> None:
    """People, the bot and the workspace are told under their ids."""
    user = (await app.result("users.info", user=ALICE, include_locale=True))["user"]
    assert (user["real_name"], user["team_id"], user["locale"]) == ("Alice", emulator.app.team, "en-US")
    assert await app.error("users.info", user="U0NONE") == "user_not_found"
    bot = (await app.result("bots.info", bot=emulator.app.bot_id))["bot"]
    assert bot["app_id"] == emulator.app.app_id
    assert (await app.result("team.info"))["team"]["id"] == emulator.app.team
    assert len((await app.result("users.list"))["members"]) == 3
