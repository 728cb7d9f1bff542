"""S-50: secrets reach their own platform and nothing else, whatever goes wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from adapters.emulators.journal import EntryKind
from gateway.config import ConfigurationInvalid, load
from tests.support.model_server import ModelServer, calls, failure, text
from tests.support.world import CONFIG, ROOT, TOKEN, World, content

KEY = "sk-canary/4711+key=0815"

LOUD = CONFIG.replace('log_format = "json"', 'log_format = "json"\nlog_level = "debug"').replace(
    'name = "demo"\nprovider = "demo"',
    'name = "main"\nprovider = "openai"\nmodel = "m"\nbase_url = "{{model}}"\napi_key = "' + KEY + '"',
)


def forms_of(secret: str) -> list[bytes]:
    """The spellings that must not occur anywhere: plain, half, URL-encoded, and in base64 wherever it begins."""
    plain = [secret, secret.rpartition(":")[2], quote(secret, safe=""), json.dumps(secret)[1:-1]]
    inside: list[str] = []
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + secret.encode() + b"\0\0").decode()
        inside += [whole[4:-6], whole[4:-6].replace("+", "-").replace("/", "_")]
    return [form.encode() for form in {*plain, *inside}]


CANARIES = {"the token": forms_of(TOKEN), "the key": forms_of(KEY)}


def hits(content: bytes) -> list[str]:
    """Which secrets are in it."""
    return [name for name, forms in CANARIES.items() if any(form in content for form in forms)]


def test_the_search_finds_every_form() -> None:
    """The search itself would see a secret that is plain, encoded, or inside a longer base64 text."""
    for shown in (KEY, quote(KEY, safe=""), f"x{KEY}y", base64.b64encode(f"me:{KEY}!!".encode()).decode()):
        assert hits(f"log {shown} log".encode()) == ["the key"]
    assert hits(b"nothing to see") == []


def columns(database: Path) -> Iterator[tuple[str, bytes]]:
    """Every value of every table."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    yield table, value if isinstance(value, bytes) else str(value).encode()


def command(folder: Path, *arguments: str) -> bytes:
    """What a command prints, on both streams."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=90,
    )
    return done.stdout + done.stderr


async def misfortunes(world: World, model: ModelServer) -> None:
    """Everything that makes libraries talk: refused keys, broken connections, errors of each kind, secrets in files."""
    await world.say("are you there?")
    await world.find("model")  # the model refused us, and the person is told
    for number, (method, kind) in enumerate(
        [
            ("sendMessage", "server_error"),
            ("sendMessage", "drop"),
            ("getUpdates", "server_error"),
            ("getUpdates", "drop"),
        ]
    ):
        await world.platform.fault(method, kind)
        await world.say(f"hello {number}")
        await world.find(f"answer to hello {number}")
    await world.platform.fault("sendMessage", "refuse", status=400, description=f"Bad Request: bot{TOKEN} is odd")
    await world.say("hello 4")
    await world.say("read it")
    await world.find("it says:")


@pytest.fixture
async def model() -> Any:
    """A model that refuses the key first, quoting it, and later reads a file in which the key stands."""
    refused = failure(401, f"Incorrect API key provided: {KEY}. You can find your key at https://x/?key={quote(KEY)}")
    rules = [
        {"contains": "are you there", "reply": refused},
        {"contains": "hello", "role": "user", "reply": text("answer to {last}")},
        {"contains": "read it", "role": "user", "reply": calls(("read_file", {"path": "leak.txt"}))},
        {"role": "tool", "reply": text("it says: {last}")},
    ]
    async with ModelServer(rules=rules) as server:
        yield server


async def test_no_secret_reaches_any_sink(tmp_path: Path, model: ModelServer) -> None:
    """Token and key are found in no log, column, page of the database, file, message, model request or output."""
    template = LOUD.replace("{{model}}", model.base_url)
    async with World(tmp_path, template) as world:
        (world.workspace / "leak.txt").write_text(
            f"key {KEY}\nurl {quote(KEY, safe='')}\ncoded {base64.b64encode(f'user:{KEY}'.encode()).decode()}\n"
        )
        await world.start()
        await misfortunes(world, model)
        await world.quiet()
        sessions = [row[0] for row in world.rows("SELECT session_id FROM sessions")]
        raw = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
        printed = {
            "sessions": await asyncio.to_thread(command, tmp_path, "sessions", "--json"),
            "doctor": await asyncio.to_thread(command, tmp_path, "doctor"),
            "export": await asyncio.to_thread(command, tmp_path, "export", sessions[0]),
        }
        assert await world.terminate() == 0
        shown = [content(message) for message in await world.seen()]
        outbound = [entry for entry in await world.platform.journal() if entry.kind is EntryKind.REQUEST]

    assert any("answer to hello 3" in one for one in shown)
    assert any(all(line in one for line in ("key ***\n", "url ***\n", "coded dXNlcj***")) for one in shown), shown
    found = {f"message {number}": hits(one.encode()) for number, one in enumerate(shown)}
    found |= {f"request {one.number} {one.name}": hits(json.dumps(dict(one.data)).encode()) for one in outbound}
    found |= {f"model request {number}": hits(json.dumps(one).encode()) for number, one in enumerate(model.requests)}
    found |= {f"file {name}": hits(value) for name, value in raw.items()}
    found |= {f"output of {name}": hits(value) for name, value in printed.items()}
    found |= {"log": hits(world.log().encode())}
    for table, value in columns(tmp_path / "state" / "pilothouse.db"):
        found.setdefault(f"table {table}", []).extend(hits(value))
    for path in (tmp_path / "workspace").iterdir():
        if path.name != "leak.txt":
            found[f"workspace {path.name}"] = hits(path.read_bytes())
    assert {where: what for where, what in found.items() if what} == {}
    assert model.headers[-1]["authorization"] == f"Bearer {KEY}"  # where it belongs, it arrived
    assert '"level": "debug"' in world.log()


SLOTS = [
    ("[telegram]\ntoken = {}", "telegram.token"),
    ("[slack]\nbot_token = {}", "slack.bot_token"),
    ("[slack]\napp_token = {}", "slack.app_token"),
    ("[slack]\nsigning_secret = {}", "slack.signing_secret"),
    ("[discord]\ntoken = {}", "discord.token"),
    ('[[models]]\nname = "a"\nprovider = "openai"\nmodel = "m"\napi_key = {}', "models[0].api_key"),
    ("[adapters.matrix]\npassword = {}", "adapters.matrix.password"),
]


@pytest.mark.parametrize(("text", "slot"), SLOTS, ids=[slot for _, slot in SLOTS])
@pytest.mark.parametrize("value", [f'"{KEY}"', f'["{KEY}"]', f'"{KEY} with blanks"', f'"{KEY}" # {KEY}', f'"{KEY}'])
def test_no_error_of_the_configuration_quotes_a_secret(tmp_path: Path, text: str, slot: str, value: str) -> None:
    """Whatever is wrong around a secret, neither the errors nor the loaded configuration show it."""
    file = tmp_path / "pilothouse.toml"
    file.touch(mode=0o600)
    file.write_text("unknown_key = 1\n" + text.replace("{}", value) + "\n")
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, {})
    assert (
        hits(str(caught.value).encode() + json.dumps([one.as_json() for one in caught.value.problems]).encode()) == []
    )
    file.write_text(text.replace("{}", f'"{KEY}"'))
    with contextlib.suppress(ConfigurationInvalid):
        config = load(file, {})
        assert hits(f"{config!r}{config}{config.model_dump()}{config.model_dump_json()}".encode()) == []
