"""A look at a store's file that takes nothing from its owner: no claim, no migration, no write, no checkpoint.

For commands that run beside a living gateway, or without one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.protocol.approvals import PendingApproval
from runtime.protocol.checkpoint import Checkpoint
from runtime.store import codec, loading, queries
from runtime.store.base import EventPage, SessionSummary
from runtime.store.failures import naming
from runtime.store.opening import open_reader
from runtime.store.writer import Connection, Parameters, Row

BUSY_TIMEOUT_MS = 5000

_OPEN_APPROVALS = """
    SELECT a.session_id, s.workspace_label, s.origin_label, a.requested_at_ms, a.payload
    FROM approvals AS a JOIN sessions AS s USING (session_id)
    WHERE a.open = 1 AND a.decision IS NULL ORDER BY a.requested_at_ms, a.session_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApproval:
    """A request that nobody has decided, with the labels of its session. Instants are UTC milliseconds."""

    session_id: str
    workspace_label: str | None
    origin_label: str | None
    requested_at_ms: int
    approval: PendingApproval


class StoreReader:
    """What stands in a store, as of the last commit. Open it with `reading(path)`."""

    def __init__(self, path: Path, connection: Connection) -> None:
        self.path = path
        self._connection = connection

    async def read(self, sql: str, params: Parameters = ()) -> list[Row]:
        """The rows of one query of somebody else's tables."""
        try:
            return await self._connection.run(lambda _: loading.rows(sql, *params))
        except Exception as error:
            raise naming(self.path, error) from error

    async def versions(self) -> dict[str, int]:
        """Schema version of each component; empty for a file that no store has opened yet."""
        tables = await self.read("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_versions'")
        if not tables:
            return {}
        return {name: version for name, version in await self.read("SELECT component, version FROM schema_versions")}

    async def list_sessions(self, limit: int = 100, after: str | None = None) -> tuple[SessionSummary, ...]:
        """Sessions by id, from beyond `after`."""
        found = await self.read(queries.LIST_SESSIONS, (after or "", limit))
        return tuple(
            SessionSummary(
                session_id=row[0],
                title=row[1],
                workspace_label=row[2],
                origin_label=row[3],
                running=bool(row[4]),
                queued=row[5],
                updated_at_ms=row[6],
            )
            for row in found
        )

    async def open_approvals(self) -> tuple[OpenApproval, ...]:
        """Every request that waits for a person, the oldest first."""
        return tuple(
            OpenApproval(
                session_id=session_id,
                workspace_label=workspace,
                origin_label=origin,
                requested_at_ms=requested,
                approval=codec.decode(PendingApproval, payload, "pending approval"),
            )
            for session_id, workspace, origin, requested, payload in await self.read(_OPEN_APPROVALS)
        )

    async def load(self, session_id: str) -> Checkpoint | None:
        """The newest checkpoint with its whole context, or None. InvalidCheckpoint where it contradicts itself."""
        try:
            loaded = await self._connection.run(loading.snapshot(loading.read_session(session_id)))
        except Exception as error:
            raise naming(self.path, error) from error
        return None if loaded is None else loaded.checkpoint

    async def event_page(self, session_id: str, after: int, limit: int = 500) -> EventPage:
        """Events beyond `after`, ascending."""
        try:
            steps = loading.read_events(session_id, None, after, limit)
            return await self._connection.run(loading.snapshot(steps))
        except Exception as error:
            raise naming(self.path, error) from error

    async def complaints(self) -> tuple[str, ...]:
        """What SQLite finds wrong with the file; nothing for a sound one."""
        found = await self.read("PRAGMA quick_check(20)")
        return tuple(str(row[0]) for row in found if row[0] != "ok")


@asynccontextmanager
async def reading(path: Path) -> AsyncGenerator[StoreReader]:
    """Look at an existing file for the time of the block. CheckpointError: it cannot be read."""
    try:
        connection = await open_reader(path, busy_timeout_ms=BUSY_TIMEOUT_MS)
    except Exception as error:
        raise naming(path, error) from error
    try:
        yield StoreReader(path, connection)
    finally:
        await connection.close()


async def backup(source: Path, target: Path) -> int:
    """Write a consistent copy of a living store to `target`, which must not exist; returns its size in bytes.

    On return the copy is on disk, with mode 0600. FileExistsError, or CheckpointError: there is no copy.
    """
    with _created(target):
        await _copy(source, target)
        return await asyncio.to_thread(_sync, target)


@contextmanager
def _created(target: Path) -> Generator[None]:
    """An empty file of our own, removed again if the block fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(target, flags, 0o600))
    try:
        yield
    except BaseException:
        target.unlink(missing_ok=True)
        raise


async def _copy(source: Path, target: Path) -> None:
    # Not a reader of `reading`: SQLite takes the copy for a write, and refuses it there.
    try:
        connection = await Connection.open(source, busy_timeout_ms=BUSY_TIMEOUT_MS)
    except Exception as error:
        raise naming(source, error) from error
    try:
        await connection.read("VACUUM INTO ?", (str(target),))
    except Exception as error:
        raise naming(source, error) from error
    finally:
        await connection.close()


def _sync(target: Path) -> int:
    for path in (target, target.parent):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return target.stat().st_size
