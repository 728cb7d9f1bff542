"""S-16: the files that a command names are part of what was approved; rewritten, replaced or moved ones do not run."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.policy import ApprovalPolicy
from runtime.protocol.context import ToolCall
from runtime.session.gate import Ask, Gate, Ticket
from runtime.testing import FakeClock
from runtime.tools.base import ToolContext
from runtime.tools.shell import NOT_FIXED, OTHER_FILES, shell_tool
from tests.security.workspaces import make_workspace

GOOD, EVIL = "echo good\n", "echo evil\n"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    """A call in a workspace with a script, and another one in a folder."""
    context = make_workspace(tmp_path)
    root = root_of(context)
    (root / "sub").mkdir()
    for path in (root / "run.sh", root / "sub" / "run.sh", root / "data.txt"):
        path.write_text(GOOD)
    return context


def root_of(context: ToolContext) -> Path:
    """The folder of the workspace."""
    assert context.workspace is not None
    return context.workspace.path


@pytest.fixture
def gate() -> Gate:
    """A gate that asks about the shell."""
    return Gate(
        [shell_tool()],
        ApprovalPolicy.ASK,
        clock=FakeClock(),
        redact=lambda text: text,
        output_limit=10_000,
        new_reference=lambda: "ref",
    )


async def approved(gate: Gate, context: ToolContext, command: str, folder: str = ".") -> Ticket:
    """The ticket that an approval of this command would give."""
    call = ToolCall(call_id="c1", name="shell", arguments={"command": command, "folder": folder})
    verdict = await gate.authorise(call, context, (), 0)
    assert isinstance(verdict, Ask)
    return Ticket(call_id="c1", action=verdict.action, digest=verdict.action.digest(), idempotency_key="k", gated=True)


async def changed(gate: Gate, context: ToolContext, ticket: Ticket) -> str | None:
    """Why the approval does not hold any more."""
    return await gate.changed_since(ticket, context, {})


def rewrite(root: Path) -> None:
    """Same size, same time of change, other content."""
    path = root / "run.sh"
    before = path.stat()
    path.write_text(EVIL)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def replace_by_equal(root: Path) -> None:
    """Another file with the same content: it can be rewritten by whoever holds it open."""
    (root / "new.sh").write_text(GOOD)
    (root / "new.sh").rename(root / "run.sh")


def replace_by_link(root: Path) -> None:
    """A link to a file with the same content."""
    (root / "run.sh").unlink()
    (root / "run.sh").symlink_to("sub/run.sh")


def remove(root: Path) -> None:
    """Nothing is there any more."""
    (root / "run.sh").unlink()


def hard_link(root: Path) -> None:
    """A second name, by which somebody outside could rewrite it."""
    os.link(root / "run.sh", root.parent / "second")


CHANGES: list[Callable[[Path], None]] = [rewrite, replace_by_equal, replace_by_link, remove, hard_link]

COMMANDS = [
    "bash run.sh",
    "sh ./run.sh --fast",
    "./run.sh",
    "/workspace/run.sh",
    "bash /workspace/run.sh",
    "python3 run.sh",
    ". run.sh",
    "cat run.sh | sh",
    "sh < run.sh",
    "timeout 5 nice bash run.sh",
    "env LEVEL=2 bash run.sh",
    "LEVEL=2 bash 'run.sh'",
    "true && bash run.sh || false",
    "(bash run.sh)",
    "tool --file=run.sh",
    "cd sub; bash ../run.sh; bash /workspace/run.sh",
    "echo x >> run.sh",
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_changed_file_is_not_run(
    gate: Gate, context: ToolContext, command: str, change: Callable[[Path], None]
) -> None:
    """However the command names the script, and however it is changed after the approval, the approval is void."""
    ticket = await approved(gate, context, command)
    assert await changed(gate, context, ticket) is None
    change(root_of(context))
    assert await changed(gate, context, ticket) == "a file has changed"


async def test_a_swapped_folder_is_not_used(gate: Gate, context: ToolContext) -> None:
    """Another folder under the name of the one that was approved is noticed, whatever is in it."""
    ticket = await approved(gate, context, "bash run.sh", folder="sub")
    assert list(ticket.action.files) == ["sub/run.sh"]
    root = root_of(context)
    shutil.copytree(root / "sub", root / "copy")
    (root / "sub").rename(root / "old")
    (root / "copy").rename(root / "sub")
    assert await changed(gate, context, ticket) == "a file has changed"


async def test_a_file_that_comes_about_is_noticed(gate: Gate, context: ToolContext) -> None:
    """A script that was not there when the command was approved does not run unseen."""
    ticket = await approved(gate, context, "bash later.sh || tool other.txt")
    assert ticket.action.files["later.sh"] == "absent"
    (root_of(context) / "other.txt").write_text("x")
    assert await changed(gate, context, ticket) == "a file has changed"


async def test_a_file_that_is_not_named_does_not_matter(gate: Gate, context: ToolContext) -> None:
    """Work goes on around an approval: only what the command names is tied to it."""
    ticket = await approved(gate, context, "bash run.sh")
    (root_of(context) / "data.txt").write_text("more")
    (root_of(context) / "new.txt").write_text("new")
    assert await changed(gate, context, ticket) is None


async def test_what_is_shown_says_which_file(gate: Gate, context: ToolContext) -> None:
    """Digest, size and identity of the file are in the action, and nothing is said to be open."""
    ticket = await approved(gate, context, "bash run.sh")
    inode = (root_of(context) / "run.sh").stat().st_ino
    digest = hashlib.sha256(GOOD.encode()).hexdigest()
    assert ticket.action.files == {"run.sh": f"{digest} (10 bytes, inode {inode})"}


@pytest.mark.parametrize(
    "command",
    [
        *(
            "make",
            "npm test",
            "pytest -q",
            "git pull",
            "python3 -m tool",
            "bash -c 'echo x'",
            "./run.sh; make",
            "xargs rm",
        ),
        *("bash $SCRIPT", "bash *.sh", "bash `cat name`", "bash ~/run.sh", "bash <(cat run.sh)", "eval 'bash run.sh'"),
        *(
            "cat run.sh | sh",
            "bash <<EOF\necho x\nEOF",
            "cd sub && bash run.sh",
            "bash 'unclosed",
            "find . -exec sh {} ;",
        ),
        *("bash ../outside.sh", "bash sub", "PATH=. run.sh", "bash {a,b}.sh", "! bash run.sh"),
    ],
)
async def test_what_cannot_be_tied_is_said(gate: Gate, context: ToolContext, command: str) -> None:
    """Where a command may run or read what it does not name, the person is told that contents are not fixed."""
    ticket = await approved(gate, context, command)
    assert ticket.action.files[OTHER_FILES] == NOT_FIXED


@pytest.mark.parametrize(
    "path", ["link.sh", "fifo", "huge.sh", "hard.sh"], ids=["link out", "no file", "too large", "second name"]
)
async def test_a_file_that_cannot_be_tied_is_said(gate: Gate, context: ToolContext, path: str) -> None:
    """A script that is refused to the file tools is not called fixed, and asking about it does not hang."""
    root = root_of(context)
    (root.parent / "outside.sh").write_text(EVIL)
    (root / "link.sh").symlink_to(root.parent / "outside.sh")
    os.mkfifo(root / "fifo")
    with (root / "huge.sh").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    os.link(root.parent / "outside.sh", root / "hard.sh")
    ticket = await approved(gate, context, f"bash {path}")
    assert ticket.action.files == {path: NOT_FIXED, OTHER_FILES: NOT_FIXED}


async def test_a_shell_is_never_allowed_for_a_session(gate: Gate, context: ToolContext) -> None:
    """ "Always" is not offered for a shell, fixed contents or not."""
    call = ToolCall(call_id="c1", name="shell", arguments={"command": "ls"})
    assert gate.high_risk([call])
