"""Whatever a client sends, it gets an answer of the platform and the emulator stays whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.discord.call import Call
from adapters.emulators.discord.errors import ApiError
from adapters.emulators.discord.methods import BY_TOKEN, HANDLERS
from adapters.emulators.discord.schema import discord_api
from tests.support.discord_schema import malformed_answers
from tests.unit.emulators.discord.conftest import ALICE, BOT, FORUM, GENERAL, GUILD, TOKEN, build
from tests.unit.emulators.discord.raw_client import RawBot

SCRAPS = st.sampled_from(["", "0", "1", "x", "7", "42", "👀", "attachment://x", str(GENERAL), str(FORUM), "9" * 30])
ANYTHING = SCRAPS | st.integers(-2, 70) | st.booleans() | st.none() | st.just({}) | st.just([])


def part(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A component, right or wrong."""
    names = ("custom_id", "label", "style", "content", "url", "disabled", "emoji", "accent_color", "media", "file")
    optional: dict[str, Any] = {name: ANYTHING for name in names}
    optional |= {"components": st.lists(children, max_size=3), "accessory": children, "component": children}
    optional |= {"items": st.lists(ANYTHING, max_size=2), "options": st.lists(ANYTHING, max_size=2)}
    return st.fixed_dictionaries({"type": st.integers(0, 24) | ANYTHING}, optional=optional)


COMPONENTS = st.lists(st.recursive(ANYTHING, part, max_leaves=6), max_size=3) | ANYTHING
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "content": ANYTHING,
        "embeds": st.lists(st.fixed_dictionaries({}, optional={"title": ANYTHING, "fields": ANYTHING}), max_size=2),
        "components": COMPONENTS,
        "flags": st.sampled_from([0, 1 << 15, 64]) | ANYTHING,
        "nonce": ANYTHING,
        "enforce_nonce": ANYTHING,
        "allowed_mentions": st.fixed_dictionaries({}, optional={"parse": ANYTHING, "users": ANYTHING}) | ANYTHING,
        "message_reference": st.fixed_dictionaries({}, optional={"message_id": ANYTHING}) | ANYTHING,
        "attachments": st.lists(st.fixed_dictionaries({}, optional={"id": ANYTHING}), max_size=2) | ANYTHING,
    },
)
BODY = MESSAGE | st.fixed_dictionaries(
    {},
    optional={
        "name": ANYTHING,
        "type": ANYTHING,
        "message": MESSAGE,
        "archived": ANYTHING,
        "locked": ANYTHING,
        "applied_tags": ANYTHING,
        "auto_archive_duration": ANYTHING,
        "recipient_id": ANYTHING,
        "description": ANYTHING,
        "options": st.lists(ANYTHING, max_size=2),
        "data": MESSAGE,
        "messages": ANYTHING,
    },
)
DESCRIBED = [name for name in sorted(HANDLERS) if name not in BY_TOKEN]
FREE = {"application_id": str(BOT), "guild_id": str(GUILD), "user_id": str(ALICE), "emoji_name": "%F0%9F%91%80"}


@settings(max_examples=100)
@given(name=st.sampled_from(DESCRIBED), body=BODY, channel=st.sampled_from([GENERAL, FORUM, 999]), what=SCRAPS)
async def test_every_operation_answers_or_refuses(name: str, body: dict[str, Any], channel: int, what: str) -> None:
    """After the schema every body is either taken, and the answer is as published, or refused with Discord's code."""
    made: DiscordEmulator = build()
    platform = made._platform
    platform.address = lambda: "http://127.0.0.1:1"
    platform.spawn = lambda work: work.close()  # type: ignore[assignment,return-value]
    message = (await made.say(ALICE, "x", chat=GENERAL))["id"]
    operation = discord_api().named(name)
    if operation.body is not None and discord_api().check(operation.body, body).problems:
        return
    path = {**FREE, "channel_id": str(channel), "message_id": message, "command_id": what}
    wanted = {key: path[key] for key in operation.pattern.groupindex}
    call = Call(bot=platform.bots[TOKEN], operation=operation, path=wanted, query={}, body=body, uploads={}, number=0)
    try:
        result = HANDLERS[name](platform, call)
    except ApiError:
        return
    if operation.answer is not None and result is not None:
        assert discord_api().check(operation.answer, result, numbers_as_ids=False).problems == []


BODIES = [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 10_000]


@pytest.mark.parametrize("body", BODIES)
async def test_what_is_no_object_is_refused(bot: RawBot, emulator: DiscordEmulator, body: bytes) -> None:
    """Bodies that are no JSON, or no object, get a 4xx with a code."""
    reply = await bot.call("POST", f"/channels/{GENERAL}/messages", data=body)
    assert 400 <= reply.status < 500
    assert reply.code
    assert malformed_answers(emulator) == []


PATHS = [
    "/channels/x/messages",
    "/channels/%00/messages",
    "/users/%F0%9F%91%80",
    "//",
    "/channels/1/messages/@original",
]


@pytest.mark.parametrize("path", PATHS)
async def test_odd_addresses_are_refused(bot: RawBot, path: str) -> None:
    """Addresses with odd characters are unknown, not a failure."""
    assert (await bot.call("GET", path)).status in (404, 405)
