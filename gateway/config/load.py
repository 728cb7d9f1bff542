"""Reads the configuration file, or says everything that is wrong with it."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from gateway.config.checks import contradictions, obstacles
from gateway.config.lines import KeyPath, line_of, lines_of
from gateway.config.model import Config, GatewaySection
from gateway.config.problems import ConfigurationInvalid, Problem, problems_of
from gateway.config.secret_sources import Filled, fill, unknown_variables

LARGEST_FILE = 1_048_576


def load(path: Path, environ: Mapping[str, str], *, to_run: bool = False) -> Config:
    """The configuration in the file, with secrets from the environment and from files put in.

    Relative paths start at the file's folder. Raises ConfigurationInvalid with every problem that was found; with
    `to_run` also what is missing before the gateway can run is a problem. Nothing is created or changed.
    """
    file = path.absolute()
    text, status = _read(file)
    raw, lines = _with_state_folder(_parse(text, file)), lines_of(text)
    filled = fill(raw, file.parent, environ)
    problems = [*_exposures(status, filled, file, lines), *_with_lines(filled, file, lines)]
    try:
        config = Config.model_validate(raw, context={"folder": file.parent})
    except ValidationError as error:
        raise ConfigurationInvalid((*problems, *problems_of(error, Config, file, lines))) from None
    problems += contradictions(config, file, lines)
    if to_run:
        # A platform whose token cannot be read was meant to be on: that it is off is no problem of its own.
        problems += obstacles(config, file, lines, platform_needed=not filled.problems)
    if problems:
        raise ConfigurationInvalid(problems)
    return _remember(config, file, unknown_variables(environ, filled.variables))


def _read(file: Path) -> tuple[str, os.stat_result]:
    try:
        with file.open("rb") as source:
            status = os.fstat(source.fileno())
            content = source.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise _unreadable(file, "does not exist", "run `pilothouse init`, or name another file with --config") from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise _unreadable(file, f"cannot be read: {reason}", "correct the path or the file's mode") from None
    if not stat.S_ISREG(status.st_mode) or len(content) > LARGEST_FILE:
        raise _unreadable(file, "is no file, or above 1 MiB", "name another file with --config")
    try:
        return content.decode("utf-8-sig"), status
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(file, "is not UTF-8 text there", "save it as UTF-8", line) from None


def _parse(text: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        line = next((int(word) for word in where.replace(",", " ").split() if word.isdigit()), text.count("\n") + 1)
        message = f"is not valid TOML: {what[:1].lower()}{what[1:]}"
        raise _unreadable(file, message, "correct it; config.example.toml shows the form", line) from None


def _with_state_folder(raw: dict[str, Any]) -> dict[str, Any]:
    """Written down, so that the default too starts at the file's folder."""
    gateway = raw.setdefault("gateway", {})
    if isinstance(gateway, dict):
        cast("dict[str, Any]", gateway).setdefault("state_dir", str(GatewaySection().state_dir))
    return raw


def _unreadable(file: Path, message: str, remedy: str, line: int | None = None) -> ConfigurationInvalid:
    return ConfigurationInvalid([Problem(message=message, remedy=remedy, file=file, line=line)])


def _exposures(status: os.stat_result, filled: Filled, file: Path, lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
    """Secrets that others can read, and rules that others can write."""
    mode = stat.S_IMODE(status.st_mode)
    close = f"run `chmod 600 {file}`"
    if mode & stat.S_IWOTH:
        yield Problem(message=f"can be written by everybody (mode {mode:04o})", remedy=close, file=file)
    if not filled.inline:
        return
    first = filled.inline[0]
    line = line_of(lines, first)
    if mode & 0o077:
        message = f"stands in a file that others can open (mode {mode:04o})"
        yield Problem(key=first, message=message, remedy=close, file=file, line=line)
    if status.st_uid != os.geteuid():
        message = f"stands in a file that belongs to another user (uid {status.st_uid}, and we are {os.geteuid()})"
        remedy = f"run `chown {os.geteuid()} {file}`, or keep the secret in a file of its own"
        yield Problem(key=first, message=message, remedy=remedy, file=file, line=line)


def _with_lines(filled: Filled, file: Path, lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
    for one in filled.problems:
        key_of_file = (*one.key[:-1], f"{one.key[-1]}_file")
        line = lines.get(one.key) or lines.get(key_of_file) or line_of(lines, one.key)
        yield Problem(key=one.key, message=one.message, remedy=one.remedy, file=file, line=line, code=one.code)


def _remember(config: Config, file: Path, warnings: tuple[str, ...]) -> Config:
    config._file, config._warnings = file, warnings  # pyright: ignore[reportPrivateUsage]
    return config
