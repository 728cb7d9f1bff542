"""The built-in demo model: needs no account, no key and no network, and uses the real tools."""

from __future__ import annotations

import re
from collections.abc import Callable

from runtime.clock import Clock, SystemClock
from runtime.models.base import Delta, ModelReply, ModelRequest
from runtime.models.demo_plan import Plan, Say, plan
from runtime.protocol.context import AssistantPart, TextPart

WORD_SECONDS = 0.03


class DemoModel:
    """Follows a handful of plain requests and streams word by word, so that a person can steer it or stop it.

    `word_seconds` is the pause before each word; 0 streams without any. What it decides is `demo_plan.plan`, a pure
    function of the conversation: the model holds nothing, and a restart changes nothing.
    """

    def __init__(
        self,
        *,
        name: str = "demo",
        context_window: int = 100_000,
        clock: Clock | None = None,
        word_seconds: float = WORD_SECONDS,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self._clock = clock or SystemClock()
        self._word_seconds = word_seconds

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The next answer. It counts no tokens, so its usage is zero. Cancellation ends it between two words."""
        planned = plan(request.context, {spec.name for spec in request.tools})
        text = await self._spoken(planned, on_delta)
        words: tuple[AssistantPart, ...] = (TextPart(text=text),) if text else ()
        return ModelReply(parts=(*words, *planned.calls), end_turn=not planned.calls)

    async def _spoken(self, planned: Plan, on_delta: Callable[[Delta], None]) -> str:
        spoken: list[str] = []
        for say in planned.says:
            if say.silence_seconds:
                await self._clock.sleep(say.silence_seconds)
            for piece in _pieces(say, first=not spoken):
                await self._clock.sleep(self._word_seconds if say.word_seconds is None else say.word_seconds)
                on_delta(Delta(text=piece))
                spoken.append(piece)
        return "".join(spoken)


def _pieces(say: Say, *, first: bool) -> list[str]:
    """The words with the blanks before them; a paragraph after another begins with an empty line."""
    return re.findall(r"\s*\S+|\s+", say.text if first else f"\n\n{say.text}")
