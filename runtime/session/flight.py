"""What is under way outside the checkpoint: effects in flight, and what is remembered of the running turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runtime.errors import ModelUnavailable
from runtime.models.base import ModelReply
from runtime.protocol.context import ToolResult, Usage
from runtime.session.gate import GRACE_SECONDS, Ticket
from runtime.session.mailbox import Asked
from runtime.tools.base import ToolContext

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class ModelCall:
    """A model call in flight, and the words it has streamed."""

    task: asyncio.Task[ModelReply]
    text: list[str] = field(default_factory=list[str])


@dataclass(slots=True, eq=False)
class ToolRun:
    """A tool in flight."""

    task: asyncio.Task[ToolResult]
    context: ToolContext
    name: str

    def result(self) -> ToolResult:
        """What the call has come to; it has ended."""
        if not self.task.cancelled():
            return self.task.result()
        return ToolResult(
            call_id=self.context.call_id,
            name=self.name,
            output="stopped because of new instructions",
            is_error=True,
            outcome="interrupted",
        )

    def cancel(self) -> None:
        """Tell the tool that it is to end."""
        self.context.cancel.set()
        self.task.cancel()


@dataclass(slots=True, eq=False)
class Compaction:
    """A summary in the making; `asked` is whose receipt waits for it."""

    task: asyncio.Task[tuple[str, Usage]]
    keep_from: int
    asked: Asked | None = None


class Flight:
    """The effects of a session that are in flight. Whatever ends sets `wake`."""

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake
        self.model: ModelCall | None = None
        self.tools: dict[str, ToolRun] = {}
        self.compaction: Compaction | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is in flight."""
        return not (self.model or self.tools or self.compaction)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Let an effect run; its end wakes the session."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._wake.set())
        return task

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Everything in flight."""
        model = [self.model.task] if self.model is not None else []
        summary = [self.compaction.task] if self.compaction is not None else []
        return [*model, *summary, *(run.task for run in self.tools.values())]

    async def end(self) -> None:
        """Cancel what is in flight and wait, for a bounded time, until it has ended."""
        running = [task for task in self.tasks() if not task.done()]
        for run in self.tools.values():
            run.context.cancel.set()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=GRACE_SECONDS)
        self.model = self.compaction = None


@dataclass(slots=True, eq=False)
class TurnMemory:
    """What this process knows of the running turn beside its checkpoint; a restart forgets it, and asks again.

    `attempt`, `not_before_ms`: of a model call that failed. `authorised`, `tickets`: of the batch of calls that runs.
    `left`: how approved calls left their files. `too_long`: the provider refused the context; `tried_to_fit`: it was
    shortened for that; `long_enough`: shortening it again would gain nothing.
    """

    attempt: int = 0
    not_before_ms: int | None = None
    authorised: bool = False
    tickets: dict[str, Ticket] = field(default_factory=dict[str, Ticket])
    left: dict[str, str] = field(default_factory=dict[str, str])
    too_long: bool = False
    tried_to_fit: bool = False
    long_enough: bool = False

    def new_turn(self) -> None:
        """Nothing is known of it yet."""
        self.attempt = 0
        self.not_before_ms = None
        self.too_long = self.tried_to_fit = self.long_enough = False
        self.end_batch()

    def end_batch(self) -> None:
        """Every call of the batch has its result."""
        self.authorised = False
        self.tickets.clear()
        self.left.clear()


def error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What ended a model call. We cancel calls only when we end: one that was cancelled all the same lost its line."""
    return ModelUnavailable("the model call was cancelled from within") if task.cancelled() else task.exception()
