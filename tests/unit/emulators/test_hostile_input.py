"""Whatever a client sends, it gets an answer of the platform and the emulator stays whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.emulators import ManualClock
from adapters.emulators.faults import FaultQueue
from adapters.emulators.journal import Journal
from adapters.emulators.telegram import Knobs, TelegramEmulator
from adapters.emulators.telegram.call import Arguments, Call
from adapters.emulators.telegram.errors import ApiError
from adapters.emulators.telegram.methods import HANDLERS
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.schema import bot_api
from adapters.emulators.telegram.world import Chat, ChatType, Member, MemberStatus, User
from tests.unit.emulators.conftest import ALICE
from tests.unit.emulators.raw_client import RawBot

SCRAPS = st.sampled_from(
    [
        "",
        "0",
        "1",
        "-1",
        "7",
        "-100",
        "-1001",
        "@x",
        "x",
        "true",
        "{}",
        "[]",
        "null",
        "<b>",
        "*",
        "attach://x",
        "999999999999999999999999",
    ]
)
ANYTHING = SCRAPS | st.integers(-2, 9) | st.booleans() | st.none() | st.just({}) | st.just([])


def some_of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """An object that has any of these members, and perhaps one that nobody knows."""
    return st.fixed_dictionaries({}, optional={name: ANYTHING for name in (*names, "unheard_of")})


BUTTON = st.fixed_dictionaries(
    {"text": st.just("a") | ANYTHING},
    optional={
        "callback_data": st.just("b") | ANYTHING,
        "url": ANYTHING,
        "style": ANYTHING,
        "copy_text": some_of("text"),
    },
)
ENTITY = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["bold", "pre", "text_link", "text_mention", "custom_emoji", "date_time", "url", ""]),
        "offset": st.integers(-1, 5) | ANYTHING,
        "length": st.integers(-1, 5) | ANYTHING,
    },
    optional={
        "url": st.just("a.example") | ANYTHING,
        "user": some_of("id"),
        "unix_time": ANYTHING,
        "language": ANYTHING,
    },
)
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "reply_markup": st.fixed_dictionaries(
        {}, optional={"inline_keyboard": st.lists(st.lists(BUTTON, max_size=2), max_size=2)}
    )
    | some_of("keyboard", "force_reply", "remove_keyboard", "inline_keyboard"),
    "entities": st.lists(ENTITY, max_size=3),
    "caption_entities": st.lists(ENTITY, max_size=3),
    "link_preview_options": some_of("is_disabled", "url"),
    "reply_parameters": some_of("message_id", "chat_id", "quote", "quote_position", "allow_sending_without_reply"),
    "reaction": st.lists(some_of("type", "emoji"), max_size=2),
    "commands": st.lists(some_of("command", "description") | st.just({"command": "a", "description": "b"}), max_size=2),
    "scope": some_of("type", "chat_id") | st.just({"type": "chat", "chat_id": 7}),
    "media": st.lists(some_of("type", "media", "caption"), max_size=3),
    "message_ids": st.lists(ANYTHING, max_size=3),
    "allowed_updates": st.lists(ANYTHING, max_size=3),
}


def values_for(parameter: str) -> st.SearchStrategy[str]:
    """Text for a parameter: what fits it about, or anything."""
    fitting = FITTING.get(parameter)
    anything = SCRAPS | ANYTHING.map(json.dumps)
    return anything if fitting is None else fitting.map(json.dumps) | anything


def platform() -> Platform:
    """A small world without sockets."""
    clock = ManualClock()
    knobs = Knobs(repeated_poll_hold=0.0)
    made = Platform(
        clock=clock,
        journal=Journal(now=clock.now),
        faults=FaultQueue(),
        knobs=knobs,
        spawn=lambda work: asyncio.get_running_loop().create_task(work),
    )
    made.add_bot("42:T", User(id=42, first_name="Bot", is_bot=True), topics=True)
    made.world.users[7] = User(id=7, first_name="Alice")
    made.world.open_private(42, 7)
    group = Chat(id=-100, type=ChatType.SUPERGROUP, title="x", is_forum=True)
    group.members[42] = Member(status=MemberStatus.CREATOR)
    made.world.groups[-100] = group
    return made


async def run(method: str, values: dict[str, str]) -> Any:
    """The result of a call, or the ApiError."""
    world = platform()
    if method == "getupdates":
        values["timeout"] = "0"
    call = Call(bot=world.bot(None), method=method, arguments=Arguments(values=values), number=1)
    try:
        await HANDLERS["sendmessage"](
            world, Call(bot=call.bot, method="", arguments=Arguments(values={"chat_id": "7", "text": "x"}), number=1)
        )
        return await HANDLERS[method](world, call)
    except ApiError as error:
        return error


@settings(max_examples=300)
@given(st.data())
def test_methods_answer_or_refuse(data: st.DataObject) -> None:
    """Any parameters for any method: a result of the published shape or an error of the platform, never a crash."""
    name = data.draw(st.sampled_from(sorted(HANDLERS)))
    method = bot_api().method(name)
    assert method is not None
    fields = data.draw(st.lists(st.sampled_from([*sorted(method.fields), "chat_id", "text"]), max_size=6))
    values = {"chat_id": data.draw(st.sampled_from(["7", "-100"])), "text": "a😀b"}
    values |= {field: data.draw(values_for(field)) for field in fields}
    result = asyncio.run(run(name, values))
    if isinstance(result, ApiError):
        assert 400 <= result.status < 500
    else:
        assert bot_api().check(method.returns, result, name) == []


async def test_unreadable_requests_are_refused_and_recorded(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Bodies that are no JSON, no object or no UTF-8 get a 400 and are violations."""
    headers = {"Content-Type": "application/json"}
    for body in (b"{", b"[]", b"\xff\xfe", b'{"chat_id":7,"text":"\\ud800"}'):
        async with bot.session.post(f"{bot.base}/sendMessage", data=body, headers=headers) as response:
            assert response.status == 400
            assert (await response.json())["description"].startswith("Bad Request: ")
    assert [entry.name for entry in emulator.violations] == ["unreadable_request"] * 4


async def test_client_that_dies_while_sending_is_no_failure(emulator: TelegramEmulator) -> None:
    """Half a request and a reset connection leave nothing behind, and the emulator stops cleanly."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(emulator.url.rpartition(":")[2]))
    writer.write(b"POST /bot42:TEST/sendMessage HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: 100\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()
    await emulator.say(ALICE, "still here")
    assert len(emulator.messages(ALICE)) == 1
