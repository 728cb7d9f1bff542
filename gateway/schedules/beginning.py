"""A waiting run begins: its row first, then its session and the words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from adapters.contract import Notice, Place
from gateway.access import Right
from gateway.budget import Priority
from gateway.ledger import deliveries, threads
from gateway.ledger import places as place_rows
from gateway.ledger.audit import Subject, audit_statement
from gateway.places import recipe_of
from gateway.schedules import ledger, recipe
from gateway.schedules.announcing import head_of
from gateway.schedules.means import Means
from gateway.schedules.schedule import Announce, Run, RunState, Schedule, State, run_key
from gateway.strings import say
from runtime.errors import ConfigurationError
from runtime.protocol import ops
from runtime.protocol.session import Delivery, SessionContext
from runtime.store.writer import Statement

log = logging.getLogger("pilothouse.schedules")

LEASE_MS = 60_000


async def begin(means: Means, run: Run, schedule: Schedule) -> Run | None:
    """Mark the run as running, with its session; None if it does not run, which its row then says.

    CannotOpen: its workspace is gone. Overtaken: somebody else began it, or changed the schedule.
    """
    now_ms = means.clock.now_ms()
    if not means.access.policy.can(schedule.created_by, Right.TALK):
        await _disable(means, schedule, say("cron.creator_gone", who=schedule.created_by))
        return None
    try:
        label, statements = _opening(means, run, schedule, now_ms)
    except ConfigurationError as error:
        raise CannotOpen(str(error)) from error
    session_id = run_key(schedule.id, run.due_at_ms)
    unit = ledger.begun(
        run, schedule, owner=means.owner, lease_ms=LEASE_MS, session_id=session_id, label=label, now_ms=now_ms
    )
    means.faults.reach("schedule.begin.before")
    await means.database.write([*unit, *statements])
    means.faults.reach("schedule.begin.after")
    means.wake(schedule.plan.target)
    log.info("run %s of %s begins", session_id, schedule.plan.origin, extra={"workspace": label})
    return replace(
        run, state=RunState.RUNNING, owner=means.owner, session_id=session_id, started_at_ms=now_ms,
        lease_until_ms=now_ms + LEASE_MS,
    )  # fmt: skip


def _opening(means: Means, run: Run, schedule: Schedule, now_ms: int) -> tuple[str, Sequence[Statement]]:
    """The label of the workspace, and the rows of the session. ConfigurationError: the workspace is gone."""
    plan = schedule.plan
    workspace = next((one for one in means.places.workspaces if one.id == plan.workspace), None)
    if workspace is None:
        raise ConfigurationError(f"the workspace {plan.workspace!r} is not configured any more; add it or edit this")
    binding = means.places.binding(plan.target)
    session_id = run_key(schedule.id, run.due_at_ms)
    threaded = plan.announce is Announce.ALWAYS and means.opens_threads(plan.target)
    place = threads.new_thread(plan.target, session_id) if threaded else home(plan.target, session_id)
    kept = {**recipe_of(place, binding, workspace), recipe.RUN_KEY: recipe.of_run(schedule, run, threaded=threaded)}
    context = SessionContext(
        user_id=schedule.created_by,
        workspace_id=workspace.id,
        workspace_label=workspace.title,
        origin_label=plan.origin,
    )
    bound = place_rows.bind(place, session_id, context, kept, now_ms)
    started = replace(run, started_at_ms=now_ms, workspace_label=workspace.title)
    return workspace.title, [*bound, *(_root(schedule, started, session_id, now_ms) if threaded else ())]


def _root(schedule: Schedule, run: Run, session_id: str, now_ms: int) -> list[Statement]:
    """The first message of the run's own thread."""
    return threads.plan(
        source=session_id,
        place=schedule.plan.target,
        title=schedule.plan.name,
        root=Notice(text=head_of(schedule, run)),
        priority=Priority.ANSWER,
        now_ms=now_ms,
        session_id=session_id,
    )


def home(target: Place, session_id: str) -> Place:
    """The place of a run's session: in the target's thread, and apart from everybody's conversation there."""
    return replace(target, person=session_id)


async def submit(means: Means, run: Run, schedule: Schedule) -> None:
    """Give the words to the session, once, however often this is called.

    What cannot be opened ends the run as failed; any other error is for the next look.
    """
    session_id = run.session_id
    assert session_id is not None, "a run that runs has its session"
    op = ops.Message(
        text=schedule.plan.prompt, author=schedule.plan.origin, principal=schedule.created_by, delivery=Delivery.QUEUE
    )
    means.faults.reach("schedule.submit.before")
    try:
        receipt = await means.sessions.submit(session_id, op, session_id)
        refusal = receipt.reason or "refused" if receipt.status == "rejected" else None
    except ConfigurationError as error:
        refusal = str(error)
    means.faults.reach("schedule.submit.after")
    if refusal is not None:
        raise CannotOpen(refusal)


class CannotOpen(Exception):
    """The session of a run cannot be opened as things are; the run is over."""


async def _disable(means: Means, schedule: Schedule, reason: str) -> None:
    """It cannot go on: nothing of it runs any more, and people are told."""
    now_ms = means.clock.now_ms()
    text = say("cron.disabled", name=schedule.plan.origin, id=schedule.id, reason=reason)
    subject = Subject(place=schedule.plan.target, origin_label=schedule.plan.origin)
    unit = [
        *ledger.change_state(schedule, State.DISABLED, reason, now_ms),
        audit_statement(now_ms, "schedule_disabled", principal=schedule.created_by, subject=subject),
        *notice(schedule, f"disabled:{schedule.revision}", text, now_ms),
    ]
    await means.database.write(unit)
    log.warning("%s", text)
    means.wake(schedule.plan.target)
    await means.tell_owner(text)


def notice(schedule: Schedule, name: str, text: str, now_ms: int) -> list[Statement]:
    """Words of ours about a schedule, in its target; said once under their name."""
    return deliveries.plan(
        source=f"cron:{schedule.id}:{name}",
        surface="notice",
        place=schedule.plan.target,
        views=[Notice(text=text, level="warning", notify=True)],
        priority=Priority.CONTROL,
        now_ms=now_ms,
    )
