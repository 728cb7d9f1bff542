"""The built-in tools for the files of a workspace: read, write, edit, list, search."""

from __future__ import annotations

import asyncio
import io
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from runtime.errors import ToolError
from runtime.protocol.approvals import Action
from runtime.protocol.context import JsonValue, ToolCall
from runtime.tools.arguments import checked_arguments
from runtime.tools.base import JsonSchema, Tool, ToolContext, Workspace
from runtime.tools.openers import Opener
from runtime.tools.paths import MAX_PATH_CHARACTERS, path_parts, printable, writable_parts
from runtime.tools.workspace import Entry, WorkspaceFolder, enter_workspace

MAX_CONTENT_CHARACTERS = 256 * 1024
MAX_LINES = 2000
MAX_OUTPUT_CHARACTERS = 50_000
MAX_LINE_CHARACTERS = 2000
MAX_ENTRIES = 500
MAX_DEPTH = 8
MAX_SEARCHED_FILES = 5000
MAX_SEARCHED_BYTES = 32 * 1024 * 1024
MAX_SEARCHED_FILE_BYTES = 1024 * 1024
MAX_MATCHES = 100
_ECHO_CHARACTERS = 200
_SUMMARY_CHARACTERS = 80

_T = TypeVar("_T")
_PATH: JsonValue = {
    "type": "string",
    "maxLength": MAX_PATH_CHARACTERS,
    "description": "Relative to the workspace, with slashes.",
}
_FOLDER_PATH: JsonValue = {
    "type": "string",
    "maxLength": MAX_PATH_CHARACTERS,
    "default": ".",
    "description": "A folder, relative to the workspace.",
}


def _schema(properties: dict[str, JsonValue], *, required: list[JsonValue]) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def workspace_tools(opener: Opener | None = None) -> tuple[Tool, ...]:
    """The five tools. They work in the workspace of the call's context, and refuse to without one."""
    return (ReadFile(opener), WriteFile(opener), EditFile(opener), ListFiles(opener), SearchFiles(opener))


class _WorkspaceTool(Tool):
    """What the five share: the workspace of the call, a thread for the work, checked arguments."""

    def __init__(self, opener: Opener | None = None) -> None:
        self._opener = opener

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments, checked and completed; ToolError says what is wrong, also with a path's form."""
        arguments = checked_arguments(self.schema(), call)
        self.check_path(str(arguments["path"]))
        return arguments

    def check_path(self, path: str) -> None:
        """ToolError if the path cannot be one that this tool takes."""
        path_parts(path)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Do the work in a thread. A cancelled call has ended, one way or the other, when this returns."""
        workspace, stop = workspace_of(context), threading.Event()

        def work() -> str:
            if stop.is_set():
                raise ToolError("Stopped before it began.")
            with enter_workspace(workspace, self._opener) as folder:
                return self.work(folder, arguments, stop.is_set)

        return await _in_thread(work, stop)

    @abstractmethod
    def work(self, folder: WorkspaceFolder, arguments: Mapping[str, Any], stopped: Callable[[], bool]) -> str:
        """The work itself, blocking; a long one ends early once `stopped` says so."""


def workspace_of(context: ToolContext) -> Workspace:
    """The workspace of a call; ToolError if its session has none."""
    if context.workspace is None:
        raise ToolError("This session has no workspace, so it has no files.")
    return context.workspace


async def _in_thread(work: Callable[[], _T], stop: threading.Event) -> _T:
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # A thread cannot be ended from outside. Its effect must not come after the turn was said to be over.
        stop.set()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()
        raise


class _WritingTool(_WorkspaceTool):
    """A tool with an effect: its action names the file's content as it is when the action is shown."""

    def check_path(self, path: str) -> None:
        """ToolError if the path cannot be one that a tool writes to."""
        writable_parts(path)

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        """The action, with the SHA-256 of the file as it is now, `absent`, or `refused`. Reads the file: it blocks."""
        return replace(super().action(arguments, context), files=self._files(_text(arguments, "path"), context))

    def _files(self, path: str, context: ToolContext) -> dict[str, str]:
        if context.workspace is None:
            return {}
        try:
            with enter_workspace(context.workspace, self._opener) as folder:
                return {path: folder.digest(path)}
        except ToolError:
            return {path: "refused"}  # running it says why; an action must come about for every call


class ReadFile(_WorkspaceTool):
    """Reads a text file, or some lines of it."""

    name = "read_file"
    description = (
        "Read a UTF-8 text file of the workspace. Returns at most `limit` lines from line `offset` on; "
        "a last line in square brackets says if there is more."
    )
    parameters = _schema(
        {
            "path": _PATH,
            "offset": {"type": "integer", "minimum": 1, "maximum": 10_000_000, "default": 1},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": 500},
        },
        required=["path"],
    )
    approval = "never"
    replay = "safe"
    parallel = True

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The path."""
        return _summary(arguments, "")

    def work(self, folder: WorkspaceFolder, arguments: Mapping[str, Any], stopped: Callable[[], bool]) -> str:
        """The lines."""
        lines = _line_by_line(folder.read_text(arguments["path"]))
        first, limit = int(arguments["offset"]) - 1, int(arguments["limit"])
        if not lines:
            return "[the file is empty]"
        if first >= len(lines):
            raise ToolError(f"{printable(arguments['path'])} has only {len(lines)} lines.")
        chosen = _within_output(lines[first : first + limit])
        last = first + len(chosen)
        text = "".join(chosen)
        if first == 0 and last == len(lines):
            return text
        rest = f"; go on with offset={last + 1}" if last < len(lines) else ""
        return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[lines {first + 1} to {last} of {len(lines)}{rest}]"


def _within_output(lines: list[str]) -> list[str]:
    room, chosen = MAX_OUTPUT_CHARACTERS, list[str]()
    for line in lines:
        shown = line
        if len(line) > MAX_LINE_CHARACTERS:
            shown = f"{line[:MAX_LINE_CHARACTERS]}[… {len(line)} characters]\n"
        room -= len(shown)
        if room < 0 and chosen:
            break
        chosen.append(shown)
    return chosen


class WriteFile(_WritingTool):
    """Writes a whole file, or adds to its end."""

    name = "write_file"
    description = (
        "Write a UTF-8 text file of the workspace; missing folders are made. mode `create` refuses to touch an "
        "existing file, `overwrite` replaces its whole content, `append` adds lines at its end and makes it if missing."
    )
    parameters = _schema(
        {
            "path": _PATH,
            "content": {"type": "string", "maxLength": MAX_CONTENT_CHARACTERS},
            "mode": {"type": "string", "enum": ["create", "overwrite", "append"], "default": "create"},
        },
        required=["path", "content"],
    )
    timeout_seconds = 60

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The path and the number of lines, never the text."""
        count = _count(_lines(_text(arguments, "content")), "line")
        mode = _text(arguments, "mode")
        detail = {"append": f"+{count}", "overwrite": f"replaced by {count}"}.get(mode, f"new, {count}")
        return _summary(arguments, f" ({detail})")

    def work(self, folder: WorkspaceFolder, arguments: Mapping[str, Any], stopped: Callable[[], bool]) -> str:
        """Write, and say what stands in the file now."""
        path, content = str(arguments["path"]), str(arguments["content"])
        size = f"{_count(_lines(content), 'line')}, {_count(len(content.encode()), 'byte')}"
        match arguments["mode"]:
            case "append":
                return self._appended(folder, path, content)
            case "overwrite":
                folder.overwrite(path, content.encode())
                return f"Wrote {printable(path)} ({size})."
            case _:
                folder.create(path, content.encode())
                return f"Created {printable(path)} ({size})."

    def _appended(self, folder: WorkspaceFolder, path: str, content: str) -> str:
        done = folder.append(path, content.encode())
        count = _count(_lines(content), "line")
        new = " (a new file)" if done.created else ""
        # The words are named, because a person may have edited them while approving.
        return f"Appended {count} to {printable(path)}{new}: {_echo(content)}"


class EditFile(_WritingTool):
    """Replaces one exact piece of a file."""

    name = "edit_file"
    description = (
        "Replace `old` by `new` in a UTF-8 text file of the workspace. `old` must occur exactly once, "
        "character for character; take lines around it to make it unique."
    )
    parameters = _schema(
        {
            "path": _PATH,
            "old": {"type": "string", "maxLength": MAX_CONTENT_CHARACTERS},
            "new": {"type": "string", "maxLength": MAX_CONTENT_CHARACTERS},
        },
        required=["path", "old", "new"],
    )
    timeout_seconds = 60

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The path and the number of lines, never the text."""
        old, new = _lines(_text(arguments, "old")), _lines(_text(arguments, "new"))
        return _summary(arguments, f" ({_count(old, 'line')} replaced by {new})")

    def work(self, folder: WorkspaceFolder, arguments: Mapping[str, Any], stopped: Callable[[], bool]) -> str:
        """Edit, and say where."""
        path, old, new = (str(arguments[name]) for name in ("path", "old", "new"))
        line = folder.edit(path, old, new)
        return f"Replaced {_count(_lines(old), 'line')} by {_lines(new)} in {printable(path)}, at line {line}."


class ListFiles(_WorkspaceTool):
    """Names what is in a folder."""

    name = "list_files"
    description = (
        "List a folder of the workspace down to `depth` levels: folders end in /, files have their size in bytes, "
        "links are named and not followed."
    )
    parameters = _schema(
        {
            "path": _FOLDER_PATH,
            "depth": {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH, "default": 2},
        },
        required=[],
    )
    approval = "never"
    replay = "safe"
    parallel = True

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The path."""
        return _summary(arguments, "" if _text(arguments, "path").endswith("/") else "/")

    def work(self, folder: WorkspaceFolder, arguments: Mapping[str, Any], stopped: Callable[[], bool]) -> str:
        """One line for each name."""
        lines: list[str] = []
        for entry in folder.entries(arguments["path"], int(arguments["depth"])):
            if len(lines) == MAX_ENTRIES or stopped():
                lines.append(f"[more than {MAX_ENTRIES}; list a folder below]")
                break
            lines.append(_listed(entry))
        return "\n".join(lines) or "[the folder is empty]"


def _listed(entry: Entry) -> str:
    name = printable(entry.path)
    match entry.kind:
        case "folder":
            return f"{name}/"
        case "file":
            return f"{name} ({entry.size})"
        case kind:
            return f"{name} [{kind}]"


class SearchFiles(_WorkspaceTool):
    """Finds a text in the files of a folder."""

    name = "search_files"
    description = (
        "Find lines that contain `text`, literally and minding case, in the text files below a folder of the "
        "workspace. Returns `path:line: the line`."
    )
    parameters = _schema(
        {"text": {"type": "string", "maxLength": 1000}, "path": _FOLDER_PATH},
        required=["text"],
    )
    approval = "never"
    replay = "safe"
    parallel = True
    timeout_seconds = 60

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments, checked; an empty or many-lined text is refused."""
        arguments = super().validate(call)
        text = str(arguments["text"])
        if not text or "\n" in text:
            raise ToolError("search_files: text must be part of one line, and not empty.")
        return arguments

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The folder, never the text."""
        return _summary(arguments, "" if _text(arguments, "path").endswith("/") else "/")

    def work(self, folder: WorkspaceFolder, arguments: Mapping[str, Any], stopped: Callable[[], bool]) -> str:
        """The matches, and what was left out."""
        text = str(arguments["text"])
        found, files, left = list[str](), 0, MAX_SEARCHED_BYTES
        for entry in folder.entries(arguments["path"], depth=64):
            if entry.kind != "file" or entry.size > MAX_SEARCHED_FILE_BYTES:
                continue
            if files == MAX_SEARCHED_FILES or left <= 0 or stopped():
                found.append("[stopped here: too much to search; name a folder below]")
                break
            files, left = files + 1, left - entry.size
            content = folder.readable(entry.path, MAX_SEARCHED_FILE_BYTES)
            found += islice(_matches(entry.path, content or b"", text), MAX_MATCHES - len(found))
            if len(found) >= MAX_MATCHES:
                found.append(f"[the first {MAX_MATCHES} matches; ask for something rarer]")
                break
        return "\n".join(found) or f"[nothing found in {_count(files, 'file')}]"


def _matches(path: str, content: bytes, text: str):
    if text.encode() not in content or b"\0" in content[:8192]:
        return
    for number, line in enumerate(_line_by_line(content.decode(errors="replace")), 1):
        if text in line:
            yield f"{printable(path)}:{number}: {line.strip()[:_ECHO_CHARACTERS]}"


def _line_by_line(text: str) -> list[str]:
    return list(io.StringIO(text, newline="\n"))  # unlike splitlines, which also ends lines at form feeds and the like


def _lines(text: str) -> int:
    return len(_line_by_line(text))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _echo(content: str) -> str:
    text = content.strip()
    return text if len(text) <= _ECHO_CHARACTERS else f"{text[:_ECHO_CHARACTERS]}… ({len(text)} characters)"


def _text(arguments: Mapping[str, Any], name: str) -> str:
    return str(arguments.get(name, ""))  # a summary is also wanted of calls whose arguments are wrong


def _summary(arguments: Mapping[str, Any], detail: str) -> str:
    return printable(_text(arguments, "path"), _SUMMARY_CHARACTERS - len(detail)) + detail
