"""The way out: journals read by cursor, parts planned as rows, one lane per chat that sends them."""

from gateway.delivery.border import (
    CONSUMER,
    Asking,
    Decider,
    Destination,
    Directory,
    Journal,
    Neighbours,
    Platforms,
)
from gateway.delivery.directory import LedgerDirectory
from gateway.delivery.service import Delivery

__all__ = [
    "CONSUMER",
    "Asking",
    "Decider",
    "Delivery",
    "Destination",
    "Directory",
    "Journal",
    "LedgerDirectory",
    "Neighbours",
    "Platforms",
]
