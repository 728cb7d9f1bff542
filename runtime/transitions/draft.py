"""A transition in the making."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from runtime import loop_moves
from runtime.protocol.approvals import Grant
from runtime.protocol.checkpoint import (
    ActiveExecution,
    Checkpoint,
    ExecutionRecord,
    Receipt,
)
from runtime.protocol.context import (
    ContextDelta,
    ContextItem,
)
from runtime.protocol.events import Event, EventMsg
from runtime.protocol.loops import LoopState, LoopStatus

T = TypeVar("T")


class Draft:
    """A transition in the making; see the package."""

    def __init__(self, checkpoint: Checkpoint, now_ms: int) -> None:
        self.base = checkpoint
        self.now_ms = now_ms
        self.checkpoint = checkpoint
        self.items: list[ContextItem] = []
        self.events: list[Event] = []
        self.receipts: list[Receipt] = []
        self.grants: list[Grant] = []
        self.execution: ExecutionRecord | None = None
        self.new_epoch = False

    @property
    def changed(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.checkpoint is not self.base or self.events or self.receipts or self.grants)

    @property
    def active(self) -> ActiveExecution:
        """The turn that runs; there must be one."""
        active = self.checkpoint.active_execution
        assert active is not None, "no turn runs"
        return active

    def delta(self) -> ContextDelta:
        """What the transaction appends to the context."""
        if self.new_epoch:
            return ContextDelta(epoch=self.checkpoint.context_epoch, start=0, items=tuple(self.checkpoint.context))
        return ContextDelta(epoch=self.base.context_epoch, start=len(self.base.context), items=tuple(self.items))

    def numbered(self, sequence: int) -> Checkpoint:
        """The drafted checkpoint under the number that it is to be stored as."""
        return _changed(self.checkpoint, {"sequence": sequence})

    def emit(self, msg: EventMsg, submission_id: str | None = None) -> None:
        """Let `msg` be part of the transaction; by default correlated with the message that started the turn."""
        if submission_id is None and self.checkpoint.active_execution is not None:
            submission_id = self.checkpoint.active_execution.submission_id
        self.events.append(Event(sequence=None, submission_id=submission_id, recorded_at_ms=self.now_ms, msg=msg))

    def change(self, **fields: object) -> None:
        """Replace fields of the checkpoint."""
        self.checkpoint = _changed(self.checkpoint, fields)

    def change_active(self, **fields: object) -> None:
        """Replace fields of the running turn."""
        self.checkpoint = _changed(self.checkpoint, {"active_execution": _changed(self.active, fields)})

    def append(self, *items: ContextItem) -> None:
        """Let the model see `items` from now on."""
        self.items.extend(items)
        self.change(context=self.checkpoint.context.append(items))


def _changed(old: T, fields: Mapping[str, object]) -> T:
    """As `dataclasses.replace`, which asks every field of both, and takes a tenth of a turn to do so."""
    assert fields.keys() <= vars(old).keys(), f"{type(old).__name__} has no such fields: {', '.join(fields)}"
    new = object.__new__(type(old))
    vars(new).update(vars(old), **fields)
    return new


def set_loop(draft: Draft, loop: LoopState) -> None:
    """Store another state of the loop, and with a failure that of the session's runtime."""
    draft.change(loop_state=loop_moves.as_json(loop))
    if loop.status == LoopStatus.FAILED:
        draft.change(runtime_status="failed")
