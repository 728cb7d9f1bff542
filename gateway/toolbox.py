"""The tools that agents may be given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from gateway.config import Config
from gateway.plugins import tools_of_others
from gateway.schedules.tool import NAME as SCHEDULE_TASK
from runtime.clock import Clock
from runtime.errors import SandboxError, ToolError
from runtime.tools.base import Tool, ToolContext

if TYPE_CHECKING:
    from gateway.mcp import State
    from runtime.tools.send_file import OutgoingFile, Post

log = logging.getLogger("pilothouse")


async def nowhere(file: OutgoingFile, context: ToolContext) -> None:
    """Sends no file: where there is no chat."""
    raise ToolError("There is no chat that a file could be sent to.")


def every_tool(clock: Clock, post: Post = nowhere) -> Sequence[Tool]:
    """Every tool that there is, those of other packages too, whether or not it can be offered on this machine."""
    from runtime.tools.ask_user import AskUser
    from runtime.tools.fetch import fetch_tool
    from runtime.tools.files import workspace_tools
    from runtime.tools.send_file import SendFile
    from runtime.tools.shell import shell_tool

    ours = [*workspace_tools(), fetch_tool(), shell_tool(clock=clock), SendFile(post), AskUser()]
    return [*ours, *tools_of_others({SCHEDULE_TASK, *(tool.name for tool in ours)})]


async def offered_tools(config: Config, clock: Clock, post: Post, state: State) -> Sequence[Tool]:
    """The tools that can be offered here: no shell without a sandbox that holds, no MCP server that has changed.

    With one, an empty workspace of a gateway that root started has an owner of its own on return.
    """
    from runtime.tools.shell import Shell

    offered: list[Tool] = []
    for tool in every_tool(clock, post):
        if isinstance(tool, Shell):
            sandbox = await tool.sandbox.probe()
            if not sandbox.available:
                log.warning("the shell is not offered: %s; %s", sandbox.reason, sandbox.remedy)
                continue
            await asyncio.to_thread(_give_owners, config)
        offered.append(tool)
    return [*offered, *await _tools_of_servers(config, clock, state, {tool.name for tool in offered})]


async def _tools_of_servers(config: Config, clock: Clock, state: State, taken: Collection[str]) -> list[Tool]:
    if not config.mcp:
        return []
    from gateway.mcp import tools_of_servers
    from runtime.tools.sandbox import Sandbox

    sandbox = Sandbox(clock=clock)
    await sandbox.probe()
    found = await tools_of_servers(config.mcp, state, sandbox)
    return [tool for tool in found if tool.name not in taken]


def _give_owners(config: Config) -> None:
    """Started by root, an empty workspace gets an owner of its own before anything writes in it."""
    from runtime.tools.sandbox import opened_workspace

    for workspace in config.workspaces:
        try:
            with opened_workspace(workspace.path):
                pass
        except SandboxError as error:
            log.warning("no program can run in the workspace %s: %s", workspace.id, error)
