"""Labels of a session, and the messages that wait at its boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Delivery(StrEnum):
    """How a message that arrives during a turn enters the conversation."""

    STEER = "steer"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Labels given when the session is created. They never change."""

    tenant_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    workspace_id: str | None = None
    workspace_label: str | None = None
    origin_label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A handle to a file that came with a message; never a URL. `size` is in bytes, `media_type` read from them.

    `path` is where the file was laid, relative to the session's workspace.
    """

    id: str
    name: str
    media_type: str
    size: int
    sha256: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """Somebody's text that came along as data; not words of the message's author."""

    source: str
    author: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where a message enters. Make one with `turn()`, `steer(turn_id)` or `queue()`."""

    kind: str
    turn_id: str | None = None

    @classmethod
    def turn(cls) -> Boundary:
        """It starts a turn of its own, now."""
        return cls(kind="turn")

    @classmethod
    def steer(cls, turn_id: str) -> Boundary:
        """It enters the turn `turn_id` between two steps."""
        return cls(kind="steer", turn_id=turn_id)

    @classmethod
    def queue(cls) -> Boundary:
        """It starts a turn once the turns before it have ended."""
        return cls(kind="queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message that is durable and has not entered yet. `id` is its submission id."""

    id: str
    boundary: Boundary
    author: str
    text: str
    principal: str | None = None
    quoted: tuple[Quoted, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    reply_to: str | None = None
    accepted_at_ms: int = 0
