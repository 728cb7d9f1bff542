"""Which process writes a session. Pure, but for what it reads of the machine."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

LEASE_MS = 30_000
"""How long an owner is believed to live on another machine after its last renewal. Renew every third of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that cannot be mistaken for another, also after its id was used again.

    `boot_id` names the kernel's boot and the process-id namespace: a process id means nothing beyond these two.
    """

    host: str
    boot_id: str
    pid: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A row of `owners`."""

    owner_id: str
    process: Process
    expires_at_ms: int


def this_process() -> Process:
    """The process that asks."""
    boot = _read(Path("/proc/sys/kernel/random/boot_id")).strip()
    pid = os.getpid()
    return Process(host=socket.gethostname(), boot_id=f"{boot}/{_namespace()}", pid=pid, start=start_of(pid) or 0)


def start_of(pid: int) -> int | None:
    """When the process `pid` started, in clock ticks since boot; None where there is no such process, or a zombie."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    if not stat:
        return None
    # The name is in brackets and may hold anything; fields are counted from behind it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_dead(owner: Owner, me: Process, now_ms: int) -> bool:
    """The owner's sessions may be taken.

    On this boot of this machine the kernel knows; a former boot of this machine is over; of another machine, or another
    process-id namespace, only the expiry of its row tells.
    """
    other = owner.process
    if (other.host, other.boot_id) == (me.host, me.boot_id):
        return start_of(other.pid) != other.start
    rebooted = other.host == me.host and _boot(other) != _boot(me)
    return rebooted or owner.expires_at_ms <= now_ms


def _boot(process: Process) -> str:
    return process.boot_id.partition("/")[0]
