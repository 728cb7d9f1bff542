"""A model behind an address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

Close: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where a model is and what it is called. `timeout_seconds` bounds a silence of the server, not a whole answer."""

    base_url: str
    api_key: str = field(repr=False)
    model: str
    context_window: int
    timeout_seconds: float
