"""What the commands `sessions`, `approvals`, `migrate`, `export` and `backup` do. They disturb no running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from gateway.config import Config, load
from gateway.failures import Unavailable
from gateway.secrets import redact_all
from gateway.state_folder import Owner, claimed, database_in, prepare
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.events import Event
from runtime.store import reading, schema
from runtime.store.sqlite import SqliteStore

SESSION_COLUMNS = {
    "session_id": "SESSION",
    "workspace": "WORKSPACE",
    "origin": "ORIGIN",
    "running": "RUNNING",
    "queued": "QUEUED",
    "updated_at": "UPDATED",
    "title": "TITLE",
}

APPROVAL_COLUMNS = {
    "request_id": "REQUEST",
    "session_id": "SESSION",
    "workspace": "WORKSPACE",
    "origin": "ORIGIN",
    "tools": "TOOLS",
    "requested_at": "REQUESTED",
    "expires_at": "EXPIRES",
}

MIGRATIONS = files("gateway") / "migrations"
"""The gateway's own tables; the runtime brings its own."""


def known_versions() -> dict[str, int]:
    """Newest schema version of each component that this program knows."""
    return {
        "runtime": len(schema.read_migrations("runtime", schema.RUNTIME)),
        "gateway": len(schema.read_migrations("gateway", MIGRATIONS)),
    }


def sessions(file: Path, environ: Mapping[str, str], limit: int) -> list[dict[str, Any]]:
    """A line for each session, by id."""

    async def look(path: Path) -> list[dict[str, Any]]:
        async with looking(path) as reader:
            return [
                {
                    "session_id": one.session_id,
                    "workspace": one.workspace_label,
                    "origin": one.origin_label,
                    "running": one.running,
                    "queued": one.queued,
                    "updated_at": _instant(one.updated_at_ms),
                    "title": one.title,
                }
                for one in await reader.list_sessions(limit)
            ]

    return asyncio.run(look(database_of(load(file, environ))))


def approvals(file: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """A line for each request that waits for a person, the oldest first."""

    async def look(path: Path) -> list[dict[str, Any]]:
        async with looking(path) as reader:
            return [
                {
                    "request_id": one.approval.request_id,
                    "session_id": one.session_id,
                    "workspace": one.workspace_label,
                    "origin": one.origin_label,
                    "tools": ", ".join(call.name for call in one.approval.calls if call.call_id in one.approval.gated),
                    "requested_at": _instant(one.requested_at_ms),
                    "expires_at": _instant(one.approval.expires_at_ms),
                }
                for one in await reader.open_approvals()
            ]

    return asyncio.run(look(database_of(load(file, environ))))


def migrate(file: Path, environ: Mapping[str, str]) -> dict[str, int]:
    """Bring the database to the schema of this program, and tell the versions. StateFolderBusy while a gateway runs."""

    async def bring(path: Path) -> dict[str, int]:
        store = await SqliteStore.open(path, components={"gateway": MIGRATIONS})
        await store.aclose()
        async with reading.reading(path) as reader:
            return await reader.versions()

    config = load(file, environ)
    prepare(config.gateway.state_dir)
    with claimed(config.gateway.state_dir, Owner.of_this_process(config.file)):
        return asyncio.run(bring(database_in(config.gateway.state_dir)))


def export(file: Path, environ: Mapping[str, str], session_id: str) -> Iterator[str]:
    """The session as JSON lines, secrets replaced: `session`, then `item` and `event` lines in their order."""

    async def look(path: Path) -> tuple[Checkpoint | None, list[Event]]:
        async with looking(path) as reader:
            checkpoint = await reader.load(session_id)
            events: list[Event] = []
            while page := (await reader.event_page(session_id, events[-1].sequence or 0 if events else 0)).events:
                events += page
            return checkpoint, events

    checkpoint, events = asyncio.run(look(database_of(load(file, environ))))
    if checkpoint is None:
        raise Unavailable(f"There is no session {session_id!r}; `pilothouse sessions` lists those that there are.")
    yield _line("session", _labels(checkpoint))
    for item in checkpoint.context:
        yield _line("item", {"kind": type(item).__name__, **msgspec.to_builtins(item)})
    for event in events:
        recorded = {"sequence": event.sequence, "recorded_at": _instant(event.recorded_at_ms), "kind": event.kind}
        yield _line("event", {**recorded, "message": msgspec.to_builtins(event.msg)})


def backup(file: Path, environ: Mapping[str, str], target: Path) -> int:
    """Copy the database consistently to a new file; returns its size in bytes."""
    return asyncio.run(reading.backup(database_of(load(file, environ)), target))


@asynccontextmanager
async def looking(path: Path) -> AsyncGenerator[reading.StoreReader]:
    """Look at a database of this program or an older one; SchemaTooNew: a newer one may mean something else by it."""
    async with reading.reading(path) as reader:
        known = known_versions()
        for component, version in (await reader.versions()).items():
            if version > known.get(component, version):
                raise schema.too_new(path, component, version, known[component])
        yield reader


def database_of(config: Config) -> Path:
    path = database_in(config.gateway.state_dir)
    if not path.exists():
        raise Unavailable(f"There is no database at {path} yet; start the gateway with `pilothouse run` first.")
    return path


def _labels(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "session_id": checkpoint.session_id,
        "model_route": checkpoint.model_route,
        "context": msgspec.to_builtins(checkpoint.session_context),
        "metadata": msgspec.to_builtins(checkpoint.metadata),
    }


def _line(kind: str, content: dict[str, Any]) -> str:
    return msgspec.json.encode({"type": kind, **redact_all(content)}).decode()


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
