"""The one way to a tool: what runs is what was decided, and whatever cannot be decided does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from runtime.errors import SandboxError, ToolError
from runtime.policy import ApprovalPolicy
from runtime.protocol import Action, Grant
from runtime.session.gate import Ask, Gate, Refuse, Run, Ticket
from runtime.testing import FakeClock
from runtime.tools.base import ToolContext, ToolOutput
from tests.support.sessions import Work, advance_when_asleep, call

CONTEXT = ToolContext(session_id="s", turn_id="t", call_id="c", principal="ann")


def gate(*tools: Any, policy: ApprovalPolicy = ApprovalPolicy.ASK, clock: Any = None, **options: Any) -> Gate:
    settings: dict[str, Any] = {"redact": str, "output_limit": 1000, "new_reference": lambda: "REF123", **options}
    return Gate(tools, policy, clock=clock or FakeClock(), **settings)


def ticket(action: Action, *, digest: str | None = None) -> Ticket:
    return Ticket(call_id="c", action=action, digest=digest or action.digest(), idempotency_key="k")


async def action_of(tool: Any, **arguments: Any) -> Action:
    return await gate(tool).action(tool.name, arguments, CONTEXT)


def grant(action: Action, **fields: Any) -> Grant:
    made = Grant(
        id="g",
        session_id="s",
        digest=action.grant_digest(),
        tool=action.tool,
        summary="",
        granted_by="ann",
        granted_at_ms=0,
        expires_at_ms=1_000,
    )
    return replace(made, **fields)


POLICY = {"ask": ApprovalPolicy.ASK, "allow": ApprovalPolicy.ALLOW, "deny": ApprovalPolicy.DENY}


@pytest.mark.parametrize(
    ("approval", "rule", "verdict"),
    [
        ("policy", "ask", Ask),
        ("policy", "allow", Run),
        ("policy", "deny", Refuse),
        ("always", "ask", Ask),
        ("always", "allow", Ask),
        ("always", "deny", Refuse),
        ("never", "ask", Run),
        ("never", "allow", Run),
        ("never", "deny", Run),
    ],
)
async def test_policy_and_tool_decide_together(approval: str, rule: str, verdict: type) -> None:
    """A tool that always asks is never allowed by a policy; one that never asks needs none."""
    tool = Work(approval=approval)
    decided = await gate(tool, policy=POLICY[rule]).authorise(call("c"), CONTEXT, (), 0)
    assert isinstance(decided, verdict)


async def test_a_tool_that_never_asks_can_be_denied_by_its_name() -> None:
    """A policy that names it is stronger than the tool's own word."""
    policy = ApprovalPolicy("allow", {"work": "deny"})
    decided = await gate(Work(approval="never"), policy=policy).authorise(call("c"), CONTEXT, (), 0)
    assert isinstance(decided, Refuse)
    assert decided.text.startswith("blocked by policy")


class Broken(Work):
    """A tool whose checks fail."""

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        raise KeyError("bug")


class BrokenPolicy(ApprovalPolicy):
    """A policy that raises."""

    def rule(self, tool: str) -> Any:
        raise RuntimeError("bug")


async def test_whatever_goes_wrong_while_deciding_the_call_does_not_run() -> None:
    """An unknown tool, wrong arguments, a broken action, a broken policy: refused, with a reference for the log."""
    unknown = await gate(Work()).authorise(call("c", "other"), CONTEXT, (), 0)
    assert unknown == Refuse(text="there is no tool 'other'; there are: work")
    strict = Work(parameters={"type": "object", "properties": {"path": {}}, "required": ["path"]})
    wrong = await gate(strict, policy=ApprovalPolicy.ALLOW).authorise(call("c"), CONTEXT, (), 0)
    assert isinstance(wrong, Refuse)
    assert "path" in wrong.text
    broken = await gate(Broken(), policy=ApprovalPolicy.ALLOW).authorise(call("c"), CONTEXT, (), 0)
    assert broken == Refuse(text="blocked: this call could not be checked (REF123)")
    unsure = await gate(Work(), policy=BrokenPolicy()).authorise(call("c"), CONTEXT, (), 0)
    assert unsure == Refuse(text="blocked: this call could not be checked (REF123)")


async def test_a_grant_allows_exactly_its_action() -> None:
    """The same action runs without asking; other arguments, an expired or a revoked grant ask."""
    tool = Work(approval="always")
    ours = await action_of(tool, path="a")
    given = gate(tool)

    async def verdict(of: Any, grants: tuple[Grant, ...], now: int = 999) -> Any:
        return await given.authorise(of, CONTEXT, grants, now)

    assert isinstance(await verdict(call("c", path="a"), (grant(ours),)), Run)
    assert isinstance(await verdict(call("c", path="b"), (grant(ours),)), Ask)
    assert isinstance(await verdict(call("c", path="a"), (grant(ours),), now=1_000), Ask)
    assert isinstance(await verdict(call("c", path="a"), (grant(ours, revoked_at_ms=1),)), Ask)
    risky = gate(Work(approval="always", high_risk=True))
    assert isinstance(await risky.authorise(call("c", path="a"), CONTEXT, (grant(ours),), 0), Ask)


async def test_a_grant_never_beats_a_denial() -> None:
    """A policy that was tightened later counts."""
    tool = Work()
    ours = await action_of(tool)
    denied = await gate(tool, policy=ApprovalPolicy.DENY).authorise(call("c"), CONTEXT, (grant(ours),), 0)
    assert isinstance(denied, Refuse)


async def test_an_action_that_was_changed_does_not_run() -> None:
    """The executor compares the digest itself, whoever hands it the ticket."""
    tool = Work()
    shown = await action_of(tool, path="a")
    changed = replace(shown, arguments={"path": "b"})
    result = await gate(tool).invoke(ticket(changed, digest=shown.digest()), CONTEXT)
    assert (result.output, result.outcome, tool.runs) == (
        "approval no longer valid: digest_mismatch",
        "refused",
        [],
    )


class Reads(Work):
    """A tool whose action names a file."""

    digest = "1"

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        return replace(super().action(arguments, context), files={"run.sh": self.digest})


async def test_what_changed_since_the_approval_is_found() -> None:
    """A changed file, another tool under the same name, a tool that is gone, another folder."""
    tool = Reads()
    given = gate(tool)
    approved = ticket(await given.action("work", {}, CONTEXT))
    assert await given.changed_since(approved, CONTEXT, {}) is None
    tool.digest = "2"
    assert await given.changed_since(approved, CONTEXT, {}) == "a file has changed"
    assert await given.changed_since(approved, CONTEXT, {"run.sh": "2"}) is None
    assert await given.changed_since(approved, CONTEXT, {"run.sh": "3"}) == "a file has changed"
    tool.digest, tool.description = "1", "does something else now"
    assert await given.changed_since(approved, CONTEXT, {}) == "tool has changed"
    assert await gate().changed_since(approved, CONTEXT, {}) == "tool is gone"
    forged = replace(approved, action=replace(approved.action, cwd="/elsewhere"))
    assert await given.changed_since(forged, CONTEXT, {}) == "digest_mismatch"
    tool.description = Work.description
    tool.timeout_seconds = 99.0
    assert await given.changed_since(approved, CONTEXT, {}) == "its circumstances have changed"


class Fails(Work):
    """A tool that raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        raise self.error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("no such file"), "no such file"),
        (SandboxError("no sandbox"), "no sandbox"),
        (ValueError("secret detail"), "work failed by an internal error (REF123)"),
    ],
)
async def test_a_failure_is_a_result(error: Exception, text: str) -> None:
    """The model is told what was wrong with its call; of our own faults it learns a reference."""
    tool = Fails(error)
    result = await gate(tool).invoke(ticket(await action_of(tool)), CONTEXT)
    assert (result.output, result.is_error, result.outcome) == (text, True, "failed")


async def test_a_cancellation_passes() -> None:
    """Ending a turn ends its tool."""
    tool = Work(hold=True)
    running = asyncio.ensure_future(gate(tool).invoke(ticket(await action_of(tool)), CONTEXT))
    await tool.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tool.cancelled == 1


async def test_a_time_limit_is_told_on_the_clock_and_ends_the_tool() -> None:
    """After `timeout_seconds` of the clock that was passed in, the tool is told, cancelled and reported."""
    clock, tool = FakeClock(), Work(hold=True, timeout_seconds=30.0)
    context = replace(CONTEXT)
    running = asyncio.ensure_future(gate(tool, clock=clock).invoke(ticket(await action_of(tool)), context))
    await advance_when_asleep(clock, 29.9)
    assert not running.done()
    clock.advance(0.2)
    result = await running
    assert result.output == "work was stopped after 30 s"
    assert (tool.cancelled, context.cancel.is_set()) == (1, True)


async def test_a_tool_within_its_time_leaves_no_timer() -> None:
    """The timer of a tool that was quick is gone."""
    clock, tool = FakeClock(), Work(timeout_seconds=30.0)
    result = await gate(tool, clock=clock).invoke(ticket(await action_of(tool)), CONTEXT)
    assert (result.output, clock.sleeping) == ("ok", 0)


@pytest.mark.parametrize("make", [lambda text: text, lambda text: ToolOutput(text=text)])
async def test_output_is_redacted_before_it_is_cut(make: Callable[[str], Any]) -> None:
    """A secret at the border of the cut is gone all the same."""
    text = "a" * 490 + "hunter2" + "b" * 1000

    class Talks(Work):
        async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
            return make(text)

    tool = Talks()
    result = await gate(tool, redact=lambda found: found.replace("hunter2", "•••")).invoke(
        ticket(await action_of(tool)), CONTEXT
    )
    assert "hunter" not in result.output
    assert "•••" in result.output


async def test_an_error_of_the_output_is_marked() -> None:
    """A tool may say itself that its output is an error."""

    class Says(Work):
        async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
            return ToolOutput(text="exit 1", is_error=True)

    tool = Says()
    result = await gate(tool).invoke(ticket(await action_of(tool)), CONTEXT)
    assert (result.is_error, result.outcome) == (True, "failed")


def test_a_summary_that_fails_is_empty_and_one_that_works_is_redacted_and_short() -> None:
    """What shared places see of a call is one line of at most 80 characters without secrets."""

    class Sums(Work):
        def summary(self, arguments: Mapping[str, Any]) -> str:
            return str(arguments["text"])

    sums = gate(Sums(), redact=lambda found: found.replace("hunter2", "•••"))
    assert sums.summary(call("c", text="hunter2 " * 40)) == ("••• " * 40)[:80]
    assert sums.summary(call("c")) == ""
    assert sums.summary(call("c", "unknown")) == ""


def test_an_unknown_tool_is_high_risk_and_never_run_again() -> None:
    """What is not known is treated as the worst."""
    known = gate(Work(replay="safe"))
    assert known.replay_of(call("c")) == "safe"
    assert known.replay_of(call("c", "unknown")) == "unsafe"
    assert known.high_risk([call("c", "unknown")])
    assert not known.high_risk([call("c")])
