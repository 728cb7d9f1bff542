"""Any order of messages, answers, presses, stops, failures, crashes and restarts: the promises hold in the end."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from runtime import AgentConfig, ApprovalPolicy, ModelRouter, create_agent, errors, ops
from runtime.models.base import ModelReply, ModelRequest
from runtime.protocol import Abort, Approve, ApproveForSession, ApproveWith, Delivery, Deny, TextPart, ToolCall, Usage
from runtime.store import SqliteStore
from runtime.testing import FakeClock
from tests.durability.scenarios import SESSION, Effect, Scenario, assert_valid, note, problems

pytestmark = pytest.mark.timeout(400)

ANYTHING = Scenario(first=(), calls=("work",) * 10_000, unanswered=10_000)
DECISIONS = [Approve(), ApproveForSession(), Deny("no"), ApproveWith({}, {}), Abort()]


class Puppet:
    """A model that waits until the test says what it answers."""

    name = "puppet"
    context_window = 1_000_000

    def __init__(self) -> None:
        self.asked: asyncio.Future[ModelReply] | None = None
        self.by_itself = False

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        """Whatever the test says."""
        assert_valid(request.context)
        if self.by_itself:
            return ModelReply(parts=(TextPart(text="in the end"),), usage=Usage(input_tokens=1))
        self.asked = asyncio.get_running_loop().create_future()
        try:
            return await self.asked
        finally:
            self.asked = None


class Mortal:
    """A store that a crash cuts off: what is on disk is the durable part, and what is tried after the crash is lost."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.dead = False
        self._saves_to_live = -1
        self._keeps_the_last = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def doom(self, saves_to_live: int, *, keeps_the_last: bool) -> None:
        """Crash at the save after so many: before its commit, or after it with nobody told."""
        self._saves_to_live, self._keeps_the_last = saves_to_live, keeps_the_last

    async def save(self, *args: Any, **fields: Any) -> Any:
        """Save, unless the process is dead or dies of it."""
        dies = self._saves_to_live == 0
        self._saves_to_live -= 1
        if dies and not self.dead and self._keeps_the_last:
            await self.store.save(*args, **fields)
        self.dead = self.dead or dies
        if self.dead:
            raise errors.CheckpointError("the process is dead")
        return await self.store.save(*args, **fields)


class Held(Effect):
    """Has its effect, and then takes until the test lets it end."""

    def __init__(self, name: str, folder: Path, running: list[asyncio.Future[None]], **options: Any) -> None:
        super().__init__(name, folder, **options)
        self.running = running

    async def run(self, arguments: Any, context: Any) -> str:
        """Note the effect, wait, answer."""
        done = await super().run(arguments, context)
        ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running.append(ends)
        try:
            await ends
        finally:
            self.running.remove(ends)
        return done


class Session(RuleBasedStateMachine):
    """One session; every rule is something that may happen to it at any time."""

    @initialize()
    def begin(self) -> None:
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="machine-", dir=memory if memory.is_dir() else None))
        self.scenario = ANYTHING
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.puppet = Puppet()
        self.store: Any = self.run(SqliteStore.open(self.folder / "sessions.db"))
        self.running: list[asyncio.Future[None]] = []
        self.sent = 0
        self.receipts: dict[str, str] = {}
        self.run(self.open())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(work, 90))

    async def open(self) -> None:
        self.mortal = Mortal(self.store)
        tools = [
            Effect("work", self.folder, approval="never"),
            Held("held", self.folder, self.running, approval="never"),
            Held("side", self.folder, self.running, approval="never", parallel=True),
            Held("keyed", self.folder, self.running, approval="never", replay="by_key"),
            Held("gated", self.folder, self.running),
        ]
        self.agent = await create_agent(
            AgentConfig(
                models=ModelRouter("main", self.puppet),
                store=self.mortal,  # type: ignore[arg-type]
                session_id=SESSION,
                tools=tools,
                approval_policy=ApprovalPolicy.ASK,
                on_interrupted_step="retry",
                on_uncertain_tools="continue",
                approval_timeout_seconds=60,
                queue_limit=5,
                clock=self.clock,
            )
        )
        await self.settle()

    async def settle(self) -> None:
        """Let the session go on until it waits for the test."""
        async with asyncio.timeout(30):
            while not (self.agent.ended or self.agent.resting or self.waits()):
                await asyncio.sleep(0)

    def waits(self) -> bool:
        asks_model = self.puppet.asked is not None and not self.puppet.asked.done()
        # A question has its timer, and so has a call that is tried again.
        return asks_model or bool(self.running) or self.clock.sleeping > 0

    async def say(self, op: ops.Op, submission_id: str) -> Any:
        try:
            receipt = await self.agent.offer(op, submission_id)
        except errors.AgentStopped:
            return None
        for _ in range(20):  # what a stop ends still looks as if it waited for the test
            await asyncio.sleep(0)
        await self.settle()
        return receipt

    # -- people

    @rule(delivery=st.sampled_from([None, *Delivery]))
    def a_message(self, delivery: Delivery | None) -> None:
        self.sent += 1
        self.send(f"m-{self.sent}", delivery)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def the_same_message_again(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(sorted(self.receipts)))
        before = self.receipts[known]
        receipt = self.send(known, None)
        if receipt is not None and before == "accepted":
            assert receipt.status == "duplicate"

    def send(self, id: str, delivery: Delivery | None) -> Any:
        receipt = self.run(self.say(ops.Message(text=id, delivery=delivery), id))
        if receipt is not None and receipt.status in ("accepted", "duplicate"):
            self.receipts[id] = "accepted"
            note(self.folder / "acknowledged.log", id)
        return receipt

    @precondition(lambda self: self.agent.checkpoint.active_execution is not None)
    @rule()
    def a_stop(self) -> None:
        active = self.agent.checkpoint.active_execution
        assert active is not None
        self.run(self.say(ops.Interrupt(turn_id=active.turn_id, by="ann"), f"stop-{active.turn_id}"))
        assert self.agent.checkpoint.active_execution is None or (
            self.agent.checkpoint.active_execution.turn_id != active.turn_id
        )

    @precondition(lambda self: self.agent.checkpoint.pending_approval is not None)
    @rule(decision=st.sampled_from(DECISIONS))
    def a_press(self, decision: Any) -> None:
        approval = self.agent.checkpoint.pending_approval
        assert approval is not None
        op = ops.ResolveApproval(request_id=approval.request_id, decision=decision, decided_by="ann")
        self.run(self.say(op, f"press-{approval.request_id}-{decision}"))

    @precondition(lambda self: self.agent.checkpoint.pending_messages)
    @rule(data=st.data(), what=st.sampled_from([ops.RemoveQueued, ops.PromoteQueued, ops.EditQueued]))
    def a_change_of_the_queue(self, data: st.DataObject, what: Any) -> None:
        message = data.draw(st.sampled_from(self.agent.checkpoint.pending_messages))
        fields = {"text": "edited"} if what is ops.EditQueued else {}
        self.sent += 1
        self.run(self.say(what(message_id=message.id, **fields), f"change-{self.sent}"))

    # -- the model and the clock

    @precondition(lambda self: self.puppet.asked is not None)
    @rule(
        calls=st.lists(st.sampled_from(["work", "held", "side", "keyed", "gated", "unknown"]), max_size=3),
        error=st.sampled_from([None, None, None, errors.ModelUnavailable("x"), errors.ModelRefused("x"), KeyError()]),
    )
    def an_answer(self, calls: list[str], error: Exception | None) -> None:
        parts = tuple(ToolCall(call_id=f"c{n}", name=name) for n, name in enumerate(calls))
        reply = ModelReply(parts=parts or (TextPart(text="words"),), usage=Usage(input_tokens=1))
        self.run(self.let_answer(reply, error))

    async def let_answer(self, reply: ModelReply, error: Exception | None) -> None:
        assert self.puppet.asked is not None
        if error is None:
            self.puppet.asked.set_result(reply)
        else:
            self.puppet.asked.set_exception(error)
        self.puppet.asked = None
        await self.settle()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_tool_ends(self, data: st.DataObject) -> None:
        self.run(self.let_end(data.draw(st.integers(0, len(self.running) - 1))))

    async def let_end(self, index: int) -> None:
        self.running[index].set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)
        await self.settle()

    @rule(seconds=st.sampled_from([1, 4, 61]))
    def time_passes(self, seconds: int) -> None:
        self.run(self.let_pass(seconds))

    async def let_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)
        for _ in range(20):
            await asyncio.sleep(0)
        await self.settle()

    # -- the process

    @rule()
    def a_crash(self) -> None:
        self.run(self.crash())

    @precondition(lambda self: self.running)
    @rule()
    def a_crash_while_a_tool_runs(self) -> None:
        self.run(self.crash())

    @precondition(lambda self: self.puppet.asked is not None)
    @rule(name=st.sampled_from(["held", "keyed", "gated"]))
    def a_call(self, name: str) -> None:
        reply = ModelReply(parts=(ToolCall(call_id="c0", name=name),), usage=Usage(input_tokens=1), end_turn=False)
        self.run(self.let_answer(reply, None))

    async def crash(self) -> None:
        self.mortal.dead = True
        self.agent.abandon(RuntimeError("killed"))
        for _ in range(5):
            await asyncio.sleep(0)
        self.puppet.asked = None
        self.clock = FakeClock(self.clock.now_ms())
        await self.open()

    @rule()
    def an_orderly_restart(self) -> None:
        self.run(self.restart())

    async def restart(self) -> None:
        await self.agent.aclose()
        await self.open()

    # -- the end

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            self.run(self.end())
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Leave nothing open, whatever was found."""
        try:
            self.run(self.store.aclose())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    async def end(self) -> None:
        """Everything gets its answer; then what was promised must hold."""
        self.puppet.by_itself = True
        if self.puppet.asked is not None:
            await self.let_answer(ModelReply(parts=(TextPart(text="words"),), usage=Usage()), None)
        async with asyncio.timeout(30):
            while not self.agent.resting and not self.agent.ended:
                approval = self.agent.checkpoint.pending_approval
                if approval is not None and approval.decision is None:
                    op = ops.ResolveApproval(request_id=approval.request_id, decision=Deny("the end"))
                    await self.agent.offer(op, f"end-{approval.request_id}")
                for ends in self.running:
                    if not ends.done():
                        ends.set_result(None)
                self.clock.advance(4)
                await asyncio.sleep(0)
        assert self.agent.failure is None, self.agent.failure
        await self.agent.aclose()
        assert await problems(self) == []  # type: ignore[arg-type]


Session.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyOrder = Session.TestCase
TestAnyOrder.__doc__ = "Whatever happens in whatever order: nothing is lost, nothing is done twice, everything ends."
