"""Run inside the sandbox: tries everything that must not work, and prints what came of each attempt as JSON.

Stands alone: started as `python3 -I sandbox_attacks.py FILE PORT PROCESS`, of the host.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"add_key": 248, "bpf": 321, "perf_event_open": 298, "clone": 56, "process_vm_readv": 310},
    "aarch64": {"add_key": 217, "bpf": 280, "perf_event_open": 241, "clone": 220, "process_vm_readv": 270},
}[platform.machine()] | {"io_uring_setup": 425, "clone3": 435, "openat2": 437, "open_tree": 428, "fchmodat2": 452}
CLONE_NEWUSER = 0x10000000
TIOCSTI = 0x5412


def outcome(attempt: Callable[[], object]) -> str:
    """The name of the error, or `done`."""
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def call(function: Callable[..., int], *arguments: Any) -> int:
    """A function of the C library, with its error raised."""
    result = function(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def syscall(name: str, *arguments: int) -> int:
    """A system call by its name."""
    return call(LIBC.syscall, NUMBERS[name], *(ctypes.c_long(argument) for argument in arguments))


def clone_user() -> None:
    """A child in a user namespace of its own."""
    if syscall("clone", CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def write(path: str) -> None:
    """Make a file."""
    with open(path, "w") as file:
        file.write("x")


def read(path: str) -> None:
    """Open a file."""
    with open(path, "rb") as file:
        file.read(1)


def connect(host: str, port: int) -> None:
    """Reach a service."""
    with socket.socket() as connection:
        connection.settimeout(5)
        connection.connect((host, port))


def send(host: str) -> None:
    """Send one datagram."""
    with socket.socket(type=socket.SOCK_DGRAM) as connection:
        connection.sendto(b"x", (host, 53))


def make(family: int, kind: int, protocol: int = 0) -> None:
    """A socket."""
    socket.socket(family, kind, protocol).close()


def push_key() -> None:
    """Put a keystroke into a terminal."""
    leader, follower = os.openpty()
    try:
        fcntl.ioctl(follower, TIOCSTI, b"x")
    finally:
        os.close(leader)
        os.close(follower)


def create(path: str, mode: int) -> None:
    """A new file with this mode from the start."""
    os.umask(0)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def chmod_opened(path: str, mode: int) -> None:
    """Change the mode by a descriptor."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def call_as_32_bits() -> str:
    """What becomes of a process that makes a system call of the other architecture, whose numbers are not filtered."""
    if platform.machine() != "x86_64":
        return "SIGSYS"
    child = os.fork()
    if child == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "done"


def of_status(*names: str) -> dict[str, str]:
    """Lines of our own status."""
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    return {name: lines[name].strip() for name in names}


def environments() -> str:
    """Everything in every environment that can be read."""
    found = b""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    found += file.read()
            except OSError:
                pass
    return found.decode(errors="replace")


def room(path: str) -> int:
    """The size of a file system in bytes."""
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize


def attempts(host_file: str, port: int, process: int) -> dict[str, Any]:
    """Every attempt by its name."""
    write("plain")
    nothing = struct.pack("=QQQQ", 0, 0, 0, 0)
    os.symlink(host_file, "link")
    return {
        "read a file of the host": outcome(lambda: read(host_file)),
        "read it through a link": outcome(lambda: read("link")),
        "read /etc/shadow": outcome(lambda: read("/etc/shadow")),
        "read /etc/passwd": outcome(lambda: read("/etc/passwd")),
        "write to /usr": outcome(lambda: write("/usr/bin/attack")),
        "write to /": outcome(lambda: write("/attack")),
        "write to /dev": outcome(lambda: write("/dev/attack")),
        "write to /etc": outcome(lambda: write("/etc/attack")),
        "write to /tmp": outcome(lambda: write("/tmp/attack")),
        "write to the workspace": outcome(lambda: write("attack")),
        "set a kernel value": outcome(lambda: write("/proc/sys/kernel/core_pattern")),
        "mount": outcome(lambda: call(LIBC.mount, b"none", b"/tmp", b"tmpfs", 0, None)),
        "remount /usr writable": outcome(lambda: call(LIBC.mount, None, b"/usr", None, 0x1020, None)),
        "unmount /usr": outcome(lambda: call(LIBC.umount2, b"/usr", 2)),
        "open_tree": outcome(lambda: syscall("open_tree", -100, 0, 0)),
        "change the root": outcome(lambda: os.chroot("/tmp")),
        "make a device": outcome(lambda: os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(1, 1))),
        "make a fifo": outcome(lambda: os.mkfifo("fifo")),
        "unshare the user": outcome(lambda: call(LIBC.unshare, CLONE_NEWUSER)),
        "clone the user": outcome(clone_user),
        "enter a namespace": outcome(lambda: call(LIBC.setns, os.open("/proc/self/ns/net", os.O_RDONLY), 0)),
        "trace a process": outcome(lambda: call(LIBC.ptrace, 0, 0, 0, 0)),
        "read another's memory": outcome(lambda: syscall("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)),
        "push a key": outcome(push_key),
        "reach the host's loopback": outcome(lambda: connect("127.0.0.1", port)),
        "reach the metadata service": outcome(lambda: connect("169.254.169.254", 80)),
        "reach the internet": outcome(lambda: connect("1.1.1.1", 443)),
        "send a datagram": outcome(lambda: send("1.1.1.1")),
        "packet socket": outcome(lambda: make(socket.AF_PACKET, socket.SOCK_RAW)),
        "raw socket": outcome(lambda: make(socket.AF_INET, socket.SOCK_RAW, 1)),
        "vsock": outcome(lambda: make(40, socket.SOCK_STREAM)),
        "unix socket": outcome(lambda: make(socket.AF_UNIX, socket.SOCK_STREAM)),
        "kernel key": outcome(lambda: syscall("add_key", 0, 0, 0, 0, 0)),
        "kernel program": outcome(lambda: syscall("bpf", 0, 0, 0)),
        "performance counter": outcome(lambda: syscall("perf_event_open", 0, 0, 0, 0, 0)),
        "io_uring": outcome(lambda: syscall("io_uring_setup", 1, 0)),
        "clone3": outcome(lambda: syscall("clone3", 0, 0)),
        "openat2": outcome(lambda: syscall("openat2", -100, 0, ctypes.addressof(ctypes.c_char_p(nothing)), 24)),
        "chmod 755": outcome(lambda: os.chmod("plain", 0o755)),
        "chmod 4755": outcome(lambda: os.chmod("plain", 0o4755)),
        "chmod 2755": outcome(lambda: os.chmod("plain", 0o2755)),
        "fchmod 4755": outcome(lambda: chmod_opened("plain", 0o4755)),
        "fchmodat2 4755": outcome(lambda: syscall("fchmodat2", -100, 0, 0o4755, 0)),
        "create 4755": outcome(lambda: create("lent", 0o4755)),
        "create 755": outcome(lambda: create("own", 0o755)),
        "mknod 4755": outcome(lambda: os.mknod("lent2", stat.S_IFREG | 0o4755)),
        "signal a process of the host": outcome(lambda: os.kill(process, 0)),
        "call as 32 bits": call_as_32_bits(),
    }


def circumstances() -> dict[str, Any]:
    """What can be seen of where we are."""
    kinds = ("CPU", "AS", "FSIZE", "NOFILE", "NPROC", "CORE")
    return {
        "status": of_status("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"),
        "user": [os.getuid(), os.getgid(), os.getgroups()],
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))},
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
        "session is ours": os.getsid(0) != 0,
        "host name": socket.gethostname(),
        "folder": os.getcwd(),
        "root": sorted(os.listdir("/")),
        "etc": sorted(os.listdir("/etc")),
        "descriptors": [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")],
        "input": os.read(0, 10).decode(),
        "environment": sorted(os.environ),
        "limits": {kind: resource.getrlimit(getattr(resource, f"RLIMIT_{kind}")) for kind in kinds},
        "room": {path: room(path) for path in ("/tmp", "/dev/shm")},
        "environments": environments(),
    }


if __name__ == "__main__":
    before = circumstances()
    print(json.dumps({**before, "attempts": attempts(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))}))
