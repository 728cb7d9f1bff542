"""`/loop`: what is typed, what it does to the session's loop, and how the true result is put into words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.handling import Desk
from gateway.strings import say, some
from runtime.loop_moves import loop_of
from runtime.protocol import ops
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.loops import LoopState, LoopStatus

MAX_ITERATIONS = 100
MAX_ROUNDS = 1000
ROUNDS_PER_ITERATION = 20
"""Model calls that an iteration may take on average, where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Repeat `prompt`."""

    iterations: int
    rounds: int
    prompt: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Say how the loop stands."""


@dataclass(frozen=True, slots=True)
class End:
    """Stop the loop, after its iteration or now."""

    now: bool = False


@dataclass(frozen=True, slots=True)
class Unclear:
    """What is wrong with it, in words."""

    words: str


Wish: TypeAlias = Begin | Tell | End | Unclear

_BEGIN = re.compile(r"(?P<count>\d{1,9})(?:\s+rounds=(?P<rounds>\d{1,9}))?\s+(?P<prompt>\S.*)", re.DOTALL)
_ROUNDS_LAST = re.compile(r"(?P<prompt>.*\S)\s+rounds=(?P<rounds>\d{1,9})", re.DOTALL)


def wish_of(rest: str) -> Wish:
    """What stands behind `/loop`."""
    words = rest.lower().split()
    if not words or words == ["status"]:
        return Tell()
    if words in (["stop"], ["stop", "now"]):
        return End(now=len(words) == 2)
    found = _BEGIN.fullmatch(rest.strip())
    if found is None:
        return Unclear(say("loop.usage"))
    prompt, rounds = found["prompt"], found["rounds"]
    if rounds is None and (last := _ROUNDS_LAST.fullmatch(prompt)) is not None:
        prompt, rounds = last["prompt"], last["rounds"]
    iterations = int(found["count"])
    most = min(iterations * ROUNDS_PER_ITERATION, MAX_ROUNDS) if rounds is None else int(rounds)
    if not (1 <= iterations <= MAX_ITERATIONS and 1 <= most <= MAX_ROUNDS):
        return Unclear(say("loop.too_many", limit=MAX_ITERATIONS, rounds=MAX_ROUNDS))
    return Begin(iterations=iterations, rounds=most, prompt=prompt)


def running(checkpoint: Checkpoint | None) -> LoopState | None:
    """The loop that has not ended, or None."""
    loop = loop_of(checkpoint) if checkpoint is not None else None
    return None if loop is None or loop.ended else loop


def loop_lines(checkpoint: Checkpoint | None) -> list[str]:
    """How the loop of a session stands, or how its last one ended; nothing if it never had one."""
    loop = loop_of(checkpoint) if checkpoint is not None else None
    if loop is None:
        return []
    told = {"done": loop.iterations_completed, "m": loop.max_iterations, "rounds": loop.rounds_started}
    if loop.ended:
        return [say("loop.status_last", status=say(f"loop.ended.{_word(loop.status)}"), **told)]
    within = loop.iterations_started > loop.iterations_completed
    status = say("loop.status_running", n=loop.iterations_started) if within else say("loop.status_between")
    lines = [say("loop.status", status=status, max_rounds=loop.max_rounds, **told)]
    return [*lines, say("loop.stops_after")] if loop.stop_requested else lines


def _word(status: LoopStatus) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", status.value).lower()


async def stop_loop(
    desk: Desk, session_id: str, loop_id: str, by: str, submission_id: str, *, now: bool
) -> tuple[Literal["stopping", "not_running"], str]:
    """Stop exactly this loop; the words say how, and how many messages run next."""
    receipt = await desk.submit(session_id, ops.StopLoop(now=now, by=by, loop_id=loop_id), submission_id)
    if receipt.status == "rejected":
        return "not_running", say("loop.none")
    desk.stopping_loop(session_id, loop_id, now)
    checkpoint = await desk.sessions.peek(session_id)
    waiting = len(checkpoint.pending_messages) if checkpoint is not None else 0
    words = [say("loop.stopping_now" if now else "loop.stopping_after")]
    return "stopping", " ".join([*words, *([some(waiting, "loop.queue_one", "loop.queue_many")] if waiting else [])])


async def settle_lost(
    desk: Desk, session_id: str, loop_id: str, by: str, submission_id: str, *, go_on: bool
) -> str | None:
    """Let a loop that a restart lost go on, or leave it; words that say so, or None if it does not wait any more."""
    op: ops.Op = ops.ContinueLoop(loop_id=loop_id) if go_on else ops.StopLoop(by=by, loop_id=loop_id)
    receipt = await desk.submit(session_id, op, submission_id)
    if receipt.status == "rejected":
        return None
    checkpoint = await desk.sessions.peek(session_id)
    loop = loop_of(checkpoint) if checkpoint is not None else None
    iteration = loop.iterations_completed + 1 if loop is not None else 1
    return say("loop.continued" if go_on else "loop.left", n=iteration)
