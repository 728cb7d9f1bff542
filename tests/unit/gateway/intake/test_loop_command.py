"""`/loop` and the buttons of its card: what is understood, what is submitted, what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Text
from gateway.access import Right
from gateway.controls import RIGHTS
from gateway.ledger.surfaces import Letter, NewSurface
from gateway.looping import Begin, End, Tell, Unclear, loop_lines, wish_of
from runtime import loop_moves
from runtime.protocol import ops
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.loops import LoopState, LoopStatus
from tests.support.intake import OWNER, Stage, stage

BEGINS = [
    ("5 fix the tests", Begin(iterations=5, rounds=100, prompt="fix the tests")),
    ("5 rounds=20 fix the tests", Begin(iterations=5, rounds=20, prompt="fix the tests")),
    ("5 fix the tests rounds=20", Begin(iterations=5, rounds=20, prompt="fix the tests")),
    ("1 first line\nsecond", Begin(iterations=1, rounds=20, prompt="first line\nsecond")),
    ("100 go", Begin(iterations=100, rounds=1000, prompt="go")),
    ("2 rounds=7 rounds=9", Begin(iterations=2, rounds=7, prompt="rounds=9")),
    ("3 stop", Begin(iterations=3, rounds=60, prompt="stop")),
    ("", Tell()),
    ("status", Tell()),
    ("stop", End()),
    ("Stop now", End(now=True)),
]


@pytest.mark.parametrize(("rest", "expected"), BEGINS)
def test_what_is_understood(rest: str, expected: object) -> None:
    """A number and words begin a loop; `rounds` may stand before or behind the words."""
    assert wish_of(rest) == expected


@pytest.mark.parametrize("rest", ["5", "fix the tests", "stop it", "-1 go", "five go", "5x go"])
def test_what_is_not_understood(rest: str) -> None:
    """The answer says how it is written."""
    wish = wish_of(rest)
    assert isinstance(wish, Unclear)
    assert "/loop 5 fix the tests" in wish.words


@pytest.mark.parametrize("rest", ["0 go", "101 go", "999999999 go", "5 rounds=0 go", "5 rounds=1001 go"])
def test_what_is_beyond_bounds(rest: str) -> None:
    """The answer names the bounds."""
    assert wish_of(rest) == Unclear("At most 100 iterations are possible, and from 1 to 1000 rounds.")


async def submitted(s: Stage) -> list[ops.Op]:
    """What was asked of loops, each once."""
    kinds = (ops.StartLoop, ops.StopLoop, ops.ContinueLoop)
    return list({id: op for _, op, id in s.sessions.submitted if isinstance(op, kinds)}.values())


async def test_a_loop_begins(tmp_path: Path) -> None:
    """In the session of its place, which begins with it, on behalf of whoever wrote it."""
    async with stage(tmp_path) as s:
        await s.say("/loop 5 rounds=20 fix the tests")
        op = ops.StartLoop(prompt="fix the tests", max_iterations=5, max_rounds=20, author="Ann", principal=OWNER)
        assert await submitted(s) == [op]
        assert await s.outcomes() == ["loop"]


async def test_a_second_loop_is_refused(tmp_path: Path) -> None:
    """While one runs; the sentence says why."""
    async with stage(tmp_path) as s:
        await s.say("/loop 5 fix the tests")
        await s.say("/loop 5 and the docs")
        assert (await s.told())[-1] == "Not taken: a loop runs already."


async def test_nothing_is_begun_by_what_is_unclear(tmp_path: Path) -> None:
    """Neither a loop nor a session."""
    async with stage(tmp_path) as s:
        await s.say("/loop 5")
        await s.say("/loop 500 go")
        assert await submitted(s) == []
        assert s.sessions.sessions == {}
        assert len(await s.told()) == 2


async def test_a_prompt_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """As any message is."""
    async with stage(tmp_path) as s:
        await s.say("/loop 2 " + "x" * 40_000)
        assert await submitted(s) == []
        assert "at most" in (await s.told())[-1]


async def test_stopping_a_loop(tmp_path: Path) -> None:
    """Exactly the loop that ran when it was asked for; the answer says how many messages run next."""
    async with stage(tmp_path) as s:
        await s.say("/loop stop")
        await s.say("/loop 5 fix the tests")
        session = await s.session_of()
        loop = s.sessions.session(session).loop
        assert loop is not None
        await s.say("one")
        await s.say("/queue two")
        await s.say("/loop stop")
        await s.say("/loop stop now")
        assert (await submitted(s))[1:] == [
            ops.StopLoop(by=OWNER, loop_id=loop.loop_id),
            ops.StopLoop(now=True, by=OWNER, loop_id=loop.loop_id),
        ]
        told = await s.told()
        assert told[0] == "No loop runs here."
        assert "The loop ends after this iteration. 1 waiting message runs next." in told
        assert told[-1] == "Stopping the loop… 1 waiting message runs next."


async def test_status_tells_of_the_loop(tmp_path: Path) -> None:
    """By /loop status and by /status."""
    async with stage(tmp_path) as s:
        await s.say("/loop status")
        await s.say("/loop 5 rounds=20 fix the tests")
        await s.say("/loop status")
        await s.say("/status")
        none, loop, whole = (await s.told())[-3:]
        assert none.startswith("No loop runs here.")
        assert loop == "Loop: between two iterations, 0 of 5 iterations, 0 of 20 rounds"
        assert loop in whole


STATE = LoopState(
    status=LoopStatus.RUNNING, max_iterations=5, max_rounds=20, iterations_started=3, iterations_completed=2,
    rounds_started=7, loop_id="in:1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        (STATE, ["Loop: iteration 3 runs, 2 of 5 iterations, 7 of 20 rounds"]),
        (
            replace(STATE, stop_requested=True),
            ["Loop: iteration 3 runs, 2 of 5 iterations, 7 of 20 rounds", "Stops after this iteration"],
        ),
        *(
            (replace(STATE, status=status, ended=True), [f"The last loop: {word}, 2 of 5 iterations, 7 rounds"])
            for status, word in (
                (LoopStatus.COMPLETED, "done"),
                (LoopStatus.STOPPED, "stopped"),
                (LoopStatus.BUDGET_EXHAUSTED, "budget used up"),
                (LoopStatus.CANCELLED, "stopped at once"),
                (LoopStatus.FAILED, "failed"),
                (LoopStatus.RECOVERY_UNSUPPORTED, "interrupted by a restart"),
            )
        ),
    ],
)
def test_how_a_loop_stands(state: LoopState, lines: list[str]) -> None:
    """In one line, whatever its status."""
    assert loop_lines(replace(Checkpoint.empty("s"), loop_state=loop_moves.as_json(state))) == lines


# ------------------------------------------------------------------------------------------- buttons


async def card(s: Stage, choices: str = "eh", kind: str = "card") -> tuple[str, NewSurface]:
    """A loop that runs, and its card."""
    await s.say("/loop 5 fix the tests")
    session = await s.session_of()
    loop = s.sessions.session(session).loop
    assert loop is not None
    made = await s.card(session_id=session, kind=kind, turn_id=loop.loop_id, choices=choices)
    return loop.loop_id, made


@pytest.mark.parametrize(
    ("letter", "now", "words"),
    [
        (Letter.LOOP_AFTER, False, "The loop ends after this iteration."),
        (Letter.LOOP_NOW, True, "Stopping the loop…"),
    ],
)
async def test_the_stops_of_the_card(tmp_path: Path, letter: Letter, now: bool, words: str) -> None:
    """Each stops exactly the loop of its card."""
    async with stage(tmp_path) as s:
        loop_id, made = await card(s)
        assert await s.press(made, letter) == Text(text=words)
        assert (await submitted(s))[-1] == ops.StopLoop(now=now, by=OWNER, loop_id=loop_id)


async def test_a_late_stop_hits_no_later_loop(tmp_path: Path) -> None:
    """The card of a loop that is over stops nothing."""
    async with stage(tmp_path) as s:
        _, made = await card(s)
        session = s.sessions.session(await s.session_of())
        assert session.loop is not None
        session.loop = replace(session.loop, loop_id="in:99", generation=2)
        assert await s.press(made, Letter.LOOP_NOW) == Text(text="No loop runs here.", alert=True)
        assert session.loop.status is LoopStatus.RUNNING


def test_what_the_buttons_ask_for() -> None:
    """Stopping is for those who may stop, going on for those who may talk."""
    assert RIGHTS[Letter.LOOP_AFTER] is RIGHTS[Letter.LOOP_NOW] is Right.STOP
    assert RIGHTS[Letter.LOOP_ON] is RIGHTS[Letter.LOOP_LEAVE] is Right.TALK


@pytest.mark.parametrize(
    ("letter", "op", "words"),
    [
        (Letter.LOOP_ON, ops.ContinueLoop(loop_id="x"), "Going on from iteration 3."),
        (Letter.LOOP_LEAVE, ops.StopLoop(by=OWNER, loop_id="x"), "The loop was left at iteration 3."),
    ],
)
async def test_a_lost_loop_is_settled_by_a_press(tmp_path: Path, letter: Letter, op: ops.Op, words: str) -> None:
    """Going on, or left; the question loses its buttons, and a second press does nothing."""
    async with stage(tmp_path) as s:
        loop_id, made = await card(s, "cl", "notice")
        session = s.sessions.session(await s.session_of())
        session.loop = replace(
            STATE, loop_id=loop_id, status=LoopStatus.RECOVERY_UNSUPPORTED, ended=True, iterations_started=3
        )
        assert await s.press(made, letter) == Text(text=words)
        assert (await submitted(s))[-1] == replace(op, loop_id=loop_id)  # type: ignore[type-var]
        count = len(await submitted(s))
        assert await s.press(made, letter) == Text(text="This control is no longer in use.", alert=True)
        assert len(await submitted(s)) == count


async def test_a_lost_loop_that_is_settled_already(tmp_path: Path) -> None:
    """Another loop has begun since: nothing goes on, and the question is over."""
    async with stage(tmp_path) as s:
        _, made = await card(s, "cl", "notice")
        assert await s.press(made, Letter.LOOP_ON) == Text(text="That loop does not wait any more.", alert=True)


async def test_words_between_iterations_are_messages(tmp_path: Path) -> None:
    """A loop takes nobody's words away."""
    async with stage(tmp_path) as s:
        await s.say("/loop 5 fix the tests")
        await s.say("hello")
        sent = [op for _, op, _ in s.sessions.submitted if isinstance(op, ops.Message)]
        assert [(op.text, op.delivery) for op in sent] == [("hello", None)]
