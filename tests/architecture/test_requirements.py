"""What is installed is what was locked, and nothing of it runs by itself."""

from __future__ import annotations

import re
import site
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.sources import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-bootstrap.lock")


def locked(name: str) -> dict[str, list[str]]:
    """Requirement of a lock file to the hashes it may have."""
    entries: dict[str, list[str]] = {}
    for line in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line.strip())
            entries[requirement] = hashes
    return entries


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_no_address(lock: str) -> None:
    """Each line pins one exact version by SHA-256, and the file names no place to download from."""
    entries = locked(lock)
    assert len(entries) > 5
    for requirement, hashes in entries.items():
        assert re.fullmatch(r"==[^,*]+", str(Requirement(requirement).specifier)), requirement
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)
    assert "://" not in (ROOT / lock).read_text()


def test_locks_agree() -> None:
    """A package that stands in two lock files has one version, so that users run what was tested."""
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for requirement in map(Requirement, locked(lock)):
            versions.setdefault(f"{requirement.name} ; {requirement.marker}", set()).add(str(requirement.specifier))
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_locks_cover_what_the_package_asks_for() -> None:
    """Every direct requirement is pinned where it is installed from, at a version that the package allows.

    What comes only with an extra is pinned in the lock of the tests, which install every extra.
    """
    for requirement in map(Requirement, metadata.requires("pilothouse") or []):
        extra = requirement.marker is not None and "extra" in str(requirement.marker)
        lock = "requirements-dev.lock" if extra else "requirements.lock"
        pins = {Requirement(line).name: Requirement(line).specifier for line in locked(lock)}
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert requirement.specifier.contains(str(pins[name]).removeprefix("=="), prereleases=True), requirement


def test_nothing_runs_at_interpreter_start() -> None:
    """No installed package brings a .pth file: those run code in every interpreter, without an import."""
    # The first is this checkout's own; the second is seeded by venv itself on Python 3.11.
    expected = {"_editable_impl_pilothouse.pth", "distutils-precedence.pth"}
    found = {path.name for folder in site.getsitepackages() for path in Path(folder).glob("*.pth")}
    assert found - expected == set()


def test_file_with_another_hash_is_not_installed(built_wheel: Path, tmp_path: Path) -> None:
    """The installer refuses a file whose content is not what the lock says."""
    lock = tmp_path / "tampered.lock"
    lock.write_text(f"pilothouse=={metadata.version('pilothouse')} --hash=sha256:{'0' * 64}\n")
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--no-cache", "--offline", "--no-index", "--find-links", built_wheel.parent]
    target = ["--target", tmp_path / "target", "--no-deps", "--require-hashes", "-r", lock]
    done = subprocess.run([*install, *target], capture_output=True, text=True)
    assert done.returncode != 0
    assert "hash mismatch" in done.stderr.lower()
    assert not list((tmp_path / "target").glob("gateway*"))
