"""Numbers and instants as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.strings import say, some
from runtime.protocol.context import Usage


def duration(milliseconds: int) -> str:
    """`0:42`, `1:12` or `1:02:03`."""
    seconds = max(0, milliseconds) // 1000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def clock_time(at_ms: int) -> str:
    """`14:02 UTC`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M} UTC"


def moment(at_ms: int, now_ms: int) -> str:
    """`14:02 UTC`, with the date where it is not today's."""
    at, now = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (at_ms, now_ms))
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M} UTC"


def tools(count: int) -> str:
    """`1 tool` or `6 tools`."""
    return some(count, "count.tool", "count.tools")


def counters(tool_calls: int, usage: Usage, *, with_cost: bool) -> list[str]:
    """Tools, tokens and cost, as far as there is something to count."""
    parts: list[str] = []
    if tool_calls:
        parts.append(tools(tool_calls))
    if usage.total_tokens:
        parts.append(say("count.tokens", n=_thousands(usage.total_tokens)))
    if with_cost and usage.cost_usd > 0:
        parts.append(say("count.cost", amount=f"{max(usage.cost_usd, 0.01):.2f}"))
    return parts


def _thousands(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 10_000 else f"{count // 1000}k"
