"""Interactions: how they arrive, the three seconds, the fifteen minutes, and what each answer does."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators import NotKnown, NotPossible
from adapters.emulators.discord import DiscordEmulator
from tests.unit.emulators.discord.conftest import ALICE, BOB, BOT, GENERAL, GUILD
from tests.unit.emulators.discord.raw_client import Line, RawBot, Reply

EPHEMERAL, LOADING, V2 = 1 << 6, 1 << 7, 1 << 15
ROW = {"type": 1, "components": [{"type": 2, "style": 1, "label": "Go", "custom_id": "go"}]}
FORM = {
    "title": "Reason",
    "custom_id": "reason",
    "components": [
        {"type": 18, "label": "Why", "component": {"type": 4, "style": 1, "custom_id": "why", "max_length": 9}},
        {
            "type": 18,
            "label": "Then",
            "component": {
                "type": 3,
                "custom_id": "then",
                "options": [{"label": "Stop", "value": "stop"}, {"label": "On", "value": "on"}],
            },
        },
    ],
}


async def pressed(bot: RawBot, emulator: DiscordEmulator, line: Line, user: int = ALICE) -> dict[str, Any]:
    """The interaction of a press on the bot's button."""
    sent = await bot.send(GENERAL, "card", components=[ROW])
    await emulator.press(user, sent["id"], button="Go")
    return await line.until("INTERACTION_CREATE")


async def answer(bot: RawBot, interaction: dict[str, Any], type: int, data: Any = None, **query: Any) -> Reply:
    """A first answer."""
    body = {"type": type} | ({"data": data} if data is not None else {})
    return await bot.call("POST", f"/interactions/{interaction['id']}/{interaction['token']}/callback", body, **query)


def hook(interaction: dict[str, Any], rest: str = "") -> str:
    """The address that an interaction's token opens."""
    return f"/webhooks/{BOT}/{interaction['token']}{rest}"


async def test_a_press_tells_all_that_an_adapter_needs(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Who, where, with which permissions, on which message and component."""
    got = await pressed(bot, emulator, line, BOB)
    assert (got["type"], got["application_id"], got["channel_id"], got["guild_id"]) == (
        3,
        str(BOT),
        str(GENERAL),
        str(GUILD),
    )
    assert got["member"]["user"]["id"] == str(BOB)
    assert int(got["member"]["permissions"]) & 1 << 11
    assert got["data"] == {"custom_id": "go", "component_type": 2, "id": 2}
    assert (got["message"]["content"], got["context"]) == ("card", 0)


async def test_in_a_direct_message_there_is_a_user(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Without a guild the interaction has a user and no member."""
    channel = emulator.direct(ALICE)["id"]
    sent = await bot.send(channel, components=[ROW])
    await emulator.press(ALICE, sent["id"], data="go")
    got = await line.until("INTERACTION_CREATE")
    assert (got["user"]["id"], got["context"], "member" in got) == (str(ALICE), 1, False)


async def test_an_update_changes_the_card(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Type 7 edits the pressed message; asked for, the answer contains it."""
    got = await pressed(bot, emulator, line)
    reply = await answer(bot, got, 7, {"content": "done", "components": []}, with_response="true")
    assert reply.status == 200
    assert reply.body["resource"]["message"]["content"] == "done"
    assert reply.body["interaction"]["response_message_id"] == got["message"]["id"]
    assert (await line.until("MESSAGE_UPDATE"))["components"] == []


async def test_an_answer_is_a_reply_to_the_card(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Type 4 posts a message that names the interaction; without being asked the answer is empty."""
    got = await pressed(bot, emulator, line)
    assert (await answer(bot, got, 4, {"content": "yes"})).status == 204
    shown = emulator.messages(GENERAL)[-1]
    assert shown["message_reference"]["message_id"] == got["message"]["id"]
    assert shown["interaction_metadata"]["user"]["id"] == str(ALICE)
    assert shown["application_id"] == str(BOT)


async def test_an_ephemeral_answer_is_for_one(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Only the person sees it: no event, no history, no editing but by the token."""
    got = await pressed(bot, emulator, line)
    await answer(bot, got, 4, {"content": "psst", "flags": EPHEMERAL})
    assert [one["content"] for one in emulator.messages(GENERAL, user=BOB)] == ["card"]
    hidden = emulator.messages(GENERAL, user=ALICE)[-1]
    assert hidden["content"] == "psst"
    assert len(await bot.ok("GET", f"/channels/{GENERAL}/messages")) == 1
    path = f"/channels/{GENERAL}/messages/{hidden['id']}"
    assert (await bot.call("PATCH", path, {"content": "x"})).code == 10008
    await bot.ok("PATCH", hook(got, "/messages/@original"), {"content": "changed"})
    assert emulator.messages(GENERAL, user=ALICE)[-1]["content"] == "changed"
    await emulator.say(ALICE, "end", chat=GENERAL)
    assert (await line.until("MESSAGE_CREATE"))["content"] in ("card", "end")
    with pytest.raises(NotKnown):
        await emulator.press(BOB, hidden["id"], button="Go")


async def test_three_seconds(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Before the deadline the answer is taken; at it the person is told of a failure and the answer is 10062."""
    early = await pressed(bot, emulator, line)
    await emulator.advance(2.9)
    assert (await answer(bot, early, 6)).status == 204
    late = await pressed(bot, emulator, line)
    await emulator.advance(3)
    assert (await answer(bot, late, 6)).code == 10062
    assert (await emulator.answer(late["id"]))["state"] == "failed"
    assert [one.data["interaction"] for one in emulator.journal if one.name == "interaction_failed"] == [late["id"]]


async def test_one_answer_only(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """A second answer is 40060; an unknown interaction is 10062."""
    got = await pressed(bot, emulator, line)
    await answer(bot, got, 6)
    assert (await answer(bot, got, 4, {"content": "x"})).code == 40060
    assert (await answer(bot, got | {"token": "none"}, 6)).code == 10062


async def test_fifteen_minutes(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """The token is good for a quarter of an hour, and for nothing before the first answer."""
    got = await pressed(bot, emulator, line)
    assert (await bot.call("POST", hook(got), {"content": "too early"})).code == 10015
    await answer(bot, got, 6)
    await emulator.advance(899)
    await bot.ok("POST", hook(got), {"content": "in time"})
    await emulator.advance(1)
    late = await bot.call("POST", hook(got), {"content": "too late"})
    assert (late.status, late.code) == (401, 50027)


async def test_a_deferred_answer_is_filled_in(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Type 5 shows a loading message; its edit, or else the first follow-up, takes its place."""
    first = await pressed(bot, emulator, line)
    await answer(bot, first, 5)
    assert emulator.messages(GENERAL)[-1]["flags"] == LOADING
    edited = await bot.ok("PATCH", hook(first, "/messages/@original"), {"content": "filled in"})
    assert (edited["flags"], edited["edited_timestamp"]) == (0, None)
    second = await pressed(bot, emulator, line)
    await answer(bot, second, 5, {"flags": EPHEMERAL})
    follow = await bot.ok("POST", hook(second), {"content": "followed up"})
    assert follow["flags"] == EPHEMERAL
    more = await bot.ok("POST", hook(second), {"content": "more"})
    assert more["id"] != follow["id"]
    assert (await bot.ok("GET", hook(second, "/messages/@original")))["id"] == follow["id"]


async def test_a_deferred_answer_becomes_a_card(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """The flag of new components comes with the edit, not with the deferral."""
    got = await pressed(bot, emulator, line)
    await answer(bot, got, 5)
    card = {"flags": V2, "components": [{"type": 10, "content": "x"}]}
    assert (await bot.ok("PATCH", hook(got, "/messages/@original"), card))["flags"] == V2


async def test_follow_ups_are_edited_and_deleted(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Follow-ups by their id; those of another token are unknown; the original can be deleted."""
    got = await pressed(bot, emulator, line)
    await answer(bot, got, 4, {"content": "first"})
    follow = await bot.ok("POST", hook(got), {"content": "follow"})
    await bot.ok("PATCH", hook(got, f"/messages/{follow['id']}"), {"content": "edited"})
    assert (await bot.ok("GET", hook(got, f"/messages/{follow['id']}")))["content"] == "edited"
    await bot.ok("DELETE", hook(got, f"/messages/{follow['id']}"))
    assert (await bot.call("GET", hook(got, f"/messages/{follow['id']}"))).code == 10008
    stranger = await bot.send(GENERAL)
    assert (await bot.call("PATCH", hook(got, f"/messages/{stranger['id']}"), {"content": "x"})).code == 10008
    await bot.ok("DELETE", hook(got, "/messages/@original"))
    assert (await bot.call("GET", hook(got, "/messages/@original"))).code == 10008


REFUSED = [
    (1, None, {"type": "INTERACTION_APPLICATION_COMMAND_INVALID_CALLBACK_TYPE"}),
    (8, {"choices": []}, {"type": "INTERACTION_APPLICATION_COMMAND_INVALID_CALLBACK_TYPE"}),
    (3, None, {"type": "UNION_TYPE_CHOICES"}),
    (4, {"content": "x" * 2001}, {"data.content": "BASE_TYPE_MAX_LENGTH"}),
    (9, {**FORM, "title": "x" * 46}, {"data.title": "BASE_TYPE_BAD_LENGTH"}),
    (9, {**FORM, "components": []}, {"data.components": "BASE_TYPE_BAD_LENGTH"}),
    (9, {**FORM, "components": [FORM["components"][0]] * 2}, {"data.components": "COMPONENT_CUSTOM_ID_DUPLICATED"}),
]


@pytest.mark.parametrize(("type", "data", "errors"), REFUSED)
async def test_a_wrong_answer_can_be_made_good(
    bot: RawBot, emulator: DiscordEmulator, line: Line, type: int, data: Any, errors: dict[str, str]
) -> None:
    """What does not fit is refused by place and leaves the interaction open."""
    got = await pressed(bot, emulator, line)
    refused = await answer(bot, got, type, data)
    assert (refused.code, refused.errors) == (50035, errors)
    assert (await answer(bot, got, 6)).status == 204


async def test_a_form_is_filled_in(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """The form's fields come back in its own shape; its answer may change the message it was opened on."""
    got = await pressed(bot, emulator, line)
    await answer(bot, got, 9, FORM)
    with pytest.raises(NotPossible, match="characters"):
        await emulator.submit(ALICE, got["id"], {"why": "far too long", "then": ["on"]})
    with pytest.raises(NotPossible, match="offers"):
        await emulator.submit(ALICE, got["id"], {"why": "x", "then": ["never"]})
    with pytest.raises(NotKnown, match="no field"):
        await emulator.submit(ALICE, got["id"], {"what": "x"})
    with pytest.raises(NotPossible, match="not for"):
        await emulator.submit(BOB, got["id"], {"why": "x"})
    await emulator.submit(ALICE, got["id"], {"why": "because", "then": ["stop"]})
    sent = await line.until("INTERACTION_CREATE")
    assert (sent["type"], sent["data"]["custom_id"]) == (5, "reason")
    assert [one["component"].get("value") or one["component"]["values"] for one in sent["data"]["components"]] == [
        "because",
        ["stop"],
    ]
    assert sent["message"]["id"] == got["message"]["id"]
    assert (await answer(bot, sent, 9, FORM)).code == 50035
    assert (await answer(bot, sent, 7, {"content": "noted", "components": []})).status == 204
    assert emulator.messages(GENERAL)[0]["content"] == "noted"


async def test_an_endpoint_takes_interactions_from_the_gateway(bot: RawBot, emulator: DiscordEmulator) -> None:
    """An application that wants its interactions elsewhere gets none by the gateway, and the person sees them fail."""
    emulator.add_bot("NDM.other", name="other", endpoint="https://example.org/interactions")
    emulator.add_guild(200, "Other", members=[ALICE], bots=[43])
    emulator.add_channel(200, "talk", channel=201)
    other = RawBot(emulator.url, "NDM.other", bot.http)
    assert (await other.ok("GET", "/applications/@me"))["interactions_endpoint_url"]
    line = await other.ready()
    sent = await other.send(201, components=[ROW])
    pressed = await emulator.press(ALICE, sent["id"], button="Go")
    await emulator.say(ALICE, "after", chat=201)
    while (await line.until("MESSAGE_CREATE"))["content"] != "after":
        pass
    assert "INTERACTION_CREATE" not in [one["t"] for one in line.got]
    await emulator.advance(3)
    assert (await emulator.answer(pressed["id"]))["state"] == "failed"


async def test_a_person_presses_what_is_there(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Absent and disabled buttons, and messages without any, cannot be pressed."""
    disabled = {"type": 1, "components": [{**ROW["components"][0], "disabled": True}]}  # type: ignore[index]
    sent = await bot.send(GENERAL, components=[disabled])
    with pytest.raises(NotPossible, match="disabled"):
        await emulator.press(ALICE, sent["id"], button="Go")
    with pytest.raises(NotKnown, match="Go"):
        await emulator.press(ALICE, sent["id"], button="Stop")
    said = await emulator.say(ALICE, "x", chat=GENERAL)
    with pytest.raises(NotKnown, match="none"):
        await emulator.press(ALICE, said["id"])


async def test_a_menu_is_chosen_from(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """The chosen values arrive; what the menu does not offer cannot be chosen."""
    menu = {"type": 3, "custom_id": "m", "options": [{"label": "A", "value": "a"}, {"label": "B", "value": "b"}]}
    sent = await bot.send(GENERAL, components=[{"type": 1, "components": [menu]}])
    with pytest.raises(NotPossible):
        await emulator.press(ALICE, sent["id"], values=["c"])
    with pytest.raises(NotPossible):
        await emulator.press(ALICE, sent["id"], values=["a", "b"])
    await emulator.press(ALICE, sent["id"], values=["b"])
    assert (await line.until("INTERACTION_CREATE"))["data"]["values"] == ["b"]
