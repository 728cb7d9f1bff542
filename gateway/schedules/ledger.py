"""Schedules and their runs as rows: the truth about what was due.

Functions that return statements are for the caller's own transaction. Every move of a row is a compare-and-set, so that
of two processes one wins and the other is told by Overtaken that nothing was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from adapters.contract import Place
from gateway.ledger.database import Database, Row, Rows
from gateway.schedules.decisions import Claim, NewRun, Open, Standing
from gateway.schedules.recipe import RunRecipe, in_recipe
from gateway.schedules.schedule import Plan, Run, RunState, Schedule, Shown, State
from runtime.errors import CheckpointError
from runtime.store.writer import Statement

HISTORY = 200
"""Final rows of a schedule that are kept."""


class Overtaken(CheckpointError):
    """Somebody else has moved the row on; nothing was written."""


def _overtaken() -> Exception:
    return Overtaken("the schedule or run was changed by somebody else meanwhile; read it again")


# ------------------------------------------------------------------------------------------------------- statements


def create(plan: Plan, *, key: str, by: str, now_ms: int, next_due_ms: int | None) -> Statement:
    """A schedule that is due from now on. Made twice under one key, it is one schedule."""
    return Statement(
        "INSERT OR IGNORE INTO schedules (creation_key, name, plan, state, platform, account, chat, thread, created_by,"
        " created_at_ms, updated_at_ms, revision, accounted_until_ms, next_due_ms)"
        " VALUES (?, ?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
        (
            key, plan.name, _json(plan), *_where(plan.target), by, now_ms, now_ms, now_ms, next_due_ms,
        ),
    )  # fmt: skip


def change_plan(
    schedule: Schedule, plan: Plan, now_ms: int, *, accounted_until_ms: int, next_due_ms: int | None
) -> Statement:
    """The schedule has another plan. Overtaken if it was changed since it was read."""
    return Statement(
        "UPDATE schedules SET name = ?, plan = ?, platform = ?, account = ?, chat = ?, thread = ?, updated_at_ms = ?,"
        " accounted_until_ms = ?, next_due_ms = ?, state = ?, revision = revision + 1"
        " WHERE id = ? AND revision = ?",
        (
            plan.name, _json(plan), *_where(plan.target), now_ms, accounted_until_ms, next_due_ms,
            _state_with(schedule, next_due_ms), schedule.id, schedule.revision,
        ),
        expect_rows=1,
        error=_overtaken,
    )  # fmt: skip


def _state_with(schedule: Schedule, next_due_ms: int | None) -> State:
    """One that was done is active again, if it has a time to come."""
    return State.ACTIVE if schedule.state is State.DONE and next_due_ms is not None else schedule.state


def change_state(schedule: Schedule, state: State, reason: str, now_ms: int) -> list[Statement]:
    """It is paused, disabled or removed: what waits of it does not run any more. Overtaken as above."""
    return [
        _state(schedule, state, reason, now_ms),
        Statement(
            "UPDATE schedule_runs SET state = 'cancelled', reason = ?, ended_at_ms = ?"
            " WHERE schedule_id = ? AND state = 'waiting'",
            (reason or state, now_ms, schedule.id),
        ),
    ]


def resume(schedule: Schedule, now_ms: int, next_due_ms: int | None) -> Statement:
    """It is due again from now on; what was due while it was not active counts for nothing. Failures are forgotten."""
    return Statement(
        "UPDATE schedules SET state = 'active', reason = '', failures = 0, alerted_at_ms = NULL, updated_at_ms = ?,"
        " accounted_until_ms = MAX(accounted_until_ms, ?), next_due_ms = ?, revision = revision + 1"
        " WHERE id = ? AND revision = ?",
        (now_ms, now_ms, next_due_ms, schedule.id, schedule.revision),
        expect_rows=1,
        error=_overtaken,
    )


def _state(schedule: Schedule, state: State, reason: str, now_ms: int) -> Statement:
    return Statement(
        "UPDATE schedules SET state = ?, reason = ?, updated_at_ms = ?, revision = revision + 1"
        " WHERE id = ? AND revision = ?",
        (state, reason, now_ms, schedule.id, schedule.revision),
        expect_rows=1,
        error=_overtaken,
    )


def claimed(schedule: Schedule, claim: Claim, now_ms: int) -> list[Statement]:
    """A row for every due time of the claim, and the schedule beyond them; all or nothing."""
    over = claim.next_due_ms is None
    advance = Statement(
        "UPDATE schedules SET accounted_until_ms = ?, next_due_ms = ?, state = CASE WHEN ? THEN 'done' ELSE state END,"
        " revision = revision + 1 WHERE id = ? AND revision = ? AND state = 'active' AND accounted_until_ms = ?",
        (
            claim.accounted_until_ms, claim.next_due_ms, int(over), schedule.id, schedule.revision,
            schedule.accounted_until_ms,
        ),
        expect_rows=1,
        error=_overtaken,
    )  # fmt: skip
    return [advance, *rows_of(schedule.id, claim, now_ms)]


def rows_of(schedule_id: int, claim: Claim, now_ms: int) -> list[Statement]:
    """The rows of a claim, for a transaction that also moves the schedule beyond them."""
    rows = [_values(schedule_id, run, now_ms) for run in claim.runs]
    return [Statement(_INSERT, rows, many=True)] if rows else []


_INSERT = (
    "INSERT INTO schedule_runs (schedule_id, due_at_ms, by_hand, state, reason, not_before_ms, covers_until_ms,"
    " ended_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def _values(schedule_id: int, run: NewRun, now_ms: int, *, by_hand: bool = False) -> tuple[object, ...]:
    final = run.state not in (RunState.WAITING, RunState.RUNNING)
    return (
        schedule_id, run.due_at_ms, int(by_hand), run.state, run.reason, run.not_before_ms, run.covers_until_ms,
        now_ms if final else None,
    )  # fmt: skip


def run_by_hand(schedule_id: int, at_ms: int) -> Statement:
    """A run that somebody asked for, due at that instant. Asking again for the same changes nothing."""
    run = NewRun(due_at_ms=at_ms, state=RunState.WAITING)
    return Statement(_INSERT.replace("INSERT", "INSERT OR IGNORE", 1), _values(schedule_id, run, at_ms, by_hand=True))


def begun(
    run: Run, schedule: Schedule, *, owner: str, lease_ms: int, session_id: str, label: str, now_ms: int
) -> list[Statement]:
    """The run begins, in that process and session. Overtaken if it does not wait any more."""
    return [
        Statement("UPDATE schedules SET runs = runs + 1 WHERE id = ?", (schedule.id,), expect_rows=1),
        Statement(
            "UPDATE schedule_runs SET state = 'running', owner = ?, lease_until_ms = ?, session_id = ?,"
            " started_at_ms = ?, number = (SELECT runs FROM schedules WHERE id = schedule_id), workspace_label = ?,"
            " origin_label = ? WHERE id = ? AND state = 'waiting'",
            (owner, now_ms + lease_ms, session_id, now_ms, label, schedule.plan.origin, run.id),
            expect_rows=1,
            error=_overtaken,
        ),
    ]  # fmt: skip


def taken_over(run: Run, owner: str, lease_until_ms: int) -> Statement:
    """Another process goes on with the run. Overtaken if a third one did first."""
    return Statement(
        "UPDATE schedule_runs SET owner = ?, lease_until_ms = ? WHERE id = ? AND state = 'running' AND owner = ?"
        " AND lease_until_ms = ?",
        (owner, lease_until_ms, run.id, run.owner, run.lease_until_ms),
        expect_rows=1,
        error=_overtaken,
    )


def renewed(owner: str, lease_until_ms: int) -> Statement:
    """The process lives on."""
    return Statement(
        "UPDATE schedule_runs SET lease_until_ms = ? WHERE state = 'running' AND owner = ?", (lease_until_ms, owner)
    )


def marked(run: Run, reason: str) -> Statement:
    """Why the run is about to be ended."""
    return Statement("UPDATE schedule_runs SET reason = ? WHERE id = ? AND state = 'running'", (reason, run.id))


def ended(run: Run, state: RunState, reason: str, now_ms: int) -> Statement:
    """The run is over. Overtaken if it was already."""
    return Statement(
        "UPDATE schedule_runs SET state = ?, reason = ?, ended_at_ms = ?, lease_until_ms = 0"
        " WHERE id = ? AND state = ?",
        (state, reason, now_ms, run.id, run.state),
        expect_rows=1,
        error=_overtaken,
    )


def stands(schedule: Schedule, standing: Standing) -> Statement:
    """How often the schedule has failed in a row. Overtaken if another run of it ended meanwhile."""
    return Statement(
        "UPDATE schedules SET failures = ?, alerted_at_ms = ? WHERE id = ? AND failures = ?",
        (standing.failures, standing.alerted_at_ms, schedule.id, schedule.failures),
        expect_rows=1,
        error=_overtaken,
    )


def told(session_id: str, shown: Shown, digest: str | None) -> Statement:
    """What becomes of the run's result in the chat is decided; put it into the transaction that plans the parts."""
    return Statement(
        "UPDATE schedule_runs SET shown = ?, result_digest = ? WHERE session_id = ? AND shown = 'none'",
        (shown, digest, session_id),
    )


def arrived(run: Run, shown: Shown, reason: str) -> Statement:
    """The parts of the result are on the platform, or given up. Overtaken if that was known."""
    return Statement(
        "UPDATE schedule_runs SET shown = ?, shown_reason = ? WHERE id = ? AND shown = 'planned'",
        (shown, reason, run.id),
        expect_rows=1,
        error=_overtaken,
    )


def trimmed(schedule_id: int, keep: int) -> list[Statement]:
    """Forget the oldest final rows, and where their sessions had their places."""
    old = (
        "SELECT id FROM schedule_runs WHERE schedule_id = ?1 AND ended_at_ms IS NOT NULL AND shown <> 'planned'"
        " ORDER BY due_at_ms DESC LIMIT -1 OFFSET ?2"
    )
    return [Statement(f"DELETE FROM schedule_runs WHERE id IN ({old})", (schedule_id, keep))]  # noqa: S608


def move_chat(place: Place, chat: str) -> Statement:
    """The target has another id."""
    return Statement(
        "UPDATE schedules SET chat = ?1, plan = json_set(plan, '$.target.chat', ?1), revision = revision + 1"
        " WHERE platform = ?2 AND account = ?3 AND chat = ?4",
        (chat, place.platform, place.account, place.chat),
    )


def _where(place: Place) -> tuple[str, str, str, str | None]:
    return place.platform, place.account, place.chat, place.thread


def _json(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()


# ----------------------------------------------------------------------------------------------------------- queries

_SCHEDULE = (
    "s.id, s.plan, s.state, s.reason, s.created_by, s.created_at_ms, s.revision, s.accounted_until_ms, s.next_due_ms,"
    " s.runs, s.failures, s.alerted_at_ms"
)
_RUN = (
    "r.id, r.schedule_id, r.due_at_ms, r.state, r.reason, r.by_hand, r.number, r.not_before_ms, r.owner,"
    " r.lease_until_ms, r.session_id, r.started_at_ms, r.ended_at_ms, r.covers_until_ms, r.shown, r.shown_reason,"
    " r.workspace_label, r.origin_label"
)
_COLUMNS = 12


def _schedule(row: Row) -> Schedule:
    return Schedule(
        id=row[0], plan=msgspec.json.decode(row[1], type=Plan), state=State(row[2]), reason=row[3], created_by=row[4],
        created_at_ms=row[5], revision=row[6], accounted_until_ms=row[7], next_due_ms=row[8], runs=row[9],
        failures=row[10], alerted_at_ms=row[11],
    )  # fmt: skip


def _run(row: Row) -> Run:
    return Run(
        id=row[0], schedule_id=row[1], due_at_ms=row[2], state=RunState(row[3]), reason=row[4], by_hand=bool(row[5]),
        number=row[6], not_before_ms=row[7], owner=row[8], lease_until_ms=row[9], session_id=row[10],
        started_at_ms=row[11], ended_at_ms=row[12], covers_until_ms=row[13], shown=Shown(row[14]),
        shown_reason=row[15], workspace_label=row[16], origin_label=row[17],
    )  # fmt: skip


async def by_id(database: Rows, schedule_id: int) -> Schedule | None:
    """The schedule, unless it was removed."""
    sql = f"SELECT {_SCHEDULE} FROM schedules AS s WHERE s.id = ? AND s.state <> 'removed'"  # noqa: S608
    rows = await database.read(sql, (schedule_id,))
    return _schedule(rows[0]) if rows else None


async def by_key(database: Rows, key: str) -> Schedule | None:
    """The schedule that was made under the key."""
    rows = await database.read(f"SELECT {_SCHEDULE} FROM schedules AS s WHERE s.creation_key = ?", (key,))  # noqa: S608
    return _schedule(rows[0]) if rows else None


async def every(database: Rows) -> tuple[Schedule, ...]:
    """Every schedule that was not removed, by id. Reading changes nothing."""
    sql = f"SELECT {_SCHEDULE} FROM schedules AS s WHERE s.state <> 'removed' ORDER BY s.id"  # noqa: S608
    return tuple(map(_schedule, await database.read(sql)))


async def due_now(database: Rows, now_ms: int, limit: int) -> tuple[Schedule, ...]:
    """Active schedules that are due, the longest first."""
    sql = (
        f"SELECT {_SCHEDULE} FROM schedules AS s WHERE s.state = 'active' AND s.next_due_ms IS NOT NULL"  # noqa: S608
        " AND s.next_due_ms <= ? ORDER BY s.next_due_ms, s.id LIMIT ?"
    )
    return tuple(map(_schedule, await database.read(sql, (now_ms, limit))))


async def next_due_ms(database: Rows) -> int | None:
    """When the first of all is due."""
    sql = "SELECT MIN(next_due_ms) FROM schedules WHERE state = 'active' AND next_due_ms IS NOT NULL"
    return (await database.read(sql))[0][0]


async def next_waiting_ms(database: Rows) -> int | None:
    """When the first waiting run may begin."""
    return (await database.read("SELECT MIN(not_before_ms) FROM schedule_runs WHERE state = 'waiting'"))[0][0]


async def open_rows(database: Rows, schedule_ids: Sequence[int]) -> Mapping[int, Open]:
    """How many rows of each schedule wait and run; those without are left out."""
    marks = ", ".join("?" * len(schedule_ids))
    sql = (
        "SELECT schedule_id, SUM(state = 'waiting'), SUM(state = 'running') FROM schedule_runs"  # noqa: S608
        f" WHERE state IN ('waiting', 'running') AND schedule_id IN ({marks}) GROUP BY schedule_id"
    )
    return {row[0]: Open(waiting=row[1], running=row[2]) for row in await database.read(sql, tuple(schedule_ids))}


Job: TypeAlias = "tuple[Run, Schedule]"


async def waiting(database: Rows, now_ms: int, limit: int) -> tuple[Job, ...]:
    """Runs that may begin, with their schedules, the longest waiting first; one of a schedule whose runs wait for
    each other is left out while another of it runs."""
    sql = (
        f"SELECT {_SCHEDULE}, {_RUN} FROM schedule_runs AS r JOIN schedules AS s ON s.id = r.schedule_id"  # noqa: S608
        " WHERE r.state = 'waiting' AND r.not_before_ms <= ? AND (json_extract(s.plan, '$.overlap') = 'allow'"
        " OR (r.id = (SELECT MIN(w.id) FROM schedule_runs AS w WHERE w.schedule_id = r.schedule_id"
        " AND w.state = 'waiting') AND NOT EXISTS (SELECT 1 FROM schedule_runs AS o"
        " WHERE o.schedule_id = r.schedule_id AND o.state = 'running')))"
        " ORDER BY r.not_before_ms, r.id LIMIT ?"
    )
    return tuple(map(_job, await database.read(sql, (now_ms, limit))))


async def running(database: Rows) -> tuple[Job, ...]:
    """Runs that go on, whoever carries them out."""
    sql = (
        f"SELECT {_SCHEDULE}, {_RUN} FROM schedule_runs AS r JOIN schedules AS s ON s.id = r.schedule_id"  # noqa: S608
        " WHERE r.state = 'running' ORDER BY r.id"
    )
    return tuple(map(_job, await database.read(sql)))


def _job(row: Row) -> Job:
    return _run(row[_COLUMNS:]), _schedule(row[:_COLUMNS])


async def run_of_session(database: Rows, session_id: str) -> Job | None:
    """The run whose session it is, with its schedule."""
    sql = (
        f"SELECT {_SCHEDULE}, {_RUN} FROM schedule_runs AS r JOIN schedules AS s ON s.id = r.schedule_id"  # noqa: S608
        " WHERE r.session_id = ?"
    )
    rows = await database.read(sql, (session_id,))
    return _job(rows[0]) if rows else None


async def recipe_of_session(database: Rows, session_id: str) -> RunRecipe | None:
    """What the run's session was begun with."""
    rows = await database.read("SELECT recipe FROM place_sessions WHERE session_id = ?", (session_id,))
    return in_recipe(msgspec.json.decode(rows[0][0])) if rows else None


async def history(database: Rows, schedule_id: int, limit: int) -> tuple[Run, ...]:
    """The newest runs of a schedule first."""
    sql = f"SELECT {_RUN} FROM schedule_runs AS r WHERE r.schedule_id = ? ORDER BY r.due_at_ms DESC LIMIT ?"  # noqa: S608
    return tuple(map(_run, await database.read(sql, (schedule_id, limit))))


async def run_at(database: Rows, schedule_id: int, due_at_ms: int) -> Run | None:
    """The run of that due time."""
    sql = f"SELECT {_RUN} FROM schedule_runs AS r WHERE r.schedule_id = ? AND r.due_at_ms = ?"  # noqa: S608
    rows = await database.read(sql, (schedule_id, due_at_ms))
    return _run(rows[0]) if rows else None


async def digest_before(database: Rows, run: Run) -> str | None:
    """What the last run before this one that said something said."""
    rows = await database.read(
        "SELECT result_digest FROM schedule_runs WHERE schedule_id = ? AND due_at_ms < ? AND result_digest IS NOT NULL"
        " ORDER BY due_at_ms DESC LIMIT 1",
        (run.schedule_id, run.due_at_ms),
    )
    return rows[0][0] if rows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What became of the parts of a run's result; `reason` is that of one that did not arrive."""

    run: Run
    name: str
    waiting: int
    failed: int
    unknown: int
    reason: str


async def on_their_way(database: Rows) -> tuple[Parts, ...]:
    """Results that were planned, with the states of their parts; without parts, a card says all there is to say."""
    sql = (
        f"SELECT {_RUN}, r.origin_label, TOTAL(d.state IN ('planned', 'sending')), TOTAL(d.state = 'failed'),"  # noqa: S608
        " TOTAL(d.state = 'unknown'), MAX(CASE WHEN d.state = 'failed' THEN d.reason END)"
        " FROM schedule_runs AS r LEFT JOIN deliveries AS d ON d.session_id = r.session_id"
        " AND d.session_id >= 'cron:' AND d.session_id < 'cron;' AND d.surface IN ('answer', 'end')"
        " WHERE r.shown = 'planned' GROUP BY r.id ORDER BY r.id"
    )
    return tuple(
        Parts(
            run=_run(row),
            name=row[-5],
            waiting=int(row[-4]),
            failed=int(row[-3]),
            unknown=int(row[-2]),
            reason=row[-1] or "",
        )
        for row in await database.read(sql)
    )


async def known_chats(database: Rows, platform: str, account: str) -> Mapping[str, str | None]:
    """Chats of one of our accounts in which somebody who may was heard, with the name they had last."""
    sql = (
        "SELECT chat, CASE WHEN payload = '' THEN NULL ELSE json_extract(payload, '$.chat_title') END"
        " FROM inbound WHERE platform = ? AND account = ? AND chat <> '' ORDER BY id"
    )
    named: dict[str, str | None] = {}
    for chat, title in await database.read(sql, (platform, account)):
        named[chat] = title or named.get(chat)
    bound = "SELECT DISTINCT chat FROM places WHERE platform = ? AND account = ?"
    for (chat,) in await database.read(bound, (platform, account)):
        named.setdefault(chat, None)
    return named


async def account_on(database: Rows, platform: str) -> str | None:
    """Our account on a platform, as last heard of."""
    sql = "SELECT account FROM inbound WHERE platform = ? ORDER BY id DESC LIMIT 1"
    rows = await database.read(sql, (platform,))
    return rows[0][0] if rows else None


async def is_dead(database: Rows, place: Place) -> bool:
    """Whether the chat took nothing when it was tried last."""
    sql = "SELECT 1 FROM dead_chats WHERE platform = ? AND account = ? AND chat = ?"
    return bool(await database.read(sql, (place.platform, place.account, place.chat)))


async def trim(database: Database, keep: int) -> None:
    """Forget what is beyond the history of each schedule."""
    sql = "SELECT schedule_id FROM schedule_runs WHERE ended_at_ms IS NOT NULL GROUP BY schedule_id HAVING COUNT(*) > ?"
    for (schedule_id,) in await database.read(sql, (keep,)):
        await database.write(trimmed(schedule_id, keep))
