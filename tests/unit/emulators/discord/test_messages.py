"""Messages over REST: what is accepted, what is refused and how, history, nonces, edits, reactions, files."""

from __future__ import annotations

import io
import json
from typing import Any

import aiohttp
import pytest

from adapters.emulators.discord import DiscordEmulator, Knobs
from tests.unit.emulators.discord.conftest import ALICE, BOB, BOT, FORUM, GENERAL, NEWS, SECRET
from tests.unit.emulators.discord.raw_client import Line, RawBot

V2 = 1 << 15
HOUR = 3600.0


def button(**more: Any) -> dict[str, Any]:
    """A button that is right, with something changed."""
    return {"type": 2, "style": 1, "label": "Go", "custom_id": "go", **more}


def row(*parts: dict[str, Any]) -> dict[str, Any]:
    """A row of components."""
    return {"type": 1, "components": list(parts)}


def text(content: str = "x") -> dict[str, Any]:
    """A text display."""
    return {"type": 10, "content": content}


REFUSED: list[tuple[dict[str, Any], int, dict[str, str]]] = [
    ({}, 50006, {}),
    ({"content": "   "}, 50006, {}),
    ({"content": None, "embeds": []}, 50006, {}),
    ({"content": "x" * 2001}, 50035, {"content": "BASE_TYPE_MAX_LENGTH"}),
    ({"content": 5}, 50035, {"content": "STRING_TYPE_CONVERT"}),
    ({"embeds": [{"title": "x" * 257}]}, 50035, {"embeds.0.title": "BASE_TYPE_MAX_LENGTH"}),
    ({"embeds": [{"description": "x" * 4000}] * 2}, 50035, {"embeds": "MAX_EMBED_SIZE_EXCEEDED"}),
    ({"embeds": [{"title": "x"}] * 11}, 50035, {"embeds": "BASE_TYPE_MAX_LENGTH"}),
    ({"embeds": "x"}, 50035, {"embeds": "LIST_TYPE_CONVERT"}),
    ({"content": "x", "nonce": "n" * 26}, 50035, {"nonce": "BASE_TYPE_MAX_LENGTH"}),
    ({"content": "x", "tts": "x"}, 50035, {"tts": "BOOLEAN_TYPE_CONVERT"}),
    (
        {"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["7"]}},
        50035,
        {"allowed_mentions": "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE"},
    ),
    (
        {"content": "x", "message_reference": {"message_id": "1"}},
        50035,
        {"message_reference": "REPLIES_UNKNOWN_MESSAGE"},
    ),
    (
        {"content": "x", "message_reference": {"message_id": "one"}},
        50035,
        {"message_reference.message_id": "NUMBER_TYPE_COERCE"},
    ),
    (
        {"content": "x", "attachments": [{"id": "0", "filename": "a"}]},
        50035,
        {"attachments.0": "MESSAGE_ATTACHMENT_NOT_FOUND"},
    ),
    (
        {"components": [row(button(custom_id="x" * 101))]},
        50035,
        {"components.0.components.0.custom_id": "BASE_TYPE_BAD_LENGTH"},
    ),
    (
        {"components": [row(button(), button())]},
        50035,
        {"components.0.components.1.custom_id": "COMPONENT_CUSTOM_ID_DUPLICATED"},
    ),
    (
        {"components": [row(button(custom_id=None))]},
        50035,
        {"components.0.components.0.custom_id": "BASE_TYPE_REQUIRED"},
    ),
    (
        {"components": [row(button(label="x" * 81))]},
        50035,
        {"components.0.components.0.label": "BASE_TYPE_MAX_LENGTH"},
    ),
    ({"components": [row(button(style=9))]}, 50035, {"components.0.components.0.style": "BASE_TYPE_CHOICES"}),
    ({"components": [button()]}, 50035, {"components.0.type": "UNION_TYPE_CHOICES"}),
    ({"components": [row()]}, 50035, {"components.0.components": "BASE_TYPE_BAD_LENGTH"}),
    (
        {"components": [row(*(button(custom_id=str(n)) for n in range(6)))]},
        50035,
        {"components.0.components": "BASE_TYPE_BAD_LENGTH"},
    ),
    (
        {"components": [row(button(custom_id=str(n))) for n in range(6)]},
        50035,
        {"components": "BASE_TYPE_BAD_LENGTH"},
    ),
    ({"components": [text()]}, 50035, {"components.0.type": "UNION_TYPE_CHOICES"}),
    (
        {"flags": V2, "content": "x", "components": [text()]},
        50035,
        {"content": "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"},
    ),
    (
        {"flags": V2, "components": [text("x" * 2001), text("x" * 2000)]},
        50035,
        {"components": "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED"},
    ),
    (
        {"flags": V2, "components": [{"type": 17, "components": [text() for _ in range(40)]}]},
        50035,
        {"components": "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED"},
    ),
    ({"flags": V2, "components": []}, 50035, {"components": "BASE_TYPE_REQUIRED"}),
]


@pytest.mark.parametrize(("body", "code", "errors"), REFUSED)
async def test_what_is_wrong_is_refused_by_place(
    bot: RawBot, emulator: DiscordEmulator, body: dict[str, Any], code: int, errors: dict[str, str]
) -> None:
    """Each breach of a limit has Discord's code, and names the place; nothing is posted."""
    reply = await bot.try_send(GENERAL, **body)
    assert (reply.status, reply.code, reply.errors) == (400, code, errors)
    assert emulator.messages(GENERAL) == []


ACCEPTED: list[dict[str, Any]] = [
    {"content": "x" * 2000},
    {"embeds": [{"description": "x" * 4096}]},
    {"content": "x", "nonce": "n" * 25},
    {"content": "x", "nonce": 5},
    {"components": [row(*(button(custom_id=str(n)) for n in range(5))) | {"id": 3}]},
    {"flags": V2, "components": [{"type": 17, "components": [text() for _ in range(39)]}]},
    {"flags": V2, "components": [text("x" * 4000)]},
    {"flags": V2, "components": [{"type": 9, "components": [text()], "accessory": button()}, {"type": 14}]},
    {"content": "x", "flags": 1 << 12},
    {"content": "x", "allowed_mentions": {"parse": []}},
]


@pytest.mark.parametrize("body", ACCEPTED)
async def test_what_is_just_right_is_taken(bot: RawBot, emulator: DiscordEmulator, body: dict[str, Any]) -> None:
    """At the limit everything is accepted, and nothing is a violation."""
    reply = await bot.try_send(GENERAL, **body)
    assert reply.status == 200, reply.body
    emulator.assert_clean()


PLACES = [(999, 404, 10003), (SECRET, 403, 50001), (NEWS, 403, 50013), (FORUM, 400, 50008)]


@pytest.mark.parametrize(("channel", "status", "code"), PLACES)
async def test_places_where_the_bot_may_not_write(bot: RawBot, channel: int, status: int, code: int) -> None:
    """Unknown, invisible, forbidden and unfit channels are told apart."""
    reply = await bot.try_send(channel, content="x")
    assert (reply.status, reply.code) == (status, code)


async def test_who_has_no_token_is_nobody(bot: RawBot) -> None:
    """A wrong token is 401 with code 0."""
    reply = await bot.call("GET", "/users/@me", token="wrong")
    assert (reply.status, reply.body) == (401, {"message": "401: Unauthorized", "code": 0})


async def test_what_discord_does_not_know_is_a_violation(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Unknown routes, verbs, operations that are not emulated, parameters and fields are recorded."""
    assert (await bot.call("GET", "/nothing")).status == 404
    assert (await bot.call("PUT", "/users/@me")).status == 405
    assert (await bot.call("GET", "/voice/regions")).status == 404
    assert (await bot.call("GET", f"/channels/{GENERAL}/messages", colour="red")).status == 200
    assert (await bot.try_send(GENERAL, content="x", colour="red")).status == 200
    assert (await bot.call("POST", f"/channels/{GENERAL}/messages", data=b"{")).code == 50109
    assert [entry.name for entry in emulator.violations] == [
        "unknown_route",
        "unknown_route",
        "not_emulated",
        "unknown_field",
        "unknown_field",
        "unreadable_request",
    ]


async def test_answers_are_spelled_as_clients_want(bot: RawBot) -> None:
    """The content type has no charset and the answer went through a proxy: clients look at both."""
    reply = await bot.call("GET", "/users/@me")
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Via"] == "1.1 google"


# -- nonces


async def test_a_nonce_that_is_checked_returns_the_earlier_message(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Within minutes the same nonce posts once; later, elsewhere or unchecked it posts again."""
    first = await bot.send(GENERAL, nonce="n", enforce_nonce=True)
    again = await bot.send(GENERAL, "other words", nonce="n", enforce_nonce=True)
    assert again["id"] == first["id"]
    assert again["content"] == "x"
    unchecked = await bot.send(GENERAL, nonce="n")
    assert unchecked["id"] != first["id"]
    await emulator.advance(300)
    assert (await bot.send(GENERAL, nonce="n", enforce_nonce=True))["id"] not in (first["id"], unchecked["id"])
    assert len(emulator.messages(GENERAL)) == 3


async def test_a_nonce_is_not_kept_with_the_message(bot: RawBot, line: Line) -> None:
    """Who sent a message and who hears of its coming learn the nonce; history does not tell it."""
    sent = await bot.send(GENERAL, nonce="n", enforce_nonce=True)
    assert sent["nonce"] == "n"
    assert (await line.until("MESSAGE_CREATE"))["nonce"] == "n"
    path = f"/channels/{GENERAL}/messages"
    assert "nonce" not in (await bot.ok("GET", path))[0]
    await bot.ok("DELETE", f"{path}/{sent['id']}")
    assert (await bot.try_send(GENERAL, content="x", nonce="n", enforce_nonce=True)).code == 10008


async def test_wide_text_fails_before_its_limit(bot: RawBot) -> None:
    """4,000 characters of three bytes each are within the published limit and too much all the same: 500."""
    wide = await bot.try_send(GENERAL, flags=V2, components=[text("語" * 4000)])
    assert (wide.status, wide.body) == (500, {"message": "500: Internal Server Error", "code": 0})
    assert (await bot.try_send(GENERAL, flags=V2, components=[text("語" * 3386)])).status == 200
    assert (await bot.try_send(GENERAL, flags=V2, components=[text("語" * 3387)])).status == 500


async def test_what_has_no_effect_here_is_told(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A published field that is not emulated is a violation."""
    poll = {"question": {"text": "?"}, "answers": [{"poll_media": {"text": "a"}}]}
    assert (await bot.try_send(GENERAL, poll=poll)).status == 200
    assert [(entry.name, entry.data["where"]) for entry in emulator.violations] == [("not_emulated", "poll")]


# -- history


async def test_history_windows(bot: RawBot, emulator: DiscordEmulator) -> None:
    """before, after and around give the newest first; after takes the oldest ones."""
    ids = [(await emulator.say(ALICE, str(number), chat=GENERAL))["id"] for number in range(6)]

    async def texts(**query: Any) -> str:
        found = await bot.ok("GET", f"/channels/{GENERAL}/messages", **query)
        return "".join(one["content"] for one in found)

    assert await texts() == "543210"
    assert await texts(limit=2) == "54"
    assert await texts(before=ids[3], limit=2) == "21"
    assert await texts(after=ids[1], limit=2) == "32"
    assert await texts(after="0", limit=2) == "10"
    assert await texts(around=ids[3], limit=3) == "432"
    refused = await bot.call("GET", f"/channels/{GENERAL}/messages", limit=101)
    assert refused.errors == {"limit": "NUMBER_TYPE_MAX"}


async def test_history_blanks_what_the_application_may_not_read(emulator: DiscordEmulator, bot: RawBot) -> None:
    """Without the switch for contents REST is blank, too; own messages and mentions are not."""
    emulator.add_bot("NDM.blind", name="blind", intents=0)
    await emulator.join(43, 100)
    blind = RawBot(emulator.url, "NDM.blind", bot.http)
    await emulator.say(ALICE, "hidden", chat=GENERAL)
    await emulator.say(ALICE, "for <@43>", chat=GENERAL)
    await blind.send(GENERAL, "own")
    found = await blind.ok("GET", f"/channels/{GENERAL}/messages")
    assert [one["content"] for one in found] == ["own", "for <@43>", ""]


async def test_a_message_by_its_id(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A message is found in its channel only."""
    said = await emulator.say(ALICE, "here", chat=GENERAL)
    found = await bot.ok("GET", f"/channels/{GENERAL}/messages/{said['id']}")
    assert found["content"] == "here"
    assert (await bot.call("GET", f"/channels/{NEWS}/messages/{said['id']}")).code == 10008


# -- edits and deletions


async def test_edits_change_what_they_name(bot: RawBot, line: Line) -> None:
    """What an edit does not name stays; the new state is told."""
    sent = await bot.send(GENERAL, components=[row(button())])
    edited = await bot.ok("PATCH", f"/channels/{GENERAL}/messages/{sent['id']}", {"content": "new"})
    assert (edited["content"], len(edited["components"])) == ("new", 1)
    assert edited["edited_timestamp"] is not None
    cleared = await bot.ok("PATCH", f"/channels/{GENERAL}/messages/{sent['id']}", {"components": []})
    assert (cleared["content"], cleared["components"]) == ("new", [])
    assert (await line.until("MESSAGE_UPDATE"))["content"] == "new"


async def test_an_edit_may_not_empty_or_mix(bot: RawBot) -> None:
    """An edit that leaves nothing is 50006; words beside new components are refused."""
    sent = await bot.send(GENERAL)
    path = f"/channels/{GENERAL}/messages/{sent['id']}"
    assert (await bot.call("PATCH", path, {"content": ""})).code == 50006
    mixed = await bot.call("PATCH", path, {"flags": V2, "components": [text()]})
    assert mixed.errors == {"content": "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"}
    turned = await bot.ok("PATCH", path, {"flags": V2, "content": None, "components": [text()]})
    assert turned["flags"] == V2
    for_ever = await bot.ok("PATCH", path, {"flags": 0, "components": [text("y")]})
    assert for_ever["flags"] == V2


async def test_messages_of_others_are_not_the_bots(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Editing another's message is 50005, deleting it needs a permission, unknown ones are 10008."""
    said = await emulator.say(ALICE, "mine", chat=GENERAL)
    path = f"/channels/{GENERAL}/messages/{said['id']}"
    assert (await bot.call("PATCH", path, {"content": "stolen"})).code == 50005
    assert (await bot.call("DELETE", path)).code == 50013
    direct = await emulator.say(ALICE, "mine")
    assert (await bot.call("DELETE", f"/channels/{direct['channel_id']}/messages/{direct['id']}")).code == 50003
    assert (await bot.call("PATCH", f"/channels/{GENERAL}/messages/1", {"content": "x"})).code == 10008


async def test_old_messages_have_few_edits(bot: RawBot, emulator: DiscordEmulator) -> None:
    """After an hour edits of old messages are counted: one too many is 30046, and told how long it lasts."""
    sent = await bot.send(GENERAL)
    path = f"/channels/{GENERAL}/messages/{sent['id']}"
    await emulator.advance(HOUR)
    limit, _ = Knobs().old_message_edits
    for number in range(limit):
        await bot.ok("PATCH", path, {"content": str(number)})
    refused = await bot.call("PATCH", path, {"content": "one more"})
    assert (refused.status, refused.code, refused.body["retry_after"]) == (429, 30046, HOUR)
    await emulator.advance(HOUR)
    await bot.ok("PATCH", path, {"content": "later"})


async def test_bulk_deletion(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """Young messages go in one call for whoever manages messages; old ones are refused."""
    emulator.add_role(100, "mods", permissions=["manage_messages"], members=[BOT])
    ids = [(await emulator.say(ALICE, str(number), chat=GENERAL))["id"] for number in range(3)]
    await bot.ok("POST", f"/channels/{GENERAL}/messages/bulk-delete", {"messages": ids[:2]})
    assert [one["content"] for one in emulator.messages(GENERAL)] == ["2"]
    assert (await line.until("MESSAGE_DELETE_BULK"))["ids"] == ids[:2]
    await emulator.advance(15 * 86400)
    body = {"messages": [ids[2], ids[2]]}
    assert (await bot.call("POST", f"/channels/{GENERAL}/messages/bulk-delete", body)).code in (50034, 50035)


# -- replies and mentions


async def test_a_reply_names_what_it_answers(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Numbers are taken for ids; a missing message may be allowed to be missing."""
    said = await emulator.say(ALICE, "question", chat=GENERAL)
    reply = await bot.send(GENERAL, message_reference={"message_id": int(said["id"])})
    assert (reply["type"], reply["referenced_message"]["id"]) == (19, said["id"])
    assert [one["id"] for one in reply["mentions"]] == [str(ALICE)]
    quiet = {"parse": [], "replied_user": False}
    silent = await bot.send(GENERAL, message_reference={"message_id": said["id"]}, allowed_mentions=quiet)
    assert silent["mentions"] == []
    gone = await bot.send(GENERAL, message_reference={"message_id": "1", "fail_if_not_exists": False})
    assert gone["type"] == 0


MENTIONS = [
    (None, [ALICE, BOB], True),
    ({"parse": []}, [], False),
    ({"parse": ["users"]}, [ALICE, BOB], False),
    ({"users": [str(BOB)]}, [BOB], False),
    ({"parse": ["everyone"]}, [], True),
]


@pytest.mark.parametrize(("allowed", "users", "everyone"), MENTIONS)
async def test_only_allowed_mentions_call(bot: RawBot, allowed: Any, users: list[int], everyone: bool) -> None:
    """Without a word everybody who is named is called; else only who is allowed to be."""
    more = {} if allowed is None else {"allowed_mentions": allowed}
    sent = await bot.send(GENERAL, f"<@{ALICE}> <@!{BOB}> @everyone", **more)
    assert [one["id"] for one in sent["mentions"]] == [str(user) for user in users]
    assert sent["mention_everyone"] is everyone


# -- reactions, typing, pins


async def test_reactions(bot: RawBot, emulator: DiscordEmulator, line: Line) -> None:
    """A reaction is set once, listed, told and taken away; what is no emoji is 10014."""
    said = await emulator.say(ALICE, "x", chat=GENERAL)
    path = f"/channels/{GENERAL}/messages/{said['id']}/reactions"
    for _ in range(2):
        await bot.ok("PUT", f"{path}/%F0%9F%91%80/@me")
    await emulator.react(ALICE, said["id"], ["👀", "blob:123"])
    shown = emulator.messages(GENERAL)[0]["reactions"]
    assert [(one["emoji"]["name"], one["emoji"]["id"], one["count"]) for one in shown] == [
        ("👀", None, 2),
        ("blob", "123", 1),
    ]
    listed = await bot.ok("GET", f"{path}/%F0%9F%91%80")
    assert [one["id"] for one in listed] == [str(ALICE), str(BOT)]
    added = await line.until("MESSAGE_REACTION_ADD")
    assert (added["user_id"], added["emoji"], added["message_author_id"]) == (
        str(BOT),
        {"id": None, "name": "👀"},
        str(ALICE),
    )
    await bot.ok("DELETE", f"{path}/%F0%9F%91%80/@me")
    assert (await line.until("MESSAGE_REACTION_REMOVE"))["user_id"] == str(BOT)
    assert (await bot.call("PUT", f"{path}/eyes/@me")).code == 10014
    assert (await bot.call("PUT", f"/channels/{GENERAL}/messages/1/reactions/%F0%9F%91%80/@me")).code == 10008


async def test_typing_lasts_ten_seconds(bot: RawBot, emulator: DiscordEmulator) -> None:
    """People see the bot type until it stops to say so."""
    await bot.ok("POST", f"/channels/{GENERAL}/typing")
    await emulator.advance(9.9)
    assert emulator.typing(GENERAL)
    await emulator.advance(0.1)
    assert not emulator.typing(GENERAL)


async def test_pins(bot: RawBot, emulator: DiscordEmulator) -> None:
    """A message is pinned by whoever manages messages, listed and released."""
    sent = await bot.send(GENERAL)
    path = f"/channels/{GENERAL}/messages/pins"
    assert (await bot.call("PUT", f"{path}/{sent['id']}")).code == 50013
    emulator.add_role(100, "mods", permissions=["manage_messages"], members=[BOT])
    await bot.ok("PUT", f"{path}/{sent['id']}")
    assert [one["message"]["id"] for one in (await bot.ok("GET", path))["items"]] == [sent["id"]]
    await bot.ok("DELETE", f"{path}/{sent['id']}")
    assert (await bot.ok("GET", path))["items"] == []


# -- files


def form(body: dict[str, Any], *files: tuple[str, bytes]) -> aiohttp.FormData:
    """A multipart body as clients send it."""
    data = aiohttp.FormData(quote_fields=False)
    data.add_field("payload_json", json.dumps(body), content_type="application/json")
    for number, (name, content) in enumerate(files):
        data.add_field(f"files[{number}]", io.BytesIO(content), filename=name, content_type="application/octet-stream")
    return data


async def test_files_are_sent_kept_and_fetched(bot: RawBot, emulator: DiscordEmulator) -> None:
    """Files come by number, are downloaded from their link, and stay or go by what an edit lists."""
    body = {"attachments": [{"id": 0, "filename": "a.txt", "description": "first"}, {"id": 1, "filename": "b c.md"}]}
    data = form(body, ("x.txt", b"one"), ("y.md", b"two"))
    sent = await bot.ok("POST", f"/channels/{GENERAL}/messages", data=data)
    names = [(one["filename"], one["size"], one.get("description")) for one in sent["attachments"]]
    assert names == [("a.txt", 3, "first"), ("b_c.md", 3, None)]
    async with bot.http.get(sent["attachments"][0]["url"]) as response:
        assert (await response.read(), response.content_type) == (b"one", "text/plain")
    kept = {"attachments": [{"id": sent["attachments"][1]["id"]}, {"id": "0", "filename": "c.txt"}]}
    path = f"/channels/{GENERAL}/messages/{sent['id']}"
    edited = await bot.ok("PATCH", path, data=form(kept, ("c.txt", b"three")))
    assert [one["filename"] for one in edited["attachments"]] == ["b_c.md", "c.txt"]
    assert emulator.calls("file")[0].ok


async def test_files_have_limits(emulator: DiscordEmulator, session: aiohttp.ClientSession) -> None:
    """A file above the limit is 40005; a part without a meaning is a violation."""
    bot = RawBot(emulator.url, "NDI.raw.token", session)
    big = form({}, ("big.bin", b"x" * ((10 << 20) + 1)))
    reply = await bot.call("POST", f"/channels/{GENERAL}/messages", data=big)
    assert (reply.status, reply.code) == (413, 40005)
    odd = form({"content": "x"})
    odd.add_field("file", b"x", filename="x")
    await bot.ok("POST", f"/channels/{GENERAL}/messages", data=odd)
    assert [entry.data["where"] for entry in emulator.violations] == ["file"]


async def test_a_card_shows_its_file(bot: RawBot) -> None:
    """A file component leads to the file that came with it."""
    card = {"flags": V2, "components": [{"type": 13, "file": {"url": "attachment://r.txt"}}]}
    sent = await bot.ok("POST", f"/channels/{GENERAL}/messages", data=form(card, ("r.txt", b"abc")))
    shown = sent["components"][0]
    assert (shown["name"], shown["size"]) == ("r.txt", 3)
    async with bot.http.get(shown["file"]["url"]) as response:
        assert await response.read() == b"abc"
