"""Doctor: each thing that is wrong has its finding, under an id that never changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, load
from gateway.doctor import claimed_owners, examine, examine_database, read_configuration, verdict
from gateway.examination import skew
from gateway.exits import ExitCode
from gateway.finding import Level, error, note, warning
from gateway.inspection import MIGRATIONS
from gateway.ledger import people
from gateway.state_folder import Owner, claimed, database_in, prepare
from runtime.store.sqlite import SqliteStore

TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

WELL: dict[str, Any] = {
    "telegram": {"token": TOKEN},
    "access": {"owners": ["telegram:42"]},
    "models": [{"name": "demo", "provider": "demo"}],
    "workspaces": [{"id": "main", "path": "/srv/main"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed state folder."""
    path = tmp_path / "state"
    prepare(path)
    return path


def config(folder: Path, **sections: Any) -> Config:
    """A configuration in which everything is well, but for the given sections."""
    return Config.model_validate(WELL | {"gateway": {"state_dir": str(folder)}} | sections)


def ids(found: Any) -> list[str]:
    """The ids alone."""
    return [one.id for one in found]


def test_nothing_is_found_where_all_is_well(folder: Path) -> None:
    """A sound configuration on a machine with room has no finding at all."""
    assert examine(config(folder)) == ()


FINDINGS: list[tuple[str, dict[str, Any]]] = [
    ("ingress.open", {"access": {"owners": ["telegram:42"], "dangerously_open": True}}),
    ("ingress.claim", {"access": {"users": ["telegram:42"]}}),
    ("approvals.nobody", {"access": {"owners": ["discord:42"]}}),
    ("policy.allow", {"approvals": {"default": "allow"}}),
    ("policy.allow", {"bindings": [{"platform": "telegram", "approvals": {"default": "allow"}}]}),
    ("policy.shell", {"approvals": {"tools": {"shell": "allow"}}}),
    ("policy.shell", {"bindings": [{"approvals": {"tools": {"shell": "allow"}}}]}),
    ("sandbox.network", {"bindings": [{"network": "host"}]}),
    ("binding.platform", {"bindings": [{"platform": "slack"}]}),
    ("secret.in_clear", {"telegram": {"token": TOKEN, "api_base": "http://bots.example.org"}}),
    (
        "secret.in_clear",
        {
            "models": [
                {"name": "a", "provider": "openai", "model": "m", "base_url": "http://10.0.0.1", "api_key": "sk-123456"}
            ]
        },
    ),
    ("workspace.nested", {"workspaces": [{"id": "a", "path": "/srv/a"}, {"id": "b", "path": "/srv/a/b"}]}),
    ("workspace.nested", {"workspaces": [{"id": "a", "path": "/srv/a"}, {"id": "b", "path": "/srv/a"}]}),
]


@pytest.mark.parametrize(("name", "sections"), FINDINGS)
def test_each_risk_has_its_finding(folder: Path, name: str, sections: dict[str, Any]) -> None:
    """One risky setting gives its finding and no other one; none of them keeps the gateway from working."""
    found = examine(config(folder, **sections))
    assert set(ids(found)) == {name}
    assert all(one.level is not Level.ERROR and one.message.endswith((".", ").")) for one in found)


def test_loopback_in_clear_is_no_risk(folder: Path) -> None:
    """Unencrypted is fine as long as it stays on this machine."""
    assert examine(config(folder, telegram={"token": TOKEN, "api_base": "http://127.0.0.1:8081"})) == ()


def test_unknown_tools_are_named(folder: Path) -> None:
    """A tool's name that no tool has is found wherever it stands."""
    sections = {
        "agents": [{"name": "a", "tools": ["read_file", "reed_file"]}],
        "approvals": {"tools": {"shel": "deny"}},
        "bindings": [{"approvals": {"tools": {"wirte_file": "ask"}}}],
    }
    found = examine(config(folder, **sections), tools=["read_file"])
    assert [one.message.split("'")[1] for one in found] == ["shel", "reed_file", "wirte_file"]
    assert set(ids(found)) == {"tool.unknown"}


def test_modes_and_owners_of_files(folder: Path, tmp_path: Path) -> None:
    """Files of secrets and state that others can open are named with the command that closes them."""
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o644)
    folder.chmod(0o750)
    found = examine(config(folder, telegram={"token": TOKEN, "token_file": str(secret)}))
    assert [(one.id, one.remedy) for one in found] == [
        ("secret.perms", f"run `chmod go= {secret}`"),
        ("state.perms", f"run `chmod go= {folder}`"),
    ]


def test_link_in_place_of_the_state_folder(folder: Path, tmp_path: Path) -> None:
    """A link is an error, since the gateway will not start on it."""
    (tmp_path / "link").symlink_to(folder)
    [found] = examine(config(tmp_path / "link"))
    assert (found.id, found.level) == ("state.link", Level.ERROR)


async def test_file_in_place_of_the_state_folder(tmp_path: Path) -> None:
    """A file where the folder, or a folder above it, would be is an error: the gateway ends at once on it."""
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "state"):
        [found] = examine(config(folder))
        assert (found.id, found.level) == ("state.blocked", Level.ERROR)
        assert await examine_database(config(folder), {"runtime": 1}) == ()
        assert await claimed_owners(config(folder)) == frozenset()


async def test_owner_by_code_is_an_owner(folder: Path) -> None:
    """Who claimed the gateway by code may approve, so that nothing is missing; configured owners count before them."""
    unowned = config(folder, access={"users": ["telegram:7"]})
    assert await claimed_owners(unowned) == frozenset()
    store = await SqliteStore.open(database_in(folder), components={"gateway": MIGRATIONS})
    await store.database.write([people.claim("telegram:42", "Ann", 1)])
    await store.aclose()
    claimed_by = await claimed_owners(unowned)
    assert claimed_by == {"telegram:42"}
    assert ids(examine(unowned, claimed=claimed_by)) == []
    elsewhere = config(folder, access={"owners": ["discord:3"]})
    assert ids(examine(elsewhere, claimed=claimed_by)) == ["approvals.nobody"]


def test_running_gateway_is_named(folder: Path) -> None:
    """Doctor beside a running gateway says which process it is, and that is no error."""
    with claimed(folder, Owner(pid=4711, since="noon")):
        assert examine(config(folder)) == (note("state.owner", "The gateway runs as process 4711 since noon."),)


@pytest.mark.parametrize(("free", "level"), [(50 << 20, Level.ERROR), (500 << 20, Level.WARNING), (2 << 30, None)])
def test_disk_that_is_nearly_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: Level | None
) -> None:
    """Little space is a warning and none is an error, also before the state folder exists."""
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr("gateway.doctor.shutil.disk_usage", lambda path: usage._replace(free=free))
    assert [one.level for one in examine(config(folder / "not" / "yet"))] == ([level] if level else [])


async def test_database_is_looked_at(folder: Path) -> None:
    """No database is a note, a sound one is nothing, an open one is a warning."""
    path = database_in(folder)
    assert ids(await examine_database(config(folder), {"runtime": 99})) == ["db.none"]
    await (await SqliteStore.open(path)).aclose()
    assert ids(await examine_database(config(folder), {"runtime": 1})) == []
    path.chmod(0o644)
    assert ids(await examine_database(config(folder), {"runtime": 1})) == ["db.perms"]


async def test_versions_of_the_database(folder: Path) -> None:
    """A database of a newer program is an error, an older one will be brought forward."""
    path = database_in(folder)
    await (await SqliteStore.open(path)).aclose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_versions SET version = 7")
    connection.close()
    [newer] = await examine_database(config(folder), {"runtime": 6})
    assert (newer.id, newer.level) == ("db.newer", Level.ERROR)
    assert ids(await examine_database(config(folder), {"runtime": 8})) == ["db.older"]


async def test_file_that_is_no_database(folder: Path) -> None:
    """A damaged file is an error with the way out, and not a traceback."""
    database_in(folder).write_bytes(b"not a database, whatever its name says " * 50)
    database_in(folder).chmod(0o600)
    [found] = await examine_database(config(folder), {"runtime": 1})
    assert (found.id, found.level) == ("db.unreadable", Level.ERROR)


def test_problems_of_the_configuration_become_findings(tmp_path: Path) -> None:
    """Doctor tells a broken file, missing credentials and missing folders apart, each with its remedy."""
    file = tmp_path / "pilothouse.toml"
    file.touch(mode=0o600)
    file.write_text('[gateway]\nhtp = 1\n[telegram]\ntoken_file = "nowhere"\n')
    read, found = read_configuration(file, {})
    assert read is None
    assert sorted(ids(found)) == ["cfg.credentials", "cfg.invalid"]
    assert all(one.remedy for one in found)
    file.write_text(
        f'[telegram]\ntoken = "{TOKEN}"\n[[workspaces]]\nid = "w"\npath = "w"\n'
        '[[models]]\nname = "d"\nprovider = "demo"\n'
    )
    read, found = read_configuration(file, {"PILOTHOUSE_NONSENSE": "1"})
    assert read is not None
    assert read.model_dump() == load(file, {}).model_dump()
    assert ids(found) == ["workspace.missing", "cfg.environment"]


def test_verdict() -> None:
    """Only an error makes doctor fail."""
    assert verdict([]) is ExitCode.OK
    assert verdict([warning("a", "x"), note("b", "y")]) is ExitCode.OK
    assert verdict([warning("a", "x"), error("b", "y")]) is ExitCode.FINDINGS


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0, None), (29, None), (31, Level.WARNING), (-31, Level.WARNING), (241, Level.ERROR), (-3600, Level.ERROR)],
)
def test_clock_is_compared(seconds: int, level: Level | None) -> None:
    """A clock that is away from the platform's is found, in both directions, before signatures begin to fail."""
    found = skew("telegram", 1_796_040_000 + seconds, "Mon, 30 Nov 2026 12:00:00 GMT")
    assert [one.level for one in found] == ([level] if level else [])
    if found:
        assert ("ahead of" if seconds > 0 else "behind") in found[0].message


@pytest.mark.parametrize("date", [None, "", "yesterday", "Mon, 99 Nov 2026 12:00:00 GMT"])
def test_clock_cannot_be_compared(date: str | None) -> None:
    """A server without a usable date says nothing about our clock."""
    assert skew("telegram", 0, date) == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_foreign_owner(folder: Path, tmp_path: Path) -> None:
    """A secret's file that another ordinary user owns is named."""
    secret = tmp_path / "token"
    secret.touch(mode=0o600)
    os.chown(secret, 4711, -1)
    found = examine(config(folder, telegram={"token": TOKEN, "token_file": str(secret)}))
    assert [(one.id, one.message) for one in found] == [("secret.perms", f"{secret} belongs to uid 4711.")]
