"""`pilothouse doctor`: looks at everything that has to fit, changes nothing, and names exactly what is missing."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from gateway.config import Config, ConfigurationInvalid, load, obstacles
from gateway.config.model import Policy
from gateway.config.secret_sources import SLOTS
from gateway.exits import ExitCode
from gateway.finding import Finding, Level, error, note, warning
from gateway.ledger import people
from gateway.state_folder import LOCK, database_in, owner_of
from runtime.errors import CheckpointError
from runtime.store.reading import reading

LOW_DISK_BYTES = 1 << 30
NO_DISK_BYTES = 100 << 20

PROGRAM_TOOLS = ("shell",)
"""Tools that run programs: to allow them without a person gives the workspace and its network away."""

_IDS: Mapping[ExitCode, str] = {
    ExitCode.CONFIGURATION: "cfg.invalid",
    ExitCode.CREDENTIALS: "cfg.credentials",
    ExitCode.WORKSPACE: "workspace.missing",
}


def read_configuration(file: Path, environ: Mapping[str, str]) -> tuple[Config | None, tuple[Finding, ...]]:
    """The configuration if it is valid, and what is wrong with it or still missing before it can run."""
    try:
        config = load(file, environ)
    except ConfigurationInvalid as invalid:
        return None, tuple(error(_IDS[one.code], *_split(str(one))) for one in invalid.problems)
    missing = tuple(error(_IDS[one.code], *_split(str(one))) for one in obstacles(config, config.file))
    unknown = tuple(warning("cfg.environment", sentence) for sentence in config.warnings)
    return config, missing + unknown


def _split(sentence: str) -> tuple[str, str]:
    message, _, remedy = sentence.partition("; ")
    return message, remedy


def examine(config: Config, tools: Collection[str] = (), claimed: Collection[str] = frozenset()) -> tuple[Finding, ...]:
    """Everything that can be judged from the configuration and the file system.

    `tools` are the names that exist, `claimed` who became an owner by code.
    """
    findings = [finding for check in _CHECKS for finding in check(config)]
    return (*_access(config, claimed), *findings, *_tool_names(config, tools))


async def claimed_owners(config: Config) -> frozenset[str]:
    """Who became an owner by code; nobody where the database is absent, cannot be read, or has no such table yet."""
    path = database_in(config.gateway.state_dir)
    if not path.is_file():
        return frozenset()
    try:
        async with reading(path) as reader:
            if not (await reader.versions()).get("gateway"):
                return frozenset()
            return await people.claimed_owners(reader)
    except CheckpointError:
        return frozenset()  # `examine_database` says what is wrong with it


async def examine_database(config: Config, known_versions: Mapping[str, int]) -> tuple[Finding, ...]:
    """The database: readable, sound, of a version that this program knows, closed to others."""
    path = database_in(config.gateway.state_dir)
    if _no_folder_at(config.gateway.state_dir):
        return ()  # nothing can be made there, which `examine` reports
    if not path.exists():
        return (note("db.none", f"There is no database yet; the first start makes {path}."),)
    findings = [*_modes("db.perms", [path, *_sidecars(path)])]
    try:
        async with reading(path) as reader:
            versions = await reader.versions()
            findings += _schema(path, versions, known_versions)
            findings += [
                error("db.damaged", f"{path}: {text}", "restore a backup, see docs/cli.md")
                for text in await reader.complaints()
            ]
    except CheckpointError as failure:
        findings.append(error("db.unreadable", _ended(str(failure)), "restore a backup, see docs/cli.md"))
    return tuple(findings)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."


def _schema(path: Path, versions: Mapping[str, int], known: Mapping[str, int]) -> Iterator[Finding]:
    for component, version in versions.items():
        if version > known.get(component, version):
            yield error(
                "db.newer",
                f"{path} was written by a newer pilothouse ({component} {version}, we know {known[component]})",
                "install that version again, or restore a backup from before",
            )
        elif version < known.get(component, version):
            yield note("db.older", f"{path} gets a new schema at the next start ({component} {version}).")


def verdict(findings: Iterable[Finding]) -> ExitCode:
    """OK unless something does not work."""
    return ExitCode.FINDINGS if any(one.level is Level.ERROR for one in findings) else ExitCode.OK


# ---------------------------------------------------------------------------------------------------------- checks


def _access(config: Config, claimed: Collection[str]) -> Iterator[Finding]:
    if config.access.dangerously_open:
        yield warning(
            "ingress.open",
            "Everybody who reaches the bot may talk to it and spend your money (access.dangerously_open).",
            "list people in access.users instead",
        )
    # Owners that the configuration names always win over the one by code.
    owners = {*config.access.owners} or {*claimed}
    if not owners:
        yield note(
            "ingress.claim",
            "Nobody is listed in access.owners: the next start prints a code, and who sends it becomes the owner.",
        )
    deciders = owners | {*config.access.approvers}
    if not deciders:
        return
    for platform in config.platforms():
        if not any(person.startswith(f"{platform}:") for person in deciders):
            yield warning(
                "approvals.nobody",
                f"Nobody may approve on {platform}: what needs consent there will never run.",
                f"add a `{platform}:…` to access.approvers or access.owners",
            )


def _policies(config: Config) -> Iterator[Finding]:
    policies: list[tuple[str, Policy | None, Mapping[str, Policy]]] = [
        ("approvals", config.approvals.default, config.approvals.tools),
        *(
            (f"bindings[{n}].approvals", one.approvals.default, one.approvals.tools)
            for n, one in enumerate(config.bindings)
        ),
    ]
    for key, default, tools in policies:
        if default == "allow":
            yield warning("policy.allow", f"{key}.default lets every tool run without asking.", 'set it to "ask"')
        for tool in PROGRAM_TOOLS:
            if tools.get(tool) == "allow":
                yield warning("policy.shell", f"{key}.tools lets {tool} run without asking.", 'set it to "ask"')
    for number, binding in enumerate(config.bindings):
        if binding.network == "host":
            yield warning(
                "sandbox.network",
                f"bindings[{number}] gives programs the whole network of this machine.",
                'set network = "none" where they do not need it',
            )


def _bindings(config: Config) -> Iterator[Finding]:
    switched_on = config.platforms()
    for number, binding in enumerate(config.bindings):
        if binding.platform and binding.platform not in switched_on:
            yield warning(
                "binding.platform",
                f"bindings[{number}] is for {binding.platform}, which is not switched on.",
                "set its token, or remove the entry",
            )


def _addresses(config: Config) -> Iterator[Finding]:
    urls = [
        ("telegram.api_base", config.telegram.api_base, config.telegram.token is not None),
        ("slack.api_base", config.slack.api_base, config.slack.bot_token is not None),
        ("discord.api_base", config.discord.api_base, config.discord.token is not None),
        *((f"models[{n}].base_url", one.base_url, one.api_key is not None) for n, one in enumerate(config.models)),
    ]
    for key, url, carries_secret in urls:
        if url and carries_secret and _is_plain_and_far(url):
            yield warning(
                "secret.in_clear",
                f"{key} sends a secret unencrypted over the network.",
                "use https://, or a server on this machine",
            )


def _is_plain_and_far(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and not (
        parts.hostname in ("localhost", "::1") or str(parts.hostname).startswith("127.")
    )


def _secret_files(config: Config) -> Iterator[Finding]:
    paths = [getattr(getattr(config, section), f"{key}_file") for section, key in SLOTS]
    paths += [one.api_key_file for one in config.models]
    yield from _modes("secret.perms", [path for path in paths if path is not None])


def _state(config: Config) -> Iterator[Finding]:
    folder = config.gateway.state_dir
    if folder.is_symlink():
        yield error("state.link", f"{folder} is a symbolic link.", "set gateway.state_dir to a real folder")
    elif blocked := _no_folder_at(folder):
        yield error("state.blocked", blocked, "move it away, or set another gateway.state_dir")
    elif folder.is_dir():
        yield from _modes("state.perms", [folder, folder / LOCK])
        if owner := owner_of(folder):
            yield note("state.owner", f"The gateway runs as process {owner.pid} since {owner.since}.")


def _no_folder_at(folder: Path) -> str | None:
    """Why the state folder neither is one that we can write in nor can be made; None where nothing is in the way."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        return f"{nearest} is not a folder, so gateway.state_dir cannot be used."
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"Nothing can be written in {nearest}, where gateway.state_dir is."
    return None


def _disk(config: Config) -> Iterator[Finding]:
    existing = next(path for path in (config.gateway.state_dir, *config.gateway.state_dir.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < LOW_DISK_BYTES:
        level = Level.ERROR if free < NO_DISK_BYTES else Level.WARNING
        message = f"Only {free >> 20} MiB are free where gateway.state_dir is."
        yield Finding(id="disk.space", level=level, message=message, remedy="free some space")


def _workspaces(config: Config) -> Iterator[Finding]:
    folders = [(one.id, one.path.resolve()) for one in config.workspaces]
    for outer_id, outer in folders:
        for inner_id, inner in folders:
            if outer_id != inner_id and outer in (inner, *inner.parents):
                yield warning(
                    "workspace.nested",
                    f"The workspace {inner_id} lies inside {outer_id}: whoever uses the outer one sees its files.",
                    "give them separate folders",
                )


_CHECKS: Sequence[Callable[[Config], Iterator[Finding]]] = (
    _policies,
    _bindings,
    _addresses,
    _secret_files,
    _state,
    _disk,
    _workspaces,
)


def _tool_names(config: Config, tools: Collection[str]) -> Iterator[Finding]:
    named = [("approvals.tools", name) for name in config.approvals.tools]
    for number, agent in enumerate(config.agents):
        named += [(f"agents[{number}].tools", name) for name in agent.tools or ()]
    for number, binding in enumerate(config.bindings):
        named += [(f"bindings[{number}].approvals.tools", name) for name in binding.approvals.tools]
    for key, name in named:
        if tools and name not in tools:
            yield warning("tool.unknown", f"{key} names {name!r}, and there is no such tool.", "correct the name")


def _sidecars(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]


def _modes(name: str, paths: Iterable[Path]) -> Iterator[Finding]:
    """Files that others can open, or that belong to somebody else."""
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            yield warning(name, f"{path} can be opened by others (mode {mode:04o}).", f"run `chmod go= {path}`")
        if status.st_uid not in (os.geteuid(), 0):
            yield warning(name, f"{path} belongs to uid {status.st_uid}.", f"run `chown {os.geteuid()} {path}`")
