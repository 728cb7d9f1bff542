"""One durable turn (model step, tool, model step, with instant fakes): CPU, syncs, bytes and turns per second.

Run `python benchmarks/turn.py`. Peers are measured in turn with ours, each by the Python of an environment that has it:

    python benchmarks/turn.py --peer langgraph=/path/to/python --peer pydantic-ai=/path/to/python

Nothing is asserted. Wall time on a shared machine says little; compare the counts first, then CPU as a ratio to a peer
of the same run. "syncs" are those of the database files, counted by strace where it is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CASES = ((1, 12), (1, 1_000), (1, 5_000), (100, 12))
"""(sessions at once, messages in each history)"""
TEXT = "a sentence of the kind that people and models write to each other, of some eighty characters."
Turn = Callable[[int, int], Awaitable[None]]


@dataclass(slots=True)
class Measured:
    """Of one turn, on average."""

    turns: int
    seconds: float
    cpu_ms: float
    bytes: float

    @classmethod
    def of(cls, turns: int, began: tuple[float, float, int]) -> Measured:
        """What has passed since `began`."""
        wall, cpu, written = now()
        return cls(turns, wall - began[0], (cpu - began[1]) * 1000 / turns, (written - began[2]) / turns)


def now() -> tuple[float, float, int]:
    """Wall clock, CPU of this process with its threads, bytes written by it."""
    written = int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])
    return time.perf_counter(), time.process_time(), written


# --------------------------------------------------------------------------------------------------------- engines


async def ours(folder: Path, sessions: int, history: int) -> Turn:
    """This runtime, as the gateway uses it."""
    from dataclasses import replace

    from runtime import AgentConfig, ApprovalPolicy, ModelRouter, create_agent, ops
    from runtime.models.base import ModelReply
    from runtime.protocol import AssistantMessage, Checkpoint, TextPart, ToolCall, ToolResult, UserMessage
    from runtime.store.sqlite import SqliteStore
    from runtime.tools.base import Tool

    class Fake:
        name, context_window = "fake", 100_000_000

        async def step(self, request: Any, on_delta: Any) -> ModelReply:
            if isinstance(request.context[-1], ToolResult):
                return ModelReply(parts=(TextPart(text=TEXT),))
            return ModelReply(parts=(ToolCall(call_id="c", name="add", arguments={"a": 1, "b": 2}),), end_turn=False)

    class Add(Tool):
        name = "add"
        parameters: Any = {"type": "object", "properties": {"a": {}, "b": {}}}  # noqa: RUF012

        async def run(self, arguments: Any, context: Any) -> str:
            return str(arguments["a"] + arguments["b"])

    store = await SqliteStore.open(folder / "ours.db")
    pair = [UserMessage(id="m", author="ann", text=TEXT), AssistantMessage(parts=(TextPart(text=TEXT),))]
    agents = []
    for number in range(sessions):
        id = f"s{number}"
        context = tuple(pair[n % 2] for n in range(history))
        await store.save(replace(Checkpoint.empty(id), sequence=1, model_route="m", context=context))
        agents.append(
            await create_agent(
                AgentConfig(
                    models=ModelRouter("m", Fake()),
                    store=store,
                    session_id=id,
                    tools=[Add()],
                    approval_policy=ApprovalPolicy.ALLOW,
                    initial_replay_batches=0,
                )
            )
        )

    async def turn(session: int, number: int) -> None:
        await agents[session].submit(ops.Message(text=TEXT), f"{session}-{number}")
        await agents[session].idle()

    return turn


async def langgraph(folder: Path, sessions: int, history: int) -> Turn:
    """LangGraph with its own SQLite saver, every step durable before the next."""
    import operator
    from typing import Annotated, TypedDict

    import aiosqlite
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    State = TypedDict("State", {"messages": Annotated[list, operator.add]})  # noqa: UP013

    async def model(state: Any) -> Any:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage(TEXT)]}
        return {"messages": [AIMessage("", tool_calls=[{"id": "c", "name": "add", "args": {"a": 1, "b": 2}}])]}

    async def tool(state: Any) -> Any:
        return {"messages": [ToolMessage("3", tool_call_id="c")]}

    graph: Any = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tool" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tool", "model")
    connection = await aiosqlite.connect(folder / "langgraph.db")
    await connection.execute("PRAGMA synchronous = FULL")
    compiled = graph.compile(checkpointer=AsyncSqliteSaver(connection))
    for number in range(sessions):
        messages = [HumanMessage(TEXT) if n % 2 == 0 else AIMessage(TEXT) for n in range(history)]
        await compiled.aupdate_state(
            {"configurable": {"thread_id": str(number)}}, {"messages": messages}, as_node="model"
        )

    async def turn(session: int, number: int) -> None:
        where = {"configurable": {"thread_id": str(session)}}
        await compiled.ainvoke({"messages": [HumanMessage(TEXT)]}, where, durability="sync")

    return turn


async def pydantic_ai(folder: Path, sessions: int, history: int) -> Turn:
    """pydantic-ai's Agent, its history in memory: nothing is durable."""
    from pydantic_ai import Agent, messages
    from pydantic_ai.models.function import FunctionModel

    def model(found: Any, info: Any) -> Any:
        if isinstance(found[-1].parts[-1], messages.ToolReturnPart):
            return messages.ModelResponse(parts=[messages.TextPart(TEXT)])
        return messages.ModelResponse(parts=[messages.ToolCallPart("add", {"a": 1, "b": 2})])

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    pair = [
        messages.ModelRequest(parts=[messages.UserPromptPart(TEXT)]),
        messages.ModelResponse(parts=[messages.TextPart(TEXT)]),
    ]
    histories: list[Any] = [[pair[n % 2] for n in range(history)] for _ in range(sessions)]

    async def turn(session: int, number: int) -> None:
        done = await agent.run(TEXT, message_history=histories[session])
        histories[session] = done.all_messages()

    return turn


ENGINES = {"ours": ours, "langgraph": langgraph, "pydantic-ai": pydantic_ai}


async def measure(engine: str, sessions: int, history: int, turns: int) -> Measured:
    """Some turns to warm up, then `turns` of them, shared by the sessions."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        turn = await ENGINES[engine](Path(name), sessions, history)
        each = max(1, turns // sessions)

        async def talk(session: int, first: int, last: int) -> None:
            for number in range(first, last):
                await turn(session, number)

        await asyncio.gather(*(talk(session, 0, 2) for session in range(sessions)))
        began = now()
        await asyncio.gather(*(talk(session, 2, 2 + each) for session in range(sessions)))
        return Measured.of(each * sessions, began)


# ------------------------------------------------------------------------------------------------------- the report


def run(python: str, engine: str, sessions: int, history: int, turns: int) -> tuple[Measured, float | None]:
    """Measure in a process of its own; and again with half the turns under strace, for the syncs."""
    command = [python, __file__, "--engine", engine, "--case", f"{sessions},{history},{turns}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    measured = Measured(**json.loads(done.stdout.splitlines()[-1]))
    if shutil.which("strace") is None:
        return measured, None
    counts = []
    for number in (turns, 2 * turns):
        traced = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", *command[:-1], f"{sessions},{history},{number}"]
        report = subprocess.run(traced, env=environment, capture_output=True, text=True).stderr
        counts.append(
            sum(int(line.split()[3]) for line in report.splitlines() if line.endswith(("fsync", "fdatasync")))
        )
    return measured, (counts[1] - counts[0]) / turns


def main() -> None:
    """Print a line per case and engine, with CPU and bytes as ratios to ours."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], help="name=python, for langgraph and pydantic-ai")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        sessions, history, turns = map(int, arguments.case.split(","))
        measured = asyncio.run(measure(arguments.engine, sessions, history, turns))
        print(
            json.dumps({name: getattr(measured, name) for name in ("turns", "seconds", "cpu_ms", "bytes")}), flush=True
        )
        os._exit(0)  # what is open is of no interest any more
    engines = [("ours", sys.executable), *(peer.split("=", 1) for peer in arguments.peer)]
    print(f"{'sessions':>8} {'history':>8} {'engine':>12} {'CPU ms':>8} {'x ours':>7} {'bytes':>11} {'x ours':>7} "
          f"{'syncs':>6} {'turns/s':>8}")  # fmt: skip
    for sessions, history in CASES:
        base: Measured | None = None
        for engine, python in engines:
            turns = arguments.turns if engine == "ours" or history <= 12 else max(10, arguments.turns // 10)
            found, syncs = run(python, engine, sessions, history, max(turns, 5 * sessions))
            base = base or found
            print(
                f"{sessions:>8} {history:>8} {engine:>12} {found.cpu_ms:>8.2f} {found.cpu_ms / base.cpu_ms:>7.1f} "
                f"{found.bytes:>11.0f} {found.bytes / base.bytes:>7.1f} "
                f"{'-' if syncs is None else format(syncs, '.2f'):>6} {found.turns / found.seconds:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
