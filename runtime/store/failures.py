"""What a driver's error means to people. Texts of the database never leave the store; they are the error's cause."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from runtime.errors import CheckpointError, FailureKind, StoreFailure

_SENTENCES: dict[FailureKind, str] = {
    "constraint": "the database refused the change because it contradicts what is stored; nothing was written",
    "full": "the disk or quota of the database is full; nothing was written; free some space and try again",
    "busy": "another program kept the database locked for too long; nothing was written; stop it or try again",
    "io": "the disk of the database reported an error; nothing was written; check the disk and its mount",
    "corrupt": "the database file is damaged or is no database; nothing was written; restore it from a backup",
    "read_only": "the database file is read-only; nothing was written; check its permissions and its mount",
    "unopened": "the database file cannot be opened; check that it is a file, its permissions and those of its folder",
    "closed": "the store is closed; nothing was written",
    "other": "the database failed; nothing was written",
}

_ABOUT_THE_FILE: frozenset[FailureKind] = frozenset({"full", "io", "corrupt", "read_only"})

_KINDS: dict[int, FailureKind] = {
    sqlite3.SQLITE_CONSTRAINT: "constraint",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_PROTOCOL: "busy",
    sqlite3.SQLITE_IOERR: "io",
    sqlite3.SQLITE_NOMEM: "io",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CANTOPEN: "unopened",
}


def kind_of(error: BaseException) -> FailureKind:
    """The kind of a driver's error. The low byte of SQLite's extended code is its primary code."""
    code = getattr(error, "sqlite_errorcode", None)
    return "other" if code is None else _KINDS.get(code & 0xFF, "other")


def failure(kind: FailureKind) -> StoreFailure:
    """The error of a kind, with its sentence."""
    return StoreFailure(kind, _SENTENCES[kind])


def naming(path: Path, error: Exception) -> Exception:
    """The error translated, and with the file that it is about: for whoever opens or looks at one."""
    translated = translate(error)
    if not isinstance(translated, StoreFailure) or str(translated).startswith(f"{path}: "):
        return translated
    named = StoreFailure(translated.kind, f"{path}: {translated}")
    named.__cause__ = translated.__cause__
    return named


def while_running(path: Path, error: Exception) -> Exception:
    """The error translated; one that somebody has to mend at the file says which file it is."""
    translated = translate(error)
    if isinstance(translated, StoreFailure) and translated.kind in _ABOUT_THE_FILE:
        return naming(path, translated)
    return translated


def translate(error: Exception) -> Exception:
    """Errors of the driver as ours, with the driver's as cause; ours pass as they are."""
    if isinstance(error, CheckpointError):
        return error
    if isinstance(error, sqlite3.Error):
        translated: CheckpointError = failure(kind_of(error))
    elif isinstance(error, (UnicodeError, OverflowError)):
        translated = CheckpointError("a value cannot be stored: a text is no valid Unicode, or a number is too large")
    else:
        return error
    translated.__cause__ = error
    return translated
