"""The database's files on disk: made for their owner only, and never through a planted link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runtime.errors import ConfigurationError

SIDECARS = ("-wal", "-shm", "-journal")
"""What SQLite puts beside the database. It gives them the mode of the database file."""


def prepare(path: Path) -> None:
    """On return `path` exists as a regular file of ours with mode 0600, and so do its sidecars where they exist.

    A missing folder is made with mode 0700. ConfigurationError for a link, a foreign owner or anything but a file.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create(path)
    except OSError as error:
        raise ConfigurationError(f"the database {path} cannot be made: {error.strerror}; check the folder") from error
    secure(path)


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return  # whatever it is, it is looked at next


def secure(path: Path) -> None:
    """Take every right of others from the database and its sidecars. ConfigurationError as for `prepare`."""
    for each in (path, *(path.with_name(path.name + suffix) for suffix in SIDECARS)):
        _secure_one(each)


def _secure_one(path: Path) -> None:
    # O_PATH: to close an ordinary descriptor of the file would drop the locks that SQLite holds on it in this process.
    try:
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"{path} is a link or no regular file; remove it or name another database")
        if found.st_uid != os.geteuid():
            raise ConfigurationError(f"{path} belongs to user {found.st_uid}, not to us; name another database")
        if stat.S_IMODE(found.st_mode) & 0o077:
            Path(f"/proc/self/fd/{handle}").chmod(0o600)
    finally:
        os.close(handle)
