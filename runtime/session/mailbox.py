"""What was asked of a session and has no receipt yet."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from runtime.errors import AgentStopped
from runtime.protocol import ops
from runtime.protocol.checkpoint import Receipt


class LostOnTheWay(AgentStopped):
    """The agent failed while it had the op. Nothing of the op is stored."""


@dataclass(slots=True, eq=False)
class Asked:
    """An op on its way to the loop. The receipt is given once what it did is stored.

    `fresh`: nobody can have asked under its id before.
    """

    op: ops.Op
    submission_id: str
    fresh: bool
    receipt: asyncio.Future[Receipt]

    def answer(self, receipt: Receipt) -> None:
        """Give the receipt, if who asked still waits."""
        if not self.receipt.done():
            self.receipt.set_result(receipt)

    def give_up(self, why: AgentStopped) -> None:
        """There will be no receipt."""
        if not self.receipt.done():
            self.receipt.set_exception(why)
            self.receipt.exception()  # a caller that has gone away is not an error of ours


class Mailbox:
    """Ops in the order they came in; stops go first."""

    def __init__(self) -> None:
        self._waiting: deque[Asked] = deque()
        self._taking: list[Asked] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, asked: Asked) -> None:
        """Let an op wait for the next round."""
        self._waiting.append(asked)

    def open_round(self) -> None:
        """What has arrived until now is this round's; what arrives meanwhile waits for the next one."""
        self._taking = sorted(self._waiting, key=lambda asked: not isinstance(asked.op, ops.Interrupt))
        self._waiting.clear()

    def first(self) -> Asked | None:
        """The next op of this round. It stays until it is done: who asked is told if the agent ends meanwhile."""
        return self._taking[0] if self._taking else None

    def done(self, asked: Asked) -> None:
        """The op has its receipt, or somebody else gives it."""
        self._taking.remove(asked)

    def give_up(self, why: AgentStopped) -> None:
        """Tell everybody who still waits that the agent has ended."""
        for asked in (*self._taking, *self._waiting):
            asked.give_up(why)
        self._taking.clear()
        self._waiting.clear()
