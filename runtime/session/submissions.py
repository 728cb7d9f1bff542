"""What becomes of an op: found by its id, done in one transaction, and answered once that is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from runtime import transitions
from runtime.errors import DuplicateReceipt
from runtime.protocol import events, ops
from runtime.protocol.approvals import InterruptResult
from runtime.protocol.checkpoint import Receipt
from runtime.protocol.events import Event, EventMsg
from runtime.session import admission, looping
from runtime.session.admission import AdmissionRules
from runtime.session.compacting import Compactions
from runtime.session.decisions import Decisions, undeliverable
from runtime.session.mailbox import Asked, Mailbox
from runtime.session.receipts import accepted, refused
from runtime.session.state import SessionState
from runtime.session.tool_calls import ToolCalls
from runtime.session.turns import STOPPED
from runtime.transitions import Draft


class Submissions:
    """The ops of one session."""

    def __init__(self, state: SessionState, decisions: Decisions, compactions: Compactions, tools: ToolCalls) -> None:
        config = state.config
        self._state = state
        self._decisions = decisions
        self._compactions = compactions
        self._tools = tools
        self._rules = AdmissionRules(queue_limit=config.queue_limit, default_delivery=config.default_delivery)

    async def take_all(self, mailbox: Mailbox) -> None:
        """Take in what has arrived until now, stops first; what arrives meanwhile waits for the next round."""
        mailbox.open_round()
        while (asked := mailbox.first()) is not None:
            receipt = await self._take(asked)
            if receipt is not None:
                asked.answer(receipt)
            mailbox.done(asked)

    async def _take(self, asked: Asked) -> Receipt | None:
        """Do what was asked; None if its receipt is given later."""
        known = await self._known(asked)
        if known is not None:
            return replace(known, status="duplicate")
        draft = self._state.draft()
        receipt = await self._do(draft, asked)
        if draft.changed:
            decides = isinstance(asked.op, ops.ResolveApproval | ops.Undeliverable)
            try:
                await self._state.commit(draft, "decision" if decides else "accept")
            except DuplicateReceipt:  # another session took the id between our look and our save
                return Receipt(submission_id=asked.submission_id, status="duplicate")
        if receipt is not None and isinstance(asked.op, ops.Message):
            self._tools.cancel_for_input(receipt)
        return receipt

    async def _known(self, asked: Asked) -> Receipt | None:
        """The receipt under which this submission was accepted before, also by an earlier process."""
        if asked.fresh:
            return None
        receipt = await self._state.store.receipt(asked.submission_id)
        if receipt is None and admission.known(self._state.checkpoint, asked.submission_id):
            return Receipt(submission_id=asked.submission_id, status="duplicate")
        return receipt

    async def _do(self, draft: Draft, asked: Asked) -> Receipt | None:
        op, submission_id = asked.op, asked.submission_id
        match op:
            case ops.Message():
                return admission.admit_message(draft, op, submission_id, self._rules)
            case ops.EditQueued():
                return admission.admit_edit(draft, op, submission_id)
            case ops.RemoveQueued():
                return admission.admit_removal(draft, op, submission_id)
            case ops.PromoteQueued():
                return admission.admit_promotion(draft, op, submission_id)
            case ops.Interrupt():
                return self._interrupt(draft, op, submission_id)
            case ops.ResolveApproval():
                return await self._decisions.resolve(draft, op, submission_id)
            case ops.Undeliverable():
                return undeliverable(draft, op, submission_id)
            case ops.SetModel():
                return self._set_model(draft, op, submission_id)
            case ops.ResumeSession():
                return await self._request_resume(op, submission_id)
            case ops.RevokeGrant():
                return self._revoke(draft, op, submission_id)
            case ops.Retire():
                return _retire(draft, op, submission_id)
            case ops.Compact():
                problem = await self._compactions.begin(asked)
                return None if problem is None else refused(draft, submission_id, problem)
            case ops.StartLoop():
                return looping.admit_start(draft, op, submission_id, self._state.execution_id)
            case ops.StopLoop():
                return looping.admit_stop(draft, op, submission_id)
            case ops.ContinueLoop():
                return looping.admit_continuation(draft, op, submission_id, self._state.execution_id)
            case _:
                assert_never(op)

    def _interrupt(self, draft: Draft, op: ops.Interrupt, submission_id: str) -> Receipt:
        active = draft.checkpoint.active_execution
        if active is None or active.turn_id != op.turn_id:
            return refused(draft, submission_id, "that turn does not run", InterruptResult(status="not_running"))
        receipt = accepted(draft, submission_id, InterruptResult(status="stopping"))
        if active.interrupted_by is None:
            draft.change_active(interrupted_by=op.by or "someone")
        if self._state.flight.empty:
            transitions.abort_turn(draft, STOPPED, by=op.by)
        return receipt

    def _set_model(self, draft: Draft, op: ops.SetModel, submission_id: str) -> Receipt:
        models = self._state.config.models
        if not draft.checkpoint.idle:
            return refused(draft, submission_id, "the model cannot be changed while a turn runs")
        if op.route not in models.names:
            return refused(draft, submission_id, f"there is no model route {op.route!r}")
        info = models.info(op.route)
        draft.change(model_route=op.route)
        changed = events.ModelChanged(route=info.route, name=info.name, context_window=info.context_window)
        draft.emit(changed, submission_id)
        return accepted(draft, submission_id)

    async def _request_resume(self, op: ops.ResumeSession, submission_id: str) -> Receipt:
        idle = self._state.checkpoint.idle
        target = await self._state.store.load(op.session_id) if idle else None
        if target is not None:
            self._show(
                events.SessionResumeRequested(session_id=target.session_id, context=target.session_context),
                submission_id,
            )
            return Receipt(submission_id=submission_id, status="accepted")
        problem = "there is no such session" if idle else "another session cannot be resumed while a turn runs"
        self._show(events.Warning(message=problem), submission_id)
        return Receipt(submission_id=submission_id, status="rejected", reason=problem)

    def _show(self, msg: EventMsg, submission_id: str) -> None:
        now = self._state.clock.now_ms()
        self._state.publish([Event(sequence=None, submission_id=submission_id, recorded_at_ms=now, msg=msg)])

    def _revoke(self, draft: Draft, op: ops.RevokeGrant, submission_id: str) -> Receipt:
        state = self._state
        grant = next((each for each in state.grants if each.id == op.grant_id and each.revoked_at_ms is None), None)
        if grant is None:
            return refused(draft, submission_id, "there is no such grant")
        state.grants = tuple(each for each in state.grants if each.id != grant.id)  # narrower is safe before the commit
        draft.grants.append(replace(grant, revoked_at_ms=draft.now_ms))
        draft.emit(events.GrantRevoked(grant_id=grant.id), submission_id)
        return accepted(draft, submission_id)


def _retire(draft: Draft, op: ops.Retire, submission_id: str) -> Receipt:
    for message in draft.checkpoint.pending_messages:
        transitions.remove_queued(draft, message.id, op.by)
    receipt = accepted(draft, submission_id)
    if draft.checkpoint.active_execution is not None:
        draft.change_active(interrupted_by=draft.active.interrupted_by or op.by or op.reason)
    looping.retire_loop(draft, op.by or op.reason)
    if not draft.checkpoint.retiring:
        draft.change(retiring=True)
        draft.emit(events.SessionRetired(reason=op.reason), submission_id)
    return receipt
