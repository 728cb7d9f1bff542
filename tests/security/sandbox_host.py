"""A process that runs one command in a sandbox, as the gateway would: to be killed by a test.

Started as `python sandbox_host.py WORKSPACE COMMAND`; prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from runtime.tools.base import Workspace
from runtime.tools.sandbox import Program, Sandbox


async def run(folder: str, command: str) -> dict[str, object]:
    """Examine the sandbox, run the command, tell how it ended."""
    sandbox = Sandbox()
    found = await sandbox.probe()
    if not found.available:
        return {"unavailable": found.reason}
    workspace = Workspace(id="w1", label="work", path=Path(folder))
    ended = await sandbox.run(Program(argv=("/bin/bash", "-c", command)), workspace, seconds=60)
    return {"code": ended.exit_code, "output": ended.output.head.decode(), "cut off": ended.cut_off}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(*sys.argv[1:]))))
