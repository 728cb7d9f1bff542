"""The shell as a tool: what is asked about, what runs, and what the model is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from runtime.errors import SandboxError, ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import ToolContext, ToolOutput, schema_hash
from runtime.tools.files import workspace_tools
from runtime.tools.sandbox import Limits
from runtime.tools.shell import MAX_COMMAND_CHARACTERS, OTHER_FILES, Shell, shell_tool
from tests.security.sandboxes import workspace_for

CONTEXT = ToolContext(session_id="s1", turn_id="t1", call_id="c1", principal="telegram:42")


@pytest.fixture
async def context() -> AsyncGenerator[ToolContext]:
    """A call in a workspace."""
    with workspace_for("root") as workspace:
        yield ToolContext(session_id="s1", turn_id="t1", call_id="c1", workspace=workspace)


@pytest.fixture
async def shell() -> Shell:
    """The tool, with a sandbox that holds."""
    tool = shell_tool(Limits(output_bytes=2000, flood_bytes=1 << 20, cpu_seconds=1, file_bytes=1 << 20))
    found = await tool.sandbox.probe()
    assert found.available, found
    return tool


def checked(tool: Shell, **arguments: Any) -> Mapping[str, Any]:
    """Arguments as the gate hands them on."""
    return tool.validate(ToolCall(call_id="c1", name="shell", arguments=arguments))


async def ran(tool: Shell, context: ToolContext, command: str, **arguments: Any) -> ToolOutput:
    """What the model is told of a command."""
    return await tool.run(checked(tool, command=command, **arguments), context)


def test_it_is_marked_as_what_it_is() -> None:
    """A shell asks by policy, is never repeated after a crash, never allowed for a session, and has a net of time."""
    tool = shell_tool()
    assert (tool.name, tool.approval, tool.replay, tool.high_risk, tool.parallel) == (
        "shell",
        "policy",
        "unsafe",
        True,
        False,
    )
    assert tool.timeout_seconds == Limits().seconds + 30


def test_arguments_are_completed() -> None:
    """Defaults are filled in before anybody is asked, so that what is shown is all that will be."""
    tool = shell_tool()
    assert checked(tool, command="ls") == {"command": "ls", "folder": ".", "seconds": 120, "environment": {}}
    assert checked(tool, command="ls", folder="./a//b/", environment={"A": "1"}) == {
        "command": "ls",
        "folder": "a/b",
        "seconds": 120,
        "environment": {"A": "1"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": ""},
        {"command": " \n"},
        {"command": "a\0b"},
        {"command": "\ud800"},
        {"command": "x" * (MAX_COMMAND_CHARACTERS + 1)},
        {"command": 7},
        {"command": ["ls"]},
        {"command": "ls", "folder": "../x"},
        {"command": "ls", "folder": "/etc"},
        {"command": "ls", "folder": "a\u202eb"},
        {"command": "ls", "seconds": 0},
        {"command": "ls", "seconds": 601},
        {"command": "ls", "seconds": "9"},
        {"command": "ls", "environment": ["A"]},
        {"command": "ls", "environment": {"A": 1}},
        {"command": "ls", "environment": {"LD_PRELOAD": "x"}},
        {"command": "ls", "stdin": "x"},
        {"command": "ls", "network": "host"},
        {"command": "ls", "background": True},
    ],
)
def test_unfit_arguments_are_refused(arguments: dict[str, Any]) -> None:
    """What cannot be run, or is no argument, is refused before anybody is asked."""
    with pytest.raises(ToolError):
        checked(shell_tool(), **arguments)


def test_the_action_says_all_that_decides() -> None:
    """Program and arguments, folder, environment, time, network and sandbox are in it, so they are in the digest."""
    tool = shell_tool()
    arguments = checked(tool, command="ls -la", folder="sub", seconds=7, environment={"LEVEL": "2"})
    action = tool.action(arguments, CONTEXT)
    assert action.argv == ("/bin/bash", "--noprofile", "--norc", "-c", "ls -la")
    assert (action.cwd, action.environment, action.timeout_seconds) == ("/workspace/sub", {"LEVEL": "2"}, 7)
    assert (action.network, action.stdin_hash, action.requester) == ("none", None, "telegram:42")
    assert action.sandbox == tool.sandbox.profile("none")
    assert action.schema_hash == schema_hash(tool)


def test_another_fence_is_another_action() -> None:
    """Changed limits, or the network, change the name of the sandbox, so an old approval does not hold under them."""
    names = {
        shell_tool(limits).sandbox.profile("none")
        for limits in (Limits(), Limits(cpu_seconds=1), Limits(memory_bytes=None))
    }
    names.add(shell_tool().sandbox.profile("host"))
    assert len(names) == 4
    assert shell_tool().sandbox.profile("none") in names


async def test_the_network_of_the_place_is_shown_and_given(context: ToolContext, shell: Shell) -> None:
    """A workspace with the host's network says so in the action; its programs see the host's interfaces."""
    assert context.workspace is not None
    connected = replace(context, workspace=replace(context.workspace, network="host"))
    arguments = checked(shell, command="cat /proc/net/dev | wc -l; ls /etc/resolv.conf")
    assert shell.action(arguments, connected).network == "host"
    with open("/proc/net/dev") as file:
        lines = len(file.readlines())
    assert (await shell.run(arguments, connected)).text.startswith(f"{lines}\n")


async def test_output_and_exit_code_are_told(context: ToolContext, shell: Shell) -> None:
    """What was printed on either channel, in order, then how it ended; another code than 0 is a failure."""
    assert await ran(shell, context, "echo one; echo two >&2; echo three") == ToolOutput(
        text="one\ntwo\nthree\n[exit code 0]"
    )
    assert await ran(shell, context, "false") == ToolOutput(text="(no output)\n[exit code 1]", is_error=True)


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("while :; do :; done", "[exit code 152: it used up its 1 s of processor time]"),
        ("exec head -c 5M /dev/zero >big", "[exit code 153: it wrote a file of more than 1048576 bytes]"),
        ("kill -9 $$", "[exit code 137: it was killed]"),
        ("yes", "[ended because it printed more than 1 MiB]"),
        ("exec nothing-like-it", "[exit code 127]"),
    ],
)
async def test_every_end_has_its_word(context: ToolContext, shell: Shell, command: str, ending: str) -> None:
    """The model can tell a limit from a failure."""
    told = await ran(shell, context, command)
    assert told.is_error
    assert told.text.endswith(ending)


async def test_its_own_time_ends_it_with_what_it_printed(context: ToolContext, shell: Shell) -> None:
    """A command that takes too long is ended, and what it had printed is not lost."""
    told = await ran(shell, context, "echo early; sleep 50", seconds=1)
    assert told == ToolOutput(text="early\n[ended after 1 s, before it had finished]", is_error=True)


async def test_long_output_says_what_is_missing(context: ToolContext, shell: Shell) -> None:
    """The beginning and the end are told, and how much between them is not."""
    told = await ran(shell, context, "seq 20000")
    assert told.text.startswith("1\n2\n3\n")
    assert told.text.endswith("20000\n[exit code 0]")
    assert "bytes left out …]" in told.text
    assert len(told.text) < 2000 + 16 * 1024 + 200


async def test_output_that_is_no_text(context: ToolContext, shell: Shell) -> None:
    """Bytes that are no text are told as replacement characters, never as an error."""
    assert (await ran(shell, context, "printf '\\xff\\x00a'")).text.startswith("�\0a\n")


async def test_a_folder_that_is_not_there(context: ToolContext, shell: Shell) -> None:
    """The command is not run elsewhere instead."""
    with pytest.raises(SandboxError, match="missing"):
        await ran(shell, context, "touch ran", folder="missing")
    assert context.workspace is not None
    assert list(context.workspace.path.iterdir()) == []


async def test_without_a_workspace_nothing_runs(shell: Shell) -> None:
    """A session without a workspace has no place to run anything in; asking about it still works."""
    assert shell.action(checked(shell, command="bash x"), CONTEXT).files == {}
    assert OTHER_FILES in shell.action(checked(shell, command="make"), CONTEXT).files
    with pytest.raises(ToolError, match="no workspace"):
        await ran(shell, CONTEXT, "ls")


async def test_shell_and_file_tools_share_their_files(context: ToolContext, shell: Shell) -> None:
    """What one writes the other can read, change and remove, whoever started us."""
    tools = {tool.name: tool for tool in workspace_tools()}

    async def use(name: str, **arguments: Any) -> str:
        tool = tools[name]
        return str(await tool.run(tool.validate(ToolCall(call_id="c1", name=name, arguments=arguments)), context))

    await use("write_file", path="src/one.txt", content="one\n")
    told = await ran(
        shell, context, "echo two >>src/one.txt; cp src/one.txt src/two.txt; mkdir new; echo 3 >new/3; rm -f x"
    )
    assert told.text == "(no output)\n[exit code 0]"
    assert await use("read_file", path="src/two.txt") == "one\ntwo\n"
    await use("write_file", path="new/3", content="four\n", mode="append")
    await use("edit_file", path="src/two.txt", old="two", new="2")
    await use("write_file", path="new/deep/5", content="5\n")
    told = await ran(shell, context, "cat new/3 src/two.txt; rm -r src new; ls")
    assert told.text == "3\nfour\none\n2\n[exit code 0]"


async def test_a_cancelled_call_is_over(context: ToolContext, shell: Shell) -> None:
    """Cancelling the call passes, after the program has ended."""
    running = asyncio.ensure_future(ran(shell, context, "touch begun; sleep 60"))
    assert context.workspace is not None
    while not (context.workspace.path / "begun").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("git commit -m 'secret'", "git"),
        ("TOKEN=abc curl x | sh; make; ls; cat", "curl, sh, make, …"),
        ("'", "a command"),
    ],
)
def test_the_line_for_shared_places_names_programs_only(command: str, line: str) -> None:
    """No argument, no variable, no path: only what is run."""
    assert shell_tool().summary({"command": command}) == line
    assert shell_tool().summary({}) == "a command"
