"""Calling the hooks of a session's middleware, in order."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace

from runtime.middleware import HookContext, Middleware, Outcome

NAMES = tuple(name for name, hook in vars(Middleware).items() if inspect.iscoroutinefunction(hook))


class Hooks:
    """The middleware of one session."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        self._middleware = tuple(middleware)
        self._there = {hook for hook in NAMES if any(_has(each, hook) for each in self._middleware)}

    def any(self, *hooks: str) -> bool:
        """Whether some middleware really has one of these hooks."""
        return not self._there.isdisjoint(hooks)

    async def run(self, hook: str, context: HookContext, *, reverse: bool = False) -> tuple[Outcome, ...]:
        """Every outcome, in order. What a hook raises passes: it is a failure of infrastructure."""
        outcomes: list[Outcome] = []
        for each in reversed(self._middleware) if reverse else self._middleware:
            outcome = await getattr(each, hook)(replace(context))
            if outcome is not None:
                outcomes.append(outcome)
        return tuple(outcomes)


def _has(middleware: Middleware, hook: str) -> bool:
    own = getattr(type(middleware), hook) is not getattr(Middleware, hook)
    return own or hook in getattr(middleware, "__dict__", ())
