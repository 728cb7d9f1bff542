"""`schedule_task`: always asked for, whole, with the time in words; made once, where the conversation is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.schedules import ledger
from gateway.schedules.tool import ScheduleTask
from runtime.errors import ToolError
from runtime.policy import ApprovalPolicy
from runtime.protocol.context import ToolCall
from runtime.session.gate import Ask, Gate
from runtime.tools.base import ToolContext, Workspace
from tests.support.intake import ANN_PRIVATE, OWNER, Stage, stage

WEEKDAYS = {"prompt": "Write a summary.", "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "name": "Report"}


@pytest.fixture
async def s(tmp_path: Path):
    async with stage(tmp_path) as made:
        await made.say("hello")
        yield made


def tool_of(s: Stage) -> ScheduleTask:
    """The tool, in the zone UTC."""
    return ScheduleTask(s.places, s.database, clock=s.clock, zone=lambda: "UTC", made=lambda: None)


async def context_of(s: Stage, key: str = "k1") -> ToolContext:
    """A call of Ann's, in her private chat."""
    workspace = Workspace(id="notes", label="Notes", path=Path("/srv/notes"))
    return ToolContext(
        session_id=await s.session_of(), turn_id="t", call_id="c", workspace=workspace, principal=OWNER,
        idempotency_key=key,
    )  # fmt: skip


async def test_it_is_asked_for_whatever_is_allowed(s: Stage) -> None:
    """The request has the whole text, the time in words and the next three runs; no grant of a session covers it."""
    gate = Gate(
        [tool_of(s)], ApprovalPolicy.ALLOW, clock=s.clock, redact=str, output_limit=1000, new_reference=lambda: "r"
    )
    call = ToolCall(call_id="c", name="schedule_task", arguments={**WEEKDAYS, "next_runs": ["never"], "when": "now"})
    verdict = await gate.authorise(call, await context_of(s), (), s.clock.now_ms())
    assert isinstance(verdict, Ask)
    assert verdict.action.arguments == {
        **WEEKDAYS,
        "when": "At 09:00 on Monday through Friday (Europe/Berlin)",
        "next_runs": ["Mon 2027-01-18 09:00 CET", "Tue 2027-01-19 09:00 CET", "Wed 2027-01-20 09:00 CET"],
    }
    assert gate.high_risk([call])
    s.clock.advance(7 * 86_400)  # what was shown is what runs, though the next runs are others by now
    again = await gate.action("schedule_task", verdict.action.arguments, await context_of(s))
    assert again.digest() == verdict.action.digest()


async def test_it_is_made_once_where_the_conversation_is(s: Stage) -> None:
    """Done again under its key, it is the same schedule; target and creator are not the model's to say (C24)."""
    tool = tool_of(s)
    arguments: Any = tool.validate(ToolCall(call_id="c", name="schedule_task", arguments=WEEKDAYS))
    said = [await tool.run(arguments, await context_of(s)) for _ in range(2)]
    assert said[0] == said[1]
    assert said[0].startswith("Made schedule #1 (Report): At 09:00 on Monday through Friday (Europe/Berlin). Next: Mon")
    [made] = await ledger.every(s.database)
    assert (made.plan.target, made.plan.workspace, made.created_by) == (ANN_PRIVATE, "notes", OWNER)
    await tool.run(arguments, await context_of(s, "k2"))
    assert len(await ledger.every(s.database)) == 2


BAD = [
    ({"prompt": "x"}, "exactly one"),
    ({"prompt": "x", "cron": "0 9 * * *", "every": "2h"}, "exactly one"),
    ({"prompt": "x", "cron": "0 9 * *"}, "five fields"),
    ({"prompt": "x", "every": "soon"}, "every 2h"),
    ({"prompt": "x", "at": "tomorrow"}, "no time"),
    ({"prompt": "x", "at": "2020-01-01T00:00"}, "never be due"),
    ({"prompt": "x", "every": "2h", "timezone": "Mars"}, "time zone"),
    ({"prompt": " ", "every": "2h"}, "what is to be done"),
    ({"every": "2h"}, "prompt"),
    ({"prompt": "x", "every": "2h", "chat": "-100"}, "chat"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD)
async def test_what_cannot_be_is_told_to_the_model(s: Stage, arguments: Any, named: str) -> None:
    """Before anybody is asked."""
    with pytest.raises(ToolError, match=named):
        tool_of(s).validate(ToolCall(call_id="c", name="schedule_task", arguments=arguments))
