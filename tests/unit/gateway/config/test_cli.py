"""The command line: what it prints, how it ends, and that it imports little."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from gateway.exits import ExitCode
from gateway.inspection import MIGRATIONS
from gateway.state_folder import LOCK, Owner, claimed, database_in, prepare
from runtime.protocol.approvals import Action, PendingApproval
from runtime.protocol.checkpoint import ActiveExecution, Checkpoint
from runtime.protocol.context import Context, SystemMessage, ToolCall
from runtime.protocol.events import Warning
from runtime.protocol.session import SessionContext
from runtime.store.sqlite import SqliteStore
from tests.architecture.sources import ROOT

TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

Pilothouse = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a closed configuration file that can run, but for the network."""
    (tmp_path / "work").mkdir()
    file = tmp_path / "pilothouse.toml"
    file.touch(mode=0o600)
    file.write_text(
        f'[gateway]\nstate_dir = "state"\nhttp = ""\n[telegram]\ntoken = "{TOKEN}"\napi_base = "http://127.0.0.1:9"\n'
        '[[models]]\nname = "demo"\nprovider = "demo"\n[[workspaces]]\nid = "main"\npath = "work"\n'
    )
    return tmp_path


@pytest.fixture
def pilothouse(tmp_path: Path) -> Pilothouse:
    """Runs the command in an empty environment, in the folder of the configuration."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gateway", *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "dumb", **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def fill(folder: Path) -> None:
    """A database with two sessions, the second of which waits for a person."""
    approval = PendingApproval(
        request_id="req-1",
        turn_id="t1",
        submission_id="s1",
        calls=(ToolCall(call_id="c1", name="shell", arguments={"command": "ls"}),),
        gated=("c1",),
        actions={"c1": Action(tool="shell", schema_hash="h", arguments={})},
        digests={"c1": "d"},
        expires_at_ms=1_796_040_000_000,
    )
    labels = SessionContext(workspace_label="Main\x1b[31m", origin_label="telegram")

    async def write() -> None:
        store = await SqliteStore.open(database_in(folder / "state"), components={"gateway": MIGRATIONS})
        first = replace(Checkpoint.empty("first"), sequence=1, session_context=labels)
        told = replace(first, context=Context([SystemMessage(text=f"the token is {TOKEN}")]))
        await store.save(told, events=[Warning(message=f"sent to /bot{TOKEN}/sendMessage")])
        running = ActiveExecution(submission_id="s1", turn_id="t1", started_at_ms=5)
        waiting = replace(Checkpoint.empty("second"), sequence=1, session_context=labels)
        await store.save(replace(waiting, active_execution=running, pending_approval=approval))
        await store.aclose()

    prepare(folder / "state")
    asyncio.run(write())


def test_help_needs_no_library_of_a_platform_or_model() -> None:
    """The command's own module brings no client library, no provider, no web library and no validation library."""
    script = "import sys, gateway.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "aiogram",
        "slack_bolt",
        "discord",
        "pydantic_ai",
        "openai",
        "aiohttp",
        "pydantic",
        "structlog",
    }
    assert "runtime" not in loaded


@pytest.mark.parametrize(
    "command", ["try", "run", "init", "doctor", "sessions", "approvals", "migrate", "export", "backup"]
)
def test_every_command_explains_itself(command: str) -> None:
    """Each command has its help, and it is named in docs/cli.md."""
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 0
    assert f"Usage: pilothouse {command}" in done.output
    assert f"`pilothouse {command}" in (ROOT / "docs" / "cli.md").read_text()


def test_every_exit_code_is_documented() -> None:
    """docs/cli.md has a row for each code."""
    text = (ROOT / "docs" / "cli.md").read_text()
    assert [code for code in ExitCode if f"\n| {code.value} |" not in text] == []


def test_version() -> None:
    """One line, for bug reports."""
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"pilothouse {version('pilothouse')}\n")


@pytest.mark.parametrize("arguments", [["rnu"], ["run", "--nonsense"], ["export"], ["sessions", "--limit", "0"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    """A mistyped command or option is an error of how it was called."""
    assert CliRunner().invoke(app, arguments).exit_code == ExitCode.CONFIGURATION


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[gateway]\nhtp = 1\n", ExitCode.CONFIGURATION),
        ("[telegram]\ntoken = 12\n", ExitCode.CONFIGURATION),
    ],
)
def test_bad_configuration_starts_nothing(pilothouse: Pilothouse, folder: Path, text: str, code: ExitCode) -> None:
    """Sentences on standard error, a code for scripts, no traceback, and nothing made on disk."""
    (folder / "pilothouse.toml").write_text(text)
    done = pilothouse("run")
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith(f"{folder}/pilothouse.toml:")
    assert "Traceback" not in done.stderr
    assert not (folder / ".pilothouse").exists()


def test_unusable_token_has_its_code(pilothouse: Pilothouse, folder: Path) -> None:
    """A token that cannot be read is told apart from a file that is wrong."""
    file = folder / "pilothouse.toml"
    good = file.read_text()
    file.write_text(good.replace(f'token = "{TOKEN}"', 'token_file = "nowhere"'))
    done = pilothouse("run")
    assert (done.returncode, "no such file or directory" in done.stderr) == (ExitCode.CREDENTIALS, True)


def test_adapter_that_refuses_its_settings(pilothouse: Pilothouse, folder: Path) -> None:
    """What an adapter finds wrong with its section is a sentence too, and no traceback."""
    file = folder / "pilothouse.toml"
    file.write_text(file.read_text().replace(TOKEN, "nonsense-token"))
    done = pilothouse("run")
    assert done.returncode == ExitCode.CONFIGURATION
    assert "telegram.token: must read" in done.stderr
    assert "Traceback" not in done.stderr
    assert "nonsense" not in done.stderr


def test_missing_workspace_has_its_code(pilothouse: Pilothouse, folder: Path) -> None:
    """The folder is not made silently."""
    (folder / "work").rmdir()
    done = pilothouse("run")
    assert done.returncode == ExitCode.WORKSPACE
    assert "which does not exist; correct the path, or create it with `mkdir -p" in done.stderr
    assert not (folder / "work").exists()


def test_second_instance_is_told_who_owns(pilothouse: Pilothouse, folder: Path) -> None:
    """A second gateway on the folder names the first and ends with its own code."""
    prepare(folder / "state")
    with claimed(folder / "state", Owner(pid=4711, since="2026-11-30T12:00:00Z")):
        done = pilothouse("run")
        assert done.returncode == ExitCode.BUSY
        assert (
            "is owned by process 4711 (running since 2026-11-30T12:00:00Z); stop it with `kill 4711`, or set"
            in done.stderr
        )
        assert pilothouse("migrate").returncode == ExitCode.BUSY


def test_planted_link_has_its_code(pilothouse: Pilothouse, folder: Path) -> None:
    """A link in the state folder stops the start."""
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / LOCK).symlink_to(folder / "victim")
    assert pilothouse("run").returncode == ExitCode.DATABASE
    assert not (folder / "victim").exists()


def test_newer_database_has_its_code(pilothouse: Pilothouse, folder: Path) -> None:
    """A database of a newer program is not touched."""
    import sqlite3

    fill(folder)
    with sqlite3.connect(database_in(folder / "state")) as connection:
        connection.execute("UPDATE schema_versions SET version = 99 WHERE component = 'runtime'")
    connection.close()
    for command in ("run", "migrate", "sessions", "approvals"):
        done = pilothouse(command)
        assert done.returncode == ExitCode.DATABASE, done.stderr
        assert "was written by a newer program" in done.stderr
        assert "Traceback" not in done.stderr


def test_damaged_database_is_named(pilothouse: Pilothouse, folder: Path) -> None:
    """Whoever reads that a database is damaged, or cannot be opened, reads which file it is."""
    path = database_in(folder / "state")
    prepare(folder / "state")
    path.touch(mode=0o600)
    path.write_text("no database at all, whatever its name may say\n" * 40)
    for command in ("run", "sessions"):
        done = pilothouse(command)
        assert (done.returncode, "Traceback" in done.stderr) == (ExitCode.DATABASE, False)
        assert f"{path}: the database file is damaged or is no database" in done.stderr
    path.unlink()
    path.mkdir(mode=0o700)
    done = pilothouse("sessions")
    assert done.returncode == ExitCode.DATABASE
    assert done.stderr.startswith(f"{path}: the database file cannot be opened; check that it is a file")


def test_summaries_are_whole(pilothouse: Pilothouse) -> None:
    """The list of commands fits into 80 columns; no summary is cut off."""
    assert "..." not in pilothouse("--help", COLUMNS="80").stdout.partition("Commands:")[2]


def test_sessions(pilothouse: Pilothouse, folder: Path) -> None:
    """Sessions as a table for people and as JSON for programs, while somebody else owns the folder."""
    fill(folder)
    with claimed(folder / "state", Owner(pid=1, since="now")):
        people, machines = pilothouse("sessions"), pilothouse("sessions", "--json")
    assert people.stdout.splitlines()[0].split() == [
        "SESSION", "WORKSPACE", "ORIGIN", "RUNNING", "QUEUED", "UPDATED", "TITLE",
    ]  # fmt: skip
    assert people.stdout.splitlines()[2].split()[:5] == ["second", "Main·[31m", "telegram", "yes", "0"]
    assert [one["session_id"] for one in json.loads(machines.stdout)] == ["first", "second"]


def test_approvals(pilothouse: Pilothouse, folder: Path) -> None:
    """What waits for a person is listed with what it is about and when it expires."""
    fill(folder)
    [found] = json.loads(pilothouse("approvals", "--json").stdout)
    assert (found["request_id"], found["tools"], found["expires_at"]) == (
        "req-1", "shell", "2026-11-30T12:00:00+00:00",
    )  # fmt: skip
    assert "req-1" in pilothouse("approvals").stdout


def test_export_has_everything_but_secrets(pilothouse: Pilothouse, folder: Path) -> None:
    """Labels, conversation and events come as JSON lines, with the token of the configuration replaced in each."""
    fill(folder)
    done = pilothouse("export", "first")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["session", "item", "event"]
    assert lines[1]["text"] == "the token is ***"
    assert lines[2]["message"] == {"message": "sent to /bot***/sendMessage"}
    assert TOKEN not in done.stdout


def test_what_is_not_there(pilothouse: Pilothouse, folder: Path) -> None:
    """A missing database or session is a sentence with a remedy; with --json it is JSON."""
    done = pilothouse("sessions")
    assert done.returncode == ExitCode.CONFIGURATION
    assert done.stderr.startswith("There is no database at ")
    assert json.loads(pilothouse("sessions", "--json").stdout)["error"]["exit_code"] == 2
    fill(folder)
    assert "There is no session 'nobody'" in pilothouse("export", "nobody").stdout


def test_backup_and_migrate(pilothouse: Pilothouse, folder: Path) -> None:
    """A backup is a database of its own; it overwrites nothing, and migrating tells the versions."""
    fill(folder)
    done = pilothouse("backup", "copy.db", "--json")
    assert json.loads(done.stdout) == {"file": "copy.db", "bytes": (folder / "copy.db").stat().st_size}
    again = pilothouse("backup", "copy.db")
    assert (again.returncode, again.stderr) == (2, "copy.db exists already; name another file.\n")
    nowhere = pilothouse("backup", "no/where.db")
    assert (nowhere.returncode, nowhere.stderr) == (1, "no/where.db: no such file or directory.\n")
    assert json.loads(pilothouse("migrate", "--json").stdout).keys() == {"runtime", "gateway"}


def test_configuration_by_variable(pilothouse: Pilothouse, folder: Path) -> None:
    """PILOTHOUSE_CONFIG names the file where --config does not."""
    fill(folder)
    (folder / "pilothouse.toml").rename(folder / "other.toml")
    assert pilothouse("sessions").returncode == ExitCode.CONFIGURATION
    assert pilothouse("sessions", PILOTHOUSE_CONFIG=str(folder / "other.toml")).returncode == 0


def test_doctor_offline(pilothouse: Pilothouse, folder: Path) -> None:
    """Doctor reports ids for scripts and words for people; only errors make it fail."""
    done = pilothouse("doctor", "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert {"ingress.claim", "db.none"} <= {one["id"] for one in json.loads(done.stdout)}
    (folder / "work").rmdir()
    done = pilothouse("doctor", "--offline")
    assert done.returncode == ExitCode.FINDINGS
    assert done.stdout.splitlines()[0].split()[:2] == ["error", "workspace.missing"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_ends_in_good_order(folder: Path, number: signal.Signals) -> None:
    """A gateway whose platform cannot be reached runs on, and ends with 0 when it is told to."""
    shown: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "run"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                shown.append(line)
                if "cannot be reached, trying again in 1 s" in line:
                    process.send_signal(number)
            assert process.wait(30) == 0, shown
        finally:
            process.kill()
    assert "stopped" in shown[-1]
    assert not any("Traceback" in line or TOKEN in line for line in shown)
