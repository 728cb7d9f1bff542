"""Checks across the sections: what contradicts itself, and what is still missing before the gateway can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from gateway.config.lines import KeyPath, line_of
from gateway.config.model import BUILT_IN, BindingSection, Config
from gateway.config.problems import Problem
from gateway.exits import ExitCode

NOT_ENFORCED: tuple[str, ...] = ()
"""Keys that nothing acts on yet. To set one is refused: nobody may believe in a limit that does not hold."""


def contradictions(
    config: Config, file: Path | None = None, lines: Mapping[KeyPath, int] | None = None
) -> tuple[Problem, ...]:
    """Names that are taken or lead nowhere, and folders that would put the rules within the agent's reach."""
    return _placed((*_names(config), *_bindings(config), *_folders(config, file)), file, lines)


def obstacles(
    config: Config,
    file: Path | None = None,
    lines: Mapping[KeyPath, int] | None = None,
    *,
    platform_needed: bool = True,
) -> tuple[Problem, ...]:
    """What keeps a valid configuration from running: what is absent, not built, or missing on disk.

    Looks at the file system and changes nothing.
    """
    found = (
        *_absences(config, platform_needed=platform_needed),
        *_unbuilt(config),
        *_missing_folders(config),
        *_missing_files(config),
    )
    return _placed(found, file, lines)


def _placed(problems: Sequence[Problem], file: Path | None, lines: Mapping[KeyPath, int] | None) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            key=one.key,
            message=one.message,
            remedy=one.remedy,
            file=file,
            line=line_of(lines or {}, one.key),
            code=one.code,
        )
        for one in problems
    )


def _names(config: Config) -> Iterator[Problem]:
    yield from _taken("models", "name", (one.name for one in config.models))
    yield from _taken("mcp", "name", (one.name for one in config.mcp))
    yield from _taken("agents", "name", (one.name for one in config.agents))
    yield from _taken("workspaces", "id", (one.id for one in config.workspaces))
    yield from _strange_people(config)
    for name in config.adapters:
        if name in type(config).model_fields:
            yield Problem(
                key=("adapters", name),
                message="has a section of its own",
                remedy=f"move its keys to [{name}]",
            )


def _strange_people(config: Config) -> Iterator[Problem]:
    known = {*BUILT_IN, *config.adapters}
    for right in ("owners", "approvers", "users"):
        for index, person in enumerate(getattr(config.access, right)):
            platform = person.partition(":")[0]
            if platform not in known:
                yield Problem(
                    key=("access", right, index),
                    message=f"has {person!r}, and there is no platform {platform!r}",
                    remedy=f"correct it; known are {', '.join(sorted(known))}",
                )


def _taken(section: str, key: str, names: Iterable[str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Problem(
                key=(section, index, key), message=f"is `{name}`, which is taken already", remedy="choose another one"
            )
        seen.add(name)


def _bindings(config: Config) -> Iterator[Problem]:
    seen: set[tuple[str | None, ...]] = set()
    for index, binding in enumerate(config.bindings):
        if binding.place in seen:
            yield Problem(
                key=("bindings", index),
                message="is for the same place as an entry before it",
                remedy="join the two, or name another chat or thread",
            )
        seen.add(binding.place)
        for key, name, section in _dangling(binding, config):
            yield Problem(
                key=("bindings", index, key),
                message=f"names `{name}`, and no [[{section}]] entry is called so",
                remedy="correct the name, or add the entry",
            )


def _dangling(binding: BindingSection, config: Config) -> Iterator[tuple[str, str, str]]:
    if binding.workspace and config.workspace(binding.workspace) is None:
        yield "workspace", binding.workspace, "workspaces"
    if binding.agent and config.agent(binding.agent) is None:
        yield "agent", binding.agent, "agents"
    if binding.model and config.model(binding.model) is None:
        yield "model", binding.model, "models"
    for name in binding.fallback:
        if config.model(name) is None:
            yield "fallback", name, "models"


def _folders(config: Config, file: Path | None) -> Iterator[Problem]:
    """An agent that can reach the configuration or the database could give itself rights."""
    state = config.gateway.state_dir.resolve()
    for index, server in enumerate(config.mcp):
        own = server.folder.resolve() if server.folder else None
        inside = own and any(one.path.resolve() in (own, *own.parents) for one in config.workspaces)
        if inside:
            yield Problem(
                key=("mcp", index, "folder"),
                message="lies in a workspace, so that the agent could change the server's code",
                remedy="move it out of every workspace",
            )
    for index, workspace in enumerate(config.workspaces):
        folder, key = workspace.path.resolve(), ("workspaces", index, "path")
        if file and folder in file.resolve().parents:
            yield Problem(
                key=key,
                message="has this configuration file inside, so that the agent could change its own rules",
                remedy="move the file out of it, or choose a folder below it",
            )
        if folder == state or folder in state.parents:
            yield Problem(
                key=key,
                message="has gateway.state_dir inside, so that the agent could change approvals",
                remedy="set gateway.state_dir to a folder outside of every workspace",
            )
        elif state in folder.parents:
            yield Problem(
                key=key,
                message="lies inside gateway.state_dir, which is closed to tools",
                remedy="choose a folder outside of it",
            )


def _absences(config: Config, *, platform_needed: bool) -> Iterator[Problem]:
    if platform_needed and not config.platforms():
        yield Problem(
            message="switches no chat platform on",
            remedy="run `pilothouse init`, or set [telegram] token_file (no account yet? `pilothouse try` needs none)",
        )
    if not config.models:
        yield Problem(
            message="has no [[models]] entry",
            remedy='add one; `name = "demo"` with `provider = "demo"` needs neither key nor account',
        )
    if not config.workspaces:
        yield Problem(
            message="has no [[workspaces]] entry",
            remedy="add one with the `id` and `path` of the folder that the agent works in",
        )


def _unbuilt(config: Config) -> Iterator[Problem]:
    strangers = {entry.name for entry in entry_points(group="pilothouse.adapters")}
    built = {name for name in BUILT_IN if find_spec(f"adapters.{name}")}
    for platform in config.platforms():
        ours = platform in BUILT_IN
        if platform not in (built if ours else strangers):
            yield Problem(
                key=(platform,) if ours else ("adapters", platform),
                message=f"switches {platform} on, and there is no adapter for it here",
                remedy=f"remove its token (this version has {', '.join(sorted(built))})"
                if ours
                else "install the package that brings it, or remove the section",
            )
    yield from _mcp_missing(config)
    for key in _set_in_vain(config):
        yield Problem(key=key, message="is set, and this version does not act on it yet", remedy="remove it")
    for index, model in enumerate(config.models):
        library = _LIBRARIES.get(model.provider)
        if library is not None and not _is_installed(library):
            yield Problem(
                key=("models", index, "provider"),
                message=f"is `{model.provider}`, and its library is not installed",
                remedy=f"install it with `pip install 'pilothouse[{model.provider}]'`",
            )


_LIBRARIES = {"anthropic": "anthropic", "google": "google.genai"}
"""Libraries that only an extra of the same name as the provider brings."""


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # not even the package that it lies in is there
        return False


def _mcp_missing(config: Config) -> Iterator[Problem]:
    if config.mcp and not _is_installed("mcp"):
        yield Problem(
            key=("mcp", 0),
            message="needs a library that is not installed",
            remedy="install it with `pip install 'pilothouse[mcp]'`",
        )


def _set_in_vain(config: Config) -> Iterator[KeyPath]:
    for dotted in NOT_ENFORCED:
        section, *parts = dotted.split(".")
        value: Any = getattr(config, section)
        entries: list[tuple[KeyPath, Any]] = (
            [((section, index), entry) for index, entry in enumerate(cast("tuple[Any, ...]", value))]
            if isinstance(value, tuple)
            else [((section,), value)]
        )
        for key, entry in entries:
            *inner, name = parts
            for part in inner:
                entry = getattr(entry, part)
            if getattr(entry, name) != type(entry).model_fields[name].default:
                yield (*key, *parts)


def _missing_folders(config: Config) -> Iterator[Problem]:
    for index, workspace in enumerate(config.workspaces):
        if not workspace.path.is_dir():
            found = "is not a folder" if workspace.path.exists() else "does not exist"
            yield Problem(
                key=("workspaces", index, "path"),
                message=f"is {str(workspace.path)!r}, which {found}",
                remedy=f"correct the path, or create it with `mkdir -p {workspace.path}`",
                code=ExitCode.WORKSPACE,
            )


def _missing_files(config: Config) -> Iterator[Problem]:
    for index, agent in enumerate(config.agents):
        if agent.instructions_file and not agent.instructions_file.is_file():
            yield Problem(
                key=("agents", index, "instructions_file"),
                message=f"is {str(agent.instructions_file)!r}, which is not a file",
                remedy="correct the path, or write the file",
            )
