"""The example configuration and its documentation are complete and true."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from gateway.config import Config, load
from gateway.config.checks import NOT_ENFORCED
from tests.architecture.sources import ROOT

EXAMPLE = ROOT / "config.example.toml"
DOCUMENTATION = ROOT / "docs" / "configuration.md"

KEY_WITHOUT_DEFAULT = re.compile(r"^#(?=\[|[a-z_]+ = )", re.MULTILINE)


def model_inside(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, alone or as a list."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in get_args(annotation) if (found := model_inside(part))), None)


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of the file, dotted, lists of tables like tables."""
    for name, field in model.model_fields.items():
        inner = model_inside(field.annotation)
        if inner:
            yield from keys_of(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def keys_in(table: Any, prefix: str = "") -> Iterator[str]:
    """Every key that a parsed file sets, in the same spelling."""
    for name, value in table.items():
        match value:
            case {} if prefix + name not in FREE_TABLES:
                yield from keys_in(value, f"{prefix}{name}.")
            case [{}, *_]:
                for entry in value:
                    yield from keys_in(entry, f"{prefix}{name}.")
            case _:
                yield f"{prefix}{name}"


FREE_TABLES = {"approvals.tools", "bindings.approvals.tools"}
"""Tables whose keys the user invents."""

EVERY_KEY = {key for key in keys_of(Config) if key != "adapters"}


def uncommented(*, files: bool) -> str:
    """The example with the keys that have no default, either those that name a file or those that hold the value."""
    lines = KEY_WITHOUT_DEFAULT.sub("", EXAMPLE.read_text()).splitlines()
    instead_of_a_file = {
        line.split(" = ")[0].removesuffix("_file") for line in lines if re.match(r"[a-z_]+_file = ", line)
    }
    return "\n".join(
        line
        for line in lines
        if not (line.split(" = ")[0] in instead_of_a_file if files else re.match(r"[a-z_]+_file = ", line))
    )


def test_example_is_the_defaults(tmp_path: Path) -> None:
    """What the example sets is what holds without a file, value for value."""
    shutil.copy(EXAMPLE, tmp_path / "pilothouse.toml")
    (tmp_path / "pilothouse.toml").chmod(0o600)
    (tmp_path / "empty.toml").touch()
    shown, default = (load(tmp_path / name, {}) for name in ("pilothouse.toml", "empty.toml"))
    assert shown.model_dump() == default.model_dump()


def test_example_sets_every_key_that_has_a_default() -> None:
    """No default is left to guessing: what is not set in the example has none."""
    shown = set(keys_in(tomllib.loads(EXAMPLE.read_text())))
    everything = set(keys_in(tomllib.loads(KEY_WITHOUT_DEFAULT.sub("", EXAMPLE.read_text()))))
    without_default = {key for key in everything - shown if "." in key}
    lists = {"models", "workspaces", "agents", "bindings", "mcp"}
    assert {key for key in without_default if key.split(".")[0] not in lists} == {
        "telegram.token",
        "telegram.token_file",
        "telegram.webhook_url",
        "telegram.webhook_secret",
        "telegram.webhook_secret_file",
        "slack.bot_token",
        "slack.bot_token_file",
        "slack.app_token",
        "slack.app_token_file",
        "slack.signing_secret",
        "slack.signing_secret_file",
        "slack.config_token",
        "slack.config_token_file",
        "discord.token",
        "discord.token_file",
    }


def test_example_shows_every_key() -> None:
    """Each key stands in the example, as a line to keep or as a line to take the `#` from."""
    text = KEY_WITHOUT_DEFAULT.sub("", EXAMPLE.read_text())
    assert set(keys_in(tomllib.loads(text))) == EVERY_KEY


@pytest.mark.parametrize("files", [False, True], ids=["values", "files"])
def test_example_loads_with_everything_switched_on(tmp_path: Path, files: bool) -> None:
    """The lines without a default are valid too, whether secrets stand in the file or beside it."""
    text = uncommented(files=files).replace('fallback = ["spare"]', 'fallback = ["main"]')
    text = re.sub(r'^url = "https://mcp[^\n]*\n', "", text, flags=re.MULTILINE)  # it stands for `command`
    for name in re.findall(r'_file = "([^"]+)"', text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "pilothouse.toml").write_text(text)
    (tmp_path / "pilothouse.toml").chmod(0o600)
    config = load(tmp_path / "pilothouse.toml", {})
    assert set(config.platforms()) == {"telegram", "slack", "discord"}
    assert config.models[0].api_key is not None


def default_of(model: type[BaseModel], key: str) -> str:
    """The default as the documentation writes it."""
    name, _, rest = key.partition(".")
    field = model.model_fields[name]
    inner = model_inside(field.annotation)
    if inner:
        return default_of(inner, rest)
    if field.is_required():
        return "required"
    match field.default:
        case None:
            return "–"
        case bool(value):
            return f"`{str(value).lower()}`"
        case str() | Path():
            return f'`"{field.default}"`'
        case ():
            return "`[]`"
        case value:
            return f"`{value}`"


def test_every_key_is_documented() -> None:
    """docs/configuration.md has a line for each key below the header of its section, with its default, and no other."""
    documented: dict[str, str] = {}
    section = ""
    for line in DOCUMENTATION.read_text().splitlines():
        if header := re.match(r"#+ `\[+([a-z_.]+)\]+`", line):
            section = header[1]
        elif key := re.match(r"\| `([a-z_]+)` \|[^|]+\| ([^|]+) \|", line):
            documented[f"{section}.{key[1]}"] = key[2]
    assert documented == {key: default_of(Config, key) for key in EVERY_KEY}


UNBUILT_PLATFORMS = ("terminal.",)
"""To switch one of these on is refused before anything starts."""


def words_of_the_program() -> set[str]:
    """Every word of the code that acts on the configuration, without what only describes, checks or writes it."""
    describes = ("gateway/config", "gateway/doctor.py", "gateway/setup.py", "gateway/trial", "adapters/emulators")
    words: set[str] = set()
    for path in (path for package in ("gateway", "adapters", "runtime") for path in (ROOT / package).rglob("*.py")):
        if not path.relative_to(ROOT).as_posix().startswith(describes):
            words |= set(re.findall(r"[a-z_]+", path.read_text()))
    return words


def test_every_key_has_an_effect() -> None:
    """A key that nothing reads is refused when it is set; once it is read it has to leave that list."""
    words = words_of_the_program()
    read_as = {"http": "http_address", "timeout_seconds": "approval_timeout_seconds", "default": "approval_default"}
    unread = {
        key
        for key in EVERY_KEY
        if not key.startswith(UNBUILT_PLATFORMS)
        and not key.endswith("_file")
        and read_as.get(name := key.rpartition(".")[2], name) not in words
    }
    assert unread == set(NOT_ENFORCED)
