"""`pilothouse cron`: the same as in chat, for machines too, beside a gateway that runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from gateway.exits import ExitCode
from gateway.inspection import MIGRATIONS
from gateway.state_folder import database_in
from runtime.store.sqlite import SqliteStore
from runtime.store.writer import Statement

CONFIG = """\
[gateway]
state_dir = "state"
http = ""
timezone = "Europe/Berlin"
[access]
owners = ["telegram:42"]
[[workspaces]]
id = "main"
path = "work"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with a database in which Ann has been heard."""
    (tmp_path / "work").mkdir()
    (tmp_path / "state").mkdir(mode=0o700)
    made = tmp_path / "pilothouse.toml"
    made.touch(mode=0o600)
    made.write_text(CONFIG)
    asyncio.run(_heard(database_in(tmp_path / "state")))
    return made


async def _heard(path: Path) -> None:
    store = await SqliteStore.open(path, components={"gateway": MIGRATIONS})
    sql = (
        "INSERT INTO inbound (platform, account, chat, thread, kind, principal, received_at_ms, state, outcome,"
        " done_at_ms, payload) VALUES ('telegram', 'bot', '42', '', 'message', 'telegram:42', 1, 'done', 'turn', 1, '')"
    )
    await store.database.write([Statement(sql)])
    await store.aclose()


def cron(file: Path, *arguments: str) -> Any:
    """What `pilothouse cron … --json` prints; the exit code must be 0."""
    result = CliRunner().invoke(app, ["cron", *arguments, "--config", str(file), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def fails(file: Path, *arguments: str) -> str:
    """What is printed where it cannot be."""
    result = CliRunner().invoke(app, ["cron", *arguments, "--config", str(file), "--json"])
    assert result.exit_code == ExitCode.CONFIGURATION, result.output
    return json.loads(result.output)["error"]["messages"][0]


def test_a_schedule_from_the_command_line(file: Path) -> None:
    """Made, listed, shown, changed, run by hand, paused and removed; the target is the creator's private chat."""
    made = cron(file, "add", "0 9 * * 1-5", "name=Report", "write", "it")
    assert {key: made[key] for key in ("id", "name", "when", "target", "created_by", "origin", "workspace")} == {
        "id": 1,
        "name": "Report",
        "when": "At 09:00 on Monday through Friday (Europe/Berlin)",
        "target": "telegram:42",
        "created_by": "telegram:42",
        "origin": "cron · Report",
        "workspace": "main",
    }
    assert len(made["next_runs"]) == 3
    assert [one["id"] for one in cron(file, "list")] == [1]
    assert cron(file, "edit", "1", "overlap=allow")["overlap"] == "allow"
    assert cron(file, "show", "1")["prompt"] == "write it"
    assert cron(file, "run", "1")["run"].startswith("cron:1:")
    [run] = cron(file, "history", "1")
    assert (run["state"], run["session"]) == ("waiting", None)
    assert cron(file, "pause", "1")["state"] == "paused"
    assert cron(file, "history", "1")[0]["state"] == "cancelled"
    assert cron(file, "resume", "1")["state"] == "active"
    assert cron(file, "remove", "1") == {"id": 1, "state": "removed"}
    assert cron(file, "list") == []


def test_what_cannot_be_is_said_and_changes_nothing(file: Path) -> None:
    """With exit code 2 and a sentence."""
    assert "no schedule 7" in fails(file, "show", "7")
    assert "say when" in fails(file, "add", "go")
    assert "no chat" in fails(file, "add", "every", "2h", "in", "telegram:-5", "go")
    assert "may not approve" in fails(file, "add", "every", "2h", "go", "--as", "telegram:9")
    assert cron(file, "list") == []
    cron(file, "add", "every", "2h", "go")
    assert "already" in fails(file, "resume", "1")
    assert "changes nothing" in fails(file, "edit", "1", "overlap=skip")


def test_for_people_it_is_a_table(file: Path) -> None:
    """And nothing at all is said so."""
    empty = CliRunner().invoke(app, ["cron", "list", "--config", str(file)])
    assert "There are no schedules." in empty.output
    cron(file, "add", "every", "2h", "name=Look", "go")
    table = CliRunner().invoke(app, ["cron", "list", "--config", str(file)]).output
    assert table.splitlines()[0].split()[:3] == ["ID", "NAME", "WHEN"]
    assert "every 2 hours (Europe/Berlin)" in table
