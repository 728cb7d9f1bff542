"""A tool of an MCP server as one of ours: gated like any other, whatever its server says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.protocol.approvals import Action
from runtime.tools.base import Tool, ToolContext, ToolOutput, Workspace
from runtime.tools.mcp.server import McpServer, McpSpec
from runtime.tools.sandbox import Sandbox

MAX_DESCRIPTION_CHARACTERS = 4000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def full_name(server: McpServer, spec: McpSpec) -> str | None:
    """`server__tool`; None if no model could say it."""
    name = f"{server.name}__{spec.name}"
    return name if _NAME.fullmatch(name) else None


class McpTool(Tool):
    """One tool. Its annotations are not looked at: they are the server's own word. A call is never repeated."""

    approval = "policy"
    replay = "unsafe"

    def __init__(self, server: McpServer, spec: McpSpec, name: str, sandbox: Sandbox) -> None:
        self.name = name
        self.description = f"[{server.name}] {spec.description}"[:MAX_DESCRIPTION_CHARACTERS]
        self.parameters = spec.schema
        self.timeout_seconds = server.timeout_seconds + 10
        self.server = server
        self._spec = spec
        self._sandbox = sandbox

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        """The action, with what is started or asked, and the network that this can reach."""
        server = self.server
        fence = self._sandbox.profile(server.network) if server.command else None
        network = "public internet" if server.url else server.network
        argv = tuple(server.command) or ("mcp", server.url)
        action = replace(super().action(arguments, context), network=network, argv=argv)
        return replace(action, sandbox=fence) if fence else action

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Ask the server, if the tool is still what it was."""
        from runtime.tools.mcp.connection import call

        workspace = context.workspace or Workspace(id="none", label="none", path=Path("/nonexistent"))
        return await call(self.server, self._sandbox, workspace, self._spec, arguments)
