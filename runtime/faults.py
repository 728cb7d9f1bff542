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

COMMITS: dict[str, str] = {
    "start": "the start-up transaction of a session",
    "accept": "a message is made durable",
    "take": "a message starts its turn",
    "steer": "a message enters the running turn",
    "step": "a model call is marked as started",
    "answer": "the answer of a model call",
    "approval": "an approval is asked for",
    "decision": "an approval is decided",
    "tool": "a call is marked as started",
    "result": "the result of a call",
    "terminal": "a turn ends",
    "compact": "the context is replaced by its summary",
    "loop": "a loop ends at a boundary",
    "mirror": "the end of a loop becomes the session's own",
    "loop_end": "the end of a loop is told",
}
"""What a commit of an agent holds; each has a point before and after it."""

POINTS: dict[str, str] = {
    "store.before_commit": "a batch of saves is written but not committed",
    "store.after_commit": "a batch of saves is committed and nobody was told",
    **{f"agent.{name}.before": f"not yet stored: {what}" for name, what in COMMITS.items()},
    **{f"agent.{name}.after": f"stored, and nobody was told: {what}" for name, what in COMMITS.items()},
    "model.call.before": "a model is about to be asked",
    "model.call.after": "a model has answered, and nothing of it is stored",
    "compaction.call.before": "a model is about to be asked for a summary",
    "compaction.call.after": "a model has given a summary, and it is not stored",
    "tool.run.before": "a call is about to have its effect",
    "tool.run.after": "a call has had its effect, and its result is not stored",
}
