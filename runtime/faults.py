"""Named points at which a test may stop the process.

In use every point is a no-op. The crash sweep switches one on; a point that no sweep ever reaches fails the sweep.
"""

from __future__ import annotations

from typing import Protocol


class Faults(Protocol):
    """Told of each named point as the program passes it."""

    def reach(self, point: str) -> None:
        """Called at `point`; may kill the process or raise."""
        ...


class NoFaults:
    """Nothing ever goes wrong."""

    def reach(self, point: str) -> None:
        """Do nothing."""


NO_FAULTS: Faults = NoFaults()

POINTS: dict[str, str] = {
    "store.before_commit": "a batch of saves is written but not committed",
    "store.after_commit": "a batch of saves is committed and nobody was told",
    "agent.accept.before": "a message is about to be made durable",
    "agent.accept.after": "a message is durable and its receipt was not given",
    "agent.take.before": "a message is about to enter its turn",
    "agent.take.after": "a turn has started",
    "agent.step.before": "a model call is about to start",
    "agent.step.after": "a model call has answered and nothing of it is stored",
    "agent.approval.before": "an approval is about to be asked for",
    "agent.approval.after": "an approval is stored and nobody was asked",
    "agent.decision.before": "a decision is about to be stored",
    "agent.decision.after": "a decision is stored and nothing has run",
    "agent.tool.before": "a call is marked as started and has not run",
    "agent.tool.after": "a call has had its effect and its result is not stored",
    "agent.result.after": "a result is stored",
    "agent.terminal.before": "a turn is about to end",
    "agent.terminal.after": "a turn has ended and nobody was told",
}
