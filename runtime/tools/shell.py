"""The tool that runs a command for the shell, inside the sandbox."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from runtime.clock import Clock
from runtime.errors import ToolError
from runtime.protocol.approvals import Action
from runtime.protocol.context import JsonValue, ToolCall
from runtime.tools.arguments import checked_arguments
from runtime.tools.base import Tool, ToolContext, ToolOutput, Workspace
from runtime.tools.files import workspace_of
from runtime.tools.operands import operands, programs
from runtime.tools.paths import MAX_PATH_CHARACTERS, path_parts
from runtime.tools.sandbox import Ended, Limits, Program, Sandbox
from runtime.tools.sandbox.environment import checked_environment
from runtime.tools.sandbox.launcher import Capture
from runtime.tools.sandbox.profile import INSIDE
from runtime.tools.workspace import ABSENT, FOLDER, WorkspaceFolder, enter_workspace

MAX_COMMAND_CHARACTERS = 6000
DEFAULT_SECONDS = 120

OTHER_FILES = "/any other file"
"""The name, in an action's files, for all that the command may read or run without naming it. No path is like it."""

NOT_FIXED = "contents not fixed"

_SHELL = ("/bin/bash", "--noprofile", "--norc", "-c")


def shell_tool(limits: Limits | None = None, *, sandbox: Sandbox | None = None, clock: Clock | None = None) -> Shell:
    """The tool. Offer it only if `await tool.sandbox.probe()` says that it is available; until then it refuses."""
    return Shell(sandbox or Sandbox(limits, clock=clock))


class Shell(Tool):
    """Runs a command in the workspace. Nothing of it goes on after the call."""

    name = "shell"
    approval = "policy"
    replay = "unsafe"
    high_risk = True

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.description = _description(sandbox.limits)
        self.parameters = _parameters(sandbox.limits)
        self.timeout_seconds = sandbox.limits.seconds + 30  # a net below the command's own limit

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments, checked and completed; ToolError says what is wrong."""
        arguments = checked_arguments(self.schema(), call)
        command = str(arguments["command"])
        if not command.strip():
            raise ToolError("shell: the command is empty.")
        if "\0" in command:
            raise ToolError("shell: the command holds a NUL character, which no program can be given.")
        arguments["folder"] = "/".join(path_parts(str(arguments["folder"]))) or "."
        environment = cast("dict[str, JsonValue]", arguments["environment"])
        arguments["environment"] = {**checked_environment(environment)}
        return arguments

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The names of the programs, never their arguments."""
        names = programs(str(arguments.get("command", "")))
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        return shown or "a command"

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        """The action: what is executed, how it is shut in, and the files it names. Reads those files: it blocks."""
        network = context.workspace.network if context.workspace else "none"
        return replace(
            super().action(arguments, context),
            argv=_argv(arguments),
            cwd=f"{INSIDE}/{_folder(arguments)}".rstrip("/"),
            environment=dict(arguments["environment"]),
            files=_files(arguments, context.workspace),
            network=network,
            sandbox=self.sandbox.profile(network),
            timeout_seconds=float(arguments["seconds"]),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Run it to its end, and say how it ended. SandboxError: it was not run."""
        program = Program(argv=_argv(arguments), folder=_folder(arguments), environment=dict(arguments["environment"]))
        seconds = int(arguments["seconds"])
        ended = await self.sandbox.run(program, workspace_of(context), seconds=seconds)
        text = f"{_printed(ended.output)}\n[{_ending(ended, seconds, self.sandbox.limits)}]"
        return ToolOutput(text=text, is_error=ended.exit_code != 0)


def _description(limits: Limits) -> str:
    memory = "" if limits.memory_bytes is None else f", {limits.memory_bytes >> 20} MiB of memory per process"
    return (
        "Run a command for bash in a sandbox. It sees the workspace as /workspace (its current folder), the programs "
        "in /usr, an empty /tmp, and nothing else of this machine; there is no input and no terminal, and usually no "
        "network. Returns what it printed and its exit code. Processes left in the background are ended with it. "
        f"Limits: {limits.cpu_seconds} s of processor time{memory}, {limits.file_bytes >> 20} MiB per file, "
        f"{limits.processes} processes."
    )


def _parameters(limits: Limits) -> dict[str, JsonValue]:
    properties: dict[str, JsonValue] = {
        "command": {"type": "string", "maxLength": MAX_COMMAND_CHARACTERS},
        "folder": {
            "type": "string",
            "maxLength": MAX_PATH_CHARACTERS,
            "default": ".",
            "description": "Where it runs, relative to the workspace.",
        },
        "seconds": {
            "type": "integer",
            "minimum": 1,
            "maximum": limits.seconds,
            "default": min(DEFAULT_SECONDS, limits.seconds),
            "description": "After this time it is ended.",
        },
        "environment": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "default": {},
            "description": "Environment variables to set, by name (A-Z, 0-9 and _).",
        },
    }
    return {"type": "object", "properties": properties, "required": ["command"], "additionalProperties": False}


def _argv(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return (*_SHELL, str(arguments["command"]))


def _folder(arguments: Mapping[str, Any]) -> str:
    folder = str(arguments["folder"])
    return "" if folder == "." else folder


def _files(arguments: Mapping[str, Any], workspace: Workspace | None) -> dict[str, str]:
    found = operands(str(arguments["command"]), _folder(arguments))
    files: dict[str, str] = {}
    if workspace is not None:
        files = _contents(workspace, found.required, found.named)
    if not found.fixed or NOT_FIXED in files.values():
        files[OTHER_FILES] = NOT_FIXED
    return files


def _contents(workspace: Workspace, required: tuple[str, ...], named: tuple[str, ...]) -> dict[str, str]:
    try:
        with enter_workspace(workspace) as folder:
            files = {path: _content(folder, path) for path in required}
            others = {path: _content(folder, path) for path in named}
    except ToolError:
        return dict.fromkeys(required, NOT_FIXED)  # running it says why; an action must come about for every call
    files = {path: NOT_FIXED if content == FOLDER else content for path, content in files.items()}
    return files | {path: content for path, content in others.items() if content not in (ABSENT, FOLDER)}


def _content(folder: WorkspaceFolder, path: str) -> str:
    try:
        return folder.fingerprint(path)
    except ToolError:
        return NOT_FIXED


def _printed(output: Capture) -> str:
    head = output.head.decode(errors="replace")
    if not output.left_out:
        text = (output.head + output.tail).decode(errors="replace")
    else:
        tail = output.tail.decode(errors="replace")
        text = f"{head}\n[… {output.left_out} bytes left out …]\n{tail}"
    return text.rstrip("\n") or "(no output)"


def _ending(ended: Ended, seconds: int, limits: Limits) -> str:
    match ended.cut_off:
        case "time":
            return f"ended after {seconds} s, before it had finished"
        case "output":
            return f"ended because it printed more than {limits.flood_bytes >> 20} MiB"
        case None:
            return f"exit code {ended.exit_code}{_signal(ended.exit_code, limits)}"


def _signal(code: int, limits: Limits) -> str:
    match code - 128:
        case signal.SIGXCPU:
            return f": it used up its {limits.cpu_seconds} s of processor time"
        case signal.SIGXFSZ:
            return f": it wrote a file of more than {limits.file_bytes} bytes"
        case signal.SIGKILL:
            return ": it was killed"
        case signal.SIGSYS:
            return ": it made a system call that is not allowed"
        case _:
            return ""
