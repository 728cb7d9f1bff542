"""Conversations for crash tests: what is said, what the model and the people do, and what must hold in the end.

Everything is decided by what is stored and by fixed ids, so a conversation can be gone through again from any state:
whoever had no acknowledgement asks again, and nothing happens twice.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import Agent, AgentConfig, ApprovalPolicy, ModelRouter, create_agent, events, ops
from runtime.errors import AgentStopped
from runtime.faults import NO_FAULTS, Faults
from runtime.loops import read_loop_state
from runtime.models.base import ModelReply, ModelRequest
from runtime.protocol import (
    Approve,
    ApproveWith,
    AssistantMessage,
    Checkpoint,
    Delivery,
    Deny,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from runtime.tools.base import Tool, ToolContext

SESSION = "s"
Say = Callable[[ops.Op, str], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop of three iterations, and how it has to end: status, iterations that completed, rounds."""

    max_rounds: int = 99
    end: tuple[str, int, int]
    stopped_in: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is sent at first, what the model calls, what happens while it is asked, and how people answer.

    `unanswered` turns may end without an answer, because a person stops them or the model fails. `loop` is started
    after the first messages; each of its iterations calls the same tools.
    """

    first: tuple[str, ...] = ("hello",)
    calls: tuple[str, ...] = ()
    meanwhile: Callable[[Say, str], Awaitable[None]] | None = None
    decision: Any = None
    unanswered: int = 0
    fills_window: bool = False
    compacts: bool = False
    loop: Loop | None = None


async def steer(say: Say, turn_id: str) -> None:
    """Somebody adds something while the model is asked."""
    await say(ops.Message(text="and this", delivery=Delivery.STEER), "steer-1")


async def queue(say: Say, turn_id: str) -> None:
    """Somebody queues two messages while the model is asked, edits one and removes the other."""
    await say(ops.Message(text="later", delivery=Delivery.QUEUE), "queue-1")
    await say(ops.Message(text="never", delivery=Delivery.QUEUE), "queue-2")
    await say(ops.EditQueued(message_id="queue-1", text="later, edited"), "edit-1")
    await say(ops.RemoveQueued(message_id="queue-2", by="ann"), "remove-1")


async def interrupt(say: Say, turn_id: str) -> None:
    """Somebody stops the turn, and the model would never answer."""
    await say(ops.Message(text="after that", delivery=Delivery.QUEUE), "queue-1")
    await say(ops.Interrupt(turn_id=turn_id, by="ann"), f"stop-{turn_id}")
    await asyncio.Event().wait()


SCENARIOS: dict[str, Scenario] = {
    "plain": Scenario(),
    "tool": Scenario(calls=("work",)),
    "by_key": Scenario(calls=("keyed",)),
    "parallel": Scenario(calls=("side", "side", "work")),
    "approval": Scenario(calls=("gated", "work"), decision=Approve()),
    "denied": Scenario(calls=("gated", "work"), decision=Deny("no")),
    "edited": Scenario(calls=("gated",), decision=ApproveWith({"c0": {"edited": True}})),
    "steer": Scenario(calls=("work", "work"), meanwhile=steer),
    "queue": Scenario(meanwhile=queue),
    "interrupt": Scenario(meanwhile=interrupt, unanswered=1),
    "compaction": Scenario(first=("one", "two", "three"), fills_window=True),
    "compact": Scenario(first=("one", "two"), compacts=True),
    "loop": Scenario(calls=("work",), loop=Loop(end=("Completed", 3, 6))),
    "loop_stopped": Scenario(calls=("work",), loop=Loop(end=("Stopped", 2, 4), stopped_in="loop-1:2")),
    "loop_budget": Scenario(calls=("work",), loop=Loop(end=("BudgetExhausted", 1, 3), max_rounds=3), unanswered=1),
}


class Brain:
    """Calls the scenario's tools once their results are missing, then answers. Notes every question in a file."""

    name = "brain"

    def __init__(self, scenario: Scenario, folder: Path, say: Say) -> None:
        self.context_window = 2_000 if scenario.fills_window else 1_000_000
        self._scenario = scenario
        self._folder = folder
        self._say = say
        self.turn_id = ""

    async def step(self, request: ModelRequest, on_delta: Any) -> ModelReply:
        """One answer."""
        note(self._folder / "model.log", request.session_id)
        assert_valid(request.context)
        if request.session_id.endswith("/compaction"):
            return ModelReply(parts=(TextPart(text="summary"),), usage=Usage(input_tokens=10, output_tokens=1))
        asked = [item for item in request.context if isinstance(item, UserMessage)]
        if self._scenario.meanwhile is not None and asked[-1].id == "m-0":
            await self._scenario.meanwhile(self._say, self.turn_id)
        loop = self._scenario.loop
        if loop is not None and asked[-1].id == loop.stopped_in:
            await self._say(ops.StopLoop(by="ann"), "stop-loop")
        since = list(request.context).index(asked[-1]) if loop is not None else 0
        called = any(isinstance(item, ToolResult) for item in list(request.context)[since:])
        if self._scenario.calls and not called:
            calls = tuple(ToolCall(call_id=f"c{n}", name=name) for n, name in enumerate(self._scenario.calls))
            return ModelReply(parts=calls, usage=Usage(input_tokens=10, output_tokens=1), end_turn=False)
        size = 1_900 if self._scenario.fills_window and len(asked) > 1 else 10
        text = TextPart(text=f"answer to {asked[-1].id}")
        return ModelReply(parts=(text,), usage=Usage(input_tokens=size, output_tokens=1))


class Effect(Tool):
    """Has its effect in a file: one line per run, under the key of the call."""

    parameters: Any = {"type": "object", "properties": {}}

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        self.name = name
        self.folder = folder
        for option, value in options.items():
            setattr(self, option, value)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Write the line, durably as far as this process is concerned."""
        note(self.folder / "effects.log", f"{self.name} {context.idempotency_key} {sorted(arguments)}")
        await asyncio.sleep(0)
        return f"{self.name} done"


def note(path: Path, line: str) -> None:
    """One line at the end of a file, in one write: a kill leaves it whole or not at all."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def lines(path: Path) -> list[str]:
    """What was noted; nothing if the file is not there."""
    return path.read_text().splitlines() if path.exists() else []


def assert_valid(context: Any) -> None:
    """A provider accepts the history: each call has its result before anybody else speaks."""
    open_calls: set[str] = set()
    for item in context:
        if isinstance(item, ToolResult):
            assert item.call_id in open_calls, f"a result without its call: {item}"
            open_calls.discard(item.call_id)
        else:
            assert not open_calls, f"calls without results: {open_calls}"
            if isinstance(item, AssistantMessage):
                open_calls = {part.call_id for part in item.parts if isinstance(part, ToolCall)}
    assert not open_calls, f"calls without results: {open_calls}"


class Conversation:
    """One scenario on one store: start it, crash it, go on with it, and check it."""

    def __init__(self, name: str, store: Any, folder: Path, faults: Faults = NO_FAULTS) -> None:
        self.scenario = SCENARIOS[name]
        self.store = store
        self.folder = folder
        self.brain = Brain(self.scenario, folder, self.say)
        self.agent: Agent | None = None
        self._faults = faults

    def config(self) -> AgentConfig:
        """As the gateway has it: interrupted steps are asked again, uncertain calls are told to the model."""
        return AgentConfig(
            models=ModelRouter("main", self.brain),
            store=self.store,
            session_id=SESSION,
            tools=[
                Effect("work", self.folder, approval="never"),
                Effect("side", self.folder, approval="never", parallel=True),
                Effect("keyed", self.folder, approval="never", replay="by_key"),
                Effect("gated", self.folder),
            ],
            approval_policy=ApprovalPolicy.ASK,
            on_interrupted_step="retry",
            on_uncertain_tools="continue",
            initial_replay_batches=0,
            faults=self._faults,
        )

    async def say(self, op: ops.Op, submission_id: str) -> None:
        """Submit, and note the acknowledgement: what is noted was promised."""
        assert self.agent is not None
        receipt = await self.agent.offer(op, submission_id)
        if isinstance(op, ops.Message) and receipt.status in ("accepted", "duplicate"):
            note(self.folder / "acknowledged.log", submission_id)

    async def go_on(self) -> None:
        """Open the session, say what was not acknowledged, answer what is asked, until nothing is left to do."""
        self.agent = await create_agent(self.config())
        people = asyncio.ensure_future(self._people(self.agent))
        try:
            for n, text in enumerate(self.scenario.first):
                await self.say(ops.Message(text=text + " word" * 50), f"m-{n}")
                await self.agent.idle()
            if self.scenario.loop is not None:
                rounds = self.scenario.loop.max_rounds
                await self.say(ops.StartLoop(prompt="again", max_iterations=3, max_rounds=rounds), "loop-1")
            if self.scenario.compacts:
                await self.say(ops.Compact(), "compact-1")
            await self.agent.idle()
        finally:
            await self.agent.aclose()
            await people
        if self.agent.failure is not None:
            raise self.agent.failure

    async def _people(self, agent: Agent) -> None:
        while (event := await agent.next_event()) is not None:
            match event.msg:
                case events.TurnStarted() | events.ModelStepStarted():
                    self.brain.turn_id = event.msg.turn_id
                case events.ApprovalRequested():
                    request_id = event.msg.request_id
                    op = ops.ResolveApproval(
                        request_id=request_id, decision=self.scenario.decision, decided_by="approver"
                    )
                    try:
                        await self.say(op, f"press-{request_id}")
                    except AgentStopped:
                        return
                case _:
                    pass


async def problems(conversation: Conversation, *, save_failed: bool = False) -> list[str]:
    """What does not hold in the end; empty if everything does. A loop may fail for a save that reported an error."""
    checkpoint = await conversation.store.load(SESSION)
    if checkpoint is None:
        return ["there is no session"]
    page = await conversation.store.event_page(SESSION, after=0, limit=100_000)
    journal = [event.msg for event in page.events]
    records = (await conversation.store.execution_page(SESSION, limit=1000)).executions
    return [
        *_problems_of_messages(conversation, journal),
        *_problems_of_turns(conversation, journal, records),
        *_problems_of_effects(conversation),
        *_problems_of_the_loop(conversation, journal, checkpoint, save_failed),
        *problems_of_the_end(checkpoint, page),
    ]


def _problems_of_messages(conversation: Conversation, journal: list[Any]) -> list[str]:
    """Every acknowledged message entered once, or was removed by a person."""
    entered = Counter(msg.message_id for msg in journal if isinstance(msg, events.Message))
    removed = {msg.message_id for msg in journal if isinstance(msg, events.MessageRemoved)}
    promised = {id for id in lines(conversation.folder / "acknowledged.log") if not id.startswith("press")}
    found = [f"{id} was acknowledged and is lost" for id in promised - set(entered) - removed]
    found += [f"{id} entered {count} times" for id, count in entered.items() if count != 1]
    expected = {f"m-{n}" for n in range(len(conversation.scenario.first))}
    return found + [f"{id} was never answered" for id in expected - set(entered)]


def _problems_of_turns(conversation: Conversation, journal: list[Any], records: Any) -> list[str]:
    """In order, with an answer unless a person stopped it; every request is decided once."""
    found = problems_of_the_order(journal, records)
    unanswered = [record for record in records if record.outcome != "completed"]
    if len(unanswered) > conversation.scenario.unanswered:
        found.append(f"{len(unanswered)} turns were not answered: {unanswered}")
    closed = Counter(msg.request_id for msg in journal if isinstance(msg, events.ApprovalResolved))
    asked = {msg.request_id for msg in journal if isinstance(msg, events.ApprovalRequested)}
    found += [f"{id} was decided {count} times" for id, count in closed.items() if count != 1]
    return found + [f"{id} was never decided" for id in asked - set(closed)]


def problems_of_the_order(journal: list[Any], records: Any) -> list[str]:
    """One start, one terminal event and one record per turn, one turn after the other."""
    found: list[str] = []
    running: str | None = None
    for msg in journal:
        match msg:
            case events.TurnStarted():
                found += [f"{msg.turn_id} began within {running}"] if running else []
                running = msg.turn_id
            case events.TurnComplete() | events.TurnAborted():
                found += [f"{msg.turn_id} ended, but {running} was running"] if msg.turn_id != running else []
                running = None
            case _:
                pass
    found += [f"{running} never ended"] if running else []
    ends = Counter(msg.turn_id for msg in journal if isinstance(msg, events.TurnComplete | events.TurnAborted))
    recorded = Counter(record.turn_id for record in records)
    return found + ([] if ends == recorded else [f"terminal events {ends} and records {recorded} differ"])


def _problems_of_effects(conversation: Conversation) -> list[str]:
    """No call had its effect twice, unless its tool allows that under the same key; a denied one had none."""
    effects = lines(conversation.folder / "effects.log")
    found: list[str] = []
    for effect, count in Counter(effects).items():
        if count > 1 and not effect.startswith("keyed"):
            found.append(f"{effect} happened {count} times")
    keys = [effect.split()[1] for effect in effects]
    if len(set(keys)) > len(conversation.scenario.calls) * (4 if conversation.scenario.loop else 1):
        found.append(f"more calls than were asked for: {effects}")
    if isinstance(conversation.scenario.decision, Deny) and any(effect.startswith("gated") for effect in effects):
        found.append("a denied call ran")
    if isinstance(conversation.scenario.decision, ApproveWith):
        found += [f"not what was approved: {effect}" for effect in effects if "edited" not in effect]
    return found


def _problems_of_the_loop(
    conversation: Conversation, journal: list[Any], checkpoint: Checkpoint, save_failed: bool
) -> list[str]:
    """Its iterations began and ended once, in order; its end was told once, as it is stored, and is the right one."""
    loop = conversation.scenario.loop
    if loop is None:
        return []
    begun = [msg.index for msg in journal if isinstance(msg, events.LoopIterationStarted)]
    completed = [msg.index for msg in journal if isinstance(msg, events.LoopIterationCompleted)]
    ended = [msg for msg in journal if isinstance(msg, events.LoopEnded)]
    told = [(msg.status, msg.iterations_completed, msg.rounds_started) for msg in ended]
    failed = save_failed and told == [("Failed", *loop.end[1:])]
    state = read_loop_state(checkpoint)
    found = [] if told == [loop.end] or failed else [f"the loop's end was told as {told}, and is {loop.end}"]
    found += [] if completed == list(range(1, loop.end[1] + 1)) else [f"iterations completed: {completed}"]
    found += [] if begun == list(range(1, len(begun) + 1)) else [f"iterations begun: {begun}"]
    stored = ("Failed", "failed") if failed else (loop.end[0], "completed")
    if state is None or (state.status, checkpoint.runtime_status) != stored or not state.ended:
        found.append(f"the loop is stored as {state}, {checkpoint.runtime_status}")
    generations = [msg.generation for msg in journal if isinstance(msg, events.LoopStarted)]
    return found + ([] if generations == list(range(1, len(generations) + 1)) else [f"generations {generations}"])


def problems_of_the_end(checkpoint: Checkpoint, page: Any) -> list[str]:
    """Nothing runs, nothing waits, the journal has no gap, and a provider accepts the history."""
    found: list[str] = []
    if not checkpoint.idle or checkpoint.pending_messages or checkpoint.pending_tools or checkpoint.pending_approval:
        found.append(f"something is left: {checkpoint}")
    if [event.sequence for event in page.events] != list(range(1, page.latest_sequence + 1)):
        found.append("the journal has a gap")
    try:
        assert_valid(checkpoint.context)
    except AssertionError as error:
        found.append(str(error))
    return found
