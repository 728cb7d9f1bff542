"""Who may import whom, and what a small import must not drag in."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

from tests.architecture.sources import PACKAGES, ROOT, source_modules

# Each costs a second or more, or speaks to a platform, a provider or the web.
HEAVY = ("pydantic_ai", "openai", "aiogram", "aiohttp", "slack_bolt", "slack_sdk", "discord", "mcp")


def heavy_modules_after(statement: str) -> list[str]:
    """What of HEAVY is loaded after a statement ran in a fresh interpreter."""
    program = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_import_contracts_hold() -> None:
    """The contracts in pyproject.toml are kept: layers, strangers, one database package, one model package."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_under_contract() -> None:
    """The contracts are read for all three packages, so none of them can drift unwatched."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["importlinter"]["root_packages"]) == set(PACKAGES)


def test_every_folder_is_a_package() -> None:
    """Each folder with code has an `__init__.py`: without one the contracts do not see what is in it."""
    folders = {(ROOT / module.path).parent for module in source_modules(*PACKAGES)}
    assert {str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_runtime_alone_is_light() -> None:
    """Importing the runtime and its vocabulary loads no platform, model provider or web library."""
    assert heavy_modules_after("import runtime, runtime.protocol") == []


def test_measuring_sees_a_heavy_import() -> None:
    """The measurement above would notice: a heavy library that is imported is reported."""
    assert "aiohttp" in heavy_modules_after("import aiohttp")


IMPORT_EVERYTHING = """
    import importlib, sys

    def refuse(event, args):
        if event.startswith("socket.") and event not in ("socket.gethostname", "socket.__new__"):
            raise SystemExit(f"{event} {args} while importing")

    sys.addaudithook(refuse)
    for name in sys.argv[1:]:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise SystemExit(f"importing {name} failed: {error!r}") from error
"""


def test_importing_touches_neither_network_nor_home() -> None:
    """Every module can be imported without a home folder and without opening a connection."""
    modules = [module.name for module in source_modules(*PACKAGES) if not module.name.endswith("__main__")]
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", textwrap.dedent(IMPORT_EVERYTHING), *modules],
        cwd=ROOT,
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
