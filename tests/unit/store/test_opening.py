"""Opening a database: its files, its settings, and what is refused."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.clock import SystemClock
from runtime.errors import CheckpointError, ConfigurationError
from runtime.protocol import Checkpoint
from runtime.store import files, opening
from runtime.store.opening import open_reader, open_writer
from runtime.store.sqlite import SqliteStore
from runtime.store.writer import Connection
from tests.support.checkpoints import full_checkpoint


def mode(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def no_mask() -> Iterator[None]:
    """The most careless umask."""
    before = os.umask(0)
    yield
    os.umask(before)


async def pragma(connection: Connection, name: str) -> object:
    """The value of a setting."""
    return (await connection.read(f"PRAGMA {name}"))[0][0]


async def test_files_are_for_their_owner_only(tmp_path: Path, no_mask: None) -> None:
    """Under umask 0 the database, its log, its index and a folder that was made have no bit for others."""
    path = tmp_path / "state" / "s.db"
    store = await SqliteStore.open(path)
    await store.save(full_checkpoint())
    found = {each.name: mode(each) for each in path.parent.iterdir()}
    assert found == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}
    assert mode(path.parent) == 0o700
    await store.aclose()


async def test_rights_of_others_are_taken_from_files_that_exist(tmp_path: Path) -> None:
    """A database that others could read is closed to them, with its sidecars, before it is used."""
    path = tmp_path / "s.db"
    store = await SqliteStore.open(path)
    await store.save(full_checkpoint())
    for each in tmp_path.iterdir():
        each.chmod(0o666)
    second = await SqliteStore.open(path)
    assert {mode(each) for each in tmp_path.iterdir()} == {0o600}
    assert await second.load("s") == full_checkpoint()
    await second.aclose()
    await store.aclose()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
async def test_a_planted_link_is_refused(tmp_path: Path, suffix: str) -> None:
    """Nothing is ever written through a link that somebody put where a file of ours should be."""
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    target.chmod(0o644)
    path = tmp_path / "s.db"
    if suffix:
        path.touch(mode=0o600)
    (tmp_path / f"s.db{suffix}").symlink_to(target)
    with pytest.raises(ConfigurationError, match="link"):
        await SqliteStore.open(path)
    assert target.read_bytes() == b"precious"
    assert mode(target) == 0o644


async def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    """A link to a file that does not exist does not create it."""
    path = tmp_path / "s.db"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="link"):
        await SqliteStore.open(path)
    assert not (tmp_path / "elsewhere").exists()


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    """Only a regular file will do."""
    (tmp_path / "s.db").mkdir()
    with pytest.raises(ConfigurationError, match="no regular file"):
        await SqliteStore.open(tmp_path / "s.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """A database that another user owns is not ours to keep secrets in."""
    path = tmp_path / "s.db"
    path.touch(mode=0o600)
    os.chown(path, 4711, -1)
    with pytest.raises(ConfigurationError, match="user 4711"):
        await SqliteStore.open(path)


async def test_a_missing_right_to_the_folder_is_named(tmp_path: Path) -> None:
    """A folder that is a file is reported with the path."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"file/s\.db cannot be made"):
        await SqliteStore.open(tmp_path / "file" / "s.db")


def test_looking_at_the_file_keeps_the_locks_on_it(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file when any of its descriptors is closed; ours must not count as one."""
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("BEGIN EXCLUSIVE")
    files.prepare(path)
    locks = Path("/proc/locks").read_text()
    inode = path.stat().st_ino
    held = [line for line in locks.splitlines() if f":{inode} " in line and str(os.getpid()) in line.split()]
    connection.close()
    assert held


async def test_the_settings_hold(tmp_path: Path) -> None:
    """The writer syncs each commit and checks keys; readers can neither write nor checkpoint."""
    path = tmp_path / "s.db"
    store = await SqliteStore.open(path, busy_timeout_ms=1234)
    writer, readers = store._writer.connection, store._readers
    for name, value in {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 1234,
        "wal_autocheckpoint": opening.WAL_PAGES,
        "journal_size_limit": opening.WAL_SIZE_LIMIT,
        "page_size": opening.PAGE_SIZE,
        "temp_store": 2,
    }.items():
        assert await pragma(writer, name) == value, name
    assert len(readers) == 2
    for reader in readers:
        assert await pragma(reader, "query_only") == 1
        assert await pragma(reader, "wal_autocheckpoint") == 0
        assert await pragma(reader, "busy_timeout") == 1234
    with pytest.raises(CheckpointError):
        await store.database.read("DELETE FROM sessions")
    await store.aclose()


@pytest.mark.parametrize(
    ("setting", "answer"), [("synchronous", 1), ("foreign_keys", 0), ("journal_mode", "delete"), ("query_only", 0)]
)
async def test_a_setting_that_does_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, answer: object
) -> None:
    """A pragma fails silently, so each is read back; where durability would be missing, nothing starts."""
    path = tmp_path / "s.db"
    path.touch(mode=0o600)
    real = Connection.read

    async def read(connection: Connection, sql: str, params: object = ()) -> object:
        rows = await real(connection, sql)
        return [(answer,)] if setting in sql else rows

    monkeypatch.setattr(Connection, "read", read)
    open_it = open_reader(path, busy_timeout_ms=50) if setting == "query_only" else None
    with pytest.raises(ConfigurationError, match=str(path)):
        await (open_it or open_writer(path, busy_timeout_ms=50, clock=SystemClock()))


async def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file of another kind is named as such, and stays as it is."""
    path = tmp_path / "s.db"
    path.write_bytes(b"this is a letter, not a database" * 100)
    with pytest.raises(CheckpointError, match="no database"):
        await SqliteStore.open(path)
    assert path.read_bytes() == b"this is a letter, not a database" * 100


async def test_a_fresh_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    """Whoever comes first makes the schema; all get a working store."""
    stores = await asyncio.gather(*(SqliteStore.open(tmp_path / "s.db") for _ in range(6)))
    for number, store in enumerate(stores):
        await store.save(Checkpoint.empty(f"s{number}"))
    assert len(await stores[0].list_sessions()) == 6
    for store in stores:
        await store.aclose()


async def test_a_file_that_stays_locked_is_refused(tmp_path: Path) -> None:
    """Another program's lock on a fresh file is waited for, a bounded number of times."""
    path = tmp_path / "s.db"
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("CREATE TABLE t (x)")
    blocker.execute("BEGIN EXCLUSIVE")
    path.chmod(0o600)
    naps: list[float] = []

    class Naps(SystemClock):
        async def sleep(self, seconds: float) -> None:
            naps.append(seconds)

    with pytest.raises((ConfigurationError, CheckpointError), match="locked"):
        await SqliteStore.open(path, clock=Naps(), busy_timeout_ms=0)
    assert 1 < len(naps) <= 1000
    blocker.close()


async def test_the_log_is_moved_into_the_database_at_the_end(tmp_path: Path) -> None:
    """After an orderly end the one file is all there is."""
    path = tmp_path / "s.db"
    store = await SqliteStore.open(path)
    await store.save(full_checkpoint())
    await store.aclose()
    assert [each.name for each in tmp_path.iterdir()] == ["s.db"]
    again = await SqliteStore.open(path)
    assert await again.load("s") == full_checkpoint()
    await again.aclose()


async def test_the_log_stays_bounded(tmp_path: Path) -> None:
    """The writer moves the log's pages into the database as it goes."""
    store = await SqliteStore.open(tmp_path / "s.db")
    for number in range(60):
        await store.save_state("a", "b", "x" * 100_000 + str(number))
    assert (tmp_path / "s.db-wal").stat().st_size < 3 * opening.WAL_PAGES * opening.PAGE_SIZE
    await store.aclose()
