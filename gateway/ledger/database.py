"""What the gateway's own tables need of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from runtime.store.writer import Result, Statement

Row: TypeAlias = tuple[Any, ...]
Unit: TypeAlias = Sequence[Statement]


class Rows(Protocol):
    """What can be read of a database, beside its owner or by it."""

    async def read(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """The rows of one query, as committed."""
        ...


class Database(Rows, Protocol):
    """The store's database. It serves the gateway's tables and the runtime's with one writer."""

    async def write(self, unit: Unit) -> list[Result]:
        """Run the unit as one transaction; on return it is on disk. CheckpointError: nothing of it was written, or, for
        CommitUnknown, it may have been."""
        ...
