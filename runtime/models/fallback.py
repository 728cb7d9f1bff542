"""A route with others behind it, for the time in which the first one cannot be reached."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from runtime.clock import Clock
from runtime.errors import ConfigurationError, ContextTooLong, ModelError, ModelUnavailable
from runtime.models.base import Delta, Model, ModelReply, ModelRequest

log = logging.getLogger(__name__)

REST_SECONDS = 60.0
"""How long a model that failed is left alone, where its provider named no time."""


class FallbackModel:
    """Asks the first of its models that has not failed lately. `name` and `context_window` are the first one's.

    A model that fails (not reached, over its rate, quota or key refused) rests, and its failure is raised as one that
    may be tried again: the runtime then closes the attempt and asks once more, and the next model answers. So each
    attempt is a step of its own, and what streamed of a broken answer is never continued by another model. A
    conversation that is too long, or a request that fails with all models, is raised as it is.
    """

    def __init__(self, models: Sequence[Model], clock: Clock) -> None:
        if not models:
            raise ConfigurationError("a fallback needs at least one model")
        self._models = tuple(models)
        self._clock = clock
        self._rests_until_ms = [0] * len(models)

    @property
    def name(self) -> str:
        """The first model's name."""
        return self._models[0].name

    @property
    def context_window(self) -> int:
        """The first model's window, in tokens."""
        return self._models[0].context_window

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once. ModelUnavailable, to be tried at once, if the model failed and another one is left to ask."""
        index = self._next()
        model = self._models[index]
        try:
            reply = await model.step(request, on_delta)
        except ContextTooLong:
            raise
        except ModelError as error:
            other = self._rest(index, error)
            if other is None:
                raise
            log.warning("%s; %s is asked instead", error, other.name)
            raise ModelUnavailable(f"{error}; {other.name} is asked instead") from error
        self._rests_until_ms[index] = 0
        return reply

    def _next(self) -> int:
        """The first that does not rest; if all do, the one that may be asked soonest."""
        now = self._clock.now_ms()
        return min(range(len(self._models)), key=lambda index: max(0, self._rests_until_ms[index] - now))

    def _rest(self, index: int, error: ModelError) -> Model | None:
        """Let a model rest; who is asked next, or None if everyone has failed."""
        now = self._clock.now_ms()
        seconds = error.retry_after if error.retry_after is not None else REST_SECONDS
        self._rests_until_ms[index] = now + int(seconds * 1000)
        if all(until > now for until in self._rests_until_ms):
            return None
        return self._models[self._next()]
