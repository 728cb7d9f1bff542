"""Another vendor's client in a Node process of its own: driven over an emulator, heard on its output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
PATIENCE = 60.0
"""Seconds of real time that a step may take on a machine that has other things to do."""


def require_node() -> str:
    """The Node program. Skips the test if it or the clients are not installed; in CI that is a failure."""
    node = shutil.which("node")
    if node is not None and (CONFORMANCE / "node_modules").is_dir():
        return node
    reason = "Node is not installed" if node is None else "run `npm ci --prefix tests/conformance` first"
    if os.environ.get("CI"):
        pytest.fail(f"the conformance tests need Node and its clients: {reason}")
    pytest.skip(reason)


class NodePeer:
    """What the process told so far, one JSON object per line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.told: list[dict[str, Any]] = []

    async def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first thing told, now or earlier, that is wanted. Fails if the process ends before."""
        for one in self.told:
            if wanted(one):
                return one
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line := await self._process.stdout.readline():
                self.told.append(json.loads(line))
                if wanted(self.told[-1]):
                    return self.told[-1]
        pytest.fail(f"the Node process ended after telling {self.told}")

    async def said(self, what: str) -> dict[str, Any]:
        """The first thing told under this name."""
        return await self.hear(lambda one: one["what"] == what)


@asynccontextmanager
async def node_peer(script: str, *arguments: str) -> AsyncGenerator[NodePeer]:
    """Run a script of the conformance folder; it is told to end by the end of its input."""
    # Clients obey proxies even for loopback.
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    process = await asyncio.create_subprocess_exec(
        *(require_node(), script, *arguments),
        cwd=CONFORMANCE,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    peer = NodePeer(process)
    try:
        yield peer
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
