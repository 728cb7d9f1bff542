"""The store on SQLite: one file, one writer, one commit for all saves that wait together."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path
from typing import TypeVar

from runtime.clock import Clock, SystemClock
from runtime.errors import CheckpointError, CommitUnknown, InvalidCheckpoint, StaleCheckpoint
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol import checks
from runtime.protocol.approvals import Grant, PendingApproval
from runtime.protocol.checkpoint import Checkpoint, ExecutionRecord, Receipt
from runtime.protocol.context import Context, ContextDelta, JsonValue
from runtime.protocol.events import Event, EventMsg
from runtime.store import codec, files, loading, ownership, queries, retention, saving, schema
from runtime.store.base import EventPage, ExecutionPage, Head, Lease, Saved, SessionSummary
from runtime.store.failures import failure, kind_of, naming, while_running
from runtime.store.opening import open_reader, open_writer
from runtime.store.ownership import LEASE_MS, Owner, Process
from runtime.store.retention import JournalLimits
from runtime.store.writer import Connection, Parameters, Result, Row, Statement, Steps, Transaction, Unit, Writer

T = TypeVar("T")

REMEMBERED = 512
"""Sessions of which the store remembers what it stored last, so that a save writes only what changed."""


def random_id() -> str:
    """128 random bits."""
    return secrets.token_hex(16)


class Database:
    """The tables of others in the same file: through the same writer, in the same shared commits."""

    def __init__(self, writer: Writer, readers: Sequence[Connection]) -> None:
        self._writer = writer
        self._readers = readers
        self._next = 0

    async def write(self, unit: Unit) -> list[Result]:
        """Run the statements as one transaction; see `Writer.write`. On return they are on disk."""
        return await self._writer.write(unit)

    async def read(self, sql: str, params: Parameters = ()) -> list[Row]:
        """The rows of one query, as of the last commit or a later one."""
        return await self.snapshot(lambda _: loading.rows(sql, *params))

    async def snapshot(self, steps: Callable[[Transaction], Steps[T]]) -> T:
        """Run reading steps on one of the read connections. Errors are translated."""
        self._next = (self._next + 1) % len(self._readers)
        try:
            return await self._readers[self._next].run(steps)
        except Exception as error:
            translated = while_running(self._readers[self._next].path, error)
            if translated is error:
                raise
            raise translated from error


class SqliteStore:
    """Sessions that outlive the process, in one file. Open it with `await SqliteStore.open(path)`."""

    def __init__(
        self,
        path: Path,
        writer: Writer,
        readers: Sequence[Connection],
        *,
        clock: Clock,
        new_id: Callable[[], str],
        process: Process,
    ) -> None:
        self.path = path
        self.database = Database(writer, readers)
        self.owner_id = new_id()
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._new_id = new_id
        self._process = process
        self._remembered: OrderedDict[str, saving.Known] = OrderedDict()
        self._registered = False

    @classmethod
    async def open(
        cls,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        faults: Faults = NO_FAULTS,
        components: Mapping[str, Traversable] | None = None,
        new_id: Callable[[], str] = random_id,
        busy_timeout_ms: int = 5000,
        process: Process | None = None,
    ) -> SqliteStore:
        """Open or create the database; on return its schema is current and its settings are verified.

        `components` brings the migrations of other tables in the same file, by name. ConfigurationError: the file
        cannot be used; SchemaTooNew: a newer program wrote it.
        """
        where = Path(path)
        clock = clock or SystemClock()
        files.prepare(where)
        opened: list[Connection] = []
        try:
            opened.append(await open_writer(where, busy_timeout_ms=busy_timeout_ms, clock=clock))
            await schema.migrate(opened[0], where, {"runtime": schema.RUNTIME, **(components or {})})
            opened.append(await open_reader(where, busy_timeout_ms=busy_timeout_ms))
            opened.append(await open_reader(where, busy_timeout_ms=busy_timeout_ms))
            files.secure(where)
        except BaseException as error:
            for connection in reversed(opened):
                await connection.close()
            if isinstance(error, Exception) and (named := naming(where, error)) is not error:
                raise named from error
            raise
        writer = Writer(opened[0], faults)
        identity = process or ownership.this_process()
        return cls(where, writer, opened[1:], clock=clock, new_id=new_id, process=identity)

    async def aclose(self) -> None:
        """Write what waits, give every session back and close. What was acknowledged is on disk."""
        try:
            if self._registered:
                await self._writer.write([Statement(queries.DELETE_OWNER, (self.owner_id,))])
        except CheckpointError:
            pass  # the row expires by itself, and on this machine the process's end frees its sessions at once
        finally:
            self._registered = False
            for reader in self._readers:
                await reader.close()
            await self._writer.aclose()  # last: the last connection moves the log into the database

    # -- sessions

    async def load(self, session_id: str) -> Checkpoint | None:
        """The newest checkpoint with its whole context, or None. InvalidCheckpoint where it contradicts itself."""
        loaded = await self.database.snapshot(loading.snapshot(loading.read_session(session_id)))
        if loaded is None:
            self._remembered.pop(session_id, None)
            return None
        self._remember(session_id, loaded.known)
        return loaded.checkpoint

    async def head(self, session_id: str) -> Head | None:
        """The newest save's numbers, or None."""
        known = await self._read_known(session_id)
        return known.head if known is not None and known.saved else None

    async def save(
        self,
        checkpoint: Checkpoint,
        delta: ContextDelta | None = None,
        *,
        events: Sequence[EventMsg | Event] = (),
        submission_id: str | None = None,
        execution: ExecutionRecord | None = None,
        receipts: Sequence[Receipt] = (),
        grants: Sequence[Grant] = (),
        lease: Lease | None = None,
        save_id: str | None = None,
    ) -> Saved:
        """Make the checkpoint and all that belongs to it durable, as one transaction.

        See `CheckpointStore.save`. `first_event` is where the first event went, or would have gone. A receipt whose
        submission id has one already is DuplicateReceipt. A commit that reports an error is looked up: CommitUnknown is
        raised only where even that is impossible.
        """
        checks.check(checkpoint, execution)
        request = saving.SaveRequest(
            checkpoint=checkpoint,
            delta=delta,
            events=tuple(events),
            submission_id=submission_id,
            execution=execution,
            receipts=receipts,
            grants=grants,
            lease=lease,
            save_id=save_id or self._new_id(),
            now_ms=self._clock.now_ms(),
        )
        known = self._remembered.get(checkpoint.session_id)
        if known is not None:
            try:
                return await self._save(request, known)
            except (StaleCheckpoint, InvalidCheckpoint):
                pass  # what is remembered may be out of date: another connection may have written
        try:
            return await self._save(request, await self._read_known(checkpoint.session_id))
        except StaleCheckpoint as refused:
            if lease is not None and (owner := await self._other_owner(lease)) is not None:
                raise saving.stale(checkpoint, owner) from refused
            raise

    async def _other_owner(self, lease: Lease) -> str | None:
        """Who took the session away from the lease, in words; None where nobody did."""
        rows = await self.database.read(queries.READ_OWNER_OF_SESSION, (lease.session_id,))
        if not rows or rows[0][:2] == (lease.generation, lease.owner_id):
            return None
        _, owner_id, host, _, pid, *_ = rows[0]
        return "the session was given back" if owner_id is None else f"process {pid} on host {host!r} owns the session"

    async def _save(self, request: saving.SaveRequest, known: saving.Known | None) -> Saved:
        session_id = request.checkpoint.session_id
        plan = saving.plan(request, known)
        try:
            await self._writer.write(plan.unit)
        except CommitUnknown as unknown:
            self._remembered.pop(session_id, None)
            return await self._look_up(request, unknown)
        except BaseException:
            self._remembered.pop(session_id, None)
            raise
        self._remember(session_id, plan.known)
        return Saved(first_event=plan.first_event, save_id=request.save_id)

    async def _look_up(self, request: saving.SaveRequest, unknown: CommitUnknown) -> Saved:
        try:
            head = await self.head(request.checkpoint.session_id)
        except CheckpointError as error:
            raise unknown from error
        if head is not None and head.save_id == request.save_id:
            return Saved(first_event=head.event_sequence - len(request.events) + 1, save_id=request.save_id)
        if head is not None and head.sequence >= request.checkpoint.sequence:
            raise saving.stale(request.checkpoint, f"save {head.sequence} of another writer is stored") from unknown
        cause = unknown.__cause__ or unknown
        raise failure(kind_of(cause)) from unknown

    async def _read_known(self, session_id: str) -> saving.Known | None:
        return await self.database.snapshot(lambda _: loading.read_known(session_id))

    def _remember(self, session_id: str, known: saving.Known) -> None:
        self._remembered[session_id] = known
        self._remembered.move_to_end(session_id)
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    async def list_sessions(self, limit: int = 100, after: str | None = None) -> tuple[SessionSummary, ...]:
        """Sessions by id, from beyond `after`."""
        rows = await self.database.read(queries.LIST_SESSIONS, (after or "", _positive(limit)))
        return tuple(_summary(*row) for row in rows)

    async def fork(self, session_id: str, new_session_id: str) -> Checkpoint:
        """Copy context, labels, metadata, model route and title of an idle moment; nothing pending comes along.

        CheckpointError where the source is missing or runs a turn, or the new id is taken.
        """
        source = await self.load(session_id)
        if source is None:
            raise CheckpointError(f"session {session_id!r} does not exist, so it cannot be copied")
        if not source.idle:
            raise CheckpointError(f"session {session_id!r} runs a turn; copy it once the turn has ended")
        copy = replace(
            Checkpoint.empty(new_session_id),
            session_context=source.session_context,
            metadata=source.metadata,
            model_route=source.model_route,
            title=source.title,
            context=Context(source.context),
        )
        if await self._read_known(new_session_id) is not None:
            raise CheckpointError(f"session {new_session_id!r} exists already; name another id for the copy")
        await self.save(copy)
        return copy

    async def delete(self, session_id: str) -> None:
        """Remove the session and everything that hangs on it, but for its receipts. A missing one is no error."""
        self._remembered.pop(session_id, None)
        await self._writer.write([Statement(queries.DELETE_SESSION, (session_id,))])

    # -- journals

    async def event_page(
        self, session_id: str, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> EventPage:
        """Newest first with `before` (or neither), ascending with `after`; with both, ascending between them."""
        steps = loading.read_events(session_id, before, after, _positive(limit))
        return await self.database.snapshot(loading.snapshot(steps))

    async def execution_page(self, session_id: str, before: int | None = None, limit: int = 100) -> ExecutionPage:
        """Newest first. `before` is the `next_before` of the page before."""
        bound = loading.FAR if before is None else before
        rows = await self.database.read(queries.READ_EXECUTIONS, (session_id, bound, _positive(limit) + 1))
        page = rows[:limit]
        executions = tuple(codec.decode(ExecutionRecord, payload, "execution record") for _, payload in page)
        return ExecutionPage(executions=executions, next_before=page[-1][0] if len(rows) > limit else None)

    # -- small things by key

    async def save_state(self, scope: str, key: str, value: JsonValue) -> None:
        """Keep `value` under (scope, key)."""
        params = (scope, key, codec.encode_json(value), self._clock.now_ms())
        await self._writer.write([Statement(queries.UPSERT_STATE, params)])

    async def load_state(self, scope: str, key: str) -> JsonValue:
        """What was kept under (scope, key), or None."""
        rows = await self.database.read(queries.READ_STATE, (scope, key))
        return codec.decode_json(rows[0][0], "state") if rows else None

    async def receipt(self, key: str) -> Receipt | None:
        """The stored receipt of a submission id, also beyond the session's end; `prune` removes it after 30 days."""
        rows = await self.database.read(queries.READ_RECEIPT, (key,))
        return codec.decode(Receipt, rows[0][0], "receipt") if rows else None

    async def grants(self, session_id: str) -> tuple[Grant, ...]:
        """Every grant of the session that is not revoked. The caller's clock decides which are still valid."""
        rows = await self.database.read(queries.READ_GRANTS, (session_id,))
        return tuple(codec.decode(Grant, payload, "grant") for (payload,) in rows)

    # -- cursors

    async def approval(self, session_id: str, request_id: str) -> PendingApproval | None:
        """A request of the session, open or closed, or None."""
        found = await self.database.read(queries.READ_ONE_APPROVAL, (session_id, request_id))
        return loading.approval(*found[0]) if found else None

    async def cursor(self, consumer: str, session_id: str) -> int:
        """How far the consumer has come in the session's journal; 0 where it has not begun."""
        rows = await self.database.read(queries.READ_CURSOR, (session_id, consumer))
        return rows[0][0] if rows else 0

    def cursor_statement(self, consumer: str, session_id: str, sequence: int) -> Statement:
        """The statement that moves the cursor forward, for a transaction of the consumer's own. Never backward."""
        return Statement(queries.UPSERT_CURSOR, (session_id, consumer, sequence))

    async def sessions_beyond_cursor(self, consumer: str) -> tuple[str, ...]:
        """Sessions with events that the consumer has not had."""
        return tuple(row[0] for row in await self.database.read(queries.SESSIONS_BEYOND_CURSOR, (consumer,)))

    async def forget_consumer(self, consumer: str) -> None:
        """Remove the consumer's cursors: no journal is kept for it any more."""
        await self._writer.write([Statement(queries.DELETE_CONSUMER, (consumer,))])

    async def sessions_with_work(self) -> tuple[str, ...]:
        """Sessions that a start has to look at: a turn, an approval or messages wait, or the session is retiring."""
        return tuple(row[0] for row in await self.database.read(queries.SESSIONS_WITH_WORK))

    # -- ownership

    async def claim(self, session_id: str) -> Lease:
        """Own the session from now on, under a new generation. A session that was never saved may be claimed.

        StaleCheckpoint, naming the owner, while another living process holds it. Within this process the newer claim
        wins and the older lease is fenced. A dead owner of this machine is replaced at once, one of another machine
        when its row has expired.
        """
        for _ in range(3):
            rows = await self.database.read(queries.READ_OWNER_OF_SESSION, (session_id,))
            generation, owner_id = rows[0][:2] if rows else (0, None)
            self._refuse_if_owned_elsewhere(session_id, rows)
            taken = await self._take(session_id, generation, owner_id)
            if taken is not None:
                return taken
        raise StaleCheckpoint(f"session {session_id!r} is being taken by another process")

    def _refuse_if_owned_elsewhere(self, session_id: str, rows: list[Row]) -> None:
        if not rows or rows[0][1] in (None, self.owner_id) or rows[0][2] is None:
            return  # free: never owned, given back, or its owner has left
        owner = _owner(*rows[0][1:])
        if owner.process == self._process:
            return  # ours: the newer claim wins, and the older agent is fenced by its generation
        if not ownership.is_dead(owner, self._process, self._clock.now_ms()):
            other = owner.process
            raise StaleCheckpoint(f"session {session_id!r} is owned by process {other.pid} on host {other.host!r}")

    async def _take(self, session_id: str, generation: int, owner_id: str | None) -> Lease | None:
        take = (self.owner_id, session_id, generation, owner_id)
        lost = StaleCheckpoint(f"session {session_id!r} was taken by another process")
        try:
            await self._writer.write(
                [
                    self._registration(),
                    Statement(queries.CREATE_CLAIMED, (session_id, self._clock.now_ms())),
                    Statement(queries.TAKE_SESSION, take, 1, lambda: lost, fetch=True),
                ]
            )
        except BaseException as error:
            if error is lost:
                return None
            raise
        self._registered = True
        return Lease(session_id=session_id, owner_id=self.owner_id, generation=generation + 1)

    def _registration(self) -> Statement:
        now = self._clock.now_ms()
        me = self._process
        params = (self.owner_id, me.host, me.boot_id, me.pid, me.start, now, now + LEASE_MS)
        return Statement(queries.REGISTER_OWNER, params)

    async def renew_ownership(self) -> None:
        """Say that this process lives: one row for all its sessions. Due at least every `LEASE_MS / 3`."""
        if self._registered:
            await self._writer.write([self._registration()])

    async def release(self, lease: Lease) -> None:
        """Give the session back; without effect if the lease is gone already."""
        params = (lease.session_id, lease.owner_id, lease.generation)
        await self._writer.write([Statement(queries.RELEASE_SESSION, params)])

    # -- what time removes

    async def prune(self, now_ms: int) -> None:
        """Remove what is past its time: receipts after 30 days, ended grants after 30 more, owners that are gone."""
        rows = await self.database.read(queries.READ_OWNERS)
        gone = [
            Statement(queries.DELETE_OWNER, (row[0],))
            for row in rows
            if row[5] < now_ms - retention.DAY_MS and ownership.is_dead(_owner(*row), self._process, now_ms)
        ]
        await self._writer.write([*gone, *retention.expired(now_ms)])

    async def prune_journal(self, limits: JournalLimits, now_ms: int) -> int:
        """Remove the oldest events beyond the limits, and say how many.

        Never removed is what the lowest cursor of any consumer has not passed, and what belongs to a running turn or a
        waiting approval. Numbers go on as before.
        """
        removed, after = 0, ""
        consumers: int = (await self.database.read(queries.COUNT_CONSUMERS))[0][0]
        while rows := await self._journal_states(limits, now_ms, after):
            after = rows[-1].session_id
            bounds = ((row.session_id, retention.removable(row, limits, consumers)) for row in rows)
            due = [bound for bound in bounds if bound[1] > 0]
            if due:
                removed += (await self._writer.write([Statement(queries.PRUNE_EVENTS, due, many=True)]))[0].count
        return removed

    async def _journal_states(self, limits: JournalLimits, now_ms: int, after: str) -> list[retention.JournalState]:
        recent_from = now_ms - (limits.max_age_ms or 0)
        rows = await self.database.read(queries.READ_JOURNAL_STATES, (recent_from, after, 200))
        return [retention.journal_state(row) for row in rows]


def _owner(owner_id: str, host: str, boot_id: str, pid: int, start: int, expires_at_ms: int) -> Owner:
    process = Process(host=host, boot_id=boot_id, pid=pid, start=start)
    return Owner(owner_id=owner_id, process=process, expires_at_ms=expires_at_ms)


def _summary(
    session_id: str, title: str | None, workspace: str | None, origin: str | None, running: int, queued: int, at: int
) -> SessionSummary:
    return SessionSummary(
        session_id=session_id,
        title=title,
        workspace_label=workspace,
        origin_label=origin,
        running=bool(running),
        queued=queued,
        updated_at_ms=at,
    )


def _positive(limit: int) -> int:
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    return limit
