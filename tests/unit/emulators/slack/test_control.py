"""The control API of the Slack emulator, in this process and in one of its own."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from pathlib import Path

import aiohttp
import pytest

from adapters.emulators import EmulatorClient, EntryKind
from adapters.emulators.__main__ import parse
from adapters.emulators.slack import SlackEmulator
from adapters.emulators.slack.emulator import VERBS
from adapters.emulators.slack.people import People
from tests.unit.emulators.slack.raw_app import ALICE, BOB, TEAM, RawApp, buttons

ROOT = Path(__file__).resolve().parents[4]


def test_every_deed_is_a_verb() -> None:
    """Whatever people can do from Python they can do over HTTP."""
    deeds = {name for name, _ in inspect.getmembers(People, inspect.isfunction) if not name.startswith("_")}
    assert deeds <= set(VERBS)


async def test_client_drives_it(emulator: SlackEmulator, app: RawApp) -> None:
    """Say, react, press, edit, upload and read over HTTP, with the ids of Slack."""
    ts = await app.post(text="choose", blocks=[buttons("yes")])
    async with EmulatorClient(emulator.url) as client:
        said = await client.say(ALICE, "hi", chat=TEAM, thread=ts)
        assert said["thread_ts"] == ts
        await client.react(BOB, ts, "eyes", "tada", chat=TEAM)
        press = await client.press(BOB, ts, data="yes", chat=TEAM)
        assert (await client.call("answer", asked=press["id"]))["state"] == "pending"
        await client.edit(ALICE, said["ts"], "ho", chat=TEAM)
        await client.upload(ALICE, b"abc", file_name="a.txt", chat=TEAM, thread=ts)
        shown = await client.messages(TEAM, ts)
        assert [one["text"] for one in shown] == ["choose", "ho", ""]
        await client.command(ALICE, "go", "now", chat=TEAM)
        await client.fault("chat.postMessage", "rate_limit", retry_after=3)
        assert await app.error("chat.postMessage", channel=TEAM, text="x") == "ratelimited"
        await client.advance(3)
        assert await client.disconnect(how="close") == 0
        entry = await client.wait_for(lambda one: one.kind is EntryKind.FAULT)
        assert entry.data["method"] == "chat.postMessage"
        assert (await client.snapshot())["app"]["bot_user"] == emulator.app.bot_user
        await client.assert_clean()
        await client.reset()
        assert await client.messages(TEAM) == []


async def test_emulator_runs_as_its_own_process() -> None:
    """The module starts a workspace, prints where it listens, and takes the tokens of the command line."""
    arguments = [
        *("--platform", "slack", "--token", "xoxb-t", "--app-token", "xapp-t", "--patience", "60"),
        *("--user", "U1:Alice", "--group", "C1:general", "--group", "G1:secret"),
    ]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters.emulators", *arguments, "--until-stdin-closes"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    assert (ready["platform"], ready["api_base"]) == ("slack", f"{ready['url']}/api/")
    async with EmulatorClient(ready["url"]) as client, aiohttp.ClientSession() as session:
        await client.say("U1", "hi", chat="general")
        headers = {"Authorization": "Bearer xoxb-t"}
        url = f"{ready['api_base']}conversations.history?channel=C1"
        async with session.get(url, headers=headers) as response:
            assert [one["text"] for one in (await response.json())["messages"]] == ["hi"]
        snapshot = await client.snapshot()
        assert [one["chat"]["is_private"] for one in snapshot["chats"]] == [False, True]
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 30) == 0


def test_wrong_ids_are_told_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Telegram's ids are numbers; the command line says so."""
    with pytest.raises(SystemExit):
        parse(["--platform", "telegram", "--user", "U1:Alice"])
    assert "'U1:Alice' does not read <id>:<name>" in capsys.readouterr().err
