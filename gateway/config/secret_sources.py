"""Where secrets come from.

The environment, the service manager's credentials, a file of their own, or the configuration: the first one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from gateway.config.lines import KeyPath
from gateway.config.model import model_key_variable
from gateway.config.problems import Problem
from gateway.exits import ExitCode
from gateway.secrets import Secret

PREFIX = "PILOTHOUSE_"

CONFIG_VARIABLE = "PILOTHOUSE_CONFIG"

SLOTS: tuple[tuple[str, str], ...] = (
    ("telegram", "token"),
    ("telegram", "webhook_secret"),
    ("slack", "bot_token"),
    ("slack", "app_token"),
    ("slack", "signing_secret"),
    ("slack", "config_token"),
    ("discord", "token"),
)

LONGEST_FILE = 16_384

_LOOKS_SECRET = re.compile(r"(?:^|_)(?:token|secret|key|password)$")


@dataclass(slots=True)
class Filled:
    """The outcome of `fill`: what was wrong, and which secrets stand in the configuration file itself."""

    problems: list[Problem] = field(default_factory=list[Problem])
    inline: list[KeyPath] = field(default_factory=list[KeyPath])
    variables: set[str] = field(default_factory=lambda: {CONFIG_VARIABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    table: dict[str, Any]
    path: KeyPath
    variable: str
    credential: str
    needs_table: tuple[dict[str, Any], str] | None = None


def fill(raw: dict[str, Any], folder: Path, environ: Mapping[str, str]) -> Filled:
    """Put every secret into its place in the parsed file, as a `Secret`, also where one stood there as text."""
    done = Filled()
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    for slot in _slots(raw):
        done.variables.add(slot.variable)
        _fill_slot(slot, done, folder, environ, Path(credentials) if credentials else None)
    return done


def unknown_variables(environ: Mapping[str, str], known: set[str]) -> tuple[str, ...]:
    """A sentence for each variable that has our prefix and means nothing: mostly a misspelt secret."""
    ours = sorted(name for name in environ if name.startswith(PREFIX))
    return tuple(_unknown_variable(name, known) for name in ours if name not in known)


def _unknown_variable(name: str, known: set[str]) -> str:
    close = get_close_matches(name, sorted(known), n=1)
    hint = f"did you mean {close[0]}?" if close else "docs/configuration.md lists those that do."
    return f"The environment variable {name} means nothing to pilothouse; {hint}"


def _slots(raw: dict[str, Any]) -> Iterator[_Slot]:
    for section, key in SLOTS:
        table = raw.get(section, {})
        if isinstance(table, dict):
            name = f"{section}_{key}"
            yield _Slot(
                table=cast("dict[str, Any]", table),
                path=(section, key),
                variable=PREFIX + name.upper(),
                credential=name,
                needs_table=None if section in raw else (raw, section),
            )
    yield from _model_slots(raw)
    yield from _server_slots(raw)
    yield from _foreign_slots(raw)


def _model_slots(raw: dict[str, Any]) -> Iterator[_Slot]:
    models = raw.get("models")
    for index, model in enumerate(cast("list[Any]", models) if isinstance(models, list) else []):
        if isinstance(model, dict):
            table = cast("dict[str, Any]", model)
            variable = model_key_variable(str(table.get("name", "")))
            credential = variable.removeprefix(PREFIX).lower()
            yield _Slot(table=table, path=("models", index, "api_key"), variable=variable, credential=credential)


def _server_slots(raw: dict[str, Any]) -> Iterator[_Slot]:
    servers = raw.get("mcp")
    for index, server in enumerate(cast("list[Any]", servers) if isinstance(servers, list) else []):
        if isinstance(server, dict):
            table = cast("dict[str, Any]", server)
            slot = re.sub(r"[^a-z0-9]", "_", f"mcp_{table.get('name', '')}_token".lower())
            yield _Slot(table=table, path=("mcp", index, "token"), variable=PREFIX + slot.upper(), credential=slot)


def _foreign_slots(raw: dict[str, Any]) -> Iterator[_Slot]:
    adapters = raw.get("adapters")
    for name, settings in (cast("dict[str, Any]", adapters) if isinstance(adapters, dict) else {}).items():
        if isinstance(settings, dict):
            table = cast("dict[str, Any]", settings)
            for key in {one.removesuffix("_file") for one in table}:
                if _LOOKS_SECRET.search(key):
                    slot = re.sub(r"[^a-z0-9]", "_", f"{name}_{key}".lower())
                    yield _Slot(
                        table=table, path=("adapters", name, key), variable=PREFIX + slot.upper(), credential=slot
                    )


def _fill_slot(slot: _Slot, done: Filled, folder: Path, environ: Mapping[str, str], credentials: Path | None) -> None:
    key = str(slot.path[-1])
    inline, file = slot.table.get(key), slot.table.get(f"{key}_file")
    try:
        if slot.variable in environ:
            value = _clean(environ[slot.variable], f"the environment variable {slot.variable}")
        elif credentials and (credentials / slot.credential).is_file():
            value = _read(credentials / slot.credential)
        elif isinstance(file, str) and file and inline is None:
            value = _read(folder / Path(file).expanduser())
        elif isinstance(inline, str):
            value = _inline(inline, file, slot, done)
        elif inline is not None and slot.path[0] == "adapters":
            # Nothing else checks the settings of a stranger's adapter, and this one would be shown as it stands.
            raise _Unusable("must be text, and it is something else", "write it in double quotes")
        else:
            return
    except _Unusable as problem:
        slot.table.pop(key, None)
        done.problems.append(
            Problem(key=slot.path, message=problem.message, remedy=problem.remedy, code=ExitCode.CREDENTIALS)
        )
        return
    slot.table[key] = Secret(value)
    if slot.needs_table is not None:
        parent, name = slot.needs_table
        parent.setdefault(name, slot.table)


def _inline(value: str, file: object, slot: _Slot, done: Filled) -> str:
    done.inline.append(slot.path)
    key = str(slot.path[-1])
    if file is not None:
        raise _Unusable(f"is given beside {key}_file", "keep one of the two")
    return _clean(value, "the configuration file")


class _Unusable(Exception):
    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def _read(file: Path) -> str:
    try:
        with file.open("rb") as source:
            content = source.read(LONGEST_FILE + 1)
        text = content.decode()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise _Unusable(f"is to be read from {str(file)!r}: {reason}", "correct the path or the file's mode") from None
    except UnicodeDecodeError:
        raise _Unusable(f"is to be read from {str(file)!r}, which is no text", "put the secret there, alone") from None
    if len(content) > LONGEST_FILE:
        raise _Unusable(f"is to be read from {str(file)!r}, which is far too long", "put the secret there, alone")
    return _clean(text, str(file))


def _clean(value: str, source: str) -> str:
    text = value.strip()
    if not text:
        raise _Unusable(f"comes from {source} and is empty", "fill it in, or remove it there")
    if not text.isprintable() or any(character.isspace() for character in text):
        raise _Unusable(f"comes from {source} and has blanks or line breaks inside", "put the secret there, alone")
    return text
