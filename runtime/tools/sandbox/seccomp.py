"""The filter that the kernel applies to every system call of a sandboxed program, built as classic BPF.

Everything is allowed but what the tables below name: the calls by which a program could leave its namespaces, reach
into another process, speak to rarely used parts of the kernel, or leave a file behind that lends out its owner's
rights. A program of a foreign architecture is killed, because its calls have other numbers. Numbers are those of
Linux's `unistd.h`; layouts are those of `linux/seccomp.h` and `linux/filter.h`.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from runtime.errors import SandboxError

Instruction: TypeAlias = tuple[int, int, int, int]
"""(code, jump if true, jump if false, operand): one `struct sock_filter`."""

ALLOW = 0x7FFF_0000
KILL_PROCESS = 0x8000_0000
_ERRNO = 0x0005_0000

_LOAD, _JUMP_EQUAL, _JUMP_NOT_LESS, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_X32_BIT = 0x4000_0000
_NEW_NAMESPACES = 0x7E02_0000  # CLONE_NEW* of mount, cgroup, uts, ipc, user, pid and net
_LENDING_BITS = stat.S_ISUID | stat.S_ISGID
_CREATING = os.O_CREAT | 0o20_000_000  # the second is the bit of O_TMPFILE that is not O_DIRECTORY
_SOCKET_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # both put keystrokes into a terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One architecture: its audit number, and the numbers of its calls."""

    audit: int
    x32: bool = False
    calls: Mapping[str, int]


_SAME_EVERYWHERE = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "open_tree_attr": 467,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "quotactl_fd": 443,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "clone3": 435,
    "openat2": 437,
    "fchmodat2": 452,
}

MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(
        audit=0xC000_003E,
        x32=True,
        calls=_SAME_EVERYWHERE
        | {
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "chroot": 161,
            "unshare": 272,
            "setns": 308,
            "ptrace": 101,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "bpf": 321,
            "perf_event_open": 298,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "userfaultfd": 323,
            "kexec_load": 246,
            "kexec_file_load": 320,
            "init_module": 175,
            "finit_module": 313,
            "delete_module": 176,
            "open_by_handle_at": 304,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "acct": 163,
            "quotactl": 179,
            "syslog": 103,
            "settimeofday": 164,
            "clock_settime": 227,
            "iopl": 172,
            "ioperm": 173,
            "modify_ldt": 154,
            "fanotify_init": 300,
            "lookup_dcookie": 212,
            "move_pages": 279,
            "clone": 56,
            "ioctl": 16,
            "socket": 41,
            "socketpair": 53,
            "chmod": 90,
            "fchmod": 91,
            "fchmodat": 268,
            "creat": 85,
            "open": 2,
            "openat": 257,
            "mknod": 133,
            "mknodat": 259,
        },
    ),
    "aarch64": Machine(
        audit=0xC000_00B7,
        calls=_SAME_EVERYWHERE
        | {
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "chroot": 51,
            "unshare": 97,
            "setns": 268,
            "ptrace": 117,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "bpf": 280,
            "perf_event_open": 241,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "userfaultfd": 282,
            "kexec_load": 104,
            "kexec_file_load": 294,
            "init_module": 105,
            "finit_module": 273,
            "delete_module": 106,
            "open_by_handle_at": 265,
            "swapon": 224,
            "swapoff": 225,
            "reboot": 142,
            "acct": 89,
            "quotactl": 60,
            "syslog": 116,
            "settimeofday": 170,
            "clock_settime": 112,
            "fanotify_init": 262,
            "lookup_dcookie": 18,
            "move_pages": 239,
            "clone": 220,
            "ioctl": 29,
            "socket": 198,
            "socketpair": 199,
            "fchmod": 52,
            "fchmodat": 53,
            "openat": 56,
            "mknodat": 33,
        },
    ),
}

_ABSENT = ("clone3", "openat2")
"""Calls whose arguments lie in memory, where a filter cannot look: said to be missing, so that libraries fall back."""

_MODE_ARGUMENT = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1}
_FLAGS_AND_MODE_ARGUMENTS = {"open": (1, 2), "openat": (2, 3)}
_NODE_MODE_ARGUMENT = {"mknod": 1, "mknodat": 2}
_FAMILY_CALLS = ("socket", "socketpair")

CONDITIONAL = frozenset(
    {"clone", "ioctl", *_FAMILY_CALLS, *_MODE_ARGUMENT, *_FLAGS_AND_MODE_ARGUMENTS, *_NODE_MODE_ARGUMENT}
)
"""Calls that are judged by their arguments; every other call of the tables is refused."""


def seccomp_filter(machine: str) -> bytes:
    """The program for `machine` (as `uname -m` names it), as the kernel reads it; SandboxError if there is none."""
    if machine not in MACHINES:
        raise SandboxError(f"there is no system call filter for {machine} processors")
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions(MACHINES[machine]))


def instructions(machine: Machine) -> list[Instruction]:
    """The filter's instructions in order."""
    program = _known_architecture(machine)
    for name, number in sorted(machine.calls.items()):
        program += _only_for(number, _judgement(name))
    return [*program, _return(ALLOW)]


def _known_architecture(machine: Machine) -> list[Instruction]:
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        _return(KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine.x32:
        program += [(_JUMP_NOT_LESS, 0, 1, _X32_BIT), _return(KILL_PROCESS)]
    return program


def _only_for(number: int, judgement: Sequence[Instruction]) -> list[Instruction]:
    return [(_JUMP_EQUAL, 0, len(judgement), number), *judgement]


def _judgement(name: str) -> list[Instruction]:
    """What happens to one call; always ends in a return, so the number need not be loaded again."""
    if name in _ABSENT:
        return [_refuse(errno.ENOSYS)]
    if name == "clone":
        return _refuse_bits(0, _NEW_NAMESPACES)
    if name == "ioctl":
        return [_argument(1), *_refuse_values(_TIOCSTI, _TIOCLINUX), _return(ALLOW)]
    if name in _FAMILY_CALLS:
        return _allow_families()
    if name in _MODE_ARGUMENT:
        return _refuse_bits(_MODE_ARGUMENT[name], _LENDING_BITS)
    if name in _FLAGS_AND_MODE_ARGUMENTS:
        flags, mode = _FLAGS_AND_MODE_ARGUMENTS[name]
        created = _refuse_bits(mode, _LENDING_BITS)
        # Without O_CREAT the mode is whatever the register happens to hold.
        return [_argument(flags), (_JUMP_ANY_BIT, 0, len(created) - 1, _CREATING), *created]
    if name in _NODE_MODE_ARGUMENT:
        mode = _NODE_MODE_ARGUMENT[name]
        kind = [_argument(mode), (_AND, 0, 0, 0o170000), *_refuse_values(stat.S_IFCHR, stat.S_IFBLK)]
        return [*kind, *_refuse_bits(mode, _LENDING_BITS)]
    return [_refuse(errno.EPERM)]


def _refuse_bits(argument: int, bits: int) -> list[Instruction]:
    return [_argument(argument), (_JUMP_ANY_BIT, 0, 1, bits), _refuse(errno.EPERM), _return(ALLOW)]


def _refuse_values(*values: int) -> list[Instruction]:
    return [step for value in values for step in ((_JUMP_EQUAL, 0, 1, value), _refuse(errno.EPERM))]


def _allow_families() -> list[Instruction]:
    known = [step for family in _SOCKET_FAMILIES for step in ((_JUMP_EQUAL, 0, 1, family), _return(ALLOW))]
    return [_argument(0), *known, _refuse(errno.EAFNOSUPPORT)]


def _argument(index: int) -> Instruction:
    # The kernel reads these arguments as 32 bits; both machines are little-endian, so the low half comes first.
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _refuse(code: int) -> Instruction:
    return _return(_ERRNO | code)


def _return(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)
