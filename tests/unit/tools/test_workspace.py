"""Files beneath a workspace: nothing half-written is left behind, and everything is durable before it is reported."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ToolError
from runtime.tools import openers
from runtime.tools.base import Workspace
from runtime.tools.openers import FolderWalk, Opener, best_opener
from runtime.tools.workspace import enter_workspace, open_in_workspace

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(params=["unnamed", "named"])
def draft_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Drafts without a name, and the named ones of file systems that have no other."""
    if request.param == "named":
        open_file = os.open

        def without_tmpfile(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, "not supported")
            return open_file(path, flags, *arguments, **options)

        monkeypatch.setattr(os, "open", without_tmpfile)
    return request.param


def names(root: Path) -> set[str]:
    """Every name in the folder."""
    return {path.name for path in root.iterdir()}


def test_both_kinds_of_draft_write_the_same(workspace: Workspace, root: Path, draft_kind: str) -> None:
    """Creating, overwriting and refusing to create work on every file system, and leave no draft behind."""
    with enter_workspace(workspace) as folder:
        folder.create("a", b"1")
        folder.overwrite("a", b"2")
        folder.overwrite("b", b"3")
        with pytest.raises(ToolError, match="exists already"):
            folder.create("b", b"4")
    assert ((root / "a").read_bytes(), (root / "b").read_bytes(), names(root)) == (b"2", b"3", {"a", "b"})


def test_a_failed_write_leaves_the_old_file(
    workspace: Workspace, root: Path, draft_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk in the middle of an overwrite is told, the old content stays whole, and no draft is left."""
    (root / "a").write_bytes(b"old")

    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with enter_workspace(workspace) as folder, pytest.raises(ToolError, match="the disk is full"):
        folder.overwrite("a", b"new")
    assert ((root / "a").read_bytes(), names(root)) == (b"old", {"a"})


def test_a_failed_append_leaves_no_half_line(workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that fails after some bytes takes them back."""
    (root / "a").write_bytes(b"old\n")
    write, calls = os.write, [0]

    def full_after_two_bytes(descriptor: int, data: Any) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, bytes(data)[:2])

    monkeypatch.setattr(os, "write", full_after_two_bytes)
    with enter_workspace(workspace) as folder, pytest.raises(ToolError, match="the disk is full"):
        folder.append("a", b"new\n")
    assert ((root / "a").read_bytes(), calls[0]) == (b"old\n", 2)


def test_written_files_are_synced_before_they_are_named(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content is on disk before its name points at it, and the name is on disk before the write is reported."""
    steps: list[str] = []
    for function in ("fsync", "rename", "link"):
        original = getattr(os, function)

        def recorded(*arguments: Any, _name: str = function, _original: Any = original, **options: Any) -> Any:
            steps.append(_name)
            return _original(*arguments, **options)

        monkeypatch.setattr(os, function, recorded)
    with enter_workspace(workspace) as folder:
        folder.create("a", b"1")
        created, steps = steps, []
        folder.overwrite("a", b"2")
        replaced, steps = steps, []
        folder.append("a", b"3")
    assert (created, replaced, steps) == (
        ["fsync", "link", "fsync"],
        ["fsync", "link", "rename", "fsync"],
        ["fsync"],
    )


def test_create_loses_the_race_for_a_name_honestly(
    workspace: Workspace, root: Path, draft_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that appears while the new one is being written is neither replaced nor followed."""
    link = os.link

    def somebody_else_first(source: Any, target: str, **options: Any) -> None:
        (root / target).write_bytes(b"theirs")
        link(source, target, **options)

    monkeypatch.setattr(os, "link", somebody_else_first)
    with enter_workspace(workspace) as folder, pytest.raises(ToolError, match="exists already"):
        folder.create("a", b"mine")
    assert ((root / "a").read_bytes(), names(root)) == (b"theirs", {"a"})


@as_root
def test_files_made_by_root_belong_to_the_workspace(workspace: Workspace, root: Path) -> None:
    """What a root process writes into a person's workspace belongs to that person, folders included."""
    os.chown(root, 1234, 1234)
    with enter_workspace(workspace) as folder:
        folder.create("a/b/new", b"1")
        folder.append("a/b/new", b"2")
        folder.overwrite("a/b/new", b"3")
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in root.rglob("*")}
    assert owners == {(1234, 1234)}


@as_root
def test_files_of_strangers_are_refused(workspace: Workspace, root: Path, opener: Opener) -> None:
    """A file or folder of neither this process nor the workspace's owner is neither read nor written."""
    os.chown(root, 1234, 1234)
    (root / "theirs").write_bytes(b"x")
    (root / "folder").mkdir()
    (root / "owners").write_bytes(b"fine")
    for name, owner in (("theirs", 4321), ("folder", 4321), ("owners", 1234)):
        os.chown(root / name, owner, owner)
    with enter_workspace(workspace, opener) as folder:
        assert folder.read("owners") == b"fine"
        for act in (
            lambda: folder.read("theirs"),
            lambda: folder.append("theirs", b"y"),
            lambda: folder.overwrite("theirs", b"y"),
            lambda: folder.create("folder/new", b"y"),
        ):
            with pytest.raises(ToolError, match="belongs to somebody else"):
                act()
    assert (root / "theirs").read_bytes() == b"x"
    assert names(root / "folder") == set()


def test_an_opened_file_stays_the_same_file(workspace: Workspace, root: Path, opener: Opener) -> None:
    """What was opened is what is read, even if its name points elsewhere afterwards; the descriptor is then closed."""
    (root / "a").write_bytes(b"first")
    with open_in_workspace(workspace, "a", opener=opener) as file:
        (root / "b").write_bytes(b"second")
        (root / "b").rename(root / "a")
        assert (file.name, file.size, os.read(file.descriptor, 100)) == ("a", 5, b"first")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file.descriptor)


def test_no_descriptor_is_left_open(workspace: Workspace, root: Path, opener: Opener) -> None:
    """Neither success nor any refusal leaks a descriptor."""
    (root / "folder" / "inner").mkdir(parents=True)
    (root / "folder" / "a").write_bytes(b"x")
    (root / "link").symlink_to("/etc/passwd")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with enter_workspace(workspace, opener) as folder:
            folder.read("folder/a")
            folder.overwrite("folder/a", b"y")
            folder.append("new/b", b"y")
            list(folder.entries(".", 5))
            for path in ("link", "missing", "folder", "folder/a/x", "link/x"):
                for act in (folder.read, folder.digest, lambda path: folder.overwrite(path, b"")):
                    try:
                        act(path)
                    except ToolError:
                        continue
            (root / "missing").unlink()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_openat2_gets_the_walk(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Where openat2 is missing or forbidden, the walk holds the fence instead."""

    def refused(folder: int, path: str, flags: int, resolve: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(openers, "_openat2", refused)
    best_opener.cache_clear()
    try:
        assert isinstance(best_opener(), FolderWalk)
    finally:
        best_opener.cache_clear()
