"""What a run adds to its session: fixed when it begins, kept in the session's recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.schedules.schedule import Announce, Run, Schedule, Unattended, run_key
from runtime.protocol.context import JsonValue

RUN_KEY = "run"
"""Where it stands in a recipe."""

FORBIDDEN_TOOLS = frozenset({"schedule_task"})
"""A run makes no schedules, whatever its creator may do: what is started by nobody starts nothing that lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecipe:
    """How the session of a run differs from that of a chat. `submission_id` is that of the run's own turn."""

    schedule_id: int
    name: str
    due_at_ms: int
    submission_id: str
    agent: str | None
    model: str | None
    tools: tuple[str, ...] | None
    unattended: Unattended
    approval_seconds: int
    timeout_seconds: int
    announce: Announce
    threaded: bool

    def may_use(self, tool: str) -> bool:
        """Whether the run has the tool."""
        return tool not in FORBIDDEN_TOOLS and (self.tools is None or tool in self.tools)


def of_run(schedule: Schedule, run: Run, *, threaded: bool) -> dict[str, JsonValue]:
    """What is kept; `threaded`: its result goes into a thread of its own, under its head."""
    plan = schedule.plan
    return {
        "schedule": schedule.id,
        "name": plan.name,
        "due_at_ms": run.due_at_ms,
        "submission": run_key(schedule.id, run.due_at_ms),
        "agent": plan.agent,
        "model": plan.model,
        "tools": None if plan.tools is None else list(plan.tools),
        "unattended": plan.unattended.value,
        "approval_seconds": plan.approval_seconds,
        "timeout_seconds": plan.timeout_seconds,
        "announce": plan.announce.value,
        "threaded": threaded,
    }


def in_recipe(recipe: Mapping[str, JsonValue]) -> RunRecipe | None:
    """What was kept; None for a session that a person began."""
    kept = recipe.get(RUN_KEY)
    if not isinstance(kept, dict):
        return None
    tools = kept["tools"]
    return RunRecipe(
        schedule_id=int(str(kept["schedule"])),
        name=str(kept["name"]),
        due_at_ms=int(str(kept["due_at_ms"])),
        submission_id=str(kept["submission"]),
        agent=None if kept["agent"] is None else str(kept["agent"]),
        model=None if kept["model"] is None else str(kept["model"]),
        tools=tuple(map(str, tools)) if isinstance(tools, list) else None,
        unattended=Unattended(str(kept["unattended"])),
        approval_seconds=int(str(kept["approval_seconds"])),
        timeout_seconds=int(str(kept["timeout_seconds"])),
        announce=Announce(str(kept["announce"])),
        threaded=bool(kept["threaded"]),
    )
