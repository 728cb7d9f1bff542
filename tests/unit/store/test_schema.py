"""Migrations: numbered, forward only, and never half applied."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from runtime.errors import CheckpointError, SchemaTooNew
from runtime.store import schema
from runtime.store.schema import read_migrations, split
from runtime.store.sqlite import SqliteStore

FIRST = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;\n"
SECOND = """
-- A comment; with a semicolon.
ALTER TABLE notes ADD COLUMN author TEXT;
CREATE TRIGGER no_empty_notes BEFORE INSERT ON notes WHEN NEW.text = ''
BEGIN
    SELECT RAISE(ABORT, 'empty; refused');
END;
"""


def folder_of(path: Path, *scripts: str) -> Path:
    """A folder of numbered migrations."""
    path.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, start=1):
        (path / f"{number:04}_step.sql").write_text(script)
    return path


def schema_of(path: Path) -> list[tuple[str, str]]:
    """Names and definitions of everything in a database."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name").fetchall()
    connection.close()
    return rows


def versions_of(path: Path) -> dict[str, int]:
    """The stored versions."""
    with sqlite3.connect(path) as connection:
        rows = dict(connection.execute("SELECT component, version FROM schema_versions"))
    connection.close()
    return rows


async def open_and_close(path: Path, **components: Path) -> None:
    """Open a store with these components, and close it."""
    store = await SqliteStore.open(path, components=components)
    await store.aclose()


def test_scripts_are_split_into_whole_statements() -> None:
    """Semicolons in comments, texts and triggers do not cut a statement."""
    statements = split(SECOND, "x")
    assert len(statements) == 2
    assert statements[1].endswith("END;")


def test_a_script_that_ends_within_a_statement_is_refused() -> None:
    """Half a statement would be lost silently."""
    with pytest.raises(ValueError, match=r"0001_x\.sql"):
        split("CREATE TABLE a (x);\nCREATE TABLE", "0001_x.sql")
    assert split("CREATE TABLE a (x);\n-- the end\n\n", "x") == ("CREATE TABLE a (x);",)


@pytest.mark.parametrize("names", [[], ["0002_a.sql"], ["0001_a.sql", "0003_b.sql"], ["0001_a.sql", "0001_b.sql"]])
def test_migrations_are_numbered_without_gaps(tmp_path: Path, names: list[str]) -> None:
    """A missing or doubled number is an error that names the files."""
    for name in names:
        (tmp_path / name).write_text(FIRST)
    with pytest.raises(ValueError, match="0001, 0002"):
        read_migrations("notes", tmp_path)


async def test_each_component_has_its_version(tmp_path: Path) -> None:
    """Tables of others live in the same file under a version of their own, and go forward by themselves."""
    path = tmp_path / "s.db"
    await open_and_close(path, notes=folder_of(tmp_path / "notes", FIRST))
    known = len(read_migrations("runtime", schema.RUNTIME))
    assert versions_of(path) == {"runtime": known, "notes": 1}
    await open_and_close(path, notes=folder_of(tmp_path / "notes", FIRST, SECOND))
    assert versions_of(path) == {"runtime": known, "notes": 2}
    await open_and_close(path)  # without the component its tables stay as they are
    assert versions_of(path) == {"runtime": known, "notes": 2}


async def test_all_migrations_equal_a_fresh_file(tmp_path: Path) -> None:
    """A database that went through every version in turn has the schema of a new one."""
    scripts = [
        (schema.RUNTIME / migration.name).read_text(encoding="utf-8")
        for migration in read_migrations("runtime", schema.RUNTIME)
    ]
    old = tmp_path / "old.db"
    for count in range(1, len(scripts) + 1):
        known = folder_of(tmp_path / f"known{count}", *scripts[:count])
        store = await SqliteStore.open(old, components={"runtime": known})
        await store.aclose()
    await open_and_close(tmp_path / "fresh.db")
    assert schema_of(old) == schema_of(tmp_path / "fresh.db")
    assert len(schema_of(old)) > 15


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """A file of a newer program is left alone, with a sentence that says what to do."""
    path = tmp_path / "s.db"
    await open_and_close(path)
    known = versions_of(path)["runtime"]
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_versions SET version = 7 WHERE component = 'runtime'")
    connection.close()
    before = schema_of(path)
    with pytest.raises(SchemaTooNew) as raised:
        await SqliteStore.open(path, components={"notes": folder_of(tmp_path / "notes", FIRST)})
    sentence = str(raised.value)
    assert str(path) in sentence
    assert f"version 7, this program knows up to {known}" in sentence
    assert "newer program" in sentence
    assert schema_of(path) == before
    assert versions_of(path) == {"runtime": 7}


async def test_a_migration_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    """Each migration is one transaction: after its failure the database is as before, and the right one can follow."""
    path, notes = tmp_path / "s.db", folder_of(tmp_path / "notes", FIRST)
    await open_and_close(path, notes=notes)
    before = schema_of(path)
    folder_of(notes, FIRST, SECOND + "ALTER TABLE absent ADD COLUMN x;\n")
    with pytest.raises(CheckpointError, match=r"notes/0002_step\.sql"):
        await SqliteStore.open(path, components={"notes": notes})
    assert schema_of(path) == before
    assert versions_of(path)["notes"] == 1
    folder_of(notes, FIRST, SECOND)
    await open_and_close(path, notes=notes)
    assert versions_of(path)["notes"] == 2


async def test_stored_rows_survive_a_migration(tmp_path: Path) -> None:
    """Going forward keeps what is stored."""
    path = tmp_path / "s.db"
    notes = folder_of(tmp_path / "notes", FIRST)
    await open_and_close(path, notes=notes)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('kept')")
    connection.close()
    store = await SqliteStore.open(path, components={"notes": folder_of(notes, FIRST, SECOND)})
    assert await store.database.read("SELECT text, author FROM notes") == [("kept", None)]
    await store.aclose()


def test_tables_have_their_agreed_names() -> None:
    """Operators and tests use these names."""
    (first, *_) = read_migrations("runtime", schema.RUNTIME)
    with sqlite3.connect(":memory:") as connection:
        for statement in first.statements:
            connection.execute(statement)
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        strict = {row[1] for row in connection.execute("PRAGMA table_list") if row[5] and row[1] in tables}
    connection.close()
    assert tables == strict
    assert tables == {
        "sessions",
        "context_items",
        "pending_messages",
        "event_journal",
        "execution_journal",
        "approvals",
        "tool_calls",
        "receipts",
        "grants",
        "loops",
        "owners",
        "cursors",
        "middleware_state",
    }
