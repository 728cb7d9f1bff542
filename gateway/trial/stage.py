"""The files of a trial: a fresh folder with a real configuration, a state folder and a workspace."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import tomlkit

from gateway.closed_file import write_closed

PERSON = 7_000_001
"""Telegram id of whoever sits at the terminal."""

TODO = "- buy milk\n- call the printer about the posters\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a trial takes place. The bot is a new one each time: no earlier trial's messages are taken for its."""

    folder: Path
    token: str

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "pilothouse.toml"

    @property
    def state(self) -> Path:
        """The gateway's state folder."""
        return self.folder / "state"

    @property
    def workspace(self) -> Path:
        """What the agent works in."""
        return self.folder / "workspace"

    @property
    def log(self) -> Path:
        """What the gateway says."""
        return self.folder / "gateway.log"


def make_stage(folder: Path | None, environ: Mapping[str, str]) -> Stage:
    """A folder with a workspace; a fresh one below the XDG state folder, or below the temporary one, unless given."""
    chosen = folder.absolute() if folder else _fresh(environ)
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = f"{100_000_000 + secrets.randbelow(900_000_000)}:{secrets.token_urlsafe(27)[:35]}"
    stage = Stage(folder=chosen, token=token)
    stage.workspace.mkdir(mode=0o700, exist_ok=True)
    todo = stage.workspace / "todo.txt"
    if not todo.exists():
        todo.write_text(TODO)
    return stage


def write_configuration(stage: Stage, api_base: str) -> None:
    """What `pilothouse run` is started with: nothing in it is special to a trial but the address of the Bot API."""
    write_room_configuration(stage, {"telegram": {"token": stage.token, "api_base": api_base}}, [f"telegram:{PERSON}"])


def write_room_configuration(
    stage: Stage, platforms: Mapping[str, Mapping[str, object]], owners: Sequence[str]
) -> None:
    """The same for several platforms at once; their sections by name."""
    document = tomlkit.document()
    document.add(
        tomlkit.comment("Made by `pilothouse try`. Its platforms are emulators that live as long as the trial.")
    )
    sections: dict[str, Mapping[str, object]] = {
        "gateway": {"state_dir": "state", "http": "", "log_format": "console", "drain_seconds": 5.0},
        **platforms,
        "access": {"owners": list(owners)},
    }
    lists: dict[str, dict[str, object]] = {
        "models": {"name": "demo", "provider": "demo"},
        "workspaces": {"id": "try", "label": "Trial", "path": "workspace"},
    }
    for name, entries in sections.items():
        document.add(name, tomlkit.item(dict(entries)))
    for name, entries in lists.items():
        document.add(name, tomlkit.item([entries]))
    write_closed(stage.config, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]


def _fresh(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/")) / ".local" / "state")
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    folder = home / "pilothouse" / "try" / name
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="pilothouse-try-"))
    return folder
