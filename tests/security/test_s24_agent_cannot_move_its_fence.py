"""S-24: with the file tools an agent reaches nothing that decides what it may do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.security.workspaces import AIMED, SECRET, attempt, make_workspace

FENCE = ["pilothouse.toml", "state/gateway.db", "state/gateway.db-wal", "state/log.jsonl", "units/pilothouse.service"]

CONFIGURATION_WORDS = (
    "approvals",
    "approvers",
    "owners",
    "allow",
    "pilothouse.toml",
    "state_dir",
    "workspaces",
    "[[",
    "token",
    "sandbox",
    "override",
    "config",
)


def lay_fence(folder: Path) -> None:
    """The files that hold the fence, beside the workspace."""
    for name in FENCE:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(SECRET)


def ways_to(folder: Path, root: Path, name: str) -> list[str]:
    """Every spelling under which a model may try to reach a file outside."""
    (root / "shortcut").unlink(missing_ok=True)
    (root / "shortcut").symlink_to(folder)
    descriptor = f"/proc/{os.getpid()}/root{folder}/{name}"
    return [
        str(folder / name),
        f"../{name}",
        f"./.././{name}",
        f"sub/../../{name}",
        f"shortcut/{name}",
        descriptor,
        f"/proc/self/cwd/../{name}",
    ]


@pytest.mark.parametrize("aim", AIMED)
@pytest.mark.parametrize("name", FENCE)
async def test_the_fence_is_neither_read_nor_written(tmp_path: Path, aim: str, name: str) -> None:
    """Configuration, database, logs and unit files beside a workspace are out of reach under every spelling."""
    context = make_workspace(tmp_path)
    assert context.workspace is not None
    lay_fence(tmp_path)
    for path in ways_to(tmp_path, context.workspace.path, name):
        told = await attempt(aim, path, context)
        assert told.startswith("refused: "), path
        assert SECRET not in told, path
    assert [(tmp_path / name).read_text() for name in FENCE] == [SECRET] * len(FENCE)


@pytest.mark.parametrize("aim", [aim for aim in AIMED if aim.startswith("write_file")])
async def test_missing_parts_of_the_fence_cannot_be_made(tmp_path: Path, aim: str) -> None:
    """What does not exist yet cannot be created outside either: a policy that is absent stays absent."""
    context = make_workspace(tmp_path)
    assert context.workspace is not None
    for name in FENCE:
        for path in ways_to(tmp_path, context.workspace.path, name):
            assert (await attempt(aim, path, context)).startswith("refused: "), path
    assert [entry.name for entry in tmp_path.iterdir()] == ["workspace"]


@pytest.mark.parametrize("aim", AIMED)
async def test_refusals_name_no_way_around(tmp_path: Path, aim: str) -> None:
    """A refusal says what is wrong with the call and never which setting would permit it."""
    context = make_workspace(tmp_path, "w")
    assert context.workspace is not None
    root = context.workspace.path
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "fifo")
    paths = ["/etc/passwd", "../x", "link", "fifo", ".git/hooks/x", "-rf", "a\0b", "missing/x", "x" * 300, "bidi\u202e"]
    told = [await attempt(aim, path, context) for path in paths]
    refusals = [sentence for sentence in told if sentence.startswith("refused: ")]
    assert len(refusals) >= 7
    for sentence in refusals:
        assert not [word for word in CONFIGURATION_WORDS if word in sentence.casefold()], sentence
