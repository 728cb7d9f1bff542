"""What intake needs of its neighbours, no more: sessions, an outbox to wake, and the platforms' adapters."""

from __future__ import annotations

from typing import Protocol

from adapters.contract import Adapter, Place
from runtime.protocol.approvals import Grant
from runtime.protocol.checkpoint import Checkpoint, Receipt
from runtime.protocol.ops import Op


class Sessions(Protocol):
    """Durable sessions by id; `runtime.host.Runtime` is one."""

    async def submit(self, session_id: str, op: Op, submission_id: str | None = None) -> Receipt:
        """Ask something of a session; on return what the receipt says is durable."""
        ...

    async def peek(self, session_id: str) -> Checkpoint | None:
        """The newest stored state, or None if there is no such session."""
        ...


class GrantList(Protocol):
    """Stored "allow for this session"; `runtime.store.CheckpointStore` is one."""

    async def grants(self, session_id: str) -> tuple[Grant, ...]:
        """Grants of the session that are not revoked."""
        ...


class Outbox(Protocol):
    """Sends planned deliveries."""

    def wake(self, place: Place, *, repairs: bool = False) -> None:
        """Something was planned for the chat, and is committed; with `repairs`, a message of ours is to be edited."""
        ...


class Platforms(Protocol):
    """The adapters that run."""

    def adapter(self, platform: str, account: str) -> Adapter | None:
        """The adapter of one of our accounts, or None while it is not there."""
        ...
