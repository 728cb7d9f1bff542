"""Which tools of MCP servers are offered: those that are still what they were when first seen, or accepted."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import msgspec

from gateway.config.model import McpSection
from runtime.errors import SandboxError, ToolError
from runtime.protocol.context import JsonValue
from runtime.tools.base import Workspace
from runtime.tools.mcp.server import McpServer, McpSpec, manifest
from runtime.tools.mcp.tool import McpTool, full_name
from runtime.tools.sandbox import Sandbox

log = logging.getLogger("pilothouse")

SCOPE = "gateway.mcp"


class State(Protocol):
    """What is remembered of servers; `runtime.store.CheckpointStore` is one."""

    async def save_state(self, scope: str, key: str, value: JsonValue) -> None:
        """Remember."""
        ...

    async def load_state(self, scope: str, key: str) -> JsonValue:
        """What was remembered, or None."""
        ...


async def tools_of_servers(sections: Sequence[McpSection], state: State, sandbox: Sandbox) -> list[McpTool]:
    """The tools of every server that answers and has not changed. The others are left out, and the log says why."""
    if not sections:
        return []
    found = await asyncio.gather(*(_tools_of(section, state, sandbox) for section in sections))
    return [tool for tools in found for tool in tools]


async def _tools_of(section: McpSection, state: State, sandbox: Sandbox) -> list[McpTool]:
    server = server_of(section)
    try:
        specs = await _asked(server, sandbox)
    except ImportError:
        log.error("the MCP server %s is not offered: install it with `pip install 'pilothouse[mcp]'`", section.name)
        return []
    except (ToolError, SandboxError) as error:
        log.error("the MCP server %s is not offered: %s", section.name, error)
        return []
    if (changed := await drift(section, specs, state)) is not None:
        log.error("the MCP server %s is not offered: %s", section.name, changed)
        return []
    named = [(full_name(server, spec), spec) for spec in specs]
    return [McpTool(server, spec, name, sandbox) for name, spec in named if name is not None]


async def drift(section: McpSection, specs: Sequence[McpSpec], state: State) -> str | None:
    """What has changed since the server was first seen, and how to accept it; None if nothing has.

    What is first seen is remembered. `manifest` in the configuration says what is accepted in its place.
    """
    now = manifest(specs)
    if section.manifest:
        return None if section.manifest == now else _changes({}, specs, section.manifest, now)
    known = await state.load_state(SCOPE, section.name)
    if not isinstance(known, dict):
        described = {spec.name: msgspec.to_builtins([spec.description, spec.schema]) for spec in specs}
        await state.save_state(SCOPE, section.name, {"manifest": now, "tools": described})
        return None
    if known.get("manifest") == now:
        return None
    tools = known.get("tools")
    return _changes(tools if isinstance(tools, dict) else {}, specs, str(known.get("manifest")), now)


def _changes(known: Mapping[str, JsonValue], specs: Sequence[McpSpec], before: str, now: str) -> str:
    described = {spec.name: msgspec.to_builtins([spec.description, spec.schema]) for spec in specs}
    lines = [f"its tools have changed since they were accepted (manifest {before})"]
    names = sorted(known.keys() | described.keys()) if known else []
    changed = [name for name in names if known.get(name) != described.get(name)]
    lines += [f"{name}: {_shown(known.get(name))} -> {_shown(described.get(name))}" for name in changed]
    lines.append(f'look at them, and set manifest = "{now}" in its [[mcp]] entry to accept them')
    return "; ".join(lines)


def _shown(described: JsonValue) -> str:
    return "absent" if described is None else msgspec.json.encode(described).decode()[:1000]


async def _asked(server: McpServer, sandbox: Sandbox) -> list[McpSpec]:
    """Its tools now; the library is loaded in a thread, since that takes seconds."""
    await asyncio.to_thread(import_module, "runtime.tools.mcp.connection")
    from runtime.tools.mcp.connection import specs_of

    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="pilothouse-mcp-"))
    try:
        return await specs_of(server, sandbox, Workspace(id="mcp", label="mcp", path=folder))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def server_of(section: McpSection) -> McpServer:
    """The server of a section."""
    return McpServer(
        name=section.name,
        command=section.command,
        folder=section.folder,
        url=section.url or "",
        token=section.token.reveal() if section.token else "",
        network=section.network,
        timeout_seconds=section.timeout_seconds,
    )
