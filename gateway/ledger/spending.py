"""What models have cost, by day: rows that only grow."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.ledger.database import Rows
from runtime.protocol.context import Usage
from runtime.store.writer import Statement

WHOLE = ""
"""Stands for the whole gateway where a binding is named."""


def spent(day: str, bindings: tuple[str, ...], usage: Usage) -> list[Statement]:
    """Add what one call has cost to the day, for each of the bindings."""
    return [
        Statement(
            "INSERT INTO spending (day, binding, usd, input_tokens, output_tokens) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (day, binding) DO UPDATE SET usd = usd + excluded.usd,"
            " input_tokens = input_tokens + excluded.input_tokens,"
            " output_tokens = output_tokens + excluded.output_tokens",
            (day, binding, max(0.0, usage.cost_usd), usage.input_tokens, usage.output_tokens),
        )
        for binding in bindings
    ]


async def of_day(database: Rows, day: str) -> Mapping[str, float]:
    """US dollars of a day by binding."""
    return dict(await database.read("SELECT binding, usd FROM spending WHERE day = ?", (day,)))  # type: ignore[arg-type]
