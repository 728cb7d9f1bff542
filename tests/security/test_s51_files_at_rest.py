"""S-51: what lies on disk is closed to everybody else, and nothing is written through somebody's link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config import ConfigurationInvalid, load
from gateway.exits import ExitCode
from gateway.state_folder import DATABASE, LOCK, Owner, StateFolderUnusable, claimed, prepare

INLINE = [
    ("telegram.token", '[telegram]\ntoken = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"\n'),
    ("discord.token", '[discord]\ntoken = "MTIz.abc.def"\n'),
    ("models[0].api_key", '[[models]]\nname = "a"\nprovider = "openai"\nmodel = "m"\napi_key = "sk-1234567890"\n'),
    ("adapters.matrix.password", '[adapters.matrix]\npassword = "hunter2-hunter2"\n'),
]


@pytest.fixture(autouse=True)
def nothing_is_masked() -> Iterator[None]:
    """Run under umask 0, so that every mode seen here is one that the code asked for."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o601, 0o610])
@pytest.mark.parametrize(("key", "text"), INLINE, ids=[key for key, _ in INLINE])
def test_open_file_with_a_secret_is_refused(tmp_path: Path, key: str, text: str, mode: int) -> None:
    """A secret in a file with any right for others stops the start, with the command that closes it."""
    file = tmp_path / "pilothouse.toml"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, {})
    [problem] = caught.value.problems
    assert str(problem).startswith(f"{file}:{text.count(chr(10))}: {key} stands in a file that others can open")
    assert f"chmod 600 {file}" in problem.remedy
    assert problem.code is ExitCode.CONFIGURATION
    file.chmod(0o600)
    assert load(file, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(("key", "text"), INLINE, ids=[key for key, _ in INLINE])
def test_strangers_file_with_a_secret_is_refused(tmp_path: Path, key: str, text: str) -> None:
    """A secret in a file that another user owns stops the start: that user reads it and changes it at will."""
    file = tmp_path / "pilothouse.toml"
    file.write_text(text)
    file.chmod(0o600)
    os.chown(file, 4711, -1)
    with pytest.raises(ConfigurationInvalid, match=r"belongs to another user \(uid 4711"):
        load(file, {})


def test_file_without_secrets_may_be_read_but_not_written_by_others(tmp_path: Path) -> None:
    """Rules are no secret, but whoever may write them is the owner in truth."""
    file = tmp_path / "pilothouse.toml"
    file.write_text('[access]\nowners = ["telegram:42"]\n')
    file.chmod(0o644)
    assert load(file, {}).access.owners == ("telegram:42",)
    file.chmod(0o646)
    with pytest.raises(ConfigurationInvalid, match="can be written by everybody"):
        load(file, {})


def test_state_folder_is_closed(tmp_path: Path) -> None:
    """Under umask 0 the folder, the lock and whatever lay in it before have no right for others."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    (folder / DATABASE).touch(mode=0o644)
    (folder / f"{DATABASE}-wal").touch(mode=0o666)
    (folder / "more").mkdir(mode=0o777)
    prepare(folder)
    with claimed(folder, Owner(pid=1, since="now")):
        modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {"state": 0o700, DATABASE: 0o600, f"{DATABASE}-wal": 0o600, "more": 0o700, LOCK: 0o600}


def test_fresh_state_folder_is_closed(tmp_path: Path) -> None:
    """A folder that is made has mode 0700 from its first moment."""
    prepare(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK])
def test_planted_link_is_refused(tmp_path: Path, name: str) -> None:
    """A link where we would write stops the start, and its target is untouched."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o644)
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with pytest.raises(StateFolderUnusable, match="is a symbolic link"):
        prepare(folder)
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("precious", 0o644)


def test_state_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """The folder itself may not be a link either, since its target may change hands."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateFolderUnusable, match="is a symbolic link"):
        prepare(tmp_path / "state")


def test_lock_is_never_opened_through_a_link(tmp_path: Path) -> None:
    """A link planted after the check does not make us write into its target."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    prepare(tmp_path / "state")
    (tmp_path / "state" / LOCK).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"), claimed(tmp_path / "state", Owner(pid=1, since="now")):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_strangers_state_folder_is_refused(tmp_path: Path) -> None:
    """A folder that another user owns is not trusted with the database."""
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", 4711, -1)
    with pytest.raises(StateFolderUnusable, match="belongs to uid 4711"):
        prepare(tmp_path / "state")
