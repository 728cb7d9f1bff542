"""S-46: without a sandbox that was seen to hold, no program is run, and the reason is told."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import SandboxError
from runtime.tools.base import ToolContext
from runtime.tools.sandbox import Limits, Program, Sandbox
from runtime.tools.sandbox.profile import Job, Programs, command_line
from runtime.tools.shell import Shell, shell_tool
from tests.security.sandboxes import SHELL, workspace_for


def programs_in(folder: Path, *names: str, bwrap: str | None = None) -> str:
    """A folder to look for programs in: links to the real ones, and perhaps a `bwrap` of our own."""
    folder.mkdir()
    for name in names:
        real = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        assert real is not None, name
        (folder / name).symlink_to(real)
    if bwrap is not None:
        (folder / "bwrap").write_text(bwrap)
        (folder / "bwrap").chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    return str(folder)


async def refused(sandbox: Sandbox) -> str:
    """That nothing runs, neither directly nor by the tool; the reason."""
    found = await sandbox.probe()
    assert not found.available
    assert sandbox.available() == found
    with workspace_for("root") as workspace:
        program = Program(argv=(*SHELL, "touch ran"))
        with pytest.raises(SandboxError):
            await sandbox.run(program, workspace, seconds=5)
        arguments = {"command": "touch ran", "folder": ".", "seconds": 5, "environment": {}}
        context = ToolContext(session_id="s1", turn_id="t1", call_id="c1", workspace=workspace)
        with pytest.raises(SandboxError, match="Programs cannot be run here"):
            await Shell(sandbox).run(arguments, context)
        assert list(workspace.path.iterdir()) == []
    return found.reason


async def test_before_it_was_examined_nothing_runs() -> None:
    """A sandbox that was never tried is not available: forgetting to examine it fails closed."""
    tool = shell_tool()
    assert not tool.sandbox.available().available
    with workspace_for("root") as workspace, pytest.raises(SandboxError, match="not examined"):
        await tool.sandbox.run(Program(argv=(*SHELL, "touch ran")), workspace, seconds=5)


async def test_after_it_was_examined_programs_run() -> None:
    """On a machine that can shut programs in, the examination finds that, and leaves nothing behind."""
    sandbox = Sandbox()
    found = await sandbox.probe()
    assert found.available, found
    with workspace_for("root") as workspace:
        ended = await sandbox.run(Program(argv=(*SHELL, "echo ran")), workspace, seconds=20)
        assert (ended.exit_code, ended.output.head) == (0, b"ran\n")


NEEDED = ("bwrap", "prlimit", "setpriv", "unshare", "mount", "bash")


@pytest.mark.parametrize("missing", NEEDED)
async def test_a_missing_program(tmp_path: Path, missing: str) -> None:
    """Each program that shuts others in is needed, and the reason names the one that is not there."""
    there = [name for name in NEEDED if name != missing]
    sandbox = Sandbox(search_path=programs_in(tmp_path / "bin", *there))
    assert await refused(sandbox) == f"the program {missing} is not installed"
    assert "install" in sandbox.available().remedy


async def test_our_own_path_is_not_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `bwrap` that somebody put on our PATH is never started."""
    bait = f"#!/bin/sh\ntouch {tmp_path}/ran\n"
    monkeypatch.setenv("PATH", f"{programs_in(tmp_path / 'bin', bwrap=bait)}:{os.environ['PATH']}")
    assert (await Sandbox().probe()).available
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexit 1\n", "ended with code 1"),
        ("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n", "No permissions to create"),
        ("#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2; exit 1\n", "Unknown option"),
    ],
)
async def test_bubblewrap_that_fails(tmp_path: Path, script: str, reason: str) -> None:
    """Whatever bubblewrap says when it fails is the reason, and nothing is run without it."""
    path = programs_in(tmp_path / "bin", *NEEDED[1:], bwrap=script)
    tmp_path.chmod(0o711)
    sandbox = Sandbox(search_path=path, shape=without_stage)
    assert reason in await refused(sandbox)
    assert sandbox.available().remedy


def without_stage(programs: Programs, limits: Limits, job: Job) -> Sequence[str]:
    """The line of an ordinary user, so that `bwrap` is the first program that can fail."""
    return command_line(programs, limits, replace(job, run_as=None))


async def test_bubblewrap_that_shuts_nothing_in(tmp_path: Path) -> None:
    """One that only pretends, reports included, is seen through."""
    script = """#!/bin/bash
while [ $# -gt 0 ]; do
  case $1 in
    --json-status-fd) echo '{ "child-pid": '$$' }' >&$2; status=$2 ;;
    --) shift; break ;;
  esac
  shift
done
"$@"; code=$?
[ -n "$status" ] && echo "{ \\"exit-code\\": $code }" >&$status
exit $code
"""
    path = programs_in(tmp_path / "bin", *NEEDED[1:], bwrap=script)
    reason = await refused(Sandbox(search_path=path, shape=without_stage))
    assert reason.startswith("a program got out of the sandbox")


def in_a_place_without_user_namespaces(programs: Programs, limits: Limits, job: Job) -> Sequence[str]:
    """The line, started where the kernel grants no further user namespace."""
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    line = command_line(programs, limits, replace(job, run_as=None))
    return ["/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh", "-c", forbid, "sh", *line]


async def test_a_kernel_without_user_namespaces() -> None:
    """Where containers or distributions forbid them, bubblewrap's refusal is the reason."""
    sandbox = Sandbox(shape=in_a_place_without_user_namespaces)
    reason = await refused(sandbox)
    assert "namespace" in reason
    assert "user namespaces" in sandbox.available().remedy


async def test_an_unusable_workspace_runs_nothing() -> None:
    """A folder of root's with something in it stays as it is, and the reason says what to do."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of root's")
    sandbox = Sandbox()
    assert (await sandbox.probe()).available
    with workspace_for("root") as workspace:
        os.chown(workspace.path, 0, 0)
        (workspace.path / "file").write_text("x")
        with pytest.raises(SandboxError, match="belongs to root and is not empty"):
            await sandbox.run(Program(argv=(*SHELL, "touch ran")), workspace, seconds=5)
        assert [path.name for path in workspace.path.iterdir()] == ["file"]
        assert workspace.path.stat().st_uid == 0


CONFIGURATION_WORDS = ("toml", "[[", "config", "allow", "token", "override", "unsandboxed", "approval")


async def test_refusals_name_no_way_around(tmp_path: Path) -> None:
    """What the model is told when nothing runs names no setting that would change it."""
    reason = await refused(Sandbox(search_path=programs_in(tmp_path / "bin")))
    assert not [word for word in CONFIGURATION_WORDS if word in reason.casefold()]
