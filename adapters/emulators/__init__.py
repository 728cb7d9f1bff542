"""Emulated chat platforms on loopback, good enough that unmodified client libraries work against them.

Each platform has a wire face, which is what its clients speak, and a control face, which is what people and faults do.
They import no client library, so that they cannot share a bug with one.
"""

from __future__ import annotations

from adapters.emulators.client import ControlRefused, EmulatorClient
from adapters.emulators.clock import Clock, FlowingClock, ManualClock
from adapters.emulators.errors import AddressRefused, EmulatorError, NotKnown, NotPossible, ViolationsFound
from adapters.emulators.faults import Fault, FaultKind
from adapters.emulators.journal import Entry, EntryKind, Exchange, Journal

__all__ = [
    "AddressRefused",
    "Clock",
    "ControlRefused",
    "EmulatorClient",
    "EmulatorError",
    "Entry",
    "EntryKind",
    "Exchange",
    "Fault",
    "FaultKind",
    "FlowingClock",
    "Journal",
    "ManualClock",
    "NotKnown",
    "NotPossible",
    "ViolationsFound",
]
