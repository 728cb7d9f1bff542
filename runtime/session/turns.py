"""How messages enter a turn, and how a turn ends."""

from __future__ import annotations

import logging
from dataclasses import replace

from runtime import loop_moves, transitions
from runtime.middleware import Continue, Reject
from runtime.protocol import events
from runtime.protocol.approvals import Resolution
from runtime.protocol.checkpoint import ExecutionPhase
from runtime.protocol.context import AssistantMessage, TextPart
from runtime.protocol.loops import LoopState
from runtime.protocol.session import QueuedMessage
from runtime.session.state import Advance, SessionState
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")

STOPPED = "stopped"
REJECTED_BY_HOOK = "rejected by policy"


class Turns:
    """The turns of one session."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    async def take(self, draft: Draft, message: QueuedMessage) -> bool:
        """Start a turn with `message`, or consume it if a hook rejects it; whether a turn runs now."""
        turn_id = self._state.config.new_id()
        reason = await self.rejection(message, turn_id)
        if reason is not None:
            transitions.reject_turn(draft, message, turn_id, reason)
            return False
        transitions.begin_turn(draft, message, turn_id)
        self._state.memory.new_turn()
        if self._state.config.collect:
            await self._join_waiting(draft)
        return True

    async def _join_waiting(self, draft: Draft) -> None:
        """Let everything that waits for a turn enter the one that has just begun."""
        for message in draft.checkpoint.pending_messages:
            reason = await self.rejection(message, draft.active.turn_id)
            if reason is None:
                transitions.join_turn(draft, message)
            else:
                transitions.reject_steer(draft, message, reason)

    async def rejection(self, message: QueuedMessage, turn_id: str) -> str | None:
        """Why a hook does not let the message in, or None."""
        for outcome in await self._state.ask_hooks("message_submit", turn_id=turn_id, message=message):
            if isinstance(outcome, Reject):
                return outcome.reason or REJECTED_BY_HOOK
        return None

    async def enter_steers(self, draft: Draft) -> int:
        """Let every steer that waits now enter, in order; how many did."""
        entered = 0
        for message in transitions.waiting_steers(draft.checkpoint):
            reason = await self.rejection(message, draft.active.turn_id)
            if reason is None:
                transitions.enter_steer(draft, message)
                entered += 1
            else:
                transitions.reject_steer(draft, message, reason)
        return entered

    async def complete(self, advance: Advance) -> bool:
        """Let steers that wait now enter; else, unless a stop hook wants one more step, end the turn.

        Whether the turn goes on.
        """
        draft, loops = advance.draft, self._state.loops
        loop = loop_moves.within_iteration(draft.checkpoint)
        leaving = loop is not None and self._is_to_leave(draft, loop)
        if not leaving and await self._overtaken(advance):
            return True
        for outcome in await self._state.ask_hooks("stop", draft):
            if isinstance(outcome, Continue) and not draft.active.stop_hook_active and not leaving:
                transitions.note(draft, outcome.prompt)
                draft.change_active(stop_hook_active=True, phase=ExecutionPhase.model())
                return True
        advance.labels.append("terminal")
        transitions.complete_turn(draft)
        self._state.memory.new_turn()
        loops.round_over = loop is not None and self._state.hooks.any("post_round")
        return False

    def _is_to_leave(self, draft: Draft, loop: LoopState) -> bool:
        """Whether the loop ends with its round, so that nothing may make the turn go on."""
        closed = loop_moves.round_closed(loop)
        tokens, stop = draft.active.usage.total_tokens, self._state.loops.stops(loop)
        return loop_moves.verdict(closed, draft.now_ms, stop=stop, tokens_in_turn=tokens) is not None

    async def _overtaken(self, advance: Advance) -> bool:
        """Whether a steer took the place of the turn's end."""
        draft = advance.draft
        ending = draft.active.phase
        if not await self.enter_steers(draft):
            return False
        advance.labels.append("steer")
        transitions.overtake(draft, ending, self._state.config.new_id())
        return True

    def fail(self, draft: Draft, complaint: events.Error) -> None:
        """End the turn as failed."""
        draft.emit(replace(complaint, turn_id=draft.active.turn_id))
        transitions.abort_turn(draft, complaint.message, outcome="failed", approval=Resolution.INVALIDATED)
        self._state.memory.new_turn()

    async def end_interrupted(self, draft: Draft) -> None:
        """Stop what is in flight, keep what it had come to, and end the turn."""
        flight = self._state.flight
        text = "".join(flight.model.text) if flight.model is not None else ""
        await flight.end()
        self._keep_results(draft)
        step = draft.checkpoint.active_model_step
        if text and step is not None:
            draft.append(AssistantMessage(parts=(TextPart(text=text),)))
            draft.emit(
                events.AssistantMessage(turn_id=draft.active.turn_id, model_step_id=step.model_step_id, text=text)
            )
        closed = Resolution.INVALIDATED if draft.checkpoint.retiring else Resolution.INTERRUPTED
        transitions.abort_turn(draft, STOPPED, by=draft.active.interrupted_by, approval=closed)
        self._state.memory.new_turn()

    def _keep_results(self, draft: Draft) -> None:
        """What tools had come to before they were stopped."""
        tools = self._state.flight.tools
        for call_id, run in list(tools.items()):
            del tools[call_id]
            if run.task.done() and not run.task.cancelled():
                transitions.finish_tool(draft, run.task.result())
            elif not run.task.done():
                log.error("tool %s ignores that it was stopped", run.task.get_name())

    async def tell_end(self, draft: Draft) -> None:
        """Let hooks hear of a turn whose end is stored."""
        if draft.execution is not None:
            await self._state.ask_hooks("turn_end", execution=draft.execution)
