"""One step of a session: what has ended, and every move that follows from it, as one transaction."""

from __future__ import annotations

from typing import assert_never

from runtime import loop_moves, transitions
from runtime.protocol.checkpoint import Checkpoint
from runtime.session import boundary
from runtime.session.boundary import InFlight, Rules, next_move
from runtime.session.compacting import Compactions
from runtime.session.decisions import expire
from runtime.session.iterations import Iterations
from runtime.session.model_steps import ModelSteps
from runtime.session.state import Advance, SessionState
from runtime.session.tool_calls import ToolCalls
from runtime.session.turns import Turns
from runtime.transitions import Draft


class Moves:
    """How one session moves on."""

    def __init__(self, state: SessionState, turns: Turns, compactions: Compactions, tools: ToolCalls) -> None:
        self._state = state
        self._turns = turns
        self._compactions = compactions
        self._tools = tools
        self._steps = ModelSteps(state, turns)
        self._iterations = Iterations(state, turns)
        self._rules = Rules(skip_tools_on_steer=state.config.skip_tools_on_steer, parallel=state.gate.parallel)

    async def advance(self) -> boundary.Wait | boundary.Rest | None:
        """Make the next transaction, and let it have its effects; what to wait for if there was nothing to do."""
        summary = self._state.flight.compaction
        if summary is not None and summary.task.done():
            await self._compactions.finish(summary)
            return None
        advance = Advance(self._state.draft())
        self._steps.take_answer(advance)
        await self._tools.take_results(advance)
        pause = await self._follow(advance)
        draft = advance.draft
        if draft.changed:
            await self._state.commit(draft, *advance.labels)
        for start in advance.launch:
            start()
        if draft.changed:
            await self._turns.tell_end(draft)
            return None
        return pause

    async def _follow(self, advance: Advance) -> boundary.Wait | boundary.Rest | None:
        """Draft every move that needs nothing from outside first; what to wait for if there is none."""
        draft = advance.draft
        while draft.execution is None and not advance.launch:
            move = next_move(draft.checkpoint, self._in_flight(draft), self._rules, draft.now_ms)
            if isinstance(move, boundary.Wait | boundary.Rest):
                return move
            if draft.changed and self._needs_outside(move, draft):
                return None
            if not await self._perform(move, advance):
                return None
        return None

    def _in_flight(self, draft: Draft) -> InFlight:
        flight, memory, loops = self._state.flight, self._state.memory, self._state.loops
        return InFlight(
            model=flight.model is not None,
            tools=frozenset(flight.tools),
            backing_off=memory.not_before_ms is not None and draft.now_ms < memory.not_before_ms,
            authorised=memory.authorised,
            compacting=flight.compaction is not None,
            full=_asks_model_next(draft.checkpoint) and self._compactions.needed(draft.checkpoint),
            stop_loop=loops.stops(loop_moves.loop_of(draft.checkpoint)),
            round_over=loops.round_over,
        )

    def _needs_outside(self, move: boundary.Move, draft: Draft) -> bool:
        """Whether the move asks something of others first, so that what is drafted has to be stored before."""
        hooks = self._state.hooks
        match move:
            case boundary.TakeMessage() | boundary.EndInterrupted():
                return True
            case boundary.LeaveLoop() | boundary.RunRoundHooks() | boundary.MirrorLoop() | boundary.AnnounceLoopEnd():
                return True  # each is a commit of its own, or waits for hooks
            case boundary.StartIteration():
                return hooks.any("message_submit")
            case boundary.StartStep() | boundary.Complete():
                steers = bool(transitions.waiting_steers(draft.checkpoint))
                asks = "pre_model" if isinstance(move, boundary.StartStep) else "stop"
                return hooks.any(asks) or (steers and hooks.any("message_submit"))
            case boundary.Shorten():
                return hooks.any("pre_compact")
            case boundary.Authorise():
                return hooks.any("pre_tool_use", "permission_request")
            case boundary.RunTools():
                return any(self._state.memory.tickets[call_id].gated for call_id in move.call_ids)
            case _:
                return False

    async def _perform(self, move: boundary.Move, advance: Advance) -> bool:
        """Put the move into the draft; False if nothing may follow it in the same transaction."""
        draft, labels = advance.draft, advance.labels
        match move:
            case boundary.TakeMessage():
                labels.append("take")
                return await self._turns.take(draft, move.message)
            case boundary.EndInterrupted():
                labels.append("terminal")
                await self._turns.end_interrupted(draft)
                return False
            case boundary.StartStep():
                return await self._steps.start(advance)
            case boundary.Shorten():
                return await self._compactions.shorten(advance)
            case boundary.Authorise():
                return await self._tools.authorise(advance)
            case boundary.ExpireApproval():
                labels.append("decision")
                expire(draft)
                return True
            case boundary.SkipTools():
                for call in move.calls:
                    transitions.refuse_tool(draft, call, transitions.SKIPPED, "skipped")
                return True
            case boundary.RunTools():
                return await self._tools.run(advance, move.call_ids)
            case boundary.Complete():
                return await self._turns.complete(advance)
            case boundary.StartIteration():
                labels.append("take")
                return await self._iterations.start(draft, move.loop)
            case boundary.CloseRound():
                transitions.close_round(draft, move.loop)
                self._state.loops.round_over = self._state.hooks.any("post_round")
                return True
            case boundary.LeaveLoop() | boundary.RunRoundHooks() | boundary.MirrorLoop() | boundary.AnnounceLoopEnd():
                await self._iterations.end(move)
                return False
            case boundary.Wait() | boundary.Rest():
                return False
            case _:
                assert_never(move)


def _asks_model_next(checkpoint: Checkpoint) -> bool:
    """Whether it matters how long the context is."""
    active = checkpoint.active_execution
    waits = checkpoint.active_model_step is not None or bool(checkpoint.pending_tools)
    return active is not None and not waits and active.phase.kind == "model"
