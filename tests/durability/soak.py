"""Fifty chats of one process for the kill soak: what is said in them, how people answer, and what must hold in the end.

What a message asks for is decided by the seed and its number alone, so every life of the process goes on where the
last one was killed: whoever had no acknowledgement asks again under the same id.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from runtime import AgentConfig, ApprovalPolicy, ModelRouter, events, ops
from runtime.host import Runtime
from runtime.middleware import HookContext, Middleware, Reject
from runtime.models.base import ModelReply, ModelRequest
from runtime.protocol import Approve, Delivery, Deny, Receipt, TextPart, ToolCall, ToolResult, Usage, UserMessage
from runtime.store import SqliteStore
from runtime.tools.base import Tool, ToolContext
from tests.durability.scenarios import assert_valid, lines, note, problems_of_the_end, problems_of_the_order

CHATS = 50
IN_A_ROW = 4
"""How many messages one chat says before the next one speaks."""
REDELIVERED = 1000
QUEUE_LIMIT = 3
DATABASE = "sessions.db"
FORBIDDEN = "forbidden"
ASKED_FOR = ("", "", "", "work", "keyed", "side side work", "gated", "gated work", FORBIDDEN)
AFTERWARDS = (None,) * 6 + ("remove", "edit", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of the soak: which calls it asks for, and what its sender does right after it."""

    id: str
    chat: str
    calls: str
    delivery: Delivery | None
    afterwards: str | None
    waits: bool

    @classmethod
    def number(cls, n: int, seed: int) -> Said:
        """The message `n`, the same in every life."""
        random = Random(f"{seed}:{n}")
        afterwards = random.choice(AFTERWARDS)
        return cls(
            id=f"m-{n}",
            chat=f"chat-{n // IN_A_ROW % CHATS}",
            calls=random.choice(ASKED_FOR),
            delivery=Delivery.QUEUE if afterwards == "remove" else random.choice((None, *Delivery)),
            afterwards=afterwards,
            waits=random.random() < 0.3,
        )


class Policy(Middleware):
    """Lets no forbidden message in."""

    name = "policy"

    async def message_submit(self, context: HookContext) -> Reject | None:
        """Reject what is forbidden."""
        assert context.message is not None
        return Reject("not here") if FORBIDDEN in context.message.text else None


class Brain:
    """Makes the calls that the newest message asks for, once, and then answers."""

    name = "brain"
    context_window = 100_000_000

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        """One answer to a history that a provider would accept."""
        assert_valid(request.context)
        items = list(request.context)
        last = max(n for n, item in enumerate(items) if isinstance(item, UserMessage))
        asked = items[last]
        assert isinstance(asked, UserMessage)
        await asyncio.sleep(0)
        names = asked.text.split()[1:]
        if not names or any(isinstance(item, ToolResult) for item in items[last:]):
            return ModelReply(parts=(TextPart(text=f"answer to {asked.id}"),), usage=Usage(input_tokens=1))
        calls = tuple(
            ToolCall(call_id=f"c{n}", name=name, arguments={"of": f"{asked.id}.{n}"}) for n, name in enumerate(names)
        )
        return ModelReply(parts=calls, usage=Usage(input_tokens=1), end_turn=False)


class Counted(Tool):
    """One line in the effects file per run: name, idempotency key, and the call by its message and position."""

    parameters: Any = {"type": "object", "properties": {"of": {"type": "string"}}}

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        self.name = name
        self._effects = folder / "effects.log"
        for option, value in options.items():
            setattr(self, option, value)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Have the effect."""
        note(self._effects, f"{self.name} {context.idempotency_key} {arguments['of']}")
        await asyncio.sleep(0)
        return "done"


class Life:
    """One life of the process: everything that is under way goes on, and up to `limit` messages are said in all."""

    def __init__(
        self, folder: Path, store: SqliteStore, *, seed: int, limit: int, acknowledge: Callable[[], None]
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.limit = limit
        self.store = store
        self.runtime = Runtime(self._config, store)
        self._acknowledge = acknowledge
        self._requests: set[str] = set()
        self._presses: set[asyncio.Task[Any]] = set()
        self._tools = [
            Counted("work", folder, approval="never"),
            Counted("side", folder, approval="never", parallel=True),
            Counted("keyed", folder, approval="never", replay="by_key"),
            Counted("gated", folder),
        ]

    def _config(self, session_id: str) -> AgentConfig:
        return AgentConfig(
            models=ModelRouter("main", Brain()),
            store=self.store,
            session_id=session_id,
            tools=self._tools,
            approval_policy=ApprovalPolicy.ASK,
            middleware=[Policy()],
            on_interrupted_step="retry",
            on_uncertain_tools="continue",
            queue_limit=QUEUE_LIMIT,
            initial_replay_batches=0,
            random=Random(f"{self.seed}:{session_id}"),
        )

    async def go_on(self) -> None:
        """Return once every message is said and answered; whoever stops it earlier cancels it."""
        unfinished = await self.store.sessions_with_work()
        note(self.folder / "lives.log", str(len(unfinished)))
        self.runtime.on_stored(self._stored)
        try:
            await self.runtime.start()
            for session_id in unfinished:
                status = await self.runtime.status(session_id)
                if status is not None and status.request_id is not None:
                    self._press(session_id, status.request_id)
            await self._say_all()
            await self._drain()
        finally:
            await self._close()

    async def _close(self) -> None:
        for press in self._presses:
            press.cancel()
        await asyncio.gather(*self._presses, return_exceptions=True)
        await self.runtime.aclose()

    async def _say_all(self) -> None:
        done = {*lines(self.folder / "acknowledged.log"), *lines(self.folder / "refused.log")}
        by_chat: dict[str, list[Said]] = {}
        for said in (Said.number(n, self.seed) for n in range(self.limit)):
            if said.id not in done:
                by_chat.setdefault(said.chat, []).append(said)
        async with asyncio.TaskGroup() as people:
            for said in by_chat.values():
                people.create_task(self._say_in_order(said))

    async def _say_in_order(self, messages: Sequence[Said]) -> None:
        for said in messages:
            receipt = await self.say(said)
            if receipt.status == "rejected":
                note(self.folder / "refused.log", said.id)
                continue
            note(self.folder / "acknowledged.log", said.id)
            self._acknowledge()
            await self._afterwards(said)
            if said.waits:
                await (await self.runtime.open(said.chat)).settled()

    async def say(self, said: Said) -> Receipt:
        """Send it, for the first time or again."""
        op = ops.Message(text=f"{said.id} {said.calls}", delivery=said.delivery)
        return await self.runtime.submit(said.chat, op, said.id)

    async def _afterwards(self, said: Said) -> None:
        match said.afterwards:
            case "remove":
                op = ops.RemoveQueued(message_id=said.id, by="ann")
                if (await self.runtime.submit(said.chat, op, f"remove-{said.id}")).status != "rejected":
                    note(self.folder / "removed.log", said.id)
            case "edit":
                op = ops.EditQueued(message_id=said.id, text=f"{said.id} work")
                await self.runtime.submit(said.chat, op, f"edit-{said.id}")
            case _:
                pass

    def _stored(self, session_id: str, _: Any, stored: Sequence[events.Event]) -> None:
        for event in stored:
            if isinstance(event.msg, events.ApprovalRequested):
                self._press(session_id, event.msg.request_id)
            elif isinstance(event.msg, events.TurnStarted) and self._is_stopped(event.msg.message_id):
                self._stop(session_id, event.msg.turn_id)

    def _is_stopped(self, message_id: str | None) -> bool:
        return message_id is not None and Said.number(_number(message_id), self.seed).afterwards == "stop"

    def _stop(self, session_id: str, turn_id: str) -> None:
        """Somebody stops the turn that has just begun."""
        self._begin(self.runtime.submit(session_id, ops.Interrupt(turn_id=turn_id, by="ann"), f"stop-{turn_id}"))

    def _press(self, session_id: str, request_id: str) -> None:
        """Two people press different buttons of the same card at once."""
        if request_id in self._requests:
            return
        self._requests.add(request_id)
        for decision, by in Random(f"{self.seed}:{request_id}").sample([(Approve(), "ann"), (Deny("no"), "bob")], 2):
            op = ops.ResolveApproval(request_id=request_id, decision=decision, decided_by=by)
            self._begin(self._resolve(session_id, op))

    def _begin(self, press: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(press)
        self._presses.add(task)
        task.add_done_callback(self._pressed)

    async def _resolve(self, session_id: str, op: ops.ResolveApproval) -> None:
        receipt = await self.runtime.submit(session_id, op, f"press-{op.request_id}-{op.decided_by}")
        result: Any = receipt.result
        if result is not None and result.status == "resolved":
            note(self.folder / "decided.log", f"{op.request_id} {op.decided_by}")

    def _pressed(self, press: asyncio.Task[Any]) -> None:
        if not press.cancelled() and press.exception() is not None:
            return  # it stays among the presses, and whoever waits for them is told
        self._presses.discard(press)

    async def _drain(self) -> None:
        while True:
            await self.runtime.at_rest()
            if self._presses:
                await asyncio.gather(*self._presses)
            elif not await self.store.sessions_with_work():
                return


async def live(folder: Path, *, seed: int, limit: int, acknowledge: Callable[[], None], to_the_end: bool) -> None:
    """Live until SIGTERM, which ends everything in order, or with `to_the_end` until nothing is left to do."""
    store = await SqliteStore.open(folder / DATABASE)
    told_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_stop.set)
    life = asyncio.ensure_future(Life(folder, store, seed=seed, limit=limit, acknowledge=acknowledge).go_on())
    stop = asyncio.ensure_future(told_to_stop.wait())
    try:
        await asyncio.wait({life, stop}, return_when=asyncio.FIRST_COMPLETED)
        life.cancel()
        (end,) = await asyncio.gather(life, return_exceptions=True)
        if isinstance(end, Exception):  # not the cancellation
            raise end
        if not to_the_end:
            await stop
    finally:
        stop.cancel()
        await store.aclose()


async def again(folder: Path, *, seed: int, limit: int) -> tuple[list[str], dict[str, int]]:
    """Start once more when all is done, then deliver the newest messages again: nothing may change. Then look."""
    before = snapshot(folder)
    await live(folder, seed=seed, limit=limit, acknowledge=_nobody_waits, to_the_end=True)
    found = [] if snapshot(folder) == before else ["a second restart changed something"]
    store = await SqliteStore.open(folder / DATABASE)
    try:
        life = Life(folder, store, seed=seed, limit=limit, acknowledge=_nobody_waits)
        newest = sorted(set(lines(folder / "acknowledged.log")), key=_number)[-REDELIVERED:]
        for id in newest:
            receipt = await life.say(Said.number(_number(id), seed))
            found += [] if receipt.status == "duplicate" else [f"{id} was taken twice: {receipt}"]
        await life.runtime.aclose()
        found += [] if snapshot(folder) == before else ["the redelivery changed something"]
        problems, counts = await look_at(folder, store)
        return found + problems, {**counts, "redelivered": len(newest)}
    finally:
        await store.aclose()


def _nobody_waits() -> None:
    """Nobody kills this life."""


def _number(id: str) -> int:
    return int(id.removeprefix("m-"))


def snapshot(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the database, but for who owns what."""
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for table in set(tables) - {"owners"}:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            kept = ", ".join(name for name in columns if name not in ("owner_id", "generation"))
            rows[table] = sorted(database.execute(f"SELECT {kept} FROM {table}"), key=repr)
        return rows


async def look_at(folder: Path, store: SqliteStore) -> tuple[list[str], dict[str, int]]:
    """What does not hold of the whole, and how much there was of everything."""
    found: list[str] = []
    counts: Counter[str] = Counter()
    ends: dict[str, list[str]] = {}
    for summary in await store.list_sessions(limit=CHATS + 1):
        found += await _look_at_session(store, summary.session_id, ends, counts)
    found += _problems_of_messages(folder, ends)
    counts.update(end for all_ends in ends.values() for end in all_ends)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        found += _problems_of_approvals(folder, database, counts)
        found += _problems_of_effects(folder, database, counts)
        found += _problems_of_the_file(database)
    counts["recovered"] = sum(int(line) for line in lines(folder / "lives.log"))
    return found, dict(counts)


async def _look_at_session(
    store: SqliteStore, session_id: str, ends: dict[str, list[str]], counts: Counter[str]
) -> list[str]:
    """Its turns one after the other with one record each, nothing left over, every message within a recorded turn."""
    checkpoint = await store.load(session_id)
    assert checkpoint is not None
    page = await store.event_page(session_id, after=0, limit=1_000_000)
    records = (await store.execution_page(session_id, limit=1_000_000)).executions
    counts.update(f"turns {record.outcome}" for record in records)
    journal = [event.msg for event in page.events]
    turns = {record.turn_id for record in records}
    entered = {msg.message_id: msg.turn_id for msg in journal if isinstance(msg, events.Message)}
    for event in page.events:
        match event.msg:
            case events.Message():
                ends.setdefault(event.msg.message_id, []).append("delivered")
            case events.MessageRemoved():
                ends.setdefault(event.msg.message_id, []).append("removed")
            case events.SubmissionRejected():
                ends.setdefault(str(event.submission_id), []).append("rejected")
            case events.TurnStarted() if event.msg.message_id not in entered:
                ends.setdefault(str(event.msg.message_id), []).append("rejected")
            case _:
                pass
    found = [*problems_of_the_order(journal, records), *problems_of_the_end(checkpoint, page)]
    found += [f"{id} entered {turn}, which has no record" for id, turn in entered.items() if turn not in turns]
    return [f"{session_id}: {problem}" for problem in found]


def _problems_of_messages(folder: Path, ends: Mapping[str, list[str]]) -> list[str]:
    """Every acknowledged message has exactly one end; a removal that was promised is that end; a refused one has none.

    A message that was never acknowledged may be known all the same: the kill came between commit and acknowledgement.
    In the end every one of these was said again, so none is left.
    """
    promised = set(lines(folder / "acknowledged.log"))
    found = [f"{id} was acknowledged and ended as {ends.get(id)}" for id in promised if len(ends.get(id, ())) != 1]
    found += [f"{id} was removed and ended as {ends.get(id)}" for id in _removed(folder) if ends.get(id) != ["removed"]]
    return found + [f"{id} ended as {end} without being acknowledged" for id, end in ends.items() if id not in promised]


def _removed(folder: Path) -> set[str]:
    return set(lines(folder / "removed.log"))


def _problems_of_approvals(folder: Path, database: sqlite3.Connection, counts: Counter[str]) -> list[str]:
    """Each is closed and decided; of two presses one won, and what its presser was told is what is stored."""
    stored = {id: (by, open) for id, by, open in database.execute("SELECT request_id, decided_by, open FROM approvals")}
    told = {tuple(line.split()) for line in lines(folder / "decided.log")}
    winners = Counter(request_id for request_id, _ in told)
    counts["approvals"], counts["decisions told"] = len(stored), len(told)
    found = [f"{id} is still open" for id, (_, open) in stored.items() if open]
    found += [f"{id} was decided {count} times" for id, count in winners.items() if count != 1]
    return found + [f"{id}: {by} was told otherwise" for id, by in told if stored.get(id, ("", 0))[0] != by]


def _problems_of_effects(folder: Path, database: sqlite3.Connection, counts: Counter[str]) -> list[str]:
    """No call ran twice, unless under one key where that is safe; every effect belongs to a stored call.

    A call that completed had its effect, a denied one had none.
    """
    effects = [tuple(line.split()) for line in lines(folder / "effects.log")]
    runs = Counter(of for _, _, of in effects)
    keys_of: dict[str, set[str]] = {}
    for _, key, of in effects:
        keys_of.setdefault(of, set()).add(key)
    names = {of: name for name, _, of in effects}
    stored = {key: outcome for key, outcome in database.execute("SELECT idempotency_key, outcome FROM tool_calls")}
    seen = {key for _, key, _ in effects}
    counts["effects"] = len(effects)
    counts.update(f"calls {outcome}" for outcome in stored.values())
    found = [f"{of} ran {count} times" for of, count in runs.items() if count > 1 and names[of] != "keyed"]
    found += [f"{of} ran under the keys {keys}" for of, keys in keys_of.items() if len(keys) > 1]
    found += [f"the effect {key} belongs to no call" for key in seen - set(stored)]
    completed, denied = ({key for key, end in stored.items() if end == which} for which in ("completed", "denied"))
    found += [f"{key} has a result and no effect" for key in completed - seen]
    return found + [f"{key} was denied and ran" for key in denied & seen]


def _problems_of_the_file(database: sqlite3.Connection) -> list[str]:
    """Sound, and with nothing that waits or is open."""
    found = [] if database.execute("PRAGMA integrity_check").fetchall() == [("ok",)] else ["the database is damaged"]
    found += ["a reference leads nowhere"] if database.execute("PRAGMA foreign_key_check").fetchall() else []
    for what in ("pending_messages", "tool_calls WHERE open = 1", "sessions WHERE active_turn_id IS NOT NULL"):
        (left,) = database.execute(f"SELECT count(*) FROM {what}").fetchone()
        found += [f"{left} rows left in {what}"] if left else []
    return found


def run_life(job: Mapping[str, Any], acknowledgements: int) -> dict[str, Any]:
    """What the fork server's child does: one life, or the last look. A byte on `acknowledgements` for each."""
    folder, seed, limit = Path(job["folder"]), job["seed"], job["limit"]
    if job["life"] == "again":
        problems, counts = asyncio.run(asyncio.wait_for(again(folder, seed=seed, limit=limit), 600))
        return {"problems": problems, "counts": counts}
    life = live(
        folder,
        seed=seed,
        limit=limit,
        acknowledge=lambda: _tell(acknowledgements),
        to_the_end=job["life"] == "drain",
    )
    asyncio.run(asyncio.wait_for(life, 600))
    return {"problems": []}


def _tell(acknowledgements: int) -> None:
    os.write(acknowledgements, b".")
