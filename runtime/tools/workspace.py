"""Files beneath a workspace, reached from the host so that nothing outside of it is ever touched.

The kernel holds the fence while it opens (openat2 with RESOLVE_BENEATH; where it is missing, a walk by folder
descriptors that follows no link): a path is never checked first and opened later. What is opened is then judged by its
descriptor: a regular file with one name, owned by this process or by the workspace's owner. Writing never goes through
a link. Everything here blocks and belongs in a thread. Every refusal is a ToolError, one sentence for the model.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from runtime.errors import ToolError
from runtime.tools.base import Workspace
from runtime.tools.openers import Opener, best_opener
from runtime.tools.paths import path_parts, printable, writable_parts

MAX_FILE_BYTES = 8 * 1024 * 1024

ABSENT = "absent"
FOLDER = "a folder"
TEMPORARY_SUFFIX = ".pilothouse-draft"

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # a fifo or a device must not hold the thread
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a folder. `path` is relative to the workspace; `size` in bytes, of files only."""

    path: str
    kind: str
    size: int = 0
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append did: whether the file is new, and whether a line that had no end was ended first."""

    created: bool
    line_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """A file that is open; its descriptor is what counts, whatever its name points at later."""

    descriptor: int
    name: str
    size: int


@contextmanager
def _closing(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def enter_workspace(workspace: Workspace, opener: Opener | None = None) -> Generator[WorkspaceFolder]:
    """The workspace, open for one piece of work; closed on leaving."""
    try:
        root = os.open(workspace.path, _FOLDER | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"The workspace {printable(workspace.label)} cannot be opened: {error.strerror}.") from None
    with _closing(root):
        yield WorkspaceFolder(root, opener or best_opener())


@contextmanager
def open_in_workspace(
    workspace: Workspace, path: str, *, max_bytes: int = MAX_FILE_BYTES, opener: Opener | None = None
) -> Generator[OpenedFile]:
    """A regular file of the workspace, open for reading; its descriptor is closed on leaving."""
    with enter_workspace(workspace, opener) as folder, folder.opened(path, max_bytes) as file:
        yield file


_locks: dict[tuple[int, int], threading.Lock] = {}  # one per workspace that was ever written to
_serial = itertools.count(1)


class WorkspaceFolder:
    """The open root of a workspace. Writers of one workspace in this process go one after the other."""

    def __init__(self, root: int, opener: Opener) -> None:
        status = os.fstat(root)
        self._root = root
        self._opener = opener
        self._owner = (status.st_uid, status.st_gid)
        self._owners = frozenset({os.geteuid(), status.st_uid})
        self._lock = _locks.setdefault((status.st_dev, status.st_ino), threading.Lock())

    @contextmanager
    def opened(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> Generator[OpenedFile]:
        """A file for reading. Refused: what is not regular, has a second name, a foreign owner, or is too large."""
        with _sentences(path), self._opened(path, max_bytes) as file:
            yield file

    def read(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """The whole content."""
        with self.opened(path, max_bytes) as file:
            return _read_all(file.descriptor, path, max_bytes)

    def read_text(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> str:
        """The whole content as text, line ends as they are; ToolError if it is not UTF-8."""
        return _decoded(self.read(path, max_bytes), path)

    def digest(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> str:
        """SHA-256 of the content as it is now, in hexadecimal; `absent` if there is no such file."""
        with _sentences(path):
            try:
                with self._opened(path, max_bytes) as file:
                    return hashlib.sha256(_read_all(file.descriptor, path, max_bytes)).hexdigest()
            except FileNotFoundError:
                return ABSENT

    def fingerprint(self, path: str) -> str:
        """Which file a path means and what it holds, as `<SHA-256> (<n> bytes, inode <n>)`; `absent`, or `a folder`.

        ToolError if it is refused. Equal fingerprints: the same file, not only the same content.
        """
        with _sentences(path):
            try:
                with _closing(self._opener.open(self._root, path_parts(path), _READ, follow=True)) as descriptor:
                    status = os.fstat(descriptor)
                    if stat.S_ISDIR(status.st_mode):
                        return FOLDER
                    self._admitted(status, path)
                    content = _read_all(descriptor, path, MAX_FILE_BYTES)
            except (FileNotFoundError, NotADirectoryError):
                return ABSENT
        return f"{hashlib.sha256(content).hexdigest()} ({len(content)} bytes, inode {status.st_ino})"

    def create(self, path: str, content: bytes, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        """A new file, with its folders; whole and durable on return, or not there. ToolError if the name is taken."""
        with self._lock, _sentences(path):
            self._publish(writable_parts(path), content, replace=False, path=path, max_bytes=max_bytes)

    def overwrite(self, path: str, content: bytes) -> None:
        """The file has exactly this content, durably, or still its old one; it is made if it was missing."""
        with self._lock, _sentences(path):
            self._publish(writable_parts(path), content, replace=True, path=path)

    def append(self, path: str, content: bytes) -> Appended:
        """The content stands durably at the end of the file, beginning on a line of its own."""
        parts = writable_parts(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
        with self._lock, _sentences(path):
            try:
                descriptor = self._opener.open(self._root, parts, flags, follow=False)
            except FileNotFoundError:
                self._publish(parts, content, replace=False, path=path)
                return Appended(created=True)
            with _closing(descriptor):
                return self._extend(descriptor, content, path)

    def edit(self, path: str, old: str, new: str) -> int:
        """`old`, which must occur exactly once, is replaced durably. Returns the line where it began, from 1."""
        parts = writable_parts(path)
        with self._lock, _sentences(path):
            with self.opened(path) as file:
                before = os.fstat(file.descriptor)
                text = _decoded(_read_all(file.descriptor, path, MAX_FILE_BYTES), path)
            at = _only_place_of(old, text, path)
            content = f"{text[:at]}{new}{text[at + len(old) :]}".encode()
            self._publish(parts, content, replace=True, path=path, before=before)
            return text.count("\n", 0, at) + 1

    def entries(self, path: str, depth: int) -> Iterator[Entry]:
        """Everything down to `depth` folders, sorted within each; links are named, not followed; `.git` is left out."""
        parts = path_parts(path)
        with _sentences(path), _closing(self._opener.open(self._root, parts, _FOLDER, follow=True)) as folder:
            yield from _entries(folder, "/".join(parts), 1, depth)

    def readable(self, path: str, max_bytes: int) -> bytes | None:
        """The content of a file that a search came across; None if it is refused or gone meanwhile."""
        try:
            return self.read(path, max_bytes)
        except ToolError:
            return None

    @contextmanager
    def _opened(self, path: str, max_bytes: int) -> Generator[OpenedFile]:
        parts = path_parts(path)
        with _closing(self._opener.open(self._root, parts, _READ, follow=True)) as descriptor:
            status = self._admitted(os.fstat(descriptor), path)
            if status.st_size > max_bytes:
                raise ToolError(f"{printable(path)} has {status.st_size} bytes; the limit is {max_bytes}.")
            yield OpenedFile(descriptor=descriptor, name=parts[-1], size=status.st_size)

    def _admitted(self, status: os.stat_result, path: str) -> os.stat_result:
        if stat.S_ISDIR(status.st_mode):
            raise ToolError(f"{printable(path)} is a folder.")
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"{printable(path)} is not a regular file.")
        if status.st_nlink > 1:
            raise ToolError(f"{printable(path)} has a second name elsewhere (a hard link), and is refused.")
        if status.st_uid not in self._owners:
            raise ToolError(f"{printable(path)} belongs to somebody else, and is refused.")
        return status

    def _extend(self, descriptor: int, content: bytes, path: str) -> Appended:
        size = self._admitted(os.fstat(descriptor), path).st_size
        unended = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        content = b"\n" + content if unended else content
        _check_size(size + len(content), path)
        try:
            _write_all(descriptor, content)
        except OSError:
            os.ftruncate(descriptor, size)  # half a line would be taken for a whole one
            raise
        os.fsync(descriptor)
        return Appended(created=False, line_ended=unended)

    def _publish(
        self,
        parts: tuple[str, ...],
        content: bytes,
        *,
        replace: bool,
        path: str,
        before: os.stat_result | None = None,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        _check_size(len(content), path, max_bytes)
        with _closing(self._parent(parts[:-1], path)) as parent:
            old = self._existing(parent, parts[-1], path)
            if old is not None and not replace:
                raise ToolError(f"{printable(path)} exists already.")
            if before is not None and (old is None or _version(old) != _version(before)):
                raise ToolError(f"{printable(path)} was changed by somebody else meanwhile; read it again.")
            with _draft(parent, old, self._owner_of_new(old)) as draft:
                _write_all(draft.descriptor, content)
                os.fsync(draft.descriptor)
                draft.publish(parts[-1], replace=old is not None)
            os.fsync(parent)

    def _existing(self, parent: int, name: str, path: str) -> os.stat_result | None:
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise ToolError(f"{printable(path)} is a symbolic link, and nothing is written through links.")
        return self._admitted(status, path)

    def _owner_of_new(self, old: os.stat_result | None) -> tuple[int, int] | None:
        if os.geteuid() != 0:
            return None  # nobody else can give files away
        return (old.st_uid, old.st_gid) if old else self._owner

    def _parent(self, parts: tuple[str, ...], path: str) -> int:
        try:
            parent = self._opener.open(self._root, parts, _FOLDER, follow=False)
        except FileNotFoundError:
            parent = self._made_folders(parts)
        if os.fstat(parent).st_uid not in self._owners:
            os.close(parent)
            raise ToolError(f"The folder of {printable(path)} belongs to somebody else, and is refused.")
        return parent

    def _made_folders(self, parts: tuple[str, ...]) -> int:
        at = os.dup(self._root)
        for part in parts:
            with _closing(at):
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
                    os.fsync(at)
                    if owner := self._owner_of_new(None):
                        os.chown(part, *owner, dir_fd=at, follow_symlinks=False)
                at = os.open(part, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        return at


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A file that nobody sees yet. Without a `temporary` name it vanishes by itself with the process."""

    parent: int
    descriptor: int
    temporary: str
    named: bool

    def publish(self, name: str, *, replace: bool) -> None:
        if not replace:
            self._link_to(name)  # fails if the name was taken meanwhile
            return
        if not self.named:
            self._link_to(self.temporary)
        os.rename(self.temporary, name, src_dir_fd=self.parent, dst_dir_fd=self.parent)

    def _link_to(self, name: str) -> None:
        source = self.temporary if self.named else f"/proc/self/fd/{self.descriptor}"
        os.link(source, name, src_dir_fd=self.parent, dst_dir_fd=self.parent, follow_symlinks=not self.named)


@contextmanager
def _draft(parent: int, old: os.stat_result | None, owner: tuple[int, int] | None) -> Generator[_Draft]:
    temporary = f".{os.getpid()}-{next(_serial)}{TEMPORARY_SUFFIX}"
    try:
        descriptor, named = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=parent), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
        descriptor, named = os.open(temporary, flags, 0o644, dir_fd=parent), True
    with _closing(descriptor):
        try:
            if owner is not None:
                os.fchown(descriptor, *owner)
            if old is not None:
                os.fchmod(descriptor, old.st_mode & 0o777)
            yield _Draft(parent=parent, descriptor=descriptor, temporary=temporary, named=named)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)


def _entries(folder: int, prefix: str, level: int, depth: int) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        names = sorted(found, key=lambda entry: entry.name)
    for entry in names:
        if entry.name == ".git" or entry.name.endswith(TEMPORARY_SUFFIX):
            continue
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        try:
            status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield Entry(path=path, kind=_kind(status.st_mode), size=status.st_size, depth=level)
        if stat.S_ISDIR(status.st_mode) and level < depth:
            with suppress(OSError):  # gone, closed to us, or no folder any more
                inner = os.open(entry.name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                with _closing(inner):
                    yield from _entries(inner, path, level + 1, depth)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_size(size: int, path: str, max_bytes: int = MAX_FILE_BYTES) -> None:
    if size > max_bytes:
        raise ToolError(f"{printable(path)} would have {size} bytes; the limit is {max_bytes}.")


def _read_all(descriptor: int, path: str, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = max_bytes + 1  # the file may have grown since it was measured
    while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise ToolError(f"{printable(path)} is larger than {max_bytes} bytes.")
    return b"".join(pieces)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{printable(path)} is not UTF-8 text (byte {error.start} of {len(content)}).") from None


def _only_place_of(old: str, text: str, path: str) -> int:
    if not old:
        raise ToolError("The text to replace is empty.")
    at = text.find(old)
    if at < 0:
        raise ToolError(f"The text to replace does not occur in {printable(path)}; read the file and copy it exactly.")
    if text.find(old, at + 1) >= 0:
        raise ToolError(f"The text to replace occurs more than once in {printable(path)}; take more lines around it.")
    return at


_REASONS = {
    errno.ENOENT: "does not exist",
    errno.EEXIST: "exists already",
    errno.ELOOP: "leads through a symbolic link, and is refused",
    errno.EXDEV: "leads out of the workspace",
    errno.ENOTDIR: "has something on its way that is not a folder",
    errno.EISDIR: "is a folder",
    errno.EACCES: "may not be opened by this program",
    errno.EPERM: "may not be changed by this program",
    errno.ENXIO: "is not a regular file",
    errno.ENOSPC: "was not written: the disk is full",
    errno.EDQUOT: "was not written: the quota is used up",
    errno.EROFS: "was not written: the file system is read-only",
    errno.ENAMETOOLONG: "has too long a name",
    errno.EAGAIN: "was moved about while it was opened; try again",
}


@contextmanager
def _sentences(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"failed: {error.strerror}")
        raise ToolError(f"{printable(path) or 'The workspace'} {reason}.") from error
