"""What models may cost: counted on disk before an answer counts, and asked before each call.

A call begins only while its budgets are not used up, and while it runs it holds what a call of its model has cost so
far, so that calls side by side do not all slip through the last cent. Whoever finds the rest held waits for it.
A call that a crash swallowed is not counted: nobody can say what it cost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.ledger import spending
from gateway.ledger.database import Database
from gateway.ledger.spending import WHOLE
from gateway.strings import say
from runtime.clock import Clock
from runtime.errors import BudgetSpent, RuntimeFailure
from runtime.models.base import Delta, Model, ModelReply, ModelRequest
from runtime.protocol.context import Usage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """US dollars that may be spent in a UTC day in the places of a binding; 0: no limit."""

    binding: str
    usd: float


class Purse:
    """What was spent today, and what calls that run may still cost."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._day = ""
        self._spent: dict[str, float] = {}
        self._held: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        self._changed = asyncio.Condition()

    async def today(self, binding: str = WHOLE) -> float:
        """US dollars that were spent today, in the places of a binding or everywhere."""
        async with self._changed:
            await self._turn_page()
            return self._spent.get(binding, 0.0)

    async def hold(self, budgets: Sequence[Budget], model: str) -> tuple[tuple[str, float], ...]:
        """Hold what a call may cost; on return it may be made. BudgetSpent, with the remedy, if it may not."""
        limited = [budget for budget in budgets if budget.usd > 0]
        async with self._changed:
            while True:
                await self._turn_page()
                for budget in limited:
                    self._refuse_beyond(budget)
                if all(self._left(budget) > 0 for budget in limited):
                    break
                await self._changed.wait()
            held = tuple((budget.binding, self._costs.get(model, self._left(budget))) for budget in limited)
            for binding, usd in held:
                self._held[binding] = self._held.get(binding, 0.0) + usd
            return held

    async def release(self, held: Sequence[tuple[str, float]]) -> None:
        """The call is over; what it held may be used by others."""
        async with self._changed:
            for binding, usd in held:
                self._held[binding] = max(0.0, self._held[binding] - usd)
            self._changed.notify_all()

    async def pay(self, bindings: Sequence[str], model: str, usage: Usage) -> None:
        """Count what a call has cost, in memory at once and on disk on return."""
        everywhere = tuple(dict.fromkeys((*bindings, WHOLE)))
        async with self._changed:
            await self._turn_page()
            day = self._day
            self._costs[model] = max(self._costs.get(model, 0.0), usage.cost_usd)
            for binding in everywhere:
                self._spent[binding] = self._spent.get(binding, 0.0) + usage.cost_usd
        try:
            await self._database.write(spending.spent(day, everywhere, usage))
        except RuntimeFailure as error:  # the answer is paid for and must not be lost; this process goes on counting
            log.error("the cost of a call (%.4f USD) could not be stored: %s", usage.cost_usd, error)

    def _left(self, budget: Budget) -> float:
        return budget.usd - self._spent.get(budget.binding, 0.0) - self._held.get(budget.binding, 0.0)

    def _refuse_beyond(self, budget: Budget) -> None:
        spent = self._spent.get(budget.binding, 0.0)
        if spent >= budget.usd:
            raise BudgetSpent(say("spend.day", spent=f"{spent:.2f}", limit=f"{budget.usd:.2f}", where=_where(budget)))

    async def _turn_page(self) -> None:
        """A new day begins with what is on disk for it: nothing, or what was spent before a restart."""
        day = f"{datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC):%Y-%m-%d}"
        if day != self._day:
            self._spent = dict(await spending.of_day(self._database, day))
            self._day = day


class Metered:
    """A model whose calls are counted, and made only while there is money for them and a free slot."""

    def __init__(
        self,
        model: Model,
        purse: Purse,
        slots: asyncio.Semaphore,
        *,
        bindings: Sequence[str],
        budgets: Callable[[], Sequence[Budget]],
    ) -> None:
        self._model = model
        self._purse = purse
        self._slots = slots
        self._bindings = bindings
        self._budgets = budgets

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def context_window(self) -> int:
        """The model's window, in tokens."""
        return self._model.context_window

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once; on return the cost is on disk. BudgetSpent: nothing was asked."""
        async with self._slots:
            held = await self._purse.hold(self._budgets(), self.name)
            try:
                reply = await self._model.step(request, on_delta)
                await self._purse.pay(self._bindings, self.name, reply.usage)
            finally:
                await self._purse.release(held)
        return reply


async def today(purse: Purse, budgets: Sequence[Budget]) -> list[str]:
    """What was spent today, a line for each budget that is limited and one for the whole gateway."""
    return [
        say(
            "usage.today_of" if budget.usd else "usage.today",
            spent=f"{await purse.today(budget.binding):.2f}",
            limit=f"{budget.usd:.2f}",
            where=_where(budget),
        )
        for budget in budgets
        if budget.usd or budget.binding == WHOLE
    ]


def _where(budget: Budget) -> str:
    return say("spend.everywhere") if budget.binding == WHOLE else say("spend.here")
