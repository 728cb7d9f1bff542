"""The sandbox as others use it: proven once at start, then asked to run programs. Without proof nothing runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from runtime.clock import Clock, SystemClock
from runtime.errors import SandboxError
from runtime.tools.base import Workspace
from runtime.tools.sandbox.launcher import Ended, run_shut_in
from runtime.tools.sandbox.profile import INSIDE, Job, Limits, Network, Programs, command_line, profile_hash
from runtime.tools.sandbox.seccomp import seccomp_filter
from runtime.tools.sandbox.users import opened_workspace, process_limit

SEARCH_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"
"""Where the programs that shut others in are looked for; not in the caller's PATH, which others may have set."""

PROBE_SECONDS = 20


Shape: TypeAlias = Callable[[Programs, Limits, Job], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether programs can be shut in here; if not, why, and what would help."""

    available: bool
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run. `folder` is relative to the workspace; `environment` comes on top of the fixed variables.

    `read_only` is a folder of the host that the program sees as /mcp.
    """

    argv: Sequence[str]
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    read_only: Path | None = None


_UNPROVEN = Availability(available=False, reason="the sandbox was not examined yet", remedy="examine it first")


class Sandbox:
    """Runs programs within `limits`. It refuses to until `probe` has shown that nothing gets out.

    `shape` is replaced by tests only, to see what happens without a part of it.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        clock: Clock | None = None,
        search_path: str = SEARCH_PATH,
        shape: Shape = command_line,
    ) -> None:
        self.limits = limits or Limits()
        self._shape = shape
        self._clock = clock or SystemClock()
        self._search_path = search_path
        self._availability = _UNPROVEN

    def available(self) -> Availability:
        """What the last probe found."""
        return self._availability

    def profile(self, network: Network) -> str:
        """Names exactly how programs are shut in: equal names mean equal rules and limits."""
        return f"bubblewrap {profile_hash(self.limits, network, _filter_or_nothing())}"

    async def run(self, program: Program, workspace: Workspace, *, seconds: float) -> Ended:
        """Run a program to its end, at most for `seconds`; nothing of it is left on return, also when cancelled.

        SandboxError: there is no working sandbox, or this workspace cannot be used in it; nothing was run.
        """
        if not self._availability.available:
            raise SandboxError(f"Programs cannot be run here: {self._availability.reason}.")
        return await self._run(program, workspace.path, workspace.network, seconds)

    async def serve(
        self, program: Program, workspace: Workspace, *, seconds: float, stdin: int, take: Callable[[bytes], None]
    ) -> Ended:
        """As `run`, for a program that is talked to: it reads from `stdin`, and `take` gets what it prints."""
        if not self._availability.available:
            raise SandboxError(f"Programs cannot be run here: {self._availability.reason}.")
        return await self._run(program, workspace.path, workspace.network, seconds, stdin=stdin, take=take)

    async def probe(self) -> Availability:
        """Run one program that tries to get out, and remember what came of it."""
        try:
            self._availability = await self._examined()
        except SandboxError as error:
            self._availability = _unavailable(str(error))
        return self._availability

    async def _examined(self) -> Availability:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="pilothouse-probe-"))
        try:
            said = await self._attack(folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if said == _CONTAINED:
            return Availability(available=True)
        return Availability(available=False, reason=f"a program got out of the sandbox: {said[:200] or 'no word'}")

    async def _attack(self, folder: Path) -> str:
        workspace, secret = folder / "workspace", folder / "secret"
        workspace.mkdir()
        secret.write_text("a file of the host\n")
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            port = listener.getsockname()[1]
            argv = ("/bin/bash", "--noprofile", "--norc", "-c", _ATTACK, "probe", str(secret), str(port), _own_pid())
            ended = await self._run(Program(argv=argv), workspace, "none", PROBE_SECONDS)
        return ended.output.head.decode(errors="replace").strip()

    async def _run(
        self,
        program: Program,
        workspace: Path,
        network: Network,
        seconds: float,
        *,
        stdin: int | None = None,
        take: Callable[[bytes], None] | None = None,
    ) -> Ended:
        programs = found_programs(self._search_path)
        with opened_workspace(workspace) as opened:
            processes = process_limit(opened.run_as, self.limits.processes)

            def line(filter_descriptor: int, status_descriptor: int) -> Sequence[str]:
                job = Job(
                    argv=program.argv,
                    workspace=workspace,
                    workspace_descriptor=opened.descriptor,
                    folder=f"{INSIDE}/{program.folder}" if program.folder else INSIDE,
                    environment=program.environment,
                    network=network,
                    run_as=opened.run_as,
                    processes=processes,
                    filter_descriptor=filter_descriptor,
                    status_descriptor=status_descriptor,
                    read_only=program.read_only,
                )
                return self._shape(programs, self.limits, job)

            return await run_shut_in(
                line,
                seccomp_filter(os.uname().machine),
                () if opened.run_as is None else (opened.descriptor,),
                seconds=seconds,
                keep_bytes=self.limits.output_bytes,
                flood_bytes=self.limits.flood_bytes,
                clock=self._clock,
                stdin=stdin,
                take=take,
            )


def found_programs(search_path: str) -> Programs:
    """The programs that shut others in; SandboxError names the first that is missing."""
    return Programs(
        bwrap=_found("bwrap", search_path),
        prlimit=_found("prlimit", search_path),
        setpriv=_found("setpriv", search_path),
        unshare=_found("unshare", search_path),
        mount=_found("mount", search_path),
        bash=_found("bash", search_path),
    )


def _found(name: str, search_path: str) -> str:
    path = shutil.which(name, path=search_path)
    if path is None:
        raise SandboxError(f"the program {name} is not installed")
    return path


_REMEDIES = (
    ("bwrap is not installed", "install the package `bubblewrap`"),
    ("is not installed", "install the packages `util-linux`, `mount` and `bash`"),
    ("Unknown option", "install bubblewrap 0.8 or newer"),
    ("namespace", "let this user make user namespaces: containers and some distributions forbid it"),
    ("Operation not permitted", "let this user make user namespaces: containers and some distributions forbid it"),
)


def _unavailable(reason: str) -> Availability:
    remedy = next((remedy for part, remedy in _REMEDIES if part in reason), "run `pilothouse doctor` for more")
    return Availability(available=False, reason=reason, remedy=remedy)


def _filter_or_nothing() -> bytes:
    try:
        return seccomp_filter(os.uname().machine)
    except SandboxError:
        return b""  # an action must come about for every call; running it says what is wrong


def _own_pid() -> str:
    return str(os.getpid())


_CONTAINED = "contained"

_ATTACK = r"""
out() { echo "$1"; exit 3; }
exec 2>/dev/null
: >/workspace/probe || out 'the workspace cannot be written'
[ -e "$1" ] && out 'a file of the host can be seen'
[ -e /etc/passwd ] && out 'the settings of the host can be seen'
while read -r _ place _ options _; do
  case $place in
    / | /usr | /dev | /etc/*) [[ ,$options, == *,ro,* ]] || out "$place can be written" ;;
  esac
done </proc/self/mounts
(exec 3<>"/dev/tcp/127.0.0.1/$2") && out 'the network of the host can be reached'
kill -0 "$3" && [ "$3" -gt 99 ] && out 'processes of the host can be reached'
unshare --user true && out 'new namespaces can be made'
mount -t tmpfs none /tmp && out 'file systems can be mounted'
while read -r name value _; do
  case $name in
    Uid:) [ "$value" = 65534 ] || out "the user is $value" ;;
    CapEff: | CapPrm: | CapBnd: | CapAmb:) [ "$value" = 0000000000000000 ] || out "it holds $name $value" ;;
    NoNewPrivs:) [ "$value" = 1 ] || out 'it could gain rights' ;;
    Seccomp:) [ "$value" = 2 ] || out 'system calls are not filtered' ;;
  esac
done </proc/self/status
echo contained
"""
