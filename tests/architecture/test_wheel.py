"""What a user installs: the wheel holds the product and nothing else, and works away from the checkout."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.architecture.sources import PACKAGES, ROOT


@pytest.fixture(scope="session")
def installed(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment that holds the wheel; its requirements are lent by this one."""
    environment = tmp_path_factory.mktemp("installed")
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--quiet", "--no-cache", "--offline", "--no-deps", "--python", python]
    subprocess.run([*install, built_wheel], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A path named in a .pth file is searched, but .pth files found there are not obeyed: the link
    # that makes this checkout importable stays behind.
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"


def run_installed(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run in an empty folder with nothing of this process's Python settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_wheel_holds_the_three_packages_only(built_wheel: Path) -> None:
    """Nothing but the import packages and the metadata is installed, and no file that runs by itself."""
    with ZipFile(built_wheel) as archive:
        names = archive.namelist()
    version = metadata.version("pilothouse")
    assert {name.partition("/")[0] for name in names} == {*PACKAGES, f"pilothouse-{version}.dist-info"}
    assert [name for name in names if name.endswith((".pth", ".pyc"))] == []
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_wheel_is_complete(built_wheel: Path) -> None:
    """Every file of the packages is in the wheel: code, SQL, type markers, pages."""
    files = {path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()}
    expected = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    with ZipFile(built_wheel) as archive:
        assert expected - set(archive.namelist()) == set()
    assert {f"{package}/py.typed" for package in PACKAGES} <= expected


def test_wheel_brings_one_command(built_wheel: Path) -> None:
    """The only script is `pilothouse`; the other entry points are our own adapter and tool groups."""
    with ZipFile(built_wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        entries = configparser.ConfigParser(delimiters="=")
        entries.read_string(archive.read(name).decode())
    assert dict(entries["console_scripts"]) == {"pilothouse": "gateway.cli:main"}
    assert set(entries.sections()) - {"console_scripts"} <= {"pilothouse.adapters", "pilothouse.tools"}


def test_installed_packages_come_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Away from the checkout the packages are found in the environment that the wheel went to."""
    program = "import gateway, adapters, runtime; print(gateway.__file__, adapters.__file__, runtime.__file__)"
    done = run_installed([installed / "python", "-c", program], tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(path.startswith(str(installed.parent)) for path in done.stdout.split())
