"""What a running agent holds of its session: the newest stored state, and the one way to the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime import loop_moves
from runtime.config import AgentConfig
from runtime.errors import CheckpointError, CommitUnknown, StaleCheckpoint
from runtime.middleware import HookContext, Outcome
from runtime.protocol.approvals import Grant
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import ToolCall
from runtime.protocol.events import Event, EventMsg, SessionHistory
from runtime.protocol.loops import LoopState
from runtime.session.compaction import Gauge
from runtime.session.feed import Feed
from runtime.session.flight import Flight, TurnMemory
from runtime.session.gate import Gate
from runtime.session.hooks import Hooks
from runtime.session.looping import LoopRuns
from runtime.store.base import Lease
from runtime.tools.base import ToolContext
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")

CommitListener = Callable[[str, Sequence[Event]], None]
"""(session id, events that are stored now)"""
LiveListener = Callable[[str, Event], None]
"""(session id, an event that is not stored)"""


@dataclass(slots=True, eq=False)
class Advance:
    """A transaction in the making: its draft, the fault points it passes, and what starts once it is stored."""

    draft: Draft
    labels: list[str] = field(default_factory=list[str])
    launch: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class SessionState:
    """The session as one process has it open. Its parts share it; only the agent's own loop changes it."""

    def __init__(self, config: AgentConfig, found: Checkpoint, lease: Lease, *, is_new: bool) -> None:
        self.config = config
        self.store = config.store
        self.clock = config.clock
        self.lease = lease
        self.is_new = is_new
        self.checkpoint = found
        self.grants: tuple[Grant, ...] = ()
        self.hooks = Hooks(config.middleware)
        self.gate = Gate(
            config.tools,
            config.approval_policy,
            clock=config.clock,
            redact=config.redact,
            output_limit=config.tool_output_limit,
            new_reference=self.reference,
        )
        self.wake = asyncio.Event()
        self.flight = Flight(self.wake)
        self.memory = TurnMemory()
        self.gauge = Gauge()
        self.loops = LoopRuns()
        self.feed = Feed(lambda after, limit: self.store.event_page(self.session_id, after=after, limit=limit))
        self.last_event = 0
        self.progress_ms = config.clock.now_ms()
        self.kept_despite: Exception | None = None
        self.on_commit: CommitListener | None = None
        self.on_live: LiveListener | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.checkpoint.session_id

    @property
    def execution_id(self) -> str:
        """This run of the session: who owns a loop that it runs."""
        return f"{self.lease.owner_id}:{self.lease.generation}"

    def reference(self) -> str:
        """A short name under which the log has the cause of something."""
        return self.config.new_id()[:6].upper()

    def draft(self) -> Draft:
        """A transition that begins where the session is now."""
        return Draft(self.checkpoint, self.clock.now_ms())

    def window(self, checkpoint: Checkpoint) -> int:
        """How many tokens the model of this state takes in."""
        return self.config.models.info(checkpoint.model_route or "").context_window

    def progressed(self) -> None:
        """Something of the turn has moved."""
        self.progress_ms = self.clock.now_ms()

    # -------------------------------------------------------------------------------------------- what others see of it

    async def ask_hooks(
        self, hook: str, draft: Draft | None = None, *, reverse: bool = False, **fields: Any
    ) -> tuple[Outcome, ...]:
        """What hooks say of the session, or of what is drafted if that is given; `fields` are what this hook sees more.

        What a hook raises passes: it is a failure of infrastructure.
        """
        if not self.hooks.any(hook):
            return ()
        checkpoint = draft.checkpoint if draft is not None else self.checkpoint
        active = checkpoint.active_execution
        common: dict[str, Any] = {
            "session_id": checkpoint.session_id,
            "turn_id": active.turn_id if active else None,
            "session_context": checkpoint.session_context,
            "metadata": checkpoint.metadata,
        }
        return await self.hooks.run(hook, HookContext(**(common | fields)), reverse=reverse)

    def tool_context(self, call: ToolCall, idempotency_key: str = "") -> ToolContext:
        """What a tool sees of the session."""
        active = self.checkpoint.active_execution
        principals = active.principals if active else ()
        return ToolContext(
            session_id=self.session_id,
            turn_id=active.turn_id if active else "",
            call_id=call.call_id,
            workspace=self.config.workspace,
            idempotency_key=idempotency_key,
            origin=self.checkpoint.session_context.origin_label,
            principal=principals[0] if principals else None,
        )

    def show(self, *live: EventMsg) -> None:
        """Publish events that are not stored."""
        active = self.checkpoint.active_execution
        submission_id = active.submission_id if active else None
        now = self.clock.now_ms()
        self.publish([Event(sequence=None, submission_id=submission_id, recorded_at_ms=now, msg=msg) for msg in live])

    def publish(self, live: list[Event]) -> None:
        """Publish events that are not stored, as they are."""
        self.feed.publish(live)
        if self.on_live is not None:
            for event in live:
                self.on_live(self.session_id, event)

    # -------------------------------------------------------------------------------------------- the way to the next

    def fail_loop_in_memory(self, loop: LoopState) -> None:
        """The one thing that is true here before it is on disk: a loop whose end was not admitted has failed."""
        self.checkpoint = replace(self.checkpoint, loop_state=loop_moves.as_json(loop), runtime_status="failed")

    async def commit(self, draft: Draft, *labels: str, history: SessionHistory | None = None) -> None:
        """Make the draft durable, then the state of this process, then show it. If it is lost, nothing has changed."""
        for point in labels:
            self.config.faults.reach(f"agent.{point}.before")
        first_event = await self._save(draft)
        for point in labels:
            self.config.faults.reach(f"agent.{point}.after")
        stored = [_numbered(event, first_event + index) for index, event in enumerate(draft.events)]
        if stored:
            self.last_event = first_event + len(stored) - 1
        self.feed.publish(stored[:1] if history else stored)
        if history:
            self.show(history)
            self.feed.publish(stored[1:])
        if self.on_commit is not None:
            self.on_commit(self.session_id, stored)

    async def _save(self, draft: Draft) -> int:
        self.kept_despite = None
        checkpoint = draft.numbered(self.checkpoint.sequence + 1)
        # With the number in it no earlier life of the session can have drawn the same.
        save_id = f"{checkpoint.sequence:x}-{self.config.random.getrandbits(128):032x}"
        try:
            saved = await self.store.save(
                checkpoint,
                draft.delta(),
                events=draft.events,
                execution=draft.execution,
                receipts=draft.receipts,
                grants=draft.grants,
                lease=self.lease,
                save_id=save_id,
            )
            first_event = saved.first_event
        except StaleCheckpoint:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the disk says whether the save was kept
            first_event = await self._adopt(save_id, draft, error)
            self.kept_despite = error
        self.checkpoint = checkpoint
        self.progressed()
        if draft.grants:
            self.grants = (*self.grants, *draft.grants)
        return first_event

    async def _adopt(self, save_id: str, draft: Draft, error: Exception) -> int:
        """A save reported an error: if it was kept all the same it is ours, else it is lost and the error stands."""
        try:
            head = await self.store.head(self.session_id)
        except CheckpointError as unreadable:
            raise CommitUnknown("a save failed, and the disk cannot say whether it was kept") from unreadable
        if head is None or head.save_id != save_id:
            raise _lost(error)
        return head.event_sequence - len(draft.events) + 1


def _numbered(event: Event, sequence: int) -> Event:
    return Event(
        sequence=sequence, submission_id=event.submission_id, recorded_at_ms=event.recorded_at_ms, msg=event.msg
    )


def _lost(error: Exception) -> Exception:
    """The error of a save that is certainly not kept."""
    if not isinstance(error, CommitUnknown):
        return error
    lost = CheckpointError("the commit failed, and nothing of it is stored")
    lost.__cause__ = error
    return lost
