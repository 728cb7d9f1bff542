"""Asking a person, and what each answer does: on a running session, as its users see it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime import Agent, ApprovalPolicy, Middleware, ToolContext, create_agent, events, ops
from runtime.middleware import Allow, HookContext, Rewrite
from runtime.middleware import Deny as DenyByHook
from runtime.protocol import Abort, Approve, ApproveForSession, ApproveWith, Deny, Resolution
from runtime.protocol.approvals import Decision
from runtime.store import SqliteStore
from runtime.testing import FakeClock, ScriptedModel
from tests.support.sessions import (
    Work,
    advance_when_asleep,
    agent_on,
    call,
    condition,
    config,
    journal,
    results,
    seen,
    sql,
    stored,
    talk,
)


async def ask(agent: Agent, text: str = "go") -> events.ApprovalRequested:
    await agent.submit(ops.Message(text=text))
    return await seen(agent, events.ApprovalRequested)


async def decide(agent: Agent, asked: events.ApprovalRequested, decision: Decision, by: str = "ann") -> Any:
    receipt = await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=decision, decided_by=by))
    return receipt.result


async def test_a_batch_asks_once_for_what_is_gated_and_nothing_starts_before(store: SqliteStore) -> None:
    """One request lists the gated calls; the free call of the batch waits for the decision too."""
    free, gated = Work("free", approval="never"), Work("gated")
    model = ScriptedModel([[call("c1", "free"), call("c2", "gated"), call("c3", "gated", path="b")], "done"])
    async with agent_on(store, model, tools=[free, gated]) as agent:
        asked = await ask(agent)
        assert [each.call_id for each in asked.calls] == ["c2", "c3"]
        assert (free.runs, gated.runs) == ([], [])
        result = await decide(agent, asked, Approve())
        assert (result.status, result.decision, result.decided_by) == ("resolved", Resolution.APPROVED, "ann")
        await seen(agent, events.TurnComplete)
        assert (len(free.runs), gated.runs) == (1, [{}, {"path": "b"}])
        assert await journal(store, events.ApprovalRequested) == [asked]


async def test_a_denied_call_gets_the_reason_and_the_others_run(store: SqliteStore) -> None:
    """The turn goes on: the model learns why, and the free call of the batch runs."""
    free, gated = Work("free", approval="never"), Work("gated")
    model = ScriptedModel([[call("c1", "gated"), call("c2", "free")], "done"])
    async with agent_on(store, model, tools=[free, gated]) as agent:
        result = await decide(agent, await ask(agent), Deny("not on a Friday"))
        assert result.decision == Resolution.DENIED
        await seen(agent, events.TurnComplete)
        assert results(await stored(store)) == {"c1": "denied by the user: not on a Friday", "c2": "ok"}
        assert (len(free.runs), gated.runs) == (1, [])


async def test_abort_ends_the_turn_in_the_same_commit(store: SqliteStore) -> None:
    """Decision, error results and the terminal event are one transaction."""
    gated = Work("gated")
    async with agent_on(store, ScriptedModel([[call("c1", "gated")]]), tools=[gated]) as agent:
        asked = await ask(agent)
        before = (await stored(store)).sequence
        result = await decide(agent, asked, Abort())
        assert (result.status, result.decision) == ("resolved", Resolution.ABORTED)
        after = await stored(store)
        assert (after.sequence, after.active_execution, gated.runs) == (before + 1, None, [])
        assert [event.decision for event in await journal(store, events.ApprovalResolved)] == ["aborted"]


async def test_edited_arguments_run_and_both_versions_are_kept(store: SqliteStore) -> None:
    """What a person changed is what runs, under a new digest; what was asked for stays in the row."""
    gated = Work("gated")
    model = ScriptedModel([[call("c1", "gated", path="a"), call("c2", "gated", path="b")], "done"])
    async with agent_on(store, model, tools=[gated]) as agent:
        asked = await ask(agent)
        asked_for = (await stored(store)).pending_approval
        result = await decide(agent, asked, ApproveWith({"c1": {"path": "better"}}, {"c2": "not this"}))
        assert result.decision == Resolution.EDITED
        await seen(agent, events.TurnComplete)
        assert gated.runs == [{"path": "better"}]
        assert results(await stored(store)) == {"c1": "ok", "c2": "denied by the user: not this"}
        assert asked_for is not None
        ((before, after),) = sql(store, "SELECT asked, payload FROM approvals")
        kept, ran = json.loads(before), json.loads(after)
        assert kept["c1"]["arguments"] == {"path": "a"}
        assert ran["actions"]["c1"]["arguments"] == {"path": "better"}
        assert ran["digests"]["c1"] != asked_for.digests["c1"]
        assert ran["calls"][0]["arguments"] == {"path": "a"}


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (ApproveWith({"c1": {"wrong": 1}}), "the edited arguments do not fit"),
        (ApproveWith({"c9": {}}), "is not part of this request"),
        (ApproveWith({}, {"c9": "no"}), "is not part of this request"),
    ],
)
async def test_an_edit_that_does_not_fit_decides_nothing(store: SqliteStore, decision: Decision, why: str) -> None:
    """The request stays open, and the person learns what is wrong."""
    schema = {"type": "object", "properties": {"path": {}}, "required": ["path"], "additionalProperties": False}
    gated = Work("gated", parameters=schema)
    async with agent_on(store, ScriptedModel([[call("c1", "gated", path="a")]]), tools=[gated]) as agent:
        asked = await ask(agent)
        receipt = await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=decision))
        assert receipt.status == "rejected"
        assert why in (receipt.reason or "")
        left = await stored(store)
        assert left.pending_approval is not None
        assert left.pending_approval.decision is None
        assert gated.runs == []


async def test_only_the_request_that_is_shown_can_be_answered_and_only_once(store: SqliteStore) -> None:
    """Another id is unknown; a second answer learns who was faster; also after the turn, from the kept row."""
    gated = Work("gated", hold=True)
    async with agent_on(store, ScriptedModel([[call("c1", "gated")], "done"]), tools=[gated]) as agent:
        asked = await ask(agent)
        other = ops.ResolveApproval(request_id="other", decision=Approve())
        assert (await agent.submit(other)).result.status == "unknown"  # type: ignore[union-attr]
        await decide(agent, asked, Approve(), by="ann")
        for decision in (Deny(), Approve(), Abort()):
            late = await decide(agent, asked, decision, by="bob")
            assert (late.status, late.decision, late.decided_by) == ("already", Resolution.APPROVED, "ann")
        gated.release.set()
        await seen(agent, events.TurnComplete)
        late = await decide(agent, asked, Deny(), by="bob")
        assert (late.status, late.decision, late.decided_by) == ("already", Resolution.APPROVED, "ann")
        assert len(gated.runs) == 1
        assert len(await journal(store, events.ApprovalResolved)) == 1


async def test_the_same_answer_submitted_twice_is_a_duplicate(store: SqliteStore) -> None:
    """A press that is delivered again under its own id changes nothing and says so."""
    gated = Work("gated")
    async with agent_on(store, ScriptedModel([[call("c1", "gated")], "done"]), tools=[gated]) as agent:
        asked = await ask(agent)
        press = ops.ResolveApproval(request_id=asked.request_id, decision=Approve(), decided_by="ann")
        first = await agent.submit(press, "press-1")
        again = await agent.submit(press, "press-1")
        assert (first.status, again.status) == ("accepted", "duplicate")
        assert again.result == first.result


async def test_nobody_answers_in_time(store: SqliteStore) -> None:
    """An expired request runs nothing, its calls say so, the turn goes on, and a late press is told."""
    clock, gated = FakeClock(), Work("gated")
    model = ScriptedModel([[call("c1", "gated")], "done"])
    async with agent_on(store, model, tools=[gated], clock=clock, approval_timeout_seconds=60) as agent:
        asked = await ask(agent)
        assert asked.expires_at_ms == clock.now_ms() + 60_000
        await advance_when_asleep(clock, 60)
        resolved = await seen(agent, events.ApprovalResolved)
        assert resolved.decision == Resolution.EXPIRED
        await seen(agent, events.TurnComplete)
        assert (results(await stored(store)), gated.runs) == ({"c1": "approval expired"}, [])
        assert (await decide(agent, asked, Approve())).status == "expired"


async def test_a_press_at_the_moment_of_expiry_loses(store: SqliteStore) -> None:
    """The instant itself is too late, also when the press is looked at before the timer."""
    clock, gated = FakeClock(), Work("gated")
    model = ScriptedModel([[call("c1", "gated")], "done"])
    async with agent_on(store, model, tools=[gated], clock=clock, approval_timeout_seconds=60) as agent:
        asked = await ask(agent)
        await condition(lambda: clock.sleeping)
        clock.advance(60)
        assert (await decide(agent, asked, Approve())).status == "expired"
        await seen(agent, events.TurnComplete)
        assert gated.runs == []


async def test_expiry_bounds_the_decision_and_not_the_run(store: SqliteStore) -> None:
    """What was approved in time runs, however late it starts."""
    clock = FakeClock()
    first, second = Work("first", hold=True), Work("second")
    model = ScriptedModel([[call("c1", "first"), call("c2", "second")], "done"])
    async with agent_on(store, model, tools=[first, second], clock=clock, approval_timeout_seconds=60) as agent:
        asked = await ask(agent)
        await decide(agent, asked, Approve())
        await first.started.wait()
        clock.advance(3600)
        first.release.set()
        await seen(agent, events.TurnComplete)
        assert len(second.runs) == 1


async def test_a_request_that_nobody_can_be_shown_runs_nothing(store: SqliteStore) -> None:
    """Undeliverable: closed, said to the model, and the turn goes on; only an open request can be that."""
    gated = Work("gated")
    async with agent_on(store, ScriptedModel([[call("c1", "gated")], "done"]), tools=[gated]) as agent:
        asked = await ask(agent)
        undeliverable = ops.Undeliverable(request_id=asked.request_id, reason="not in the channel")
        assert (await agent.submit(undeliverable)).status == "accepted"
        resolved = await seen(agent, events.ApprovalResolved)
        assert (resolved.decision, resolved.reason) == (Resolution.UNDELIVERABLE, "not in the channel")
        await seen(agent, events.TurnComplete)
        assert results(await stored(store))["c1"].startswith("undeliverable")
        assert gated.runs == []
        assert (await agent.submit(undeliverable)).status == "rejected"


async def test_allow_for_session_is_a_grant_of_exactly_this_action(store: SqliteStore) -> None:
    """The same action runs without asking, other arguments ask again; also after a restart, until it is revoked."""
    gated = Work("gated")
    batches = [[call(f"c{n}", "gated", path=path)] for n, path in enumerate("aaba")]
    model = ScriptedModel([batches[0], "1", batches[1], "2", batches[2], "3", batches[3], "4"])
    async with agent_on(store, model, tools=[gated]) as agent:
        result = await decide(agent, await ask(agent), ApproveForSession())
        assert result.decision == Resolution.APPROVED_FOR_SESSION
        await seen(agent, events.TurnComplete)
        (grant,) = await store.grants("s")
        assert (grant.tool, grant.granted_by) == ("gated", "ann")
        assert grant.expires_at_ms - grant.granted_at_ms == 30 * 24 * 3600 * 1000
        await talk(agent, "the same")
        assert len(gated.runs) == 2
    async with agent_on(store, model, tools=[gated]) as agent:
        other = await ask(agent, "other arguments")
        await decide(agent, other, Approve())
        await seen(agent, events.TurnComplete)
        assert (await agent.submit(ops.RevokeGrant(grant_id=grant.id))).status == "accepted"
        assert (await seen(agent, events.GrantRevoked)).grant_id == grant.id
        assert await store.grants("s") == ()
        assert (await agent.submit(ops.RevokeGrant(grant_id=grant.id))).status == "rejected"
        await ask(agent, "the first again")
        assert len(gated.runs) == 3


async def test_a_grant_ends_by_itself(store: SqliteStore) -> None:
    """After its time the same action asks again."""
    clock, gated = FakeClock(), Work("gated")
    model = ScriptedModel([[call("c1", "gated")], "1", [call("c2", "gated")], "2", [call("c3", "gated")], "3"])
    async with agent_on(store, model, tools=[gated], clock=clock, allow_for_session_seconds=60) as agent:
        await decide(agent, await ask(agent), ApproveForSession())
        await seen(agent, events.TurnComplete)
        clock.advance(59)
        await talk(agent)
        clock.advance(1)
        await ask(agent)
        assert len(gated.runs) == 2


async def test_a_high_risk_tool_is_approved_once_at_a_time(store: SqliteStore) -> None:
    """A whole-session approval of a shell is refused, and the request stays open."""
    shell = Work("shell", high_risk=True)
    async with agent_on(store, ScriptedModel([[call("c1", "shell")]]), tools=[shell]) as agent:
        asked = await ask(agent)
        assert asked.high_risk
        receipt = await agent.submit(ops.ResolveApproval(request_id=asked.request_id, decision=ApproveForSession()))
        assert (receipt.status, receipt.reason) == ("rejected", "this request may only be approved once")
        assert await store.grants("s") == ()
        left = (await stored(store)).pending_approval
        assert left is not None
        assert left.decision is None
        assert shell.runs == []


async def test_an_approved_call_that_a_restart_finds_not_started_runs(store: SqliteStore) -> None:
    """The decision is stored before the effect: after a restart the same call runs, without asking again."""
    gated = Work("gated")
    model = ScriptedModel([[call("c1", "gated")], "done"])
    agent = await create_agent(config(store, model, tools=[gated]))
    asked = await ask(agent)
    await decide_and_die(store, agent, asked)
    assert gated.runs == []
    async with agent_on(store, model, tools=[gated]) as agent:
        await seen(agent, events.TurnComplete)
        assert len(gated.runs) == 1
        assert len(await journal(store, events.ApprovalRequested)) == 1


async def decide_and_die(store: SqliteStore, agent: Agent, asked: events.ApprovalRequested) -> None:
    """Decide, and let the commit that would start the call fail."""
    sql(
        store,
        "CREATE TRIGGER no_begin BEFORE INSERT ON event_journal WHEN NEW.event_kind = 'tool_call_begin' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    assert (await decide(agent, asked, Approve())).status == "resolved"
    await agent.wait_ended()
    sql(store, "DROP TRIGGER no_begin")


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (None, "ok"),
        ("the approver has lost the right", "approval no longer valid: the approver has lost the right"),
        (RuntimeError("bug"), "approval no longer valid: it could not be checked again"),
    ],
)
async def test_rights_are_checked_again_before_an_approved_call_starts(
    store: SqliteStore, answer: Any, output: str
) -> None:
    """What the check refuses, or cannot check, does not run; the turn goes on."""
    told: list[Any] = []

    async def recheck(action: Any, principals: tuple[str, ...], approved_by: str | None) -> str | None:
        told.append((action.tool, principals, approved_by))
        if isinstance(answer, Exception):
            raise answer
        return answer

    gated = Work("gated")
    model = ScriptedModel([[call("c1", "gated")], "done"])
    async with agent_on(store, model, tools=[gated], recheck=recheck) as agent:
        await agent.submit(ops.Message(text="go", principal="requester"))
        asked = await seen(agent, events.ApprovalRequested)
        await decide(agent, asked, Approve(), by="approver")
        await seen(agent, events.TurnComplete)
        assert results(await stored(store)) == {"c1": output}
        assert told == [("gated", ("requester",), "approver")]


@pytest.mark.parametrize("answer", [None, "whoever allowed it was removed", RuntimeError("bug")])
async def test_what_was_allowed_for_the_session_holds_no_longer_than_its_giver(store: SqliteStore, answer: Any) -> None:
    """The giver's right is looked at again for every call: once it is gone, or cannot be told, a person is asked."""
    answers: list[Any] = [None]

    async def recheck(action: Any, principals: tuple[str, ...], approved_by: str | None) -> str | None:
        assert approved_by == "approver"
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]

    gated = Work("gated")
    model = ScriptedModel([[call("c1", "gated")], "done", [call("c2", "gated")], "done again"])
    async with agent_on(store, model, tools=[gated], recheck=recheck) as agent:
        asked = await ask(agent)
        await decide(agent, asked, ApproveForSession(), by="approver")
        await seen(agent, events.TurnComplete)
        answers.append(answer)
        await agent.submit(ops.Message(text="once more", principal="requester"))
        if answer is None:
            await seen(agent, events.TurnComplete)
            assert len(gated.runs) == 2
        else:
            again = await seen(agent, events.ApprovalRequested)
            assert [each.call_id for each in again.calls] == ["c2"]
            assert len(gated.runs) == 1


async def test_waiting_for_a_person_is_not_running_time(store: SqliteStore) -> None:
    """A tool's time limit begins when it starts."""
    clock, gated = FakeClock(), Work("gated", timeout_seconds=10.0)
    async with agent_on(store, ScriptedModel([[call("c1", "gated")], "done"]), tools=[gated], clock=clock) as agent:
        asked = await ask(agent)
        clock.advance(3600)
        await decide(agent, asked, Approve())
        await seen(agent, events.TurnComplete)
        assert results(await stored(store)) == {"c1": "ok"}


class Hook(Middleware):
    """Answers each hook with what it was given."""

    name = "hook"

    def __init__(self, pre: Any = None, permission: Any = None) -> None:
        self.pre, self.permission = pre, permission

    async def pre_tool_use(self, context: HookContext) -> Any:
        return self.pre

    async def permission_request(self, context: HookContext) -> Any:
        assert context.action is not None
        return self.permission


@pytest.mark.parametrize(
    ("hook", "runs", "output"),
    [
        (Hook(pre=DenyByHook("not here")), [], "blocked by policy: not here"),
        (Hook(pre=Rewrite({"path": "safe"}), permission=Allow()), [{"path": "safe"}], "ok"),
        (Hook(permission=Allow()), [{"path": "a"}], "ok"),
        (Hook(permission=DenyByHook("no")), [], "blocked by policy: no"),
    ],
)
async def test_middleware_may_rewrite_deny_and_allow(
    store: SqliteStore, hook: Hook, runs: list[Any], output: str
) -> None:
    """Its outcomes are values, in its place before a person is asked."""
    gated = Work("gated")
    model = ScriptedModel([[call("c1", "gated", path="a")], "done"])
    async with agent_on(store, model, tools=[gated], middleware=[hook]) as agent:
        await talk(agent)
        assert (gated.runs, results(await stored(store))) == (runs, {"c1": output})


async def test_who_asked_and_what_for_is_told(store: SqliteStore) -> None:
    """The request names the person whose turn it is, and one line per gated call."""

    class Sums(Work):
        def summary(self, arguments: Any) -> str:
            return f"work on {arguments['path']}"

    model = ScriptedModel([[call("c1", "gated", path="a")]])
    async with agent_on(store, model, tools=[Sums("gated")]) as agent:
        await agent.submit(ops.Message(text="go", principal="ann-1"))
        asked = await seen(agent, events.ApprovalRequested)
        assert (asked.requester, asked.summaries) == ("ann-1", ("work on a",))


async def test_a_tool_knows_who_speaks_and_under_which_key(store: SqliteStore) -> None:
    """The context of a run names session, turn, call, person, origin and an idempotency key."""
    free = Work("free")
    model = ScriptedModel([[call("c1", "free")], "done"])
    async with agent_on(store, model, tools=[free], approval_policy=ApprovalPolicy.ALLOW) as agent:
        done = await talk(agent, principal="ann-1")
        (context,) = free.contexts
        assert isinstance(context, ToolContext)
        assert (context.session_id, context.turn_id, context.call_id) == ("s", done.turn_id, "c1")
        assert context.principal == "ann-1"
        assert context.idempotency_key
