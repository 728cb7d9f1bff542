"""The folder that survives: closed to others, and owned by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

DATABASE = "pilothouse.db"
LOCK = "owner.lock"


class StateFolderUnusable(Exception):
    """The folder is not safe to write in: what is wrong, and the remedy."""


class StateFolderBusy(Exception):
    """Another living process owns the folder. `owner` is what it wrote about itself."""

    def __init__(self, path: Path, owner: Owner | None) -> None:
        who = f"process {owner.pid} (running since {owner.since})" if owner else "another process"
        stop = f"stop it with `kill {owner.pid}`" if owner else "stop it"
        super().__init__(f"{path} is owned by {who}; {stop}, or set another gateway.state_dir.")
        self.owner = owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds the folder. `since` is an ISO instant, `config` the file it was started with."""

    pid: int
    since: str
    config: str | None = None

    @classmethod
    def of_this_process(cls, config: Path | None) -> Owner:
        """What this process writes about itself."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(pid=os.getpid(), since=since, config=str(config) if config else None)


def database_in(folder: Path) -> Path:
    """The database file of a state folder."""
    return folder / DATABASE


def prepare(folder: Path) -> None:
    """On return the folder exists, is ours, has mode 0700, and holds no symbolic link and no file that others can open.

    StateFolderUnusable: it belongs to somebody else, or a link was planted where we would write.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise StateFolderUnusable(
            f"{folder} is not a folder; move it away, or set another gateway.state_dir."
        ) from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise StateFolderUnusable(f"{folder} cannot be made: {reason}; set another gateway.state_dir.") from error
    _close(folder, 0o700)
    for entry in sorted(folder.iterdir()):
        _close(entry, 0o700 if entry.is_dir() and not entry.is_symlink() else 0o600)


def _close(path: Path, mode: int) -> None:
    """Take every right of others away; a link or a stranger's file is refused, since we would write through it."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise StateFolderUnusable(f"{path} is a symbolic link; remove it, or set another gateway.state_dir.")
    if status.st_uid != os.geteuid():
        raise StateFolderUnusable(
            f"{path} belongs to uid {status.st_uid} and not to us (uid {os.geteuid()}); "
            "correct its owner, or set another gateway.state_dir."
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(mode)


@contextmanager
def claimed(folder: Path, owner: Owner) -> Generator[None]:
    """Own a prepared folder for the time of the block; the claim ends with the process, however it ends.

    StateFolderBusy: a living process owns it.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateFolderBusy(folder, owner_of(folder)) from None
        _write(descriptor, owner)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def owner_of(folder: Path) -> Owner | None:
    """Who owns the folder now, or None. Does not disturb the owner."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _write(descriptor: int, owner: Owner) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": owner.pid, "since": owner.since, "config": owner.config}).encode(), 0)


def _read(descriptor: int) -> Owner | None:
    try:
        fields = cast("dict[str, Any]", json.loads(os.pread(descriptor, 4096, 0)))
        return Owner(pid=int(fields["pid"]), since=str(fields["since"]), config=fields.get("config"))
    except (ValueError, KeyError, TypeError):
        # The owner has the lock and has not written its line yet.
        return None
