"""One durable session: its loop, the only writer of its state.

The loop repeats: take in what was asked (ops), take in what has ended (effects), decide the next move, make it one
transaction, and only then let it have effects. Whatever stops it, the disk holds the last transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from runtime.config import AgentConfig
from runtime.errors import AgentStopped, CommitUnknown
from runtime.protocol import ops
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.events import Event
from runtime.protocol.loops import LoopState
from runtime.session import boundary, start
from runtime.session.compacting import Compactions
from runtime.session.complaints import describe
from runtime.session.decisions import Decisions
from runtime.session.feed import Reader
from runtime.session.looping import LoopControl, LoopRun
from runtime.session.mailbox import Asked, LostOnTheWay, Mailbox
from runtime.session.moving import Moves
from runtime.session.state import CommitListener, LiveListener, SessionState
from runtime.session.submissions import Submissions
from runtime.session.tool_calls import ToolCalls
from runtime.session.turns import Turns

log = logging.getLogger("pilothouse.runtime")


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
        agent = Agent(await start.find(config, session_id, lease))
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


class Agent:
    """A running session. Make one with `create_agent`."""

    def __init__(self, state: SessionState) -> None:
        turns, tools = Turns(state), ToolCalls(state)
        compactions = Compactions(state, turns)
        self._state = state
        self._submissions = Submissions(state, Decisions(state), compactions, tools)
        self._moves = Moves(state, turns, compactions, tools)
        self._mailbox = Mailbox()
        self._at_rest = asyncio.Event()
        self._asking = asyncio.Event()
        self._ended = asyncio.Event()
        self._closing = False
        self._loop: asyncio.Task[None] | None = None
        self._reader: Reader | None = None
        self.failure: Exception | None = None

    # -------------------------------------------------------------------------------------------- for its users

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._state.session_id

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest state that is on disk; only a loop whose end was not admitted has failed here first."""
        return self._state.checkpoint

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
        self._state.on_commit, self._state.on_live = on_commit, on_live

    async def wait_ended(self) -> None:
        """Return once the agent has ended."""
        await self._ended.wait()

    async def submit(self, op: ops.Op, submission_id: str | None = None) -> Receipt:
        """Ask something of the session; on return what the receipt says is durable.

        The id is the caller's name for the submission: asking again under it is harmless and answers `duplicate`.
        An agent that fails while it has the op rejects it: nothing of it is stored, and its id may be used again.
        AgentStopped: the agent has ended and nothing was acknowledged. Cancelling the call does not take the op back.
        """
        submission_id = submission_id or self._state.config.new_id()
        try:
            return await self.offer(op, submission_id)
        except LostOnTheWay as lost:
            return Receipt(submission_id=submission_id, status="rejected", reason=lost.reason)

    async def offer(self, op: ops.Op, submission_id: str | None = None) -> Receipt:
        """As `submit`, but AgentStopped also where the agent fails while it has the op: ask its successor again."""
        if self.ended:
            raise AgentStopped(self._why_ended())
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        known_as = submission_id or self._state.config.new_id()
        self._mailbox.put(Asked(op, known_as, submission_id is None, receipt))
        self._at_rest.clear()
        self._state.wake.set()
        return await receipt

    async def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event, or None once the agent has ended. TimeoutError after `timeout` real seconds."""
        assert self._reader is not None
        async with asyncio.timeout(timeout):
            return await self._reader.next()

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The journal from beyond `after`, then live, until the agent ends."""
        reader = self._state.feed.reader(after, behind=after < self._state.last_event)
        try:
            while (event := await reader.next()) is not None:
                yield event
        finally:
            self._state.feed.drop(reader)

    def watch_loop(self, control: LoopControl) -> tuple[str, asyncio.Future[LoopState]]:
        """The submission id under which a loop is to be started that `control` stops; see `runtime.loops.run_loop`.

        The future has the loop's last state once everything of it is stored, or LoopError if it failed or the agent
        ended before it.
        """
        loop_id = self._state.config.new_id()
        ended: asyncio.Future[LoopState] = asyncio.get_running_loop().create_future()
        self._state.loops.waiting[loop_id] = LoopRun(control, ended)
        return loop_id, ended

    def forget_loop(self, loop_id: str) -> None:
        """Nobody waits for that loop any more; it goes on all the same."""
        self._state.loops.waiting.pop(loop_id, None)

    async def idle(self) -> None:
        """Return when no turn runs and nothing waits, or when the agent has ended."""
        await self._at_rest.wait()

    async def settled(self) -> None:
        """Return when nothing is under way: idle, ended, or waiting for nothing but a person."""
        while not (self.ended or self.resting or self._waits_for_a_person()):
            await _any_of(self._at_rest, self._asking, self._ended)

    def _waits_for_a_person(self) -> bool:
        return self._asking.is_set() and not self._mailbox

    async def aclose(self) -> None:
        """End in order: what runs is cancelled, what is on disk stays, the session is given back."""
        self._closing = True
        self._state.wake.set()
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
        for task in (*self._state.flight.tasks(), *([self._loop] if self._loop else [])):
            task.cancel()
        self._mailbox.give_up(AgentStopped(self._why_ended()))
        self._state.loops.abandon(self._why_ended(), reason)
        self._end_streams()

    def without_progress_ms(self, now_ms: int) -> int:
        """How long the running turn has been stuck; 0 while it is not, waits for a person or for its next attempt."""
        state = self._state
        waits = self._asking.is_set() or state.memory.not_before_ms is not None
        if state.checkpoint.idle or waits or self.ended:
            return 0
        # A tool with a time limit of its own is not stuck while it may still run.
        longest = max((state.gate.timeout_of(run.name) for run in state.flight.tools.values()), default=0.0)
        return max(0, now_ms - state.progress_ms - int(longest * 1000))

    @property
    def stuck_after_ms(self) -> int:
        """How long a turn may be without progress."""
        return int(self._state.config.stuck_seconds * 1000)

    def _why_ended(self) -> str:
        if self.failure is None:
            return "the agent was closed"
        return describe(self.failure, "").message

    # -------------------------------------------------------------------------------------------- the loop

    async def _start(self) -> None:
        state = self._state
        head = await state.store.head(self.session_id)
        state.last_event = head.event_sequence if head else 0
        self._reader = state.feed.reader(state.last_event, behind=False)
        await start.recover(state)
        self._loop = asyncio.create_task(self._run(), name=f"session {self.session_id}")

    async def _run(self) -> None:
        try:
            while not self._closing:
                await self._submissions.take_all(self._mailbox)
                pause = await self._moves.advance()
                if pause is not None and not self._mailbox:
                    await self._pause(pause)
        except Exception as error:  # noqa: BLE001 - the end of the loop is reported to readers and callers
            self._fail(error)
        finally:
            await self._wind_up()

    async def _pause(self, pause: boundary.Wait | boundary.Rest) -> None:
        """Wait until something arrives or ends, or until an instant that the session has something to do at."""
        checkpoint, flight = self._state.checkpoint, self._state.flight
        if checkpoint.idle and not checkpoint.pending_messages and flight.compaction is None:
            self._at_rest.set()
        approval = checkpoint.pending_approval
        if approval is not None and approval.decision is None:
            self._asking.set()
        until_ms = pause.until_ms if isinstance(pause, boundary.Wait) else None
        retry_ms = self._state.memory.not_before_ms
        await self._woken(until_ms if retry_ms is None else retry_ms)
        self._asking.clear()

    async def _woken(self, until_ms: int | None) -> None:
        wake, clock = self._state.wake, self._state.clock
        if until_ms is None:
            await wake.wait()
        else:
            woken = asyncio.ensure_future(wake.wait())
            timer = asyncio.ensure_future(clock.sleep(max(0.0, (until_ms - clock.now_ms()) / 1000)))
            try:
                await asyncio.wait({woken, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
                timer.cancel()
                await asyncio.gather(woken, timer, return_exceptions=True)
        wake.clear()

    def _fail(self, error: Exception) -> None:
        self.failure = error
        reference = self._state.reference()
        log.error("session %s stopped [%s]: %r", self.session_id, reference, error, exc_info=error)
        active = self._state.checkpoint.active_execution
        self._state.show(describe(error, reference, active.turn_id if active else None))

    async def _wind_up(self) -> None:
        if self._ended.is_set():
            return
        self._closing = True
        state = self._state
        if state.flight.compaction is not None and state.flight.compaction.asked is not None:
            self._mailbox.put(state.flight.compaction.asked)
        await state.flight.end()
        # Where even the disk could not say whether the save was kept, nobody is told that it was not.
        certain = self.failure is not None and not isinstance(self.failure, CommitUnknown)
        self._mailbox.give_up((LostOnTheWay if certain else AgentStopped)(self._why_ended()))
        with contextlib.suppress(Exception):  # the agent ends whatever a hook or the store says
            await state.ask_hooks("session_end", reverse=True)
        with contextlib.suppress(Exception):
            await state.store.release(state.lease)
        state.loops.abandon(self._why_ended(), self.failure)
        self._end_streams()

    def _end_streams(self) -> None:
        self._ended.set()
        self._at_rest.set()
        self._state.feed.end()


async def _any_of(*events: asyncio.Event) -> None:
    """Return once one of them is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
