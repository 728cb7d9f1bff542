"""What becomes of a call that needs consent in a run: nobody sits before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gateway.schedules.recipe import RunRecipe
from gateway.schedules.schedule import Unattended
from gateway.strings import say
from runtime.middleware import Deny, HookContext, Middleware, Outcome
from runtime.protocol.checkpoint import Checkpoint

Peek = Callable[[str], Awaitable[Checkpoint | None]]
Abort = Callable[[str, str, str], None]
"""(session id, turn id, reason): end the run's turn, soon."""


class NobodyThere(Middleware):
    """In the run's own turn a request is denied, or denied and the run ended; where people went on, they are asked.

    Nothing is ever allowed here.
    """

    name = "nobody_there"

    def __init__(self, run: RunRecipe, peek: Peek, abort: Abort) -> None:
        self._run = run
        self._peek = peek
        self._abort = abort

    async def permission_request(self, context: HookContext) -> Outcome | None:
        """Decide in place of a person, against the call; None to ask one."""
        if self._run.unattended is Unattended.ASK or not await self._is_own_turn(context):
            return None
        tool = context.call.name if context.call is not None else "?"
        reason = say("cron.nobody_there", tool=tool)
        if self._run.unattended is Unattended.ABORT and context.turn_id is not None:
            self._abort(context.session_id, context.turn_id, reason)
        return Deny(reason)

    async def _is_own_turn(self, context: HookContext) -> bool:
        checkpoint = await self._peek(context.session_id)
        active = None if checkpoint is None else checkpoint.active_execution
        return active is None or active.submission_id == self._run.submission_id
