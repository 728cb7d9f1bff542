"""What is configured of an MCP server, and what it has to stay like."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from runtime.protocol.context import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A server that is started in the sandbox for each call (`command`), or asked over HTTP (`url`).

    `folder` is shown to the command, read-only, as /mcp. `token` goes along as a bearer token, to `url` only.
    """

    name: str
    command: Sequence[str] = ()
    folder: Path | None = None
    url: str = ""
    token: str = field(default="", repr=False)
    network: Literal["none", "host"] = "none"
    timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSpec:
    """A tool as its server describes it: all that a model is told, and so all that must not change unseen."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]


def manifest(specs: Sequence[McpSpec]) -> str:
    """Names everything that a server says of its tools: 16 hexadecimal digits, whatever the order."""
    listed = sorted([spec.name, spec.description, msgspec.to_builtins(spec.schema)] for spec in specs)
    return hashlib.sha256(msgspec.json.encode(listed, order="deterministic")).hexdigest()[:16]
