"""A test that fails before it closes its store must not keep the test run alive through the driver's threads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.store.writer import Connection


@pytest.fixture(autouse=True)
async def connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Close every connection that the test opened and did not close."""
    opened: list[Connection] = []
    real = Connection.open

    async def recorded(path: Path, *, busy_timeout_ms: int) -> Connection:
        opened.append(await real(path, busy_timeout_ms=busy_timeout_ms))
        return opened[-1]

    monkeypatch.setattr(Connection, "open", recorded)
    yield
    for connection in opened:
        await connection.close()
