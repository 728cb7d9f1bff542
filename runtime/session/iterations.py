"""A bounded loop as it runs: its iterations, what hooks say after a round, and the commits by which it ends."""

from __future__ import annotations

import logging
from typing import assert_never

from runtime import loop_moves, transitions
from runtime.errors import CheckpointError, CommitUnknown, StaleCheckpoint
from runtime.middleware import Stop
from runtime.protocol.approvals import Resolution
from runtime.protocol.loops import LoopState
from runtime.protocol.session import Boundary, QueuedMessage
from runtime.session import boundary, looping
from runtime.session.complaints import describe
from runtime.session.state import SessionState
from runtime.session.turns import Turns
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")

EndOfLoop = boundary.LeaveLoop | boundary.RunRoundHooks | boundary.MirrorLoop | boundary.AnnounceLoopEnd
"""Each is a commit of its own, or waits for hooks."""


class Iterations:
    """The loop of one session."""

    def __init__(self, state: SessionState, turns: Turns) -> None:
        self._state = state
        self._turns = turns

    async def start(self, draft: Draft, loop: LoopState) -> bool:
        """Give the loop's prompt once more; whether a turn runs now."""
        turn_id = self._state.config.new_id()
        message = QueuedMessage(
            id=loop_moves.message_id(loop),
            boundary=Boundary.turn(),
            author=loop.author,
            text=loop.prompt,
            principal=loop.principal,
            accepted_at_ms=draft.now_ms,
        )
        reason = await self._turns.rejection(message, turn_id)
        transitions.begin_iteration(draft, loop)
        if reason is not None:
            transitions.reject_iteration(draft, message, turn_id, reason)
            return False
        transitions.begin_turn(draft, message, turn_id, loop.loop_id)
        self._state.memory.new_turn()
        return True

    async def end(self, move: EndOfLoop) -> None:
        """One of the steps by which a loop ends, in a transaction of its own."""
        draft = self._state.draft()
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
                await self._announce_end(draft, move.loop)
            case _:
                assert_never(move)

    async def _admit(self, draft: Draft, label: str) -> None:
        """Commit what a loop's success stands on. A save that reports an error admits nothing, even if it was kept.

        The loop has then failed in memory, at once; the commit that follows makes the disk equal to it.
        """
        try:
            await self._state.commit(draft, *_labels_of(draft, label))
        except StaleCheckpoint:
            raise
        except CommitUnknown as unknown:  # not even a look at the disk could say
            self._refuse(draft, unknown)
            raise
        except Exception as lost:  # noqa: BLE001 - whatever it was, the loop is not admitted
            self._refuse(draft, lost)
        else:
            await self._after_turn(draft)
            if self._state.kept_despite is None:
                return
            self._refuse(draft, self._state.kept_despite)
        await self._store_refusal()

    def _refuse(self, draft: Draft, error: Exception) -> None:
        """The loop has failed in memory, whatever the disk holds of it."""
        log.error("session %s: the end of its loop could not be stored: %r", self._state.session_id, error)
        loop = loop_moves.loop_of(draft.checkpoint)
        assert loop is not None
        self._state.loops.error = error
        self._state.fail_loop_in_memory(loop_moves.failed(loop, looping.NOT_ADMITTED))

    async def _store_refusal(self) -> None:
        repair = self._state.draft()
        if repair.checkpoint.active_execution is not None:
            transitions.abort_turn(repair, looping.NOT_ADMITTED, outcome="failed", approval=Resolution.INVALIDATED)
        await self._state.commit(repair, *_labels_of(repair, "loop"))
        await self._after_turn(repair)

    async def _after_turn(self, draft: Draft) -> None:
        """What follows a commit in which the turn of an iteration may have ended."""
        if draft.execution is not None:
            self._state.memory.new_turn()
        await self._turns.tell_end(draft)

    async def _run_round_hooks(self, draft: Draft, loop: LoopState) -> None:
        """Let hooks hear of a round that is stored. One that breaks fails the loop, and nothing else."""
        loops = self._state.loops
        loops.round_over = False
        try:
            outcomes = await self._state.ask_hooks("post_round", loop=loop)
        except Exception as error:
            log.error("session %s: a hook failed after a round", self._state.session_id, exc_info=error)
            loops.error = error
            transitions.fail_loop(draft, loop, self._why_broken(error))
            await self._state.commit(draft, *_labels_of(draft, "loop"))
            await self._after_turn(draft)
            return
        loops.stop = loops.stop or any(isinstance(outcome, Stop) for outcome in outcomes)

    def _why_broken(self, error: Exception) -> str:
        """What a hook says; never raw text of a database."""
        if isinstance(error, CheckpointError | OSError):
            return f"a hook failed after the round: {describe(error, '').message}"
        return f"a hook failed after the round: {self._state.config.redact(str(error))[:500]}"

    async def _announce_end(self, draft: Draft, loop: LoopState) -> None:
        transitions.announce_loop_end(draft, loop)
        await self._state.commit(draft, "loop_end")
        ended = loop_moves.loop_of(self._state.checkpoint)
        assert ended is not None
        self._state.loops.tell(ended)


def _labels_of(draft: Draft, label: str) -> tuple[str, ...]:
    return (label,) if draft.execution is None else (label, "terminal")
