"""A seeded scheduler over everything that may happen to a session, with crashes at and between its commits.

The clock, the model and the people are the test's; a crash drops all but what is on disk. A seed is a whole history, so
one that fails is printed and fails again. The state machine looks for short counter-examples; this goes for numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from runtime import errors, ops
from runtime.protocol import Delivery
from tests.durability.test_state_machine import DECISIONS, Session

STEPS = 30
TOOLS = ("work", "held", "side", "keyed", "gated", "unknown")
FAILURES = (None, None, None, None, errors.ModelUnavailable("x"), errors.ModelRefused("x"))
CHANGES: tuple[Callable[[str], ops.Op], ...] = (
    lambda id: ops.RemoveQueued(message_id=id),
    lambda id: ops.PromoteQueued(message_id=id),
    lambda id: ops.EditQueued(message_id=id, text="edited"),
)


class Scheduler:
    """Draws what happens next from what can happen now."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.session = Session()
        self.happened: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """One history; on return its promises were looked at."""
        self.session.begin()
        try:
            self.message()
            for _ in range(STEPS):
                self.step()
        except BaseException:
            self.session.let_go()
            raise
        self.session.teardown()
        self.happened["acknowledged"] = len(self.session.receipts)
        return self.happened

    def step(self) -> None:
        """Something happens, and sometimes the process dies of it."""
        doomed = self.random.random() < 0.2
        keeps = self.random.random() < 0.5
        if doomed:
            self.session.mortal.doom(self.random.randrange(3), keeps_the_last=keeps)
        what = self.random.choice(self.possible())
        what()
        self.happened[what.__name__] += 1
        if self.session.mortal.dead:
            self.happened["died after a commit" if keeps else "died before a commit"] += 1
            self.session.run(self.session.crash())
        self.session.mortal.doom(-1, keeps_the_last=False)

    def possible(self) -> list[Callable[[], None]]:
        """What can happen now; the ordinary more often than the rest."""
        session, checkpoint = self.session, self.session.agent.checkpoint
        found = [self.message, self.message, self.message_again, self.time, self.crash, session.an_orderly_restart]
        found += [self.stop] if checkpoint.active_execution is not None else []
        undecided = checkpoint.pending_approval is not None
        found += [self.press] * 4 if undecided else []
        found += [self.change_of_the_queue] * 2 if checkpoint.pending_messages else []
        found += [self.answer] * 8 if session.puppet.asked is not None else []
        return found + ([self.tool_ends] * 4 if session.running else [])

    def message(self) -> None:
        """Somebody says something."""
        self.session.a_message(delivery=self.random.choice((None, *Delivery)))

    def message_again(self) -> None:
        """A message is delivered a second time."""
        if self.session.receipts:
            self.session.send(self.random.choice(sorted(self.session.receipts)), None)

    def stop(self) -> None:
        """Somebody stops the turn."""
        active = self.session.agent.checkpoint.active_execution
        assert active is not None
        op = ops.Interrupt(turn_id=active.turn_id, by="ann")
        self.session.run(self.session.say(op, f"stop-{active.turn_id}"))

    def press(self) -> None:
        """Somebody answers the request."""
        self.session.a_press(decision=self.random.choice(DECISIONS))

    def change_of_the_queue(self) -> None:
        """Somebody removes, promotes or edits a message that waits."""
        waiting = self.random.choice(self.session.agent.checkpoint.pending_messages)
        self.session.sent += 1
        op = self.random.choice(CHANGES)(waiting.id)
        self.session.run(self.session.say(op, f"change-{self.session.sent}"))

    def answer(self) -> None:
        """The model answers, calls tools, or fails."""
        calls = [self.random.choice(TOOLS) for _ in range(self.random.choice((0, 0, 1, 2, 3)))]
        self.session.an_answer(calls=calls, error=self.random.choice(FAILURES))

    def tool_ends(self) -> None:
        """A call that runs comes to its end."""
        self.session.run(self.session.let_end(self.random.randrange(len(self.session.running))))

    def time(self) -> None:
        """Time passes, sometimes beyond the end of a request."""
        self.session.time_passes(seconds=self.random.choice((1, 4, 61)))

    def crash(self) -> None:
        """The process dies while everything waits."""
        self.session.a_crash()


def simulate(seeds: range) -> None:
    """Every seed keeps every promise; together they saw what they are for."""
    total: Counter[str] = Counter()
    for seed in seeds:
        try:
            happened = Scheduler(seed).run()
        except BaseException:
            print(f"simulation: seed {seed} fails")
            raise
        assert happened["acknowledged"] > 0, f"seed {seed} acknowledged nothing"
        total.update(happened)
    print(f"simulation: {len(seeds)} seeds; " + ", ".join(f"{what} {n}" for what, n in sorted(total.items())))
    for what in ("died before a commit", "died after a commit", "crash", "press", "tool_ends", "change_of_the_queue"):
        assert total[what] > 0, f"{what} never happened"


@pytest.mark.timeout(400)  # a few seconds alone; the machine may be shared
def test_some_seeds() -> None:
    """Histories with crashes at any commit: nothing is lost, nothing is done twice, everything ends."""
    simulate(range(30))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_seeds() -> None:
    """The same over the seeds that CI has no time for."""
    simulate(range(30, 1030))
