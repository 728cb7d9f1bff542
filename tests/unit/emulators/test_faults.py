"""Prepared faults: which request or event they hit, how often, and which make no sense."""

from __future__ import annotations

import pytest

from adapters.emulators import Fault, FaultKind
from adapters.emulators.faults import FaultQueue


def test_fault_fires_as_often_as_it_was_meant_to() -> None:
    """A fault for two times fires twice after letting one pass, and is then gone."""
    queue = FaultQueue()
    queue.add(Fault(target="sendMessage", kind=FaultKind.DROP, times=2, skip=1))
    hits = [queue.take("sendmessage") is not None for _ in range(4)]
    assert hits == [False, True, True, False]
    assert queue.pending == []


def test_first_armed_fires_first() -> None:
    """Of two faults for the same method the one armed earlier fires first."""
    queue = FaultQueue()
    queue.add(Fault(target="*", kind=FaultKind.DROP))
    queue.add(Fault(target="sendMessage", kind=FaultKind.SERVER_ERROR, status=500))
    assert [queue.take("sendMessage").kind for _ in range(2)] == [FaultKind.DROP, FaultKind.SERVER_ERROR]


def test_fault_is_meant_for_one_account_and_some_parameters() -> None:
    """A fault bound to an account and to parameters leaves everything else alone."""
    queue = FaultQueue()
    queue.add(Fault(target="sendMessage", kind=FaultKind.DROP, account="42", where={"chat_id": 7}))
    assert queue.take("sendMessage", account="43", params={"chat_id": 7}) is None
    assert queue.take("sendMessage", account="42", params={"chat_id": 8}) is None
    assert queue.take("sendMessage", account="42", params={"chat_id": 7, "text": "x"}) is not None


def test_events_and_requests_do_not_share_faults() -> None:
    """A fault for an event of a name does not hit a request of that name."""
    queue = FaultQueue()
    queue.add(Fault(target="message", kind=FaultKind.DUPLICATE, event=True))
    assert queue.take("message") is None
    assert queue.take("message", event=True) is not None


@pytest.mark.parametrize(
    ("details", "problem"),
    [
        ({"kind": FaultKind.DUPLICATE}, "only events"),
        ({"kind": FaultKind.DROP, "event": True}, "an event can only"),
        ({"kind": FaultKind.RATE_LIMIT, "applied": True}, "refuses before it accepts"),
        ({"kind": FaultKind.DELAY}, "seconds > 0"),
        ({"kind": FaultKind.RATE_LIMIT, "retry_after": 0}, "retry_after"),
        ({"kind": FaultKind.SERVER_ERROR, "status": 404}, "from 500 to 599"),
        ({"kind": FaultKind.DROP, "times": 0}, "at least 1"),
    ],
)
def test_contradictions_are_refused(details: dict[str, object], problem: str) -> None:
    """A fault that could not happen is refused when it is made, naming the reason."""
    with pytest.raises(ValueError, match=problem):
        Fault(target="sendMessage", **details)
