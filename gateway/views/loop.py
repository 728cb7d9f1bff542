"""What is known of a session's bounded loop, folded from its events. Pure, as the state of a turn is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.strings import say
from gateway.views.show import plain
from runtime.protocol import events
from runtime.protocol.context import Usage
from runtime.protocol.events import Event
from runtime.protocol.loops import LoopState

VISIBLE_ITERATIONS = 5
LINE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgress:
    """Where a loop stands. `index`: the iteration that began last; `lines`: one for each of the last that ended.

    `answer` is what the last one said, unless people have it already; `words` is that in any case. `by` is who ended a
    turn of it. `end` is None while it goes on.
    """

    loop_id: str
    max_iterations: int
    max_rounds: int = 0
    started_at_ms: int = 0
    since_ms: int = 0
    index: int = 0
    completed: int = 0
    lines: tuple[str, ...] = ()
    earlier: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    answer: str | None = None
    words: str | None = None
    by: str | None = None
    stopping: bool = False
    recovered: bool = False
    end: events.LoopEnded | None = None
    ended_at_ms: int | None = None


def of_state(stored: LoopState) -> LoopProgress:
    """What the stored state alone says of a loop whose beginning is not in the journal any more."""
    return LoopProgress(
        loop_id=stored.loop_id,
        max_iterations=stored.max_iterations,
        max_rounds=stored.max_rounds,
        started_at_ms=stored.started_at_ms,
        since_ms=stored.started_at_ms,
        index=stored.iterations_started,
        completed=stored.iterations_completed,
        earlier=stored.iterations_completed,
        stopping=stored.stop_requested,
    )


def loop_events(event: Event) -> bool:
    """Whether the event is about the loop itself, and not about one of its turns."""
    return isinstance(event.msg, events.LoopIterationStarted | events.LoopIterationCompleted | events.LoopEnded)


def fold_loop(loop: LoopProgress | None, event: Event) -> LoopProgress | None:
    """The loop after one of its own events."""
    at = event.recorded_at_ms
    match event.msg:
        case events.LoopStarted() as started:
            return _began(loop, started, at)
        case events.LoopIterationStarted(index=index) if loop is not None:
            return replace(loop, index=index, since_ms=at, recovered=False)
        case events.LoopIterationCompleted(index=index) if loop is not None:
            return _line(replace(loop, completed=index, since_ms=at))
        case events.LoopEnded() as end if loop is not None:
            return replace(loop, completed=end.iterations_completed, end=end, ended_at_ms=at)
        case _:
            return loop


def _began(loop: LoopProgress | None, started: events.LoopStarted, at_ms: int) -> LoopProgress:
    """A new loop; or the same one, under a new generation, from where it stood."""
    if loop is not None and loop.loop_id == started.loop_id:
        return replace(loop, since_ms=at_ms, end=None, ended_at_ms=None, by=None)
    return LoopProgress(
        loop_id=started.loop_id,
        max_iterations=started.max_iterations,
        max_rounds=started.max_rounds,
        started_at_ms=at_ms,
        since_ms=at_ms,
    )


def iteration_over(
    loop: LoopProgress, msg: events.TurnComplete | events.TurnAborted, usage: Usage, *, told: bool
) -> LoopProgress:
    """The turn of an iteration has ended. `told`: its answer is sent as the answer to a person who steered."""
    used = replace(loop, tool_calls=loop.tool_calls + msg.tool_calls, usage=loop.usage + usage)
    match msg:
        case events.TurnComplete(last_assistant_message=words):
            return replace(used, words=words, answer=None if told else words)
        case events.TurnAborted(by=by):
            return replace(used, by=by)


def _line(loop: LoopProgress) -> LoopProgress:
    """A finished iteration is one line: the first of its answer."""
    first = next((line for line in (loop.words or "").splitlines() if line.strip()), "")
    text = plain(first, LINE_LIMIT) or say("loop.line_empty")
    lines = (*loop.lines, say("loop.line", n=loop.completed, text=text))
    return replace(
        loop,
        lines=lines[-VISIBLE_ITERATIONS:],
        earlier=loop.earlier + max(0, len(lines) - VISIBLE_ITERATIONS),
    )
