"""Who is alive: of this machine the kernel knows, of others only their row."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import CheckpointError, StaleCheckpoint
from runtime.protocol import Checkpoint
from runtime.store.ownership import LEASE_MS, Owner, Process, is_dead, start_of, this_process
from runtime.store.sqlite import SqliteStore
from runtime.testing import FakeClock

NOW = 1_000_000
ME = Process(host="here", boot_id="boot-1/ns-1", pid=os.getpid(), start=start_of(os.getpid()) or 0)


def owner(expires_at_ms: int = NOW + 1, **changes: object) -> Owner:
    """An owner whose process differs from us in `changes`."""
    return Owner(owner_id="o", process=replace(ME, **changes), expires_at_ms=expires_at_ms)  # type: ignore[arg-type]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A living process that is not us, until the test ends it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def test_a_process_is_known_by_its_start(child: subprocess.Popen[bytes]) -> None:
    """A process that lives has a start; the same id with another start is a later process."""
    start = start_of(child.pid)
    assert start is not None
    assert start >= ME.start > 0
    assert not is_dead(owner(pid=child.pid, start=start), ME, NOW)
    assert is_dead(owner(pid=child.pid, start=start - 1), ME, NOW)


def test_a_killed_process_is_dead_at_once(child: subprocess.Popen[bytes]) -> None:
    """Also while nobody has collected its exit status."""
    dead = owner(pid=child.pid, start=start_of(child.pid))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert start_of(child.pid) is None
    assert is_dead(dead, ME, NOW)
    child.wait()
    assert is_dead(dead, ME, NOW)


def test_we_are_alive() -> None:
    """This process's own rows are never taken for dead."""
    me = this_process()
    assert me == this_process()
    assert not is_dead(Owner(owner_id="o", process=me, expires_at_ms=0), me, NOW)


@pytest.mark.parametrize(
    ("changes", "expires", "dead"),
    [
        ({"host": "there"}, NOW + 1, False),
        ({"host": "there"}, NOW, True),
        ({"host": "there", "boot_id": "boot-9/ns-1"}, NOW + 1, False),
        ({"boot_id": "boot-0/ns-1"}, NOW + 1, True),
        ({"boot_id": "boot-1/ns-2"}, NOW + 1, False),
        ({"boot_id": "boot-1/ns-2"}, NOW, True),
        ({}, NOW - LEASE_MS, False),
    ],
    ids=[
        "another machine, valid",
        "another machine, expired",
        "another machine and boot",
        "before the reboot",
        "another container, valid",
        "another container, expired",
        "here, alive, expired",
    ],
)
def test_where_the_kernel_does_not_know_the_row_decides(changes: dict[str, str], expires: int, dead: bool) -> None:
    """A process id means nothing on another machine, after a reboot, or in another namespace."""
    assert is_dead(owner(expires, **changes), ME, NOW) is dead


async def open_as(path: Path, clock: FakeClock, **changes: object) -> SqliteStore:
    """A store that claims for a process which differs from us."""
    process = replace(this_process(), **changes)  # type: ignore[arg-type]
    return await SqliteStore.open(path, clock=clock, process=process)


async def test_a_dead_owner_here_is_replaced_at_once(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    """After a kill the next process goes on without waiting, and the dead one's generation is gone."""
    clock = FakeClock(NOW)
    theirs = await open_as(tmp_path / "s.db", clock, pid=child.pid, start=start_of(child.pid))
    ours = await open_as(tmp_path / "s.db", clock)
    lease = await theirs.claim("s")
    await theirs.save(Checkpoint.empty("s"), lease=lease)
    with pytest.raises(StaleCheckpoint, match=f"process {child.pid} on host"):
        await ours.claim("s")
    child.kill()
    child.wait()
    taken = await ours.claim("s")
    assert taken.generation == lease.generation + 1
    with pytest.raises(StaleCheckpoint, match=f"process {os.getpid()} on host .* owns the session"):
        await theirs.save(replace(Checkpoint.empty("s"), sequence=1), lease=lease)
    await ours.aclose()
    await theirs.aclose()


async def test_an_owner_elsewhere_is_replaced_once_its_row_expired(tmp_path: Path) -> None:
    """Renewal of its one row keeps all its sessions; without it they are free after the lease's time."""
    clock = FakeClock(NOW)
    theirs = await open_as(tmp_path / "s.db", clock, host="elsewhere")
    ours = await open_as(tmp_path / "s.db", clock)
    await theirs.claim("a")
    await theirs.claim("b")
    rows = await ours.database.read("SELECT host, expires_at_ms FROM owners")
    assert rows == [("elsewhere", NOW + LEASE_MS)]
    clock.advance(LEASE_MS / 1000 - 1)
    await theirs.renew_ownership()
    clock.advance(2)
    for session in "ab":
        with pytest.raises(StaleCheckpoint, match="elsewhere"):
            await ours.claim(session)
    clock.advance(LEASE_MS / 1000)
    assert (await ours.claim("a")).generation == 2
    await ours.aclose()
    await theirs.aclose()


async def test_a_store_that_claims_nothing_registers_nothing(tmp_path: Path) -> None:
    """Tools that only look leave no row, and renewing is then nothing to do."""
    store = await SqliteStore.open(tmp_path / "s.db")
    await store.renew_ownership()
    assert await store.database.read("SELECT * FROM owners") == []
    await store.claim("s")
    await store.claim("t")
    assert len(await store.database.read("SELECT * FROM owners")) == 1
    await store.aclose()
    again = await SqliteStore.open(tmp_path / "s.db")
    assert await again.database.read("SELECT * FROM owners") == []
    await again.aclose()


async def test_a_claim_that_cannot_be_written_holds_nothing(tmp_path: Path) -> None:
    """A failed claim leaves the session free."""
    store = await SqliteStore.open(tmp_path / "s.db")
    with sqlite3.connect(store.path) as outside:
        outside.execute("CREATE TRIGGER x BEFORE UPDATE OF generation ON sessions BEGIN SELECT RAISE(ABORT, 'x'); END")
    with pytest.raises(CheckpointError, match="refused"):
        await store.claim("s")
    with sqlite3.connect(store.path) as outside:
        outside.execute("DROP TRIGGER x")
    outside.close()
    lease = await store.claim("s")
    await store.save(Checkpoint.empty("s"), lease=lease)
    await store.aclose()
