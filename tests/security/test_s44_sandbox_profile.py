"""S-44: from inside the sandbox nothing of the host can be reached, started by root and by anybody else.

Missing programs make these tests fail: a sandbox that was not tried is not one.
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import SandboxError
from runtime.tools.sandbox import Limits, Sandbox
from runtime.tools.sandbox.profile import Job, Programs, RunAs, command_line
from tests.security.sandboxes import CANARY, ORDINARY_USER, OWN_USER, WHO, Change, attacked, box_for, can_be, shape_for

EXPECTED = {
    "read a file of the host": "ENOENT",
    "read it through a link": "ENOENT",
    "read /etc/shadow": "ENOENT",
    "read /etc/passwd": "ENOENT",
    "write to /usr": "EROFS",
    "write to /": "EROFS",
    "write to /dev": "EROFS",
    "write to /etc": "EROFS",
    "write to /tmp": "done",
    "write to the workspace": "done",
    "set a kernel value": "EACCES",
    "mount": "EPERM",
    "remount /usr writable": "EPERM",
    "unmount /usr": "EPERM",
    "open_tree": "EPERM",
    "change the root": "EPERM",
    "make a device": "EPERM",
    "make a fifo": "done",
    "unshare the user": "EPERM",
    "clone the user": "EPERM",
    "enter a namespace": "EPERM",
    "trace a process": "EPERM",
    "read another's memory": "EPERM",
    "push a key": "EPERM",
    "reach the host's loopback": "ECONNREFUSED",
    "reach the metadata service": "ENETUNREACH",
    "reach the internet": "ENETUNREACH",
    "send a datagram": "ENETUNREACH",
    "packet socket": "EAFNOSUPPORT",
    "raw socket": "EPERM",
    "vsock": "EAFNOSUPPORT",
    "unix socket": "done",
    "kernel key": "EPERM",
    "kernel program": "EPERM",
    "performance counter": "EPERM",
    "io_uring": "EPERM",
    "clone3": "ENOSYS",
    "openat2": "ENOSYS",
    "chmod 755": "done",
    "chmod 4755": "EPERM",
    "chmod 2755": "EPERM",
    "fchmod 4755": "EPERM",
    "fchmodat2 4755": "EPERM",
    "create 4755": "EPERM",
    "create 755": "done",
    "mknod 4755": "EPERM",
    "signal a process of the host": "ESRCH",
    "call as 32 bits": "SIGSYS",
}

NO_CAPABILITIES = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16)

SHARED_NAMESPACES = {"time", "time_for_children"}

Seen = dict[str, Any]


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    """What the attacks came to, by who started the sandbox."""

    async def look(who: str) -> Seen:
        with box_for(who) as box:
            return await attacked(box)

    os.environ["HOST_TOKEN"] = CANARY
    try:
        return {who: asyncio.run(look(who)) for who in WHO if can_be(who)}
    finally:
        del os.environ["HOST_TOKEN"]


@pytest.fixture(params=WHO)
def attack(request: pytest.FixtureRequest, seen: dict[str, Seen]) -> Seen:
    """What the attacks came to, for each who can start the sandbox."""
    if request.param not in seen:
        pytest.skip("only root can try what root's sandbox does")
    found = seen[request.param]
    assert "failed" not in found, found
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_attack_fails(attack: Seen, name: str) -> None:
    """Each attempt ends as it must: refused by the kernel, or done where a program needs it."""
    assert attack["attempts"][name] == EXPECTED[name]


def test_every_attack_has_an_expectation(attack: Seen) -> None:
    """No attempt goes unjudged."""
    assert set(attack["attempts"]) == set(EXPECTED)


def test_no_rights(attack: Seen) -> None:
    """No capability of any kind, none to be gained, and filtered system calls, for a user that owns nothing."""
    assert attack["status"] == {**NO_CAPABILITIES, "NoNewPrivs": "1", "Seccomp": "2"}
    assert attack["user"] == [65534, 65534, []]


def test_namespaces_are_its_own(attack: Seen) -> None:
    """Every namespace but the clock's is another than the host's."""
    host = {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
    shared = {name for name, link in attack["namespaces"].items() if host[name] == link}
    assert shared == SHARED_NAMESPACES
    assert attack["host name"] == "sandbox"
    assert attack["session is ours"]


def test_only_its_own_is_in_view(attack: Seen) -> None:
    """Its processes, a few folders, an empty input, three descriptors, and not one secret in any environment."""
    assert attack["processes"] == 2
    assert attack["root"] == ["bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "tmp", "usr", "workspace"]
    assert set(attack["etc"]) <= {"alternatives", "ld.so.cache"}
    assert (attack["folder"], attack["input"], attack["descriptors"]) == ("/workspace", "", ["0", "1", "2"])
    assert set(attack["environment"]) == {"PATH", "HOME", "TMPDIR", "LANG", "PWD"}
    assert CANARY not in attack["environments"]


def test_limits_are_set(attack: Seen) -> None:
    """Each limit holds for the program, and cannot be raised by it."""
    limits = Limits()
    kernel = attack["limits"]
    processes = kernel.pop("NPROC")
    assert kernel == {
        "CPU": [limits.cpu_seconds, limits.cpu_seconds + 1],
        "AS": [limits.memory_bytes] * 2,
        "FSIZE": [limits.file_bytes] * 2,
        "NOFILE": [limits.open_files] * 2,
        "CORE": [0, 0],
    }
    assert processes[0] == processes[1] >= limits.processes
    assert attack["room"] == {"/tmp": limits.temporary_bytes, "/dev/shm": limits.temporary_bytes}


def test_files_it_leaves_behind_lend_no_rights() -> None:
    """`chmod 4755` inside leaves no file on the host that runs with its owner's rights, nor one that is root's."""

    async def leave(who: str) -> list[os.stat_result]:
        with box_for(who) as box:
            await box.run(
                "cp /usr/bin/id a; chmod 4755 a; chmod u+s a; install -m 4755 /usr/bin/id b; mkdir c; chmod 2777 c"
            )
            await box.run("umask 0; cp -p /usr/bin/passwd d; chmod g+s . ; mknod e b 8 0")
            return [path.lstat() for path in (box.path, *box.path.rglob("*"))]

    for who in filter(can_be, WHO):
        left = asyncio.run(leave(who))
        assert len(left) >= 4
        assert not [status for status in left if status.st_mode & (stat.S_ISUID | stat.S_ISGID)]
        assert not [status for status in left if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)]
        if os.geteuid() == 0:
            owner = ORDINARY_USER if who == "ordinary" else OWN_USER
            assert {(status.st_uid, status.st_gid) for status in left} == {(owner, owner)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts anything")
async def test_the_host_sees_no_mount(tmp_path: Path) -> None:
    """What root mounts for a run is seen by that run alone, while it lasts and after it."""

    def mounts() -> list[str]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line for line in lines if str(tmp_path) in line or " /mnt " in line]

    before = mounts()
    with box_for("root") as box:
        running = asyncio.ensure_future(box.run("touch started; read -r _ <fifo"))
        os.mkfifo(box.path / "fifo", 0o666)
        (box.path / "fifo").chmod(0o666)
        while not (box.path / "started").exists():
            await asyncio.sleep(0.01)
        during = mounts()
        (box.path / "fifo").write_text("go on\n")
        assert (await running).exit_code == 0
    assert before == during == mounts()


FLAGS: dict[str, tuple[str, ...]] = {
    "--unshare-user": ("--unshare-user",),
    "--unshare-ipc": ("--unshare-ipc",),
    "--unshare-pid": ("--unshare-pid",),
    "--unshare-uts": ("--unshare-uts",),
    "--unshare-cgroup-try": ("--unshare-cgroup-try",),
    "--unshare-net": ("--unshare-net",),
    "--uid": ("--uid", "65534"),
    "--gid": ("--gid", "65534"),
    "--hostname": ("--hostname", "sandbox"),
    "--disable-userns": ("--disable-userns",),
    "--new-session": ("--new-session",),
    "--seccomp": ("--seccomp", "*"),
    "--json-status-fd": ("--json-status-fd", "*"),
    "--remount-ro /": ("--remount-ro", "/"),
    "--remount-ro /dev": ("--remount-ro", "/dev"),
    "--size": ("--size", "*"),
    "--tmpfs /dev/shm": ("--tmpfs", "/dev/shm"),
    "--proc": ("--proc", "/proc"),
    "--setenv HOME": ("--setenv", "HOME", "/workspace"),
    "--chdir": ("--chdir", "/workspace"),
    "--ro-bind /usr": ("--ro-bind", "/usr", "/usr"),
    "--cpu": ("--cpu=*",),
    "--as": ("--as=*",),
    "--fsize": ("--fsize=*",),
    "--nofile": ("--nofile=*",),
    "--core": ("--core=*",),
    "--tmpfs /tmp": ("--tmpfs", "/tmp"),
    "--bind": ("--bind", "*", "/workspace"),
    "--symlink": ("--symlink", "usr/lib", "/lib"),
    "--dev": ("--dev", "/dev"),
    "--ro-bind-try": ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
    "--reuid": ("--reuid=*",),
    "--clear-groups": ("--clear-groups",),
}
"""What is taken away; as root, since only root's line has all of it."""

TRIED_ELSEWHERE = {"--die-with-parent", "--nproc", "--regid", "--mount", "--propagation"}
"""With the limits, in the tests of S-47; the group by the files that are left; the mounts by what the host sees."""

HELD_TWICE = {
    "--cap-drop": "bubblewrap drops them too when its caller is not root, and root's changes user first",
    "--assert-userns-disabled": "it only checks what --disable-userns does",
    "--clearenv": "the launcher starts with an empty environment",
    "--no-new-privs": "bubblewrap sets it too",
    "--bounding-set": "a new user namespace begins with its own set, and bubblewrap empties that",
    "--inh-caps": "the same",
    "--noprofile": "root's shell has neither a home nor a terminal",
    "--norc": "the same",
}
"""Flags without which nothing changes, and what holds the line then; only the frozen command line notices."""


def without(*flag: str) -> Change:
    """A command line from which a flag and its values are missing; `*` stands for any value."""

    def matches(found: str, wanted: str) -> bool:
        return found.startswith(wanted[:-1]) if wanted.endswith("*") else found == wanted

    def change(line: list[str]) -> list[str]:
        # The last one is bubblewrap's own: root's line holds a second bubblewrap before it.
        at = max(
            n
            for n in range(len(line))
            if all(matches(*pair) for pair in zip(line[n : n + len(flag)], flag, strict=False))
            and len(line) >= n + len(flag)
        )
        return line[:at] + line[at + len(flag) :]

    return change


def comparable(seen: Seen) -> Seen:
    """Without what differs from run to run."""
    kept = {key: value for key, value in seen.items() if key != "environments"}
    host = {os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
    kept["namespaces"] = {name: link in host for name, link in kept.get("namespaces", {}).items()}
    if "limits" in kept:
        kept["limits"] = {kind: value for kind, value in kept["limits"].items() if kind != "NPROC"}
    return kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what root's sandbox does")
@pytest.mark.parametrize("name", FLAGS)
async def test_every_flag_is_needed(seen: dict[str, Seen], name: str) -> None:
    """Without this flag the sandbox does not start, or the attacks see or reach something else."""
    with box_for("root", change=without(*FLAGS[name])) as box:
        try:
            found = await attacked(box)
        except SandboxError:
            return
    assert comparable(found) != comparable(seen["root"])


async def test_comparison_is_steady(seen: dict[str, Seen]) -> None:
    """Two runs of the unchanged sandbox see the same: what the test above finds is the flag's doing."""
    for who, first in seen.items():
        with box_for(who) as box:
            assert comparable(await attacked(box)) == comparable(first)


def binding_settings(line: list[str]) -> list[str]:
    """The host's settings in view."""
    at = line.index("--proc")
    return [*line[:at], "--ro-bind", "/etc", "/etc", *line[at:]]


def binding_writable(line: list[str]) -> list[str]:
    """The host's programs writable, as far as their owner permits."""
    at = line.index("--ro-bind")
    return [*line[:at], "--bind", *line[at + 1 :]]


LEAKS: dict[str, tuple[Change, str]] = {
    "network": (without("--unshare-net"), "network"),
    "programs": (binding_writable, "/usr can be written"),
    "filter": (without("--seccomp", "*"), "filtered"),
    "root folder": (without("--remount-ro", "/"), "/ can be written"),
    "settings": (binding_settings, "settings"),
    "user": (lambda line: ["0" if word == "65534" else word for word in line], "user is 0"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what root's sandbox does")
@pytest.mark.parametrize("name", LEAKS)
async def test_the_examination_at_start_sees_a_leak(name: str) -> None:
    """A sandbox that lets one thing through is not offered, and the reason names it."""
    change, reason = LEAKS[name]
    found = await Sandbox(shape=shape_for("root", change)).probe()
    assert not found.available
    assert reason in found.reason


GOLDEN = Path(__file__).parent / "golden"
LINES = ("root", "ordinary", "network")


def line_of(name: str) -> list[str]:
    """The command line of a job of that kind."""
    job = Job(
        argv=("/bin/bash", "-c", "true"),
        workspace=Path("/srv/work"),
        workspace_descriptor=9,
        folder="/workspace/sub",
        environment={"LEVEL": "2"},
        network="host" if name == "network" else "none",
        run_as=RunAs(uid=52001, gid=52001) if name == "root" else None,
        processes=64,
        filter_descriptor=10,
        status_descriptor=11,
    )
    programs = Programs(
        **{name: f"/usr/bin/{name}" for name in ("bwrap", "prlimit", "setpriv", "unshare", "mount", "bash")}
    )
    return command_line(programs, Limits(), job)


@pytest.mark.parametrize("name", LINES)
def test_the_command_line_is_frozen(name: str) -> None:
    """The exact words for root, for anybody else, and with the network; a change here is a change of the fence."""
    assert "".join(f"{word}\n" for word in line_of(name)) == (GOLDEN / f"sandbox_{name}.txt").read_text()


def test_every_flag_is_accounted_for() -> None:
    """Each flag is tried without, held twice for a reason, or tried where its effect is tested."""
    flags = [word for name in LINES for word in line_of(name) if word.startswith("--") and word != "--"]
    tried = {parts[0].partition("=")[0] for parts in FLAGS.values()}
    assert {flag.partition("=")[0] for flag in flags} == tried | set(HELD_TWICE) | TRIED_ELSEWHERE
    assert not tried & set(HELD_TWICE)
