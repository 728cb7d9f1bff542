"""A conversation with an MCP server: list its tools, or call one of them. Importing this loads `mcp`."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, cast

import anyio
import httpx2
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import PaginatedRequestParams, TextContent, jsonrpc_message_adapter

from runtime.errors import SandboxError, ToolError
from runtime.protocol.context import JsonValue
from runtime.tools.base import ToolOutput, Workspace
from runtime.tools.mcp.server import McpServer, McpSpec
from runtime.tools.sandbox import Program, Sandbox

MAX_TOOLS = 200
MAX_RESULT_CHARACTERS = 1_000_000
MAX_LINE_BYTES = 8 * 1024 * 1024

Session: TypeAlias = ClientSession


async def specs_of(server: McpServer, sandbox: Sandbox, workspace: Workspace) -> list[McpSpec]:
    """The tools that the server has now. ToolError: it cannot be asked, or does not answer as it should."""
    async with _bounded(server), _session(server, sandbox, workspace) as session:
        return await _listed(session)


async def call(
    server: McpServer, sandbox: Sandbox, workspace: Workspace, expected: McpSpec, arguments: Mapping[str, Any]
) -> ToolOutput:
    """Call a tool that is still what it was. ToolError: it has changed, or the server cannot be asked."""
    async with _bounded(server), _session(server, sandbox, workspace) as session:
        if expected not in await _listed(session):
            raise ToolError(f"{expected.name} of {server.name} has changed since it was looked at, and was not called.")
        result = await session.call_tool(expected.name, dict(arguments))
        texts = [part.text if isinstance(part, TextContent) else f"[{part.type}]" for part in result.content]
        text = "\n".join(texts)
        return ToolOutput(text=text[:MAX_RESULT_CHARACTERS] or "(nothing)", is_error=bool(result.is_error))


async def _listed(session: Session) -> list[McpSpec]:
    specs: list[McpSpec] = []
    cursor: str | None = None
    while True:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            schema = cast("dict[str, JsonValue]", dict(tool.input_schema))
            specs.append(McpSpec(name=tool.name, description=tool.description or "", schema=schema))
        cursor = page.next_cursor
        if len(specs) > MAX_TOOLS:
            raise ToolError(f"it has more than {MAX_TOOLS} tools")
        if not cursor:
            return specs


@asynccontextmanager
async def _session(server: McpServer, sandbox: Sandbox, workspace: Workspace) -> AsyncGenerator[Session]:
    """A session that offers the server nothing: no sampling, no elicitation, no roots."""
    streams = _over_http(server) if server.url else _in_sandbox(server, sandbox, workspace)
    async with streams as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def _over_http(server: McpServer) -> AsyncGenerator[tuple[Any, Any]]:
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    client = httpx2.AsyncClient(
        headers=headers, timeout=server.timeout_seconds, trust_env=False, follow_redirects=False
    )
    async with client, streamable_http_client(server.url, http_client=client) as streams:
        yield streams[0], streams[1]


@asynccontextmanager
async def _in_sandbox(server: McpServer, sandbox: Sandbox, workspace: Workspace) -> AsyncGenerator[tuple[Any, Any]]:
    """The server as a shut-in process; it is gone on leaving."""
    into, reads = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    writes, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    program = Program(argv=tuple(server.command), read_only=server.folder)
    place = Workspace(id=workspace.id, label=workspace.label, path=workspace.path, network=server.network)
    lines = _Lines(into)
    running = asyncio.create_task(
        sandbox.serve(program, place, seconds=server.timeout_seconds, stdin=theirs, take=lines.add), name="mcp server"
    )
    running.add_done_callback(lambda _: into.close())
    writing = asyncio.create_task(_write(outgoing, ours), name="mcp writer")
    try:
        yield reads, writes
    finally:
        failure = running.exception() if running.done() and not running.cancelled() else None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        os.close(theirs)  # a writer that waits for its reader sees now that there is none
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        os.close(ours)
        for stream in (into, reads, writes, outgoing):
            stream.close()
        if isinstance(failure, SandboxError):
            raise failure


class _Lines:
    """Messages, one to a line, out of what a server prints."""

    def __init__(self, into: Any) -> None:
        self._into = into
        self._rest = b""

    def add(self, piece: bytes) -> None:
        """Take what was printed; a line that never ends is the end of the conversation."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            for line in lines:
                if line.strip():
                    self._into.send_nowait(_message(line))
            if len(self._rest) > MAX_LINE_BYTES:
                self._into.close()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(outgoing: Any, descriptor: int) -> None:
    with suppress(OSError):
        async for message in outgoing:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            await asyncio.to_thread(_write_all, descriptor, line)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


@asynccontextmanager
async def _bounded(server: McpServer) -> AsyncGenerator[None]:
    """In its time; whatever goes wrong with a stranger is one sentence about it."""
    try:
        async with asyncio.timeout(server.timeout_seconds):
            yield
    except (ToolError, SandboxError):
        raise
    except TimeoutError:
        raise ToolError(f"The MCP server {server.name} did not answer within {server.timeout_seconds:g} s.") from None
    except Exception as error:  # the library raises groups of whatever a stranger caused
        causes = _leaves(error)
        known = next((cause for cause in causes if isinstance(cause, ToolError)), None)
        told = str(known or causes[0])[:300] or type(causes[0]).__name__
        raise ToolError(f"The MCP server {server.name} could not be asked: {told}") from error


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return [leaf for one in inner for leaf in _leaves(one)]
