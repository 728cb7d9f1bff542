"""Under which user a workspace's programs run, so that the folder's owner and they can use each other's files.

Started by root, a program runs as the owner of its workspace. An empty folder of root's is given to a user of its own
first, which nobody logs in as; a folder of root's with something in it stays root's, and nothing runs there. Started by
anybody else, a program runs as that user, in folders that are that user's.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import resource
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SandboxError
from runtime.tools.paths import printable
from runtime.tools.sandbox.profile import RunAs

_OWN_USERS = range(52_000, 60_000)  # above people's ids, below those that systemd gives away


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedWorkspace:
    """A folder that programs may run in; what is meant is its descriptor, whatever its path leads to later.

    `run_as` is the user to change to; None: none.
    """

    descriptor: int
    run_as: RunAs | None


@contextmanager
def opened_workspace(workspace: Path) -> Generator[OpenedWorkspace]:
    """The folder, judged and open. SandboxError says why nothing can run in it.

    An empty folder of root's has an owner of its own from then on, and is closed to others.
    """
    descriptor = _opened(workspace)
    try:
        yield OpenedWorkspace(descriptor=descriptor, run_as=_user_for(descriptor, workspace))
    finally:
        os.close(descriptor)


def _user_for(descriptor: int, workspace: Path) -> RunAs | None:
    status = os.fstat(descriptor)
    if os.geteuid() != 0:
        if status.st_uid != os.geteuid():
            raise SandboxError("The workspace belongs to another user than this program's; nothing runs in it.")
        return None
    if status.st_uid == 0:
        status = _given_away(descriptor, workspace)
    return RunAs(uid=status.st_uid, gid=status.st_gid or status.st_uid)


def obstacle(workspace: Path) -> str | None:
    """Why nothing could run in this folder, or None. Changes nothing."""
    try:
        descriptor = _opened(workspace)
    except SandboxError as error:
        return str(error)
    try:
        status = os.fstat(descriptor)
        if os.geteuid() != 0:
            return None if status.st_uid == os.geteuid() else "it belongs to another user than this program's"
        return _ROOTS if status.st_uid == 0 and _has_entries(descriptor) else None
    finally:
        os.close(descriptor)


_ROOTS = "it belongs to root and is not empty; give it to an ordinary user (chown -R USER FOLDER)"


def _opened(workspace: Path) -> int:
    try:
        return os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(f"The workspace {printable(str(workspace))} cannot be opened: {error.strerror}.") from None


def _given_away(descriptor: int, workspace: Path) -> os.stat_result:
    if _has_entries(descriptor):
        raise SandboxError(f"Nothing runs in the workspace: {_ROOTS}.")
    uid = _own_user(workspace)
    os.fchown(descriptor, uid, uid)
    os.fchmod(descriptor, 0o700)
    return os.fstat(descriptor)


def _has_entries(descriptor: int) -> bool:
    with os.scandir(descriptor) as entries:
        return next(entries, None) is not None


def _own_user(workspace: Path) -> int:
    digest = hashlib.sha256(os.fsencode(workspace.resolve())).digest()
    start = int.from_bytes(digest[:8]) % len(_OWN_USERS)
    for offset in range(len(_OWN_USERS)):
        uid = _OWN_USERS[(start + offset) % len(_OWN_USERS)]
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
    raise SandboxError("There is no user id left for the workspace.")


def process_limit(run_as: RunAs | None, processes: int) -> int:
    """The limit on a user's processes that leaves `processes` for one run: the kernel counts the user's others too."""
    uid = os.geteuid() if run_as is None else run_as.uid
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = _threads_of(uid) + processes
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def _threads_of(uid: int) -> int:
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):  # ended meanwhile
                if entry.name.isdigit() and entry.stat().st_uid == uid:
                    count += Path(entry.path, "task").stat().st_nlink - 2
    return count
