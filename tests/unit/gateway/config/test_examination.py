"""What doctor makes of a platform's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Diagnosis
from adapters.errors import BadCredentials, NotConnected
from gateway import examination
from gateway.config import load
from gateway.examination import examine_all, examine_platform
from gateway.exits import ExitCode
from gateway.finding import Level
from gateway.state_folder import Owner, claimed, prepare
from runtime.testing import FakeClock

Diagnose = Callable[[], Awaitable[Sequence[Diagnosis]]]


class Examined:
    """An adapter that answers as a test says."""

    def __init__(self, diagnose: Diagnose) -> None:
        self.diagnose = diagnose
        self.stopped = False

    async def stop(self) -> None:
        """Remember it."""
        self.stopped = True


class Mute:
    """An adapter of somebody else that cannot examine anything."""

    async def stop(self) -> None:
        """Nothing to end."""


async def examined(monkeypatch: pytest.MonkeyPatch, adapter: Any) -> list[tuple[str, Level]]:
    """Ids and levels of what is found with this adapter, or with a factory that raises this."""

    def make(settings: Mapping[str, Any], environment: Any) -> Any:
        if isinstance(adapter, Exception):
            raise adapter
        return adapter

    monkeypatch.setattr(examination, "factory_of", lambda name: make)
    found = await examine_platform("telegram", {}, FakeClock())
    return [(one.id, one.level) for one in found]


def answer(*found: Diagnosis | Exception) -> Diagnose:
    """Answers with these, or fails with the first if it is an error."""

    async def diagnose() -> Sequence[Diagnosis]:
        if isinstance(found[0], Exception):
            raise found[0]
        return [one for one in found if isinstance(one, Diagnosis)]

    return diagnose


async def test_diagnoses_become_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Id, level and words of the adapter are kept, and the adapter is stopped."""
    adapter = Examined(
        answer(
            Diagnosis(id="telegram.privacy_mode", level="warning", message="On."),
            Diagnosis(id="telegram.bot", level="note", message="Me."),
        )
    )
    assert await examined(monkeypatch, adapter) == [
        ("telegram.privacy_mode", Level.WARNING),
        ("telegram.bot", Level.NOTE),
    ]
    assert adapter.stopped


@pytest.mark.parametrize(
    ("adapter", "name"),
    [
        (Examined(answer(BadCredentials("401"))), "telegram.credentials"),
        (Examined(answer(NotConnected("no route"))), "telegram.unreachable"),
        (ValueError("telegram.token: must read so"), "telegram.settings"),
        (LookupError("there is no adapter"), "telegram.settings"),
    ],
)
async def test_each_failure_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch, adapter: Any, name: str) -> None:
    """A refused token, a platform out of reach and bad settings are told apart."""
    assert await examined(monkeypatch, adapter) == [(name, Level.ERROR)]


async def test_platform_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform that never answers does not hang doctor."""
    monkeypatch.setattr(examination, "PLATFORM_SECONDS", 0.5)

    async def hang() -> Sequence[Diagnosis]:
        await asyncio.Event().wait()
        return ()

    adapter = Examined(hang)
    assert await examined(monkeypatch, adapter) == [("telegram.unreachable", Level.ERROR)]
    assert adapter.stopped


async def test_adapter_that_cannot_examine_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said that nothing was examined, which is no error."""
    assert await examined(monkeypatch, Mute()) == [("telegram.unexamined", Level.NOTE)]


CONFIGURATION = """
[telegram]
token = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
[access]
owners = ["telegram:42"]
[[models]]
name = "demo"
provider = "demo"
[[workspaces]]
id = "main"
path = "workspace"
[approvals.tools]
shell = "ask"
read_file = "allow"
no_such_tool = "ask"
"""


def whole_tree(folder: Path) -> list[tuple[str, int, int, int, int]]:
    """Name, mode, owner, group and change time of everything in a folder."""
    found = [folder, *sorted(folder.rglob("*"))]
    stats = [(str(path), path.lstat()) for path in found]
    return [(name, one.st_mode, one.st_uid, one.st_gid, one.st_ctime_ns) for name, one in stats]


def written(folder: Path) -> Path:
    """A configuration with its workspace, which could run."""
    (folder / "workspace").mkdir(mode=0o700)
    file = folder / "pilothouse.toml"
    file.touch(mode=0o600)
    file.write_text(CONFIGURATION)
    load(file, {}, to_run=True)
    return file


def test_everything_is_examined_and_nothing_is_changed(tmp_path: Path) -> None:
    """The whole of doctor names a tool that there is not, and no other; it leaves every file and owner as it is."""
    file = written(tmp_path)
    before = whole_tree(tmp_path)
    findings, code = examine_all(file, {}, offline=True)
    assert [one.message for one in findings if one.id == "tool.unknown"] == [
        "approvals.tools names 'no_such_tool', and there is no such tool."
    ]
    assert code is ExitCode.OK
    assert whole_tree(tmp_path) == before


@pytest.mark.parametrize("runs", [True, False])
def test_our_own_gateway_is_no_second_poller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool) -> None:
    """That somebody else polls is told only while our own gateway does not run: then it is our own that polls."""
    file = written(tmp_path)
    second = Diagnosis(id="telegram.second_poller", level="warning", message="Another program polls.")
    monkeypatch.setattr(examination, "factory_of", lambda name: lambda settings, environment: Examined(answer(second)))
    monkeypatch.setattr(examination, "_skew", no_skew)
    prepare(tmp_path / ".pilothouse")
    with claimed(tmp_path / ".pilothouse", Owner.of_this_process(file)) if runs else nullcontext():
        findings, _ = examine_all(file, {})
    assert [one.id for one in findings if one.id.startswith(("telegram.", "state."))] == [
        "state.owner" if runs else "telegram.second_poller"
    ]


async def no_skew(platform: str, settings: Mapping[str, Any], clock: Any) -> tuple[()]:
    """Nothing is asked over a network."""
    return ()
