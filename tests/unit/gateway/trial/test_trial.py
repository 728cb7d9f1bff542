"""A trial: what a person types, and what becomes of the gateway's process."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import stat
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.config import load
from gateway.trial import child as child_module
from gateway.trial.child import command_for_people, without_our_settings
from gateway.trial.lines import Lines
from gateway.trial.stage import PERSON, Stage, make_stage, write_configuration
from gateway.trial.trial import Phase, Quit, Trial

GATEWAY = '''
"""A gateway in forty lines: it owns the folder, polls, and answers each message with a card and buttons."""
import json, sys, tomllib, urllib.request
from pathlib import Path
from gateway.state_folder import Owner, claimed, prepare

config = tomllib.loads(Path(sys.argv[1]).read_text())
base = config["telegram"]["api_base"] + "/bot" + config["telegram"]["token"] + "/"
folder = Path(sys.argv[1]).parent / config["gateway"]["state_dir"]

def call(method, **parameters):
    header = {"Content-Type": "application/json"}
    request = urllib.request.Request(base + method, json.dumps(parameters).encode(), header)
    return json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request))["result"]

def buttons(*names):
    return {"inline_keyboard": [[{"text": name, "callback_data": name} for name in names]]}

def take(update):
    if "callback_query" in update:
        query = update["callback_query"]
        call("answerCallbackQuery", callback_query_id=query["id"], text="Approved.")
        where = {"chat_id": query["message"]["chat"]["id"]}
        call("editMessageText", message_id=query["message"]["message_id"], text="done", **where)
        call("sendMessage", text="Noted.", **where)
    else:
        where = {"chat_id": update["message"]["chat"]["id"]}
        text = "You wrote: " + update["message"]["text"]
        call("sendMessage", text=text, reply_markup=buttons("Approve", "Deny"), **where)

prepare(folder)
with claimed(folder, Owner.of_this_process(None)):
    offset = 0
    while True:
        for update in call("getUpdates", offset=offset, timeout=5):
            offset = update["update_id"] + 1
            take(update)
'''


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage on which a small gateway of ours plays."""
    script = tmp_path / "small_gateway.py"
    script.write_text(GATEWAY)

    def command(config: Path) -> list[str]:
        return [sys.executable, str(script), str(config)]

    monkeypatch.setattr(child_module, "command", command)
    return make_stage(tmp_path / "trial", {})


@pytest.fixture
async def trial(stage: Stage) -> AsyncIterator[Trial]:
    """A trial whose gateway runs."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[4]), "USER": "Ann"}
    async with Trial(stage, environ) as trial:
        assert await trial.until(lambda: trial.phase is Phase.RUNNING, 30)
        yield trial


def texts(trial: Trial) -> list[str]:
    """Everything in the chat, notes too."""
    return [item.text for item in trial.chat.timeline]


async def said(trial: Trial, text: str) -> None:
    """Wait until this stands in the chat."""
    assert await trial.until(lambda: any(text in one for one in texts(trial)), 30), texts(trial)


async def test_talk_and_press_by_number(trial: Trial) -> None:
    """What is typed is said by the owner; a number presses the button that shows it; `:msg` says a number."""
    await trial.handle("note it")
    await said(trial, "You wrote: note it")
    await trial.handle("1")
    await said(trial, "Noted.")
    assert trial.chat.buttons == {}
    await trial.handle("1")
    await said(trial, "There is no button 1. To say it: :msg 1")
    await trial.handle(":msg 1")
    await said(trial, "You wrote: 1")
    await trial.handle(":press deny")
    await said(trial, "You press “Deny”.")


async def test_kill_is_noticed_and_nothing_is_restarted_silently(trial: Trial) -> None:
    """After kill -9 the trial says so, keeps what is written, and starts the gateway only when told to."""
    first = trial.pid
    await trial.handle(":kill")
    assert trial.phase is Phase.DOWN
    await said(trial, "The gateway is gone (killed by SIGKILL).")
    await trial.handle("are you there?")
    await trial.handle(":start")
    await said(trial, "The gateway is back: process ")
    await said(trial, "You wrote: are you there?")
    assert trial.pid != first


async def test_gateway_of_another_terminal_is_seen(trial: Trial, stage: Stage) -> None:
    """A gateway that somebody else started after the kill is noticed as such, and `:start` does not start a second."""
    os.kill(trial.pid or 0, signal.SIGKILL)
    await said(trial, "The gateway is gone (killed by SIGKILL).")
    elsewhere = await asyncio.create_subprocess_exec(
        *child_module.command(stage.config), env={"PYTHONPATH": str(Path(__file__).parents[4])}
    )
    try:
        await said(trial, f"The gateway is back: process {elsewhere.pid}, started in another terminal.")
        await trial.handle(":start")
        await said(trial, f"The gateway runs already, as process {elsewhere.pid}.")
        assert trial.started_elsewhere == elsewhere.pid
    finally:
        elsewhere.kill()
        await elsewhere.wait()


async def test_gateway_that_does_not_start_shows_why(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that ends at once is reported with the end of its log."""
    monkeypatch.setattr(child_module, "command", lambda config: [sys.executable, "-c", "print('no room'); exit(4)"])
    async with Trial(stage, {}) as trial:
        await said(trial, "The gateway did not start (exit code 4).")
        await said(trial, "no room")
        assert trial.phase is Phase.DOWN


async def test_start_that_takes_long_is_no_failure(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the new process exists, the end of the old one is not taken for a failed start."""
    await trial.handle(":kill")
    looked, create, owner_of = asyncio.Semaphore(0), asyncio.create_subprocess_exec, child_module.owner_of

    def looking(folder: Path) -> Any:
        looked.release()
        return owner_of(folder)

    async def slow(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        monkeypatch.setattr(child_module, "owner_of", looking)
        for _ in range(2):
            await looked.acquire()
        return await create(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    await trial.handle(":start")
    await said(trial, "The gateway is back: process ")
    assert not any("did not start" in one for one in texts(trial))


async def test_log_is_that_of_the_newest_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier process wrote is shown neither by `:log` nor where a start fails."""
    stage.log.write_text("of an earlier trial\n")
    script = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); print('start', p.exists()); p.touch(); exit(4)"
    mark = str(stage.folder / "mark")
    monkeypatch.setattr(child_module, "command", lambda config: [sys.executable, "-c", script, mark])
    async with Trial(stage, {}) as trial:
        await said(trial, "start False")
        await trial.handle(":start")
        await said(trial, "start True")
        await trial.handle(":log")
        assert [one for one in texts(trial) if "start False" in one] == ["start False"]
        assert texts(trial)[-1] == "start True"
        assert not any("earlier" in one for one in texts(trial))


async def test_leaving_ends_the_process(stage: Stage) -> None:
    """After the trial no process that it started is left, and its files stay."""
    async with Trial(stage, {"PYTHONPATH": str(Path(__file__).parents[4])}) as trial:
        assert await trial.until(lambda: trial.phase is Phase.RUNNING, 30)
        pid = trial.pid or 0
        with pytest.raises(Quit):
            await trial.handle(":quit")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert stage.config.exists()


@pytest.mark.parametrize("line", [":nonsense", ":press", ":msg", ":until"])
async def test_unknown_commands_are_not_said(trial: Trial, line: str) -> None:
    """A mistyped command is answered here and is not sent to the bot."""
    await trial.handle(line)
    await said(trial, "is not a command, or something is missing behind it")
    assert trial.chat.messages == []


async def test_lines_for_scripts(trial: Trial) -> None:
    """Lines from a file are done in order, buttons are waited for, and the end waits for the answer."""
    output = io.StringIO()
    source = io.StringIO("note it\n1\n:until Noted.\nthanks\n")
    await Lines(trial, source, output).run()
    shown = [line for line in output.getvalue().splitlines() if not line.startswith(("*", " "))]
    assert shown == [
        "you: note it",
        "bot: You wrote: note it",
        "!: Approved.",
        "bot (edited): done",
        "bot: Noted.",
        "you: thanks",
        "bot: You wrote: thanks",
    ]
    assert "     [1] Approve  [2] Deny" in output.getvalue()


def test_stage_is_closed_and_real(tmp_path: Path) -> None:
    """The configuration of a trial is an ordinary one of mode 0600 that loads and could run."""
    stage = make_stage(tmp_path / "new", {})
    write_configuration(stage, "http://127.0.0.1:8081")
    config = load(stage.config, {}, to_run=True)
    assert stat.S_IMODE(stage.config.stat().st_mode) == 0o600
    assert config.access.owners == (f"telegram:{PERSON}",)
    assert config.telegram.api_base == "http://127.0.0.1:8081"
    assert config.workspaces[0].path == stage.workspace
    assert (stage.workspace / "todo.txt").exists()
    assert tomllib.loads(stage.config.read_text())["telegram"]["token"] == stage.token


def test_each_trial_is_a_new_bot(tmp_path: Path) -> None:
    """A folder that is used again gets another bot: update ids of an emulator begin anew and must not look known."""
    assert make_stage(tmp_path, {}).token != make_stage(tmp_path, {}).token
    fresh = [make_stage(None, {"XDG_STATE_HOME": str(tmp_path)}).folder for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert all(folder.parent == tmp_path / "pilothouse" / "try" for folder in fresh)


def test_folder_that_cannot_be_made_is_replaced(tmp_path: Path) -> None:
    """Without a home to write in the trial takes a temporary folder."""
    (tmp_path / "file").write_text("no folder")
    stage = make_stage(None, {"XDG_STATE_HOME": str(tmp_path / "file"), "HOME": "/"})
    assert stage.folder.name.startswith("pilothouse-try-")
    for path in sorted(stage.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    stage.folder.rmdir()


def test_real_tokens_stay_outside() -> None:
    """A real bot's token in the environment does not reach a trial's gateway."""
    environ = {
        "PILOTHOUSE_TELEGRAM_TOKEN": "1:real",
        "CREDENTIALS_DIRECTORY": "/run/x",
        "NOTIFY_SOCKET": "@x",
        "HOME": "/h",
    }
    assert without_our_settings(environ) == {"HOME": "/h"}


def test_command_for_people_is_one_line_for_a_shell(tmp_path: Path) -> None:
    """The printed command can be pasted, also where the path has blanks."""
    import shlex

    config = tmp_path / "with blank" / "pilothouse.toml"
    words = shlex.split(command_for_people(config))
    assert words[-3:] == ["run", "--config", str(config)]
    assert Path(words[0]).exists()
