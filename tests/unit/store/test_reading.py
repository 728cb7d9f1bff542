"""Looking at a store, and copying it, beside its living owner."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.protocol.approvals import Action, PendingApproval
from runtime.protocol.checkpoint import ActiveExecution, Checkpoint
from runtime.protocol.context import Context, SystemMessage, ToolCall
from runtime.protocol.events import Warning
from runtime.protocol.session import SessionContext
from runtime.store.reading import backup, reading
from runtime.store.sqlite import SqliteStore

WAITING = PendingApproval(
    request_id="r1",
    turn_id="t1",
    submission_id="s1",
    calls=(ToolCall(call_id="c1", name="shell", arguments={"command": "ls"}),),
    gated=("c1",),
    actions={"c1": Action(tool="shell", schema_hash="h", arguments={"command": "ls"})},
    digests={"c1": "d"},
)


def checkpoint(session_id: str, **changes: object) -> Checkpoint:
    """A session of a chat with one stored item."""
    first = Checkpoint.empty(session_id)
    labels = SessionContext(workspace_label="Main", origin_label="telegram")
    return replace(first, sequence=1, session_context=labels, context=Context([SystemMessage(text="hello")]), **changes)


async def store_at(path: Path) -> SqliteStore:
    """An open store with two sessions, one of which waits for a person."""
    store = await SqliteStore.open(path)
    await store.save(checkpoint("a"), events=[Warning(message="one"), Warning(message="two")])
    running = ActiveExecution(submission_id="s1", turn_id="t1", started_at_ms=5)
    await store.save(checkpoint("b", active_execution=running, pending_approval=WAITING))
    return store


async def test_reader_sees_what_the_owner_committed(tmp_path: Path) -> None:
    """Sessions, context, events and open approvals are seen while the owner lives, and what it commits later too."""
    path = tmp_path / "p.db"
    store = await store_at(path)
    async with reading(path) as reader:
        assert [(one.session_id, one.running, one.workspace_label) for one in await reader.list_sessions()] == [
            ("a", False, "Main"),
            ("b", True, "Main"),
        ]
        assert (await reader.load("a")) == await store.load("a")
        assert await reader.load("nobody") is None
        assert [event.msg for event in (await reader.event_page("a", after=1)).events] == [Warning(message="two")]
        [waiting] = await reader.open_approvals()
        assert (waiting.session_id, waiting.origin_label, waiting.approval) == ("b", "telegram", WAITING)
        await store.save(checkpoint("c"))
        assert len(await reader.list_sessions()) == 3
        assert await reader.complaints() == ()
        assert (await reader.versions())["runtime"] >= 1
    await store.aclose()


async def test_reader_cannot_write(tmp_path: Path) -> None:
    """A reader is refused every change, and leaves the file as it was."""
    path = tmp_path / "p.db"
    await (await store_at(path)).aclose()
    before = path.read_bytes()
    async with reading(path) as reader:
        with pytest.raises(CheckpointError):
            await reader.read("DELETE FROM sessions")
        with pytest.raises(CheckpointError):
            await reader.read("CREATE TABLE x (y)")
    assert path.read_bytes() == before


async def test_no_file_and_no_database_are_errors(tmp_path: Path) -> None:
    """A missing file is not made, and another file is not taken for a database."""
    with pytest.raises(CheckpointError):
        async with reading(tmp_path / "nowhere.db"):
            pass
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / "text.db").write_text("hello, this is no database " * 100)
    with pytest.raises(CheckpointError):
        async with reading(tmp_path / "text.db") as reader:
            await reader.versions()


async def test_backup_of_a_living_store_is_whole(tmp_path: Path) -> None:
    """A copy made beside the owner holds every commit so far, is sound, closed to others, and opens as a store."""
    path, copy = tmp_path / "p.db", tmp_path / "copy.db"
    store = await store_at(path)
    size = await backup(path, copy)
    await store.save(checkpoint("later"))
    await store.aclose()
    assert (size, stat.S_IMODE(copy.stat().st_mode)) == (copy.stat().st_size, 0o600)
    with sqlite3.connect(copy) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    restored = await SqliteStore.open(copy)
    assert [one.session_id for one in await restored.list_sessions()] == ["a", "b"]
    assert (await restored.load("b")) is not None
    await restored.aclose()


async def test_backup_overwrites_nothing(tmp_path: Path) -> None:
    """A file or link that is there already stays, and a copy that failed leaves nothing behind."""
    path = tmp_path / "p.db"
    await (await store_at(path)).aclose()
    (tmp_path / "there").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            await backup(path, tmp_path / name)
    assert (tmp_path / "there").read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(CheckpointError):
        await backup(tmp_path / "nowhere.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
