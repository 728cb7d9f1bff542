"""A batch of tool calls: which may run, which a person is asked about, running them, and their results."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import assert_never

from runtime import transitions
from runtime.errors import ToolError
from runtime.middleware import AddContext, Allow, Deny, Rewrite
from runtime.protocol import approvals
from runtime.protocol.approvals import PendingApproval, PendingTool
from runtime.protocol.checkpoint import Receipt
from runtime.protocol.context import ToolCall, ToolResult
from runtime.session.flight import ToolRun
from runtime.session.gate import Ask, Refuse, Run, Ticket
from runtime.session.spending import calls_left
from runtime.session.state import Advance, SessionState
from runtime.tools.base import ToolContext
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")


class ToolCalls:
    """The tool calls of one session's turns."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    # -------------------------------------------------------------------------------------------- what may run

    async def authorise(self, advance: Advance) -> bool:
        """Decide on every call of the batch that has not begun, and ask for those that need a person.

        Whether the batch may go on at once.
        """
        draft, state = advance.draft, self._state
        ask: dict[str, approvals.Action] = {}
        left = calls_left(draft.checkpoint, state.config)
        for tool in draft.checkpoint.pending_tools:
            if tool.state != "pending":
                continue
            if left <= 0:
                text = f"blocked: a turn may make {state.config.limits.tool_calls} calls"
                transitions.refuse_tool(draft, tool.call, text, "refused")
            else:
                left -= await self._decide(draft, tool, ask)
        if len(ask) > 1:
            self._one_question(draft, ask)
        if ask:
            advance.labels.append("approval")
            self._ask(draft, ask)
            return False
        state.memory.authorised = bool(draft.checkpoint.pending_tools)
        return True

    def _one_question(self, draft: Draft, ask: dict[str, approvals.Action]) -> None:
        """A question is asked by itself: an answer decides nothing else, and a consent answers nothing."""
        questions = [call_id for call_id, action in ask.items() if action.tool in self._state.gate.questions]
        refused = questions[1:] if len(questions) == len(ask) else questions
        for tool in draft.checkpoint.pending_tools:
            if tool.call.call_id in refused:
                text = f"not asked: call {tool.call.name} by itself, one question at a time"
                transitions.refuse_tool(draft, tool.call, text, "refused")
                del ask[tool.call.call_id]

    async def _decide(self, draft: Draft, tool: PendingTool, ask: dict[str, approvals.Action]) -> bool:
        """Let one call run, be asked about, or be refused; whether it counts against the turn's limit."""
        call_id = tool.call.call_id
        decided = draft.checkpoint.pending_approval
        if decided is not None and call_id in decided.gated:
            self._allow(tool, decided.actions[call_id], decided.digests[call_id], gated=True)
            return True
        verdict = await self._verdict(tool.call)
        if isinstance(verdict, Run) and verdict.grant is not None and await self._withdrawn(verdict, draft):
            verdict = Ask(action=verdict.action)
        match verdict:
            case Run():
                self._allow(tool, verdict.action, verdict.action.digest())
            case Ask():
                ask[call_id] = verdict.action
            case Refuse():
                transitions.refuse_tool(draft, tool.call, verdict.text, verdict.outcome)
                return False
            case _:
                assert_never(verdict)
        return True

    def _allow(self, tool: PendingTool, action: approvals.Action, digest: str, *, gated: bool = False) -> None:
        self._state.memory.tickets[tool.call.call_id] = Ticket(
            call_id=tool.call.call_id,
            action=action,
            digest=digest,
            idempotency_key=tool.idempotency_key,
            gated=gated,
        )

    async def _verdict(self, call: ToolCall) -> Run | Ask | Refuse:
        state = self._state
        for outcome in await state.ask_hooks("pre_tool_use", call=call):
            if isinstance(outcome, Deny):
                return _blocked(outcome)
            if isinstance(outcome, Rewrite):
                call = replace(call, arguments=dict(outcome.arguments))
        verdict = await state.gate.authorise(call, state.tool_context(call), state.grants, state.clock.now_ms())
        return await self._asked_of_hooks(call, verdict) if isinstance(verdict, Ask) else verdict

    async def _asked_of_hooks(self, call: ToolCall, verdict: Ask) -> Run | Ask | Refuse:
        """What hooks say in place of a person; the question stands where they say nothing."""
        for outcome in await self._state.ask_hooks("permission_request", call=call, action=verdict.action):
            if isinstance(outcome, Allow):
                return Run(action=verdict.action)
            if isinstance(outcome, Deny):
                return _blocked(outcome)
        return verdict

    async def _withdrawn(self, verdict: Run, draft: Draft) -> bool:
        """Whether whoever allowed this for the session may not allow it any more; what cannot be told is withdrawn."""
        recheck = self._state.config.recheck
        if recheck is None or verdict.grant is None:
            return False
        try:
            by = verdict.grant.granted_by
            return await recheck(verdict.action, draft.active.principals, by) is not None
        except Exception:
            log.exception("a grant could not be checked again")
            return True

    def _ask(self, draft: Draft, ask: dict[str, approvals.Action]) -> None:
        calls = tuple(tool.call for tool in draft.checkpoint.pending_tools if tool.state == "pending")
        gated = tuple(call for call in calls if call.call_id in ask)
        timeout = self._state.config.approval_timeout_seconds
        approval = PendingApproval(
            request_id=self._state.config.new_id(),
            turn_id=draft.active.turn_id,
            submission_id=draft.active.submission_id,
            calls=calls,
            gated=tuple(call.call_id for call in gated),
            actions=ask,
            digests={call_id: action.digest() for call_id, action in ask.items()},
            reason="policy",
            expires_at_ms=None if timeout is None else draft.now_ms + int(timeout * 1000),
            high_risk=self._state.gate.high_risk(gated),
        )
        transitions.request_approval(draft, approval, self._state.gate.summaries(approval))

    # -------------------------------------------------------------------------------------------- running

    async def run(self, advance: Advance, call_ids: tuple[str, ...]) -> bool:
        """Draft the start of these calls; whether the batch may go on at once, because none of them starts."""
        for call_id in call_ids:
            await self._begin(advance, self._state.memory.tickets[call_id])
        if advance.launch:
            advance.labels.append("tool")
        if not advance.draft.checkpoint.pending_tools:
            self._state.memory.end_batch()
        return not advance.launch

    async def _begin(self, advance: Advance, ticket: Ticket) -> None:
        draft = advance.draft
        call = next(t.call for t in draft.checkpoint.pending_tools if t.call.call_id == ticket.call_id)
        invalid = await self._no_longer_valid(draft, ticket) if ticket.gated else None
        if invalid is not None:
            transitions.refuse_tool(draft, call, f"approval no longer valid: {invalid}", "refused")
            return
        transitions.start_tool(draft, ticket.call_id, self._state.gate.summary(call))
        advance.launch.append(lambda: self._launch(ticket, call))

    async def _no_longer_valid(self, draft: Draft, ticket: Ticket) -> str | None:
        """Why an approved call may not start after all; whatever cannot be checked does not run."""
        state, approval = self._state, draft.checkpoint.pending_approval
        try:
            changed = await state.gate.changed_since(ticket, self._context_of(ticket), state.memory.left)
            if changed is None and state.config.recheck is not None:
                by = approval.decided_by if approval else None
                changed = await state.config.recheck(ticket.action, draft.active.principals, by)
            return changed
        except Exception:
            log.exception("an approved call could not be checked again")
            return "it could not be checked again"

    def _context_of(self, ticket: Ticket) -> ToolContext:
        call = ToolCall(call_id=ticket.call_id, name=ticket.action.tool, arguments=ticket.action.arguments)
        return self._state.tool_context(call)

    def _launch(self, ticket: Ticket, call: ToolCall) -> None:
        context = self._state.tool_context(call, ticket.idempotency_key)
        task = self._state.flight.start(self._invoke(ticket, context), f"tool {call.name}")
        self._state.flight.tools[ticket.call_id] = ToolRun(task, context, call.name)

    async def _invoke(self, ticket: Ticket, context: ToolContext) -> ToolResult:
        self._state.config.faults.reach("tool.run.before")
        result = await self._state.gate.invoke(ticket, context)
        self._state.config.faults.reach("tool.run.after")
        if ticket.gated and result.outcome == "completed" and ticket.action.files:
            await self._remember_files(ticket, context)
        return result

    async def _remember_files(self, ticket: Ticket, context: ToolContext) -> None:
        """How an approved call left its files: the calls approved with it may find them so. A restart forgets it, and
        then refuses."""
        try:
            left = await self._state.gate.action(ticket.action.tool, ticket.action.arguments, context)
        except ToolError:
            return
        self._state.memory.left.update(left.files)

    # -------------------------------------------------------------------------------------------- results

    async def take_results(self, advance: Advance) -> None:
        """Draft the results of the calls that have ended."""
        draft, tools = advance.draft, self._state.flight.tools
        for call_id, run in list(tools.items()):
            if not run.task.done():
                continue
            del tools[call_id]
            if "result" not in advance.labels:
                advance.labels.append("result")
            result = run.result()
            transitions.finish_tool(draft, result)
            await self._hear_hooks(draft, result)
        if not draft.checkpoint.pending_tools:
            self._state.memory.end_batch()

    async def _hear_hooks(self, draft: Draft, result: ToolResult) -> None:
        for outcome in await self._state.ask_hooks("post_tool_use", draft, result=result):
            if isinstance(outcome, AddContext):
                transitions.note(draft, outcome.text)

    def cancel_for_input(self, receipt: Receipt) -> None:
        """A steer was accepted: end the tools that want to end then."""
        if receipt.status != "accepted" or receipt.disposition != "steer":
            return
        for run in self._state.flight.tools.values():
            if run.name in self._state.gate.cancelled_by_input:
                run.cancel()


def _blocked(by: Deny) -> Refuse:
    return Refuse(text=f"blocked by policy: {by.reason}", outcome="refused")
