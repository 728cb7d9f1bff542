"""One durable session: its loop, the only writer of its state.

The loop repeats: take in what was asked (ops), take in what has ended (effects), decide the next move, make it one
transaction, and only then let it have effects. Whatever stops it, the disk holds the last transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from runtime import loop_moves, transitions
from runtime.config import AgentConfig
from runtime.errors import (
    AgentStopped,
    CheckpointError,
    CommitUnknown,
    ConfigurationError,
    ContextTooLong,
    ModelError,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    NoModelRoute,
    StaleCheckpoint,
    ToolError,
)
from runtime.middleware import AddContext, Allow, Continue, Deny, HookContext, Reject, Rewrite, Stop
from runtime.models.base import Delta, Model, ModelReply, ModelRequest
from runtime.protocol import approvals, events, ops
from runtime.protocol.approvals import (
    ApprovalResult,
    Grant,
    InterruptResult,
    PendingApproval,
    Resolution,
)
from runtime.protocol.checkpoint import Checkpoint, ExecutionPhase, Receipt
from runtime.protocol.context import AssistantMessage, AssistantPart, TextPart, ToolCall, ToolResult, Usage
from runtime.protocol.events import Event, EventMsg
from runtime.protocol.loops import LoopState
from runtime.protocol.session import Boundary, QueuedMessage
from runtime.session import admission, boundary, looping, recovery
from runtime.session.admission import AdmissionRules
from runtime.session.boundary import InFlight, Rules, next_move
from runtime.session.compaction import HEADING, LEFT_OUT, Gauge, cut_point, summary_of, summary_request
from runtime.session.complaints import describe
from runtime.session.feed import Feed, Reader
from runtime.session.gate import GRACE_SECONDS, Ask, Gate, Refuse, Run, Ticket
from runtime.session.hooks import Hooks
from runtime.session.looping import LoopControl, LoopRun, LoopRuns
from runtime.store.base import DuplicateReceipt, Lease
from runtime.tools.base import ToolContext
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")

CommitListener = Callable[[str, Sequence[Event]], None]
"""(session id, events that are stored now)"""
LiveListener = Callable[[str, Event], None]
"""(session id, an event that is not stored)"""

RETRY_FIRST_SECONDS = 0.2
RETRY_CAP_SECONDS = 3.2
STOPPED = "stopped"
REJECTED_BY_HOOK = "rejected by policy"
APPROVAL_EXPIRED = "approval expired"


class LostOnTheWay(AgentStopped):
    """The agent failed while it had the op. Nothing of the op is stored."""


@dataclass(slots=True, eq=False)
class _Asked:
    """An op on its way to the loop. The receipt is given once what it did is stored."""

    op: ops.Op
    submission_id: str
    fresh: bool
    receipt: asyncio.Future[Receipt]


@dataclass(slots=True, eq=False)
class _ModelCall:
    """A model call in flight."""

    task: asyncio.Task[ModelReply]
    text: list[str] = field(default_factory=list[str])


@dataclass(slots=True, eq=False)
class _ToolRun:
    """A tool in flight."""

    task: asyncio.Task[ToolResult]
    context: ToolContext
    name: str


@dataclass(slots=True, eq=False)
class _Compaction:
    """A summary in the making; `asked` is whose receipt waits for it."""

    task: asyncio.Task[tuple[str, Usage]]
    keep_from: int
    asked: _Asked | None = None


async def create_agent(
    config: AgentConfig, *, on_commit: CommitListener | None = None, on_live: LiveListener | None = None
) -> Agent:
    """Open a session: load or create it, recover it in one transaction, and let it run.

    On return the session is owned by this process and what a crash had left is repaired. If any step fails there is no
    agent, and what had been started is undone in reverse order.
    """
    session_id = config.session_id or config.new_id()
    lease = await config.store.claim(session_id)
    try:
        agent = await _open(config, session_id, lease)
        agent.listen(on_commit, on_live)
        try:
            await agent._start()  # pyright: ignore[reportPrivateUsage]
        except BaseException:
            await agent.aclose()
            raise
    except BaseException:
        await asyncio.shield(config.store.release(lease))
        raise
    return agent


async def _open(config: AgentConfig, session_id: str, lease: Lease) -> Agent:
    found = await config.store.load(session_id)
    if found is None:
        opened = Checkpoint(
            session_id=session_id,
            session_context=config.session_context,
            metadata=dict(config.metadata or {}),
            model_route=config.default_route,
        )
        return Agent(config, opened, lease, is_new=True)
    if found.session_id != session_id:
        raise CheckpointError(f"the store gave session {found.session_id!r} for {session_id!r}")
    route = config.default_route if config.override_saved_model_route else found.model_route
    if route is None:
        raise NoModelRoute
    config.models.get(route)
    return Agent(config, found, lease, is_new=False)


class Agent:
    """A running session. Make one with `create_agent`."""

    def __init__(self, config: AgentConfig, found: Checkpoint, lease: Lease, *, is_new: bool) -> None:
        self._config = config
        self._store = config.store
        self._clock = config.clock
        self._lease = lease
        self._on_commit: CommitListener | None = None
        self._on_live: LiveListener | None = None
        self._is_new = is_new
        self._checkpoint = found
        self._hooks = Hooks(config.middleware)
        self._gate = Gate(
            config.tools,
            config.approval_policy,
            clock=config.clock,
            redact=config.redact,
            output_limit=config.tool_output_limit,
            new_reference=self._reference,
        )
        self._admission = AdmissionRules(queue_limit=config.queue_limit, default_delivery=config.default_delivery)
        self._rules = Rules(skip_tools_on_steer=config.skip_tools_on_steer, parallel=self._gate.parallel)
        self._grants: tuple[Grant, ...] = ()
        self._mailbox: deque[_Asked] = deque()
        self._taking: list[_Asked] = []
        self._wake = asyncio.Event()
        self._at_rest = asyncio.Event()
        self._asking = asyncio.Event()
        self._closing = False
        self._loop: asyncio.Task[None] | None = None
        self._model: _ModelCall | None = None
        self._tools: dict[str, _ToolRun] = {}
        self._tickets: dict[str, Ticket] = {}
        self._left: dict[str, str] = {}
        self._authorised = False
        self._attempt = 0
        self._not_before_ms: int | None = None
        self._gauge = Gauge()
        self._compaction: _Compaction | None = None
        self._too_long = False
        self._tried_to_fit = False
        self._long_enough = False
        self._loops = LoopRuns()
        self._kept_despite: Exception | None = None
        self._progress_ms = config.clock.now_ms()
        self._ended = asyncio.Event()
        self._feed = Feed(lambda after, limit: self._store.event_page(self.session_id, after=after, limit=limit))
        self._reader: Reader | None = None
        self._last_event = 0
        self.failure: Exception | None = None

    # -------------------------------------------------------------------------------------------- for its users

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._checkpoint.session_id

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest state that is on disk; only a loop whose end was not admitted has failed here first."""
        return self._checkpoint

    @property
    def ended(self) -> bool:
        """Whether the agent takes nothing in any more."""
        return self._closing or self._ended.is_set()

    @property
    def resting(self) -> bool:
        """No turn runs, nothing waits, nothing was asked: closing it now loses nothing and stops nothing."""
        return self._at_rest.is_set() and not self._mailbox

    def listen(self, on_commit: CommitListener | None, on_live: LiveListener | None) -> None:
        """Call these, without waiting, for what is stored and for what is only live."""
        self._on_commit, self._on_live = on_commit, on_live

    async def wait_ended(self) -> None:
        """Return once the agent has ended."""
        await self._ended.wait()

    async def submit(self, op: ops.Op, submission_id: str | None = None) -> Receipt:
        """Ask something of the session; on return what the receipt says is durable.

        The id is the caller's name for the submission: asking again under it is harmless and answers `duplicate`.
        An agent that fails while it has the op rejects it: nothing of it is stored, and its id may be used again.
        AgentStopped: the agent has ended and nothing was acknowledged. Cancelling the call does not take the op back.
        """
        submission_id = submission_id or self._config.new_id()
        try:
            return await self.offer(op, submission_id)
        except LostOnTheWay as lost:
            return Receipt(submission_id=submission_id, status="rejected", reason=lost.reason)

    async def offer(self, op: ops.Op, submission_id: str | None = None) -> Receipt:
        """As `submit`, but AgentStopped also where the agent fails while it has the op: ask its successor again."""
        if self.ended:
            raise AgentStopped(self._why_ended())
        asked = _Asked(
            op,
            submission_id or self._config.new_id(),
            submission_id is None,
            asyncio.get_running_loop().create_future(),
        )
        self._mailbox.append(asked)
        self._at_rest.clear()
        self._wake.set()
        return await asyncio.shield(asked.receipt)

    async def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event, or None once the agent has ended. TimeoutError after `timeout` real seconds."""
        assert self._reader is not None
        async with asyncio.timeout(timeout):
            return await self._reader.next()

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The journal from beyond `after`, then live, until the agent ends."""
        reader = self._feed.reader(after, behind=after < self._last_event)
        try:
            while (event := await reader.next()) is not None:
                yield event
        finally:
            self._feed.drop(reader)

    def watch_loop(self, control: LoopControl) -> tuple[str, asyncio.Future[LoopState]]:
        """The submission id under which a loop is to be started that `control` stops; see `runtime.loops.run_loop`.

        The future has the loop's last state once everything of it is stored, or LoopError if it failed or the agent
        ended before it.
        """
        loop_id = self._config.new_id()
        ended: asyncio.Future[LoopState] = asyncio.get_running_loop().create_future()
        self._loops.waiting[loop_id] = LoopRun(control, ended)
        return loop_id, ended

    def forget_loop(self, loop_id: str) -> None:
        """Nobody waits for that loop any more; it goes on all the same."""
        self._loops.waiting.pop(loop_id, None)

    async def idle(self) -> None:
        """Return when no turn runs and nothing waits, or when the agent has ended."""
        waits = [asyncio.ensure_future(self._at_rest.wait()), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def settled(self) -> None:
        """Return when nothing is under way: idle, ended, or waiting for nothing but a person."""
        while not (self.ended or self.resting or self._waits_for_a_person()):
            changed = [asyncio.ensure_future(each.wait()) for each in (self._at_rest, self._asking, self._ended)]
            try:
                await asyncio.wait(changed, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in changed:
                    wait.cancel()

    def _waits_for_a_person(self) -> bool:
        return self._asking.is_set() and not self._mailbox

    async def aclose(self) -> None:
        """End in order: what runs is cancelled, what is on disk stays, the session is given back."""
        self._closing = True
        self._wake.set()
        if self._loop is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._loop)
        else:
            await self._wind_up()

    def abandon(self, reason: Exception) -> None:
        """Give the session up at once, waiting for nothing: for one whose loop or effect hangs.

        What is on disk stays. The caller opens a successor, whose claim fences whatever this agent may still try.
        """
        self.failure = reason
        self._closing = True
        for task in (*self._effects(), *([self._loop] if self._loop else [])):
            task.cancel()
        self._tell_askers(AgentStopped(self._why_ended()))
        self._loops.abandon(self._why_ended(), reason)
        self._end_streams()

    def without_progress_ms(self, now_ms: int) -> int:
        """How long the running turn has been stuck; 0 while it is not, waits for a person or for its next attempt."""
        if self._checkpoint.idle or self._asking.is_set() or self._not_before_ms is not None or self.ended:
            return 0
        # A tool with a time limit of its own is not stuck while it may still run.
        longest = max((self._gate.timeout_of(run.name) for run in self._tools.values()), default=0.0)
        return max(0, now_ms - self._progress_ms - int(longest * 1000))

    @property
    def stuck_after_ms(self) -> int:
        """How long a turn may be without progress."""
        return int(self._config.stuck_seconds * 1000)

    def _why_ended(self) -> str:
        if self.failure is None:
            return "the agent was closed"
        return describe(self.failure, "").message

    def _reference(self) -> str:
        return self._config.new_id()[:6].upper()

    # -------------------------------------------------------------------------------------------- start

    async def _start(self) -> None:
        head = await self._store.head(self.session_id)
        self._last_event = head.event_sequence if head else 0
        self._reader = self._feed.reader(self._last_event, behind=False)
        self._grants = await self._store.grants(self.session_id)
        draft = self._recovered()
        for outcome in await self._hooks.run("session_start", self._hook_context(draft)):
            if isinstance(outcome, Stop):
                raise ConfigurationError(f"the session was refused: {outcome.reason}")
        configured = events.SessionConfigured(
            session_id=self.session_id,
            context=draft.checkpoint.session_context,
            model=self._config.models.info(draft.checkpoint.model_route or self._config.default_route),
        )
        history = await self._history()
        if draft.changed or self._is_new:
            stored = Event(sequence=None, submission_id=None, recorded_at_ms=draft.now_ms, msg=configured)
            draft.events.insert(0, stored)
            await self._commit(draft, "start", history)
        else:
            self._show([configured, *([history] if history else [])])
        self._announce_again()
        self._loop = asyncio.create_task(self._run(), name=f"session {self.session_id}")

    def _recovered(self) -> Draft:
        options = recovery.RecoveryOptions(
            on_interrupted_step=self._config.on_interrupted_step, on_uncertain_tools=self._config.on_uncertain_tools
        )
        draft = recovery.recover(
            self._checkpoint, options, self._gate.replay_of, self._clock.now_ms(), self._reference(), self._execution_id
        )
        if draft.checkpoint.loop_state is not None and loop_moves.loop_of(draft.checkpoint) is None:
            log.error("session %s: its stored loop state is malformed; no loop goes on", self.session_id)
        if self._config.override_saved_model_route and draft.checkpoint.model_route != self._config.default_route:
            draft.change(model_route=self._config.default_route)
        metadata = self._config.metadata
        if metadata is not None and dict(metadata) != dict(draft.checkpoint.metadata):
            draft.change(metadata=dict(metadata))
        return draft

    async def _history(self) -> events.SessionHistory | None:
        """The stored events of the last batches: from the n-th last event with which something joined the context."""
        if self._is_new or not self._config.initial_replay_batches or not self._last_event:
            return None
        joining = (events.Message, events.AssistantMessage, events.ToolCallEnd)
        newest_first: list[Event] = []
        batches, before = 0, None
        while batches < self._config.initial_replay_batches:
            page = await self._store.event_page(self.session_id, before=before, limit=200)
            for event in page.events:
                newest_first.append(event)
                batches += isinstance(event.msg, joining)
                if batches == self._config.initial_replay_batches:
                    break
            before = page.next_before
            if before is None:
                break
        if not batches:
            return None
        return events.SessionHistory(events=tuple(reversed(newest_first)))

    def _announce_again(self) -> None:
        waiting = [
            Event(
                sequence=None,
                submission_id=message.id,
                recorded_at_ms=self._clock.now_ms(),
                msg=transitions.announce(message, position),
            )
            for position, message in enumerate(self._checkpoint.pending_messages, start=1)
        ]
        self._publish_live(waiting)
        approval, active = self._checkpoint.pending_approval, self._checkpoint.active_execution
        if approval is not None and approval.decision is None and active is not None:
            self._show([transitions.announce_approval(approval, self._summaries(approval), active)])

    def _show(self, live: Sequence[EventMsg]) -> None:
        """Publish events that are not stored."""
        active = self._checkpoint.active_execution
        now = self._clock.now_ms()
        correlated = active.submission_id if active else None
        self._publish_live(
            [Event(sequence=None, submission_id=correlated, recorded_at_ms=now, msg=msg) for msg in live]
        )

    def _publish_live(self, live: list[Event]) -> None:
        self._feed.publish(live)
        if self._on_live is not None:
            for event in live:
                self._on_live(self.session_id, event)

    # -------------------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        try:
            while not self._closing:
                await self._take_ops()
                await self._advance()
        except Exception as error:  # noqa: BLE001 - the end of the loop is reported to readers and callers
            self._fail(error)
        finally:
            await self._wind_up()

    def _fail(self, error: Exception) -> None:
        self.failure = error
        reference = self._reference()
        log.error("session %s stopped [%s]: %r", self.session_id, reference, error, exc_info=error)
        active = self._checkpoint.active_execution
        self._show([describe(error, reference, active.turn_id if active else None)])

    async def _wind_up(self) -> None:
        if self._ended.is_set():
            return
        self._closing = True
        if self._compaction is not None and self._compaction.asked is not None:
            self._mailbox.append(self._compaction.asked)
        await self._end_effects()
        # Where even the disk could not say whether the save was kept, nobody is told that it was not.
        certain = self.failure is not None and not isinstance(self.failure, CommitUnknown)
        self._tell_askers((LostOnTheWay if certain else AgentStopped)(self._why_ended()))
        with contextlib.suppress(Exception):  # the agent ends whatever a hook or the store says
            await self._hooks.run("session_end", self._hook_context(), reverse=True)
        with contextlib.suppress(Exception):
            await self._store.release(self._lease)
        self._loops.abandon(self._why_ended(), self.failure)
        self._end_streams()

    def _tell_askers(self, why: AgentStopped) -> None:
        for asked in (*self._taking, *self._mailbox):
            if not asked.receipt.done():
                asked.receipt.set_exception(why)
                asked.receipt.exception()  # a caller that has gone away is not an error of ours
        self._taking.clear()
        self._mailbox.clear()

    def _end_streams(self) -> None:
        self._ended.set()
        self._at_rest.set()
        self._feed.end()

    async def _pause(self, until_ms: int | None) -> None:
        """Wait until something arrives or ends, or until the instant."""
        if until_ms is None:
            await self._wake.wait()
        else:
            woken = asyncio.ensure_future(self._wake.wait())
            timer = asyncio.ensure_future(self._clock.sleep(max(0.0, (until_ms - self._clock.now_ms()) / 1000)))
            try:
                await asyncio.wait({woken, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
                timer.cancel()
                await asyncio.gather(woken, timer, return_exceptions=True)
        self._wake.clear()

    async def _commit(self, draft: Draft, *labels: str | events.SessionHistory | None) -> None:
        """Make the draft durable, then the state of this agent, then show it. If it is lost, nothing has changed."""
        points = [label for label in labels if isinstance(label, str)]
        history = [label for label in labels if isinstance(label, events.SessionHistory)]
        for point in points:
            self._config.faults.reach(f"agent.{point}.before")
        first_event = await self._save(draft)
        for point in points:
            self._config.faults.reach(f"agent.{point}.after")
        stored = [replace(event, sequence=first_event + index) for index, event in enumerate(draft.events)]
        if stored:
            self._last_event = first_event + len(stored) - 1
        self._feed.publish(stored[:1] if history else stored)
        if history:
            self._show(history)
            self._feed.publish(stored[1:])
        if self._on_commit is not None:
            self._on_commit(self.session_id, stored)

    async def _save(self, draft: Draft) -> int:
        self._kept_despite = None
        checkpoint = replace(draft.checkpoint, sequence=self._checkpoint.sequence + 1)
        save_id = self._config.new_id()
        saving = asyncio.ensure_future(
            self._store.save(
                checkpoint,
                draft.delta(),
                events=draft.events,
                execution=draft.execution,
                receipts=draft.receipts,
                grants=draft.grants,
                lease=self._lease,
                save_id=save_id,
            )
        )
        try:
            first_event = (await asyncio.shield(saving)).first_event
        except asyncio.CancelledError:
            await asyncio.gather(saving, return_exceptions=True)
            raise
        except StaleCheckpoint:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the disk says whether the save was kept
            first_event = await self._adopt(save_id, draft, error)
            self._kept_despite = error
        self._checkpoint = checkpoint
        self._progress_ms = self._clock.now_ms()
        if draft.grants:
            self._grants = (*self._grants, *draft.grants)
        return first_event

    async def _adopt(self, save_id: str, draft: Draft, error: Exception) -> int:
        """A save reported an error: if it was kept all the same it is ours, else it is lost and the error stands."""
        try:
            head = await self._store.head(self.session_id)
        except CheckpointError as unreadable:
            raise CommitUnknown("a save failed, and the disk cannot say whether it was kept") from unreadable
        if head is None or head.save_id != save_id:
            raise _lost(error)
        return head.event_sequence - len(draft.events) + 1

    # -------------------------------------------------------------------------------------------- ops

    async def _take_ops(self) -> None:
        """Take in what has arrived until now, stops first; what arrives meanwhile waits for the next round."""
        self._taking = sorted(self._mailbox, key=lambda asked: not isinstance(asked.op, ops.Interrupt))
        self._mailbox.clear()
        while self._taking:
            asked = self._taking[0]  # it stays there until it is done: who asked is told if the agent ends meanwhile
            receipt = await self._take_op(asked)
            if receipt is not None and not asked.receipt.done():
                asked.receipt.set_result(receipt)
            self._taking.remove(asked)

    async def _take_op(self, asked: _Asked) -> Receipt | None:
        """Do what was asked; None if its receipt is given later."""
        known = await self._known(asked)
        if known is not None:
            return replace(known, status="duplicate")
        op, submission_id = asked.op, asked.submission_id
        draft = Draft(self._checkpoint, self._clock.now_ms())
        match op:
            case ops.Message():
                receipt = admission.admit_message(draft, op, submission_id, self._admission)
            case ops.EditQueued():
                receipt = admission.admit_edit(draft, op, submission_id)
            case ops.RemoveQueued():
                receipt = admission.admit_removal(draft, op, submission_id)
            case ops.PromoteQueued():
                receipt = admission.admit_promotion(draft, op, submission_id)
            case ops.Interrupt():
                receipt = self._interrupt(draft, op, submission_id)
            case ops.ResolveApproval():
                receipt = await self._resolve(draft, op, submission_id)
            case ops.Undeliverable():
                receipt = self._undeliverable(draft, op, submission_id)
            case ops.SetModel():
                receipt = self._set_model(draft, op, submission_id)
            case ops.ResumeSession():
                return await self._request_resume(op, submission_id)
            case ops.RevokeGrant():
                receipt = self._revoke(draft, op, submission_id)
            case ops.Retire():
                receipt = self._retire(draft, op, submission_id)
            case ops.Compact():
                problem = await self._begin_compaction(asked)
                if problem is None:
                    return None
                receipt = self._warned(draft, submission_id, problem)
            case ops.StartLoop():
                receipt = looping.admit_start(draft, op, submission_id, self._execution_id)
            case ops.StopLoop():
                receipt = looping.admit_stop(draft, op, submission_id)
            case ops.ContinueLoop():
                receipt = looping.admit_continuation(draft, op, submission_id, self._execution_id)
            case _:
                assert_never(op)
        if draft.changed:
            label = "decision" if isinstance(op, ops.ResolveApproval | ops.Undeliverable) else "accept"
            try:
                await self._commit(draft, label)
            except DuplicateReceipt:  # another session took the id between our look and our save
                return Receipt(submission_id=submission_id, status="duplicate")
        if isinstance(op, ops.Message):
            self._cancel_for_input(receipt)
        return receipt

    async def _known(self, asked: _Asked) -> Receipt | None:
        """The receipt under which this submission was accepted before, also by an earlier process."""
        if asked.fresh:
            return None
        receipt = await self._store.receipt(asked.submission_id)
        if receipt is None and admission.known(self._checkpoint, asked.submission_id):
            return Receipt(submission_id=asked.submission_id, status="duplicate")
        return receipt

    def _accepted(self, draft: Draft, submission_id: str, **fields: object) -> Receipt:
        receipt = Receipt(submission_id=submission_id, status="accepted", **fields)  # type: ignore[arg-type]
        draft.receipts.append(receipt)
        return receipt

    def _warned(self, draft: Draft, submission_id: str, text: str, **fields: object) -> Receipt:
        draft.emit(events.Warning(message=text), submission_id)
        return Receipt(submission_id=submission_id, status="rejected", reason=text, **fields)  # type: ignore[arg-type]

    def _interrupt(self, draft: Draft, op: ops.Interrupt, submission_id: str) -> Receipt:
        active = draft.checkpoint.active_execution
        if active is None or active.turn_id != op.turn_id:
            result = InterruptResult(status="not_running")
            return self._warned(draft, submission_id, "that turn does not run", result=result)
        receipt = self._accepted(draft, submission_id, result=InterruptResult(status="stopping"))
        if active.interrupted_by is None:
            draft.change_active(interrupted_by=op.by or "someone")
        if not self._model and not self._tools and not self._compaction:
            transitions.abort_turn(draft, STOPPED, by=op.by)
        return receipt

    async def _resolve(self, draft: Draft, op: ops.ResolveApproval, submission_id: str) -> Receipt:
        pending = draft.checkpoint.pending_approval
        if pending is None or pending.request_id != op.request_id:
            pending = await self._store.approval(self.session_id, op.request_id)
            if pending is None or pending.decision is None:
                result = ApprovalResult(status="unknown")
                return self._warned(draft, submission_id, "there is no such request", result=result)
        if pending.decision is not None:
            return self._already(draft, pending, submission_id)
        if pending.expires_at_ms is not None and draft.now_ms >= pending.expires_at_ms:
            self._expire(draft)
            return Receipt(
                submission_id=submission_id,
                status="rejected",
                reason=APPROVAL_EXPIRED,
                result=ApprovalResult(status="expired"),
            )
        problem = await self._decide(draft, pending, op)
        if problem is not None:
            return self._warned(draft, submission_id, problem, result=ApprovalResult(status="unknown"))
        closed = draft.checkpoint.pending_approval
        resolution = closed.decision if closed is not None else _resolution_of(op.decision)
        return self._accepted(
            draft,
            submission_id,
            result=ApprovalResult(
                status="resolved", decision=resolution, decided_by=op.decided_by, decided_at_ms=draft.now_ms
            ),
        )

    def _already(self, draft: Draft, pending: PendingApproval, submission_id: str) -> Receipt:
        status = "expired" if pending.decision == Resolution.EXPIRED else "already"
        result = ApprovalResult(
            status=status,
            decision=pending.decision,
            decided_by=pending.decided_by,
            decided_at_ms=pending.decided_at_ms,
        )
        return self._warned(draft, submission_id, "the request is decided already", result=result)

    async def _decide(self, draft: Draft, pending: PendingApproval, op: ops.ResolveApproval) -> str | None:
        """Put the decision into the draft; a sentence if it cannot be taken."""
        by = op.decided_by
        match op.decision:
            case approvals.Approve():
                transitions.close_approval(draft, Resolution.APPROVED, by)
            case approvals.ApproveForSession():
                if pending.high_risk:
                    return "this request may only be approved once"
                transitions.close_approval(draft, Resolution.APPROVED_FOR_SESSION, by)
                draft.grants.extend(self._grants_for(pending, by, draft.now_ms))
            case approvals.ApproveWith():
                return await self._approve_edited(draft, pending, op.decision, by)
            case approvals.Deny():
                reason = op.decision.reason.strip()
                transitions.close_approval(draft, Resolution.DENIED, by, reason)
                text = f"denied by the user: {reason}" if reason else "denied by the user"
                transitions.refuse_gated(draft, dict.fromkeys(pending.gated, text), "denied")
            case approvals.Abort():
                transitions.close_approval(draft, Resolution.ABORTED, by)
                transitions.abort_turn(draft, "aborted with its approval", by=by)
            case _:
                assert_never(op.decision)
        return None

    async def _approve_edited(
        self, draft: Draft, pending: PendingApproval, decision: approvals.ApproveWith, by: str | None
    ) -> str | None:
        actions, digests = dict(pending.actions), dict(pending.digests)
        for call_id in (*decision.arguments, *decision.deny):
            if call_id not in pending.gated:
                return f"call {call_id!r} is not part of this request"
        calls = {call.call_id: call for call in pending.calls}
        for call_id, arguments in decision.arguments.items():
            try:
                action = await self._gate.edited(calls[call_id], arguments, self._tool_context(calls[call_id]))
            except ToolError as error:
                return f"the edited arguments do not fit: {error}"
            actions[call_id], digests[call_id] = action, action.digest()
        draft.change(pending_approval=replace(pending, actions=actions, digests=digests))
        transitions.close_approval(draft, Resolution.EDITED, by)
        denied = {call_id: f"denied by the user: {reason}" for call_id, reason in decision.deny.items()}
        transitions.refuse_gated(draft, denied, "denied")
        return None

    def _grants_for(self, pending: PendingApproval, by: str | None, now_ms: int) -> list[Grant]:
        lifetime = int(self._config.allow_for_session_seconds * 1000)
        return [
            Grant(
                id=self._config.new_id(),
                session_id=self.session_id,
                digest=pending.actions[call.call_id].grant_digest(),
                tool=call.name,
                summary=self._gate.summary(call),
                granted_by=by,
                granted_at_ms=now_ms,
                expires_at_ms=now_ms + lifetime,
            )
            for call in pending.calls
            if call.call_id in pending.gated
        ]

    def _expire(self, draft: Draft) -> None:
        pending = draft.checkpoint.pending_approval
        assert pending is not None
        transitions.close_approval(draft, Resolution.EXPIRED, None)
        transitions.refuse_gated(draft, dict.fromkeys(pending.gated, APPROVAL_EXPIRED), "expired")

    def _undeliverable(self, draft: Draft, op: ops.Undeliverable, submission_id: str) -> Receipt:
        pending = draft.checkpoint.pending_approval
        if pending is None or pending.request_id != op.request_id or pending.decision is not None:
            return self._warned(draft, submission_id, "that request is not open")
        transitions.close_approval(draft, Resolution.UNDELIVERABLE, None, op.reason)
        text = "undeliverable: the request for approval could not be shown to anybody"
        transitions.refuse_gated(draft, dict.fromkeys(pending.gated, text), "refused")
        return self._accepted(draft, submission_id)

    def _set_model(self, draft: Draft, op: ops.SetModel, submission_id: str) -> Receipt:
        if not draft.checkpoint.idle:
            return self._warned(draft, submission_id, "the model cannot be changed while a turn runs")
        if op.route not in self._config.models.names:
            return self._warned(draft, submission_id, f"there is no model route {op.route!r}")
        info = self._config.models.info(op.route)
        draft.change(model_route=op.route)
        receipt = self._accepted(draft, submission_id)
        draft.emit(
            events.ModelChanged(route=info.route, name=info.name, context_window=info.context_window), submission_id
        )
        return receipt

    async def _request_resume(self, op: ops.ResumeSession, submission_id: str) -> Receipt:
        problem = None if self._checkpoint.idle else "another session cannot be resumed while a turn runs"
        target = await self._store.load(op.session_id) if problem is None else None
        if problem is None and target is None:
            problem = "there is no such session"
        msg: EventMsg
        if target is None:
            msg = events.Warning(message=problem or "")
        else:
            msg = events.SessionResumeRequested(session_id=target.session_id, context=target.session_context)
        now = self._clock.now_ms()
        self._publish_live([Event(sequence=None, submission_id=submission_id, recorded_at_ms=now, msg=msg)])
        if problem is not None:
            return Receipt(submission_id=submission_id, status="rejected", reason=problem)
        return Receipt(submission_id=submission_id, status="accepted")

    def _revoke(self, draft: Draft, op: ops.RevokeGrant, submission_id: str) -> Receipt:
        grant = next((each for each in self._grants if each.id == op.grant_id and each.revoked_at_ms is None), None)
        if grant is None:
            return self._warned(draft, submission_id, "there is no such grant")
        revoked = replace(grant, revoked_at_ms=draft.now_ms)
        self._grants = tuple(each for each in self._grants if each.id != grant.id)  # narrower is safe before the commit
        draft.grants.append(revoked)
        draft.emit(events.GrantRevoked(grant_id=grant.id), submission_id)
        return self._accepted(draft, submission_id)

    def _retire(self, draft: Draft, op: ops.Retire, submission_id: str) -> Receipt:
        for message in draft.checkpoint.pending_messages:
            transitions.remove_queued(draft, message.id, op.by)
        receipt = self._accepted(draft, submission_id)
        if draft.checkpoint.active_execution is not None:
            draft.change_active(interrupted_by=draft.active.interrupted_by or op.by or op.reason)
        looping.retire_loop(draft, op.by or op.reason)
        if not draft.checkpoint.retiring:
            draft.change(retiring=True)
            draft.emit(events.SessionRetired(reason=op.reason), submission_id)
        return receipt

    def _cancel_for_input(self, receipt: Receipt) -> None:
        if receipt.status != "accepted" or receipt.disposition != "steer":
            return
        for run in self._tools.values():
            if run.name in self._gate.cancelled_by_input:
                run.context.cancel.set()
                run.task.cancel()

    # -------------------------------------------------------------------------------------------- moving on

    async def _advance(self) -> None:
        """One transaction: what has ended, and every move that follows from it with nothing outside in between."""
        if self._compaction is not None and self._compaction.task.done():
            await self._finish_compaction(self._compaction)
            return
        draft = Draft(self._checkpoint, self._clock.now_ms())
        labels: list[str] = []
        self._take_model_answer(draft, labels)
        await self._take_tool_results(draft, labels)
        launch: list[Callable[[], None]] = []
        pause: tuple[int | None] | None = None
        while draft.execution is None and not launch:
            flight = InFlight(
                model=self._model is not None,
                tools=frozenset(self._tools),
                backing_off=self._backing_off(draft),
                authorised=self._authorised,
                compacting=self._compaction is not None,
                full=self._full(draft),
                stop_loop=self._loops.stops(loop_moves.loop_of(draft.checkpoint)),
                round_over=self._loops.round_over,
            )
            move = next_move(draft.checkpoint, flight, self._rules, draft.now_ms)
            if isinstance(move, boundary.Wait | boundary.Rest):
                pause = (move.until_ms,) if isinstance(move, boundary.Wait) else (None,)
                break
            if draft.changed and self._needs_outside(move, draft):
                break
            if not await self._perform(move, draft, labels, launch):
                break
        if draft.changed:
            await self._commit(draft, *labels)
            for start in launch:
                start()
            if draft.execution is not None:
                await self._hooks.run("turn_end", replace(self._hook_context(), execution=draft.execution))
            return
        for start in launch:
            start()
        if pause is not None and not self._mailbox:
            if self._checkpoint.idle and not self._checkpoint.pending_messages and self._compaction is None:
                self._at_rest.set()
            approval = self._checkpoint.pending_approval
            if approval is not None and approval.decision is None:
                self._asking.set()
            await self._pause(pause[0] if self._not_before_ms is None else self._not_before_ms)
            self._asking.clear()

    def _needs_outside(self, move: boundary.Move, draft: Draft) -> bool:
        """Whether the move asks something of others first, so that what is drafted has to be stored before."""
        match move:
            case boundary.TakeMessage() | boundary.EndInterrupted():
                return True
            case boundary.LeaveLoop() | boundary.RunRoundHooks() | boundary.MirrorLoop() | boundary.AnnounceLoopEnd():
                return True  # each is a commit of its own, or waits for hooks
            case boundary.StartIteration():
                return self._hooks.any("message_submit")
            case boundary.StartStep() | boundary.Complete():
                steers = bool(transitions.waiting_steers(draft.checkpoint))
                asks = ("pre_model",) if isinstance(move, boundary.StartStep) else ("stop",)
                return self._hooks.any(*asks) or (steers and self._hooks.any("message_submit"))
            case boundary.Shorten():
                return self._hooks.any("pre_compact")
            case boundary.Authorise():
                return self._hooks.any("pre_tool_use", "permission_request")
            case boundary.RunTools():
                return any(self._tickets[call_id].gated for call_id in move.call_ids)
            case _:
                return False

    async def _perform(
        self, move: boundary.Move, draft: Draft, labels: list[str], launch: list[Callable[[], None]]
    ) -> bool:
        """Put the move into the draft; False if nothing may follow it in the same transaction."""
        match move:
            case boundary.TakeMessage():
                labels.append("take")
                return await self._take_message(draft, move.message)
            case boundary.EndInterrupted():
                labels.append("terminal")
                await self._end_interrupted(draft)
                return False
            case boundary.StartStep():
                return await self._start_step(draft, labels, launch)
            case boundary.Shorten():
                return await self._shorten(draft, labels, launch)
            case boundary.Authorise():
                return await self._authorise(draft, labels)
            case boundary.ExpireApproval():
                labels.append("decision")
                self._expire(draft)
                return True
            case boundary.SkipTools():
                for call in move.calls:
                    transitions.refuse_tool(draft, call, transitions.SKIPPED, "skipped")
                return True
            case boundary.RunTools():
                return await self._run_tools(draft, move.call_ids, labels, launch)
            case boundary.Complete():
                return await self._complete(draft, labels)
            case boundary.StartIteration():
                labels.append("take")
                return await self._start_iteration(draft, move.loop)
            case boundary.CloseRound():
                transitions.close_round(draft, move.loop)
                self._loops.round_over = self._hooks.any("post_round")
                return True
            case boundary.LeaveLoop() | boundary.RunRoundHooks() | boundary.MirrorLoop() | boundary.AnnounceLoopEnd():
                await self._end_loop(move, Draft(self._checkpoint, draft.now_ms))
                return False
            case boundary.Wait() | boundary.Rest():
                return False
            case _:
                assert_never(move)

    async def _take_message(self, draft: Draft, message: QueuedMessage) -> bool:
        turn_id = self._config.new_id()
        reason = await self._rejection(message, turn_id)
        if reason is not None:
            transitions.reject_turn(draft, message, turn_id, reason)
            return False
        transitions.begin_turn(draft, message, turn_id)
        self._new_turn()
        if self._config.collect:
            await self._join_waiting(draft)
        return True

    async def _join_waiting(self, draft: Draft) -> None:
        """Let everything that waits for a turn enter the one that has just begun."""
        for message in draft.checkpoint.pending_messages:
            reason = await self._rejection(message, draft.active.turn_id)
            if reason is None:
                transitions.join_turn(draft, message)
            else:
                transitions.reject_steer(draft, message, reason)

    async def _rejection(self, message: QueuedMessage, turn_id: str) -> str | None:
        context = replace(self._hook_context(), turn_id=turn_id, message=message)
        for outcome in await self._hooks.run("message_submit", context):
            if isinstance(outcome, Reject):
                return outcome.reason or REJECTED_BY_HOOK
        return None

    def _new_turn(self) -> None:
        self._attempt = 0
        self._not_before_ms = None
        self._authorised = False
        self._tickets.clear()
        self._too_long = self._tried_to_fit = self._long_enough = False

    # -------------------------------------------------------------------------------------------- loops

    @property
    def _execution_id(self) -> str:
        """This run of the session: who owns a loop that it runs."""
        return f"{self._lease.owner_id}:{self._lease.generation}"

    async def _start_iteration(self, draft: Draft, loop: LoopState) -> bool:
        turn_id = self._config.new_id()
        message = QueuedMessage(
            id=loop_moves.message_id(loop),
            boundary=Boundary.turn(),
            author=loop.author,
            text=loop.prompt,
            principal=loop.principal,
            accepted_at_ms=draft.now_ms,
        )
        reason = await self._rejection(message, turn_id)
        transitions.begin_iteration(draft, loop)
        if reason is not None:
            transitions.reject_iteration(draft, message, turn_id, reason)
            return False
        transitions.begin_turn(draft, message, turn_id, loop.loop_id)
        self._new_turn()
        return True

    def _is_to_leave(self, draft: Draft, loop: LoopState) -> bool:
        """Whether the loop ends with its round, so that nothing may make the turn go on."""
        closed = loop_moves.round_closed(loop)
        tokens = draft.active.usage.total_tokens
        return loop_moves.verdict(closed, draft.now_ms, stop=self._loops.stops(loop), tokens_in_turn=tokens) is not None

    async def _end_loop(
        self,
        move: boundary.LeaveLoop | boundary.RunRoundHooks | boundary.MirrorLoop | boundary.AnnounceLoopEnd,
        draft: Draft,
    ) -> None:
        """One of the steps by which a loop ends, in a transaction of its own."""
        match move:
            case boundary.LeaveLoop():
                transitions.leave_loop(draft, move.loop, move.status, move.reason)
                await self._admit(draft, "loop")
            case boundary.RunRoundHooks():
                await self._run_round_hooks(draft, move.loop)
            case boundary.MirrorLoop():
                transitions.mirror_loop(draft, move.loop)
                await self._admit(draft, "mirror")
            case boundary.AnnounceLoopEnd():
                await self._announce_loop_end(draft, move.loop)
            case _:
                assert_never(move)

    async def _admit(self, draft: Draft, label: str) -> None:
        """Commit what a loop's success stands on. A save that reports an error admits nothing, even if it was kept.

        The loop has then failed in memory, at once; the commit that follows makes the disk equal to it.
        """
        try:
            await self._commit(draft, *_labels_of(draft, label))
        except StaleCheckpoint:
            raise
        except CommitUnknown as unknown:  # not even a look at the disk could say
            self._refuse_loop(draft, unknown)
            raise
        except Exception as lost:  # noqa: BLE001 - whatever it was, the loop is not admitted
            self._refuse_loop(draft, lost)
        else:
            await self._after_turn(draft)
            if self._kept_despite is None:
                return
            self._refuse_loop(draft, self._kept_despite)
        repair = Draft(self._checkpoint, self._clock.now_ms())
        if repair.checkpoint.active_execution is not None:
            transitions.abort_turn(repair, looping.NOT_ADMITTED, outcome="failed", approval=Resolution.INVALIDATED)
        await self._commit(repair, *_labels_of(repair, "loop"))
        await self._after_turn(repair)

    def _refuse_loop(self, draft: Draft, error: Exception) -> None:
        """The loop has failed in memory, whatever the disk holds of it."""
        log.error("session %s: the end of its loop could not be stored: %r", self.session_id, error)
        loop = loop_moves.loop_of(draft.checkpoint)
        assert loop is not None
        self._loops.error = error
        failed = loop_moves.as_json(loop_moves.failed(loop, looping.NOT_ADMITTED))
        self._checkpoint = replace(self._checkpoint, loop_state=failed, runtime_status="failed")

    async def _after_turn(self, draft: Draft) -> None:
        """What follows a commit in which the turn of an iteration may have ended."""
        if draft.execution is not None:
            self._new_turn()
            await self._hooks.run("turn_end", replace(self._hook_context(), execution=draft.execution))

    async def _run_round_hooks(self, draft: Draft, loop: LoopState) -> None:
        """Let hooks hear of a round that is stored. One that breaks fails the loop, and nothing else."""
        self._loops.round_over = False
        try:
            outcomes = await self._hooks.run("post_round", replace(self._hook_context(), loop=loop))
        except Exception as error:
            log.error("session %s: a hook failed after a round", self.session_id, exc_info=error)
            self._loops.error = error
            transitions.fail_loop(draft, loop, self._why_broken(error))
            await self._commit(draft, *_labels_of(draft, "loop"))
            await self._after_turn(draft)
            return
        self._loops.stop = self._loops.stop or any(isinstance(outcome, Stop) for outcome in outcomes)

    def _why_broken(self, error: Exception) -> str:
        """What a hook says; never raw text of a database."""
        if isinstance(error, CheckpointError | OSError):
            return f"a hook failed after the round: {describe(error, '').message}"
        return f"a hook failed after the round: {self._config.redact(str(error))[:500]}"

    async def _announce_loop_end(self, draft: Draft, loop: LoopState) -> None:
        transitions.announce_loop_end(draft, loop)
        await self._commit(draft, "loop_end")
        ended = loop_moves.loop_of(self._checkpoint)
        assert ended is not None
        self._loops.tell(ended)

    async def _enter_steers(self, draft: Draft) -> int:
        """Let every steer that waits now enter, in order; how many did."""
        entered = 0
        for message in transitions.waiting_steers(draft.checkpoint):
            reason = await self._rejection(message, draft.active.turn_id)
            if reason is None:
                transitions.enter_steer(draft, message)
                entered += 1
            else:
                transitions.reject_steer(draft, message, reason)
        return entered

    # -------------------------------------------------------------------------------------------- model steps

    async def _start_step(self, draft: Draft, labels: list[str], launch: list[Callable[[], None]]) -> bool:
        reason = self._limit_reached(draft)
        if reason is not None:
            labels.append("terminal")
            self._fail_turn(draft, events.Error(kind="stopped", message=reason, reference=self._reference()))
            return False
        if await self._enter_steers(draft):
            labels.append("steer")
        context = replace(self._hook_context(draft), context=draft.checkpoint.context)
        for outcome in await self._hooks.run("pre_model", context):
            if isinstance(outcome, AddContext):
                transitions.note(draft, outcome.text)
        step_id = self._config.new_id()
        transitions.start_step(draft, step_id)
        self._not_before_ms = None
        labels.append("step")
        launch.append(lambda: self._launch_model(step_id))
        return False

    def _limit_reached(self, draft: Draft) -> str | None:
        active, limits = draft.active, self._config.limits
        if active.next_model_step >= self._config.max_model_steps:
            return f"The turn was ended after {self._config.max_model_steps} model steps."
        if active.tool_calls >= limits.tool_calls:
            return f"The turn was ended after {limits.tool_calls} tool calls."
        if limits.tokens is not None and active.usage.total_tokens >= limits.tokens:
            return f"The turn was ended after {limits.tokens} tokens."
        if limits.cost_usd is not None and active.usage.cost_usd >= limits.cost_usd:
            return f"The turn was ended: it has cost {limits.cost_usd:.2f} USD."
        if limits.seconds is not None and draft.now_ms - active.started_at_ms >= limits.seconds * 1000:
            return f"The turn was ended after {limits.seconds:g} seconds."
        return self._session_limit_reached(draft.checkpoint.total_usage)

    def _session_limit_reached(self, total: Usage) -> str | None:
        limits = self._config.session_limits
        if limits.tokens is not None and total.total_tokens >= limits.tokens:
            return f"This session has used its {limits.tokens} tokens; a new session may go on."
        if limits.cost_usd is not None and total.cost_usd >= limits.cost_usd:
            return f"This session has cost its {limits.cost_usd:.2f} USD; a new session may go on."
        return None

    def _launch_model(self, step_id: str) -> None:
        call = _ModelCall(asyncio.create_task(self._ask_model(step_id), name="model call"))
        call.task.add_done_callback(lambda _: self._wake.set())
        self._model = call

    async def _ask_model(self, step_id: str) -> ModelReply:
        checkpoint = self._checkpoint
        turn_id = checkpoint.active_execution.turn_id if checkpoint.active_execution else ""
        context = replace(self._hook_context(), context=checkpoint.context)
        reminders = [o.text for o in await self._hooks.run("model_request", context) if isinstance(o, AddContext)]
        request = ModelRequest(
            context=checkpoint.context,
            tools=self._gate.specs,
            instructions=self._instructions(),
            reminders=reminders,
            session_id=self.session_id,
        )

        def on_delta(delta: Delta) -> None:
            if self._model is not None:
                self._model.text.append(delta.text)
            self._progress_ms = self._clock.now_ms()
            self._show([events.AssistantDelta(turn_id=turn_id, model_step_id=step_id, text=delta.text)])

        self._config.faults.reach("model.call.before")
        reply = await self._reply_of(self._config.models.get(checkpoint.model_route or ""), request, on_delta)
        self._config.faults.reach("model.call.after")
        return reply

    def _instructions(self) -> str:
        instructions = self._config.instructions
        return instructions if isinstance(instructions, str) else instructions()

    async def _reply_of(self, model: Model, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The model's answer. What is no ModelError is a fault in its code: it fails the turn, not the session."""
        try:
            return await model.step(request, on_delta)
        except ModelError:
            raise
        except Exception as error:
            raise ModelFailed(f"the model's code raised {type(error).__name__}") from error

    def _take_model_answer(self, draft: Draft, labels: list[str]) -> None:
        call = self._model
        if call is None or not call.task.done():
            return
        self._model = None
        labels.append("answer")
        error = _error_of(call.task)
        if error is None:
            self._attempt = 0
            reply = call.task.result()
            info = self._config.models.info(draft.checkpoint.model_route or "")
            transitions.finish_step(
                draft, _with_unique_ids(reply.parts), reply.usage, reply.native, info.context_window
            )
            self._gauge.measured(reply.usage, draft.checkpoint)
            self._authorised = False
        elif isinstance(error, ModelError | ConfigurationError):
            self._take_model_error(draft, error, labels)
        else:
            raise error

    def _take_model_error(self, draft: Draft, error: ModelError | ConfigurationError, labels: list[str]) -> None:
        if isinstance(error, ContextTooLong) and not self._tried_to_fit:
            self._tried_to_fit = self._too_long = True
            transitions.close_step(draft, "retrying")
            return
        retries_left = self._attempt < self._config.model_retries and not draft.active.interrupted_by
        if isinstance(error, ModelError) and error.retryable and retries_left:
            self._attempt += 1
            delay = self._delay(error, self._attempt)
            log.warning("model call failed, attempt %d in %.1f s: %s", self._attempt + 1, delay, error)
            transitions.close_step(draft, "retrying")
            self._not_before_ms = draft.now_ms + int(delay * 1000)
            return
        labels.append("terminal")
        reference = self._reference()
        log.error("model call failed [%s]: %r", reference, error, exc_info=error.__cause__)
        self._fail_turn(draft, describe(error, reference))

    def _delay(self, error: ModelError, attempt: int) -> float:
        longest = min(RETRY_CAP_SECONDS, RETRY_FIRST_SECONDS * 2**attempt)
        return max(self._config.random.uniform(RETRY_FIRST_SECONDS, longest), error.retry_after or 0.0)

    def _backing_off(self, draft: Draft) -> bool:
        return self._not_before_ms is not None and draft.now_ms < self._not_before_ms

    def _fail_turn(self, draft: Draft, complaint: events.Error) -> None:
        draft.emit(replace(complaint, turn_id=draft.active.turn_id))
        transitions.abort_turn(draft, complaint.message, outcome="failed", approval=Resolution.INVALIDATED)
        self._new_turn()

    # -------------------------------------------------------------------------------------------- compaction

    def _full(self, draft: Draft) -> bool:
        """Whether the context has to become shorter before the model is asked again."""
        return self._too_long or (not self._long_enough and self._beyond_limit(draft.checkpoint))

    def _beyond_limit(self, checkpoint: Checkpoint) -> bool:
        return self._gauge.tokens(checkpoint) >= self._config.compact_at * self._window(checkpoint)

    def _window(self, checkpoint: Checkpoint) -> int:
        return self._config.models.info(checkpoint.model_route or "").context_window

    async def _begin_compaction(self, asked: _Asked) -> str | None:
        """Start what a person asked for; a sentence if it cannot be done."""
        if not self._checkpoint.idle or self._compaction is not None:
            return "the context cannot be summarised while a turn runs"
        keep_from = cut_point(self._checkpoint.context, self._window(self._checkpoint))
        if keep_from is None:
            return "there is nothing to summarise yet"
        refusal = await self._compaction_refused()
        if refusal is not None:
            return f"the context is not summarised: {refusal}"
        self._launch_compaction(keep_from, asked)
        return None

    async def _compaction_refused(self) -> str | None:
        for outcome in await self._hooks.run("pre_compact", self._hook_context()):
            if isinstance(outcome, Stop):
                return outcome.reason
        return None

    async def _shorten(self, draft: Draft, labels: list[str], launch: list[Callable[[], None]]) -> bool:
        keep_from = cut_point(draft.checkpoint.context, self._window(draft.checkpoint))
        if keep_from is not None and await self._compaction_refused() is None:
            launch.append(lambda: self._launch_compaction(keep_from))
            return False
        self._long_enough = True
        if not self._too_long:
            return True
        labels.append("terminal")
        self._fail_turn(draft, describe(ContextTooLong("nothing can be left out"), self._reference()))
        return False

    def _launch_compaction(self, keep_from: int, asked: _Asked | None = None) -> None:
        request = summary_request(self._checkpoint, keep_from, self._gate.specs, self._instructions())
        task = asyncio.create_task(self._summarise(request), name="summary")
        task.add_done_callback(lambda _: self._wake.set())
        self._compaction = _Compaction(task, keep_from, asked)

    async def _summarise(self, request: ModelRequest) -> tuple[str, Usage]:
        """The summary and what it took. ModelError once the retries are used up."""
        model = self._config.models.get(self._checkpoint.model_route or "")
        attempt = 0
        while True:
            try:
                self._config.faults.reach("compaction.call.before")
                reply = await self._reply_of(model, request, lambda _: None)
                self._config.faults.reach("compaction.call.after")
            except ModelError as error:
                attempt += 1
                if not error.retryable or attempt > self._config.model_retries:
                    raise
                await self._clock.sleep(self._delay(error, attempt))
                continue
            text = summary_of(reply)
            if text is None:
                raise ModelRefused("the model gave no summary")
            return HEADING + text, reply.usage

    async def _finish_compaction(self, done: _Compaction) -> None:
        """Store the new epoch in a transaction of its own, or leave the context as it is."""
        draft = Draft(self._checkpoint, self._clock.now_ms())
        error = _error_of(done.task)
        if error is None:
            summary, usage = done.task.result()
        elif not isinstance(error, ModelError):
            raise error
        elif self._too_long:  # without a summary it fits at least
            summary, usage = LEFT_OUT.format(count=done.keep_from), Usage()
        else:
            await self._compaction_failed(draft, done, error)
            return
        asked = done.asked
        transitions.compact(draft, summary, done.keep_from, usage, asked.submission_id if asked else None)
        receipt = self._accepted(draft, asked.submission_id) if asked else None
        await self._commit(draft, "compact")
        self._compaction = None  # until now: who asked is told if the commit fails
        self._too_long = False
        self._long_enough = self._beyond_limit(self._checkpoint)  # a second summary would gain nothing
        if asked is not None and receipt is not None and not asked.receipt.done():
            asked.receipt.set_result(receipt)
        await self._hooks.run("post_compact", self._hook_context())

    async def _compaction_failed(self, draft: Draft, done: _Compaction, error: ModelError) -> None:
        """The conversation goes on as it is; who asked for the summary is told."""
        self._long_enough = True
        reference = self._reference()
        log.error("the summary failed [%s]: %r", reference, error, exc_info=error.__cause__)
        text = f"The context could not be summarised ({reference}): {describe(error, reference).message}"
        asked = done.asked
        receipt = self._warned(draft, asked.submission_id, text) if asked else None
        if receipt is None:
            draft.emit(events.Warning(message=text))
        await self._commit(draft, "accept")
        self._compaction = None
        if asked is not None and receipt is not None and not asked.receipt.done():
            asked.receipt.set_result(receipt)

    # -------------------------------------------------------------------------------------------- tools

    async def _authorise(self, draft: Draft, labels: list[str]) -> bool:
        """Decide on every call of the batch that has not begun, and ask for those that need a person."""
        decided = draft.checkpoint.pending_approval
        ask: dict[str, approvals.Action] = {}
        left = self._calls_left(draft)
        for tool in draft.checkpoint.pending_tools:
            call_id = tool.call.call_id
            if tool.state != "pending":
                continue
            if left <= 0:
                text = f"blocked: a turn may make {self._config.limits.tool_calls} calls"
                transitions.refuse_tool(draft, tool.call, text, "refused")
                continue
            if decided is not None and call_id in decided.gated:
                self._tickets[call_id] = Ticket(
                    call_id=call_id,
                    action=decided.actions[call_id],
                    digest=decided.digests[call_id],
                    idempotency_key=tool.idempotency_key,
                    gated=True,
                )
                left -= 1
                continue
            verdict = await self._verdict(tool.call)
            if isinstance(verdict, Run) and verdict.grant is not None and await self._withdrawn(verdict, draft):
                verdict = Ask(action=verdict.action)
            match verdict:
                case Run():
                    self._tickets[call_id] = Ticket(
                        call_id=call_id,
                        action=verdict.action,
                        digest=verdict.action.digest(),
                        idempotency_key=tool.idempotency_key,
                    )
                case Ask():
                    ask[call_id] = verdict.action
                case Refuse():
                    transitions.refuse_tool(draft, tool.call, verdict.text, verdict.outcome)
                    continue
                case _:
                    assert_never(verdict)
            left -= 1
        if ask:
            labels.append("approval")
            self._ask(draft, ask)
            return False
        self._authorised = bool(draft.checkpoint.pending_tools)
        return True

    def _calls_left(self, draft: Draft) -> int:
        """How many calls the turn may still begin."""
        begun = sum(tool.state == "started" for tool in draft.checkpoint.pending_tools)
        return self._config.limits.tool_calls - draft.active.tool_calls - begun

    async def _verdict(self, call: ToolCall) -> Run | Ask | Refuse:
        context = replace(self._hook_context(), call=call)
        for outcome in await self._hooks.run("pre_tool_use", context):
            if isinstance(outcome, Deny):
                return Refuse(text=f"blocked by policy: {outcome.reason}", outcome="refused")
            if isinstance(outcome, Rewrite):
                call = replace(call, arguments=dict(outcome.arguments))
        verdict = await self._gate.authorise(call, self._tool_context(call), self._grants, self._clock.now_ms())
        if isinstance(verdict, Ask) and self._hooks.any("permission_request"):
            asked = replace(self._hook_context(), call=call, action=verdict.action)
            for outcome in await self._hooks.run("permission_request", asked):
                if isinstance(outcome, Allow):
                    return Run(action=verdict.action)
                if isinstance(outcome, Deny):
                    return Refuse(text=f"blocked by policy: {outcome.reason}", outcome="refused")
        return verdict

    def _ask(self, draft: Draft, ask: dict[str, approvals.Action]) -> None:
        calls = tuple(tool.call for tool in draft.checkpoint.pending_tools if tool.state == "pending")
        gated = tuple(call for call in calls if call.call_id in ask)
        timeout = self._config.approval_timeout_seconds
        approval = PendingApproval(
            request_id=self._config.new_id(),
            turn_id=draft.active.turn_id,
            submission_id=draft.active.submission_id,
            calls=calls,
            gated=tuple(call.call_id for call in gated),
            actions=ask,
            digests={call_id: action.digest() for call_id, action in ask.items()},
            reason="policy",
            expires_at_ms=None if timeout is None else draft.now_ms + int(timeout * 1000),
            high_risk=self._gate.high_risk(gated),
        )
        transitions.request_approval(draft, approval, self._summaries(approval))

    def _summaries(self, approval: PendingApproval) -> tuple[str, ...]:
        return tuple(self._gate.summary(call) for call in approval.calls if call.call_id in approval.gated)

    async def _run_tools(
        self, draft: Draft, call_ids: tuple[str, ...], labels: list[str], launch: list[Callable[[], None]]
    ) -> bool:
        for call_id in call_ids:
            ticket = self._tickets[call_id]
            tool = next(t for t in draft.checkpoint.pending_tools if t.call.call_id == call_id)
            invalid = await self._no_longer_valid(draft, ticket) if ticket.gated else None
            if invalid is not None:
                text = f"approval no longer valid: {invalid}"
                transitions.refuse_tool(draft, tool.call, text, "refused")
                continue
            transitions.start_tool(draft, call_id, self._gate.summary(tool.call))
            launch.append(lambda ticket=ticket, call=tool.call: self._launch_tool(ticket, call))
        if launch:
            labels.append("tool")
        if not draft.checkpoint.pending_tools:
            self._end_batch()
        return not launch

    async def _withdrawn(self, verdict: Run, draft: Draft) -> bool:
        """Whether whoever allowed this for the session may not allow it any more; what cannot be told is withdrawn."""
        if self._config.recheck is None or verdict.grant is None:
            return False
        try:
            by = verdict.grant.granted_by
            return await self._config.recheck(verdict.action, draft.active.principals, by) is not None
        except Exception:
            log.exception("a grant could not be checked again")
            return True

    async def _no_longer_valid(self, draft: Draft, ticket: Ticket) -> str | None:
        """Why an approved call may not start after all; whatever cannot be checked does not run."""
        approval = draft.checkpoint.pending_approval
        try:
            context = self._tool_context_of(ticket)
            changed = await self._gate.changed_since(ticket, context, self._left)
            if changed is None and self._config.recheck is not None:
                by = approval.decided_by if approval else None
                changed = await self._config.recheck(ticket.action, draft.active.principals, by)
            return changed
        except Exception:
            log.exception("an approved call could not be checked again")
            return "it could not be checked again"

    def _launch_tool(self, ticket: Ticket, call: ToolCall) -> None:
        context = self._tool_context(call, ticket.idempotency_key)
        task = asyncio.create_task(self._invoke(ticket, context), name=f"tool {call.name}")
        task.add_done_callback(lambda _: self._wake.set())
        self._tools[ticket.call_id] = _ToolRun(task, context, call.name)

    async def _invoke(self, ticket: Ticket, context: ToolContext) -> ToolResult:
        self._config.faults.reach("tool.run.before")
        result = await self._gate.invoke(ticket, context)
        self._config.faults.reach("tool.run.after")
        if ticket.gated and result.outcome == "completed" and ticket.action.files:
            await self._remember_files(ticket, context)
        return result

    async def _remember_files(self, ticket: Ticket, context: ToolContext) -> None:
        """How an approved call left its files: the calls approved with it may find them so. A restart forgets it, and
        then refuses."""
        try:
            left = await self._gate.action(ticket.action.tool, ticket.action.arguments, context)
        except ToolError:
            return
        self._left.update(left.files)

    async def _take_tool_results(self, draft: Draft, labels: list[str]) -> None:
        for call_id, run in list(self._tools.items()):
            if not run.task.done():
                continue
            del self._tools[call_id]
            if "result" not in labels:
                labels.append("result")
            result = _result_of(run)
            transitions.finish_tool(draft, result)
            if self._hooks.any("post_tool_use"):
                for outcome in await self._hooks.run(
                    "post_tool_use", replace(self._hook_context(draft), result=result)
                ):
                    if isinstance(outcome, AddContext):
                        transitions.note(draft, outcome.text)
        if not draft.checkpoint.pending_tools:
            self._end_batch()

    def _end_batch(self) -> None:
        self._left.clear()
        self._authorised = False
        self._tickets.clear()

    def _tool_context(self, call: ToolCall, idempotency_key: str = "") -> ToolContext:
        active = self._checkpoint.active_execution
        principals = active.principals if active else ()
        return ToolContext(
            session_id=self.session_id,
            turn_id=active.turn_id if active else "",
            call_id=call.call_id,
            workspace=self._config.workspace,
            idempotency_key=idempotency_key,
            origin=self._checkpoint.session_context.origin_label,
            principal=principals[0] if principals else None,
        )

    def _tool_context_of(self, ticket: Ticket) -> ToolContext:
        return self._tool_context(
            ToolCall(call_id=ticket.call_id, name=ticket.action.tool, arguments=ticket.action.arguments)
        )

    # -------------------------------------------------------------------------------------------- the end of a turn

    async def _complete(self, draft: Draft, labels: list[str]) -> bool:
        """Let steers that wait now enter; else, unless a stop hook wants one more step, end the turn."""
        loop = loop_moves.within_iteration(draft.checkpoint)
        leaving = loop is not None and self._is_to_leave(draft, loop)
        if transitions.waiting_steers(draft.checkpoint) and not leaving:
            ending = draft.active.phase
            if await self._enter_steers(draft):
                labels.append("steer")
                transitions.overtake(draft, ending, self._config.new_id())
                return True
        for outcome in await self._hooks.run("stop", self._hook_context(draft)):
            if isinstance(outcome, Continue) and not draft.active.stop_hook_active and not leaving:
                transitions.note(draft, outcome.prompt)
                draft.change_active(stop_hook_active=True, phase=ExecutionPhase.model())
                return True
        labels.append("terminal")
        transitions.complete_turn(draft)
        self._new_turn()
        self._loops.round_over = loop is not None and self._hooks.any("post_round")
        return False

    async def _end_interrupted(self, draft: Draft) -> None:
        """Stop what is in flight, keep what it had come to, and end the turn."""
        text = "".join(self._model.text) if self._model is not None else ""
        await self._end_effects()
        for call_id, run in list(self._tools.items()):
            del self._tools[call_id]
            if run.task.done() and not run.task.cancelled():
                transitions.finish_tool(draft, run.task.result())
            elif not run.task.done():
                log.error("tool %s ignores that it was stopped", run.task.get_name())
        step = draft.checkpoint.active_model_step
        if text and step is not None:
            draft.append(AssistantMessage(parts=(TextPart(text=text),)))
            draft.emit(
                events.AssistantMessage(turn_id=draft.active.turn_id, model_step_id=step.model_step_id, text=text)
            )
        closed = Resolution.INVALIDATED if draft.checkpoint.retiring else Resolution.INTERRUPTED
        transitions.abort_turn(draft, STOPPED, by=draft.active.interrupted_by, approval=closed)
        self._new_turn()

    async def _end_effects(self) -> None:
        """Cancel what is in flight and wait, for a bounded time, until it has ended."""
        running = [task for task in self._effects() if not task.done()]
        for run in self._tools.values():
            run.context.cancel.set()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=GRACE_SECONDS)
        self._model = self._compaction = None

    def _effects(self) -> list[asyncio.Task[Any]]:
        """What is in flight."""
        model = [self._model.task] if self._model is not None else []
        summary = [self._compaction.task] if self._compaction is not None else []
        return [*model, *summary, *(run.task for run in self._tools.values())]

    # -------------------------------------------------------------------------------------------- hooks

    def _hook_context(self, draft: Draft | None = None) -> HookContext:
        checkpoint = draft.checkpoint if draft is not None else self._checkpoint
        active = checkpoint.active_execution
        return HookContext(
            session_id=checkpoint.session_id,
            turn_id=active.turn_id if active else None,
            session_context=checkpoint.session_context,
            metadata=checkpoint.metadata,
        )


def _labels_of(draft: Draft, label: str) -> tuple[str, ...]:
    return (label,) if draft.execution is None else (label, "terminal")


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What ended a model call. We cancel calls only when we end: one that was cancelled all the same lost its line."""
    return ModelUnavailable("the model call was cancelled from within") if task.cancelled() else task.exception()


def _with_unique_ids(parts: tuple[AssistantPart, ...]) -> tuple[AssistantPart, ...]:
    """The parts with call ids that are not empty and not repeated, as providers and our tables need them."""
    seen: set[str] = set()
    result: list[AssistantPart] = []
    for position, part in enumerate(parts):
        if isinstance(part, ToolCall):
            call_id = part.call_id or f"call_{position}"
            while call_id in seen:
                call_id = f"{call_id}_{position}"
            seen.add(call_id)
            part = part if call_id == part.call_id else replace(part, call_id=call_id)
        result.append(part)
    return tuple(result)


def _result_of(run: _ToolRun) -> ToolResult:
    if not run.task.cancelled():
        return run.task.result()
    return ToolResult(
        call_id=run.context.call_id,
        name=run.name,
        output="stopped because of new instructions",
        is_error=True,
        outcome="interrupted",
    )


def _lost(error: Exception) -> Exception:
    """The error of a save that is certainly not kept."""
    if not isinstance(error, CommitUnknown):
        return error
    lost = CheckpointError("the commit failed, and nothing of it is stored")
    lost.__cause__ = error
    return lost


def _resolution_of(decision: approvals.Decision) -> Resolution:
    match decision:
        case approvals.Approve():
            return Resolution.APPROVED
        case approvals.ApproveForSession():
            return Resolution.APPROVED_FOR_SESSION
        case approvals.ApproveWith():
            return Resolution.EDITED
        case approvals.Deny():
            return Resolution.DENIED
        case approvals.Abort():
            return Resolution.ABORTED
        case _:
            assert_never(decision)
