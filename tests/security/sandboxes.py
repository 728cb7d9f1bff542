"""Sandboxes as root and as an ordinary user start them, workspaces for them, and whether a process still lives."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime.tools.base import Workspace
from runtime.tools.sandbox import Ended, Limits, Program, Sandbox
from runtime.tools.sandbox.profile import Job, Programs, command_line

SHELL = ("/bin/bash", "--noprofile", "--norc", "-c")
ATTACKS = Path(__file__).with_name("sandbox_attacks.py")
# Of each test process its own: the kernel counts a user's processes, and other tests may run beside.
ORDINARY_USER = 40_000 + 2 * (os.getpid() % 5_000)
OWN_USER = ORDINARY_USER + 1
CANARY = "CANARY-OF-THE-HOST"

WHO = ("root", "ordinary")

Change = Callable[[list[str]], list[str]]


def can_be(who: str) -> bool:
    """Whether these tests can start a sandbox as that user; root can do both."""
    return os.geteuid() == 0 or who == "ordinary"


def unchanged(line: list[str]) -> list[str]:
    """The command line as it is."""
    return line


def shape_for(who: str, change: Change = unchanged) -> Callable[[Programs, Limits, Job], Sequence[str]]:
    """How the sandbox is started by `who`, with a change to the command line.

    Root starts the ordinary user's as that user, without the rights of root.
    """

    def shape(programs: Programs, limits: Limits, job: Job) -> Sequence[str]:
        if who == "root" or os.geteuid() != 0:
            return change(list(command_line(programs, limits, job)))
        assert job.run_as is not None
        user = [f"--reuid={job.run_as.uid}", f"--regid={job.run_as.gid}", "--clear-groups"]
        line = change(list(command_line(programs, limits, replace(job, run_as=None))))
        # An ordinary user's launcher does not hand this descriptor on.
        closed = ["/bin/bash", "-c", f'exec "$@" {job.workspace_descriptor}<&-', "closed"]
        return [*closed, programs.setpriv, *user, "--", *line]

    return shape


@dataclass(frozen=True, kw_only=True)
class Box:
    """A workspace and a sandbox."""

    sandbox: Sandbox
    workspace: Workspace
    who: str

    @property
    def path(self) -> Path:
        """The folder of the workspace."""
        return self.workspace.path

    async def run(self, command: str, *, seconds: float = 20) -> Ended:
        """A command for the shell, whether the sandbox was examined or not."""
        program = Program(argv=(*SHELL, command))
        return await self.sandbox._run(program, self.path, self.workspace.network, seconds)

    async def says(self, command: str) -> str:
        """What a command prints."""
        return (await self.run(command)).output.head.decode().strip()


@contextmanager
def workspace_for(who: str) -> Generator[Workspace]:
    """An empty workspace: root's, or an ordinary user's where that user can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="sandboxed-"))
    try:
        path = folder / "workspace"
        path.mkdir()
        (folder / "secret").write_text(CANARY)
        if os.geteuid() == 0:
            owner = ORDINARY_USER if who == "ordinary" else OWN_USER
            os.chown(path, owner, owner)
        if who == "ordinary":
            folder.chmod(0o711)
        yield Workspace(id="w1", label="work", path=path)
    finally:
        shutil.rmtree(folder)


@contextmanager
def box_for(who: str, limits: Limits | None = None, change: Change = unchanged) -> Generator[Box]:
    """A sandbox as `who` starts it, and a workspace for it."""
    with workspace_for(who) as workspace:
        sandbox = Sandbox(limits or Limits(), shape=shape_for(who, change))
        yield Box(sandbox=sandbox, workspace=workspace, who=who)


async def attacked(box: Box) -> dict[str, Any]:
    """What came of every attack from inside the box, and how often the host's loopback was reached."""
    shutil.copy(ATTACKS, box.path / "attacks.py")
    (box.path / "attacks.py").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        argv = ("/usr/bin/python3", "-I", "attacks.py", f"{box.path.parent}/secret", str(port), str(os.getpid()))
        ended = await box.sandbox._run(Program(argv=argv), box.path, "none", 60)
        with suppress(BlockingIOError):
            listener.accept()[0].close()
            return {"reached": "the host"}
    printed = ended.output.head.decode()
    return json.loads(printed) if ended.exit_code == 0 else {"failed": printed}


def processes_with(mark: str) -> list[int]:
    """The processes whose command line holds `mark`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def processes_of(uid: int) -> list[int]:
    """The processes of a user."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                found.append(int(entry.name))
    return found


def gone_within(process: int, seconds: float) -> bool:
    """Whether a process ends within that time."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def interpreter_for(who: str, root: Path) -> list[str] | None:
    """How `who` can start Python with this checkout; None if that user cannot read it."""
    import sys

    import msgspec

    libraries = str(Path(msgspec.__file__).parents[1])
    user: list[str] = []
    if who == "ordinary" and os.geteuid() == 0:
        user = ["setpriv", f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups", "--"]
    for python in (sys.executable, "/usr/bin/python3"):
        command = [*user, "env", f"PYTHONPATH={root}:{libraries}", python]
        done = subprocess.run([*command, "-c", "import runtime.tools.sandbox"], capture_output=True, cwd="/")
        if done.returncode == 0:
            return command
    return None
