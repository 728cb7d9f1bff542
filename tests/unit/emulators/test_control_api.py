"""The control API: verbs over HTTP, the stream of the journal, and who is kept out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.emulators import AddressRefused, ControlRefused, EmulatorClient, EntryKind, ViolationsFound
from adapters.emulators.server import EmulatorServer
from adapters.emulators.telegram import TelegramEmulator
from tests.unit.emulators.conftest import ALICE, GROUP
from tests.unit.emulators.raw_client import RawBot

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def client(emulator: TelegramEmulator) -> AsyncIterator[EmulatorClient]:
    """A client as another process would use it."""
    async with EmulatorClient(emulator.url) as opened:
        yield opened


async def test_verbs_do_what_the_python_face_does(
    emulator: TelegramEmulator, bot: RawBot, client: EmulatorClient
) -> None:
    """A whole conversation driven over HTTP: say, press, answer, edit, react, upload, messages."""
    said = await client.say(ALICE, "hello")
    markup = {"inline_keyboard": [[{"text": "Go", "callback_data": "go"}]]}
    sent = await bot.result("sendMessage", chat_id=ALICE, text="x", reply_markup=markup)
    pressed = await client.press(ALICE, sent["message_id"], button="Go")
    await bot.result("answerCallbackQuery", callback_query_id=pressed["id"], text="ok")
    assert (await client.call("answer", callback=pressed["id"]))["text"] == "ok"
    await client.edit(ALICE, said["message_id"], "hello again")
    await client.react(ALICE, sent["message_id"], "👍")
    await client.command(ALICE, "status", "now", chat=GROUP)
    uploaded = await client.upload(ALICE, b"\x00\xff", file_name="b.bin")
    assert uploaded["document"]["file_size"] == 2
    assert [one.get("text") for one in await client.messages(ALICE)] == ["hello again", "x", None]
    kinds = [next(k for k in update if k != "update_id") for update in await bot.updates()]
    assert kinds == ["message", "callback_query", "edited_message", "message", "message"]


async def test_faults_clock_and_reset_over_http(
    emulator: TelegramEmulator, bot: RawBot, client: EmulatorClient
) -> None:
    """Faults, time, snapshot and reset can be reached from another process."""
    await client.fault("sendMessage", "rate_limit", retry_after=9)
    assert (await bot.call("sendMessage", chat_id=ALICE, text="x"))["parameters"] == {"retry_after": 9}
    before = (await client.snapshot())["now"]
    await client.advance(100)
    assert (await client.snapshot())["now"] == before + 100
    await client.say(ALICE, "a")
    await client.reset()
    assert await client.messages(ALICE) == []


async def test_journal_can_be_followed(emulator: TelegramEmulator, bot: RawBot, client: EmulatorClient) -> None:
    """A follower sees entries as they come, and none twice."""
    start = emulator.journal.last

    def sent(entry: Any) -> bool:
        return entry.kind is EntryKind.SCREEN and entry.name == "message"

    following = asyncio.create_task(client.wait_for(sent, after=start))
    await asyncio.sleep(0)
    await bot.result("sendMessage", chat_id=ALICE, text="seen")
    entry = await following
    assert entry.data["message"]["text"] == "seen"
    assert [one.number for one in await client.journal(after=entry.number)] == [entry.number + 1]
    with pytest.raises(TimeoutError):
        await client.wait_for(sent, after=emulator.journal.last, timeout=0.05)


async def test_journal_as_server_sent_events(emulator: TelegramEmulator, session: aiohttp.ClientSession) -> None:
    """A page gets the journal as a stream of server-sent events with numbers as ids."""
    await emulator.say(ALICE, "a")
    headers = {"Accept": "text/event-stream"}
    async with session.get(f"{emulator.control_url}/events", headers=headers) as response:
        assert response.content_type == "text/event-stream"
        first = (await response.content.readuntil(b"\n\n")).decode().splitlines()
        assert first[:2] == ["id: 1", "event: screen"]
        assert json.loads(first[2].removeprefix("data: "))["data"]["message"]["text"] == "a"


async def test_violations_reach_the_client(bot: RawBot, client: EmulatorClient) -> None:
    """A test in another process can fail for broken rules."""
    await client.assert_clean()
    await bot.call("sendMessage", chat_id=ALICE, text="x", silent=True)
    with pytest.raises(ViolationsFound, match="unknown_parameter"):
        await client.assert_clean()


@pytest.mark.parametrize(
    ("verb", "arguments", "status", "reason"),
    [
        ("dance", {}, 404, "no verb 'dance'"),
        ("say", {"user": ALICE}, 400, "text: Missing required argument"),
        ("say", {"user": "Alice", "text": "x"}, 400, "user: Input should be a valid integer"),
        ("say", {"user": ALICE, "text": "x", "loud": True}, 400, "loud: Unexpected keyword argument"),
        ("say", {"user": 12345, "text": "x"}, 409, "no user 12345; there are"),
        ("fault", {"target": "*", "kind": "delay"}, 409, "needs seconds > 0"),
    ],
)
async def test_mistakes_are_explained(
    emulator: TelegramEmulator,
    session: aiohttp.ClientSession,
    verb: str,
    arguments: dict[str, Any],
    status: int,
    reason: str,
) -> None:
    """A wrong verb or argument is refused with its name and what was expected."""
    async with session.post(f"{emulator.control_url}/{verb}", json=arguments) as response:
        body = await response.json()
        assert (response.status, body["ok"]) == (status, False)
        assert reason in body["error"]


async def test_refusal_is_an_exception_of_the_client(client: EmulatorClient) -> None:
    """The client raises what the control API refused, with its words."""
    with pytest.raises(ControlRefused, match="no user 12345"):
        await client.say(12345, "x")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["verbs", "journal", "events", "reset"])
async def test_foreign_pages_are_kept_out(
    emulator: TelegramEmulator, session: aiohttp.ClientSession, headers: dict[str, str], path: str
) -> None:
    """A page of another site, also by rebinding its name to this machine, cannot read or drive the emulator."""
    await emulator.say(ALICE, "stays")
    port = emulator.url.rpartition(":")[2]
    sent = {name: value.format(port=port) for name, value in headers.items()}
    method = session.post if path == "reset" else session.get
    arguments = {"json": {}} if path == "reset" else {}
    async with method(f"{emulator.control_url}/{path}", headers=sent, **arguments) as response:
        assert response.status == 403
        assert "foreign" in (await response.json())["error"]
    assert len(emulator.messages(ALICE)) == 1


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_own_names_and_own_pages_are_let_in(
    emulator: TelegramEmulator, session: aiohttp.ClientSession, name: str
) -> None:
    """This machine's names, and pages that the emulator serves itself, may drive it."""
    own = f"{name}:{emulator.url.rpartition(':')[2]}"
    headers = {"Host": own, "Origin": f"http://{own}"}
    async with session.post(f"{emulator.control_url}/reset", json={}, headers=headers) as response:
        assert (response.status, await response.json()) == (200, {"ok": True, "result": None})


async def test_plain_forms_cannot_drive_it(emulator: TelegramEmulator, session: aiohttp.ClientSession) -> None:
    """A body that a web form could send without asking first is refused."""
    async with session.post(f"{emulator.control_url}/reset", data="{}") as response:
        assert response.status == 415


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com", ""])
async def test_listens_on_loopback_only(host: str) -> None:
    """Any other address is refused before anything is opened."""
    with pytest.raises(AddressRefused, match="not a loopback address"):
        await EmulatorServer().start(host=host)


async def test_failures_of_the_emulator_itself_are_not_hidden(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An internal error answers 500 like a platform would, and is raised when the emulator stops."""
    broken = TelegramEmulator()
    broken.add_bot("42:TEST")
    broken._platform.world.find_chat = None  # type: ignore[assignment]
    await broken.start()
    async with bot.session.post(f"{broken.url}/bot42:TEST/sendMessage", json={"chat_id": 7, "text": "x"}) as response:
        assert response.status == 500
    with pytest.raises(BaseExceptionGroup, match="the emulator itself failed"):
        await broken.stop()


async def test_emulator_runs_as_its_own_process() -> None:
    """The module starts, prints where it listens, is driven over HTTP, and ends when its standard input does."""
    arguments = ["--platform", "telegram", "--token", "42:T", "--user", "7:Alice", "--group=-100123:Team"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters.emulators", *arguments, "--until-stdin-closes"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    assert (ready["platform"], ready["pid"]) == ("telegram", process.pid)
    assert ready["control"] == f"{ready['url']}/_emulator"
    async with EmulatorClient(ready["url"]) as client, aiohttp.ClientSession() as session:
        await client.say(7, "hi")
        await client.say(7, "/hi", chat=-100123)
        assert len(await RawBot(ready["url"], "42:T", session).updates()) == 2
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) == 0
