"""What a turn and a session may use. Pure."""

from __future__ import annotations

from runtime.config import AgentConfig, SessionLimits
from runtime.protocol.checkpoint import ActiveExecution, Checkpoint
from runtime.protocol.context import Usage


def limit_reached(checkpoint: Checkpoint, config: AgentConfig, now_ms: int) -> str | None:
    """Why the running turn may not ask its model again, as a sentence for people, or None."""
    active = checkpoint.active_execution
    assert active is not None, "no turn runs"
    return _turn_limit(active, config, now_ms) or _session_limit(checkpoint.total_usage, config.session_limits)


def _turn_limit(active: ActiveExecution, config: AgentConfig, now_ms: int) -> str | None:
    limits = config.limits
    if active.next_model_step >= config.max_model_steps:
        return f"The turn was ended after {config.max_model_steps} model steps."
    if active.tool_calls >= limits.tool_calls:
        return f"The turn was ended after {limits.tool_calls} tool calls."
    if limits.tokens is not None and active.usage.total_tokens >= limits.tokens:
        return f"The turn was ended after {limits.tokens} tokens."
    if limits.cost_usd is not None and active.usage.cost_usd >= limits.cost_usd:
        return f"The turn was ended: it has cost {limits.cost_usd:.2f} USD."
    if limits.seconds is not None and now_ms - active.started_at_ms >= limits.seconds * 1000:
        return f"The turn was ended after {limits.seconds:g} seconds."
    return None


def _session_limit(total: Usage, limits: SessionLimits) -> str | None:
    if limits.tokens is not None and total.total_tokens >= limits.tokens:
        return f"This session has used its {limits.tokens} tokens; a new session may go on."
    if limits.cost_usd is not None and total.cost_usd >= limits.cost_usd:
        return f"This session has cost its {limits.cost_usd:.2f} USD; a new session may go on."
    return None


def calls_left(checkpoint: Checkpoint, config: AgentConfig) -> int:
    """How many calls the running turn may still begin."""
    active = checkpoint.active_execution
    assert active is not None, "no turn runs"
    begun = sum(tool.state == "started" for tool in checkpoint.pending_tools)
    return config.limits.tool_calls - active.tool_calls - begun
