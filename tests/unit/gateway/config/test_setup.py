"""`pilothouse init`: asks, checks the token live, writes a closed file, and shows no secret."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config import load
from gateway.config.secret_sources import PREFIX
from gateway.exits import ExitCode
from gateway.failures import Unavailable
from gateway.setup import DISCORD, Console, run_setup
from tests.architecture.sources import ROOT

TOKEN = "4711:" + "canary-token-of-init-012345678901234"[:35]
KEY = "sk-canary-key-of-init"


class Script(Console):
    """Answers from a list, and keeps what was shown."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.shown: list[str] = []

    def say(self, text: str) -> None:
        self.shown.append(text)

    def ask(self, question: str, default: str = "") -> str:
        self.shown.append(question)
        return self.answers.pop(0) or default

    ask_secret = ask


@pytest.fixture(scope="module")
def telegram() -> Iterator[str]:
    """Address of an emulated Bot API that knows TOKEN."""
    with subprocess.Popen(
        [sys.executable, "-m", "adapters.emulators", "--platform", "telegram", "--token", TOKEN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()


def test_shortest_way(telegram: str, tmp_path: Path) -> None:
    """A token and three empty answers: a file that loads and could run at once, in claim mode, with its folder."""
    file = tmp_path / "pilothouse.toml"
    console = Script(TOKEN, "", "", "")
    assert run_setup(file, {}, console, api_base=telegram) == ExitCode.OK
    config = load(file, {}, to_run=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert config.platforms()["telegram"]["token"] == TOKEN
    assert (config.telegram.api_base, config.access.owners) == (telegram, ())
    assert [(one.id, one.path) for one in config.workspaces] == [("main", tmp_path / "workspace")]
    assert config.models[0].provider == "demo"
    assert TOKEN[5:] not in "\n".join(console.shown)
    assert any("Nobody is the owner yet" in one for one in console.shown)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_every_question(telegram: str, tmp_path: Path) -> None:
    """Wrong answers are asked again with the reason; owner, folder and a model with its key end up in the file."""
    file = tmp_path / "pilothouse.toml"
    console = Script(
        TOKEN, "@alice", "telegram:42", str(tmp_path / "else where"), "gpt", "openai", "m1", "http://127.0.0.1:1/v1/",
        "", "some-model", KEY,
    )  # fmt: skip
    assert run_setup(file, {}, console, api_base=telegram) == ExitCode.OK
    config = load(file, {}, to_run=True)
    assert config.access.owners == ("telegram:42",)
    assert config.workspaces[0].path == tmp_path / "else where"
    model = config.models[0]
    assert (model.model, model.base_url, model.api_key and model.api_key.reveal()) == (
        "some-model", "http://127.0.0.1:1/v1", KEY,
    )  # fmt: skip
    assert console.answers == []
    assert KEY not in "\n".join(console.shown)
    assert any("a name can be taken over by somebody else" in one for one in console.shown)
    assert any("It must be an address that begins with https:// or http://" in one for one in console.shown)


def test_bot_api_that_is_no_address(tmp_path: Path) -> None:
    """What the configuration would refuse is refused before the first question."""
    with pytest.raises(Unavailable, match="--api-base must be an address that begins with https:// or http://; write"):
        run_setup(tmp_path / "pilothouse.toml", {}, Script(), api_base="nonsense")
    assert list(tmp_path.iterdir()) == []


def test_token_that_the_platform_refuses(telegram: str, tmp_path: Path) -> None:
    """Three refused tokens end it with the code for credentials, and nothing is written, not even the folder."""
    wrong = "4712:" + "w" * 35
    console = Script(wrong, "nonsense", wrong)
    assert run_setup(tmp_path / "pilothouse.toml", {}, console, api_base=telegram) == ExitCode.CREDENTIALS
    assert list(tmp_path.iterdir()) == []
    assert sum("✖" in one for one in console.shown) == 3
    assert wrong[5:] not in "\n".join(console.shown)


def test_token_of_the_environment_is_not_written(telegram: str, tmp_path: Path) -> None:
    """A token that comes from the environment is checked, used and left there."""
    environ = {f"{PREFIX}TELEGRAM_TOKEN": TOKEN}
    console = Script("42", "", "")
    file = tmp_path / "pilothouse.toml"
    assert run_setup(file, environ, console, api_base=telegram) == ExitCode.OK
    assert TOKEN not in file.read_text()
    assert load(file, environ, to_run=True).platforms()["telegram"]["token"] == TOKEN


def test_existing_file_stays(telegram: str, tmp_path: Path) -> None:
    """A configuration that is there is replaced only by `--force`, as a whole, and its link's target never."""
    file = tmp_path / "pilothouse.toml"
    file.write_text("# mine\n")
    with pytest.raises(Unavailable, match="exists already"):
        run_setup(file, {}, Script())
    assert file.read_text() == "# mine\n"
    target = tmp_path / "target"
    file.rename(target)
    file.symlink_to(target)
    assert run_setup(file, {}, Script(TOKEN, "", "", ""), api_base=telegram, force=True) == ExitCode.OK
    assert target.read_text() == "# mine\n"
    assert not file.is_symlink()


def test_input_that_ends_early(telegram: str, tmp_path: Path) -> None:
    """A script that does not answer every question gets a sentence and an exit code, and no half file."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "init", "--api-base", telegram],
        cwd=tmp_path,
        input=f"{TOKEN}\n",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == ExitCode.CONFIGURATION
    assert done.stderr == "The input ended before every question was answered; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []
    assert TOKEN[5:] not in done.stdout


def test_gateway_whose_token_is_refused(telegram: str, tmp_path: Path) -> None:
    """A token that was good when it was written and is not any more: `run` ends with the code for credentials."""
    file = tmp_path / "pilothouse.toml"
    assert run_setup(file, {}, Script(TOKEN, "", "", ""), api_base=telegram) == ExitCode.OK
    revoked = "4713:" + "r" * 35
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "run"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), f"{PREFIX}TELEGRAM_TOKEN": revoked},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == ExitCode.CREDENTIALS, done.stderr
    assert "Traceback" not in done.stderr
    assert revoked[5:] not in done.stderr


DISCORD_TOKEN = "MTEwMDAwMDAwMDAwMDAwMDkwMA.Gabcde.canary-token-of-init"


@pytest.fixture(scope="module")
def discord() -> Iterator[str]:
    """Address of an emulated Discord that knows DISCORD_TOKEN."""
    with subprocess.Popen(
        [sys.executable, "-m", "adapters.emulators", "--platform", "discord", "--token", DISCORD_TOKEN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()


def test_discord_bot_is_asked_for_in_the_same_way(discord: str, tmp_path: Path) -> None:
    """Token, owner and folder of a Discord bot; what the bot still needs is told where to look."""
    file = tmp_path / "pilothouse.toml"
    console = Script("nonsense", DISCORD_TOKEN, "ann", "42", "", "")
    assert run_setup(file, {}, console, chat=DISCORD, api_base=discord) == ExitCode.OK
    config = load(file, {}, to_run=True)
    assert (config.discord.api_base, config.access.owners) == (discord, ("discord:42",))
    assert config.platforms()["discord"]["token"] == DISCORD_TOKEN
    assert config.telegram.token is None
    shown = "\n".join(console.shown)
    assert "canary" not in shown
    assert "This is emulated_bot" in shown
    assert "docs/discord.md" in shown
