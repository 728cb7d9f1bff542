"""Opening a path beneath a folder descriptor: the kernel holds the fence while it opens, nothing is checked before.

openat2 with RESOLVE_BENEATH where the kernel has it; elsewhere a walk by folder descriptors that follows no link.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_SYS_OPENAT2 = 437  # the same number on every architecture that Python is common on


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Opener(Protocol):
    """Opens a path beneath a folder descriptor, or raises OSError."""

    def open(self, folder: int, parts: Sequence[str], flags: int, *, follow: bool) -> int:
        """A descriptor of the existing file or folder; `follow` allows links that stay beneath, where supported."""
        ...


class Openat2:
    """The kernel resolves the whole path under the fence. Linux 5.6 and newer."""

    def open(self, folder: int, parts: Sequence[str], flags: int, *, follow: bool) -> int:
        """Links are followed within the workspace if `follow` says so; one that leaves it is EXDEV."""
        resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if follow else _RESOLVE_NO_SYMLINKS)
        return _openat2(folder, "/".join(parts) or ".", flags, resolve)


class FolderWalk:
    """One descriptor per folder, no link followed at all. Works on every Linux."""

    def open(self, folder: int, parts: Sequence[str], flags: int, *, follow: bool) -> int:
        """Any link on the way is refused, whatever `follow` says."""
        if not parts:
            return os.open(".", flags | os.O_CLOEXEC, dir_fd=folder)
        at = os.dup(folder)
        try:
            for part in parts[:-1]:
                inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = inner
            return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)


@cache
def _syscall() -> Any:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    function.restype = ctypes.c_long
    return function


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _OpenHow(flags=flags | os.O_CLOEXEC, mode=0, resolve=resolve)
    code = errno.EAGAIN
    for _ in range(64):
        descriptor = _syscall()(_SYS_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        code = ctypes.get_errno()
        # EAGAIN: something on the way was renamed meanwhile, and the kernel could not prove that we stayed beneath.
        if code not in (errno.EINTR, errno.EAGAIN):
            break
    raise OSError(code, os.strerror(code), path)


@cache
def best_opener() -> Opener:
    """What this kernel offers; a sandbox that forbids openat2 gets the walk."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, ".", os.O_PATH | os.O_DIRECTORY, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS))
    except OSError:
        return FolderWalk()
    finally:
        os.close(root)
    return Openat2()
