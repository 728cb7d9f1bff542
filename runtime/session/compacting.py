"""Making a conversation shorter: the summary, asked for by a person or needed by a turn, and its new epoch."""

from __future__ import annotations

import logging

from runtime import transitions
from runtime.errors import ContextTooLong, ModelError, ModelRefused
from runtime.middleware import Stop
from runtime.models.base import ModelRequest
from runtime.protocol import events
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.context import Usage
from runtime.session.compaction import HEADING, LEFT_OUT, cut_point, summary_of, summary_request
from runtime.session.complaints import describe
from runtime.session.flight import Compaction, error_of
from runtime.session.mailbox import Asked
from runtime.session.model_steps import instructions_of, reply_of, retry_delay
from runtime.session.receipts import accepted, refused
from runtime.session.state import Advance, SessionState
from runtime.session.turns import Turns
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")


class Compactions:
    """The summaries of one session."""

    def __init__(self, state: SessionState, turns: Turns) -> None:
        self._state = state
        self._turns = turns

    def needed(self, checkpoint: Checkpoint) -> bool:
        """Whether the context has to become shorter before the model is asked again."""
        memory = self._state.memory
        return memory.too_long or (not memory.long_enough and self._beyond_limit(checkpoint))

    def _beyond_limit(self, checkpoint: Checkpoint) -> bool:
        return self._state.gauge.tokens(checkpoint) >= self._state.config.compact_at * self._state.window(checkpoint)

    async def begin(self, asked: Asked) -> str | None:
        """Start what a person asked for; a sentence if it cannot be done."""
        checkpoint = self._state.checkpoint
        if not checkpoint.idle or self._state.flight.compaction is not None:
            return "the context cannot be summarised while a turn runs"
        keep_from = cut_point(checkpoint.context, self._state.window(checkpoint))
        if keep_from is None:
            return "there is nothing to summarise yet"
        refusal = await self._refusal()
        if refusal is not None:
            return f"the context is not summarised: {refusal}"
        self._launch(keep_from, asked)
        return None

    async def _refusal(self) -> str | None:
        for outcome in await self._state.ask_hooks("pre_compact"):
            if isinstance(outcome, Stop):
                return outcome.reason
        return None

    async def shorten(self, advance: Advance) -> bool:
        """Let a summary be made for the running turn; whether the turn may go on at once, without one."""
        draft, memory = advance.draft, self._state.memory
        keep_from = cut_point(draft.checkpoint.context, self._state.window(draft.checkpoint))
        if keep_from is not None and await self._refusal() is None:
            advance.launch.append(lambda: self._launch(keep_from))
            return False
        memory.long_enough = True
        if not memory.too_long:
            return True
        advance.labels.append("terminal")
        self._turns.fail(draft, describe(ContextTooLong("nothing can be left out"), self._state.reference()))
        return False

    def _launch(self, keep_from: int, asked: Asked | None = None) -> None:
        state = self._state
        request = summary_request(state.checkpoint, keep_from, state.gate.specs, instructions_of(state.config))
        task = state.flight.start(self._summarise(request), "summary")
        state.flight.compaction = Compaction(task, keep_from, asked)

    async def _summarise(self, request: ModelRequest) -> tuple[str, Usage]:
        """The summary and what it took. ModelError once the retries are used up."""
        config = self._state.config
        model = config.models.get(self._state.checkpoint.model_route or "")
        attempt = 0
        while True:
            try:
                config.faults.reach("compaction.call.before")
                reply = await reply_of(model, request, lambda _: None)
                config.faults.reach("compaction.call.after")
            except ModelError as error:
                attempt += 1
                if not error.retryable or attempt > config.model_retries:
                    raise
                await self._state.clock.sleep(retry_delay(config, error, attempt))
                continue
            text = summary_of(reply)
            if text is None:
                raise ModelRefused("the model gave no summary")
            return HEADING + text, reply.usage

    async def finish(self, done: Compaction) -> None:
        """Store the new epoch in a transaction of its own, or leave the context as it is."""
        draft = self._state.draft()
        error = error_of(done.task)
        if error is None:
            summary, usage = done.task.result()
        elif not isinstance(error, ModelError):
            raise error
        elif self._state.memory.too_long:  # without a summary it fits at least
            summary, usage = LEFT_OUT.format(count=done.keep_from), Usage()
        else:
            await self._leave_as_it_is(draft, done, error)
            return
        await self._begin_epoch(draft, done, summary, usage)

    async def _begin_epoch(self, draft: Draft, done: Compaction, summary: str, usage: Usage) -> None:
        asked, memory = done.asked, self._state.memory
        transitions.compact(draft, summary, done.keep_from, usage, asked.submission_id if asked else None)
        receipt = accepted(draft, asked.submission_id) if asked else None
        await self._state.commit(draft, "compact")
        memory.too_long = False
        memory.long_enough = self._beyond_limit(self._state.checkpoint)  # a second summary would gain nothing
        self._told(asked, receipt)
        await self._state.ask_hooks("post_compact")

    async def _leave_as_it_is(self, draft: Draft, done: Compaction, error: ModelError) -> None:
        """The conversation goes on as it is; who asked for the summary is told."""
        self._state.memory.long_enough = True
        reference = self._state.reference()
        log.error("the summary failed [%s]: %r", reference, error, exc_info=error.__cause__)
        text = f"The context could not be summarised ({reference}): {describe(error, reference).message}"
        asked = done.asked
        receipt = refused(draft, asked.submission_id, text) if asked else None
        if receipt is None:
            draft.emit(events.Warning(message=text))
        await self._state.commit(draft, "accept")
        self._told(asked, receipt)

    def _told(self, asked: Asked | None, receipt: Receipt | None) -> None:
        """It is in flight until its commit: who asked is told if that fails."""
        self._state.flight.compaction = None
        if asked is not None and receipt is not None:
            asked.answer(receipt)
