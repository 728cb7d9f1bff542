"""S-38: what goes out as a file comes only from this workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import ToolContext
from runtime.tools.send_file import OutgoingFile, SendFile
from tests.security.workspaces import SECRET, make_workspace


class Recorder:
    """Takes what is posted."""

    def __init__(self) -> None:
        self.posted: list[OutgoingFile] = []

    async def __call__(self, file: OutgoingFile, context: ToolContext) -> None:
        self.posted.append(file)


async def send(path: str, context: ToolContext, post: Recorder) -> str:
    """What the model is told; a refusal begins with `refused: `."""
    tool = SendFile(post)
    try:
        arguments = tool.validate(ToolCall(call_id="c", name="send_file", arguments={"path": path}))
        tool.action(arguments, context)
        return str(await tool.run(arguments, context))
    except ToolError as error:
        return f"refused: {error}"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    """A workspace with everything in it that must not go out, and a secret next door."""
    made = make_workspace(tmp_path)
    assert made.workspace is not None
    root = made.workspace.path
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.txt").write_text(SECRET)
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to(tmp_path / "other")
    os.link(tmp_path / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "fifo")
    (root / "empty.txt").touch()
    (root / "plain").mkdir()
    (root / "fine.txt").write_text("fine")
    return made


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../secret.txt", "../other/secret.txt", "link.txt", "folder/secret.txt", "hard.txt", "fifo",
     "/proc/self/environ", "file:///etc/passwd", "https://example.com/x", "plain", "empty.txt", "absent.txt", ""],
)  # fmt: skip
@pytest.mark.timeout(10)
async def test_nothing_from_outside_goes_out(context: ToolContext, path: str) -> None:
    """Links, fifos, devices, other folders and addresses are refused at once, and nothing is posted."""
    post = Recorder()
    assert (await send(path, context, post)).startswith("refused: ")
    assert post.posted == []


async def test_what_is_opened_is_what_goes_out(context: ToolContext) -> None:
    """A file of the workspace goes out with its bytes, and its action names their hash before anybody is asked."""
    post = Recorder()
    assert await send("fine.txt", context, post) == "fine.txt (4 bytes) is on its way."
    assert post.posted == [OutgoingFile(name="fine.txt", content=b"fine")]
    tool = SendFile(post)
    action = tool.action({"path": "fine.txt", "caption": ""}, context)
    assert list(action.files) == ["fine.txt"]
    assert len(action.files["fine.txt"]) == 64
