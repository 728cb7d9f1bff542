"""The store that fails on demand fails exactly as asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import CheckpointError, CommitUnknown
from runtime.protocol import Checkpoint
from runtime.store.base import CheckpointStore
from runtime.store.faulty import FaultyStore
from runtime.store.sqlite import SqliteStore

FIRST = Checkpoint.empty("s")
SECOND = replace(FIRST, sequence=1, title="second")
THIRD = replace(FIRST, sequence=2, title="third")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "s.db")
    yield store
    await store.aclose()


async def test_the_nth_save_fails_once_and_writes_nothing(store: SqliteStore) -> None:
    """The saves before and after it are real."""
    faulty = FaultyStore(store, at=2)
    await faulty.save(FIRST)
    assert not faulty.fired
    with pytest.raises(CheckpointError, match="nothing was written"):
        await faulty.save(SECOND)
    assert faulty.fired
    assert await store.load("s") == FIRST
    await faulty.save(SECOND)
    assert await faulty.load("s") == SECOND


async def test_it_may_commit_first(store: SqliteStore) -> None:
    """Then the save is on disk although it reports an error."""
    faulty = FaultyStore(store, commit_first=True)
    with pytest.raises(CommitUnknown):
        await faulty.save(FIRST, save_id="mine")
    head = await faulty.head("s")
    assert head is not None
    assert head.save_id == "mine"


async def test_only_matching_saves_count(store: SqliteStore) -> None:
    """`match` chooses by the checkpoint, and `error` what is raised."""
    faulty = FaultyStore(store, at=1, match=lambda checkpoint: checkpoint.title == "third", error=OSError("mine"))
    await faulty.save(FIRST)
    await faulty.save(SECOND)
    with pytest.raises(OSError, match="mine"):
        await faulty.save(THIRD)
    assert await store.load("s") == SECOND


async def test_everything_else_is_the_wrapped_stores(store: SqliteStore) -> None:
    """It can stand wherever a store is wanted, and shows what only the wrapped one has."""
    faulty = FaultyStore(store)
    as_store: CheckpointStore = faulty
    await faulty.save_state("a", "b", 1)
    assert await as_store.load_state("a", "b") == 1
    assert faulty.path == store.path
    lease = await as_store.claim("s")
    await as_store.release(lease)
    await store.save(FIRST)
    assert await as_store.fork("s", "copy") == replace(FIRST, session_id="copy")
    assert [line.session_id for line in await as_store.list_sessions()] == ["copy", "s"]
    await as_store.delete("copy")
    assert (await as_store.event_page("s")).events == ()
    assert (await as_store.execution_page("s")).executions == ()
    assert await as_store.grants("s") == ()
    assert await as_store.receipt("x") is None
