"""Under which user programs run in a folder, and which folders are left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.errors import SandboxError
from runtime.tools.sandbox.profile import RunAs
from runtime.tools.sandbox.users import obstacle, opened_workspace, process_limit

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")


def user_for(folder: Path) -> RunAs | None:
    """The user under which programs would run."""
    with opened_workspace(folder) as opened:
        assert os.path.samestat(os.fstat(opened.descriptor), folder.stat())
        return opened.run_as


@as_root
def test_a_persons_folder_is_used_as_that_person(tmp_path: Path) -> None:
    """The owner of a folder is who programs run as in it; nothing about the folder changes."""
    (tmp_path / "file").write_text("x")
    os.chown(tmp_path, 1234, 1235)
    before = tmp_path.stat()
    assert obstacle(tmp_path) is None
    assert user_for(tmp_path) == RunAs(uid=1234, gid=1235)
    assert tmp_path.stat() == before


@as_root
def test_the_group_of_root_is_not_used(tmp_path: Path) -> None:
    """A person's folder with root's group gives no program that group."""
    os.chown(tmp_path, 1234, 0)
    assert user_for(tmp_path) == RunAs(uid=1234, gid=1234)


@as_root
def test_an_empty_folder_of_roots_gets_its_own_user(tmp_path: Path) -> None:
    """It is given to a user that nobody is, closed to others, and stays that user's; another folder has another."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert obstacle(one) is None
    assert one.stat().st_uid == 0
    first = user_for(one)
    assert first is not None
    assert 52_000 <= first.uid == first.gid < 60_000
    status = one.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (first.uid, first.gid, 0o700)
    (one / "file").write_text("x")
    assert user_for(one) == first
    assert user_for(two) != first


@as_root
def test_a_folder_of_roots_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    """Root's own files are neither given away nor worked on as root; the reason says what to do."""
    (tmp_path / "file").write_text("x")
    os.chown(tmp_path, 0, 0)
    told = obstacle(tmp_path)
    assert told is not None
    assert "chown" in told
    with pytest.raises(SandboxError, match="belongs to root"):
        user_for(tmp_path)
    assert [path.stat().st_uid for path in (tmp_path, tmp_path / "file")] == [0, 0]


@pytest.mark.skipif(os.geteuid() == 0, reason="for root every folder has a user")
def test_somebody_elses_folder_is_refused() -> None:
    """An ordinary user runs programs in folders of its own only."""
    assert obstacle(Path("/usr")) is not None
    with pytest.raises(SandboxError, match="another user"):
        user_for(Path("/usr"))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A folder that is not there, or is none, is refused by name."""
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "missing", tmp_path / "file"):
        assert str(path) in str(obstacle(path))
        with pytest.raises(SandboxError, match=path.name):
            user_for(path)


def test_the_limit_leaves_room_beyond_what_runs() -> None:
    """The kernel counts all threads of a user, so those that already run are not taken from a program's share."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert process_limit(None, 10) >= 10 + threads
    assert process_limit(RunAs(uid=59_998, gid=59_998), 10) == 10
