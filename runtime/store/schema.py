"""Numbered migrations, forward only. Every component of a database has its own folder of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from runtime.errors import CheckpointError, SchemaTooNew
from runtime.store.writer import BEGIN, COMMIT, ROLLBACK, Connection, Statement, Steps, Transaction

RUNTIME: Traversable = files("runtime.store") / "migrations" / "runtime"
"""The migrations of the runtime's own tables."""

_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")

_VERSIONS = Statement(
    "CREATE TABLE IF NOT EXISTS schema_versions (component TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID"
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a component's schema."""

    component: str
    version: int
    name: str
    statements: tuple[str, ...]


def read_migrations(component: str, folder: Traversable) -> list[Migration]:
    """The migrations of a folder in order. ValueError where their numbers are not 1, 2, 3 and so on."""
    names = sorted(entry.name for entry in folder.iterdir() if _FILE.fullmatch(entry.name))
    if not names or [int(name[:4]) for name in names] != list(range(1, len(names) + 1)):
        raise ValueError(f"the migrations of {component!r} are not numbered 0001, 0002 and so on: {names}")
    return [
        Migration(component, version, name, split((folder / name).read_text(encoding="utf-8"), name))
        for version, name in enumerate(names, start=1)
    ]


def split(script: str, name: str) -> tuple[str, ...]:
    """The statements of a script; triggers stay whole. ValueError for an end that is no statement."""
    statements: list[str] = []
    begun = ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            statements.append(begun.strip())
            begun = ""
    if any(line.strip() and not line.lstrip().startswith("--") for line in begun.splitlines()):
        raise ValueError(f"{name} ends within a statement")
    return tuple(statements)


async def migrate(connection: Connection, path: Path, components: Mapping[str, Traversable]) -> None:
    """Bring every component to its newest version, each migration in a transaction of its own.

    SchemaTooNew where the file is ahead of this program; nothing was changed then.
    """
    plans = {component: read_migrations(component, folder) for component, folder in components.items()}
    await connection.run(lambda transaction: _in_transaction(transaction, _create_versions(path, plans)))
    for migrations in plans.values():
        for migration in migrations:
            await connection.run(lambda transaction, m=migration: _in_transaction(transaction, _apply(m)))


def _in_transaction(transaction: Transaction, steps: Steps[None]) -> Steps[None]:
    yield BEGIN
    try:
        yield from steps
    except BaseException:
        if transaction.in_transaction:
            yield ROLLBACK
        raise
    yield COMMIT


def _create_versions(path: Path, plans: Mapping[str, Sequence[Migration]]) -> Steps[None]:
    yield _VERSIONS
    found = yield Statement("SELECT component, version FROM schema_versions", fetch=True)
    for component, version in found.rows:
        if component in plans and version > len(plans[component]):
            raise too_new(path, component, version, len(plans[component]))


def too_new(path: Path, component: str, version: int, known: int) -> SchemaTooNew:
    """The refusal of a file that is ahead of this program."""
    return SchemaTooNew(
        f"the database {path} was written by a newer program: its {component} schema has version {version}, "
        f"this program knows up to {known}; start the newer program, or restore a backup"
    )


def _apply(migration: Migration) -> Steps[None]:
    version = yield from version_of(migration.component)
    if version >= migration.version:
        return
    for sql in migration.statements:
        try:
            yield Statement(sql)
        except sqlite3.Error as error:
            raise CheckpointError(f"migration {migration.component}/{migration.name} failed: {error}") from error
    yield Statement(
        "INSERT INTO schema_versions (component, version) VALUES (?1, ?2)"
        " ON CONFLICT (component) DO UPDATE SET version = ?2",
        (migration.component, migration.version),
    )


def version_of(component: str) -> Steps[int]:
    """The stored version of a component; 0 where there is none."""
    found = yield Statement("SELECT version FROM schema_versions WHERE component = ?", (component,), fetch=True)
    return found.rows[0][0] if found.rows else 0
