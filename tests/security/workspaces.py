"""A workspace with a secret next door, and every file tool aimed at a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import Tool, ToolContext, Workspace
from runtime.tools.files import workspace_tools
from runtime.tools.openers import Opener

SECRET = "SECRET-OF-THE-HOST"

AIMED: Mapping[str, Mapping[str, Any]] = {
    "read_file": {},
    "list_files": {},
    "search_files": {"text": "SECRET"},
    "edit_file": {"old": SECRET, "new": "broken"},
    "write_file create": {"content": "broken", "mode": "create"},
    "write_file overwrite": {"content": "broken", "mode": "overwrite"},
    "write_file append": {"content": "broken", "mode": "append"},
}


def make_workspace(folder: Path, name: str = "workspace") -> ToolContext:
    """An empty workspace below `folder`, and the context of a call in it."""
    root = folder / name
    root.mkdir()
    workspace = Workspace(id=name, label=name, path=root)
    return ToolContext(session_id="s1", turn_id="t1", call_id="c1", workspace=workspace, principal="telegram:42")


async def attempt(aim: str, path: str, context: ToolContext, opener: Opener | None = None) -> str:
    """What the model is told when it aims a tool at a path; a refusal begins with `refused: `."""
    tools: dict[str, Tool] = {tool.name: tool for tool in workspace_tools(opener)}
    tool = tools[aim.split()[0]]
    try:
        arguments = tool.validate(ToolCall(call_id="c1", name=tool.name, arguments={"path": path, **AIMED[aim]}))
        tool.action(arguments, context)
        return str(await tool.run(arguments, context))
    except ToolError as error:
        return f"refused: {error}"
