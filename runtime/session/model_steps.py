"""Asking the model: what is committed before, the call itself, and what becomes of its answer or its failure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from runtime import transitions
from runtime.config import AgentConfig
from runtime.errors import ConfigurationError, ContextTooLong, ModelError, ModelFailed
from runtime.middleware import AddContext
from runtime.models.base import Delta, Model, ModelReply, ModelRequest
from runtime.protocol import events
from runtime.protocol.context import AssistantPart, ToolCall
from runtime.session.complaints import describe
from runtime.session.flight import ModelCall, error_of
from runtime.session.spending import limit_reached
from runtime.session.state import Advance, SessionState
from runtime.session.turns import Turns
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")

RETRY_FIRST_SECONDS = 0.2
RETRY_CAP_SECONDS = 3.2


class ModelSteps:
    """The model calls of one session's turns."""

    def __init__(self, state: SessionState, turns: Turns) -> None:
        self._state = state
        self._turns = turns

    async def start(self, advance: Advance) -> bool:
        """Draft the next model step, or the turn's end where a limit is reached. Nothing follows in the transaction."""
        draft = advance.draft
        reason = limit_reached(draft.checkpoint, self._state.config, draft.now_ms)
        if reason is not None:
            advance.labels.append("terminal")
            reference = self._state.reference()
            self._turns.fail(draft, events.Error(kind="stopped", message=reason, reference=reference))
            return False
        if await self._turns.enter_steers(draft):
            advance.labels.append("steer")
        await self._add_notes(draft)
        step_id = self._state.config.new_id()
        transitions.start_step(draft, step_id)
        self._state.memory.not_before_ms = None
        advance.labels.append("step")
        advance.launch.append(lambda: self._launch(step_id))
        return False

    async def _add_notes(self, draft: Draft) -> None:
        """What hooks want the model to know from now on."""
        for outcome in await self._state.ask_hooks("pre_model", draft, context=draft.checkpoint.context):
            if isinstance(outcome, AddContext):
                transitions.note(draft, outcome.text)

    def _launch(self, step_id: str) -> None:
        flight = self._state.flight
        flight.model = ModelCall(flight.start(self._ask(step_id), "model call"))

    async def _ask(self, step_id: str) -> ModelReply:
        config, checkpoint = self._state.config, self._state.checkpoint
        request = ModelRequest(
            context=checkpoint.context,
            tools=self._state.gate.specs,
            instructions=instructions_of(config),
            reminders=await self._reminders(),
            session_id=self._state.session_id,
        )
        config.faults.reach("model.call.before")
        model = config.models.get(checkpoint.model_route or "")
        reply = await reply_of(model, request, lambda delta: self._stream(step_id, delta))
        config.faults.reach("model.call.after")
        return reply

    async def _reminders(self) -> list[str]:
        """What hooks tell the model in this request only."""
        outcomes = await self._state.ask_hooks("model_request", context=self._state.checkpoint.context)
        return [outcome.text for outcome in outcomes if isinstance(outcome, AddContext)]

    def _stream(self, step_id: str, delta: Delta) -> None:
        active, step = self._state.checkpoint.active_execution, self._state.checkpoint.active_model_step
        if active is None or step is None or step.model_step_id != step_id:
            return  # of a call that was given up and did not end
        if self._state.flight.model is not None:
            self._state.flight.model.text.append(delta.text)
        self._state.progressed()
        self._state.show(events.AssistantDelta(turn_id=active.turn_id, model_step_id=step_id, text=delta.text))

    def take_answer(self, advance: Advance) -> None:
        """Draft what the model call came to, if it has ended. What is no error of a model is raised."""
        call = self._state.flight.model
        if call is None or not call.task.done():
            return
        self._state.flight.model = None
        advance.labels.append("answer")
        error = error_of(call.task)
        if error is None:
            self._take_reply(advance.draft, call.task.result())
        elif isinstance(error, ModelError | ConfigurationError):
            self._take_error(advance, error)
        else:
            raise error

    def _take_reply(self, draft: Draft, reply: ModelReply) -> None:
        window = self._state.window(draft.checkpoint)
        transitions.finish_step(draft, _with_unique_ids(reply.parts), reply.usage, reply.native, window)
        self._state.gauge.measured(reply.usage, draft.checkpoint)
        self._state.memory.attempt = 0
        self._state.memory.authorised = False

    def _take_error(self, advance: Advance, error: ModelError | ConfigurationError) -> None:
        draft, memory = advance.draft, self._state.memory
        if isinstance(error, ContextTooLong) and not memory.tried_to_fit:
            memory.tried_to_fit = memory.too_long = True
            transitions.close_step(draft, "retrying")
            return
        retries_left = memory.attempt < self._state.config.model_retries and not draft.active.interrupted_by
        if isinstance(error, ModelError) and error.retryable and retries_left:
            self._try_again(draft, error)
            return
        advance.labels.append("terminal")
        reference = self._state.reference()
        log.error("model call failed [%s]: %r", reference, error, exc_info=error.__cause__)
        self._turns.fail(draft, describe(error, reference))

    def _try_again(self, draft: Draft, error: ModelError) -> None:
        memory = self._state.memory
        memory.attempt += 1
        delay = retry_delay(self._state.config, error, memory.attempt)
        log.warning("model call failed, attempt %d in %.1f s: %s", memory.attempt + 1, delay, error)
        transitions.close_step(draft, "retrying")
        memory.not_before_ms = draft.now_ms + int(delay * 1000)


def instructions_of(config: AgentConfig) -> str:
    """What the model is told about itself now."""
    return config.instructions if isinstance(config.instructions, str) else config.instructions()


async def reply_of(model: Model, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
    """The model's answer. What is no ModelError is a fault in its code: it fails the turn, not the session."""
    try:
        return await model.step(request, on_delta)
    except ModelError:
        raise
    except Exception as error:
        raise ModelFailed(f"the model's code raised {type(error).__name__}") from error


def retry_delay(config: AgentConfig, error: ModelError, attempt: int) -> float:
    """Seconds until the next attempt: jittered, growing, and never less than the provider asks for."""
    longest = min(RETRY_CAP_SECONDS, RETRY_FIRST_SECONDS * 2**attempt)
    return max(config.random.uniform(RETRY_FIRST_SECONDS, longest), error.retry_after or 0.0)


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
