"""A workspace with a neighbour that no tool may ever see."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.tools.base import ToolContext, Workspace
from runtime.tools.openers import FolderWalk, Openat2, Opener, best_opener


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the workspace; beside it lies a file with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("SECRET")
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    """The workspace."""
    return Workspace(id="w1", label="work", path=root)


@pytest.fixture
def context(workspace: Workspace) -> ToolContext:
    """The context of a call in that workspace."""
    return ToolContext(session_id="s1", turn_id="t1", call_id="c1", workspace=workspace, principal="telegram:42")


@pytest.fixture(params=["openat2", "walk"])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Both ways to hold the fence: the kernel's, and the walk for kernels without it."""
    if request.param == "walk":
        return FolderWalk()
    if not isinstance(best_opener(), Openat2):
        pytest.skip("this kernel has no openat2")
    return Openat2()
