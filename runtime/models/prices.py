"""What tokens cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars for a million tokens. `cached_input` of None: what comes from a cache costs as much as any input."""

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, *, input_tokens: int, output_tokens: int, cache_read_tokens: int = 0) -> float:
        """US dollars for a request; `input_tokens` holds those that were read from the cache."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, input_tokens - cache_read_tokens)
        return (fresh * self.input + cache_read_tokens * cached + output_tokens * self.output) / 1_000_000
