"""A real store for every test of a running session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.store import SqliteStore
from tests.support.sessions import open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An open store in a folder of its own."""
    opened = await open_store(tmp_path)
    yield opened
    await opened.aclose()
