"""A gateway's intake for tests: the real store, door and router, and in-memory stand-ins for what is beyond them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pytest

from adapters.contract import (
    Acknowledgement,
    Capabilities,
    Inbound,
    InboundKind,
    MessageRef,
    Notice,
    Place,
    Private,
    Reaction,
    Sender,
    SenderKind,
    Text,
    View,
    decode_view,
)
from gateway.access import Access, Policy
from gateway.claim import Claim
from gateway.config import Binding
from gateway.config.model import AgentSection, WorkspaceSection
from gateway.handling import Desk
from gateway.intake import Intake
from gateway.ledger import surfaces
from gateway.ledger.surfaces import Letter, NewSurface, payload
from gateway.pace import Pace
from gateway.places import Places
from gateway.receiving import Receiving
from gateway.router import Router
from runtime import loop_moves
from runtime.errors import AgentStopped
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol import ops
from runtime.protocol.approvals import (
    Abort,
    Action,
    ApprovalResult,
    Approve,
    ApproveForSession,
    ApproveWith,
    Deny,
    Grant,
    InterruptResult,
    PendingApproval,
    Resolution,
)
from runtime.protocol.checkpoint import ActiveExecution, Checkpoint, Receipt
from runtime.protocol.context import ToolCall, UserMessage
from runtime.protocol.loops import LoopState, LoopStatus
from runtime.protocol.session import Boundary, Delivery, QueuedMessage
from runtime.store import SqliteStore
from runtime.testing import FakeClock

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = {"gateway": ROOT / "gateway" / "migrations"}

ANN, BOB, EVE = "42", "43", "66"
OWNER = "telegram:42"

ANN_PRIVATE = Place(platform="telegram", account="bot", chat="42")
GROUP = Place(platform="telegram", account="bot", chat="-100")


def person(id: str = ANN, name: str = "Ann", **fields: Any) -> Sender:
    """A sender that the platform vouches for."""
    return Sender(**{"kind": SenderKind.PERSON, "id": id, "name": name, **fields})


def words(
    text: str = "", place: Place = ANN_PRIVATE, sender: Sender | None = None, *, key: str = "k", **fields: Any
) -> Inbound:
    """Words of Ann, said to us in private, unless the fields say otherwise."""
    ref = MessageRef(
        platform=place.platform, account=place.account, chat=place.chat, thread=place.thread, id=f"m-{key}"
    )
    made: dict[str, Any] = {
        "kind": InboundKind.MESSAGE,
        "keys": (key,),
        "place": place,
        "sender": sender or person(),
        "chat_kind": "group" if place.chat.startswith("-") else "private",
        "text": text,
        "ref": ref,
    }
    return Inbound(**{**made, **fields})


class Numbers:
    """Ids that tests can foresee."""

    def __init__(self) -> None:
        self.last = 0

    def bytes(self, count: int) -> bytes:
        """As random as a counter."""
        self.last += 1
        return self.last.to_bytes(count, "big")

    def id(self) -> str:
        """`s-1`, `s-2`, …"""
        self.last += 1
        return f"s-{self.last}"


# ------------------------------------------------------------------------------------------------------- sessions


@dataclass(slots=True, eq=False)
class FakeSession:
    """A session in memory: it starts turns and never ends them by itself."""

    id: str
    turn: ActiveExecution | None = None
    queue: list[QueuedMessage] = field(default_factory=list)
    context: list[UserMessage] = field(default_factory=list)
    approval: PendingApproval | None = None
    closed: dict[str, PendingApproval] = field(default_factory=dict)
    route: str = "demo"
    retiring: bool = False
    turns: int = 0
    loop: LoopState | None = None


class FakeSessions:
    """Sessions in memory, with receipts, a queue, one approval each, and failures on demand."""

    def __init__(self, clock: FakeClock, queue_limit: int = 20) -> None:
        self.clock = clock
        self.queue_limit = queue_limit
        self.sessions: dict[str, FakeSession] = {}
        self.receipts: dict[str, Receipt] = {}
        self.submitted: list[tuple[str, ops.Op, str | None]] = []
        self.executed: list[tuple[str, Resolution]] = []
        self.failures: list[Exception] = []
        self.hold: asyncio.Event | None = None
        self.waiting = 0
        self.stored_grants: dict[str, list[Grant]] = {}

    # -- as the gateway sees them

    async def submit(self, session_id: str, op: ops.Op, submission_id: str | None = None) -> Receipt:
        """Do it at once, unless a failure was asked for."""
        if self.hold is not None:
            self.waiting += 1
            await self.hold.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.submitted.append((session_id, op, submission_id))
        assert submission_id is not None
        known = self.receipts.get(submission_id)
        if known is not None:
            return replace(known, status="duplicate")
        receipt = self._do(self.session(session_id), op, submission_id)
        if receipt.status == "accepted":
            self.receipts[submission_id] = receipt
        return receipt

    async def peek(self, session_id: str) -> Checkpoint | None:
        """The state, if there is such a session."""
        found = self.sessions.get(session_id)
        if found is None:
            return None
        return Checkpoint(
            session_id=session_id,
            model_route=found.route,
            context=tuple(found.context),  # type: ignore[arg-type]
            pending_messages=tuple(found.queue),
            active_execution=found.turn,
            pending_approval=found.approval,
            retiring=found.retiring,
            loop_state=None if found.loop is None else loop_moves.as_json(found.loop),
        )

    async def grants(self, session_id: str) -> tuple[Grant, ...]:
        """Those that a test put there."""
        return tuple(self.stored_grants.get(session_id, ()))

    # -- for tests

    def session(self, session_id: str) -> FakeSession:
        """The session, made on demand."""
        return self.sessions.setdefault(session_id, FakeSession(id=session_id))

    def ask(self, session_id: str, request_id: str, **fields: Any) -> PendingApproval:
        """Let the running turn ask for approval."""
        session = self.session(session_id)
        if session.turn is None:
            self._start(session, "asked")
        assert session.turn is not None
        requester = fields.pop("requester", None)
        call = ToolCall(call_id="c1", name="write_file", arguments={"path": request_id})
        action = Action(tool="write_file", schema_hash="h", arguments=call.arguments, requester=requester)
        session.approval = PendingApproval(
            request_id=request_id,
            turn_id=session.turn.turn_id,
            submission_id="asked",
            calls=(call,),
            gated=("c1",),
            actions={"c1": action},
            digests={"c1": action.digest()},
            **fields,
        )
        return session.approval

    def finish(self, session_id: str) -> None:
        """End the running turn."""
        self.session(session_id).turn = None

    def messages(self) -> list[ops.Message]:
        """What was submitted as words, each once."""
        seen: dict[str | None, ops.Message] = {}
        for _, op, submission in self.submitted:
            if isinstance(op, ops.Message):
                seen.setdefault(submission, op)
        return list(seen.values())

    def texts(self) -> list[str]:
        """Their texts."""
        return [message.text for message in self.messages()]

    # -- what ops do

    def _do(self, session: FakeSession, op: ops.Op, submission_id: str) -> Receipt:
        match op:
            case ops.Message():
                return self._message(session, op, submission_id)
            case ops.Interrupt():
                return self._interrupt(session, op, submission_id)
            case ops.ResolveApproval():
                return self._resolve(session, op, submission_id)
            case ops.EditQueued() | ops.RemoveQueued() | ops.PromoteQueued():
                return self._queued(session, op, submission_id)
            case ops.SetModel():
                session.route = op.route
            case ops.Retire():
                session.retiring, session.turn, session.approval, session.queue = True, None, None, []
            case ops.StartLoop() | ops.StopLoop() | ops.ContinueLoop():
                return self._loop(session, op, submission_id)
            case _:
                pass
        return Receipt(submission_id=submission_id, status="accepted")

    def _start(self, session: FakeSession, submission_id: str) -> None:
        session.turns += 1
        session.turn = ActiveExecution(
            submission_id=submission_id,
            turn_id=f"{session.id}.t{session.turns}",
            started_at_ms=self.clock.now_ms(),
        )

    def _message(self, session: FakeSession, op: ops.Message, submission_id: str) -> Receipt:
        if session.retiring:
            return Receipt(submission_id=submission_id, status="rejected", reason="this session has ended")
        if session.turn is None:
            self._start(session, submission_id)
            session.context.append(UserMessage(id=submission_id, author=op.author, text=op.text))
            return Receipt(submission_id=submission_id, status="accepted", disposition="turn", position=1)
        if len(session.queue) >= self.queue_limit:
            reason = f"the queue is full ({self.queue_limit})"
            return Receipt(submission_id=submission_id, status="rejected", reason=reason)
        wish = op.delivery or (Delivery.QUEUE if session.approval else Delivery.STEER)
        boundary = Boundary.queue() if wish is Delivery.QUEUE else Boundary.steer(session.turn.turn_id)
        session.queue.append(QueuedMessage(id=submission_id, boundary=boundary, author=op.author, text=op.text))
        disposition = "queue" if wish is Delivery.QUEUE else "steer"
        return Receipt(
            submission_id=submission_id,
            status="accepted",
            disposition=disposition,
            position=len(session.queue),
        )

    def _loop(
        self, session: FakeSession, op: ops.StartLoop | ops.StopLoop | ops.ContinueLoop, submission_id: str
    ) -> Receipt:
        """Loops here never end by themselves."""
        loop = session.loop
        match op:
            case ops.StartLoop() if loop is None or loop.ended:
                session.loop = loop_moves.admitted(op, submission_id, "me", loop, self.clock.now_ms())
            case ops.StopLoop() if loop is not None and loop.loop_id == op.loop_id:
                session.loop = loop_moves.cancelled(loop, op.by) if op.now else loop_moves.stop_requested(loop, op.by)
            case ops.ContinueLoop() if loop is not None and loop.status is LoopStatus.RECOVERY_UNSUPPORTED:
                session.loop = loop_moves.continued(loop, "me", self.clock.now_ms())
            case _:
                return Receipt(submission_id=submission_id, status="rejected", reason="a loop runs already")
        return Receipt(submission_id=submission_id, status="accepted")

    def _interrupt(self, session: FakeSession, op: ops.Interrupt, submission_id: str) -> Receipt:
        if session.turn is None or session.turn.turn_id != op.turn_id:
            result = InterruptResult(status="not_running")
            return Receipt(submission_id=submission_id, status="rejected", reason="not running", result=result)
        session.turn = session.approval = None
        return Receipt(submission_id=submission_id, status="accepted", result=InterruptResult(status="stopping"))

    def _resolve(self, session: FakeSession, op: ops.ResolveApproval, submission_id: str) -> Receipt:
        pending = session.approval
        if pending is None or pending.request_id != op.request_id:
            decided = session.closed.get(op.request_id)
            result = ApprovalResult(status="unknown")
            if decided is not None:
                result = ApprovalResult(
                    status="already",
                    decision=decided.decision,
                    decided_by=decided.decided_by,
                    decided_at_ms=decided.decided_at_ms,
                )
            return Receipt(submission_id=submission_id, status="rejected", reason="no", result=result)
        now = self.clock.now_ms()
        if pending.expires_at_ms is not None and now >= pending.expires_at_ms:
            return Receipt(
                submission_id=submission_id, status="rejected", reason="no", result=ApprovalResult(status="expired")
            )
        resolution = {
            Approve: Resolution.APPROVED,
            ApproveForSession: Resolution.APPROVED_FOR_SESSION,
            ApproveWith: Resolution.EDITED,
            Deny: Resolution.DENIED,
            Abort: Resolution.ABORTED,
        }[type(op.decision)]
        session.closed[op.request_id] = replace(
            pending, decision=resolution, decided_by=op.decided_by, decided_at_ms=now
        )
        session.approval = None
        self.executed.append((op.request_id, resolution))
        result = ApprovalResult(status="resolved", decision=resolution, decided_by=op.decided_by, decided_at_ms=now)
        return Receipt(submission_id=submission_id, status="accepted", result=result)

    def _queued(
        self, session: FakeSession, op: ops.EditQueued | ops.RemoveQueued | ops.PromoteQueued, submission_id: str
    ) -> Receipt:
        index = next((i for i, message in enumerate(session.queue) if message.id == op.message_id), None)
        if index is None:
            return Receipt(submission_id=submission_id, status="rejected", reason="it does not wait any more")
        if isinstance(op, ops.EditQueued):
            session.queue[index] = replace(session.queue[index], text=op.text)
        elif isinstance(op, ops.RemoveQueued):
            del session.queue[index]
        elif session.turn is not None:
            session.queue[index] = replace(session.queue[index], boundary=Boundary.steer(session.turn.turn_id))
        return Receipt(submission_id=submission_id, status="accepted")


# ------------------------------------------------------------------------------------------------------- platforms


class FakeAdapter:
    """Notes what is acknowledged. Nothing else of it is called by intake."""

    def __init__(self, capabilities: Capabilities | None = None) -> None:
        self.capabilities = capabilities or Capabilities(reactions=True, forms=True, ephemeral="any")
        self.acknowledged: list[tuple[Inbound, Acknowledgement]] = []
        self.hold: asyncio.Event | None = None

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Note it."""
        if self.hold is not None:
            await self.hold.wait()
        self.acknowledged.append((press, answer))

    def answers(self) -> list[Acknowledgement]:
        """Every acknowledgement, in order."""
        return [answer for _, answer in self.acknowledged]

    def words(self) -> list[str | None]:
        """The texts of the acknowledgements; None for those without content."""
        return [answer.text if isinstance(answer, Text) else None for answer in self.answers()]


class FakePlatforms:
    """One adapter for everything."""

    def __init__(self, adapter: FakeAdapter) -> None:
        self.one: FakeAdapter | None = adapter

    def adapter(self, platform: str, account: str) -> Any:
        """The one there is."""
        return self.one


class FakeOutbox:
    """Notes which chats were woken."""

    def __init__(self) -> None:
        self.woken: list[Place] = []

    def wake(self, place: Place, *, repairs: bool = False) -> None:
        """Note it."""
        self.woken.append(place)


# ------------------------------------------------------------------------------------------------------- the stage


def binding(workspace: WorkspaceSection, **fields: Any) -> Binding:
    """What the configuration says of every place, unless a test says otherwise."""
    return Binding(
        **{
            "workspace": workspace,
            "agent": AgentSection(name="default"),
            "models": ("demo",),
            "approval_default": "ask",
            "approval_tools": {},
            "approval_timeout_seconds": None,
            "four_eyes": False,
            "scope": "shared",
            "listen": "mention",
            "network": "none",
            "usd_per_session": 0.0,
            "usd_per_day": 0.0,
            **fields,
        }
    )


class Stage:
    """Door, table and router over a real database; `sessions` may be the real runtime."""

    def __init__(self, store: SqliteStore, clock: FakeClock, policy: Policy, faults: Faults = NO_FAULTS) -> None:
        self.store = store
        self.database = store.database
        self.clock = clock
        self.numbers = Numbers()
        self.access = Access(policy)
        self.workspaces = (
            WorkspaceSection(id="notes", label="Notes", path=Path("/srv/notes")),
            WorkspaceSection(id="site", label="Site", path=Path("/srv/site")),
        )
        self.fields: dict[str, Any] = {}
        self.fields_at: dict[str, dict[str, Any]] = {}
        self.strict = False
        self.messages_per_minute = 1_000_000
        self.receiving: Receiving | None = None
        self.sessions: Any = FakeSessions(clock)
        self.adapter = FakeAdapter()
        self.platforms = FakePlatforms(self.adapter)
        self.outbox = FakeOutbox()
        self.faults = faults
        self.claim: Claim | None = None
        self._keys = 0
        self._task: asyncio.Task[None] | None = None
        self.places = Places(self.database, self._binding, lambda: self.workspaces, new_id=self.numbers.id, clock=clock)
        self.build()

    def _binding(self, place: Place) -> Binding:
        return binding(self.workspaces[0], **{**self.fields, **self.fields_at.get(place.chat, {})})

    def build(self) -> None:
        """Make door and router anew, as a restart does."""
        self.desk = Desk(
            access=self.access,
            database=self.database,
            places=self.places,
            sessions=self.sessions,
            grants=self.sessions,
            platforms=self.platforms,
            clock=self.clock,
            random_bytes=self.numbers.bytes,
            routes=lambda: ("demo", "big"),
            strict_commands=lambda: self.strict,
            receiving=self.receiving,
            pace=Pace(lambda: self.messages_per_minute),
            faults=self.faults,
        )
        self.router = Router(self.desk, self.outbox)
        self.intake = Intake(
            self.access,
            self.database,
            self.outbox,
            clock=self.clock,
            news=self.router.wake,
            turn_away=self.router.turn_away,
            claim=self.claim,
            faults=self.faults,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Let the router run."""
        self._task = asyncio.create_task(self.router.run())

    async def stop(self) -> None:
        """Stop it where it stands."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def crashed(self) -> None:
        """Wait until the router has crashed at the point that a test set."""
        assert self._task is not None
        with pytest.raises(BaseExceptionGroup) as group:
            await asyncio.wait_for(self._task, 20)
        assert group.group_contains(Crash)
        self._task = None

    async def restart(self) -> None:
        """Everything in memory is gone."""
        await self.stop()
        self.build()
        await self.start()

    # -- what arrives

    def key(self) -> str:
        """A key that was never used."""
        self._keys += 1
        return f"u{self._keys}"

    def message(self, text: str, place: Place = ANN_PRIVATE, sender: Sender | None = None, **fields: Any) -> Inbound:
        """Words, not yet sent."""
        made = {"key": self.key(), "sent_at_ms": self.clock.now_ms(), **fields}
        return words(text, place, sender, **made)

    async def say(self, text: str, place: Place = ANN_PRIVATE, sender: Sender | None = None, **fields: Any) -> Inbound:
        """Words arrive, and are handled."""
        inbound = self.message(text, place, sender, **fields)
        await self.intake(inbound)
        await self.settled()
        return inbound

    def press_on(
        self, surface: NewSurface, letter: Letter, place: Place, message_id: str | None, sender: Sender, **fields: Any
    ) -> Inbound:
        """A press, not yet made."""
        ref = None
        if message_id is not None:
            ref = MessageRef(
                platform=place.platform, account=place.account, chat=place.chat, thread=place.thread, id=message_id
            )
        made: dict[str, Any] = {
            "kind": InboundKind.PRESS,
            "keys": (self.key(),),
            "place": place,
            "sender": sender,
            "chat_kind": "group" if place.chat.startswith("-") else "private",
            "ref": ref,
            "token": payload(surface.token, letter),
            "handle": "h",
            "sent_at_ms": self.clock.now_ms(),
        }
        return Inbound(**{**made, **fields})

    async def press(
        self,
        surface: NewSurface,
        letter: Letter,
        place: Place = ANN_PRIVATE,
        message_id: str | None = "card",
        sender: Sender | None = None,
        **fields: Any,
    ) -> Acknowledgement:
        """A press is made and handled; its acknowledgement."""
        before = len(self.adapter.acknowledged)
        await self.intake(self.press_on(surface, letter, place, message_id, sender or person(), **fields))
        await self.until(lambda: len(self.adapter.acknowledged) > before)
        await self.settled()
        return self.adapter.acknowledged[-1][1]

    async def card(self, place: Place = ANN_PRIVATE, message_id: str | None = "card", **fields: Any) -> NewSurface:
        """A message of ours with controls, as delivery would have sent it."""
        token = surfaces.mint(self.numbers.bytes)
        new = NewSurface(**{"token": token, "kind": "approval", "choices": "ysnd", **fields})
        now = self.clock.now_ms()
        await self.database.write([surfaces.insert(new, place, (f"test:{token}", "card", 0), now)])
        row = await surfaces.by_token(self.database, token)
        assert row is not None
        unit = [surfaces.going_out(row.id, now)]
        if message_id is not None:
            unit.append(surfaces.arrived(row.id, message_id, None, now))
        await self.database.write(unit)
        return new

    # -- what came of it

    async def until(self, holds: Any, timeout: float = 20.0) -> None:
        """Return once it holds."""
        async with asyncio.timeout(timeout):
            while not holds():
                await asyncio.sleep(0)

    async def settled(self, timeout: float = 20.0) -> None:
        """Return once every row that is stored is done."""
        async with asyncio.timeout(timeout):
            while await self.rows("SELECT 1 FROM inbound WHERE state <> 'done' LIMIT 1") or self.router.held:
                self._must_run()
                await asyncio.sleep(0)

    def _must_run(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        return await self.database.read(sql, params)

    async def outcomes(self) -> list[str | None]:
        """The outcome of every row, in order of arrival."""
        return [row[0] for row in await self.rows("SELECT outcome FROM inbound ORDER BY id")]

    async def planned(self) -> list[tuple[Place, View]]:
        """Everything that was planned, with where it goes."""
        found = await self.rows("SELECT platform, account, chat, thread, view FROM deliveries ORDER BY id")
        return [
            (Place(platform=row[0], account=row[1], chat=row[2], thread=row[3]), decode_view(row[4])) for row in found
        ]

    async def views(self) -> list[View]:
        """Everything that was planned."""
        return [view for _, view in await self.planned()]

    async def told(self) -> list[str]:
        """Words of ours that were planned."""
        return [view.text for view in await self.views() if isinstance(view, Notice | Private)]

    async def marks(self) -> list[str]:
        """Marks on messages that were planned."""
        return [view.mark for view in await self.views() if isinstance(view, Reaction)]

    async def audit(self, kind: str | None = None) -> list[tuple[Any, ...]]:
        """(kind, principal, detail) of the audit rows."""
        found = await self.rows("SELECT kind, principal, detail FROM audit ORDER BY id")
        return [row for row in found if kind is None or row[0] == kind]

    async def bound(self) -> dict[tuple[str, str, str], str]:
        """Session by (chat, thread, person)."""
        found = await self.rows("SELECT chat, thread, person, session_id FROM places ORDER BY id")
        return {(row[0], row[1], row[2]): row[3] for row in found}

    async def session_of(self, place: Place = ANN_PRIVATE) -> str:
        """The session that a place has."""
        return (await self.bound())[(place.chat, place.thread or "", place.person or "")]


@contextlib.asynccontextmanager
async def stage(folder: Path, policy: Policy | None = None, **fields: Any):  # type: ignore[no-untyped-def]
    """A stage with a running router; by default Ann is the owner and Bob a user."""
    clock = FakeClock()
    store = await SqliteStore.open(folder / "gateway.db", clock=clock, components=COMPONENTS)
    made = Stage(store, clock, policy or Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{BOB}"})))
    for name, value in fields.items():
        setattr(made, name, value)
    if fields:
        made.build()
    try:
        async with made:
            yield made
    finally:
        await store.aclose()


class Crash(BaseException):
    """The process is gone."""


class CrashAt:
    """Faults that end the process at one passing of one point."""

    def __init__(self, point: str = "", nth: int = 1) -> None:
        self.point, self.nth = point, nth
        self.passed: dict[str, int] = {}

    def reach(self, point: str) -> None:
        """Count it; crash there."""
        self.passed[point] = self.passed.get(point, 0) + 1
        if point == self.point and self.passed[point] == self.nth:
            raise Crash(point)


STOPPED = AgentStopped("the disk is full")
