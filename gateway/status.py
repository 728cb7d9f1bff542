"""Lines about a session for /status, /queue and /usage: pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from adapters.contract import Place
from gateway import looping
from gateway.config.model import WorkspaceSection
from gateway.handling import clock_time
from gateway.ledger.deliveries import UnknownDelivery
from gateway.ledger.places import PlaceSession
from gateway.looping import loop_lines
from gateway.strings import say
from runtime.protocol.approvals import Grant, PendingApproval
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.context import Usage

SHORT_ID = 6
"""Characters of an id that people type."""

PREVIEW = 60


def short_id(whole: str) -> str:
    """What people type for a request or grant; any longer beginning of the id does as well."""
    return whole[:SHORT_ID]


def label_lines(session: PlaceSession, workspaces: Sequence[WorkspaceSection]) -> list[str]:
    """Session and both labels, as stored; and what to do if the configuration calls the workspace otherwise now."""
    context = session.context
    lines = [
        say("status.session", session=session.session_id),
        say("status.workspace", label=context.workspace_label or "-"),
        say("status.origin", label=context.origin_label or "-"),
    ]
    now = next((one.title for one in workspaces if one.id == context.workspace_id), None)
    if now is not None and now != context.workspace_label:
        lines.append(say("status.label_changed", label=now))
    return lines


def no_session_lines(place: Place, workspace: WorkspaceSection) -> list[str]:
    """The same for a place in which nothing was said yet."""
    return [
        say("status.no_session"),
        say("status.workspace", label=workspace.title),
        say("status.origin", label=place.platform),
    ]


def activity_lines(checkpoint: Checkpoint | None) -> list[str]:
    """What runs, and what waits."""
    loop = loop_lines(checkpoint) if looping.running(checkpoint) is not None else []
    if checkpoint is None or (checkpoint.idle and not checkpoint.pending_messages):
        return loop or [say("status.idle")]
    return [say("status.phase", phase=phase(checkpoint)), *loop, *queue_lines(checkpoint)]


def phase(checkpoint: Checkpoint) -> str:
    """Where the turn stands, in a few words."""
    active, approval = checkpoint.active_execution, checkpoint.pending_approval
    if active is None:
        return say("phase.idle")
    if active.interrupted_by is not None:
        return say("phase.stopping")
    if approval is not None and approval.decision is None:
        return say("phase.waiting")
    running = [tool.call.name for tool in checkpoint.pending_tools if tool.state == "started"]
    if running:
        return say("phase.tools", names=", ".join(running))
    return say("phase.thinking", step=active.next_model_step + 1)


def queue_lines(checkpoint: Checkpoint | None) -> list[str]:
    """What waits, by position."""
    waiting = checkpoint.pending_messages if checkpoint is not None else ()
    return [
        say("status.queued", n=position, author=message.author, text=preview(message.text))
        for position, message in enumerate(waiting, start=1)
    ]


def preview(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW else f"{line[: PREVIEW - 1]}…"


def request_line(approval: PendingApproval) -> str:
    """A request that waits, with the id to type."""
    tools = ", ".join(sorted({approval.actions[call].tool for call in approval.gated if call in approval.actions}))
    return say("status.request", id=short_id(approval.request_id), tools=tools or "-")


def unknown_line(delivery: UnknownDelivery) -> str:
    """A message of ours of which nobody can say whether it arrived."""
    return say("status.unknown", at=clock_time(delivery.created_at_ms))


def usage_lines(checkpoint: Checkpoint) -> list[str]:
    """What the session has used."""
    stats, usage = checkpoint.execution_stats, checkpoint.total_usage
    return [
        say(
            "usage.turns",
            n=stats.run_count,
            failed=stats.failed_run_count,
            aborted=stats.aborted_run_count,
            tools=stats.tool_calls,
        ),
        say("usage.tokens", input=usage.input_tokens, output=usage.output_tokens, cost=_cost(usage)),
    ]


def _cost(usage: Usage) -> str:
    cost = f"${usage.cost_usd:.2f}" if usage.cost_usd >= 0.01 or not usage.cost_usd else f"${usage.cost_usd:.4f}"
    return cost if usage.cost_usd or not usage.total_tokens else say("usage.no_price", cost=cost)


def grant_line(grant: Grant) -> str:
    """What is allowed without asking, and until when."""
    until = f"{datetime.fromtimestamp(grant.expires_at_ms / 1000, UTC):%Y-%m-%d}"
    return say("grants.line", id=short_id(grant.id), what=grant.summary or grant.tool, until=until)
