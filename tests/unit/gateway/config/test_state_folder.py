"""The state folder: one owner at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.state_folder import Owner, StateFolderBusy, StateFolderUnusable, claimed, owner_of, prepare

ME = Owner(pid=os.getpid(), since="2026-11-30T12:00:00Z", config="/etc/pilothouse.toml")

HOLD = """
import sys
from pathlib import Path
from gateway.state_folder import Owner, claimed
with claimed(Path(sys.argv[1]), Owner(pid=4242, since="then")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_claim_names_the_owner(tmp_path: Path) -> None:
    """Who comes second is told which process owns the folder and how to stop it."""
    with (
        claimed(tmp_path, ME),
        pytest.raises(
            StateFolderBusy, match=rf"owned by process {ME.pid} \(running since 2026-11-30T12:00:00Z\)"
        ) as caught,
        claimed(tmp_path, ME),
    ):
        pass
    assert caught.value.owner == ME


def test_owner_is_seen_while_it_lives(tmp_path: Path) -> None:
    """A look at the folder tells the owner, does not take its claim, and finds nobody afterwards."""
    assert owner_of(tmp_path) is None
    with claimed(tmp_path, ME):
        assert owner_of(tmp_path) == ME
        assert owner_of(tmp_path) == ME
    assert owner_of(tmp_path) is None
    with claimed(tmp_path, ME):
        pass


def test_killed_owner_leaves_no_claim(tmp_path: Path) -> None:
    """After kill -9 the next one may own the folder at once, whatever the dead one had written."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert owner_of(tmp_path) == Owner(pid=4242, since="then")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert owner_of(tmp_path) is None
    with claimed(tmp_path, ME):
        assert owner_of(tmp_path) == ME


def test_prepare_makes_and_keeps(tmp_path: Path) -> None:
    """A folder is made with what is above it, and one that exists keeps its content."""
    folder = tmp_path / "above" / "state"
    prepare(folder)
    (folder / "kept").write_text("x")
    prepare(folder)
    assert (folder / "kept").read_text() == "x"


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the way, at the folder's place or above it, is said with the key to change."""
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "state"):
        with pytest.raises(StateFolderUnusable, match=r"set another gateway\.state_dir"):
            prepare(folder)
