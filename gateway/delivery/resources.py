"""What all lanes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from adapters.contract import Adapter, Capabilities, Place
from gateway.budget import Budget
from gateway.delivery.border import Neighbours, Platforms
from gateway.delivery.policy import pause_seconds
from gateway.ledger.database import Database
from runtime.clock import Clock
from runtime.faults import Faults


class Account:
    """One of our accounts: its budget, and whether its platform can be reached.

    `provisional`: its adapter is not there yet, so that the platform's limits are not known.
    """

    def __init__(self, capabilities: Capabilities, now_ms: Callable[[], int], *, provisional: bool = False) -> None:
        self.provisional = provisional
        self.budget = Budget(capabilities, now_ms)
        self.credentials_refused = False
        self._now_ms = now_ms
        self._failures = 0

    def failed(self, seconds: float | None) -> None:
        """The platform was not reached: a growing pause, or the one given."""
        pause = pause_seconds(self._failures) if seconds is None else seconds
        self._failures += 1
        self.budget.out_of_order(self._now_ms() + round(pause * 1000))

    def reached(self) -> None:
        """The platform was reached."""
        if self._failures:
            self._failures = 0
            self.credentials_refused = False
            self.budget.in_order()


@dataclass(slots=True, eq=False, kw_only=True)
class Resources:
    """Database, platforms, clock, chance, and whoever helps where delivery cannot."""

    database: Database
    platforms: Platforms
    clock: Clock
    random_bytes: Callable[[int], bytes]
    neighbours: Neighbours
    faults: Faults
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict[tuple[str, str], Account])
    dead: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def adapter(self, place: Place) -> Adapter | None:
        """The adapter for a place, or None while it is not there."""
        return self.platforms.adapter(place.platform, place.account)

    def account(self, place: Place) -> Account:
        """Our account at a place."""
        key = place.platform, place.account
        adapter, account = self.adapter(place), self.accounts.get(key)
        if account is None or (account.provisional and adapter is not None):
            capabilities = Capabilities() if adapter is None else adapter.capabilities
            account = Account(capabilities, self.clock.now_ms, provisional=adapter is None)
            self.accounts[key] = account
        return account

    def bury(self, place: Place) -> None:
        """The chat takes nothing any more."""
        self.dead.add((place.platform, place.account, place.chat))

    def revive(self, place: Place) -> bool:
        """The chat took something. True: it was dead until now."""
        chat = place.platform, place.account, place.chat
        was_dead = chat in self.dead
        self.dead.discard(chat)
        return was_dead
