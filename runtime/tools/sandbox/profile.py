"""The one shape in which a program is shut in: bubblewrap's command line, and everything around it. Pure.

Inside there is `/usr` (read-only), the workspace (writable), a `/tmp` and `/dev/shm` of bounded size, a `/proc` of its
own processes, and nothing else: no home, no configuration, no database, no socket of the host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from runtime.errors import ConfigurationError
from runtime.tools.sandbox.environment import BASE

Network: TypeAlias = Literal["none", "host"]

INSIDE = "/workspace"
"""Where a program finds the workspace."""

_STAGE = "/mnt"
READ_ONLY = "/mcp"
"""Where a program sees the folder that was shown to it beside the workspace."""

_READ_ONLY_STAGE = "/srv"
"""Where root shows the other user the workspace, in a mount namespace that nothing else sees."""

_NOBODY = "65534"
_NAME_SERVICE = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may take. `memory_bytes` is address space per process (None: no limit, for programs such as the
    JVM and node that reserve far more than they use); `processes` counts threads too, beyond what the user already
    runs. Of the output the first `output_bytes` and a short end are kept; beyond `flood_bytes` the run is ended."""

    seconds: int = 600
    cpu_seconds: int = 60
    memory_bytes: int | None = 1024 * 1024 * 1024
    file_bytes: int = 64 * 1024 * 1024
    temporary_bytes: int = 64 * 1024 * 1024
    open_files: int = 256
    processes: int = 64
    output_bytes: int = 256 * 1024
    flood_bytes: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise ConfigurationError(f"the limit {field.name} is {value}; it must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where the programs are that shut another one in."""

    bwrap: str
    prlimit: str
    setpriv: str
    unshare: str
    mount: str
    bash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAs:
    """The user under which a program runs, when we are root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: what, where, under which user; and the descriptors of the workspace, the filter and the status."""

    argv: Sequence[str]
    workspace: Path
    workspace_descriptor: int
    folder: str
    environment: Mapping[str, str]
    network: Network
    run_as: RunAs | None
    processes: int
    filter_descriptor: int
    status_descriptor: int
    read_only: Path | None = None


def command_line(programs: Programs, limits: Limits, job: Job) -> list[str]:
    """Everything that is executed, from the first program on."""
    line: list[str] = []
    if job.run_as is not None:
        staged = _stage(programs, job.workspace, job.workspace_descriptor, job.read_only)
        line += staged + _other_user(programs, job.run_as)
    line += _limited(programs, limits, job.processes)
    source = str(job.workspace) if job.run_as is None else _STAGE
    line += [programs.bwrap, *namespaces(job.network), *_variables(job.environment)]
    line += [*file_system(limits, job.network), "--bind", source, INSIDE, "--chdir", job.folder]
    if job.read_only is not None:
        line += ["--ro-bind", str(job.read_only) if job.run_as is None else _READ_ONLY_STAGE, READ_ONLY]
    line += ["--remount-ro", "/"]
    line += ["--seccomp", str(job.filter_descriptor), "--json-status-fd", str(job.status_descriptor)]
    return [*line, "--", *job.argv]


def _stage(programs: Programs, workspace: Path, descriptor: int, read_only: Path | None) -> list[str]:
    """Root puts the folder that was judged where the other user can reach it, whatever the folders above it permit.

    A descriptor cannot be mounted in another mount namespace, so the path is entered again and compared with it. Each
    step replaces itself by the next: bubblewrap stays our own child, and dies with us.
    """
    enter = f'cd -P -- "$1" && [[ . -ef /proc/self/fd/{descriptor} ]] || {{ echo "the workspace was moved"; exit 1; }}'
    show = f'{programs.mount} --no-canonicalize --bind . {_STAGE} && cd / && shift && exec "$@" {descriptor}<&-'
    if read_only is not None:
        beside = f'{programs.mount} --no-canonicalize --bind -- "$2" {_READ_ONLY_STAGE}'
        show = f"{beside} && {show.replace('shift', 'shift 2')}"
    own = [programs.unshare, "--mount", "--propagation", "private", "--"]
    return [
        *own,
        programs.bash,
        "--noprofile",
        "--norc",
        "-c",
        f"{enter}; {show}",
        "stage",
        str(workspace),
        *([] if read_only is None else [str(read_only)]),
    ]


def _other_user(programs: Programs, run_as: RunAs) -> list[str]:
    """Bubblewrap that is started by root keeps every capability, and what is written would be root's."""
    user = [f"--reuid={run_as.uid}", f"--regid={run_as.gid}", "--clear-groups"]
    return [programs.setpriv, *user, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def _limited(programs: Programs, limits: Limits, processes: int) -> list[str]:
    memory = [] if limits.memory_bytes is None else [f"--as={limits.memory_bytes}"]
    cpu = f"--cpu={limits.cpu_seconds}:{limits.cpu_seconds + 1}"
    rest = [f"--fsize={limits.file_bytes}", f"--nofile={limits.open_files}", f"--nproc={processes}", "--core=0"]
    return [programs.prlimit, cpu, *memory, *rest, "--"]


def namespaces(network: Network) -> list[str]:
    """What of the host a program does not share, and who it is inside."""
    shared = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    if network == "none":
        shared.append("--unshare-net")
    identity = ["--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "sandbox"]
    rights = ["--cap-drop", "ALL", "--disable-userns", "--assert-userns-disabled"]
    return [*shared, *identity, *rights, "--die-with-parent", "--new-session"]


def _variables(environment: Mapping[str, str]) -> list[str]:
    line = ["--clearenv"]
    for name, value in {**BASE, **environment}.items():
        line += ["--setenv", name, value]
    return line


def file_system(limits: Limits, network: Network) -> list[str]:
    """All that can be seen, but for the workspace. What is writable has a size: it is the host's memory."""
    size = ["--size", str(limits.temporary_bytes)]
    links = [part for name in ("bin", "sbin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    system = ["--ro-bind", "/usr", "/usr", *links, *_if_there("/etc/alternatives", "/etc/ld.so.cache")]
    if network == "host":
        system += _if_there(*_NAME_SERVICE)
    devices = ["--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108 - the sandbox's
    return [*system, "--proc", "/proc", *devices, *size, "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own


def _if_there(*paths: str) -> list[str]:
    return [part for path in paths for part in ("--ro-bind-try", path, path)]


def profile_hash(limits: Limits, network: Network, seccomp: bytes) -> str:
    """Short hash of everything that shuts a program in, but for the folder and the run itself."""
    programs = Programs(
        bwrap="bwrap", prlimit="prlimit", setpriv="setpriv", unshare="unshare", mount="mount", bash="bash"
    )
    job = Job(
        argv=(),
        workspace=Path("/"),
        workspace_descriptor=0,
        folder=INSIDE,
        environment={},
        network=network,
        run_as=RunAs(uid=0, gid=0),
        processes=limits.processes,
        filter_descriptor=0,
        status_descriptor=0,
    )
    material = msgspec.json.encode([command_line(programs, limits, job), asdict(limits)], order="deterministic")
    return hashlib.sha256(material + seccomp).hexdigest()[:16]
