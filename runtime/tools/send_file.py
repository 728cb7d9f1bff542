"""The tool that sends a file of the workspace to the people who talk to the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from runtime.errors import ToolError
from runtime.protocol.approvals import Action
from runtime.protocol.context import JsonValue, ToolCall
from runtime.tools.arguments import checked_arguments
from runtime.tools.base import JsonSchema, Tool, ToolContext, Workspace
from runtime.tools.files import workspace_of
from runtime.tools.paths import MAX_PATH_CHARACTERS, path_parts, printable
from runtime.tools.workspace import enter_workspace

MAX_BYTES = 50_000_000
MAX_CAPTION_CHARACTERS = 500

_PARAMETERS: JsonSchema = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "maxLength": MAX_PATH_CHARACTERS,
            "description": "Relative to the workspace, with slashes.",
        },
        "caption": {"type": "string", "maxLength": MAX_CAPTION_CHARACTERS, "default": ""},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingFile:
    """A file as it is to be sent."""

    name: str
    content: bytes = field(repr=False)
    caption: str = ""


Post: TypeAlias = Callable[[OutgoingFile, ToolContext], Awaitable[None]]
"""Sends a file to where the session's people are. Durable on return, and once under the context's idempotency key;
ToolError, for the model, if it cannot be sent there."""


class SendFile(Tool):
    """Sends one file. The opened file is what is sent: never a URL, never anything outside of the workspace."""

    name = "send_file"
    description = (
        "Send a file of the workspace to the people in this conversation, as it is. It is sent once; say in `caption` "
        "what it is."
    )
    parameters = _PARAMETERS
    approval = "policy"
    replay = "by_key"
    timeout_seconds = 60

    def __init__(self, post: Post) -> None:
        self._post = post

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments, checked; ToolError also for a path that leads nowhere in a workspace."""
        arguments = checked_arguments(self.schema(), call)
        path_parts(str(arguments["path"]))
        return arguments

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The path."""
        return printable(str(arguments.get("path", "")), 80)

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        """The action, with the SHA-256 of the file as it is now. Reads the file: it blocks."""
        path = str(arguments.get("path", ""))
        return replace(super().action(arguments, context), files=_digest(context.workspace, path))

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Read the file and hand it over."""
        path = str(arguments["path"])
        content = await asyncio.to_thread(_read, workspace_of(context), path)
        name = path_parts(path)[-1]
        await self._post(OutgoingFile(name=name, content=content, caption=str(arguments["caption"])), context)
        return f"{printable(path)} ({len(content)} bytes) is on its way."


def _digest(workspace: Workspace | None, path: str) -> dict[str, str]:
    if workspace is None:
        return {}
    try:
        with enter_workspace(workspace) as folder:
            return {path: folder.digest(path, MAX_BYTES)}
    except ToolError:
        return {path: "refused"}  # running it says why; an action must come about for every call


def _read(workspace: Workspace, path: str) -> bytes:
    with enter_workspace(workspace) as folder:
        content = folder.read(path, MAX_BYTES)
    if not content:
        raise ToolError(f"{printable(path)} is empty, and an empty file cannot be sent.")
    return content
