"""S-32: a schedule has less power than whoever made it, and that is checked when it fires."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.schedules import recipe
from gateway.schedules.recipe import FORBIDDEN_TOOLS, in_recipe
from gateway.schedules.schedule import Unattended
from gateway.schedules.unattended import NobodyThere
from runtime.policy import ApprovalPolicy
from runtime.protocol.context import ToolCall
from tests.support.intake import Stage
from tests.support.intake_runtime import runtime_stage
from tests.support.scheduling import HOUR, timetable


async def test_a_run_has_the_tools_of_its_list_and_makes_no_schedules(tmp_path: Path) -> None:
    """What is kept of it says so, whatever the schedule was given."""
    async with timetable(tmp_path) as t:
        await t.add("every 1h tools=read_file,schedule_task unattended=deny go")
        await t.at(HOUR)
        [session] = t.sessions.going_on
        opening = await t.stage.places.opening(session)
        assert opening is not None
        run = in_recipe(opening.recipe)
        assert run is not None
        names = ("read_file", "write_file", "schedule_task", "shell")
        assert [name for name in names if run.may_use(name)] == ["read_file"]
        assert not any(replace(run, tools=None).may_use(name) for name in FORBIDDEN_TOOLS)
        assert in_recipe({}) is None
        assert recipe.RUN_KEY in opening.recipe


async def until_idle(s: Stage, session: str) -> None:
    """Return once no turn runs."""
    while not (await s.sessions.peek(session)).idle:
        assert not await s.rows("SELECT 1 FROM approvals WHERE open = 1 AND decision IS NULL"), "somebody was asked"


@pytest.mark.parametrize("unattended", [Unattended.DENY, Unattended.ABORT])
async def test_nobody_is_asked_where_nobody_sits(tmp_path: Path, unattended: Unattended) -> None:
    """In the run's own turn the call does not run, though the policy allows everything; a later turn asks."""
    aborted: list[tuple[str, str, str]] = []
    held: list[Stage] = []
    run = recipe.RunRecipe(
        schedule_id=1, name="go", due_at_ms=1, submission_id="in:1", agent=None, model=None, tools=None,
        unattended=unattended, approval_seconds=60, timeout_seconds=60, announce="always", threaded=False,  # type: ignore[arg-type]
    )  # fmt: skip
    guard = NobodyThere(run, lambda session: held[0].sessions.peek(session), lambda *turn: aborted.append(turn))
    gated = [ToolCall(call_id="c1", name="gated")]
    replies = [gated, "done", [ToolCall(call_id="c2", name="gated")], "done"]
    policy = ApprovalPolicy.ALLOW
    async with runtime_stage(tmp_path, replies=replies, middleware=[guard], approval_policy=policy) as (s, tool):
        held.append(s)
        await s.say("go")
        session = await s.session_of()
        await until_idle(s, session)
        assert tool.runs == []
        assert [turn[0] for turn in aborted] == ([session] if unattended is Unattended.ABORT else [])
        await s.say("and now a person")
        while not await s.rows("SELECT 1 FROM approvals WHERE open = 1 AND decision IS NULL"):
            assert tool.runs == []
        assert len(aborted) == (1 if unattended is Unattended.ABORT else 0)


async def test_a_run_that_was_to_be_aborted_has_failed(tmp_path: Path) -> None:
    """Its turn is interrupted, and its row says why, also if the turn was quicker."""
    async with timetable(tmp_path) as t:
        made = await t.add("every 1h go")
        for quicker in (False, True):
            await t.at(HOUR)
            [session] = t.sessions.going_on
            turn = t.sessions.session(session).turn.turn_id
            t.runner.abort(session, turn, "shell needs consent")
            if quicker:
                t.sessions.end(session)
            await t.runner.look()
            await t.runner.look()
            run = (await t.runs(made))[-1]
            assert (str(run.state), run.reason) == ("failed", "shell needs consent")
