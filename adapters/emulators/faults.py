"""Faults prepared by a test: exact, counted, fired in the order in which they were prepared.

Two places can fail. A *request* of the client: refused, broken, cut, slow, half-open. An *event* on its way to the
client: late, doubled, out of order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ANY = "*"


class FaultKind(StrEnum):
    """What happens. `Fault.applied` says whether the platform had accepted the request before it happened."""

    RATE_LIMIT = "rate_limit"
    """429 with `retry_after`; never applied."""
    SERVER_ERROR = "server_error"
    """5xx."""
    REFUSE = "refuse"
    """The given `status` and `description`; never applied."""
    DROP = "drop"
    """The connection is cut without an answer."""
    HALF_OPEN = "half_open"
    """The connection stays open and silent for `seconds`, then is cut; with 0 until somebody disconnects it."""
    DELAY = "delay"
    """A request is handled, an event delivered, `seconds` late."""
    DUPLICATE = "duplicate"
    """An event is delivered twice under one id."""
    REORDER = "reorder"
    """An event is delivered after the one that follows it."""


EVENT_ONLY = frozenset({FaultKind.DUPLICATE, FaultKind.REORDER})
NEVER_APPLIED = frozenset({FaultKind.RATE_LIMIT, FaultKind.REFUSE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One prepared fault.

    `target` is a method's name, or an event's type if `event` is true; case does not matter, `*` is any.
    It fires `times` times after letting `skip` matching ones pass. `where` must be contained in the parameters.
    """

    target: str
    kind: FaultKind
    event: bool = False
    times: int = 1
    skip: int = 0
    applied: bool = False
    status: int = 502
    retry_after: int = 1
    seconds: float = 0.0
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    where: Mapping[str, Any] = field(default_factory=dict[str, Any])
    account: str | None = None

    def __post_init__(self) -> None:
        if problem := _contradiction(self):
            raise ValueError(f"fault {self.kind} on {self.target!r}: {problem}")

    def matches(self, target: str, account: str, params: Mapping[str, Any]) -> bool:
        """Whether this fault is meant for such a request or event."""
        if self.target != ANY and self.target.lower() != target.lower():
            return False
        if self.account not in (None, account):
            return False
        return all(params.get(name) == value for name, value in self.where.items())


def _contradiction(fault: Fault) -> str | None:
    if fault.times < 1 or fault.skip < 0:
        return "times must be at least 1 and skip at least 0"
    if fault.event and fault.kind not in EVENT_ONLY | {FaultKind.DELAY}:
        return "an event can only be delayed, duplicated or reordered"
    if not fault.event and fault.kind in EVENT_ONLY:
        return "only events can be duplicated or reordered: pass event=True"
    if fault.applied and fault.kind in NEVER_APPLIED:
        return "the platform refuses before it accepts: applied cannot be true"
    if fault.kind is FaultKind.DELAY and fault.seconds <= 0:
        return "needs seconds > 0"
    if fault.kind is FaultKind.RATE_LIMIT and fault.retry_after < 1:
        return "needs retry_after of at least 1 s"
    if fault.kind is FaultKind.SERVER_ERROR and not 500 <= fault.status <= 599:
        return "needs a status from 500 to 599"
    return None


@dataclass(slots=True)
class _Armed:
    fault: Fault
    skip: int
    left: int


@dataclass(slots=True)
class FaultQueue:
    """Prepared faults, the first matching one fires."""

    _armed: list[_Armed] = field(default_factory=list[_Armed])

    def add(self, fault: Fault) -> None:
        """Arm a fault behind those already armed."""
        self._armed.append(_Armed(fault=fault, skip=fault.skip, left=fault.times))

    def take(
        self, target: str, *, event: bool = False, account: str = "", params: Mapping[str, Any] | None = None
    ) -> Fault | None:
        """The fault that fires for this request or event, counted down; None if there is none."""
        for armed in self._armed:
            if armed.fault.event is not event or not armed.fault.matches(target, account, params or {}):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            armed.left -= 1
            if not armed.left:
                self._armed.remove(armed)
            return armed.fault
        return None

    @property
    def pending(self) -> list[Fault]:
        """Faults that have not fired as often as they were meant to."""
        return [armed.fault for armed in self._armed]

    def clear(self) -> None:
        """Disarm everything."""
        self._armed.clear()
