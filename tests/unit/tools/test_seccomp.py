"""The system call filter, run here on made-up calls: what it decides on each machine it knows."""

from __future__ import annotations

import errno
import os
import stat
import struct

import pytest

from runtime.errors import SandboxError
from runtime.tools.sandbox.seccomp import ALLOW, CONDITIONAL, KILL_PROCESS, MACHINES, instructions, seccomp_filter

LOAD, JUMP_EQUAL, JUMP_NOT_LESS, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
EVERY = tuple(MACHINES)


def decide(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would decide: `struct seccomp_data` through the program, as linux/filter.h defines it."""
    architecture = MACHINES[machine].audit if audit is None else audit
    filled = (arguments + (0xDEAD_BEEF_DEAD_BEEF,) * 6)[:6]
    data = struct.pack("<IIQ6Q", number & 0xFFFF_FFFF, architecture, 0, *(value & (1 << 64) - 1 for value in filled))
    accumulator, at = 0, 0
    program = [struct.unpack("=HBBI", piece) for piece in pieces(seccomp_filter(machine))]
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, operand)
            case 0x15:
                at += if_true if accumulator == operand else if_false
            case 0x35:
                at += if_true if accumulator >= operand else if_false
            case 0x45:
                at += if_true if accumulator & operand else if_false
            case 0x54:
                accumulator &= operand
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"unknown code {code:#x}")


def pieces(program: bytes) -> list[bytes]:
    """The instructions, eight bytes each."""
    return [program[at : at + 8] for at in range(0, len(program), 8)]


def call(machine: str, name: str, *arguments: int) -> str:
    """The decision on a call by its name."""
    decision = decide(machine, MACHINES[machine].calls[name], *arguments)
    if decision == ALLOW:
        return "allowed"
    assert decision >> 16 == 5
    return errno.errorcode[decision & 0xFFFF]


def having(*names: str) -> list[tuple[str, str]]:
    """Each machine with each of the calls that it has."""
    return [(machine, name) for machine in EVERY for name in names if name in MACHINES[machine].calls]


@pytest.mark.parametrize("machine", EVERY)
def test_a_foreign_architecture_is_killed(machine: str) -> None:
    """A call that says to be of another architecture ends the process, whatever its number."""
    for audit in (0x4000_0003, 0x4000_0028, 0, 0xFFFF_FFFF):
        assert decide(machine, 0, audit=audit) == KILL_PROCESS


def test_the_32_bit_numbers_of_64_bit_programs_are_killed() -> None:
    """x32 calls pass as x86-64 by their architecture; their numbers betray them."""
    for number in (0x4000_0000, 0x4000_0000 | 165, 0x4000_0000 | 520, 0xFFFF_FFFF):
        assert decide("x86_64", number) == KILL_PROCESS


@pytest.mark.parametrize("machine", EVERY)
def test_what_is_not_named_is_allowed(machine: str) -> None:
    """Ordinary calls pass: the filter knows what it refuses, and nothing else."""
    named = set(MACHINES[machine].calls.values())
    assert {decide(machine, number) for number in range(500) if number not in named} == {ALLOW}


@pytest.mark.parametrize("machine", EVERY)
def test_what_is_named_is_refused(machine: str) -> None:
    """Each named call that is not judged by its arguments is refused, two of them as if they did not exist."""
    for name in MACHINES[machine].calls:
        if name not in CONDITIONAL:
            assert call(machine, name) == ("ENOSYS" if name in ("clone3", "openat2") else "EPERM"), name


def test_every_machine_refuses_the_same() -> None:
    """What one machine refuses the other refuses, but for calls that it does not have."""
    x86, arm = (set(MACHINES[machine].calls) for machine in ("x86_64", "aarch64"))
    assert arm < x86
    assert x86 - arm == {"chmod", "creat", "open", "mknod", "iopl", "ioperm", "modify_ldt"}


def test_no_number_is_used_twice() -> None:
    """A number that was mistyped would most likely hit another's."""
    for machine in MACHINES.values():
        assert len(set(machine.calls.values())) == len(machine.calls)


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize(
    "flag", [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 1 << 30]
)
def test_no_new_namespace_by_clone(machine: str, flag: int) -> None:
    """No flag of clone that makes a namespace passes, alone or among others; threads and processes do."""
    assert call(machine, "clone", flag) == "EPERM"
    assert call(machine, "clone", flag | 17) == "EPERM"
    assert call(machine, "clone", 17) == "allowed"
    assert call(machine, "clone", 0x003D_0F00) == "allowed"  # what pthread_create asks for


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("upper", [0, 1 << 32, 0xFFFF_FFFF << 32])
def test_terminals_are_not_typed_into(machine: str, upper: int) -> None:
    """Both ways to put keys into a terminal are refused, also with bits that the kernel does not look at."""
    assert call(machine, "ioctl", 0, 0x5412 | upper) == "EPERM"
    assert call(machine, "ioctl", 0, 0x541C | upper) == "EPERM"
    assert call(machine, "ioctl", 0, 0x5401) == "allowed"


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_only_common_sockets(machine: str, name: str) -> None:
    """Unix, IPv4, IPv6 and netlink sockets can be made; every other family is said not to be supported."""
    allowed = [family for family in range(64) if call(machine, name, family) == "allowed"]
    assert allowed == [1, 2, 10, 16]
    assert call(machine, name, 17) == "EAFNOSUPPORT"
    assert call(machine, name, 17 | 1 << 32) == "EAFNOSUPPORT"


MODE_AT = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1}


@pytest.mark.parametrize(("machine", "name"), having(*MODE_AT))
def test_no_file_lends_its_owners_rights(machine: str, name: str) -> None:
    """A mode with one of the two bits is refused in every call that sets modes; all other modes pass."""
    before = [0] * MODE_AT[name]
    for mode in (0o4000, 0o2000, 0o6777, 0o4755, 0o2755, 0o104755):
        assert call(machine, name, *before, mode) == "EPERM"
    for mode in (0, 0o644, 0o755, 0o777, 0o1777):
        assert call(machine, name, *before, mode) == "allowed"


@pytest.mark.parametrize(("machine", "name"), having("open", "openat"))
def test_a_mode_counts_only_when_a_file_is_made(machine: str, name: str) -> None:
    """Opening an existing file passes whatever the register of the mode holds; making one is judged by it."""
    before = [0] * (1 if name == "open" else 2)
    for flags in (os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_RDWR):
        assert call(machine, name, *before, flags, 0o4755) == "EPERM"
        assert call(machine, name, *before, flags, 0o644) == "allowed"
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_DIRECTORY):
        assert call(machine, name, *before, flags, 0o4755) == "allowed"


@pytest.mark.parametrize(("machine", "name"), having("mknod", "mknodat"))
def test_no_devices(machine: str, name: str) -> None:
    """Devices, and files that lend rights, are not made; fifos, sockets and plain files are."""
    before = [0] * (1 if name == "mknod" else 2)
    for mode in (stat.S_IFCHR | 0o600, stat.S_IFBLK | 0o600, stat.S_IFREG | 0o4755, 0o2755, stat.S_IFIFO | 0o4644):
        assert call(machine, name, *before, mode) == "EPERM"
    for mode in (stat.S_IFIFO | 0o644, stat.S_IFREG | 0o644, stat.S_IFSOCK | 0o755):
        assert call(machine, name, *before, mode) == "allowed"


@pytest.mark.parametrize("machine", EVERY)
def test_the_kernel_would_take_it(machine: str) -> None:
    """No jump leaves the program, every way ends in a return, and it is within the kernel's length."""
    program = instructions(MACHINES[machine])
    assert len(program) <= 4096
    assert program[-1][0] == RETURN
    for at, (code, if_true, if_false, _) in enumerate(program):
        if code in (JUMP_EQUAL, JUMP_NOT_LESS, JUMP_ANY_BIT):
            assert max(if_true, if_false) <= 255
            assert at + 1 + max(if_true, if_false) < len(program)
        else:
            assert code in (LOAD, AND, RETURN)


def test_other_machines_have_no_filter() -> None:
    """On a machine whose numbers are not known nothing is guessed."""
    with pytest.raises(SandboxError, match="riscv64"):
        seccomp_filter("riscv64")
