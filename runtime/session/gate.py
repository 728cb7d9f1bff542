"""The one way to a tool: what may run, what a person is asked about, and running exactly that."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from runtime.clock import Clock
from runtime.errors import SandboxError, ToolError
from runtime.policy import ApprovalPolicy, Rule
from runtime.protocol.approvals import Action, Grant, PendingApproval
from runtime.protocol.context import JsonValue, Outcome, ToolCall, ToolResult
from runtime.tools.base import Replay, Tool, ToolContext, ToolOutput, ToolSpec, Workspace
from runtime.tools.workspace import enter_workspace

log = logging.getLogger("pilothouse.runtime.gate")

OUTPUT_FOLDER = "tool-output"
"""The folder of a workspace that holds outputs which were too long for the context."""

GRACE_SECONDS = 1.5
"""What a cancelled effect has to end: a stopped turn is over within two seconds, its commit included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The right to run one action once: `digest` is what was approved."""

    call_id: str
    action: Action
    digest: str
    idempotency_key: str
    gated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """It may run, as this action; by `grant`, if a person allowed it for the session."""

    action: Action
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A person has to decide on this action."""

    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """It does not run; the model is told `text`."""

    text: str
    outcome: Outcome = "refused"


Verdict: TypeAlias = Run | Ask | Refuse


class Gate:
    """Holds the tools of a session; nothing else can reach them."""

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: ApprovalPolicy,
        *,
        clock: Clock,
        redact: Callable[[str], str],
        output_limit: int,
        new_reference: Callable[[], str],
    ) -> None:
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._policy = policy
        self._clock = clock
        self._redact = redact
        self._output_limit = output_limit
        self._new_reference = new_reference
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec() for tool in tools)
        self.parallel: frozenset[str] = frozenset(tool.name for tool in tools if tool.parallel)
        self.questions: frozenset[str] = frozenset(tool.name for tool in tools if tool.question)
        self.cancelled_by_input: frozenset[str] = frozenset(tool.name for tool in tools if tool.cancel_on_input)

    def replay_of(self, call: ToolCall) -> Replay:
        """The replay class of a call's tool; a tool that is not known any more is never run again."""
        tool = self._tools.get(call.name)
        return tool.replay if tool is not None else "unsafe"

    def timeout_of(self, name: str) -> float:
        """The time limit of a tool in seconds; 0 where it has none."""
        tool = self._tools.get(name)
        return (tool.timeout_seconds if tool is not None else None) or 0.0

    def high_risk(self, calls: Iterable[ToolCall]) -> bool:
        """Whether one of the calls must never be allowed for a whole session."""
        return any(call.name not in self._tools or self._tools[call.name].high_risk for call in calls)

    def summary(self, call: ToolCall) -> str:
        """One redacted line about a call, for shared places."""
        tool = self._tools.get(call.name)
        if tool is None:
            return ""
        try:
            return self._redact(tool.summary(call.arguments))[:80]
        except Exception:
            log.exception("the summary of %s failed", call.name)
            return ""

    def summaries(self, approval: PendingApproval) -> tuple[str, ...]:
        """One line about each call that a person is asked about."""
        return tuple(self.summary(call) for call in approval.calls if call.call_id in approval.gated)

    async def authorise(self, call: ToolCall, context: ToolContext, grants: Sequence[Grant], now_ms: int) -> Verdict:
        """Decide on one call. Whatever goes wrong here, the call does not run."""
        tool = self._tools.get(call.name)
        if tool is None:
            return Refuse(text=f"there is no tool {call.name!r}; there are: {', '.join(self._tools) or 'none'}")
        try:
            action = await self.action(call.name, tool.validate(call), context)
            return self._by_policy(tool, action, grants, now_ms)
        except ToolError as error:
            return Refuse(text=str(error))
        except Exception:
            reference = self._new_reference()
            log.exception("authorising %s failed [%s]", call.name, reference)
            return Refuse(text=f"blocked: this call could not be checked ({reference})")

    def _by_policy(self, tool: Tool, action: Action, grants: Sequence[Grant], now_ms: int) -> Verdict:
        rule = self._rule(tool)
        if rule == "deny":
            return Refuse(text=f"blocked by policy: {tool.name} is not allowed here")
        if rule == "allow":
            return Run(action=action)
        digest = action.grant_digest()
        live = (grant for grant in grants if grant.revoked_at_ms is None and grant.expires_at_ms > now_ms)
        grant = next((grant for grant in live if grant.digest == digest), None)
        if grant is None or tool.high_risk:
            return Ask(action=action)
        return Run(action=action, grant=grant)

    def _rule(self, tool: Tool) -> Rule:
        rule = self._policy.rule(tool.name)
        if tool.approval == "never":
            return "deny" if self._policy.tools.get(tool.name) == "deny" else "allow"
        return "ask" if tool.approval == "always" and rule == "allow" else rule

    async def action(self, name: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> Action:
        """Everything that would run, as it is now; it may look at files, so it stays off the event loop."""
        tool = self._tools[name]
        if type(tool).action is Tool.action:
            return tool.action(arguments, context)
        return await asyncio.to_thread(tool.action, arguments, context)

    async def edited(self, call: ToolCall, arguments: Mapping[str, JsonValue], context: ToolContext) -> Action:
        """The action of a call with edited arguments; ToolError says what is wrong with them."""
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r} any more")
        return await self.action(call.name, tool.edit(replace(call, arguments=dict(arguments))), context)

    async def changed_since(self, ticket: Ticket, context: ToolContext, left: Mapping[str, str]) -> str | None:
        """What is different from what was approved, in a word, or None.

        `left` is how earlier calls of the same approval left their files: such a file may be as approved, or like that.
        """
        if ticket.action.digest() != ticket.digest:
            return "digest_mismatch"
        if ticket.action.tool not in self._tools:
            return "tool is gone"
        if self._rule(self._tools[ticket.action.tool]) == "deny":
            return "blocked by policy"
        now = await self.action(ticket.action.tool, ticket.action.arguments, context)
        now = replace(now, turn_id=ticket.action.turn_id, requester=ticket.action.requester)
        if now.schema_hash != ticket.action.schema_hash:
            return "tool has changed"
        if now.files.keys() != ticket.action.files.keys():
            return "a file has changed"
        for path, digest in now.files.items():
            if digest not in (ticket.action.files[path], left.get(path)):
                return "a file has changed"
        now = replace(now, files=ticket.action.files)
        return None if now.digest() == ticket.digest else "its circumstances have changed"

    async def invoke(self, ticket: Ticket, context: ToolContext) -> ToolResult:
        """Run exactly the approved action, once. Never raises but for cancellation: failures are results."""
        action = ticket.action
        if action.digest() != ticket.digest:
            return self._failed(ticket, "approval no longer valid: digest_mismatch", "refused")
        tool = self._tools.get(action.tool)
        if tool is None:
            return self._failed(ticket, f"there is no tool {action.tool!r} any more", "refused")
        try:
            output = await self._limited(tool, action, context)
        except (ToolError, SandboxError) as error:
            return self._failed(ticket, str(error), "failed")
        except TimeoutError:
            return self._failed(ticket, f"{action.tool} was stopped after {tool.timeout_seconds:g} s", "failed")
        except Exception:
            reference = self._new_reference()
            log.exception("tool %s failed [%s]", action.tool, reference)
            return self._failed(ticket, f"{action.tool} failed by an internal error ({reference})", "failed")
        if isinstance(output, str):
            output = ToolOutput(text=output)
        return ToolResult(
            call_id=ticket.call_id,
            name=action.tool,
            output=await self._fitting(self._redact(output.text), context),
            is_error=output.is_error,
            outcome="failed" if output.is_error else "completed",
        )

    async def _fitting(self, text: str, context: ToolContext) -> str:
        """The output, or its head and tail where it is longer than the context should bear; the whole is in a file."""
        if len(text) <= self._output_limit:
            return text
        name = hashlib.sha256(f"{context.turn_id}/{context.call_id}".encode()).hexdigest()[:16]
        path = f"{OUTPUT_FOLDER}/{name}.txt"
        try:
            await asyncio.to_thread(_store_output, context.workspace, path, text)
        except ToolError as error:
            log.warning("the whole output of a call could not be kept: %s", error)
            return self._capped(text)
        return self._capped(text, f"; the whole output is in {path}")

    async def _limited(self, tool: Tool, action: Action, context: ToolContext) -> ToolOutput | str:
        if tool.timeout_seconds is None:
            return await tool.run(action.arguments, context)
        work = asyncio.ensure_future(tool.run(action.arguments, context))
        timer = asyncio.ensure_future(self._clock.sleep(tool.timeout_seconds))
        try:
            await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                context.cancel.set()
                raise TimeoutError
            return work.result()
        finally:
            await _end(timer, work)

    def _failed(self, ticket: Ticket, text: str, outcome: Outcome) -> ToolResult:
        return ToolResult(
            call_id=ticket.call_id,
            name=ticket.action.tool,
            output=self._capped(self._redact(text)),
            is_error=True,
            outcome=outcome,
        )

    def _capped(self, text: str, where: str = "") -> str:
        if len(text) <= self._output_limit:
            return text
        half = self._output_limit // 2
        left_out = len(text) - 2 * half
        return f"{text[:half]}\n… {left_out} characters left out{where} …\n{text[-half:]}"


def _store_output(workspace: Workspace | None, path: str, text: str) -> None:
    if workspace is None:
        raise ToolError("the session has no workspace")
    with enter_workspace(workspace) as folder:
        folder.overwrite(path, text.encode(errors="replace"))


async def _end(timer: asyncio.Future[None], work: asyncio.Future[ToolOutput | str]) -> None:
    timer.cancel()
    work.cancel()
    await asyncio.gather(timer, work, return_exceptions=True)
