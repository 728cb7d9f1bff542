"""What `pilothouse cron` does: look at schedules beside a living gateway, and change them as a second writer.

Whoever may read the configuration and write in the state folder may do everything here. A gateway that runs notices a
change within its longest sleep.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from adapters.contract import Place
from gateway.config import Config, binding_for, load
from gateway.doctor import claimed_owners
from gateway.failures import Unavailable
from gateway.inspection import MIGRATIONS, database_of, known_versions, looking
from gateway.ledger.audit import Subject, audit_statement
from gateway.ledger.database import Database, Rows
from gateway.schedules import ledger
from gateway.schedules.calendar import Impossible, next_after, next_words, words
from gateway.schedules.ledger import Open
from gateway.schedules.schedule import Plan, Run, Schedule
from gateway.schedules.wishes import Usual, changed_plan, new_plan, read, unknown_names
from gateway.scheduling import edited, free_instant, moved, place_words, target_of
from gateway.strings import say
from runtime.protocol.context import JsonValue
from runtime.store.sqlite import SqliteStore
from runtime.store.writer import Statement

SCHEDULE_COLUMNS = {
    "id": "ID",
    "name": "NAME",
    "when": "WHEN",
    "state": "STATE",
    "next": "NEXT",
    "workspace": "WORKSPACE",
    "target": "TARGET",
}
RUN_COLUMNS = {
    "due": "DUE",
    "number": "RUN",
    "state": "STATE",
    "reason": "REASON",
    "shown": "RESULT",
    "session": "SESSION",
}

Made = TypeVar("Made")


def schedules(file: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """A line for each schedule, by id."""
    config = load(file, environ)

    async def look(rows: Rows) -> list[dict[str, Any]]:
        return [_line(one, config.gateway.timezone) for one in await ledger.every(rows)]

    return asyncio.run(_read(config, look))


def show(file: Path, environ: Mapping[str, str], schedule_id: int) -> dict[str, Any]:
    """Everything about one, with its next three runs."""
    config = load(file, environ)

    async def look(rows: Rows) -> dict[str, Any]:
        return _whole(await _found(rows, schedule_id), config.gateway.timezone)

    return asyncio.run(_read(config, look))


def history(file: Path, environ: Mapping[str, str], schedule_id: int, limit: int) -> list[dict[str, Any]]:
    """A line for each run, the newest first."""

    async def look(rows: Rows) -> list[dict[str, Any]]:
        schedule = await _found(rows, schedule_id)
        return [_run(one) for one in await ledger.history(rows, schedule.id, limit)]

    return asyncio.run(_read(load(file, environ), look))


def add(file: Path, environ: Mapping[str, str], text: str, by: str | None) -> dict[str, Any]:
    """Make a schedule, as `/cron add` does; with the rights of `by`, or else of the first owner."""
    config = load(file, environ)

    async def make(database: Database) -> dict[str, Any]:
        creator = await _creator(config, by)
        wish, now_ms = _wish(lambda: read(text)), _now_ms()
        target = await _target(database, wish.options.get("in"), creator)
        binding = binding_for(config, platform=target.platform, chat=target.chat, thread=target.thread)
        usual = Usual(zone=config.gateway.timezone, target=target, workspace=binding.workspace.id, now_ms=now_ms)
        plan = _wish(lambda: new_plan(wish, usual, target))
        _check_names(config, plan)
        key = f"cli:{secrets.token_hex(16)}"
        next_ms = next_after(plan.calendar, now_ms)
        unit = [
            ledger.create(plan, key=key, by=creator, now_ms=now_ms, next_due_ms=next_ms),
            _audit("schedule_created", creator, plan, None, now_ms),
        ]
        await database.write(unit)
        made = await ledger.by_key(database, key)
        assert made is not None, "it was stored"
        return _whole(made, config.gateway.timezone)

    return asyncio.run(_write(config, make))


def change(file: Path, environ: Mapping[str, str], act: str, schedule_id: int, text: str = "") -> dict[str, Any]:
    """Edit, pause, resume, remove or run one; the same rules as in chat."""
    config = load(file, environ)

    async def make(database: Database) -> dict[str, Any]:
        schedule, now_ms = await _found(database, schedule_id), _now_ms()
        statements, plan = await _statements(config, database, act, schedule, text, now_ms)
        await database.write([*statements, _audit(f"schedule_{_PAST[act]}", None, plan, schedule.id, now_ms)])
        if act == "run":
            return {"schedule": schedule.id, "run": f"cron:{schedule.id}:{now_ms}"}
        found = await ledger.by_id(database, schedule.id)
        return _whole(found, config.gateway.timezone) if found is not None else {"id": schedule.id, "state": "removed"}

    return asyncio.run(_write(config, make))


_PAST = {"edit": "edited", "pause": "paused", "resume": "resumed", "remove": "removed", "run": "run_by_hand"}


async def _statements(
    config: Config, database: Database, act: str, schedule: Schedule, text: str, now_ms: int
) -> tuple[Sequence[Statement], Plan]:
    if act == "edit":
        wish = _wish(lambda: read(text))
        target = await target_of(database, schedule.plan.target, wish.options.get("in"))
        plan = _wish(lambda: changed_plan(schedule.plan, wish, target, now_ms))
        _check_names(config, plan)
        open_rows = (await ledger.open_rows(database, [schedule.id])).get(schedule.id, Open())
        return edited(schedule, plan, open_rows, now_ms), plan
    if act == "run":
        at_ms = await free_instant(database, schedule.id, now_ms)
        return [ledger.run_by_hand(schedule.id, at_ms)], schedule.plan
    statements = _wish(lambda: moved(act, schedule, now_ms))
    if statements is None:
        raise Unavailable(say("cron.is_already", id=schedule.id, state=say(f"cron.state.{schedule.state}")))
    return statements, schedule.plan


def _wish(make: Callable[[], Made]) -> Made:
    try:
        return make()
    except Impossible as error:
        raise Unavailable(f"Nothing was changed: {error}.") from error


async def _creator(config: Config, by: str | None) -> str:
    access = config.access
    owners = sorted({*access.owners, *await claimed_owners(config)})
    creator = by or next(iter(owners), None)
    if creator is None or creator not in {*owners, *access.approvers}:
        raise Unavailable(
            f"{creator or 'Nobody'} may not approve; name somebody of [access] who may with --as, like telegram:42."
        )
    return creator


async def _target(database: Database, text: str | None, creator: str) -> Place:
    """The named chat, or the creator's private one: the chat with the person's own id."""
    platform, _, person = creator.partition(":")
    account = await ledger.account_on(database, platform)
    here = Place(platform=platform, account=account or "-", chat=person)
    try:
        target = await target_of(database, here, text or f"{platform}:{person}")
    except Impossible as error:
        raise Unavailable(f"Nothing was changed: {error}. Name a chat, like: in telegram:-100123.") from error
    return target or here


def _check_names(config: Config, plan: Plan) -> None:
    unknown = unknown_names(
        plan,
        workspaces=[one.id for one in config.workspaces],
        agents=[one.name for one in config.agents],
        models=[one.name for one in config.models],
    )
    if unknown is not None:
        raise Unavailable(f"Nothing was changed: {unknown}.")


def _audit(kind: str, by: str | None, plan: Plan, schedule_id: int | None, now_ms: int) -> Statement:
    detail: dict[str, JsonValue] = {"schedule": schedule_id, "from": "command line", "prompt": plan.prompt}
    subject = Subject(place=plan.target, origin_label=plan.origin)
    return audit_statement(now_ms, kind, principal=by, subject=subject, detail=detail)


async def _found(rows: Rows, schedule_id: int) -> Schedule:
    schedule = await ledger.by_id(rows, schedule_id)
    if schedule is None:
        raise Unavailable(f"There is no schedule {schedule_id}; `pilothouse cron list` lists those that there are.")
    return schedule


async def _read(config: Config, look: Callable[[Rows], Awaitable[Made]]) -> Made:
    async with looking(database_of(config)) as reader:
        _check_version(await reader.versions())
        return await look(reader)


async def _write(config: Config, make: Callable[[Database], Awaitable[Made]]) -> Made:
    async with _open(config) as store:
        return await make(store.database)


@asynccontextmanager
async def _open(config: Config) -> AsyncGenerator[SqliteStore]:
    """The database, without a change of its schema: a gateway of another version may be running on it."""
    path = database_of(config)
    async with looking(path) as reader:
        _check_version(await reader.versions())
    store = await SqliteStore.open(path, components={"gateway": MIGRATIONS})
    try:
        yield store
    finally:
        await store.aclose()


def _check_version(found: Mapping[str, int]) -> None:
    if found != known_versions():
        raise Unavailable("The database is of another version; stop the gateway, and run `pilothouse migrate`.")


def _line(schedule: Schedule, zone: str) -> dict[str, Any]:
    return {
        "id": schedule.id,
        "name": schedule.plan.name,
        "when": words(schedule.plan.calendar),
        "state": str(schedule.state),
        "next": _instant(schedule.next_due_ms),
        "workspace": schedule.plan.workspace,
        "target": place_words(schedule.plan.target),
    }


def _whole(schedule: Schedule, zone: str) -> dict[str, Any]:
    plan = schedule.plan
    after_ms = max(_now_ms(), schedule.accounted_until_ms)
    return {
        **_line(schedule, zone),
        "reason": schedule.reason,
        "origin": plan.origin,
        "next_runs": list(next_words(plan.calendar, after_ms, zone)),
        "prompt": plan.prompt,
        "agent": plan.agent,
        "model": plan.model,
        "tools": None if plan.tools is None else list(plan.tools),
        "misfire": str(plan.misfire),
        "overlap": str(plan.overlap),
        "announce": str(plan.announce),
        "unattended": str(plan.unattended),
        "jitter_seconds": plan.jitter_seconds,
        "timeout_seconds": plan.timeout_seconds,
        "created_by": schedule.created_by,
        "runs": schedule.runs,
        "failures": schedule.failures,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "due": _instant(run.due_at_ms),
        "number": run.number,
        "state": str(run.state),
        "reason": run.reason,
        "shown": str(run.shown),
        "shown_reason": run.shown_reason,
        "session": run.session_id,
        "workspace": run.workspace_label,
        "origin": run.origin_label,
        "started": _instant(run.started_at_ms),
        "ended": _instant(run.ended_at_ms),
        "covers_until": _instant(run.covers_until_ms),
    }


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
